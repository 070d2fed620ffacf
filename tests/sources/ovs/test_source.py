"""The source against daemons that behave, and daemons that do not."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Reason
from nftop.model.nf.ovs import OvsSwitch
from nftop.sources.ovs.protocol import ALLOWED
from nftop.sources.ovs.source import OvsSource
from tests.peers.ovs_unixctl import STEP, Peer, unixctl_peer
from tests.waiting import until

# The sockets of one test's Open vSwitch are seen by every other's.
pytestmark = pytest.mark.alone

# No test waits that long but one that fails: a busy machine's delays are no fault of anybody's.
PATIENT_S = 120.0
HASTY_S = 0.05  # for who will not answer in time however long one waits
RX = 25950208  # of the capture of 3.5


class Clock:
    """CLOCK_MONOTONIC, with time that can be skipped; where it stands, only by what is skipped."""

    def __init__(self) -> None:
        self.skipped_s = 0.0
        self.stood_at_ns: int | None = None

    def stand(self) -> None:
        self.stood_at_ns = time.monotonic_ns()

    def __call__(self) -> int:
        now_ns = time.monotonic_ns() if self.stood_at_ns is None else self.stood_at_ns
        return now_ns + int(self.skipped_s * 1e9)


class Bench:
    """A host of its own: a root and a /proc with only the daemons started here."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.root = folder / "root"
        self.proc = folder / "proc"
        self.proc.mkdir(parents=True)
        self.clock = Clock()
        self._stack = stack
        source = OvsSource(self.root, self.proc, {}, deadline_s=PATIENT_S, clock=self.clock)
        self.source = stack.enter_context(closing(source))

    def wait_at_most(self, deadline_s: float) -> None:
        self.source._deadline_s = deadline_s

    def peer(
        self,
        behaviour: str = "normal",
        rundir: str = "run/openvswitch",
        capture: str = "ovs-3.5.0-dpdk24.11-1pmd",
        name: str = "ovs-vswitchd.7.ctl",
    ) -> Peer:
        peer = self._stack.enter_context(unixctl_peer(self.root / rundir, behaviour, capture, name))
        (self.proc / str(peer.pid)).mkdir()
        for item in ("stat", "comm"):
            (self.proc / str(peer.pid) / item).symlink_to(f"/proc/{peer.pid}/{item}")
        return peer

    def switches(self) -> tuple[OvsSwitch, ...]:
        return self.source.read().switches

    def switch(self) -> OvsSwitch:
        (switch,) = self.switches()
        return switch


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(tmp_path, stack)


@pytest.fixture
def stood(bench: Bench) -> Bench:
    """For tests in which time is what they say it is."""
    bench.clock.stand()
    return bench


def test_the_first_read_has_everything(bench: Bench) -> None:
    peer = bench.peer()
    before = time.monotonic_ns()
    switch = bench.switch()
    after = time.monotonic_ns()

    assert (switch.pid, switch.name, switch.problem) == (peer.pid, "ovs-vswitchd", None)
    assert switch.start_ticks > 0
    assert switch.version == "ovs-vswitchd (Open vSwitch) 3.5.0"
    assert (switch.socket, switch.rundir) == (str(peer.socket), str(peer.socket.parent))
    (pmd,) = switch.pmds
    assert (pmd.core, pmd.numa) == (1, 0)
    requests = 1 if bench_requests_once(peer) else 2  # a busy machine's first answer may be slow
    assert pmd.rx_packets == RX + requests * STEP
    assert pmd.tx_packets == 24899744 + requests * STEP
    assert (pmd.used_cycles, pmd.busy_cycles) == (
        3278322454 + 2 * requests * STEP,
        3278322454 + requests * STEP,
    )
    assert (pmd.sleep_us, pmd.upcalls, pmd.lost_upcalls) == (0, 3486, 3485)
    assert pmd.hits == {"phwol": 0, "simple": 0, "emc": 25946656, "smc": 0, "megaflow": 66}
    assert [(queue.port, queue.queue, queue.used_ratio) for queue in pmd.queues] == [
        ("n0", 0, 0.88),
        ("n1", 0, 0.0),
    ]
    assert (pmd.overhead_ratio, switch.usage_window_s) == (0.12, 5.0)
    assert before < switch.read_at_ns < after
    assert 0 < switch.took_ns < after - before


def bench_requests_once(peer: Peer) -> bool:
    return len(peer.requested()) == 4


@pytest.mark.parametrize(
    ("capture", "calls"),
    [
        ("ovs-3.5.0-dpdk24.11-1pmd", [
            ["dpif-netdev/pmd-stats-show"], ["dpif-netdev/pmd-perf-show", "-nh"],
            ["dpif-netdev/pmd-rxq-show", "-secs", "5"],
        ]),
        ("ovs-4.0.0-dpdk25.11-1pmd", [
            ["dpif-netdev/pmd-perf-show", "-nh"], ["dpif-netdev/pmd-rxq-show", "-secs", "5"],
        ]),
    ],
)  # fmt: skip
def test_only_what_that_version_has_is_queried_and_nothing_but_to_read(
    stood: Bench, capture: str, calls: list[list[str]]
) -> None:
    peer = stood.peer(capture=capture)
    for _ in range(3):
        assert stood.switch().problem is None
    assert peer.requested() == [["version"], *calls * 3]
    assert {method for method, *_ in peer.requested()} <= ALLOWED


def test_where_busy_cycles_are_not_reported_its_packets_and_cycles_are_of_one_reply(
    stood: Bench,
) -> None:
    stood.peer(capture="ovs-4.0.0-dpdk25.11-1pmd")
    (pmd,) = stood.switch().pmds
    assert (pmd.rx_packets, pmd.used_cycles) == (55938144 + STEP, 5664522742 + STEP)
    assert (pmd.tx_packets, pmd.busy_cycles) == (55571232 + STEP, None)
    assert pmd.counted_s is not None


def test_before_2_10_it_counts_no_packets(stood: Bench) -> None:
    peer = stood.peer("2.9", capture="ovs-3.1.0-dummy-pmd")
    stood.switch()
    assert peer.requested()[1:] == [["dpif-netdev/pmd-stats-show"], ["dpif-netdev/pmd-rxq-show"]]


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("garbage", "not a JSON object"),
        ("array", "not a JSON object"),
        ("brackets", "not JSON"),
        ("nested", "not JSON"),
        ("huge", "more than 4 MiB"),
        ("extra", "its replies are invalid"),
        ("other number", "for another request"),
        ("nothing", "for another request"),
        ("closes", "closed the control connection"),
        ("half", "closed the control connection"),
        ("fails", "failed: out of \x1b[31mluck"),
        ("number", "not a text"),
        ("object", "not a text"),
        ("no number", "packets received of a PMD thread is not a whole number"),
        ("negative", "not a whole number"),
        ("too large", "not a whole number"),
        ("no core", "on which core"),
        ("twice", "two PMD threads on core 1"),
        ("without stats", "offers no statistics"),
    ],
)
@pytest.mark.parametrize("from_the_start", [True, False])
def test_nonsense_is_a_problem_and_never_a_number(
    bench: Bench, behaviour: str, words: str, *, from_the_start: bool
) -> None:
    peer = bench.peer(behaviour if from_the_start else "normal")
    good = None if from_the_start else bench.switch()
    peer.behave(behaviour)
    bench.switch()
    switch = bench.switch()  # a message too many is noticed with the next question

    assert switch.problem is not None
    assert switch.problem.reason is Reason.ERROR
    assert words in switch.problem.message
    assert "\n" not in switch.problem.message
    assert switch.pid == peer.pid
    if behaviour == "extra":
        pass  # what came before the message too many was an answer like any other
    elif good is None:
        assert switch.pmds == ()
    else:
        assert (switch.pmds, switch.read_at_ns) == (good.pmds, good.read_at_ns)

    peer.behave("normal")
    bench.clock.skipped_s += 31
    assert bench.switch().problem is None


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("no result", "its answer to version is not a text"),
        ("another program", "its version is 'ovsdb-server 3.1.0'"),
        ("too old", "older than 2.6"),
    ],
)
def test_a_foreign_ovs_gets_only_the_version_request(
    stood: Bench, behaviour: str, words: str
) -> None:
    peer = stood.peer(behaviour)
    switch = [stood.switch() for _ in range(3)][-1]
    assert switch.problem is not None and words in switch.problem.message
    assert peer.requested() == [["version"]]  # and is left alone for a while


def test_a_failing_daemon_is_tried_again_ever_more_seldom(stood: Bench) -> None:
    peer = stood.peer("garbage")
    attempts = []
    for second in range(100):
        stood.clock.skipped_s = second
        before = len(peer.requested())
        stood.switch()
        if len(peer.requested()) > before:
            attempts.append(second)
    assert [after - before for before, after in pairwise(attempts)] == [1, 2, 4, 8, 16, 30, 30]


@pytest.mark.parametrize("behaviour", ["mute", "stuck"])
def test_no_answer_is_reported_with_its_age_and_late_answers_are_not_mixed_up(
    stood: Bench, behaviour: str
) -> None:
    peer = stood.peer()
    good = stood.switch()
    peer.behave(behaviour)
    stood.wait_at_most(HASTY_S)
    requests = len(peer.requested())
    messages = []
    for second in (0.5, 3, 5):
        stood.clock.skipped_s = second
        switch = stood.switch()
        assert switch.problem is not None and switch.problem.reason is Reason.STALE
        assert (switch.pmds, switch.read_at_ns) == (good.pmds, good.read_at_ns)
        messages.append(switch.problem.message)
    assert re.search("for [45] s", messages[-1])
    assert len(peer.requested()) <= requests + 3  # what is owed is waited for, not asked again
    peer.behave("normal")
    stood.wait_at_most(PATIENT_S)
    until(lambda: stood.switch().problem is None)
    # Of the late batch nothing was taken: when it was true nobody knows.
    assert (stood.switch().pmds[0].rx_packets or 0) >= RX + 3 * STEP
    assert peer.requested().count(["version"]) == 1  # the connection was kept


def test_answers_that_come_a_byte_at_a_time_are_put_together(bench: Bench) -> None:
    bench.peer("dribbling")
    switch = bench.switch()
    assert switch.problem is None
    assert (switch.pmds[0].rx_packets or 0) % STEP == RX % STEP


def test_a_slow_answer_is_requested_once_more(bench: Bench) -> None:
    peer = bench.peer("slow")
    assert bench.switch().problem is None
    assert peer.requested().count(["dpif-netdev/pmd-stats-show"]) == 2


def test_a_stopped_daemon_is_stale_and_comes_back(bench: Bench) -> None:
    peer = bench.peer()
    good = bench.switch()
    bench.wait_at_most(HASTY_S)
    with peer.stopped():
        for _ in range(3):
            switch = bench.switch()
            assert switch.problem is not None and switch.problem.reason is Reason.STALE
            assert switch.pmds == good.pmds
    bench.wait_at_most(PATIENT_S)
    until(lambda: bench.switch().problem is None)
    assert bench.switch().pid == peer.pid


def test_killed_it_is_gone_and_its_successor_is_another(bench: Bench) -> None:
    old = bench.peer()
    first = bench.switch()
    old.kill()
    assert bench.switches() == ()
    assert old.socket.exists()
    absent, left = bench.source.check()
    assert absent.reason is left.reason is Reason.SOURCE
    assert str(old.socket) in left.text
    new = bench.peer(name="ovs-vswitchd.8.ctl")
    second = bench.switch()
    assert (second.pid, second.problem) == (new.pid, None)
    assert (second.pid, second.start_ticks) != (first.pid, first.start_ticks)
    # Beside one that lives a left-over is nobody's concern.
    assert [check.reason for check in bench.source.check()] == [Reason.PRESENT]


def test_several_daemons_are_polled_at_once(bench: Bench) -> None:
    peers = [bench.peer(rundir=f"{name}/openvswitch") for name in ("run", "usr/local/var/run")]
    hung = bench.peer("mute", rundir="var/run/openvswitch")
    bench.wait_at_most(0.5)
    until(lambda: sum(switch.problem is None for switch in bench.switches()) == 2)
    by_pid = {switch.pid: switch for switch in bench.switches()}
    assert {pid for pid, item in by_pid.items() if item.problem is None} == {
        peer.pid for peer in peers
    }
    assert by_pid[hung.pid].pmds == ()


def test_a_clear_shows_by_how_long_it_has_counted(bench: Bench) -> None:
    peer = bench.peer()
    before = bench.switch().pmds[0]
    peer.behave("clear")
    after = bench.switch().pmds[0]
    assert (after.rx_packets or 0) < (before.rx_packets or 0)
    assert after.counted_s is not None


@pytest.mark.parametrize("behaviour", ["no datapath", "null"])
def test_without_a_userspace_datapath_it_has_no_pmd_threads(stood: Bench, behaviour: str) -> None:
    stood.peer(behaviour)
    for _ in range(2):
        switch = stood.switch()
        assert (switch.problem, switch.pmds) == (None, ())
    (check,) = stood.source.check()
    assert (check.reason, "netdev" in check.text) == (Reason.SOURCE, True)


def test_a_datapath_that_comes_later_is_detected_whatever_it_is_called(stood: Bench) -> None:
    peer = stood.peer("no datapath")
    assert stood.switch().pmds == ()
    peer.behave("normal")
    assert len(stood.switch().pmds) == 1
    assert peer.requested()[-1] == ["dpif-netdev/pmd-rxq-show", "-secs", "5"]


def test_of_several_datapaths_the_usual_one_is_read(stood: Bench) -> None:
    peer = stood.peer("several datapaths")
    for _ in range(2):
        assert len(stood.switch().pmds) == 1
    assert ["dpif-netdev/pmd-rxq-show", "-secs", "5", "ovs-netdev"] in peer.requested()
    assert len(peer.requested()) == 1 + 3 + 3 + 3  # the name is learnt once


def test_a_command_that_it_does_not_know_is_queried_once(stood: Bench) -> None:
    peer = stood.peer("without rxq")
    switch = [stood.switch() for _ in range(3)][-1]
    assert switch.problem is None
    assert switch.pmds[0].queues == ()
    assert sum(method.endswith("rxq-show") for method, *_ in peer.requested()) == 1


def test_doctor_lists_the_sources(bench: Bench, snapshot: SnapshotAssertion) -> None:
    (nothing,) = bench.source.check()
    assert nothing.reason is Reason.SOURCE
    assert nothing.text == snapshot
    peer = bench.peer()
    (check,) = bench.source.check()
    assert check.reason is Reason.PRESENT
    assert check.text.replace(str(peer.pid), "PID") == snapshot
