"""Traffic by packet and as a share of peaks: whose packets, and when there is no number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nftop.derive.package.relative import (
    ClassMemory,
    PackageLoad,
    class_memory,
    package_loads,
    per_packet,
    utilisation,
)
from nftop.model.frame import BoxTraffic, Frame, NfRow, PackageRow
from nftop.model.ids import Cpu, Package
from nftop.model.metrics.package import COUNTED_PACKAGE_METRICS, PER_PACKET_METRICS
from nftop.model.missing import Missing, Reading, Reason, total
from nftop.model.nf.components import NfThread
from nftop.model.nf.netdev import InterfaceRow
from nftop.model.topology import Capacity, NicSlot, Topology
from tests.frames import frame
from tests.sim.hosts import Frozen, S

P0, P1 = Package(0), Package(1)


def nf(name: str, cpus: tuple[int, ...], rx: Reading, *, kind: str = "dpdk") -> NfRow:
    return NfRow(
        key=name,
        name=name,
        kind=kind,
        pid=1,
        cpus=tuple(map(Cpu, cpus)),
        direction="rx",
        cpp_clock="core",
        saturated=None,
        interval_s=1.0,
        attribution="",
        problem=None,
        readings={"rx_packets_per_s": rx, "tx_packets_per_s": 5e6},
    )


def nic(name: str, node: int | None, rx: float, tx: float = 0.0) -> InterfaceRow:
    return InterfaceRow(name, "nic", "i40e", node, None, rx, tx, 0.0)


def host() -> Frame:
    """Two packages of eight CPUs, none with a poller."""
    base = frame(16, 1, packages=2)
    none = (None,) * 16
    return replace(base, cpus=replace(base.cpus, thread=none, nf=none))


def loads(
    *nfs: NfRow, interfaces: tuple[InterfaceRow, ...] = (), base: Frame | None = None
) -> tuple[PackageLoad, PackageLoad]:
    base = base or host()
    result = package_loads(nfs, interfaces, base.cpus, base.topology)
    return result[P0], result[P1]


def reason(load: PackageLoad) -> Reason:
    assert isinstance(load.packets, Missing)
    return load.packets.reason


def cpus_of(package: int) -> tuple[int, ...]:
    return tuple(info.cpu for info in host().topology.cpus if info.package == package)


def test_packets_are_those_of_all_functions_of_the_package() -> None:
    one, other = cpus_of(0), cpus_of(1)
    here, far = loads(nf("a", one[:2], 1e6), nf("b", one[2:3], 2e6), nf("c", other[:1], 4e6))
    assert (here.packets, far.packets) == (3e6, 4e6)
    assert (here.received, here.is_estimate) == (3e6, False)


def test_a_generator_counts_what_it_sends() -> None:
    sender = replace(nf("pktgen", cpus_of(0)[:1], 0.0), direction="tx")
    here, far = loads(sender)
    assert (here.packets, here.received) == (5e6, 0)
    assert reason(far) is Reason.UNDEFINED


@pytest.mark.parametrize("why", [Reason.STALE, Reason.PERMISSION, Reason.WARMING])
def test_without_the_packets_of_one_no_number(why: Reason) -> None:
    one, other = cpus_of(0), cpus_of(1)
    known, unknown = nf("a", one[:1], 1e6), nf("b", one[1:2], Missing(why))
    here, far = loads(known, unknown, nf("c", other[:1], 1e6))
    assert reason(here) is why
    assert far.packets == 1e6


def test_a_function_on_both_packages_is_split_by_its_threads() -> None:
    a, b = cpus_of(0)[0], cpus_of(1)[0]
    whole = nf("a", (a, b), 3e6)
    assert {reason(load) for load in loads(whole)} == {Reason.UNDEFINED}
    threads = tuple(
        NfThread(Cpu(cpu), "t", packets, 1.0, 1.0)
        for cpu, packets in ((a, 1e6), (b, 2e6), (b, Missing(Reason.UNDEFINED)))
    )
    assert [load.packets for load in loads(replace(whole, threads=threads))] == [1e6, 2e6]
    late = replace(threads[1], packets_per_s=Missing(Reason.WARMING))
    assert {reason(load) for load in loads(replace(whole, threads=(threads[0], late)))} == {
        Reason.UNDEFINED
    }


def test_where_a_function_polls_must_be_known() -> None:
    assert {reason(load) for load in loads(nf("a", (), 1e6))} == {Reason.UNDEFINED}
    here, _ = loads(nf("a", (), 0.0), nf("b", cpus_of(0)[:1], 1e6))
    assert here.packets == 1e6


@pytest.mark.parametrize(
    ("foreign", "node", "known", "estimate"),
    [
        (500.0, 0, True, False),
        (5e3, 0, True, True),
        (5e4, 0, True, True),
        (5.1e4, 0, False, False),
        (1e6, 1, True, False),
        (1e6, None, False, False),
    ],
)
def test_other_packets_of_nics_are_a_mark_or_a_reason(
    foreign: float, node: int | None, known: bool, estimate: bool
) -> None:
    polling = nf("a", cpus_of(0)[:1], 1e6)
    for ways in ((foreign, 0.0), (0.0, foreign)):
        here, _ = loads(polling, interfaces=(nic("eth0", node, *ways),))
        assert (here.packets == 1e6) is known
        assert here.is_estimate is estimate


def test_packets_that_the_kernel_forwards_are_of_its_nics_packages() -> None:
    kernel = nf("kernel", cpus_of(0), 3e6, kind="kernel")
    nics = (nic("eth0", 0, 1e6), nic("eth1", 1, 2e6))
    here, far = loads(kernel, nf("a", cpus_of(0)[:1], 4e6), interfaces=nics)
    assert (here.packets, far.packets) == (5e6, 2e6)
    assert here.received == 4e6
    assert {reason(load) for load in loads(kernel, interfaces=(nic("eth0", None, 1.0),))} == {
        Reason.UNDEFINED
    }


def test_a_poller_of_no_known_function_is_a_mark() -> None:
    base = host()
    thread = ["CPU 0/KVM" if info.cpu == cpus_of(0)[3] else None for info in base.topology.cpus]
    base = replace(base, cpus=replace(base.cpus, thread=tuple(thread)))
    here, far = loads(nf("a", cpus_of(0)[:1], 1e6), nf("b", cpus_of(1)[:1], 1e6), base=base)
    assert (here.is_estimate, far.is_estimate) == (True, False)


def counted(**other: Reading) -> PackageRow:
    readings: dict[str, Reading] = {metric.id: 64e6 for metric in COUNTED_PACKAGE_METRICS}
    readings["pcie.itomcachenear.total_per_s"] = Missing(Reason.HARDWARE)
    readings |= {name.replace("__", "."): value for name, value in other.items()}
    return PackageRow(
        P0,
        readings,
        estimates=frozenset({"pcie.read_bytes_per_s"}),
        origins={"memory.read_bytes_per_s": "pcm"},
        sampled_s={"mmio.write_per_s": 3.0},
    )


def test_numbers_and_their_marks() -> None:
    memory = ClassMemory(48e6, 6e6, {"tenant": 6e6})
    row = per_packet(counted(), PackageLoad(1e6, 1e6, memory=memory))
    of = {metric.id.partition(".")[2]: row.readings[metric.id] for metric in PER_PACKET_METRICS}
    assert of == {
        "pcie_writes": 1.0,
        "pcie_partial_writes": 64.0,
        "pcie_reads": 1.0,
        "mmio_writes": 64.0,
        "memory_read_bytes": 64.0,
        "memory_write_bytes": 64.0,
        "memory_bytes": 128.0,
        "nf_memory_bytes": 48.0,
        "other_memory_bytes": 6.0,
        "upi_received_bytes": 64.0,
        "upi_sent_bytes": 64.0,
    }
    assert row.estimates == {"pcie.read_bytes_per_s", "per_packet.pcie_reads"}
    assert row.sampled_s == {"mmio.write_per_s": 3.0, "per_packet.mmio_writes": 3.0}
    assert {name for name in row.origins if name.startswith("per")} == {
        "per_packet.memory_read_bytes",
        "per_packet.memory_bytes",
    }


def test_reasons_are_those_of_traffic_or_of_packets() -> None:
    why = Missing(Reason.TAKEN, "another program")
    row = per_packet(counted(memory__read_bytes_per_s=why), PackageLoad(1e6))
    assert row.readings["per_packet.memory_bytes"] == why
    assert row.readings["per_packet.memory_write_bytes"] == 64.0
    late = Missing(Reason.STALE, "old")
    row = per_packet(counted(memory__read_bytes_per_s=why), PackageLoad(late))
    assert row.readings["per_packet.memory_read_bytes"] == why
    assert row.readings["per_packet.upi_sent_bytes"] == late
    row = per_packet(counted(), PackageLoad(999.0))
    reading = row.readings["per_packet.pcie_reads"]
    assert isinstance(reading, Missing) and reading.reason is Reason.IDLE
    assert not row.estimates - {"pcie.read_bytes_per_s"}


def test_fewer_lines_than_packets_are_of_devices_elsewhere() -> None:
    row = per_packet(counted(), PackageLoad(2e6, 2e6, memory=ClassMemory(0.0, 0.0)))
    absent = {name for name, reading in row.readings.items() if isinstance(reading, Missing)}
    assert {name for name in absent if name.startswith("per")} == {
        "per_packet.pcie_writes",
        "per_packet.pcie_partial_writes",
        "per_packet.pcie_reads",
    }
    sent = per_packet(counted(), PackageLoad(2e6, 0.0))
    assert sent.readings["per_packet.pcie_writes"] == 0.5


def with_capacity(capacity: Capacity | None) -> Topology:
    return replace(host().topology, capacity=capacity)


def linked() -> PackageRow:
    return replace(counted(), links=(BoxTraffic(0, 1.0, 1.0), BoxTraffic(1, 1.0, 1.0)))


@pytest.mark.parametrize(
    ("capacity", "peak", "estimate"),
    [
        (None, 4 * 2.4e9 * 8, True),
        (Capacity(), 4 * 2.4e9 * 8, True),
        (Capacity(8, 2.133e9), 4 * 2.133e9 * 8, False),
        (Capacity(16, 2.4e9), 4 * 2.4e9 * 8, False),  # two in each channel
        (Capacity(4, 2.4e9), 2 * 2.4e9 * 8, False),  # two channels are empty
        (Capacity(8, 0.0), 4 * 2.4e9 * 8, True),
        (Capacity(8, 2.4e9, 70e9), 70e9, False),
    ],
)
def test_memory_is_a_share_of_the_peak_that_is_known(
    capacity: Capacity | None, peak: float, *, estimate: bool
) -> None:
    row = utilisation(linked(), with_capacity(capacity), "BDX")
    assert row.readings["utilisation.memory_ratio"] == pytest.approx(128e6 / peak, rel=1e-12)
    assert ("utilisation.memory_ratio" in row.estimates) is estimate


@pytest.mark.parametrize("capacity", [None, Capacity(16, 6.4e9)])
def test_memory_of_a_family_with_two_sockets_has_no_known_peak(capacity: Capacity | None) -> None:
    row = utilisation(linked(), with_capacity(capacity), "GNR")
    reading = row.readings["utilisation.memory_ratio"]
    assert isinstance(reading, Missing) and reading.reason is Reason.SOURCE


def test_links_are_a_share_of_their_family_s_peak() -> None:
    # Transfers per second and link, bytes per transfer: 16 of 20 lanes; all of 24.
    for uarch, transfers, size in (
        ("BDX", 9.6e9, 2),
        ("SKX", 10.4e9, 2),
        ("ICX", 11.2e9, 2),
        ("SPR", 16e9, 3),
        ("EMR", 20e9, 3),
        ("GNR", 24e9, 3),
    ):
        row = utilisation(linked(), with_capacity(None), uarch)
        share = 64e6 / (2 * transfers * size)
        assert row.readings["utilisation.upi_received_ratio"] == pytest.approx(share)
        assert "utilisation.upi_sent_ratio" in row.estimates
    for uarch, links in (("SRF", linked().links), ("generic", linked().links), ("BDX", ())):
        row = utilisation(replace(linked(), links=links), with_capacity(None), uarch)
        reading = row.readings["utilisation.upi_received_ratio"]
        assert isinstance(reading, Missing) and reading.reason is Reason.SOURCE
        assert "utilisation.upi_received_ratio" not in row.estimates


def test_devices_are_a_share_of_the_slots_of_their_package() -> None:
    node = next(info.node for info in host().topology.cpus if info.package == P0)
    slots = (NicSlot("a", node, 8e9), NicSlot("b", node, 16e9), NicSlot("c", None, 1e9))
    row = utilisation(linked(), with_capacity(Capacity(nic_slots=slots)), "BDX")
    assert row.readings["utilisation.pcie_read_ratio"] == pytest.approx(64e6 / 24e9)
    assert "utilisation.pcie_read_ratio" in row.estimates, "as what it is made of"
    assert "utilisation.pcie_write_ratio" not in row.estimates
    for capacity in (None, Capacity(), Capacity(nic_slots=slots[2:])):
        row = utilisation(linked(), with_capacity(capacity), "BDX")
        reading = row.readings["utilisation.pcie_read_ratio"]
        assert isinstance(reading, Missing) and reading.reason is Reason.SOURCE
    late = Missing(Reason.STALE, "old")
    row = utilisation(
        replace(linked(), readings={**linked().readings, "pcie.read_bytes_per_s": late}),
        with_capacity(Capacity(nic_slots=slots)),
        "BDX",
    )
    assert row.readings["utilisation.pcie_read_ratio"] == late


def number(reading: Reading) -> float:
    assert not isinstance(reading, Missing)
    return reading


def test_memory_per_packet_reports_what_classes_without_network_functions_have_of_it() -> None:
    """The tenant of `burst` streams 48 GB/s beside VPP and OVS, from 20 s on."""
    host = Frozen("burst")
    host.tick(0)
    host.tick(10 * S)
    quiet = host.tick(S)
    host.tick(10 * S)
    loud = host.tick(10 * S)
    for shown, tenant in ((quiet, 0.96e9), (loud, 48e9)):
        memory = class_memory(shown.groups, shown.cpus, shown.topology)
        assert next(iter(memory[P0].by_class)) == "tenant"
        assert memory[P0].by_class["tenant"] == pytest.approx(tenant, rel=0.01)
        assert set(memory[P0].by_class) == {"tenant", "/"}
        for row in shown.packages:
            moved = (
                row.readings["memory.read_bytes_per_s"],
                row.readings["memory.write_bytes_per_s"],
            )
            known = memory[row.package].nfs, memory[row.package].others
            assert total(known) == pytest.approx(total(moved), rel=0.01), "devices hit the cache"
    own, whole, others = (
        [number(shown.packages[0].readings[f"per_packet.{name}"]) for shown in (quiet, loud)]
        for name in ("nf_memory_bytes", "memory_bytes", "other_memory_bytes")
    )
    # VPP's packets cost more memory beside the tenant, but 48 GB/s are not theirs.
    assert own[0] == pytest.approx(18.6, rel=0.05)
    assert own[1] == pytest.approx(whole[1] - others[1], rel=0.01)
    assert others[1] > 50 * own[1] > 0
    marks = {f"per_packet.memory_{name}" for name in ("bytes", "read_bytes", "write_bytes")}
    assert all(marks <= shown.packages[0].estimates for shown in (quiet, loud))
    assert "per_packet.nf_memory_bytes" not in quiet.packages[0].estimates


@pytest.mark.parametrize(("others", "marked"), [(6.3e6, False), (6.5e6, True)])
def test_memory_per_packet_is_marked_from_a_twentieth_of_others_on(
    others: float, marked: bool
) -> None:
    load = PackageLoad(1e6, 1e6, memory=ClassMemory(48e6, others))
    assert ("per_packet.memory_bytes" in per_packet(counted(), load).estimates) is marked


def test_without_metered_classes_memory_has_no_share_and_no_mark() -> None:
    base = frame(16, 1, packages=2)
    memory = class_memory((), base.cpus, base.topology)
    assert all(
        isinstance(item.nfs, Missing) and isinstance(item.others, Missing)
        for item in memory.values()
    )
    row = per_packet(counted(), PackageLoad(1e6))
    why = row.readings["per_packet.nf_memory_bytes"]
    assert isinstance(why, Missing) and why.reason is Reason.SOURCE
    assert "per_packet.memory_bytes" not in row.estimates
