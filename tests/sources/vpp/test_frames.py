"""From the captured segments to frames, live and from a recording of them."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.fold import FoldState
from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.model.metrics.nf import LATENCY_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.nf.vpp import VppTable
from nftop.model.sample import Sample
from nftop.sources.vpp.source import VppSource
from nftop.store.format.encoder import Encoder
from nftop.store.format.records import Header
from nftop.store.format.zstd import FRAME_END
from nftop.store.reading.seekpoint import packed
from tests.derive.nf_scene import PID, host, vpp_thread
from tests.derive.scene import START, TSC_HZ, cpu, nf
from tests.peers.vpp_segment import APART_S, FULL_CALLS, FULL_FRAME, Segment, vpp_peer
from tests.recordings import everything, joined, same, ticks_of
from tests.samples import S, fold

# The sockets of one test's VPP are seen by every other's.
pytestmark = pytest.mark.alone


def samples_of(root: Path, *commands: str) -> list[Sample]:
    """A sample now, and one after each command, as far apart as the capture's two moments.

    The VPP has the pid and the threads of the fold's tests: those of the peer do not poll.
    """
    with (
        vpp_peer(root / "run/vpp") as peer,
        closing(VppSource(root, deadline_s=120.0)) as source,
    ):
        samples = []
        for number, command in enumerate(("hello", *commands)):
            peer.do(command)
            second = 10 + number * APART_S
            # Others of this machine listen too, and /proc/net/unix names them all.
            instances = source.read().instances
            (vpp,) = [item for item in instances if item.socket.startswith(str(root))]
            vpp = replace(vpp, pid=PID, start_ticks=4000, read_at_ns=int(second * S))
            rows = (vpp_thread(0, second, run=0.01), vpp_thread(1, second))
            samples.append(host(second, *rows, vpp=VppTable((vpp,))))
        return samples


def missing(reading: Reading) -> Missing:
    assert isinstance(reading, Missing), reading
    return reading


def test_a_worker_at_50_kpps(tmp_path: Path) -> None:
    """CPP is the paper's, empty polls included; what work was lies between the nodes' bounds."""
    frame = fold(START, *samples_of(tmp_path, "second"))[-1]
    (shown,) = frame.nfs
    assert (shown.kind, shown.name, shown.cpus) == ("vpp", "vpp", (Cpu(1),))
    pps = 105_888 / APART_S
    assert cpu(frame, "rx_packets_per_s") == pytest.approx(pps) == pytest.approx(50_079, abs=1)
    assert nf(frame, "tx_packets_per_s") == pytest.approx(pps)
    assert nf(frame, "drop_packets_per_s") == 0.0
    assert cpu(frame, "cpp") == pytest.approx(TSC_HZ / pps) == pytest.approx(51_918, abs=1)
    assert isinstance(shown.ports, tuple)
    sizes = {port.name: port.frame_bytes for port in shown.ports}
    assert sizes["host-h4a1"] == 64.0  # 60 bytes and their check sequence
    assert missing(sizes["loop0"]).reason is Reason.UNDEFINED
    assert missing(sizes["local0"]).reason is Reason.IDLE
    busy = missing(cpu(frame, "busy_ratio"))
    assert busy.reason is Reason.SOURCE and "4% to 37%" in busy.message


# Names of a time or of its variation; errors of timers and time-outs are counts of packets.
TIMES = re.compile(r"laten|delay|jitter|rtt|_ns\b|usec|nsec|microsec")


def test_a_captured_segment_has_no_latency_and_a_frame_the_reason(tmp_path: Path) -> None:
    names = [name for name, *_ in Segment().directory()]
    assert len(names) > 4000
    assert not [name for name in names if TIMES.search(name)]
    frame = fold(START, *samples_of(tmp_path, "second"))[-1]
    for metric in LATENCY_METRICS:
        why = missing(nf(frame, metric.id))
        assert why.reason is Reason.UNDEFINED and "VPP publish no latency" in why.message


def test_full_vectors_saturate_a_worker_and_its_cost_is_exact(tmp_path: Path) -> None:
    frames = fold(START, *samples_of(tmp_path, "second", "full", "full", "full"))
    few, full = frames[1], frames[-1]
    assert nf(few, "vector_fill_ratio") == pytest.approx(100_000 / 1916 / FULL_FRAME)
    assert few.nfs[0].saturated is None and few.cpus.saturated_by.get(Cpu(1), ()) == ()
    (shown,) = full.nfs
    assert nf(full, "vector_fill_ratio") == cpu(full, "vector_fill_ratio") == 1.0
    assert shown.saturated is True and "vectors" in shown.saturated_by
    assert full.cpus.saturated_by[Cpu(1)] == shown.saturated_by
    pps = FULL_CALLS * FULL_FRAME / APART_S
    assert cpu(full, "rx_packets_per_s") == pytest.approx(pps)
    assert cpu(full, "cpp") == pytest.approx(TSC_HZ / pps)
    assert nf(full, "room_ratio") == 0.0
    assert cpu(full, "missed_packets_per_s") == 0.0


def test_a_cleared_counter_gives_no_rate(tmp_path: Path) -> None:
    frames = fold(START, *samples_of(tmp_path, "second", "zero", "hello"))
    assert missing(nf(frames[2], "rx_packets_per_s")).reason is Reason.RESET
    assert nf(frames[3], "rx_packets_per_s") == 0.0


def test_a_segment_that_is_locked_takes_the_numbers_away_and_gives_them_back(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    frames = fold(START, *samples_of(tmp_path, "second", "lock"))
    locked = missing(nf(frames[2], "rx_packets_per_s"))
    assert locked.reason is Reason.STALE
    assert locked.message == snapshot
    assert missing(cpu(frames[2], "cpp")).reason is Reason.STALE


def test_what_it_drops_has_node_and_reason(tmp_path: Path) -> None:
    """Both threads'; what else VPP counts as errors are no drops."""
    for layout in ("hello", "older"):
        frame = fold(START, *samples_of(tmp_path / layout, layout, "drop"))[-1]
        (shown,) = frame.nfs
        assert not isinstance(shown.drops, Missing)
        rates = {(drop.where, drop.reason): drop.packets_per_s for drop in shown.drops}
        assert rates.pop(("ip4-input", "bad_checksum")) == pytest.approx(107 / APART_S)
        assert {reason for _, reason in rates} == {"rx-miss", "rx-error", "rx-no-buf"}
        assert not any(rates.values())
        assert nf(frame, "error_drops_per_s") == pytest.approx(107 / APART_S)
        assert shown.readings["rx_errors_per_s"] == shown.readings["rx_nombuf_per_s"] == 0.0
        counts = {(item.port, item.name): item.count for item in shown.xstats}
        assert counts["ethernet-input", "no error"] == 38
        assert counts["af-packet-input", "vectors"] == 518_950  # of 537,523 when refreshed last
        assert (len(counts), sum(item.drops for item in shown.xstats)) == (4 + 3 * 37, 1)


def test_a_recording_has_it_all(tmp_path: Path) -> None:
    samples = samples_of(tmp_path, "drop", "second", "lock")
    encoder = Encoder(Header(1, START.host, START.topology, "generic", False, S))
    encoder.restart()
    chunks = [encoder.tick(number, sample) for number, sample in enumerate(samples)]
    path = tmp_path / "recording"
    path.write_bytes(joined(chunks) + FRAME_END + packed(chunks[-1].after))
    ticks = ticks_of(everything(path)[0])
    again = [tick.sample for tick in ticks]
    assert all(
        same(ours.readings, theirs.readings) for ours, theirs in zip(samples, again, strict=True)
    )
    assert _shown(samples) == _shown(again)
    (shown,) = fold(FoldState(START.host, START.topology), *again)[1].nfs
    assert shown.readings["error_drops_per_s"] == pytest.approx(107 / APART_S)


def _shown(samples: list[Sample]) -> list[object]:
    frames: list[Frame] = fold(FoldState(START.host, START.topology), *samples)
    return [(frame.nfs, frame.sources["vpp"].detail) for frame in frames]
