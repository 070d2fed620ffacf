"""Pure, monotonic, closed form, on hosts of any size."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nftop.cli.main import build_parser
from nftop.model.struct import replace
from nftop.papers.table import papers
from nftop.sim import processor, scenario
from nftop.sim.events import count, factors_of
from nftop.sim.layout import FULL_CPUS
from nftop.sim.model import Model, host_of, model_of
from nftop.sim.workloads import INDEX
from nftop.sources.simulated import simulated_host
from nftop.uarch.table import Encoding, PmuTerms

DAY = 86_400_000_000_000
CYCLES = Encoding(0, 0)
S = 1_000_000_000
times = st.one_of(st.integers(0, 10 * DAY), st.integers(0, 130 * S))
gaps = st.one_of(st.integers(0, 1000), st.integers(0, 3 * S), st.integers(0, DAY))


@functools.cache
def model(name: str = "default", cpus: int = FULL_CPUS) -> Model:
    return model_of(scenario.load(name), cpus)


@settings(max_examples=200)
@given(name=st.sampled_from(scenario.names()), t_ns=times, gap_ns=gaps)
def test_no_counter_ever_steps_back(name: str, t_ns: int, gap_ns: int) -> None:
    before, after = model(name).counts(t_ns), model(name).counts(t_ns + gap_ns)
    assert (after >= before).all()


@given(t_ns=times)
def test_the_same_time_gives_the_same_counts(t_ns: int) -> None:
    once = model().counts(t_ns)
    model().counts(t_ns // 2)
    assert (model().counts(t_ns) == once).all()
    assert (model_of(scenario.load("default"), FULL_CPUS).counts(t_ns) == once).all()


@settings(max_examples=100)
@given(name=st.sampled_from(scenario.names()), t_ns=times)
def test_counts_keep_to_what_hardware_could_do(name: str, t_ns: int) -> None:
    exact = model(name).exact(t_ns)
    of = {quantity: exact[:, index] for quantity, index in INDEX.items()}
    slack = 1 + 1e-9 * t_ns  # a nanosecond's worth of rounding a second
    seconds = t_ns / S
    assert (of["cycles"] <= model(name).frequencies[0].hz * seconds + slack).all()
    assert (of["cycles"] <= of["core_clocks"] + slack).all()
    assert (of["lone_ref_cycles"] <= of["ref_cycles"] + slack).all()
    assert (of["instructions"] <= 4 * of["cycles"] + slack).all()
    assert (of["retire_slots"] <= of["uops_issued"] + slack).all()
    assert (of["stalls_memory"] <= of["stalls_total"] + slack).all()
    assert (of["work_cycles"] <= of["tsc"] + slack).all()
    spent = of["user_s"] + of["system_s"] + of["softirq_s"]
    assert (spent <= seconds * (1 + 1e-9)).all()
    assert (of["run_ns"] + of["wait_ns"] <= t_ns * (1 + 1e-9)).all()


def test_it_starts_at_zero_and_not_before() -> None:
    assert not model().counts(0).any()
    with pytest.raises(ValueError, match="starts at 0 ns, not at -1"):
        model().counts(-1)


def test_a_swing_is_nothing_over_whole_periods_however_late() -> None:
    cpu = model().layout.placed[0].cpus[0]
    packets = [model().exact(t)[cpu, INDEX["packets"]] for t in (5 * S, 25 * S, 20 * DAY + 5 * S)]
    assert packets[1] - packets[0] == pytest.approx(20 * 34.6e6, rel=1e-12)
    assert packets[2] - packets[0] == pytest.approx(20 * DAY / S * 34.6e6, rel=1e-12)


@pytest.mark.parametrize("cpus", [2, 3, 4, 5, 7, 16, 64, 87, 88, 89, 176, 511, 512])
@pytest.mark.parametrize("name", ["default", "noisy", "sibling"])
def test_hosts_of_any_size(name: str, cpus: int) -> None:
    layout = model(name, cpus).layout
    topology = layout.topology
    assert [info.cpu for info in topology.cpus] == list(range(cpus))
    assert topology.core_count == (cpus + 1) // 2
    assert len(topology.packages) == (1 if cpus == 2 else 2)
    for info in topology.cpus:
        for other in info.siblings:
            assert topology.cpus[other].siblings == (info.cpu,)
            assert topology.cpus[other].core == info.core
            assert topology.cpus[other].package == info.package
    busy = [cpu for placed in layout.placed for cpu in placed.cpus]
    assert len(busy) == len(set(busy)) > 0
    assert not set(busy) & set(layout.housekeeping.values())
    assert {cpu for l3 in topology.l3 for cpu in l3.cpus} == set(range(cpus))
    assert len({placed.name for placed in layout.placed}) == len(layout.placed)
    counts = model(name, cpus).counts(S)
    assert counts.shape == (cpus, len(INDEX))
    assert (counts[busy, INDEX["run_ns"]] > 0).all()


def test_the_full_host_is_a_dual_e5_2699_v4() -> None:
    topology = model().layout.topology
    assert topology.core_count == 44
    assert [cache.size_bytes for cache in topology.l3] == [55 << 20] * 2
    assert [cache.ways for cache in topology.l3] == [20, 20]
    threads = sum(len(placed.cpus) for placed in model().layout.placed)
    assert threads == sum(task.threads for task in model().scenario.tasks)


def test_numbers_of_the_paper_run_on_its_processor() -> None:
    """But for SST-BF, which no E5 has; its scenarios have numbers of their own."""
    usual = processor.load()
    cpu = papers()["cpus"]["E5-2699v4"]
    assert (usual.title, usual.uarch, usual.base_hz) == (cpu["title"], cpu["uarch"], cpu["core_hz"])
    assert (usual.tsc_hz, usual.has_epp, usual.high) == (cpu["core_hz"], False, frozenset())
    others = {name for name in scenario.names() if scenario.load(name).processor != usual}
    assert others == {"sst-bf", "lowcore"}
    assert all("assum" in scenario.load(name).assumes for name in others)


def test_a_larger_host_runs_more_of_everything() -> None:
    assert len(model(cpus=512).layout.placed) == 5 * len(model().layout.placed)


@pytest.mark.parametrize("cpus", [-1, 0, 1, 513])
def test_no_host_of_impossible_size(cpus: int) -> None:
    with pytest.raises(ValueError, match=f"has 2 to 512 CPUs, not {cpus}"):
        model_of(scenario.load("default"), cpus)


def test_one_count_by_encoding() -> None:
    poller = model().layout.placed[0].cpus[0]
    assert count(model(), CYCLES, poller, 7 * S) == 7 * 2_200_000_000
    assert count(model(), Encoding(4, 0x3C), poller, 7 * S) == 7 * 2_200_000_000
    assert count(model(), PmuTerms("msr", "tsc"), poller, 7 * S) == 7 * 2_200_000_000
    assert factors_of(Encoding(4, 0x3C, 1)) is None
    with pytest.raises(KeyError, match="no event"):
        count(model(), Encoding(4, 0xFFFF), poller, S)


@pytest.mark.parametrize(
    ("event", "quantity"),
    [
        (PmuTerms("cpu", "event=0x3c,any=1"), "core_clocks"),
        (PmuTerms("cpu", "event=0x0d,umask=0x01,any=1"), "core_recovery_cycles"),
        (PmuTerms("cpu", "event=0x9c,umask=0x01,cmask=4"), "cycles_none_delivered"),
        (PmuTerms("cpu", "event=0xc3,umask=1,edge,cmask=1"), "machine_clears"),
        (PmuTerms("msr", "aperf"), "cycles"),
        (PmuTerms("cpu", "event=0x3c,colour=1"), None),
        (PmuTerms("cpu", "event=0x3d"), None),
        (PmuTerms("uncore_imc", "event=0x4,umask=0xc"), None),
    ],
)
def test_events_in_the_words_of_a_pmu(event: PmuTerms, quantity: str | None) -> None:
    assert factors_of(event) == (None if quantity is None else {quantity: 1.0})


WRITES = ("itom", "rfo", "itomcachenear")


def test_memory_and_pcie_per_packet_are_the_paper_s() -> None:
    """Table 6: 1484 MB/s at 48.0 Mpps; Table 7: 4,805 and 4,619 MB/s of 64-byte transactions."""
    placed = next(item for item in model().layout.placed if item.name == "vpp")
    rates = model().steady[0, placed.cpus[0]]
    rate = {quantity: rates[index] for quantity, index in INDEX.items()}
    scale = 48.0e6 / rate["packets"]
    memory = 64 * (rate["cas_reads"] + rate["cas_writes"]) * scale
    assert memory == pytest.approx(1484e6, rel=1e-3)
    writes = sum(rate[f"{kind}_{how}"] for kind in WRITES for how in ("hit", "miss"))
    reads = rate["pcirdcur_hit"] + rate["pcirdcur_miss"]
    assert 64 * writes * scale == pytest.approx(4805e6, rel=0.005)
    assert 64 * reads * scale == pytest.approx(4619e6, rel=0.005)


def test_a_core_runs_while_one_of_its_threads_does_or_both() -> None:
    per_s = model().steady[0]
    for info in model().layout.topology.cpus:
        lone = per_s[[info.cpu, *info.siblings], INDEX["lone_ref_cycles"]].sum()
        own = per_s[info.cpu]
        both = own[INDEX["ref_cycles"]] - own[INDEX["lone_ref_cycles"]]
        clocks = own[INDEX["core_clocks"]]
        assert lone + both == pytest.approx(clocks, rel=1e-9)


def test_a_core_s_events_are_whole_where_only_one_thread_polls() -> None:
    """With hyper-threading the formulas sum both siblings and halve what counts the core."""
    per_s = model().steady[0]
    poller = next(item for item in model().layout.placed if item.name == "vpp").cpus[0]
    (sibling,) = model().layout.topology.cpus[poller].siblings
    both = per_s[poller] + per_s[sibling]
    clocks = both[INDEX["core_clocks"]] / 2
    assert clocks == pytest.approx(2.2e9, rel=1e-9)
    assert both[INDEX["retire_slots"]] / (4 * clocks) == pytest.approx(0.574, abs=2e-4)
    assert both[INDEX["core_recovery_cycles"]] / 2 == both[INDEX["recovery_cycles"]]
    assert np.isfinite(per_s).all()


def test_a_task_without_room_slows_nobody_down() -> None:
    small, large = (model_of(scenario.load("noisy"), cpus) for cpus in (16, 88))
    assert "neighbour" not in {placed.task.name for placed in small.layout.placed}
    for model, slower in ((small, False), (large, True)):
        cpu = next(item.cpus[0] for item in model.layout.placed if item.task.name == "vpp")
        cycles = [
            (model.counts((at + 1) * S) - model.counts(at * S))[cpu, INDEX["packets"]]
            for at in (40, 80)
        ]
        assert (cycles[1] < 0.95 * cycles[0]) == slower


@pytest.mark.parametrize(
    ("name", "processor", "cpus", "options"),
    [
        ("default", "", None, ""),
        ("noisy", "e5-2699v4", 88, "--scenario noisy"),
        ("default", "gold-6230n", None, "--host gold-6230n"),
        ("sst-bf", "gold-6230n", 80, "--scenario sst-bf"),
        ("sst-bf", "e5-2699v4", 24, "--scenario sst-bf --host e5-2699v4 --cpus 24"),
    ],
)
def test_its_command_line_gives_the_same_host_again(
    name: str, processor: str, cpus: int | None, options: str
) -> None:
    first = simulated_host(name, cpus, processor=processor).host
    assert first.program == f"nftop demo {options}".rstrip()
    again = build_parser(demo=True).parse_args(list(first.demo_options))
    host = simulated_host(again.scenario, again.simulated_cpus, processor=again.simulated_host).host
    assert host == first and host.name == "demo"
    named = simulated_host(name, cpus, processor=processor, name="edge-07.example_1")
    again = build_parser(demo=True).parse_args(list(named.host.demo_options))
    assert again.host_name == named.host.name == host_of(named.world.now().rdt.model).name
    assert named.host.program.startswith(first.program.partition(" --cpus")[0])
    assert replace(first, simulated=False).program == "nftop"


@pytest.mark.parametrize(
    "options",
    [
        ("cat", "reset"),
        ("--scenario", "noisy; reboot"),
        ("--scenario", "--help"),
        ("--scenario",),
        ("--cpus", "8", "--cpus", "9"),
        ("--cpus", "8x"),
        ("--host-name", "-h"),
        ("--pcm", "http://127.0.0.1:1"),
        ("--scenario", "noisy", "cat"),
    ],
)
def test_options_of_a_hostile_recording_are_no_command(options: tuple[str, ...]) -> None:
    host = replace(simulated_host("noisy", 16).host, demo_options=options)
    assert host.program == "nftop demo"
