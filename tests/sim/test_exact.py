"""The model through nftop's own pipeline gives the papers' rows back."""

from __future__ import annotations

import numpy as np
import pytest

from nftop.model.frame import Frame, NfRow
from nftop.papers.rows import PaperRow
from nftop.sim import workloads
from nftop.sim.workloads import INDEX
from tests.sim.hosts import Frozen, S, value
from tests.sim.paper import printed, runs

PERIOD = 20 * S

# Mpps, instructions per packet, instructions per cycle, cycles per packet.
TABLE_4 = printed("packets_per_s", "ipp", "ipc", "cpp")
# Per cent of slots.
TABLE_9 = printed("tma.retiring", "tma.bad_speculation", "tma.frontend_bound", "tma.backend_bound")


@pytest.mark.parametrize(("name", "ht"), TABLE_4)
def test_a_workload_is_its_printed_row(name: str, ht: bool) -> None:
    work = workloads.load(name, ht=ht)
    mpps, ipp, ipc, cpp = TABLE_4[name, ht]
    cycles_per_packet = 1 / work.packets_per_cycle
    assert round(work.packets_per_cycle * workloads.core_hz() / 1e6, 1) == mpps
    assert round(cycles_per_packet) == cpp
    assert round(work.ipc, 1) == ipc
    assert work.ipc * cycles_per_packet == pytest.approx(ipp, rel=1e-12)


@pytest.mark.parametrize(("name", "ht"), TABLE_9)
def test_what_a_workload_has_of_the_paper_is_the_paper_s(name: str, ht: bool) -> None:
    figures = next(row for row in runs() if (row.workload, row.smt) == (name, ht)).figures
    names = {"heavy": "heavy_operations", "mispredicts": "branch_mispredicts"}
    percent = workloads.tables()[name]["ht" if ht else "plain"]["percent"]
    assert len(percent) == 8
    for node, share in percent.items():
        assert share == float(figures[f"tma.{names.get(node, node)}"].printed)


@pytest.mark.parametrize("row", runs(cores=4), ids=lambda row: row.workload)
def test_what_a_packet_moves_is_the_paper_s(row: PaperRow) -> None:
    table = workloads.tables()[row.workload]
    figures = row.figures
    memory = figures["per_packet.memory_bytes"].value
    assert table["memory_bytes_per_packet"] == pytest.approx(memory, abs=0.0005)
    for way in ("write", "read"):
        lines = figures[f"pcie_{way}_bytes_per_packet"].value / 64
        assert table[f"pcie_{way}s"] == pytest.approx(lines, abs=0.00005)
        assert round(table[f"pcie_{way}s"], 2) == figures[f"per_packet.pcie_{way}s"].value


@pytest.mark.parametrize(("name", "ht"), TABLE_9)
def test_events_give_the_printed_top_down_back(name: str, ht: bool) -> None:
    """Skylake-SP's level 1 as the vendor defines it, from counts per core cycle."""
    per_cycle = workloads.per_cycle(workloads.load(name, ht=ht))
    event = {quantity: float(per_cycle[index]) for quantity, index in INDEX.items()}
    slots = 4 * event["cycles"]
    retiring = event["retire_slots"] / slots
    frontend = event["slots_not_delivered"] / slots
    lost = event["uops_issued"] - event["retire_slots"] + 4 * event["recovery_cycles"]
    bad = lost / slots
    backend = 1 - frontend - (event["uops_issued"] + 4 * event["recovery_cycles"]) / slots
    result = [100 * share for share in (retiring, bad, frontend, backend)]
    # The four printed shares sum to 99.9 .. 100.1, and backend is what is left of the others.
    assert result[:3] == pytest.approx(TABLE_9[name, ht][:3], abs=1e-9)
    assert result[3] == pytest.approx(TABLE_9[name, ht][3], abs=0.1001)
    percent = workloads.tables()[name]["ht" if ht else "plain"]["percent"]
    memory = event["stalls_memory"] + event["stalls_store"]
    waiting = event["stalls_total"] + event["one_port"] + retiring * event["two_ports"]
    bound = 100 * backend * memory / (waiting + event["stalls_store"])
    assert bound == pytest.approx(percent["memory_bound"], abs=1e-9)
    clears = event["machine_clears"] / (event["mispredicts"] + event["machine_clears"])
    assert 100 * bad * (1 - clears) == pytest.approx(percent["mispredicts"], abs=1e-9)
    assert 100 * event["cycles_none_delivered"] == pytest.approx(percent["fetch_latency"])
    heavy = event["retire_slots"] + event["macro_fused"] - event["instructions"]
    assert 100 * heavy / slots == pytest.approx(percent["heavy"], abs=1e-9)
    assert per_cycle.min() >= 0.0


@pytest.mark.parametrize(
    ("scenario", "task", "workload", "thread"),
    [
        ("default", "loop", "testpmd", 0),
        ("default", "north", "l3fwd", 2),
        ("default", "vpp", "vpp_ip4", 0),
        ("default", "vpp", "vpp_ip4", 3),
        ("noisy", "ovs", "ovs", 1),
    ],
)
def test_frames_show_the_paper_s_rows(scenario: str, task: str, workload: str, thread: int) -> None:
    host = Frozen(scenario)
    host.tick(3 * S)
    frame = host.tick(PERIOD)  # over a whole period the swing is nothing
    cpu = host.cpus_of(task)[thread]
    mpps, ipp, ipc, cpp = TABLE_4[workload, False]
    assert round(value(frame, "rx_packets_per_s", cpu) / 1e6, 1) == mpps
    assert value(frame, "rx_packets_per_s", cpu) == pytest.approx(
        workloads.tables()[workload]["plain"]["mpps"] * 1e6, rel=1e-7
    )
    assert value(frame, "ipp", cpu) == pytest.approx(ipp, rel=1e-7)
    assert round(value(frame, "ipc", cpu), 1) == ipc
    assert round(value(frame, "cpp", cpu)) == cpp
    assert value(frame, "frequency_hz", cpu) == pytest.approx(2.2e9, rel=1e-8)
    assert value(frame, "tsc_hz", cpu) == pytest.approx(2.2e9, rel=1e-8)


def row(frame: Frame, name: str) -> NfRow:
    return next(nf for nf in frame.nfs if nf.name == name)


@pytest.mark.parametrize(
    ("task", "workload", "ht"),
    [("loop", "testpmd", False), ("south", "l3fwd", True), ("vpp", "vpp_ip4", False)],
)
def test_frames_show_the_paper_s_top_down(task: str, workload: str, ht: bool) -> None:
    host = Frozen()
    host.tick(3 * S)
    frame = host.tick(PERIOD)
    cpu = host.cpus_of(task)[0]
    nodes = ("retiring", "bad_speculation", "frontend_bound", "backend_bound")
    result = [100 * value(frame, f"tma.{node}", cpu) for node in nodes]
    # The four printed shares sum to 99.9 .. 100.1, and backend is what is left of the others.
    assert result[:3] == pytest.approx(TABLE_9[workload, ht][:3], abs=0.05)
    assert result[3] == pytest.approx(TABLE_9[workload, ht][3], abs=0.15)
    assert sum(result) == pytest.approx(100.0)


def test_two_threads_of_a_core_make_the_paper_s_hyper_threading_row() -> None:
    host = Frozen()
    host.tick(3 * S)
    frame = host.tick(PERIOD)
    one, other = host.cpus_of("south")[:2]
    assert frame.topology.cpus[one].siblings == (other,)
    mpps, ipp, ipc, cpp = TABLE_4["l3fwd", True]
    packets = sum(value(frame, "rx_packets_per_s", cpu) for cpu in (one, other))
    assert packets == pytest.approx(mpps * 1e6, rel=1e-7)
    assert value(frame, "ipp", one) == pytest.approx(ipp, rel=1e-7)
    # Each thread is unhalted all the time, so a packet takes twice the core's cycles of one.
    assert round(sum(value(frame, "ipc", cpu) for cpu in (one, other)), 1) == ipc
    assert round(value(frame, "cpp", one) / 2) == cpp


@pytest.mark.parametrize("scenario", ["default", "noisy"])
@pytest.mark.parametrize("cpus", [2, 88, 512])
def test_ipc_times_cpp_is_ipp_on_every_core_and_tick(scenario: str, cpus: int) -> None:
    host = Frozen(scenario, cpus)
    host.tick(17)
    seen = 0
    for after_ns in (S, 100_000_000, 58 * S, 3 * S, 1_000_000_007):  # across the step at 60 s
        columns = host.tick(after_ns).cpus.columns
        has = columns["cpp"].present
        whole = columns["ipp"].present
        product = columns["ipc"].values[whole] * columns["cpp"].values[whole]
        np.testing.assert_allclose(product, columns["ipp"].values[whole], rtol=1e-12)
        # A poller that does not have its CPU to itself has CPP by its share of the time alone.
        np.testing.assert_array_equal(whole, has & ~(columns["run_ratio"].values < 0.95))
        seen += int(has.sum())
        pollers = {
            cpu for p in host.simulated.model.layout.placed for cpu in p.cpus if p.task.kind != "vm"
        }
        assert pollers == set(np.flatnonzero(has))
    assert seen >= 5


def test_a_whole_tick_stays_within_the_swing() -> None:
    host = Frozen()
    host.tick(S)
    cpu = host.cpus_of("loop")[0]
    rates = [value(host.tick(S), "rx_packets_per_s", cpu) for _ in range(20)]
    assert max(rates) < 34.6e6 * 1.0031
    assert min(rates) > 34.6e6 * 0.9969
    assert max(rates) - min(rates) > 34.6e6 * 0.004


def test_one_poller_is_not_healthy() -> None:
    host = Frozen()
    host.tick(S)
    frame = host.tick(PERIOD)
    waits = frame.cpus.columns["wait_ratio"]
    ill = [int(cpu) for cpu in np.flatnonzero(waits.values > 1e-6)]
    assert ill == [host.cpus_of("north")[1]]
    assert value(frame, "wait_ratio", ill[0]) == pytest.approx(0.12, abs=1e-6)
    assert value(frame, "run_ratio", ill[0]) == pytest.approx(0.88, abs=1e-6)
    north = next(nf for nf in frame.nfs if nf.name == "north/l3fwd")
    assert north.readings["drop_packets_per_s"] == pytest.approx(0.12 * 24.5e6, rel=1e-6)


def test_the_neighbour_makes_packets_dearer() -> None:
    host = Frozen("noisy")
    host.tick(S)
    cpu = host.cpus_of("north")[0]
    quiet = host.tick(2 * PERIOD)
    host.tick(20 * S)  # 61 s
    noisy = host.tick(PERIOD)
    rise = value(noisy, "cpp", cpu) / value(quiet, "cpp", cpu)
    assert rise == pytest.approx(1.06, rel=1e-6)
    assert value(noisy, "ipp", cpu) == pytest.approx(value(quiet, "ipp", cpu), rel=1e-6)
    misses = [value(item, "llc_misses_per_packet", cpu) for item in (quiet, noisy)]
    added = value(noisy, "cpp", cpu) - value(quiet, "cpp", cpu)
    assert misses[1] - misses[0] == pytest.approx(added / 200, rel=1e-3), "each costs 200 cycles"
    lost = value(quiet, "rx_packets_per_s", cpu) - value(noisy, "rx_packets_per_s", cpu)
    rows = {nf.name: nf for frame in (quiet, noisy) for nf in frame.nfs}
    drops = rows["north/l3fwd"].readings["drop_packets_per_s"]
    assert drops == pytest.approx(2 * lost, rel=1e-5)
    neighbour = host.cpus_of("neighbour")[0]
    assert noisy.cpus.thread[neighbour] == "CPU 0/KVM"
    assert quiet.cpus.thread[neighbour] is None


def test_ovs_below_its_limit_shows_what_is_left() -> None:
    """70 % of what it can take: a packet's work costs what the paper says, the rest is idle."""
    host = Frozen()
    host.tick(3 * S)
    frame = host.tick(PERIOD)
    mpps, _, _, cpp = TABLE_4["ovs", False]
    for cpu in host.cpus_of("ovs"):
        assert value(frame, "busy_ratio", cpu) == pytest.approx(0.7, rel=1e-6)
        assert round(value(frame, "rx_packets_per_s", cpu) / 0.7e6, 1) == mpps
        assert round(value(frame, "busy_cpp", cpu)) == cpp
        assert value(frame, "cpp", cpu) == pytest.approx(2.2e9 / (0.7 * 8.18e6), rel=1e-6)
        assert frame.cpus.saturated[cpu] is False
    ovs = row(frame, "ovs-vswitchd")
    assert ovs.readings["rx_packets_per_s"] == pytest.approx(4 * 0.7 * 8.18e6, rel=1e-6)
    assert ovs.readings["tx_packets_per_s"] == ovs.readings["rx_packets_per_s"]
    assert ovs.readings["busy_cpp"] == pytest.approx(2.2e9 / 8.18e6, rel=1e-6)
    assert ovs.saturated is False


def test_vpp_and_ovs_under_full_load_are_saturated() -> None:
    host = Frozen("noisy")
    host.tick(3 * S)
    frame = host.tick(PERIOD)
    for name, kind in (("vpp", "vpp"), ("ovs-vswitchd", "ovs")):
        nf = row(frame, name)
        assert nf.kind == kind and nf.saturated is True and nf.problem is None
        assert nf.cpus == host.cpus_of(kind)
        assert nf.readings["drop_packets_per_s"] == 0.0
        for cpu in nf.cpus:
            assert value(frame, "busy_ratio", cpu) == pytest.approx(1.0, abs=1e-6)
            assert frame.cpus.saturated[cpu] is True


def test_the_neighbour_takes_six_per_cent_from_ovs() -> None:
    host = Frozen("noisy")
    host.tick(S)
    quiet = host.tick(2 * PERIOD)
    host.tick(20 * S)  # 61 s
    noisy = host.tick(PERIOD)
    for name, slower in (("ovs-vswitchd", 1.06), ("vpp", 1.10)):
        before, after = row(quiet, name).readings, row(noisy, name).readings
        offered, taken = before["rx_packets_per_s"], after["rx_packets_per_s"]
        assert isinstance(offered, float) and isinstance(taken, float)
        assert taken == pytest.approx(offered / slower, rel=1e-6)
        # What can't be taken in any more is dropped: the NIC's word, which OVS has from DPDK.
        assert after["drop_packets_per_s"] == pytest.approx(offered - taken, rel=1e-5)
        assert before["drop_packets_per_s"] == 0.0


def test_a_process_is_one_network_function() -> None:
    """OVS has a DPDK telemetry socket too."""
    host = Frozen()
    host.tick(S)
    frame = host.tick(S)
    assert len({nf.pid for nf in frame.nfs}) == len(frame.nfs) == 5
    assert {nf.kind for nf in frame.nfs} == {"dpdk", "ovs", "vpp"}
