"""Classes that change: counts stay cumulative and exact, and what is taken back is as it was."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nftop.control.backend import CLASSES
from nftop.control.simulated import simulated_gates
from nftop.model.change import Cell, SetSchemata, State, difference
from nftop.model.column import Floats
from nftop.model.missing import Missing
from nftop.model.rdt.rdt import ROOT
from nftop.sim import scenario, workloads
from nftop.sim.classes import numbered
from nftop.sim.model import SETTLE_S, Model, model_of
from nftop.sim.rates import Now, rates_of
from nftop.sim.rdt import SENSITIVITY, Rdt, changed, rdt_of, resctrl_table, value
from nftop.sim.workloads import INDEX
from tests.sim.hosts import Frozen, S
from tests.sim.hosts import value as column

NAMES = ("default", "noisy")
LONG_S = 40 * SETTLE_S  # when all has settled: e^-40


@functools.cache
def first(name: str = "noisy", cpus: int = 16) -> Rdt:
    return rdt_of(model_of(scenario.load(name), cpus))


def cell(group: str, line: str, l3: int) -> Cell:
    return Cell("schemata", group, line, l3)


def after(rdt: Rdt, at_ns: int, state: State) -> Rdt:
    """With these cells."""
    return changed(rdt, at_ns, numbered(rdt.classes, state, (0, 1)))


def masks(rdt: Rdt, at_ns: int, **bits: int) -> Rdt:
    """With these masks in the first cache."""
    new = {cell(group, "L3", 0): f"{mask:x}" for group, mask in bits.items()}
    return after(rdt, at_ns, {**rdt.classes.state, **new})


def some_mask(draw: st.DrawFn) -> str:
    low = draw(st.integers(0, 10))
    return f"{((1 << draw(st.integers(low + 1, 11))) - 1) & ~((1 << low) - 1):x}"


class History(list[tuple[int, Rdt]]):
    """A host, and what it is after each of some changes; shown as those, since it is large."""

    operations: str = ""

    def __repr__(self) -> str:
        return self.operations


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Changes of masks, limits, CPUs, threads and groups."""
    rdt = first(draw(st.sampled_from(NAMES)))
    result, at_ns = History([(0, rdt)]), 0
    for number in range(draw(st.integers(1, 4))):
        at_ns += draw(st.sampled_from([0, 1, S // 3, 3 * S, 61 * S]))
        state = dict(rdt.classes.state)
        groups = [*rdt.classes.groups]
        group = draw(st.sampled_from(groups))
        operation = draw(st.sampled_from(["L3", "MB", "cpu", "task", "mkdir", "meter", "rmdir"]))
        if operation == "L3":
            state[cell(group, "L3", draw(st.integers(0, 1)))] = some_mask(draw)
        elif operation == "MB":
            state[cell(group, "MB", 0)] = str(10 * draw(st.integers(1, 10)))
        elif operation in ("cpu", "task"):
            owner = draw(st.sampled_from(sorted(c for c in state if c.kind == operation)))
            state[owner] = group
        elif operation == "mkdir":
            state |= {Cell("group", f"new{number}"): "", Cell("mode", f"new{number}"): "shareable"}
        elif operation == "meter":
            state[Cell("monitor", group, f"m{number}")] = ""
            state |= {
                c: f"{group}/m{number}"
                for c in state
                if c.kind == "cpu" and state[c] == group and group != ROOT
            }
        elif group != ROOT:
            state = {
                c: ROOT if c.kind in ("cpu", "task") and w.split("/")[0] == group else w
                for c, w in state.items()
                if c.group != group
            }
        changes = difference(rdt.classes.state, state)
        result.operations += f"{rdt.model.scenario.name} at {at_ns}: {changes}; "
        rdt = after(rdt, at_ns, state)
        result.append((at_ns, rdt))
    return result


@settings(max_examples=60, deadline=None)
@given(history=histories(), gaps_ns=st.lists(st.integers(0, 9 * S), min_size=1, max_size=6))
def test_counters_go_on_through_any_changes(history: History, gaps_ns: list[int]) -> None:
    rdt = history[-1][1]
    times = sorted({0, *(at for at, _ in history), *np.cumsum(gaps_ns).tolist()})
    exact = [rdt.model.exact(time) for time in times]
    for earlier, later in itertools.pairwise(exact):
        assert (later >= earlier - 1e-6 * np.maximum(earlier, 1)).all()
    counts = [rdt.model.counts(time) for time in times]
    assert all((later >= earlier).all() for earlier, later in itertools.pairwise(counts))
    for at_ns, then in history:
        # What was counted before a change is what it was without it, to the last bit.
        assert (rdt.model.exact(at_ns) == then.model.exact(at_ns)).all()
    # A rate never jumps at a change, so that what is seen across one is between what was and is.
    for at_ns, _ in history[1:]:
        before, behind = (rdt.model.rates(max(at_ns + d, 0))[0] for d in (-1, 1))
        if not any(abs(at_ns - start) <= 1 for start in (0, 60 * S)):
            assert np.allclose(before, behind, rtol=1e-5, atol=1.0)


@settings(max_examples=30, deadline=None)
@given(history=histories(), gap_ns=st.integers(0, 100 * S))
def test_every_group_is_within_the_cache_and_meters_what_its_cpus_move(
    history: History, gap_ns: int
) -> None:
    at_ns, rdt = history[-1]
    table = resctrl_table(rdt, at_ns + gap_ns)
    before = resctrl_table(rdt, at_ns)
    sizes = {int(item.id): item.size_bytes for item in rdt.model.layout.topology.l3}
    for l3, size in sizes.items():
        used = [
            number(cache.values["llc_occupancy"])
            for group in table.groups
            for cache in group.caches
            if cache.l3 == l3
        ]
        assert min(used) >= 0 and sum(used) <= size
    assert sorted(cpu for group in table.groups for cpu in group.cpus) == list(range(16))
    assert len({group.clos for group in table.groups}) == len(table.groups)
    inodes = [group.inode for group in table.groups]
    inodes += [monitor.inode for group in table.groups for monitor in group.monitors]
    assert len(set(inodes)) == len(inodes)
    moved = 0
    for group, old in zip(table.groups, before.groups, strict=True):
        for cache, was in zip(group.caches, old.caches, strict=True):
            delta = number(cache.values["mbm_total_bytes"]) - number(was.values["mbm_total_bytes"])
            assert delta >= 0
            moved += delta
        for monitor in group.monitors:
            for component, whole in zip(monitor.caches, group.caches, strict=True):
                assert (
                    number(component.values["llc_occupancy"])
                    <= number(whole.values["llc_occupancy"]) * 1.01 + 64
                )
    lines = rdt.model.counts(at_ns + gap_ns) - rdt.model.counts(at_ns)
    columns = [INDEX["cas_reads"], INDEX["cas_writes"]]
    assert moved == 64 * int(lines[:, columns].sum())


def number(reading: int | Missing) -> int:
    assert not isinstance(reading, Missing)
    return reading


@settings(max_examples=25, deadline=None)
@given(history=histories())
def test_what_is_taken_back_ends_where_it_began(history: History) -> None:
    start, (at_ns, rdt) = history[0][1], history[-1]
    back = after(rdt, at_ns + S, {**start.classes.state})
    settled_ns = at_ns + round(LONG_S * S) + 120 * S
    for now, then in zip(back.model.rates(settled_ns), start.model.rates(settled_ns), strict=True):
        assert np.allclose(now, then, rtol=1e-9, atol=1e-6)
    for group in start.classes.groups:
        for l3 in (0, 1):
            held = [value(item, group, l3, "llc_occupancy", settled_ns) for item in (back, start)]
            # A group that was made anew has another monitor, with which it breathes.
            assert held[0] == pytest.approx(held[1], rel=2 * start.model.scenario.swing, abs=64)


def test_a_change_to_what_it_is_changes_no_count() -> None:
    rdt = first("noisy", 88)
    same = after(rdt, 100 * S, rdt.classes.state)
    for t_ns in (100 * S, 101 * S, 500 * S):
        assert np.allclose(same.model.exact(t_ns), rdt.model.exact(t_ns), rtol=1e-12, atol=1e-3)


def test_counts_are_the_integral_of_the_rates() -> None:
    rdt = masks(first("noisy", 88), 100 * S, tenant=0x003)
    rdt = masks(rdt, 103 * S, vpp=0x3F0)
    model = rdt.model
    inside = [time_ns for time_ns in model.starts_ns if 100 * S < time_ns < 110 * S]
    assert len(inside) > 1, (
        "cores that become saturated, or no longer are, have begins of their own"
    )
    edges = sorted({*range(100 * S, 110 * S + 1, 10_000_000), *inside})
    total = np.zeros_like(model.steady[0])
    for begin, end in itertools.pairwise(edges):
        middle = (begin + end) // 2
        steady, swinging = model.rates(middle)
        angle = middle / S / model.scenario.period_s * 2 * np.pi
        total += (steady + swinging * np.sin(angle + model.phase)[:, None]) * ((end - begin) / S)
    assert np.allclose(model.exact(110 * S) - model.exact(100 * S), total, rtol=1e-5, atol=1.0)


def test_nothing_is_before_the_start_and_no_change_is_before_the_last() -> None:
    rdt = masks(first(), 5 * S, tenant=0x003)
    with pytest.raises(ValueError, match="starts at 0 ns, not at -1"):
        value(rdt, "tenant", 0, "llc_occupancy", -1)
    with pytest.raises(KeyError):
        value(rdt, "new", 0, "llc_occupancy", S)


def packets_per_s(model: Model, t_ns: int, task: str) -> float:
    return float(model.rates(t_ns)[0][cpus_of(model, task), INDEX["packets"]].sum())


def per_packet(model: Model, t_ns: int, task: str, what: str) -> float:
    rates: Floats = model.rates(t_ns)[0][cpus_of(model, task)].sum(axis=0)
    return float(rates[INDEX[what]] / rates[INDEX["packets"]])


def cpus_of(model: Model, task: str) -> list[int]:
    return [int(c) for placed in model.layout.placed if placed.name == task for c in placed.cpus]


def test_a_shrunk_neighbour_gives_its_victims_their_cache_and_packets_back() -> None:
    """The paper's neighbour took just under 6 % (Table 9); with masks of their own that is back."""
    loud = first("noisy", 88)
    rdt = masks(loud, 120 * S, tenant=0x003)
    quiet_ns, loud_ns, after_ns = 30 * S, 119 * S, 120 * S + round(5 * SETTLE_S * S)
    for task, lost in (("vpp", 0.10), ("ovs", 0.06), ("north", 0.06)):
        quiet, took, gave = (
            packets_per_s(rdt.model, t, task) for t in (quiet_ns, loud_ns, after_ns)
        )
        assert quiet / took == pytest.approx(1 + lost, rel=1e-6)
        assert gave == pytest.approx(quiet, rel=0.002)
        for what in ("llc_misses", "cas_reads", "stalls_memory", "work_cycles"):
            at = [per_packet(rdt.model, t, task, what) for t in (quiet_ns, loud_ns, after_ns)]
            assert at[2] < at[1] and at[0] < at[1]
            assert at[2] == pytest.approx(at[0], rel=0.1 if what != "llc_misses" else 0.7, abs=0.01)
        work = [per_packet(rdt.model, t, task, "instructions") for t in (quiet_ns, after_ns)]
        assert work[1] == pytest.approx(work[0], rel=0.02), "but for some empty polls"
    for group in ("vpp", "switch"):
        held = [value(rdt, group, 0, "llc_occupancy", t) for t in (loud_ns, 124 * S, after_ns)]
        assert held[0] < held[1] < held[2] and held[2] > 2 * held[0]
    tenant = [value(rdt, "tenant", 0, "llc_occupancy", t) for t in (loud_ns, 121 * S, after_ns)]
    capacity = rdt.classes.mask("tenant", 0).bytes(rdt.model.layout.topology.l3[0].size_bytes)
    assert tenant[0] > tenant[1] > capacity >= 0.8 * tenant[2], "it drains by and by"
    # In some seconds: as if more were offered, until it takes in all there is.
    at_once, half, end = (packets_per_s(rdt.model, t, "vpp") for t in (120 * S, 124 * S, after_ns))
    assert at_once == packets_per_s(rdt.model, loud_ns, "vpp")
    assert 1 - np.exp(-1) < (half - at_once) / (end - at_once) < 0.8
    times_ns = [120 * S + tenths * S // 10 for tenths in range(200)]
    missed = [rdt.model.rates(t)[0][cpus_of(rdt.model, "vpp"), INDEX["missed"]] for t in times_ns]
    ends = next(at for at, rates in enumerate(missed) if rates.max() < 1.0)
    assert 5 * 10 < ends < 12 * 10, "the cost falls for 12 s and more"
    assert all(rates.min() > 1.0 for rates in missed[: ends - 1])
    assert all(np.abs(rates).max() < 1.0 for rates in missed[ends:])
    tsc = rdt.model.scenario.processor.tsc_hz
    for where, working in ((ends - 2, True), (ends + 2, False)):
        rates = rdt.model.rates(times_ns[where])[0][cpus_of(rdt.model, "vpp"), INDEX["work_cycles"]]
        assert (rates >= tsc * (1 - 1e-9)).all() == working


def test_ways_of_its_own_do_it_too_and_more_ways_save_cycles() -> None:
    loud = first("noisy", 88)
    own = masks(loud, 120 * S, tenant=0x01E, vpp=0x7E0).model
    at_ns = 200 * S
    assert packets_per_s(own, at_ns, "vpp") == pytest.approx(42.0e6, rel=1e-3)
    usual = per_packet(loud.model, 30 * S, "vpp", "work_cycles")
    assert 0.85 * usual < per_packet(own, at_ns, "vpp", "work_cycles") < 0.97 * usual
    assert per_packet(own, at_ns, "vpp", "llc_misses") < per_packet(
        loud.model, 30 * S, "vpp", "llc_misses"
    )


def test_a_limit_on_bandwidth_slows_the_neighbour_and_nobody_else() -> None:
    loud = first("noisy", 88)
    state = {**loud.classes.state, cell("tenant", "MB", 0): "10"}
    model = after(loud, 120 * S, state).model
    at_ns = 120 * S + round(LONG_S * S)
    lines = [
        float(item.rates(at_ns)[0][cpus_of(item, "neighbour"), INDEX["cas_reads"]].sum())
        for item in (loud.model, model)
    ]
    assert lines[1] == pytest.approx(lines[0] / 10, rel=1e-9)
    assert packets_per_s(model, at_ns, "vpp") > packets_per_s(loud.model, at_ns, "vpp")
    fastest = workloads.load("memtester").bytes_per_cycle
    for name in workloads.names():
        work = workloads.slowed(workloads.load(name), 1 + 2 * SENSITIVITY[64])
        assert work.bytes_per_cycle < fastest / 10, "so that MBA slows no network function"


def test_a_poller_moved_to_the_neighbours_class_shares_its_lot() -> None:
    apart = masks(first("noisy", 88), 120 * S, tenant=0x003)
    cpu, *others = cpus_of(apart.model, "vpp")
    thread = apart.classes.on_cpu[cpu]
    at_ns = 200 * S + round(LONG_S * S)
    usual = apart.model.rates(at_ns)[0][:, INDEX["packets"]]
    for moved in (Cell("cpu", "", number=cpu), Cell("task", "", thread)):
        rdt = after(apart, 200 * S, {**apart.classes.state, moved: "tenant"})
        packets = rdt.model.rates(at_ns)[0][:, INDEX["packets"]]
        assert packets[cpu] < 0.95 * usual[cpu]
        assert packets[others] == pytest.approx(usual[others], rel=1e-6)
        index = rdt.classes.paths.index("tenant")
        assert cpu in rdt.stretches[-1].cpus[index]
        assert (cpu in rdt.classes.cpus("tenant")) == (moved.kind == "cpu")
        assert (int(thread.split("@")[0]) in rdt.classes.tasks("tenant")) == (moved.kind == "task")


@pytest.mark.parametrize("cpus", [2, 3, 8, 512])
def test_hosts_of_any_size_take_changes(cpus: int) -> None:
    rdt = first("noisy", cpus)
    present = [int(item.id) for item in rdt.model.layout.topology.l3]
    new = {cell(g, "L3", l3): "1" for g in rdt.classes.groups for l3 in present}
    after_all = changed(rdt, 90 * S, numbered(rdt.classes, {**rdt.classes.state, **new}, present))
    counts = [after_all.model.counts(t) for t in (90 * S, 91 * S, 400 * S)]
    assert (counts[2] >= counts[1]).all() and (counts[1] >= counts[0]).all()
    steady = after_all.model.steady[-1]
    assert np.isfinite(steady).all() and (steady >= 0).all()
    assert (np.abs(after_all.model.swinging) <= after_all.model.steady + 1e-6).all()


def test_numbers_are_the_lowest_free_ones() -> None:
    classes = first().classes
    state = {**classes.state, Cell("group", "a"): "", Cell("mode", "a"): "shareable"}
    one = numbered(classes, state, (0, 1))
    assert one.clos["a"] == len(classes.groups) and one.mask("a", 1).hex == "fffff"
    gone = {c: w for c, w in one.state.items() if c.group != "vpp" and w != "vpp"}
    two = numbered(one, {**gone, Cell("group", "b"): ""}, (0, 1))
    assert two.clos["b"] == classes.clos["vpp"] and two.inode("b") > one.inode("a")


def test_the_first_limits_hold_from_the_start() -> None:
    text = """
        title = "t"
        assumes = "a"
        period_s = 10
        swing = 0
        [[tasks]]
        name = "vm"
        kind = "vm"
        workload = "memtester"
        package = 0
        threads = 1
        [[groups]]
        name = "slow"
        clos = 1
        tasks = ["vm"]
        ways = 0x003
        mba_percent = 20
    """
    rdt = rdt_of(model_of(scenario.parse("t", text, "gold-6252n"), 8))
    same = after(rdt, S, rdt.classes.state)
    cpu = cpus_of(rdt.model, "vm")[0]
    now = Now({}, {}, hz=rdt.frequencies.hz)
    free = rates_of(rdt.model.scenario, rdt.model.layout, now)[0]
    assert rdt.model.steady[0, cpu, INDEX["cas_reads"]] == pytest.approx(
        free[cpu, INDEX["cas_reads"]] / 5
    )
    assert np.allclose(same.model.steady[-1], rdt.model.steady[-1])


def test_the_change_shows_in_frames_within_seconds() -> None:
    """Through nftop's own pipeline, by the gate: what the operator sees of it."""
    host = Frozen("noisy")
    gate = simulated_gates(host.simulated.world).gates[CLASSES]
    host.tick(0)
    host.tick(30 * S)
    quiet = seen(host)
    host.tick(79 * S)
    loud = seen(host)
    shrink = gate.propose([SetSchemata("tenant", "L3", ((0, 0x3),))])
    assert gate.apply(shrink, keep_within_s=None).receipt.outcome == "kept"
    host.tick(3 * S)
    soon = seen(host)
    host.tick(17 * S)
    after_all = seen(host)
    undo = gate.propose_undo()
    assert undo is not None
    assert gate.apply(undo[0], keep_within_s=None, undoes=undo[1]).receipt.outcome == "kept"
    host.tick(40 * S)
    undone = seen(host)
    assert loud["cpp"] > soon["cpp"] > after_all["cpp"]
    assert loud["packets"] < soon["packets"] < after_all["packets"]
    for what, within in (("packets", 0.01), ("ipc", 0.03), ("cpp", 0.03)):
        assert after_all[what] == pytest.approx(quiet[what], rel=within)
        assert undone[what] == pytest.approx(loud[what], rel=0.01)
    assert after_all["misses"] < 0.8 * loud["misses"]
    assert after_all["memory_bound"] < loud["memory_bound"] - 0.05


def seen(host: Frozen) -> dict[str, float]:
    """VPP in a frame of the second to come."""
    frame = host.tick(S)
    cpu = host.cpus_of("vpp")[0]
    columns = {
        "cpp": "cpp",
        "ipc": "ipc",
        "packets": "rx_packets_per_s",
        "misses": "llc_misses_per_packet",
        "memory_bound": "tma.memory_bound",
    }
    return {name: column(frame, metric, cpu) for name, metric in columns.items()}


def test_a_poller_that_is_no_longer_full_takes_no_more_than_a_whole_vector() -> None:
    """At once other vectors, gradually other packets: both at one size of a vector."""
    host = after(first(), 0, {**first().classes.state, Cell("cpu", "", "", 2): ROOT})
    host = after(host, 0, {**host.classes.state, cell(ROOT, "MB", 0): "10"})
    gone = {
        c: ROOT if c.kind in ("cpu", "task") and owner.split("/")[0] == "vpp" else owner
        for c, owner in host.classes.state.items()
        if c.group != "vpp"
    }
    host = after(host, 2, gone)
    for at_ns in (1, 3, 10**6, S, 5 * S):
        rates = host.model.rates(at_ns)[0]
        packets, frames = rates[:, INDEX["packets"]], rates[:, INDEX["frames"]]
        of_frame = packets[frames > 0] / frames[frames > 0]
        assert (of_frame <= 256 * (1 + 1e-9)).all() and len(of_frame)
