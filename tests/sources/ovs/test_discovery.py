"""Where control sockets are found, and what is said of places that are closed."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Reason
from nftop.sources.nf_session.discovery import SURVEY_NS, SocketFinder, Views
from nftop.sources.ovs.source import ControlSearch, OvsSource
from tests.command import wording
from tests.peers.ovs_unixctl import unixctl_peer

# The sockets of one test's Open vSwitch are seen by every other's.
pytestmark = pytest.mark.alone

NAME = "ovs-vswitchd.7.ctl"
NOBODY = 65534


class Host:
    """A root, and a /proc in which each pid has a mount namespace, a root and its sockets."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.root = folder / "root"
        self.root.mkdir()
        self.proc = folder / "proc"
        self._stack = stack
        self.process("self", "mnt:[1]", self.root)

    def process(self, pid: str, namespace: str, root: Path, listening: str = "") -> None:
        ns, net = self.proc / pid / "ns", self.proc / pid / "net"
        ns.mkdir(parents=True)
        net.mkdir()
        (ns / "mnt").symlink_to(namespace)
        (ns / "net").symlink_to(f"net:[{pid}]")
        (self.proc / pid / "root").symlink_to(root)
        (net / "unix").write_text(
            "Num       RefCount Protocol Flags    Type St Inode Path\n"
            "0000000000000000: 00000002 00000000 00010000 0001 01  1234 /run/other.sock\n"
            f"0000000000000000: 00000002 00000000 00010000 0001 01    12 {listening}\n"
            f"0000000000000000: 00000003 00000000 00000000 0001 03 99999 /gone/{NAME}\n"
        )

    def socket(self, folder: Path, name: str = NAME) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        bound = self._stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        with chdir(folder):
            bound.bind(name)
        return str(folder / name)

    def result(self, environ: dict[str, str] | None = None) -> set[str]:
        sockets, hidden = SocketFinder(
            ControlSearch(environ or {}), self.root, Views(self.root, self.proc)
        ).find()
        assert hidden == ()
        return {socket.path for socket in sockets}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with ExitStack() as stack:
        yield Host(tmp_path, stack)


def test_every_rundir_and_every_name_of_the_program(host: Host) -> None:
    expected = {
        host.socket(host.root / "run/openvswitch"),
        host.socket(host.root / "run/openvswitch", "ovs-vswitchd.123456.ctl"),
        host.socket(host.root / "run/openvswitch", "ovs-vswitchd-dpdk.8.ctl"),
        host.socket(host.root / "run/openvswitch", "ovs-vswitchd.ovs-dpdk.8.ctl"),
        host.socket(host.root / "usr/local/var/run/openvswitch"),
        host.socket(host.root / "srv/ovs"),
    }
    (host.root / "var").mkdir()
    (host.root / "var/run").symlink_to("/run")  # as it is everywhere: must not leave this root
    for other in ("ovsdb-server.7.ctl", "ovs-vswitchd.7.ctl.bak", "ovs-vswitchd.ctl", "db.sock"):
        host.socket(host.root / "run/openvswitch", other)
    (host.root / "run/openvswitch/ovs-vswitchd.9.ctl").touch()
    assert host.result({"OVS_RUNDIR": "/srv/ovs"}) == expected


def test_other_mount_namespaces_are_read_once_every(host: Host, tmp_path: Path) -> None:
    container = tmp_path / "container"
    host.socket(container / "run/openvswitch")
    host.process("20", "mnt:[2]", container)
    host.process("21", "mnt:[2]", container)
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "run").symlink_to(container / "run")  # the same directory, mounted twice
    host.process("30", "mnt:[3]", shared)
    assert host.result() == {f"{host.proc}/20/root/run/openvswitch/{NAME}"}


def test_a_listening_socket_is_detected_wherever_it_is(host: Host, tmp_path: Path) -> None:
    container = tmp_path / "container"
    host.socket(container / "opt/my ovs")
    host.socket(container / "run/tenant")
    (container / "var").mkdir()
    (container / "var/run").symlink_to("/run")
    host.process("20", "mnt:[2]", container, f"/opt/my ovs/{NAME}")
    # In there /var/run is a link that would lead to our own /run.
    host.process("22", "mnt:[3]", container, f"/var/run/tenant/{NAME}")
    # A long path is bound through a descriptor, whose number means another directory here.
    host.process("23", "mnt:[4]", container, f"/proc/self/fd/3/{NAME}")
    assert {Path(path).parent.name for path in host.result()} == {"my ovs", "tenant"}


def test_surveys_are_seldom_but_known_folders_are_observed_every_time(host: Host) -> None:
    now_ns = 0
    views = Views(host.root, host.proc, lambda: now_ns)
    finder = SocketFinder(ControlSearch({}), host.root, views, clock=lambda: now_ns)
    assert finder.find()[0] == ()
    host.socket(host.root / "run/openvswitch")
    host.process("20", "mnt:[2]", host.root, f"/opt/x/{NAME}")
    host.socket(host.root / "opt/x")  # a new place
    now_ns = SURVEY_NS - 1
    assert len(finder.find()[0]) == 1
    now_ns = SURVEY_NS
    assert len(finder.find()[0]) == 2


def test_a_flood_of_sockets_is_cut_and_reported(host: Host) -> None:
    for number in range(300):
        host.socket(host.root / "run/openvswitch", f"ovs-vswitchd.{number}.ctl")
    sockets, hidden = SocketFinder(ControlSearch({}), host.root, Views(host.root, host.proc)).find()
    assert len(sockets) == 256
    assert "more than 256" in hidden[0]


@contextmanager
def as_nobody() -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_closed_folders_are_reported_with_path_and_remedy(snapshot: SnapshotAssertion) -> None:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        host = Host(folder, stack)
        closed = Path(host.socket(host.root / "run/openvswitch")).parent
        closed.chmod(0)
        stack.callback(closed.chmod, 0o700)
        host.process("20", "mnt:[2]", host.root)
        (host.proc / "20" / "ns").chmod(0)
        stack.callback((host.proc / "20" / "ns").chmod, 0o700)
        with as_nobody():
            source = OvsSource(host.root, host.proc, {})
            table = source.read()
            checks = source.check()
    assert table.switches == ()
    assert len(table.hidden) == 2
    assert table.hidden[0] == snapshot
    assert wording(table.hidden[1], closed) == snapshot
    assert all("sudo nftop" in sentence for sentence in table.hidden)
    assert {check.reason for check in checks} == {Reason.PERMISSION}
    assert all(check.fix == "sudo nftop" for check in checks)


def test_a_socket_we_may_not_open_is_permission_and_not_nothing() -> None:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        peer = stack.enter_context(unixctl_peer(folder / "run/openvswitch"))
        peer.socket.chmod(0o700)
        with as_nobody():
            source = OvsSource(folder, folder / "proc", {})
            stack.callback(source.close)
            table = source.read()
            checks = source.check()
        assert peer.requested() == []
    assert table.switches == ()
    (sentence,) = table.hidden
    assert str(peer.socket) in sentence and "sudo nftop" in sentence
    assert {check.reason for check in checks} == {Reason.PERMISSION}
