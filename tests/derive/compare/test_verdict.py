"""What a change of cache classes did: from frames before and after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.cache.changes import groups_in, together
from nftop.derive.compare.settling import LEAST_S, MOST_S, SPAN_S
from nftop.derive.compare.verdict import Verdict, verdict_of
from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ROOT, IoWays, ResctrlTable
from nftop.store.history.rings import TickHistory
from tests.frames import SECOND_NS, START_NS, nic_drops, with_cells
from tests.rdt import group, in_cache
from tests.story import CHEAPER, Story, component, cost, word

WHY = Missing(Reason.SOURCE, "here is what to do")


@pytest.fixture(scope="module")
def cheaper() -> Verdict:
    return Story(shown=cost(CHEAPER)).verdict(150)


def test_a_class_that_got_more_cache_costs_less_a_packet(
    cheaper: Verdict, snapshot: SnapshotAssertion
) -> None:
    result = component(cheaper, "fwd")
    assert (result.word, result.groups, result.changed) == ("better", ("vpp",), True)
    assert result.why.startswith("CPP -1") and "bCPP -1" in result.why
    assert word(cheaper, "fwd", "packets_per_s").startswith("no difference")
    assert word(cheaper, "fwd", "llc_misses_per_packet") == snapshot
    assert word(cheaper, "vpp", "occupancy_bytes", "class") == "more"
    row = next(row for row in result.rows if row.metric.id == "cpp")
    assert row.before == pytest.approx(376, rel=0.01)
    assert row.change_ratio == pytest.approx(CHEAPER - 1, abs=0.01)
    assert row.n_before == 57 and 60 < row.n_after < 85
    assert not isinstance(row.spread_before, Missing) and 1 < row.spread_before < 6


def test_what_overlaps_stands_behind_what_was_changed(cheaper: Verdict) -> None:
    names = [(item.kind, item.name, item.changed) for item in cheaper.sections]
    assert names == [
        ("class", "vpp", True),
        ("nf", "fwd", True),
        ("class", "ovs", False),
        ("nf", "vpp", False),
    ]
    assert component(cheaper, "vpp").word == "no difference"
    assert word(cheaper, "vpp", "cpp").startswith("inconclusive"), "it is not busy all the time"
    assert ROOT not in [item.name for item in cheaper.sections], "it has no way in common with them"


def test_the_time_in_which_occupancy_settles_is_left_out(cheaper: Verdict) -> None:
    slow = Story(shown=cost(CHEAPER), settle_s=6.0).verdict(150)
    assert LEAST_S < cheaper.left_out_s < slow.left_out_s < MOST_S
    assert cheaper.settled and not cheaper.over
    early = Story(shown=cost(CHEAPER)).verdict(66)
    assert not early.settled and early.left_out_s == pytest.approx(6, abs=0.2)
    assert component(early, "fwd").word == "settling"
    assert [row.n_after for item in early.sections for row in item.rows if row.n_after] == []


def test_it_becomes_final(cheaper: Verdict) -> None:
    story = Story(shown=cost(CHEAPER))
    later, last = story.verdict(230), story.verdict(300)
    assert later.over and not cheaper.over
    assert later.sections == last.sections
    row = next(row for row in component(last, "fwd").rows if row.metric.id == "cpp")
    assert SPAN_S - 2 <= row.n_after <= SPAN_S


@pytest.mark.parametrize("seed", range(4))
def test_noise_alone_is_no_difference(seed: int) -> None:
    verdict = Story(seed=seed, noise=0.03, full=frozenset({"fwd", "vpp"})).verdict(150)
    for name in ("fwd", "vpp"):
        assert component(verdict, name).word == "no difference"


def test_a_neighbour_that_came_shortly_before_is_what_was_present() -> None:
    """It cost a fifth since 40 s before the change, which gives that back."""

    def shown(tick: int) -> Mapping[str, Mapping[str, float]]:
        return {"fwd": {"cpp": 376.0 * (1.2 if 60 <= tick < 100 else 1.0)}}

    verdict = Story(shown=shown, changed_at=100).verdict(180)
    assert word(verdict, "fwd", "cpp") == "better"
    assert component(verdict, "fwd").rows[1].change_ratio == pytest.approx(1 / 1.2 - 1, abs=0.01)


@pytest.mark.parametrize("ratio", [0.7, 1.4])
def test_where_the_load_moved_nothing_is_reported_of_a_packets_cost(ratio: float) -> None:
    shown = cost(CHEAPER, rx_packets_per_s=14.892e6 * ratio)
    verdict = Story(shown=shown, full=frozenset()).verdict(150)
    result = component(verdict, "fwd")
    assert result.word == "inconclusive"
    assert result.why == f"load moved {result.why.split()[-1]}"
    assert float(result.why.split()[-1].rstrip("%")) == pytest.approx(100 * (ratio - 1), abs=1.0)
    assert {row.word for row in result.rows if row.n_after} == {"inconclusive"}


def test_a_core_that_is_busy_all_the_time_takes_what_it_can() -> None:
    shown = cost(CHEAPER, rx_packets_per_s=14.892e6 / CHEAPER)
    result = component(Story(shown=shown).verdict(150), "fwd")
    assert result.word == "better" and "Mpps +17" in result.why


@pytest.mark.parametrize("more", [1.2e6, -1.2e6])
def test_drops_follow_the_load_where_cores_are_full(more: float) -> None:
    """They forward as many as before; what is offered beyond that, more or less, is dropped."""

    def shown(tick: int) -> Mapping[str, Mapping[str, float]]:
        return {"fwd": nic_drops(2e6 + (more if tick >= 60 else 0.0))}

    verdict = Story(shown=shown).verdict(150)
    assert word(verdict, "fwd", "drop_packets_per_s").startswith("inconclusive: load moved")
    assert word(verdict, "fwd", "packets_per_s").startswith("no difference")
    assert component(verdict, "fwd").word == "no difference"


def test_drops_are_offered_too() -> None:
    """Before, a tenth was dropped; after, none is: the load is what it was."""

    def shown(tick: int) -> Mapping[str, Mapping[str, float]]:
        rx, drop = (9e6, 1e6) if tick < 60 else (10e6, 0.0)
        by = 1.0 if tick < 60 else CHEAPER
        now = {"rx_packets_per_s": rx, **nic_drops(drop), "cpp": 376.0 * by}
        return {"fwd": now, "vpp": now}

    def unreported(one: Frame) -> Frame:
        """Both were busy before; of `vpp`, which dropped, it is not known after."""
        before = one.monotonic_ns < START_NS + 60 * SECOND_NS
        full = {"fwd": before, "vpp": True if before else None}
        return replace(one, nfs=tuple(replace(nf, saturated=full[nf.name]) for nf in one.nfs))

    frames, history = [unreported(item) for item in Story(shown=shown).frames(150)], TickHistory()
    for frame in frames:
        history.append(frame)
    verdict = verdict_of(history.window(frames[-1]), START_NS + 60 * SECOND_NS, ("vpp", "ovs"))
    for name in ("fwd", "vpp"):
        assert word(verdict, name, "packets_per_s") == "better"
        assert word(verdict, name, "drop_packets_per_s") == "better"
        assert word(verdict, name, "cpp") == "better", "at most so much after, and that is less"
        assert component(verdict, name).word == "better"


def test_empty_polls_are_no_cost_of_a_packet(snapshot: SnapshotAssertion) -> None:
    verdict = Story(shown=cost(CHEAPER), full=frozenset()).verdict(150)
    assert word(verdict, "fwd", "cpp") == snapshot
    assert word(verdict, "fwd", "ipc").startswith("inconclusive: empty polls")
    assert word(verdict, "fwd", "busy_cpp") == "better"
    assert component(verdict, "fwd").word == "better"


def test_a_cost_that_empty_polls_may_be_in_is_a_bound() -> None:
    result = Story(full=frozenset({"fwd"})).verdict(100)
    bounds = {row.metric.id: row.bounds for row in component(result, "vpp").rows}
    assert bounds["cpp"] == (True, True)
    assert bounds["busy_cpp"] == bounds["packets_per_s"] == (False, False)
    assert {row.bounds for row in component(result, "fwd").rows} == {(False, False)}


def test_a_core_that_drops_once_is_not_known_to_be_busy_all_the_time(
    snapshot: SnapshotAssertion,
) -> None:
    def shown(tick: int) -> Mapping[str, Mapping[str, float]]:
        drops = 2e6 if tick in (50, 80) else 0.0
        return {"vpp": {"rx_packets_per_s": 10e6, **nic_drops(drops)}}

    def unreported(one: Frame) -> Frame:
        return replace(one, nfs=tuple(replace(nf, saturated=None) for nf in one.nfs))

    frames, history = [unreported(item) for item in Story(shown=shown).frames(100)], TickHistory()
    for frame in frames:
        history.append(frame)
    result = verdict_of(history.window(frames[-1]), START_NS + 60 * SECOND_NS, ("vpp", "ovs"))
    rows = {row.metric.id: row for row in component(result, "vpp").rows}
    assert rows["cpp"].bounds == (True, True)
    assert rows["cpp"].why == snapshot


def test_a_network_function_that_reports_too_little_reports_why(
    snapshot: SnapshotAssertion,
) -> None:
    def silent(one: Frame) -> Frame:
        bare = {"cpp": WHY, "busy_cpp": WHY}
        return replace(
            one,
            nfs=tuple(
                replace(nf, saturated=None, cpp_clock=None, readings={**nf.readings, **bare})
                for nf in one.nfs
            ),
        )

    story = Story()
    frames, history = [silent(item) for item in story.frames(150)], TickHistory()
    for frame in frames:
        history.append(frame)
    verdict = verdict_of(history.window(frames[-1]), frames[60].monotonic_ns, ("vpp",))
    assert word(verdict, "fwd", "cpp") == f"no number: {WHY.message}"
    assert component(verdict, "fwd").word == "no difference", "of its packets"
    assert word(verdict, "fwd", "ipc") == snapshot


def test_too_few_samples_before() -> None:
    verdict = Story(changed_at=8, shown=cost(CHEAPER, 8)).verdict(80)
    assert component(verdict, "fwd").word == "too few samples"


def test_misses_by_packet_where_every_core_reports() -> None:
    story = Story(shown=cost(CHEAPER))
    last = None
    again = Story()
    for tick, frame in enumerate(story.frames(200), start=1):
        # Counted in every third tick, and held in between.
        misses = 4.0 + (tick // 3) % 7 / 100 - (1.0 if tick >= 60 else 0.0)
        last = with_cells(frame, "llc_misses_per_packet", {1: misses, 2: misses})
        again.history.append(last)
    assert last is not None
    verdict = verdict_of(again.history.window(last), START_NS + 60 * SECOND_NS, ("vpp",))
    row = next(
        row for row in component(verdict, "fwd").rows if row.metric.id == "llc_misses_per_packet"
    )
    assert row.word == "better"
    assert row.n_before == 15 and row.n_after < 50, "what is held is not counted again"
    assert row.change_ratio == pytest.approx(-0.25, abs=0.01)


# Which change


def of_programs(cpus: tuple[int, ...], ticks: int) -> Verdict:
    """On a class without network functions: its mask in L3 0 shrinks, and CPU 4's IPC falls.

    CPU 4 is beside that cache, CPU 6 beside the other one: its IPC rises.
    """

    def tables(tick: int, one: ResctrlTable) -> ResctrlTable:
        mine = group("vm", 3, cpus, in_cache(0, 0x00F if tick < 60 else 0x003), in_cache(1, 0x00F))
        groups = (
            replace(own, cpus=tuple(cpu for cpu in own.cpus if cpu not in cpus))
            for own in one.groups
        )
        return replace(one, groups=(*groups, mine))

    story = Story(tables=tables, changed_at=999)
    created = []
    for tick, frame in enumerate(story.frames(ticks), start=1):
        noise, step = tick % 5 / 100, 0.3 if tick >= 60 else 0.0
        busy = with_cells(frame, "cpu_time_ratio", {4: 1.0, 6: 1.0})
        created.append(with_cells(busy, "ipc", {4: 1.0 + noise - step, 6: 2.0 + noise + step}))
    again = Story()
    for item in created:
        again.history.append(item)
    last = together(created[-1].noticed)[-1]
    return verdict_of(again.history.window(created[-1]), last.at_ns, groups_in(last.changes))


@pytest.mark.parametrize(
    ("cpus", "printed"),
    [((4,), "less"), ((4, 6), "less"), ((6,), "no number: no CPU at this cache")],
)
def test_a_class_without_network_functions_has_the_ipc_of_its_cpus_at_the_cache(
    cpus: tuple[int, ...], printed: str
) -> None:
    result = of_programs(cpus, 150)
    assert result.groups == ("vm",)
    assert word(result, "vm", "ipc", "class") == printed, "of what nobody knows the work of"
    assert (component(result, "vm", "class").word == "less") == (printed == "less")


def test_what_has_no_sample_after_the_change_yet_is_settling_alone() -> None:
    result = of_programs((4,), 62)
    row = next(item for item in component(result, "vm", "class").rows if item.metric.id == "ipc")
    assert (row.word, row.why, row.n_after) == ("settling", "", 0)
    assert isinstance(row.after, Missing)
    assert row.after.reason is Reason.WARMING


def test_cpus_that_move_are_about_both_classes_and_the_cache_next_to_them() -> None:
    def tables(tick: int, one: ResctrlTable) -> ResctrlTable:
        def cpus(name: str, own: tuple[Cpu, ...]) -> tuple[Cpu, ...]:
            rest = tuple(cpu for cpu in own if cpu != 5)
            return (*rest, Cpu(5)) if name == ("vpp" if tick >= 60 else ROOT) else rest

        return replace(
            one, groups=tuple(replace(own, cpus=cpus(own.name, own.cpus)) for own in one.groups)
        )

    frame = (story := Story(tables=tables, changed_at=999)).last(150)
    last = together(frame.noticed)[-1]
    result = verdict_of(story.history.window(frame), last.at_ns, groups_in(last.changes))
    assert result.groups == (ROOT, "vpp")
    assert [item.name for item in result.sections if item.kind == "class"] == [ROOT, "vpp", "ovs"]


def test_ways_of_io_are_about_every_class_in_use() -> None:
    def tables(tick: int, one: ResctrlTable) -> ResctrlTable:
        bits = 0xF00 if tick >= 60 else 0xC00
        domains = [replace(item, io=IoWays(Cbm(bits, 12), "register")) for item in one.domains]
        return replace(one, domains=tuple(domains))

    frame = (story := Story(tables=tables, changed_at=999)).last(150)
    last = together(frame.noticed)[-1]
    result = verdict_of(story.history.window(frame), last.at_ns, groups_in(last.changes))
    assert set(result.groups) == {"ovs", ROOT, "vpp"}
    assert {item.name for item in result.sections if item.kind == "nf"} >= {"vpp"}
