"""From the socket to the frame: a server whose clock the test turns on, second by second."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nftop.derive.fold import FoldState, step
from nftop.model.frame import Frame
from nftop.model.missing import Missing, Reading, Reason
from nftop.sources.pcm.source import PcmTopologySource, topology_of
from tests.peers.pcm_server import PCIE_STEP, PcmPeer, pcm_server
from tests.samples import HOST, S, sample
from tests.sources.pcm.test_source import source, table

Seconds = Callable[[int], list[Frame]]


def seconds_of(peer: PcmPeer) -> Seconds:
    """Frames of the next so many seconds of the server, read once in each."""
    pcm = source(peer)
    topology_source = PcmTopologySource(pcm)
    state = FoldState(HOST, topology_of(table(pcm.read())))

    def go_on(count: int) -> list[Frame]:
        nonlocal state
        frames = []
        for _ in range(count):
            peer.second += 1
            value = pcm.read()
            at_ns = (peer.second + 1) * S
            state, frame = step(state, sample(at_ns, pcm=value, topology=topology_source.read()))
            frames.append(frame)
        return frames

    return go_on


def of_package(frame: Frame, metric: str, row: int = 0) -> Reading:
    return frame.packages[row].readings[metric]


def reason(reading: Reading) -> Reason:
    assert isinstance(reading, Missing), reading
    return reading.reason


@pytest.mark.parametrize("behaviour", ["well", "totals_only"])
def test_seconds_and_totals_give_the_same_rates(behaviour: str) -> None:
    with pcm_server() as peer:
        peer.behaviour = behaviour
        frames = seconds_of(peer)(8)
    last = frames[-1]
    length_s = 1.000026 if behaviour == "well" else 1.0
    assert of_package(last, "power_w") == pytest.approx(143.491 / length_s, rel=1e-6)
    assert of_package(last, "memory.read_bytes_per_s") == pytest.approx(2551379968 / length_s)
    assert of_package(last, "upi.received_bytes_per_s", 1) == pytest.approx(
        653055872 / length_s, rel=0.01
    )
    assert last.cpus.columns["ipc"][0] == pytest.approx(612572731 / 505470868)
    assert of_package(last, "pcie.itom.total_per_s") == pytest.approx(PCIE_STEP)
    assert reason(of_package(frames[0], "pcie.itom.total_per_s")) is Reason.WARMING


def test_a_server_that_starts_again_is_a_reset_and_then_new_numbers() -> None:
    with pcm_server() as peer:
        peer.behaviour = "totals_only"
        go_on = seconds_of(peer)
        go_on(4)
        peer.restarted_at = peer.second
        after = go_on(5)
    assert reason(of_package(after[0], "power_w")) is Reason.RESET
    assert reason(of_package(after[0], "pcie.itom.total_per_s")) is Reason.RESET
    assert of_package(after[1], "power_w") == pytest.approx(143.491, rel=1e-6)
    assert of_package(after[-1], "pcie.itom.total_per_s") == pytest.approx(PCIE_STEP)


def test_sockets_that_are_renumbered_take_their_numbers_with_them() -> None:
    with pcm_server() as peer:
        go_on = seconds_of(peer)
        before = go_on(6)[-1]
        peer.renumbered = True
        first, *_, last = go_on(6)
    for frame in (first, last):
        assert of_package(frame, "power_w", 0) == of_package(before, "power_w", 1)
        assert of_package(frame, "power_w", 1) == of_package(before, "power_w", 0)
    assert reason(of_package(first, "pcie.itom.total_per_s")) is Reason.WARMING
    assert of_package(last, "pcie.itom.total_per_s") == pytest.approx(PCIE_STEP)


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        ("negative", Reason.ERROR),
        ("nan", Reason.SOURCE),
        ("wrapped", Reason.HARDWARE),
        ("http500", Reason.ERROR),
        ("invalid", Reason.ERROR),
        ("half", Reason.ERROR),
        ("close", Reason.ERROR),
    ],
)
def test_numbers_go_to_reasons_and_come_back(behaviour: str, expected: Reason) -> None:
    with pcm_server() as peer:
        go_on = seconds_of(peer)
        before = go_on(1)[-1]
        peer.behaviour = behaviour
        (during,) = go_on(1)
        peer.behaviour = "well"
        after = go_on(1)[-1]
    assert reason(of_package(during, "power_w")) is expected
    assert reason(of_package(during, "memory.read_bytes_per_s")) is expected
    assert isinstance(during.cpus.columns["ipc"][0], Missing)
    assert of_package(after, "power_w") == of_package(before, "power_w")
    assert after.cpus.columns["ipc"][0] == before.cpus.columns["ipc"][0]


def test_requests_of_a_collector_that_rests_are_of_the_second_it_counts() -> None:
    with pcm_server("skx_2026-06") as peer:
        peer.every_s = 3
        last = seconds_of(peer)(16)[-1]
    assert of_package(last, "pcie.rfo.total_per_s") == pytest.approx(PCIE_STEP)
    assert of_package(last, "mmio.read_per_s") == pytest.approx(PCIE_STEP)  # PRd on this CPU
    assert of_package(last, "pcie.read_bytes_per_s") == pytest.approx(64 * PCIE_STEP)
    assert of_package(last, "pcie.write_bytes_per_s") == pytest.approx(2 * 64 * PCIE_STEP)
