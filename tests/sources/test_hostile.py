"""Sockets of unprivileged users against the sources: nothing of root's is delayed or replaced."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from nftop.model.missing import Missing, Reason
from nftop.model.nf.ovs import OvsSwitch, OvsTable
from nftop.model.nf.vpp import VppTable
from nftop.model.owner import UNPRIVILEGED
from nftop.sources.ovs.source import OvsSource
from nftop.sources.pcm.source import PcmSource
from nftop.sources.runtime.http_client import Address
from nftop.sources.trust import ownership
from nftop.sources.vpp import reader
from nftop.sources.vpp.reader import MAX_SEGMENT_BYTES, SegmentReader
from nftop.sources.vpp.source import VppSource
from tests.peers import hostile
from tests.peers.hostile import UID, attacker, segment, socket_at
from tests.peers.ovs_unixctl import unixctl_peer
from tests.ports import free_port
from tests.waiting import until

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whom it attacks"),
]

USER = ownership.user_name(UID)
ENTRIES = 20_000_000
MOST_BYTES = 400 << 20
DEADLINE_S = 2.0


@pytest.fixture
def root() -> Iterator[Path]:
    """A root that an unprivileged user can enter, in which only root can change anything."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


class Readers:
    """The processes that read segments: how much memory they and this one had at most."""

    def __init__(self) -> None:
        self.started: list[SegmentReader] = []
        self._peaks: dict[int, int] = {}

    def __call__(self, handle: int) -> SegmentReader:
        created = SegmentReader(handle)
        self.started.append(created)
        return created

    def peak_bytes(self) -> int:
        """Sum of the largest resident sizes so far."""
        for item in self.started:
            pid = item._helper.process.pid
            try:
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            except OSError:
                continue
            result = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
            self._peaks[pid] = max(self._peaks.get(pid, 0), *result)
        return sum(self._peaks.values()) << 10


def resident_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def test_segments_of_an_unprivileged_user_are_not_read(root: Path) -> None:
    """Four of these took 3.3 GB."""
    readers = Readers()
    handle = segment(1 << 40, ENTRIES, in_directory=True)
    before = resident_bytes()
    with ExitStack() as stack:
        for number in range(4):
            path = root / f"run/vpp{number}/stats.sock"
            serve = hostile.hands_out(handle)
            stack.enter_context(socket_at(path, socket.SOCK_SEQPACKET, serve))
        source = VppSource(root, deadline_s=DEADLINE_S)
        source.read_by = readers
        stack.enter_context(closing(source))
        tables = [source.read() for _ in range(5)]
        assert [table.instances for table in tables] == [()] * 5
    assert readers.started == []
    (sentence,) = [item for item in tables[-1].hidden if USER in item and str(root) in item]
    assert sentence.startswith("4 ")
    assert resident_bytes() - before < MOST_BYTES


@pytest.mark.parametrize("in_directory", [False, True])
@pytest.mark.parametrize("size_bytes", [1 << 40, MAX_SEGMENT_BYTES])
def test_no_segment_takes_much_memory_whoevers_it_is(
    root: Path, size_bytes: int, in_directory: bool
) -> None:
    """Root's are read: their sizes and vectors have limits, and so have the processes."""
    readers = Readers()
    handle = segment(size_bytes, ENTRIES, in_directory=in_directory)
    before = resident_bytes()
    with ExitStack() as stack:
        for number in range(4):
            path = root / f"run/vpp{number}/stats.sock"
            serve = hostile.hands_out(handle)
            stack.enter_context(socket_at(path, socket.SOCK_SEQPACKET, serve, uid=0))
        source = VppSource(root, deadline_s=60)
        source.read_by = readers
        stack.enter_context(closing(source))
        tables: list[VppTable] = []

        def all_refused() -> bool:
            tables.append(source.read())
            readers.peak_bytes()
            result = [instance.problem for instance in tables[-1].instances]
            return len(result) == 4 and {item and item.reason for item in result} == {Reason.ERROR}

        until(all_refused)
        peak = readers.peak_bytes()
        for item in readers.started:  # of one reading, counted from the start of the process
            soft_s, _ = resource.prlimit(item._helper.process.pid, resource.RLIMIT_CPU)
            assert 2 < soft_s < 100
    assert peak + resident_bytes() - before < MOST_BYTES
    assert all(instance.owner and instance.owner.privileged for instance in tables[-1].instances)
    assert (size_bytes > MAX_SEGMENT_BYTES) == (readers.started == [])


def test_so_many_segments_are_read_and_no_more(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MAX_READERS", 1)
    handle = segment(1 << 22, 1, in_directory=True)
    with closing(SegmentReader(handle)), pytest.raises(reader.NotReadError):
        SegmentReader(handle)
    SegmentReader(handle).close()


def test_a_process_that_reads_a_segment_has_limits() -> None:
    handle = segment(1 << 22, 1, in_directory=True)
    created = SegmentReader(handle)
    with closing(created):
        limits = resource.prlimit(created._helper.process.pid, resource.RLIMIT_AS)
        assert limits == ((1 << 22) + reader._MEMORY_BYTES,) * 2


def test_twelve_hostile_sockets_starve_no_real_one(root: Path) -> None:
    with ExitStack() as stack:
        peer = stack.enter_context(unixctl_peer(root / "run/openvswitch"))
        folder = root / "usr/local/var/run/openvswitch"
        for number in range(12):
            serve = hostile.KINDS[number % len(hostile.KINDS)]
            path = folder / f"ovs-vswitchd.{number}.ctl"
            stack.enter_context(socket_at(path, socket.SOCK_STREAM, serve))
        source = OvsSource(root, Path("/proc"), {}, deadline_s=DEADLINE_S)
        stack.enter_context(closing(source))
        counts: list[int] = []
        others: tuple[OvsSwitch, ...] = ()
        for _ in range(4):
            began_s = time.monotonic()
            table = only_of(source.read(), root)
            assert time.monotonic() - began_s < DEADLINE_S + 60
            first = table.switches[0]
            assert (first.pid, first.problem) == (peer.pid, None)
            assert first.owner is not None and first.owner.privileged
            counts.append(first.pmds[0].rx_packets or 0)
            others = table.switches[1:]
            owners = {other.owner and (other.owner.uid, other.owner.reason) for other in others}
            assert owners <= {(UID, UNPRIVILEGED)}
        assert len(others) == 12
        assert counts[0] > 0 and sorted(set(counts)) == counts
        assert any(f"user {USER}" in item.text for item in source.check())


def only_of(table: OvsTable, root: Path) -> OvsTable:
    """Those below a root: other tests have theirs on this host."""
    return replace(
        table, switches=tuple(s for s in table.switches if s.socket.startswith(str(root)))
    )


def test_more_sockets_than_are_read_leave_room_for_root_and_are_counted(root: Path) -> None:
    with ExitStack() as stack:
        peer = stack.enter_context(unixctl_peer(root / "var/run/openvswitch"))
        folder = root / "run/openvswitch"
        folder.mkdir(parents=True)
        for number in range(300):
            with socket.socket(socket.AF_UNIX) as left_over:
                path = folder / f"ovs-vswitchd.{number}.ctl"
                left_over.bind(str(path))
                os.chown(path, UID, UID)
        source = OvsSource(root, Path("/proc"), {}, deadline_s=DEADLINE_S)
        stack.enter_context(closing(source))
        table = only_of(source.read(), root)
        assert [switch.pid for switch in table.switches] == [peer.pid]
        assert len(source._sessions) <= 1 + ownership.MAX_UNPRIVILEGED
        (sentence,) = [item for item in table.hidden if "OVS sockets" in item]
        assert sentence.startswith("284 ") and USER in sentence


@contextlib.contextmanager
def listening(family: int, host: str, port: int = 0, uid: int = UID) -> Iterator[socket.socket]:
    """A TCP socket of a user's that listens."""
    os.seteuid(uid)  # the socket's owner is the user who made it
    try:
        created = socket.socket(family)
    finally:
        os.seteuid(0)
    with created:
        created.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        created.bind((host, port))
        created.listen()
        yield created


def refused(source: PcmSource) -> None:
    """It is not read, and the reason names the user."""
    why = source.read()
    assert isinstance(why, Missing) and why.reason is Reason.PERMISSION and USER in why.message
    assert source.owner is not None
    assert (source.owner.uid, source.owner.privileged) == (UID, False)


@pytest.mark.parametrize(
    ("family", "host"),
    [
        (socket.AF_INET, "127.0.0.1"),
        (socket.AF_INET, "127.0.0.2"),
        (socket.AF_INET, "0.0.0.0"),
        (socket.AF_INET6, "::1"),
        (socket.AF_INET6, "::"),
    ],
)
def test_a_sensor_server_of_an_unprivileged_user_is_not_the_hosts(family: int, host: str) -> None:
    received, report = os.pipe()

    def serve(client: socket.socket) -> None:
        while data := client.recv(4096):
            os.write(report, data)

    host_requests = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}.get(host, host)
    with ExitStack() as stack:
        listener = stack.enter_context(listening(family, host))
        port = listener.getsockname()[1]
        stack.enter_context(attacker(listener, serve))
        source = PcmSource(Address(host_requests, port), root=Path("/"))
        refused(source)
        (line, *_) = source.check()
    assert line.reason is Reason.PERMISSION
    os.close(report)
    assert os.read(received, 1) == b""
    os.close(received)


def wait_for_end(client: socket.socket) -> None:
    while client.recv(4096):
        pass


def test_roots_server_on_other_addresses_does_not_vouch_for_a_users() -> None:
    """The kernel prefers the listener of the exact address."""
    for family, host in ((socket.AF_INET, "127.0.0.2"), (socket.AF_INET6, "::1")):
        with ExitStack() as stack:
            roots = stack.enter_context(listening(socket.AF_INET, "127.0.0.1", uid=0))
            port = roots.getsockname()[1]
            users = stack.enter_context(listening(family, host, port))
            stack.enter_context(attacker(users, wait_for_end))
            refused(PcmSource(Address(host, port), root=Path("/")))


def test_a_port_that_a_user_opens_and_closes_all_the_time_is_sent_nothing() -> None:
    """Judging the listener and connecting afterwards let 211 of 500 readings through."""
    port = free_port()
    events, report = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(events)
            hostile.open_and_close(port, UID, report)
        finally:
            os._exit(1)
    os.close(report)
    os.set_blocking(events, False)
    seen = bytearray()
    source = PcmSource(
        Address("127.0.0.1", port), root=Path("/"), clock=itertools.count(step=10**12).__next__
    )
    try:

        def enough() -> bool:
            assert isinstance(source.read(), Missing)
            with contextlib.suppress(BlockingIOError):
                seen.extend(os.read(events, 4096))
            return seen.count(hostile.ACCEPTED) >= 100

        until(enough)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(events)
    assert hostile.RECEIVED not in seen
