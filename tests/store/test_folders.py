"""Root never follows another user's symbolic links: every kind of file, every component."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from nftop.export.tables.outputs import Outputs, OutputsError
from nftop.model.topology import Host
from nftop.store.folders import Person, check_creatable, open_file, open_folder, write_new
from nftop.store.format.encoder import Chunk
from nftop.store.reading.seekpoint import SeekPoint
from nftop.store.recording.sink import FileSink, Keep, remove_oldest
from nftop.store.user.baselines import read_baselines, write_baselines
from nftop.store.user.config_dir import read_profiles, read_text
from tests.command import called, nftop
from tests.waiting import until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whom it attacks")

UID = 65534
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # rename(2)
HOST = Host("edge-07", "some Xeon", "SKX")
SECRET = "root_only_secret = 17\n"
# Below the folder of the user: components that the attacker exchanges for a link.
COMPONENTS = ("a", "a/b", "a/b/c")
Write = Callable[[Path, Person], None]


class Ground:
    """A home of the attacker and a folder of root, both below a folder that only root can change.

    Attributes:
        home: the attacker's, with the folders a/b/c in it.
        vault: root's, with the same folders and one file in each.
    """

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o755)
        self.home, self.vault = folder / "home", folder / "vault"
        self.person = Person(UID, UID, self.home)
        for top in (self.home, self.vault):
            (top / "a/b/c").mkdir(parents=True)
        for path in (self.vault, *self.vault.rglob("*")):
            path.chmod(0o700)
            secret = path / "secret.toml"
            secret.write_text(SECRET)
            secret.chmod(0o600)
        for path in (self.home, *self.home.rglob("*")):
            os.chown(path, UID, UID)
        self.before = self.state()

    def state(self) -> list[tuple[str, int, int, int, bytes]]:
        """Names, owners, modes, sizes and contents below the vault."""
        result = []
        for path in sorted([self.vault, *self.vault.rglob("*")]):
            about = path.lstat()
            data = path.read_bytes() if stat.S_ISREG(about.st_mode) else b""
            result.append((str(path), about.st_uid, about.st_mode, about.st_nlink, data))
        return result

    def link(self, component: str) -> None:
        """Exchange a folder of the attacker's for a link to root's of the same name."""
        present = self.home / component
        present.rename(self.home / "aside")
        present.symlink_to(self.vault / component)
        os.lchown(present, UID, UID)


@pytest.fixture
def ground() -> Iterator[Ground]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        yield Ground(Path(name))


def record(path: Path, person: Person) -> None:
    sink = FileSink(path, owner=person)
    sink.write(Chunk(b"data", starts=True, ticks=1, after=SeekPoint(1, 1, 0, 0)))
    sink.finish()
    if sink.broken is not None:
        raise sink.broken


def keep_baselines(path: Path, person: Person) -> None:
    write_baselines(path, HOST, None, person)


def export(path: Path, person: Person) -> None:
    try:
        created = Outputs(path, "csv", ("cpus",), folder=False, owner=person, host=HOST)
        created.close()
    except OutputsError as error:
        raise OSError(errno.ELOOP, str(error)) from None


def export_folder(path: Path, person: Person) -> None:
    try:
        created = Outputs(path, "csv", ("cpus", "nfs"), folder=True, owner=person, host=HOST)
        created.close()
    except OutputsError as error:
        raise OSError(errno.ELOOP, str(error)) from None


def save_profile(path: Path, _: Person) -> None:
    write_new(path, "text")


def rotate(path: Path, person: Person) -> None:
    record(path, person)
    remove_oldest(path.with_name("r.nftop"), Keep(files=0))


WRITERS: tuple[Write, ...] = (
    record, keep_baselines, export, export_folder, save_profile, rotate,
)  # fmt: skip


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("write", WRITERS)
def test_no_component_of_a_path_leads_root_elsewhere(
    ground: Ground, write: Write, component: str
) -> None:
    ground.link(component)
    with pytest.raises(OSError) as refused:
        write(ground.home / "a/b/c/new", ground.person)
    assert refused.value.errno == errno.ELOOP
    assert ground.state() == ground.before


@pytest.mark.parametrize("write", WRITERS)
def test_what_is_written_in_the_users_folder_is_the_users(ground: Ground, write: Write) -> None:
    path = ground.home / "a/b/c/new"
    write(path, ground.person)
    if write is not save_profile:  # whose owner is that of SUDO_UID
        assert path.stat().st_uid == UID


@pytest.mark.parametrize("write", WRITERS)
def test_a_link_instead_of_the_file_is_not_written_through(ground: Ground, write: Write) -> None:
    path = ground.home / "a/b/c/new"
    path.symlink_to(ground.vault / "secret.toml")
    with contextlib.suppress(OSError):
        write(path, ground.person)
    assert ground.state() == ground.before


@contextlib.contextmanager
def swapping(ground: Ground, component: str) -> Iterator[None]:
    """A process of the attacker's that exchanges folder and link as fast as it can."""
    present, link = ground.home / component, ground.home / "link"
    exchange = ctypes.CDLL(None).renameat2
    paths = os.fsencode(present), os.fsencode(link)
    link.symlink_to(ground.vault / component)
    os.lchown(link, UID, UID)
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(UID)
            os.setuid(UID)
            while exchange(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0:
                pass
        finally:
            os._exit(1)
    try:
        yield
        assert os.waitpid(pid, os.WNOHANG) == (0, 0)  # it was at it all the time
    finally:
        os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


class Outcomes:
    """How often a path was walked while folder and link were exchanged, by what came of it."""

    def __init__(self) -> None:
        self.done = self.refused = 0

    def count(self, act: Callable[[], None]) -> None:
        """Act once. A link in the way is ELOOP; a path must not fail otherwise."""
        try:
            act()
        except OSError as error:
            assert error.errno == errno.ELOOP, error
            self.refused += 1
        else:
            self.done += 1

    @property
    def both(self) -> bool:
        """Each has come about: the exchange hit, and missed."""
        return self.done > 0 and self.refused > 0


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_link_swapped_in_between_never_wins(ground: Ground, component: str) -> None:
    outcomes, numbers = Outcomes(), itertools.count()

    def both_came() -> bool:
        path = ground.home / f"a/b/c/{next(numbers)}.json"
        outcomes.count(lambda: keep_baselines(path, ground.person))
        return outcomes.both

    with swapping(ground, component):
        until(both_came)
        for _ in range(200):
            both_came()
    assert ground.state() == ground.before


@pytest.mark.parametrize("component", COMPONENTS)
def test_folders_for_the_user_are_never_created_elsewhere(ground: Ground, component: str) -> None:
    outcomes, numbers = Outcomes(), itertools.count()

    def make() -> None:
        path = ground.home / f"a/b/c/x{next(numbers)}/y"
        open_folder(path, make_for=ground.person, make=True).close()

    def both_came() -> bool:
        outcomes.count(make)
        return outcomes.both

    with swapping(ground, component):
        until(both_came)
        for _ in range(200):
            both_came()
    assert ground.state() == ground.before


@pytest.mark.parametrize("component", [*COMPONENTS, "a/b/c/secret.toml"])
def test_nothing_of_roots_is_read_through_a_link(ground: Ground, component: str) -> None:
    if component.endswith(".toml"):
        (ground.home / component).symlink_to(ground.vault / component)
    else:
        ground.link(component)
    path = ground.home / "a/b/c/secret.toml"
    for read in (lambda: read_text(path), lambda: read_baselines(path, HOST)):
        with pytest.raises(OSError) as refused:
            read()
        assert refused.value.errno == errno.ELOOP
    assert read_profiles(path.parent) == {}


def test_a_second_name_of_roots_file_is_not_read(ground: Ground) -> None:
    path = ground.home / "a/config.toml"
    os.link(ground.vault / "secret.toml", path)
    with pytest.raises(PermissionError):
        read_text(path)
    assert read_profiles(path.parent) == {}


def test_a_link_that_only_root_can_create_is_followed(ground: Ground) -> None:
    link = ground.home.parent / "link"
    link.symlink_to("vault")
    assert read_text(link / "a/secret.toml") == SECRET
    (ground.vault / "there").symlink_to("/etc")
    os.lchown(ground.vault / "there", UID, UID)
    with pytest.raises(OSError) as refused:
        open_file(ground.vault / "there/passwd")
    assert refused.value.errno == errno.ELOOP


def test_a_users_own_link_to_what_is_the_users_is_followed(ground: Ground) -> None:
    """As tools that keep configurations in one place make them."""
    home = ground.home
    (home / "a/real.toml").write_text("x = 1\n")
    (home / "linked").symlink_to("a/b")
    (home / "config.toml").symlink_to(home / "a/real.toml")
    os.chown(home / "a/real.toml", UID, UID)
    assert read_text(home / "config.toml") == "x = 1\n"
    record(home / "linked/r.nftop", ground.person)
    assert (home / "a/b/r.nftop").stat().st_uid == UID
    with pytest.raises(NotADirectoryError):
        open_folder(home / "config.toml")
    with pytest.raises(OSError):
        open_folder(home / "config.toml/x", make_for=ground.person, make=True)
    home.chmod(0o777)  # where others can place a link too
    for path in (home / "config.toml", home / "linked/r.nftop"):
        with pytest.raises(OSError) as refused:
            read_text(path)
        assert refused.value.errno == errno.ELOOP
    home.chmod(0o755)
    assert ground.state() == ground.before


def test_an_open_descriptor_is_read_by_its_path_in_proc(ground: Ground) -> None:
    handle = os.open(ground.vault / "secret.toml", os.O_RDONLY)
    reader, writer = os.pipe()
    os.write(writer, b"piped")
    os.close(writer)
    try:
        assert read_text(Path(f"/proc/self/fd/{handle}")) == SECRET
        opened = open_file(Path(f"/proc/self/fd/{reader}"), wait=True)
        assert os.read(opened, 9) == b"piped"
        os.close(opened)
    finally:
        os.close(handle)
        os.close(reader)


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare (util-linux) is missing")
def test_links_of_procfs_lead_where_the_kernel_reports(ground: Ground) -> None:
    """A process of root's with another mount namespace: its root link's text is `/`."""
    folder = ground.vault / "a"
    (folder / "x").write_text("outside")
    script = 'mount -t tmpfs none "$0" && cd "$0" && printf inside > x && echo && exec sleep 600'
    command = ["unshare", "-m", "--propagation", "private", "sh", "-c", script, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"\n"
            proc = Path(f"/proc/{process.pid}")
            inside = proc / "root" / folder.relative_to("/")
            for path in (inside, proc / "cwd", proc / "task" / str(process.pid) / "cwd/."):
                assert read_text(path / "x") == "inside"
                with open_folder(path) as opened:
                    os.close(opened.create("y", None))
                    opened.move("y", "z")
                assert (inside / "z").exists() and not (folder / "z").exists()
                (inside / "z").unlink()
            with pytest.raises(NotADirectoryError):
                open_file(proc / "exe/x")
            (inside / "there").symlink_to("x")
            os.lchown(inside / "there", UID, UID)
            os.chown(inside, UID, UID)
            with pytest.raises(OSError) as refused:
                open_file(proc / "cwd/there")
            assert refused.value.errno == errno.ELOOP
        finally:
            process.kill()


def test_the_links_of_proc_itself_are_followed() -> None:
    assert read_text(Path("/proc/self/comm")) == Path("/proc/self/comm").read_text()
    assert "cpu" in read_text(Path("/proc/self/root/proc/stat"))
    assert "lo" in read_text(Path("/proc/net/dev"))


def test_links_loop_no_longer_than_the_kernel_lets_them(ground: Ground) -> None:
    (ground.vault / "one").symlink_to("two")
    (ground.vault / "two").symlink_to("one")
    with pytest.raises(OSError) as refused:
        open_file(ground.vault / "one/x")
    assert refused.value.errno == errno.ELOOP


@pytest.mark.parametrize(
    "command",
    [
        ("tma", "--uarch", "SPR", "{path}"),
        ("replay", "--batch", "{path}"),
        ("export", "{path}", "-o", "-", "--table", "cpus"),
    ],
)
def test_commands_do_not_report_roots_files(ground: Ground, command: tuple[str, ...]) -> None:
    ground.link("a")
    path = str(ground.home / "a/secret.toml")
    ran = nftop(*(word.format(path=path) for word in command))
    assert ran.returncode != 0
    assert "secret = 17" not in ran.stdout + ran.stderr
    assert ground.state() == ground.before


@pytest.fixture
def sudo(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root, through sudo, started by the attacker, whose home is `ground.home`."""
    monkeypatch.setenv("SUDO_UID", str(UID))
    monkeypatch.setenv("SUDO_USER", "nobody")
    entry = SimpleNamespace(pw_uid=UID, pw_gid=UID, pw_dir=str(ground.home))
    monkeypatch.setattr("nftop.store.folders.pwd.getpwuid", lambda _: entry)


@pytest.mark.usefixtures("sudo")
@pytest.mark.parametrize("name", [".local", ".local/share", ".local/share/nftop"])
@pytest.mark.parametrize(
    "command",
    [
        ("demo", "--batch", "-n", "2", "-d", "0.1", "--baseline", "mine"),
        ("demo", "-d", "0.2", "record", "--duration", "1s"),
        (
            "demo",
            "-d",
            "0.2",
            "record",
            "--duration",
            "1s",
            "-o",
            "{home}/.local/share/nftop/r.nftop",
        ),
    ],
)
def test_under_sudo_commands_follow_no_link_of_the_callers(
    ground: Ground, name: str, command: tuple[str, ...]
) -> None:
    link = ground.home / name
    link.parent.mkdir(parents=True, exist_ok=True)
    for folder in (link.parent, *link.parent.parents):
        if folder.is_relative_to(ground.home):
            os.chown(folder, UID, UID)
    (ground.vault / "a/share/nftop").mkdir(parents=True)
    (ground.vault / "a/nftop").mkdir()
    link.symlink_to(ground.vault / "a")
    os.lchown(link, UID, UID)
    before = ground.state()
    ran = called(*(word.format(home=ground.home) for word in command))
    assert ran.returncode != 0
    assert os.strerror(errno.ELOOP) in ran.stderr or "not followed" in ran.stderr
    assert ground.state() == before


@pytest.mark.usefixtures("sudo")
def test_under_sudo_a_recording_is_the_callers(ground: Ground) -> None:
    ran = called("demo", "-d", "0.2", "record", "--duration", "1s")
    assert ran.returncode == 0, ran.stderr
    created = [path for path in ground.home.rglob("*") if path.suffix == ".nftop"]
    assert [path.stat().st_uid for path in created] == [UID]
    assert {path.stat().st_uid for path in ground.home.rglob("*")} == {UID}


@pytest.mark.usefixtures("sudo")
def test_under_sudo_the_configuration_is_no_link_to_roots(ground: Ground) -> None:
    folder = ground.home / ".config/nftop"
    folder.mkdir(parents=True)
    for item in (folder, folder.parent):
        os.chown(item, UID, UID)
    (folder / "config.toml").symlink_to(ground.vault / "secret.toml")
    os.lchown(folder / "config.toml", UID, UID)
    ran = called("config", "--show")
    assert "root_only_secret" not in ran.stdout + ran.stderr
    assert ran.returncode != 0


def test_the_check_for_a_new_file_creates_none(tmp_path: Path) -> None:
    check_creatable(tmp_path / "a")
    check_creatable(tmp_path / "b" / "c" / "d")
    with pytest.raises(IsADirectoryError):
        check_creatable(tmp_path)
    opened = os.open

    def read_only(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return opened(path, flags, mode, dir_fd=dir_fd)

    with mock.patch("nftop.store.folders.os.open", read_only):
        for path in (tmp_path / "a", tmp_path / "b" / "c"):
            with pytest.raises(OSError, match="Read-only") as refused:
                check_creatable(path)
            assert refused.value.errno == errno.EROFS
    assert not list(tmp_path.iterdir())
