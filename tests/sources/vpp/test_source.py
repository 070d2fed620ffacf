"""The source and segments that a real VPP filled, read by the real vpp-papi."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.nf.vpp_graph import clocks_per_packet, step_nodes
from nftop.model.missing import Missing, Reason
from nftop.model.nf.vpp import VppInstance
from nftop.sources.vpp import reader
from nftop.sources.vpp.source import VppSource
from tests.peers.vpp_segment import NAME, Peer, vpp_peer
from tests.sources.dpdk.test_discovery import as_nobody
from tests.waiting import until

# The sockets of one test's VPP are seen by every other's.
pytestmark = pytest.mark.alone

# A process is started for each VPP, on a machine that has others to do.
PATIENT_S = 120.0
SECOND_NS = 1_000_000_000


class VppHost:
    """A root with one VPP, the source that looks at it, and that one's clock."""

    def __init__(self, root: Path, peer: Peer) -> None:
        self.root, self.peer = root, peer
        self.ahead_ns = 0
        self.source = VppSource(root, deadline_s=PATIENT_S, clock=self._now_ns)

    def one(self) -> VppInstance:
        (vpp,) = self.source.read().instances
        return vpp

    def fine(self) -> VppInstance:
        vpp = self.one()
        assert vpp.problem is None, vpp.problem
        return vpp

    def later(self, seconds: int = 100) -> None:
        """Whatever is tried again after a while is."""
        self.ahead_ns += seconds * SECOND_NS

    def _now_ns(self) -> int:
        return SECOND_NS + self.ahead_ns


@pytest.fixture
def host(tmp_path: Path) -> Iterator[VppHost]:
    with vpp_peer(tmp_path / "run/vpp") as peer:
        created = VppHost(tmp_path, peer)
        with closing(created.source):
            yield created


def why(vpp: VppInstance) -> Missing:
    assert vpp.problem is not None
    return vpp.problem


def test_the_counters_are_those_of_the_capture(host: VppHost) -> None:
    """As vpp-papi told them beside VPP itself: thread 1 forwards from one interface to another."""
    first = host.fine()
    assert (first.pid, first.name, first.version) == (host.peer.pid, "vpp", "")
    assert first.socket == str(host.peer.socket)
    assert first.heartbeat == 238
    reported = first.interfaces
    assert reported.names == ("local0", "loop0", "host-h4a1", "host-h4b1")
    assert reported.rx_packets.tolist() == [[0] * 4, [0, 0, 537523, 19]]
    assert reported.tx_packets.tolist() == [[0] * 4, [0, 0, 0, 537504]]
    assert reported.drops.tolist() == [[0] * 4, [0, 0, 19, 19]]
    assert not reported.rx_misses.any() and reported.rx_misses.dtype == np.uint64
    assert [(thread.index, thread.loops_per_s, thread.vector_rate) for thread in first.threads] == [
        (0, 2371738.0, 0.0),
        (1, 9564484.0, 51.0),
    ]
    host.peer.do("second")
    second = host.fine()
    assert second.heartbeat == 240
    assert second.interfaces.rx_packets.tolist() == [[0] * 4, [0, 0, 643411, 19]]
    assert second.threads[1].vector_rate == 50.0
    assert second.read_at_ns > first.read_at_ns > 0 and second.took_ns > 0


def test_the_nodes_are_those_of_the_capture(host: VppHost) -> None:
    first = host.fine()
    assert host.fine().nodes is first.nodes  # the heartbeat has not advanced
    host.peer.do("second")
    second = host.fine()
    assert first.nodes is not None and second.nodes is not None
    assert len(first.nodes.names) == 37  # of 416, those that have ever run
    forwards = [
        "af-packet-input",
        "ethernet-input",
        "ip4-input",
        "ip4-lookup",
        "ip4-rewrite",
        "host-h4b1-output",
        "host-h4b1-tx",
    ]
    at = [first.nodes.names.index(name) for name in forwards]
    assert (second.nodes.vectors - first.nodes.vectors)[1, at].tolist() == [100_000] * 7
    assert (second.nodes.calls - first.nodes.calls)[1, at].tolist() == [18_367_879] + [1916] * 6
    clocks = (second.nodes.clocks - first.nodes.clocks)[1, at].tolist()
    assert clocks == [
        1_730_490_006,
        3_078_026,
        2_754_426,
        2_550_578,
        2_386_196,
        716_706,
        203_874_826,
    ]
    # What is not the input node's: 2,154 a packet here, 1,725 two minutes before that.
    state = step_nodes(step_nodes(None, first.heartbeat, first.nodes), 240, second.nodes)
    bounds = clocks_per_packet(state, 1, None)
    assert not isinstance(bounds, Missing)
    assert bounds[0] == pytest.approx(sum(clocks[1:]) / 100_000) == pytest.approx(2153.6, abs=0.1)
    assert bounds[1] == pytest.approx(sum(clocks) / 100_000)


def test_threads_are_on_the_cpus_they_are_bound_to(
    tmp_path: Path,
) -> None:
    here = sorted(os.sched_getaffinity(0))
    with (
        vpp_peer(tmp_path / "run/vpp", here[-1]) as peer,
        closing(VppSource(tmp_path, deadline_s=PATIENT_S)) as source,
    ):
        (vpp,) = source.read().instances
        bound = [None if len(here) > 1 else here[0], here[-1]]
        assert [thread.cpu for thread in vpp.threads] == bound
        (check,) = source.check()
        assert check.reason is Reason.PRESENT and f"(pid {peer.pid})" in check.text
        assert f"2 threads on CPU {here[-1]}" in check.text
        assert "4 interfaces" in check.text and "nodes counted" in check.text


def test_without_counters_per_node_doctor_has_the_fix(host: VppHost) -> None:
    host.peer.do("no nodes")
    assert host.fine().nodes is None
    (check,) = host.source.check()
    assert "nodes not counted" in check.text
    assert "per-node-counters on" in check.fix


def test_counters_that_were_cleared_go_back(host: VppHost) -> None:
    """`clear interfaces` says so nowhere; the fold sees it by a counter that went back."""
    assert host.fine().interfaces.rx_packets.any()
    host.peer.do("zero")
    assert not host.fine().interfaces.rx_packets.any()


def test_a_directory_that_was_moved_is_read_again(host: VppHost) -> None:
    before = host.fine()
    host.peer.do("move")
    host.peer.do("beat")
    after = host.fine()
    assert after.heartbeat == before.heartbeat + 1
    assert after.interfaces.names == before.interfaces.names
    assert after.interfaces.rx_packets.tolist() == before.interfaces.rx_packets.tolist()


def test_a_segment_that_never_finishes_its_change_is_not_waited_for(
    host: VppHost, snapshot: SnapshotAssertion
) -> None:
    before = host.fine()
    host.peer.do("lock")
    held = host.one()
    assert why(held).reason is Reason.STALE
    assert why(held).message == snapshot
    assert held.interfaces.rx_packets.tolist() == before.interfaces.rx_packets.tolist()
    assert held.read_at_ns == before.read_at_ns
    host.peer.do("unlock")
    assert host.one().problem == held.problem  # not at once
    host.later(2)
    assert host.fine().read_at_ns > before.read_at_ns


@pytest.mark.parametrize(
    ("command", "reason", "words"),
    [
        ("version 1", Reason.SOURCE, "has version 1, and nftop reads version 2"),
        ("wild", Reason.ERROR, "is invalid"),
        ("endless", Reason.ERROR, "is invalid"),
        ("nameless", Reason.ERROR, "names 3 interfaces but counts others"),
        ("cut", Reason.ERROR, "is invalid"),
        ("empty", Reason.ERROR, "is invalid"),
        ("keep it", Reason.ERROR, "was not handed out"),
        ("lock", Reason.STALE, "stays locked for a change"),
    ],
)
def test_a_segment_that_is_none_is_a_sentence(
    host: VppHost, command: str, reason: Reason, words: str
) -> None:
    host.peer.do(command)
    for _ in range(2):
        vpp = host.one()
        assert (vpp.pid, vpp.threads, vpp.read_at_ns) == (host.peer.pid, (), 0)
        assert why(vpp).reason is reason
        assert words in why(vpp).message
        host.later()
    (check,) = host.source.check()
    assert check.reason is reason and words in check.text


def test_one_that_shrinks_kills_its_reader_and_nothing_else(
    host: VppHost, snapshot: SnapshotAssertion
) -> None:
    before = host.fine()
    host.peer.do("cut")
    cut = host.one()
    assert why(cut).reason is Reason.ERROR
    assert why(cut).message == snapshot
    assert cut.interfaces is before.interfaces
    host.later()
    assert "is invalid" in why(host.one()).message  # the next one, which maps what is left


def test_one_that_is_killed_is_gone_and_another_is_another(host: VppHost) -> None:
    old = host.fine()
    host.peer.kill(reap=False)  # its pid is still there, and its segment can still be read
    assert host.source.read().instances == ()
    checks = host.source.check()
    assert [check.name for check in checks] == ["vpp", "vpp vpp"]
    assert f"{host.peer.socket} is left over" in checks[1].text
    with vpp_peer(host.root / "run/vpp") as again:
        new = host.fine()
        assert (new.pid, new.name) == (again.pid, "vpp")
        assert (new.pid, new.start_ticks) != (old.pid, old.start_ticks)


def test_one_that_is_stopped_is_stale(host: VppHost) -> None:
    host.fine()
    with host.peer.stopped():
        assert why(host.one()).reason is Reason.STALE
        assert "is stopped" in why(host.one()).message
    host.fine()


def test_one_that_stands_still_is_stale(host: VppHost, snapshot: SnapshotAssertion) -> None:
    """The peer sleeps and counts nothing, as a VPP never does for so long."""
    host.fine()
    host.later(29)
    host.fine()
    host.later(2)
    still = why(host.one())
    assert still.reason is Reason.STALE
    assert still.message == snapshot
    host.peer.do("second")
    host.fine()


def test_a_vpp_that_hands_its_segment_out_late_gets_one_request(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    with (
        vpp_peer(tmp_path / "run/vpp") as peer,
        closing(VppSource(tmp_path, deadline_s=0.01)) as source,
    ):
        peer.do("silent")
        for _ in range(3):
            (vpp,) = source.read().instances
            assert vpp.pid == peer.pid
            assert why(vpp).reason is Reason.STALE
            assert why(vpp).message == snapshot
        peer.do("talk")
        until(lambda: source.read().instances[0].problem is None)
        peer.do("asked once")


def test_its_socket_may_go_while_it_runs(host: VppHost) -> None:
    host.fine()
    host.peer.do("unlink")
    host.fine()
    host.peer.kill()
    assert host.source.read().instances == ()


def test_several_and_one_of_them_by_two_paths(host: VppHost) -> None:
    host.peer.do("listen again")
    link = host.root / "run/vpp-link"
    link.symlink_to(host.root / "run/vpp")
    with vpp_peer(host.root / "run/vpp2") as other:
        seen = {instance.pid: instance for instance in host.source.read().instances}
        assert seen.keys() == {host.peer.pid, other.pid}
        assert all(value.problem is None for value in seen.values())
        other.do("lock")
        seen = {instance.pid: instance for instance in host.source.read().instances}
        assert seen[host.peer.pid].problem is None  # each has a reader of its own
        assert why(seen[other.pid]).reason is Reason.STALE


@pytest.mark.parametrize(
    ("version", "words"), [(None, "is not installed"), ("2.4.0", "this is 2.4.0")]
)
def test_without_vpp_papi_the_reason_has_the_fix(
    host: VppHost, monkeypatch: pytest.MonkeyPatch, version: str | None, words: str
) -> None:
    monkeypatch.setattr(reader, "installed", lambda: version)
    missing = why(host.one())
    assert missing.reason is Reason.SOURCE
    assert words in missing.message and "pip install 'vpp-papi>=2.4.1,<3'" in missing.message
    (check,) = host.source.check()
    assert check.fix == "pip install 'vpp-papi>=2.4.1,<3'"
    monkeypatch.undo()
    host.later()
    host.fine()


@pytest.mark.parametrize(
    ("version", "fits"),
    [("2.4.1", True), ("2.4.2", True), ("2.10", True), ("3.0.0", True), ("2.4", False),
     ("2.3.2", False), ("1.6", False), ("unknown", False), (None, False)],
)  # fmt: skip
def test_which_versions_of_vpp_papi_do(version: str | None, fits: bool) -> None:
    assert (reader.unfit(version) is None) is fits


def test_the_one_installed_does() -> None:
    assert reader.unfit(reader.installed()) is None


def test_a_socket_we_may_not_open_is_hidden_and_no_vpp() -> None:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        peer = stack.enter_context(vpp_peer(folder / "run/vpp"))
        peer.socket.chmod(0o400)
        source = stack.enter_context(closing(VppSource(folder, folder / "proc")))
        with as_nobody():
            table = source.read()
            checks = source.check()
    assert table.instances == ()
    (sentence,) = table.hidden
    assert str(peer.socket) in sentence and "sudo nftop" in sentence
    assert {check.reason for check in checks} == {Reason.PERMISSION}


def test_a_host_without_any_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "run/vpp").mkdir(parents=True)
    (tmp_path / "run/vpp" / NAME).touch()  # no socket
    with closing(VppSource(tmp_path, tmp_path / "no proc")) as source:
        table = source.read()
        assert (table.instances, table.hidden, table.gaps) == ((), (), "")
        assert [check.reason for check in source.check()] == [Reason.SOURCE]
        assert source.helper_cpu_ns == 0


def test_what_reads_for_it_counts_as_nftop(host: VppHost) -> None:
    host.fine()
    spent = host.source.helper_cpu_ns
    assert spent > 0
    host.peer.kill()
    host.source.read()
    assert host.source.helper_cpu_ns >= spent
