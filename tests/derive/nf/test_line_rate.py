"""Line rates: Table 16 of the paper, and which ports have one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nftop.derive.nf.line_rate import frame_size, is_pci, line_of, line_rate, lines_of
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.nf.components import NfPort
from nftop.model.sample import DpdkApp
from tests.derive.nf_scene import PID, ovs, switch, working
from tests.derive.scene import START, nf, reason, tick
from tests.samples import S, app, fold, port, table

GIGABIT = 1_000_000_000
# FD.io, "Benchmarking Software Data Planes", Table 16: frame size and Mpps at 10 Gbit/s.
TABLE_16 = (
    (64, 14.88), (128, 8.45), (200, 5.68), (256, 4.53), (384, 3.09), (512, 2.35), (768, 1.59),
    (1024, 1.20), (1280, 0.96), (1518, 0.81),
)  # fmt: skip


@pytest.mark.parametrize(("size", "mpps"), TABLE_16)
def test_the_papers_line_rates_come_back(size: int, mpps: float) -> None:
    assert line_rate(10 * GIGABIT, size) / 1e6 == pytest.approx(mpps, abs=0.0051)
    # The NIC counts no check sequence.
    frame = frame_size(1e6, (size - 4) * 1e6)
    assert frame == pytest.approx(size)
    assert line_of(10 * GIGABIT, frame, has_link=True) == line_rate(10 * GIGABIT, size)


def test_no_frame_is_shorter_than_ethernets() -> None:
    assert frame_size(1e6, 46e6) == 64.0
    assert reason(frame_size(0.0, 0.0)) is Reason.IDLE
    assert reason(frame_size(1e6, 0.0)) is Reason.SOURCE, "a driver that counts no bytes"
    assert reason(frame_size(1e6, Missing(Reason.RESET))) is Reason.RESET


def test_only_links_have_a_line_rate() -> None:
    assert is_pci("0000:3b:00.1")
    for name in ("net_null0", "net_tap0", "0000:3b:00.0_representor_vf1", "net_bonding0"):
        assert not is_pci(name)
    assert reason(line_of(10 * GIGABIT, 64.0, has_link=False)) is Reason.UNDEFINED
    assert reason(line_of(None, 64.0, has_link=True)) is Reason.SOURCE
    assert reason(line_of(GIGABIT, Missing(Reason.IDLE), has_link=True)) is Reason.IDLE


def of(line: Reading, packets: float, missed: Reading = 0.0) -> NfPort:
    return NfPort("p", packets, 0.0, missed, 0.0, 64.0, line)


def test_ports_that_receive_add_up_and_the_fullest_one_counts() -> None:
    aside = [of(Missing(Reason.UNDEFINED), 1e9), of(Missing(Reason.IDLE), 0.0)]
    line, share = lines_of([of(10e6, 4e6), of(20e6, 4e6, 8e6), *aside])
    assert (line, share) == (30e6, 0.6)
    for ports in (aside, ()):
        assert [reason(item) for item in lines_of(ports)] == [Reason.UNDEFINED] * 2
    unknown = [of(10e6, 4e6), of(Missing(Reason.SOURCE), 1e6)]
    assert [reason(item) for item in lines_of(unknown)] == [Reason.SOURCE] * 2
    no_drops = lines_of([of(10e6, 4e6, Missing(Reason.SOURCE))])
    assert no_drops[0] == 10e6 and reason(no_drops[1]) is Reason.SOURCE


def nic(second: float, link_bits_per_s: int | None = 25 * GIGABIT) -> DpdkApp:
    """5 Mpps of 128-byte frames are received, and 1 Mpps dropped; a virtual port sends."""
    packets = int(5e6 * second)
    first = replace(
        port(0, rx=packets),
        name="0000:3b:00.0",
        rx_bytes=packets * 124,
        rx_missed=int(1e6 * second),
        link_bits_per_s=link_bits_per_s,
    )
    return app(int(second * S), first, port(1, tx=packets))


def test_a_dpdk_application_has_the_line_rate_of_its_nics() -> None:
    frame = fold(START, *(tick(t, nic(t)) for t in (1, 2)))[-1]
    line = 25e9 / (8 * 148)
    assert nf(frame, "line_packets_per_s") == pytest.approx(line)
    assert nf(frame, "line_ratio") == pytest.approx(6e6 / line)
    ports = frame.nfs[0].ports
    assert not isinstance(ports, Missing)
    assert ports[0].frame_bytes == 128.0 and reason(ports[1].line_packets_per_s)
    down = fold(START, *(tick(t, nic(t, None)) for t in (1, 2)))[-1]
    assert reason(nf(down, "line_ratio")) is Reason.SOURCE


def test_a_switch_has_the_ports_of_its_dpdk() -> None:
    samples = []
    for t in (1, 2):
        sample = ovs(t, working(1, t, 5 * 10**6, 0.5))
        duplicate = replace(nic(t), pid=PID, start_ticks=switch(t).start_ticks, prefix="ovs")
        reading = replace(sample.readings["ovs"], value=table(duplicate))
        samples.append(replace(sample, readings={**sample.readings, "dpdk": reading}))
    frame = fold(START, *samples)[-1]
    ports = frame.nfs[0].ports
    assert not isinstance(ports, Missing) and [item.name for item in ports] == [
        "0 0000:3b:00.0",
        "1 net_null1",
    ]
    assert nf(frame, "line_ratio") == pytest.approx(6e6 / (25e9 / (8 * 148)))
