"""The source against servers that behave, and servers that do not."""

from __future__ import annotations

import shlex
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, chdir, closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Reason
from nftop.model.sample import DpdkApp
from nftop.sources.dpdk.client import ALLOWED
from nftop.sources.dpdk.source import DpdkSource
from tests.peers.dpdk_telemetry import CLIENTS, NAME, SLOW_S, STEP, Peer, telemetry_peer
from tests.shell import run_as_root
from tests.waiting import until

# No test waits that long but one that fails: a busy machine's delays are no fault of anybody's.
PATIENT_S = 120.0
HASTY_S = 0.3  # for who will not answer in time however long one waits


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
    """A host of its own: a root and a /proc with only the peers started here."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.root = folder / "root"
        self.proc = folder / "proc"
        self.proc.mkdir(parents=True)
        self.clock = Clock()
        self._stack = stack
        source = DpdkSource(self.root, self.proc, {}, deadline_s=PATIENT_S, clock=self.clock)
        self.source = stack.enter_context(closing(source))

    def wait_at_most(self, deadline_s: float) -> None:
        self.source._deadline_s = deadline_s

    def peer(
        self, behaviour: str = "normal", prefix: str = "nfa", capture: str = "testpmd-24.11"
    ) -> Peer:
        folder = self.root / "run" / "dpdk" / prefix
        peer = self._stack.enter_context(telemetry_peer(folder, behaviour, capture))
        (self.proc / str(peer.pid)).mkdir()
        for name in ("stat", "comm"):
            (self.proc / str(peer.pid) / name).symlink_to(f"/proc/{peer.pid}/{name}")
        return peer

    def apps(self) -> tuple[DpdkApp, ...]:
        return self.source.read().apps

    def app(self) -> DpdkApp:
        (app,) = self.apps()
        return app


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
    app = bench.app()
    after = time.monotonic_ns()

    assert (app.pid, app.name, app.prefix) == (peer.pid, "dpdk-testpmd", "nfa")
    assert app.start_ticks > 0
    assert (app.version, app.problem, app.socket) == ("DPDK 24.11.4", None, str(peer.socket))
    assert app.eal_params[:3] == ("dpdk-testpmd", "--lcores", "0@0,1@0,2@1")
    assert "--record-core-cycles" in app.app_params
    rx, tx = app.ports
    assert (rx.name, rx.rx_queues, rx.rx_packets) == ("net_null0", 2, 173682720 + STEP)
    assert rx.rx_queue_packets == (83927072 + STEP, 89755648 + STEP)
    assert (rx.tx_packets, rx.rx_missed) == (0, 0)
    assert (tx.rx_packets, tx.tx_packets, tx.rx_queue_packets) == (0, 172843168 + STEP, (0, 0))
    assert app.lcores_told
    assert [(row.lcore, row.cpus, row.role, row.busy_cycles) for row in app.lcores] == [
        (0, (0,), "RTE", None),
        (1, (0,), "RTE", 3866409240 + STEP),
        (2, (1,), "RTE", 3854181069 + STEP),
    ]
    assert app.lcores[2].total_cycles == 4074133050 + STEP
    assert before < app.read_at_ns < after
    assert 0 < app.took_ns < after - before


def test_a_tick_requests_counters_only_and_nothing_that_is_not_listed(bench: Bench) -> None:
    peer = bench.peer(capture="testpmd-22.11")
    first = bench.app()
    reports = len(peer.requested())
    second = bench.app()

    assert peer.requested()[reports:] == ["/ethdev/xstats,0", "/ethdev/xstats,1"]
    assert peer.requested()[0] == "/"
    assert {question.partition(",")[0] for question in peer.requested()} <= ALLOWED
    assert not any("lcore" in question for question in peer.requested())  # 22.11 has none
    assert not first.lcores_told
    assert second.ports[0].rx_packets == (first.ports[0].rx_packets or 0) + STEP
    bench.clock.skipped_s = 6
    bench.app()
    assert "/ethdev/list" in peer.requested()[reports:]
    assert peer.requested().count("/") == 1


def test_totals_come_from_stats_where_xstats_give_none(bench: Bench) -> None:
    bench.peer(capture="testpmd-25.11")  # answers null for the xstats of port 1
    assert bench.app().ports[1].tx_packets is None
    app = bench.app()
    assert app.problem is None
    assert app.ports[1].tx_packets == 102599744 + STEP
    assert app.ports[0].rx_queue_packets == (102962304 + 2 * STEP,)


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("garbage", "not JSON"),
        ("half", "not JSON"),
        ("nested", "not JSON"),
        ("not an object", "not an object"),
        ("huge", "more than 16384 bytes"),
        ("twice", "its replies are invalid"),
        ("extra", "its replies are invalid"),
        ("other key", "for another command"),
        ("closes", "closed the telemetry connection"),
        ("dict", "rx_good_packets in the counters of port 0 is not a whole number"),
        ("text", "not a whole number"),
        ("float", "not a whole number"),
        ("true", "not a whole number"),
        ("NaN", "not a whole number"),
        ("negative", "out of range"),
        ("too large", "out of range"),
    ],
)
@pytest.mark.parametrize("from_the_start", [True, False])
def test_nonsense_is_a_problem_and_never_a_number(
    bench: Bench, behaviour: str, words: str, *, from_the_start: bool
) -> None:
    peer = bench.peer(behaviour if from_the_start else "normal")
    good = None if from_the_start else bench.app()
    peer.behave(behaviour)
    bench.app()
    app = bench.app()  # a message too many is noticed with the next question

    assert app.problem is not None
    assert app.problem.reason is Reason.ERROR
    assert words in app.problem.message
    assert app.pid == peer.pid
    if good is None:
        assert (app.ports == ()) is (behaviour != "extra")
    elif behaviour != "extra":
        assert (app.ports, app.read_at_ns) == (good.ports, good.read_at_ns)

    peer.behave("normal")
    bench.clock.skipped_s += 31
    assert bench.app().problem is None


def test_a_failing_application_is_tried_again_ever_more_seldom(stood: Bench) -> None:
    peer = stood.peer("garbage")
    attempts = []
    for second in range(100):
        stood.clock.skipped_s = second
        before = len(peer.requested())
        stood.app()
        if len(peer.requested()) > before:
            attempts.append(second)
    assert [after - before for before, after in pairwise(attempts)] == [1, 2, 4, 8, 16, 30, 30]


@pytest.mark.parametrize("behaviour", ["silent", "mute"])
def test_no_answer_is_reported_with_its_age_and_late_answers_are_not_mixed_up(
    stood: Bench, behaviour: str, snapshot: SnapshotAssertion
) -> None:
    peer = stood.peer()
    if behaviour == "mute":
        stood.app()
    requests = len(peer.requested()) + (behaviour == "mute")  # the first that it does not answer
    peer.behave(behaviour)
    stood.wait_at_most(HASTY_S)
    app = stood.app()
    good_at_ns = app.read_at_ns
    assert app.problem is not None
    assert app.problem.reason is Reason.STALE
    until(lambda: len(peer.requested()) == requests)

    stood.clock.skipped_s = 3
    stood.wait_at_most(PATIENT_S)
    before = time.monotonic()
    app = stood.app()
    assert time.monotonic() - before < PATIENT_S  # who hangs is waited for once
    assert app.problem is not None
    assert app.problem.message == snapshot
    assert (app.pid, app.prefix, app.read_at_ns) == (peer.pid, "nfa", good_at_ns)
    assert len(peer.requested()) == requests

    peer.behave("normal")
    until(lambda: stood.app().problem is None)
    app = stood.app()
    assert app.ports[0].name == "net_null0"
    # Port 1 sends what port 0 receives: mixed-up answers would show here.
    assert (app.ports[0].tx_packets, app.ports[1].rx_packets) == (0, 0)
    # Late counters are of an unknown time, so they were asked for again.
    times = peer.requested().count("/ethdev/xstats,0")
    assert app.ports[0].rx_packets == 173682720 + times * STEP
    assert peer.requested().count("/") == 1  # the same connection throughout


def test_a_connection_that_stays_silent_is_given_up_after_a_minute(
    stood: Bench, snapshot: SnapshotAssertion
) -> None:
    peer = stood.peer()
    stood.app()
    peer.behave("mute")
    stood.wait_at_most(HASTY_S)
    stood.app()
    stood.clock.skipped_s = 61
    app = stood.app()
    assert app.problem is not None
    assert app.problem.message == snapshot
    assert peer.requested().count("/") == 1
    stood.clock.skipped_s = 63
    assert stood.app().problem is not None
    peer.behave("normal")
    stood.wait_at_most(PATIENT_S)
    until(lambda: stood.app().problem is None)
    assert peer.requested().count("/") == 2


def test_one_that_hangs_does_not_delay_the_others(stood: Bench) -> None:
    for index in range(4):
        stood.peer(("silent", "mute", "slow", "full")[index], prefix=f"bad{index}")
    good = stood.peer(prefix="good")

    def read() -> DpdkApp:
        apps = {app.prefix: app for app in stood.apps()}
        assert len(apps) == 5
        return apps["good"]

    stood.wait_at_most(HASTY_S)
    until(lambda: read().problem is None)
    stood.wait_at_most(PATIENT_S)
    before = time.monotonic()
    for _ in range(2):
        app = read()
        assert (app.problem, app.pid) == (None, good.pid)
    assert time.monotonic() - before < PATIENT_S


def test_slow_answers_within_the_deadline_are_good(bench: Bench) -> None:
    peer = bench.peer(capture="testpmd-22.11")
    bench.app()
    peer.behave("slow")
    before = time.monotonic_ns()
    app = bench.app()
    after = time.monotonic_ns()
    assert app.problem is None
    assert app.took_ns / 1e9 >= 2 * SLOW_S
    began, ended = app.read_at_ns - app.took_ns / 2, app.read_at_ns + app.took_ns / 2
    assert before - 1 <= began < ended <= after + 1


def test_slow_answers_past_the_deadline_are_not(stood: Bench, snapshot: SnapshotAssertion) -> None:
    peer = stood.peer()
    good = stood.app()
    peer.behave("slow")  # three questions of 0.15 s
    stood.wait_at_most(HASTY_S)
    app = stood.app()
    assert app.problem is not None
    assert app.problem.message == snapshot
    assert app.read_at_ns == good.read_at_ns


def test_the_eleventh_client_reports_that_ten_are_connected(bench: Bench) -> None:
    peer = bench.peer(capture="testpmd-22.11")
    with ExitStack() as stack:
        for _ in range(CLIENTS):
            client = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            with chdir(peer.socket.parent):
                client.connect(NAME)
            assert client.recv(1000)
        app = bench.app()
        assert app.problem is not None
        assert app.problem.reason is Reason.TAKEN
        assert (app.pid, app.name) == (peer.pid, Path(f"/proc/{peer.pid}/comm").read_text().strip())
        (check,) = bench.source.check()
        assert check.reason is Reason.TAKEN

    nobody = replace(app, pid=0)
    assert "(pid unknown, " in bench.source._check_one(nobody).text

    def taken_in() -> bool:
        bench.clock.skipped_s += 3  # it is asked again no sooner
        return bench.app().problem is None

    until(taken_in)  # the peer notices in its own time that they are gone


def test_nftop_holds_one_connection_and_gives_it_back(bench: Bench) -> None:
    bench.peer()
    for _ in range(CLIENTS + 2):  # a place that was not given back would be missed here
        bench.source.close()
        until(lambda: bench.app().problem is None)


def test_a_killed_application_is_gone_at_the_next_read(bench: Bench, tmp_path: Path) -> None:
    peer = bench.peer()
    old = bench.app()
    peer.kill()
    assert bench.apps() == ()
    assert peer.socket.exists()
    (nothing, stale) = bench.source.check()
    assert nothing.reason is Reason.SOURCE
    assert "--no-telemetry" in nothing.text
    assert str(peer.socket) in stale.text
    assert stale.fix == f"sudo rm {shlex.quote(str(peer.socket))}"
    assert run_as_root(stale.fix, tmp_path / "bin").returncode == 0
    assert [check.name for check in bench.source.check()] == ["dpdk"]

    bench.peer()
    new = bench.app()
    assert (new.pid, new.start_ticks) != (old.pid, old.start_ticks)
    assert new.problem is None
    assert new.ports[0].rx_packets == 173682720 + STEP  # counts from its own start


def test_nothing_of_one_process_passes_for_anothers_with_its_pid(stood: Bench) -> None:
    peer = stood.peer()
    old = stood.app()
    peer.behave("closes")
    stat = stood.proc / str(peer.pid) / "stat"
    fields = stat.read_bytes().replace(b"(python3)", b"(a) b) R 1 (2)").split()
    assert fields[-31] == str(old.start_ticks).encode()
    fields[-31] = b"77"  # field 22 of 52
    stat.unlink()
    stat.write_bytes(b" ".join(fields))
    assert stood.apps() == ()
    peer.behave("mute")
    stood.wait_at_most(HASTY_S)
    new = stood.app()
    assert (new.pid, new.start_ticks) == (peer.pid, 77)
    assert (new.ports, new.eal_params, new.read_at_ns) == ((), (), 0)


def test_a_source_that_answers_again_is_waited_for_in_the_same_tick(bench: Bench) -> None:
    peer = bench.peer("silent", capture="testpmd-22.11")
    bench.wait_at_most(0.05)
    assert bench.app().problem is not None
    peer.behave("slow")  # and greet, which is what wakes it up
    bench.wait_at_most(PATIENT_S)
    assert bench.app().problem is None


def test_a_stopped_process_is_a_problem_and_comes_back(stood: Bench) -> None:
    peer = stood.peer()
    stood.app()
    stood.wait_at_most(HASTY_S)
    with peer.stopped():
        app = stood.app()
        assert app.problem is not None
        assert app.problem.reason is Reason.STALE
    stood.wait_at_most(PATIENT_S)
    until(lambda: stood.app().problem is None)


def test_a_second_path_to_the_same_socket_is_not_a_second_application(bench: Bench) -> None:
    peer = bench.peer()
    other = bench.root / "tmp" / "dpdk" / "alias"
    other.mkdir(parents=True)
    (other / NAME).hardlink_to(peer.socket)
    assert len(bench.apps()) == 1


def test_a_second_socket_of_the_same_process_is_not_a_second_application(bench: Bench) -> None:
    peer = bench.peer()
    assert len(bench.apps()) == 1
    peer.behave("listen again")
    for _ in range(2):
        bench.clock.skipped_s += 31
        assert [app.socket for app in bench.apps()] == [str(peer.socket)]


def test_sockets_of_other_kinds_and_files_are_no_applications(bench: Bench) -> None:
    folder = bench.root / "run" / "dpdk"
    with ExitStack() as stack:
        for name, kind in (("stream", socket.SOCK_STREAM), ("datagram", socket.SOCK_DGRAM)):
            (folder / name).mkdir(parents=True)
            listener = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
            with chdir(folder / name):
                listener.bind(NAME)
            if kind is socket.SOCK_STREAM:
                listener.listen()
        (folder / "file").mkdir()
        (folder / "file" / NAME).touch()
        assert bench.apps() == ()


def test_check_reports_of_an_application_and_what_would_make_it_better(bench: Bench) -> None:
    bench.peer(capture="testpmd-22.11", prefix="old")
    bench.peer(prefix="new")
    by_name = {check.name: check for check in bench.source.check()}
    assert set(by_name) == {"dpdk old", "dpdk new"}
    assert by_name["dpdk new"].reason is by_name["dpdk old"].reason is Reason.PRESENT
    assert "2 ports, 3 lcores" in by_name["dpdk new"].text
    assert by_name["dpdk new"].fix == ""
    assert "DPDK 23.03" in by_name["dpdk old"].text and not by_name["dpdk old"].fix
