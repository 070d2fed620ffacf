"""nftop beside a real testpmd that drops: a costly forwarding mode behind a flooded veth pair."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from nftop.derive.nf.rates import WHOLE_RATIO
from tests.real.test_batch import Frame, nf_of, nftop
from tests.real.testpmd import Testpmd, running_testpmd

pytestmark = [
    pytest.mark.real,
    pytest.mark.alone,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and iproute2"
    ),
    pytest.mark.skipif(
        shutil.which("dpdk-testpmd") is None, reason="dpdk-testpmd (Debian: dpdk-dev) is missing"
    ),
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="testpmd needs a CPU of its own"),
]
SPACE, PORT = f"nftop-{os.getpid()}-drops", 2  # behind the two null ports
FRAME_BYTES = 1418  # with the check sequence, which nobody sends over a veth pair
BURST = 32  # packets that testpmd takes at a time
FLOOD = f"""
import socket, time
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
    out.bind(("far", 0))
    frame = b"\\xff" * 6 + b"\\x02" * 6 + b"\\x08\\x00" + bytes({FRAME_BYTES} - 4 - 14)
    while True:
        for _ in range(200):
            try:
                out.send(frame)
            except OSError:
                pass
        time.sleep(0.001)
"""


@pytest.fixture
def flooded() -> Iterator[Testpmd]:
    """testpmd reads tens of thousands of cache lines for a packet, and gets thousands a second."""

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True, timeout=60)

    inside = ["ip", "netns", "exec", SPACE]
    try:
        ip("netns", "add", SPACE)
        ip("-n", SPACE, "link", "add", "near", "type", "veth", "peer", "name", "far")
        for end in ("near", "far"):
            ip("-n", SPACE, "link", "set", end, "up")
        devices = ("--vdev=net_pcap0,iface=near",)
        costly = ("--forward-mode=noisy", "--noisy-lkup-memory=16", "--noisy-lkup-num-reads=20000")
        with (
            running_testpmd(
                "nftopd",
                extra_eal=devices,
                extra_app=("--portlist=1,2", *costly),
                binary=[*inside, "dpdk-testpmd"],
            ) as testpmd,
            subprocess.Popen([*inside, sys.executable, "-c", FLOOD]) as flood,
        ):
            try:
                testpmd.command("start")
                yield testpmd
            finally:
                flood.kill()
    finally:
        subprocess.run(["ip", "netns", "del", SPACE], check=False, capture_output=True)


def missed(testpmd: Testpmd) -> int:
    """What testpmd itself says port 2 has missed."""
    printed = testpmd.command(f"show port stats {PORT}")
    counted = re.search(r"RX-missed:\s*(\d+)", printed)
    assert counted, printed
    return int(counted[1])


def test_drops_are_those_of_the_core_that_polls_and_saturate_it(flooded: Testpmd) -> None:
    # A frame and what testpmd says beside it are some milliseconds apart, more on a busy machine:
    # the longer, the less that is.
    for ticks in (6, 12, 30, 60):
        with nftop("-n", str(ticks)) as frames:
            shown = [(frame, missed(flooded), time.monotonic()) for frame in frames]
        try:
            agrees(shown)
            break
        except (AssertionError, TypeError):  # a number may be absent, too
            if ticks == 60:
                raise


def agrees(shown: list[tuple[Frame, int, float]]) -> None:
    spans = [nf_of(frame, "nftopd") or {} for frame, _, _ in shown[1:]]
    dropped = sum(nf["drop_packets_per_s"] * nf["interval_s"] for nf in spans)
    seconds = sum(nf["interval_s"] for nf in spans)
    (_, first, began), (_, last, ended) = shown[0], shown[-1]
    assert last > first, "it takes in all of it"
    assert dropped / seconds == pytest.approx((last - first) / (ended - began), rel=0.1)
    for (frame, _, _), nf in zip(shown[1:], spans, strict=True):
        core = frame["cpus"][1]
        assert core["missed_packets_per_s"] == nf["drop_packets_per_s"]
        assert nf["queues"][PORT]["missed_packets_per_s"] == nf["drop_packets_per_s"]
        alone = core["run_ratio"] >= WHOLE_RATIO  # on a busy machine it has to wait for its CPU
        assert core["saturated_by"] == nf["saturated_by"] == ["drops"] * alone
        assert core["saturated"] is (True if alone else None)
        assert core["room_ratio"] == nf["room_ratio"] == (0.0 if alone else None)
        # Bytes and packets of a port are read one after the other: a burst may come between.
        burst_ratio = BURST / (nf["ports"][PORT]["rx_packets_per_s"] * nf["interval_s"])
        assert nf["ports"][PORT]["frame_bytes"] == pytest.approx(FRAME_BYTES, rel=burst_ratio)
        assert nf["ports"][PORT]["missing"]["line_packets_per_s"] == "undefined"
