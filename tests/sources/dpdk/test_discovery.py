"""Where sockets are found, and what is said of places that are closed."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Reason
from nftop.sources.dpdk.source import DpdkSource, TelemetrySearch
from nftop.sources.nf_session.discovery import SURVEY_NS, SocketFinder, Views
from tests.peers.dpdk_telemetry import telemetry_peer

NAME = "dpdk_telemetry.v2"
NOBODY = 65534


class Host:
    """A root, and a /proc in which each pid has a mount namespace, a root and its sockets."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.root = folder / "root"
        self.root.mkdir()
        self.proc = folder / "proc"
        self._stack = stack
        self.process("self", "mnt:[1]", self.root)
        self.process("1", "mnt:[1]", self.root)

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
            f"0000000000000000: 00000002 00000000 00010000 0005 01    12 {listening}\n"
            "0000000000000000: 00000003 00000000 00000000 0005 03 99999 /gone/dpdk/x/"
            f"{NAME}\n"
        )

    def socket(self, folder: Path, name: str = NAME) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        bound = self._stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        with chdir(folder):
            bound.bind(name)
        return folder / name

    def result(self, environ: dict[str, str] | None = None) -> dict[str, str]:
        """Prefix by path."""
        sockets, hidden = SocketFinder(
            TelemetrySearch(environ or {}), self.root, Views(self.root, self.proc)
        ).find()
        assert hidden == ()
        return {socket.path: socket.prefix for socket in sockets}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with ExitStack() as stack:
        yield Host(tmp_path, stack)


def test_every_runtime_directory_of_eal(host: Host) -> None:
    expected = {
        str(host.socket(host.root / "run/dpdk/nfa")): "nfa",
        str(host.socket(host.root / "run/dpdk/nfm")): "nfm",
        str(host.socket(host.root / "run/dpdk/nfm", f"{NAME}:1")): "nfm",
        str(host.socket(host.root / "tmp/dpdk/nfu")): "nfu",
        str(host.socket(host.root / "run/user/1000/dpdk/rte")): "rte",
        str(host.socket(host.root / "run/openvswitch/dpdk/rte")): "rte",
        str(host.socket(host.root / "srv/xdg/dpdk/x")): "x",
        str(host.socket(host.root / "srv/service/dpdk/y")): "y",
    }
    environ = {"XDG_RUNTIME_DIR": "/srv/xdg", "RUNTIME_DIRECTORY": "/srv/service"}
    (host.root / "var").mkdir()
    (host.root / "var/run").symlink_to("/run")  # as it is everywhere: must not leave this root
    host.socket(host.root / "run/dpdk/nfa", "telemetry")  # the protocol before
    host.socket(host.root / "run/dpdk/nfa", f"{NAME}.bak")
    (host.root / "run/dpdk/config").touch()
    assert host.result(environ) == expected


def test_other_mount_namespaces_are_read_once_every(host: Host, tmp_path: Path) -> None:
    container = tmp_path / "container"
    inside = host.socket(container / "run/dpdk/ctr")
    host.process("20", "mnt:[2]", container)
    host.process("21", "mnt:[2]", container)
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "run").symlink_to(container / "run")  # the same directory, mounted twice
    host.process("30", "mnt:[3]", shared)
    assert host.result() == {f"{host.proc}/20/root/run/dpdk/ctr/{NAME}": "ctr"}
    assert Path(f"{host.proc}/20/root/run/dpdk/ctr/{NAME}").samefile(inside)


def test_a_listening_socket_is_detected_wherever_it_is(host: Host, tmp_path: Path) -> None:
    container = tmp_path / "container"
    host.socket(container / "run/some/where/known")
    host.socket(container / "opt/app runtime/dpdk/odd")
    (container / "var").mkdir()
    (container / "var/run").symlink_to("/run")
    host.process("20", "mnt:[2]", container, f"/opt/app runtime/dpdk/odd/{NAME}")
    # EAL binds below /var/run, which in there is a link that would lead to our own /run.
    host.process("22", "mnt:[3]", container, f"/var/run/some/where/known/{NAME}")
    assert sorted(host.result().values()) == ["known", "odd"]


def test_surveys_are_seldom_but_known_folders_are_observed_every_time(host: Host) -> None:
    now_ns = 0
    views = Views(host.root, host.proc, lambda: now_ns)
    finder = SocketFinder(TelemetrySearch({}), host.root, views, clock=lambda: now_ns)
    host.socket(host.root / "run/dpdk/a")
    assert len(finder.find()[0]) == 1
    host.socket(host.root / "run/dpdk/b")
    host.socket(host.root / "tmp/dpdk/c")  # a new place
    now_ns = SURVEY_NS - 1
    assert [socket.prefix for socket in finder.find()[0]] == ["a", "b"]
    now_ns = SURVEY_NS
    assert [socket.prefix for socket in finder.find()[0]] == ["a", "b", "c"]


def test_between_surveys_nothing_is_listed_that_did_not_change(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = 0
    views = Views(host.root, host.proc, lambda: now_ns)
    finder = SocketFinder(TelemetrySearch({}), host.root, views, clock=lambda: now_ns)
    for name in "abc":
        host.socket(host.root / "run/dpdk" / name)
    first = finder.find()
    scandir = Mock(wraps=os.scandir)
    monkeypatch.setattr(os, "scandir", scandir)
    assert finder.find() is first
    scandir.assert_not_called()
    (host.root / "run/dpdk/b" / NAME).unlink()
    assert [socket.prefix for socket in finder.find()[0]] == ["a", "c"]
    scandir.assert_called()
    finder.close()


def test_namespaces_of_known_processes_are_seldom_read(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = 0
    views = Views(host.root, host.proc, lambda: now_ns)
    for pid in range(100, 110):
        host.process(str(pid), "mnt:[2]", host.root)
    readlink = Mock(wraps=os.readlink)
    monkeypatch.setattr(os, "readlink", readlink)
    read = []
    for survey in range(8):
        readlink.reset_mock()
        now_ns = survey * SURVEY_NS
        assert len(views.latest().views) == 2
        paths = [str(call.args[0]) for call in readlink.call_args_list]
        read.append(sum(path.endswith("ns/mnt") and "/1" in path for path in paths))
    # Twice until they are known, and all again in every sixth survey.
    assert read == [10, 10, 0, 0, 0, 0, 10, 0]


def test_a_host_without_anything_is_no_error(tmp_path: Path) -> None:
    root = tmp_path / "none"
    assert SocketFinder(TelemetrySearch({}), root, Views(root, tmp_path / "no proc")).find() == (
        (),
        (),
    )


def test_a_flood_of_sockets_is_cut_and_reported(host: Host) -> None:
    bound = host.socket(host.root / "run/dpdk/p0")
    for number in range(300):
        folder = host.root / f"run/dpdk/q{number}"
        folder.mkdir()
        host.socket(folder)
    sockets, hidden = SocketFinder(
        TelemetrySearch({}), host.root, Views(host.root, host.proc)
    ).find()
    assert len(sockets) == 256
    assert sockets[0].path == str(bound)
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
        closed = host.socket(host.root / "run/dpdk/nfa").parent
        closed.chmod(0)
        stack.callback(closed.chmod, 0o700)
        host.process("20", "mnt:[2]", host.root)
        (host.proc / "20" / "ns").chmod(0)
        stack.callback((host.proc / "20" / "ns").chmod, 0o700)
        with as_nobody():
            source = DpdkSource(host.root, host.proc, {})
            table = source.read()
            checks = source.check()
    assert table.apps == ()
    assert len(table.hidden) == 2
    assert table.hidden[0] == snapshot
    assert str(closed) in table.hidden[1]
    assert all("sudo nftop" in sentence for sentence in table.hidden)
    assert {check.reason for check in checks} == {Reason.PERMISSION}
    assert all(check.fix == "sudo nftop" for check in checks)


def test_a_closed_runtime_folder_with_sockets_that_the_kernel_lists_needs_root() -> None:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        host = Host(folder, stack)
        runtime = host.socket(host.root / "run/dpdk/nfa").parent.parent
        host.process("20", "mnt:[1]", host.root, f"/run/dpdk/nfa/{NAME}")
        (host.proc / "self/net/unix").write_text((host.proc / "20/net/unix").read_text())
        runtime.chmod(0)
        stack.callback(runtime.chmod, 0o700)
        with as_nobody():
            source = DpdkSource(host.root, host.proc, {})
            table, checks = source.read(), source.check()
    assert table.apps == () and any(str(runtime) in text for text in table.hidden)
    assert {check.reason for check in checks} == {Reason.PERMISSION}


def test_a_socket_we_may_not_open_is_hidden_and_no_application() -> None:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        peer = stack.enter_context(telemetry_peer(folder / "run/dpdk/nfa"))
        peer.socket.chmod(0o400)
        with as_nobody():
            table = DpdkSource(folder, folder / "proc", {}).read()
    assert table.apps == ()
    (sentence,) = table.hidden
    assert str(peer.socket) in sentence
    assert "sudo nftop" in sentence


def _listed(names: list[str]) -> str:
    line = "0000000000000000: 00000002 00000000 00010000 0005 01    12 {}\n"
    return "".join(map(line.format, names))


def test_a_socket_bound_by_a_thousand_names_is_one_and_names_of_nothing_are_none(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = host.socket(host.root / "opt/odd")
    (host.root / "opt/empty").mkdir()
    aliases = [f"{'/opt/..' * count}/opt/odd/{NAME}" for count in range(1, 500)]
    nothing = [f"{'/opt/..' * count}/opt/empty/{NAME}" for count in range(500)]
    (host.proc / "self/net/unix").write_text(_listed([*aliases, *nothing]))
    scandir = Mock(wraps=os.scandir)
    monkeypatch.setattr(os, "scandir", scandir)
    assert host.result() == {str(bound): "odd"}
    assert scandir.call_count < 50


def test_few_listed_names_are_opened_in_other_views(host: Host, tmp_path: Path) -> None:
    (host.proc / "self/net/unix").write_text(_listed([f"/opt/{i}/{NAME}" for i in range(3000)]))
    for pid in range(20, 30):
        host.process(str(pid), f"mnt:[{pid}]", tmp_path)
        net = host.proc / str(pid) / "net" / "unix"
        net.write_text((host.proc / "self/net/unix").read_text())
    opened = Mock(wraps=os.open)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", opened)
        assert host.result() == {}
    assert 3000 <= opened.call_count < 8000


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="files of another user")


@needs_root
def test_a_user_has_few_mount_namespaces_and_root_has_all(host: Host) -> None:
    for pid in range(100, 200):
        host.process(str(pid), f"mnt:[{pid}]", host.root)
        if pid < 190:
            os.chown(host.proc / str(pid), NOBODY, NOBODY)
    seen = Views(host.root, host.proc).latest()
    assert len(seen.views) == 1 + 10 + 64
    assert len(seen.left_out) == 1 and "26 mount namespaces" in seen.left_out[0]


@needs_root
def test_of_folders_that_others_fill_a_bounded_number_of_entries_is_read(tmp_path: Path) -> None:
    search = TelemetrySearch({})

    def read(uid: int, mode: int = 0o755) -> int:
        total = 0
        for number in range(3):
            folder = tmp_path / f"{uid}-{mode}-{number}"
            folder.mkdir(exist_ok=True)
            for entry in range(500):
                (folder / str(entry)).touch()
            os.chown(folder, uid, uid)
            folder.chmod(mode)
            total += len(search.scan(folder))
        return total

    assert [read(NOBODY), read(NOBODY), read(0)] == [1024, 0, 1500]
    assert read(0, 0o1777) == 1024  # anybody's, such as /tmp
    assert [read(uid) for uid in (3001, 3002, 3003)] == [1024, 1024, 0]
    search.begin()
    assert read(NOBODY) == 1024


@pytest.mark.parametrize(
    ("kind", "options", "entered"),
    [
        ("fuse.sshfs", "rw,user_id=1234,group_id=1234,allow_other", False),
        ("fuse", "rw,user_id=1234,group_id=1234,default_permissions,allow_other", False),
        ("fuse.user_id=0", "rw,user_id=1234,group_id=1234,allow_other", False),
        ("fuse.sshfs", "rw,user_id=1234,group_id=1234", True),  # closed to all but its user
        ("fuse.glusterfs", "rw,user_id=0,group_id=0,allow_other", True),
        ("ext4", "rw", True),
    ],
)
def test_folder_that_another_user_serves_is_not_entered(
    host: Host, kind: str, options: str, entered: bool
) -> None:
    served = host.root / "tmp/dpdk/x y"
    theirs = host.socket(served)
    link = host.root / "tmp/dpdk/link"
    link.symlink_to("../dpdk/x y")
    unix = host.proc / "self/net/unix"
    unix.write_text(_listed([f"/tmp/dpdk/link/{NAME}"]))
    ours = host.socket(host.root / "run/dpdk/rte")
    name = str(served).replace(" ", "\\040")
    mounts = f"22 1 0:5 / / rw - ext4 /dev/root rw\n99 22 0:44 / {name} rw - {kind} atk {options}\n"
    (host.proc / "self/mountinfo").write_text(mounts)
    sockets, hidden = SocketFinder(
        TelemetrySearch({}), host.root, Views(host.root, host.proc)
    ).find()
    assert {socket.path for socket in sockets} == {str(ours), *([str(theirs)] if entered else [])}
    assert len(hidden) == (0 if entered else 2)  # by its folder, and by the name in the list
