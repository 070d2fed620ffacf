"""The simulated host, one core of it looked at: level 3 and probes of what it runs."""

from __future__ import annotations

import pytest

from nftop.model.frame import CoreDetail, Frame
from nftop.model.ids import Cpu
from nftop.model.metrics.nodes import NODE_METRICS
from nftop.model.metrics.probes import CORE_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.sim import workloads
from nftop.sim.workloads import INDEX
from nftop.sources.base import Focusing
from nftop.sources.simulated import SimulatedHost
from nftop.uarch.table import NOT_LARGEST
from tests.sim.hosts import Frozen, S

PERIOD = 20 * S


def set_focus(host: SimulatedHost, cpu: int | None) -> None:
    reported = [source for source in host.sources if isinstance(source, Focusing)]
    assert [source.name for source in reported] == ["perf"]
    for source in reported:
        source.focus(None if cpu is None else Cpu(cpu))


def inspected(frame: Frame) -> CoreDetail:
    assert frame.focus is not None
    return frame.focus


def is_drilled(reading: Reading) -> bool:
    """It has no number since another node of level 2 is larger."""
    return isinstance(reading, Missing) and reading.detail == NOT_LARGEST


def ratios(focus: CoreDetail) -> dict[str, float]:
    result = {node.name: node.reading for node in focus.tree if not is_drilled(node.reading)}
    numbers = {name: ratio for name, ratio in result.items() if isinstance(ratio, float)}
    assert numbers.keys() == result.keys()
    return numbers


@pytest.mark.parametrize("workload", [*workloads.names(), "poll", "system", "memtester"])
@pytest.mark.parametrize("ht", [True, False])
def test_waits_for_memory_split_into_all_levels(workload: str, ht: bool) -> None:
    per_cycle = workloads.per_cycle(workloads.load(workload, ht=ht))
    total, l1, l2, l3 = (
        float(per_cycle[INDEX[f"stalls_{name}"]])
        for name in ("memory", "l1_miss", "l2_miss", "l3_miss")
    )
    assert total > l1 > l2 > l3 >= 0
    assert l3 <= 0.9 * total + 1e-12
    hits, misses = (float(per_cycle[INDEX[f"loads_{name}"]]) for name in ("l2_hit", "l1_miss"))
    assert 0 < hits < misses


def test_a_slowed_workload_waits_for_memory() -> None:
    work = workloads.load("ovs")
    before, after = (
        float(workloads.per_cycle(item)[INDEX["stalls_l3_miss"]])
        for item in (work, workloads.slowed(work, 2.0))
    )
    assert after > before + 0.1


def test_without_focus_nothing_is_reported() -> None:
    host = Frozen()
    assert host.tick(0).focus is None
    set_focus(host.simulated, 5)
    assert host.tick(S).focus is not None
    set_focus(host.simulated, None)
    assert host.tick(S).focus is None


def test_a_poller_s_core_has_a_whole_tree() -> None:
    host = Frozen()
    model = host.simulated.model
    cpu = next(item.cpus[0] for item in model.layout.placed if item.task.workload == "ovs")
    set_focus(host.simulated, cpu)
    warming = inspected(host.tick(0))
    assert {node.reading.reason for node in warming.tree if isinstance(node.reading, Missing)} == {
        Reason.WARMING
    }
    frame = host.tick(PERIOD)
    focus = inspected(frame)
    assert set(focus.cpus) == model.layout.topology.with_siblings([cpu])
    result = ratios(focus)
    # The same numbers as every core has, and below them parts that sum to what waits on loads.
    for node in ("retiring", "backend_bound", "memory_bound", "core_bound", "heavy_operations"):
        assert result[node] == pytest.approx(frame.cpus.columns[f"tma.{node}"][cpu], rel=1e-6)
    stalls, cycles = (
        model.steady[0][list(focus.cpus), INDEX[name]].sum() for name in ("stalls_memory", "cycles")
    )
    caches = sum(result[f"{name}_bound"] for name in ("l1", "l2", "l3", "dram"))
    assert caches == pytest.approx(stalls / cycles, rel=1e-4)
    assert result["l3_bound"] == pytest.approx(2 * result["l1_bound"], rel=1e-3)
    assert result["l1_bound"] == pytest.approx(3 * result["l2_bound"], rel=1e-3)
    assert result["microcode_sequencer"] == pytest.approx(result["heavy_operations"], abs=2e-3)
    assert focus.readings.keys() == {metric.id for metric in (*CORE_METRICS, *NODE_METRICS)}
    assert focus.readings["tma.l3_bound"] == result["l3_bound"]
    latency = focus.readings["load_latency_cycles"]
    assert isinstance(latency, float) and 70 <= latency <= 200
    # Its groups share the last tenth of the time with four of every core's.
    uarch = host.simulated.uarch
    turn = 0.1 / (4 + len(uarch.focus_groups) + max(len(of) for of in uarch.drill.values()))
    assert focus.coverage == pytest.approx(dict.fromkeys(focus.coverage, turn))
    shares = {node.name: node.coverage for node in focus.tree}
    assert shares["retiring"] == shares["backend_bound"] == pytest.approx(0.9)
    assert [shares["memory_bound"], shares["dram_bound"]] == pytest.approx([turn, turn])
    absent = focus.readings["tma.cxl_mem_bound"]
    assert isinstance(absent, Missing) and absent.reason is Reason.HARDWARE


def test_a_core_that_sleeps_has_no_tree() -> None:
    host = Frozen()
    polled = {cpu for placed in host.simulated.model.layout.placed for cpu in placed.cpus}
    topology = host.simulated.model.layout.topology
    idle = next(
        info.cpu for info in topology.cpus if not topology.with_siblings([info.cpu]) & polled
    )
    set_focus(host.simulated, idle)
    host.tick(0)
    for node in inspected(host.tick(S)).tree:
        if is_drilled(node.reading):
            continue
        assert isinstance(node.reading, Missing) and node.reading.reason is Reason.IDLE
        assert not node.beyond
