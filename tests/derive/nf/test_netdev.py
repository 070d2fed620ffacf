"""Rates of the kernel's network stack, and when it is a network function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from nftop.derive.fold import FoldState
from nftop.model.frame import Frame, NfRow
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.nf.netdev import Interface, NetdevTable
from nftop.model.sample import Sample, SourceReading
from tests.samples import HOST, S, counters, cpu_times, fold, sample, topology, tsc_only

FOUR = topology(4)
START = FoldState(HOST, FOUR)
GHZ_2 = 2_000_000_000
_COUNTS = (GHZ_2 // 2, GHZ_2, GHZ_2 // 2, GHZ_2, 0)
NIC = Interface("eth0", "nic", "ixgbe", 0, None, 0, 0, 0)
MIRROR = Interface("br-int", "tap", "", None, 77, 0, 0, None)


def table(
    taken: Mapping[int, tuple[int, int, int]],
    *interfaces: Interface,
    forwarded: int | None = 0,
) -> NetdevTable:
    counts = np.array([[item % 2**32 for item in row] for row in taken.values()], np.uint64)
    return NetdevTable(np.array(list(taken), np.int32), counts, interfaces, forwarded)


def tick(second: int, packets_per_s: int = 100_000, **changes: int) -> Sample:
    """CPU 0 takes packets in, a fifth of its time in interrupts, half of it idle."""
    packets = packets_per_s * second
    return sample(
        second * S,
        netdev=table(
            {0: (packets, 5 * second, 7 * second), 1: (0, 0, 0), 2: (0, 0, 0), 3: (0, 0, 0)},
            replace(NIC, rx_packets=packets, tx_packets=packets // 2, rx_missed=3 * second),
            replace(MIRROR, rx_packets=packets),
            forwarded=changes.get("forwarded", 0) * second,
        ),
        kernel=cpu_times(
            {
                cpu: {"idle": 50 * second, "user": 30 * second, "softirq": 20 * second}
                for cpu in range(4)
            }
        ),
        perf=counters(
            dict.fromkeys(range(4), tuple(count * second for count in _COUNTS)),
            enabled_ns=second * S,
        ),
    )


def kernel(frame: Frame) -> NfRow | None:
    return next((nf for nf in frame.nfs if nf.kind == "kernel"), None)


def reason(reading: Reading) -> Reason:
    assert isinstance(reading, Missing)
    return reading.reason


def test_a_host_that_forwards_has_a_row() -> None:
    _, frame = fold(START, tick(1), tick(2))
    row = kernel(frame)
    assert row is not None and row.cpus == (0,) and row.cpp_clock == "core"
    assert row.readings["rx_packets_per_s"] == 100_000
    assert row.readings["tx_packets_per_s"] == 50_000
    assert row.readings["drop_packets_per_s"] == 3 + 5
    # Half of the time is not idle, and of that two fifths are interrupts.
    assert row.readings["busy_cpp"] == pytest.approx(GHZ_2 / 2 * 0.4 / 100_000)
    assert reason(row.readings["cpp"]) is Reason.UNDEFINED
    columns = frame.cpus.columns
    assert columns["kernel_packets_per_s"].values.tolist() == [100_000, 0, 0, 0]
    assert columns["softnet_drops_per_s"][0] == 5 and columns["softnet_squeezes_per_s"][0] == 7


def test_cycles_of_the_tsc_go_on_while_the_cpu_is_idle() -> None:
    def by_tsc(second: int) -> Sample:
        return replace(
            tick(second),
            readings={
                **tick(second).readings,
                **sample(
                    second * S,
                    perf=tsc_only(dict.fromkeys(range(4), GHZ_2 * second), enabled_ns=second * S),
                ).readings,
            },
        )

    row = kernel(fold(START, by_tsc(1), by_tsc(2))[-1])
    assert row is not None and row.cpp_clock == "tsc"
    assert row.readings["busy_cpp"] == pytest.approx(GHZ_2 * 0.2 / 100_000)


def test_an_operator_s_own_session_is_no_network_function() -> None:
    assert kernel(fold(START, tick(1, 900), tick(2, 900))[-1]) is None
    # Forwarding is, at any rate; and what was one is until it hardly takes in anything.
    assert kernel(fold(START, tick(1, 900, forwarded=10), tick(2, 900, forwarded=10))[-1])
    third = sample(3 * S, netdev=table({0: (205_000, 15, 21)}, NIC))
    late = replace(third, readings={**tick(3).readings, **third.readings})
    row = kernel(fold(START, tick(1), tick(2), late)[-1])
    assert row is not None


def test_a_row_does_not_blink_with_every_stray_packet() -> None:
    def at(second: int) -> Sample:
        forwarded = min(second // 2, 4)  # one packet every other tick, until the eighth
        return sample(second * S, netdev=table({0: (0, 0, 0)}, NIC, forwarded=forwarded))

    shown = [kernel(frame) is not None for frame in fold(START, *map(at, range(1, 25)))]
    first, last = shown.index(True), len(shown) - 1 - shown[::-1].index(True)
    assert all(shown[first : last + 1]), "it comes once, and goes once"
    assert first == 1 and last + 1 == 8 + 9, "ten seconds after the last packet"


def seen_by(taken_per_s: int, *others: Interface) -> NfRow:
    """The kernel's row where CPUs take in so many packets, and the NIC 100 000 of them."""

    def at(second: int) -> Sample:
        present = [replace(other, rx_packets=other.rx_packets * second) for other in others]
        nic = replace(NIC, rx_packets=100_000 * second)
        netdev = table({0: (taken_per_s * second, 0, 0)}, nic, *present, forwarded=second)
        own = sample(second * S, netdev=netdev)
        return replace(tick(second), readings={**tick(second).readings, **own.readings})

    row = kernel(fold(START, at(1), at(2))[-1])
    assert row is not None
    return row


def test_cycles_that_went_into_other_namespaces_packets_are_not_put_on_ours() -> None:
    row = seen_by(900_000)
    assert row.readings["rx_packets_per_s"] == 100_000
    why = row.readings["busy_cpp"]
    assert isinstance(why, Missing) and why.reason is Reason.UNDEFINED
    assert "900000 packets" in why.message and "100000 came" in why.message
    assert "network namespace" in row.attribution


def test_packets_that_come_again_by_an_interface_above_are_ours() -> None:
    vlan = Interface("eth0.5", "upper", "", None, None, 100_000, 0, None)
    tunnel = replace(vlan, name="gre1", kind="virtual")
    row = seen_by(300_000, vlan, tunnel)
    assert row.readings["rx_packets_per_s"] == 100_000
    assert row.readings["busy_cpp"] == pytest.approx(GHZ_2 / 2 * 0.4 / 100_000)


def test_counters_of_32_bits_wrap_and_restart() -> None:
    near = 2**32 - 40

    def at(second: int, count: int) -> Sample:
        return sample(second * S, netdev=table({0: (count, 0, 0)}))

    _, wrapped, restarted, after = fold(START, at(1, near), at(2, near + 100), at(3, 5), at(4, 25))
    assert wrapped.cpus.columns["kernel_packets_per_s"][0] == 100
    # 60 to 5: nothing wraps that far in a second, so it is another count.
    assert reason(restarted.cpus.columns["kernel_packets_per_s"][0]) is Reason.RESET
    assert after.cpus.columns["kernel_packets_per_s"][0] == 20
    assert reason(after.cpus.columns["kernel_packets_per_s"][1]) is Reason.SOURCE


def test_an_interface_that_came_went_or_was_reset() -> None:
    def at(second: int, *interfaces: Interface) -> Sample:
        return sample(second * S, netdev=table({0: (0, 0, 0)}, *interfaces))

    first, second, third = (replace(NIC, rx_packets=count) for count in (500, 900, 100))
    frames = fold(START, at(1), at(2, first), at(3, second), at(4, third), at(5))
    rates = [[interface.rx_packets_per_s for interface in frame.interfaces] for frame in frames]
    assert [len(rate) for rate in rates] == [0, 1, 1, 1, 0]
    assert reason(rates[1][0]) is Reason.WARMING
    assert rates[2][0] == 400
    assert reason(rates[3][0]) is Reason.RESET


def test_a_late_source_keeps_its_row_without_numbers() -> None:
    stale = replace(tick(6), readings={**tick(6).readings, "netdev": tick(2).readings["netdev"]})
    frames = fold(START, tick(1), tick(2), stale, tick(7))
    row = kernel(frames[2])
    assert row is not None and row.problem is not None and row.problem.reason is Reason.STALE
    assert reason(row.readings["rx_packets_per_s"]) is Reason.STALE
    back = kernel(frames[3])
    assert back is not None and back.readings["rx_packets_per_s"] == 100_000


def test_a_reading_that_is_held_adds_nothing() -> None:
    held = replace(tick(3), readings={**tick(3).readings, "netdev": tick(2).readings["netdev"]})
    rows = [kernel(frame) for frame in fold(START, tick(1), tick(2), held)]
    assert [row and row.interval_s for row in rows] == [None, 1.0, 0.0]


@pytest.mark.parametrize("cpus", [3, 8])
def test_a_held_reading_after_cpus_came_or_went_has_a_row_for_every(cpus: int) -> None:
    fewer = SourceReading(topology(cpus, smt=False), 3 * S, 0)
    held = replace(tick(3), readings={**tick(2).readings, "topology": fewer})
    frame = fold(START, tick(1), tick(2), held)[-1]
    assert len(frame.cpus) == cpus
    assert {
        name: len(column) for name, column in frame.cpus.columns.items() if len(column) != cpus
    } == {}


def test_hosts_where_it_is_not_read() -> None:
    frame = fold(START, sample(S))[-1]
    assert frame.interfaces == () and kernel(frame) is None
    assert reason(frame.cpus.columns["kernel_packets_per_s"][0]) is Reason.SOURCE


def test_its_row_has_cpus_instead_of_threads_and_interfaces_instead_of_ports() -> None:
    _, frame = fold(START, tick(1), tick(2))
    row = kernel(frame)
    assert row is not None
    assert row.readings.keys() == {metric.id for metric in NF_METRICS}
    (cpu,) = row.threads
    assert (cpu.cpu, cpu.packets_per_s) == (0, 100_000)
    assert cpu.busy_ratio == pytest.approx(0.2)
    assert reason(row.readings["imbalance_ratio"]) is Reason.UNDEFINED
    assert reason(row.readings["tma.retiring"]) is Reason.UNDEFINED
    assert not isinstance(row.ports, Missing)
    nic = next(port for port in row.ports if port.name == "eth0")
    assert (nic.rx_packets_per_s, nic.missed_packets_per_s) == (100_000, 3)
    assert frame.cpus.columns["cpp_vs_base"].reasons.tolist() == [Reason.SOURCE] * 4
