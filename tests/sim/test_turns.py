"""Counter groups that take turns, from the model through the pipeline: exact all the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nftop.derive.cpu.counters import CounterState, step_counters
from nftop.derive.topdown.tma import ShareState, tma_columns
from nftop.model.metrics.catalogue import CPU_METRICS
from nftop.model.metrics.tma import TMA_LEVEL_2_COVERAGE, TMA_METRICS
from nftop.model.sample import SourceReading
from nftop.model.topology import Topology
from nftop.render.cores.table import estimates
from nftop.sim import workloads
from nftop.sim.payloads import counter_table
from nftop.sim.workloads import INDEX
from nftop.uarch import table
from tests.sim.hosts import Frozen, S, value
from tests.sim.paper import printed

PERIOD = 20 * S
# What rests on counters that have but a turn now and then, in the demo.
TURNS = {m.id for m in TMA_METRICS if m.coverage == TMA_LEVEL_2_COVERAGE} | {
    "llc_misses_per_packet",
    "llc_misses_per_s",
    "local_dram_per_s",
    "remote_dram_per_s",
}
# The FD.io paper's tables 10 to 13, per cent of slots: frontend latency, branch mispredicts, memory
# bound, and the microcode sequencer, which stands for heavy operations.
LEVEL_2 = ("fetch_latency", "branch_mispredicts", "memory_bound", "heavy_operations")
TABLES_10_TO_13 = printed(*(f"tma.{node}" for node in LEVEL_2))
OTHER_COMPONENT = {
    "fetch_bandwidth": ("frontend_bound", "fetch_latency"),
    "machine_clears": ("bad_speculation", "branch_mispredicts"),
    "core_bound": ("backend_bound", "memory_bound"),
    "light_operations": ("retiring", "heavy_operations"),
}


@pytest.mark.parametrize(
    ("task", "workload", "ht"),
    [("loop", "testpmd", False), ("south", "l3fwd", True), ("vpp", "vpp_ip4", False)],
)
@pytest.mark.parametrize("after_ns", [S // 10, PERIOD])
def test_frames_show_the_paper_s_level_2_though_its_events_take_turns(
    task: str, workload: str, ht: bool, after_ns: int
) -> None:
    host = Frozen()
    host.tick(3 * S)
    frame = host.tick(after_ns)
    cpu = host.cpus_of(task)[0]
    result = [100 * value(frame, f"tma.{node}", cpu) for node in LEVEL_2]
    assert result == pytest.approx(TABLES_10_TO_13[workload, ht], abs=0.05)
    for node, (whole, other) in OTHER_COMPONENT.items():
        rest = value(frame, f"tma.{whole}", cpu) - value(frame, f"tma.{other}", cpu)
        assert value(frame, f"tma.{node}", cpu) == pytest.approx(rest, abs=1e-12)
    assert value(frame, "tma.coverage", cpu) == pytest.approx(0.9, rel=1e-7)
    assert value(frame, "tma.level_2_coverage", cpu) == pytest.approx(1 / 40, rel=1e-7)
    assert value(frame, "coverage", cpu) == 1.0


def test_what_took_turns_and_cpp_by_share_are_marked_as_estimates() -> None:
    host = Frozen()
    host.tick(3 * S)
    cpus = host.tick(S).cpus
    rows = range(len(cpus))
    for metric in CPU_METRICS:
        marked = np.array(estimates(cpus, rows, metric))
        expected = cpus.columns[metric.id].present & (metric.id in TURNS)
        if metric.id == "cpp":  # of a shared CPU the poller's share of its cycles
            expected |= cpus.columns["run_ratio"].values < 0.95
            assert expected.sum() == 1
        assert (marked == expected).all(), metric.id


@pytest.mark.parametrize(("task", "workload"), [("loop", "testpmd"), ("south", "l3fwd")])
def test_cache_misses_of_a_packet_are_the_lines_it_reads(task: str, workload: str) -> None:
    host = Frozen()
    host.tick(3 * S)
    frame = host.tick(PERIOD)
    cpu = host.cpus_of(task)[0]
    # Table 6's traffic is half reads.
    lines = workloads.tables()[workload]["memory_bytes_per_packet"] / 64 / 2
    assert value(frame, "llc_misses_per_packet", cpu) == pytest.approx(lines, rel=1e-4)
    assert value(frame, "llc_misses_coverage", cpu) == pytest.approx(1 / 40, rel=1e-9)


def test_misses_and_loads_of_memory_are_of_every_cpu_polling_or_not() -> None:
    host = Frozen()
    host.tick(3 * S)
    frame = host.tick(PERIOD)
    columns = frame.cpus.columns
    model = host.simulated.model
    counted = model.exact(3 * S + PERIOD) - model.exact(3 * S)
    grown = {name: counted[:, INDEX[name]] / (PERIOD / S) for name in ("llc_misses", "drd_miss")}
    polling = columns["packets_per_s"].present
    assert not polling.all()
    for metric, wanted in {
        "llc_misses_per_s": grown["llc_misses"],
        "local_dram_per_s": 0.98 * grown["drd_miss"],
        "remote_dram_per_s": 0.02 * grown["drd_miss"],
    }.items():
        assert columns[metric].present.all()
        assert columns[metric].values == pytest.approx(
            wanted, rel=1e-3, abs=2.0
        )  # whole counts, of a turn
    cpu = host.cpus_of("loop")[0]
    per_packet = value(frame, "llc_misses_per_packet", cpu) * value(frame, "packets_per_s", cpu)
    assert value(frame, "llc_misses_per_s", cpu) == pytest.approx(per_packet, rel=1e-6)


def test_without_hyper_threading_one_turn_is_enough() -> None:
    model = Frozen().simulated.model
    cores = model.layout.topology.cpus[:44]
    topology = Topology(tuple(replace(info, siblings=()) for info in cores), ())
    uarch = table.load("SKX").with_smt(on=False)
    first, second = (
        SourceReading(counter_table(model, t_ns, uarch), t_ns, 0)
        for t_ns in (3 * S, 3 * S + PERIOD)
    )
    state, _ = step_counters(CounterState(), first, topology)
    _, rates = step_counters(state, second, topology)
    top_down = tma_columns(ShareState(), uarch, rates, topology)[1]
    cpu = next(p.cpus for p in model.layout.placed if p.name == "loop")[0]
    result = [top_down[f"tma.{node}"][cpu] for node in LEVEL_2]
    in_paper = [percent / 100 for percent in TABLES_10_TO_13["testpmd", False]]
    assert result == pytest.approx(in_paper, abs=0.0005)
    level_1 = [top_down[f"tma.{node}"][cpu] for node in ("retiring", "bad_speculation")]
    assert level_1 == pytest.approx([0.341, 0.038], abs=0.0005)
    assert top_down["tma.coverage"][cpu] == rates.share("llc_misses")[cpu] == 0.9
    assert top_down["tma.level_2_coverage"][cpu] == 0.05
    assert rates.coverage[cpu] == 1.0
    per_cycle = 0.121 / 64 / 2 * 34.6e6 / workloads.core_hz()
    misses = rates.rate_by_cycles("llc_misses").values[cpu] / rates.core_cycles.values[cpu]
    assert misses == pytest.approx(per_cycle, rel=1e-4)
