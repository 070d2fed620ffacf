"""Hosts of the fleet screen over OpenSSH's own server, which `make fleet-ssh` gets.

It is unpacked and not installed. It runs in a mount namespace of its own, which has its user and
its folder in /run; the far side's sudo and nftop are scripts that its sessions have first on PATH.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from nftop import __version__
from nftop.cli.commands.fleet import RemoteHost, version_text
from nftop.session.replay import Replay
from tests.house import ROOT
from tests.ports import free_port
from tests.waiting import until

_ROOT = Path(os.environ.get("NFTOP_SSHD", "/nonexistent"))
_SERVER = _ROOT / "usr/sbin/sshd"
_LIBRARIES = sorted(_ROOT.glob("usr/lib/*/libwrap.so.0"))
_PROGRAMS = [shutil.which(name) for name in ("ssh", "ssh-keygen", "unshare", "mount")]
BANNER = "Unauthorised use"
_NAMESPACE = ("unshare", "--mount", "--propagation", "private")


def _lacks() -> str:
    """Why there can be no server; "" if there can."""
    if not _SERVER.exists() or not _LIBRARIES or None in _PROGRAMS:
        return "OpenSSH's server is not there: make fleet-ssh gets it"
    if os.geteuid() != 0:
        return "needs root"
    done = subprocess.run([*_NAMESPACE, "true"], capture_output=True, check=False)
    return "" if done.returncode == 0 else "no mount namespace can be made"


pytestmark = [pytest.mark.real, pytest.mark.skipif(bool(why := _lacks()), reason=why or "-")]
_SERVE = """
mount -t tmpfs tmpfs /run && mkdir -m 0755 /run/sshd && mount --bind {folder}/passwd /etc/passwd &&
exec env LD_LIBRARY_PATH={libraries} {server} -D -e -f {folder}/sshd_config
"""
_CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
PidFile none
Banner {folder}/banner
SetEnv PATH={folder}/far:/usr/bin:/bin
"""
_CLIENT = """
Host edge-down
  Port {closed}
Host edge-stranger
  UserKnownHostsFile /dev/null
Host edge-*
  HostName 127.0.0.1
  Port {port}
  User root
  IdentityFile {folder}/user
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  StrictHostKeyChecking yes
"""


@dataclass(frozen=True)
class Server:
    """OpenSSH's server; `far` has the programs of its sessions."""

    folder: Path
    far: Path

    def program(self, name: str, script: str) -> None:
        path = self.far / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def pid(self, name: str) -> int:
        """Of a program that has written it."""
        until(lambda: (self.far / name).exists() and (self.far / name).read_text().endswith("\n"))
        return int((self.far / name).read_text())


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    far = folder / "far"
    far.mkdir()
    port, closed = free_port(), free_port()
    for name in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True
        )
    key = " ".join((folder / "host.pub").read_text().split()[:2])
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}\n")
    (folder / "banner").write_bytes(b"\x1b[2J%s is \x9b31mforbidden\n" % BANNER.encode())
    (folder / "sshd_config").write_text(_CONFIG.format(port=port, folder=folder))
    (folder / "ssh_config").write_text(_CLIENT.format(port=port, folder=folder, closed=closed))
    user = "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
    (folder / "passwd").write_text(Path("/etc/passwd").read_text().rstrip("\n") + "\n" + user)
    client = folder / "ssh"
    client.write_text(f'#!/bin/sh\nexec {_PROGRAMS[0]} -F {folder}/ssh_config "$@"\n')
    client.chmod(0o755)
    server = Server(folder, far)
    # The operator's rule for one command: without a password, and nothing else.
    server.program(
        "sudo", f'printf "%s\\n" "$*" >> {far}/arguments; [ "$1" = -n ] || exit 1; shift\nexec "$@"'
    )
    python = f"PYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)}"
    server.program("nftop", f'echo $$ > {far}/pid; {python} -m nftop demo --cpus 16 "$@"')
    script = _SERVE.format(folder=folder, libraries=_LIBRARIES[0].parent, server=_SERVER)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*_NAMESPACE, "sh", "-c", script], stderr=log)
        try:
            log_file = folder / "log"
            until(lambda: b"listening" in log_file.read_bytes() or process.poll() is not None)
            assert process.poll() is None, log_file.read_text()
            yield server
        finally:
            process.terminate()
            process.wait()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with serving(tmp_path) as server:
        yield server


def refused(destination: str) -> str:
    """Why a host does not open."""
    with closing(RemoteHost(destination)) as remote:
        why = remote.wait()
    assert why.isprintable()
    return why


def ended(pid: int) -> bool:
    """Whether a process is gone, or waits for its parent only."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_host_opens_and_its_recorder_ends_with_it(server: Server) -> None:
    remote = RemoteHost("edge-07")
    with closing(remote):
        assert (remote.wait(), remote.version) == ("", __version__)
        assert isinstance(remote.feed, Replay) and next(remote.feed.frames()).host.simulated
        assert version_text("edge-07", remote.version) == remote.ending() == ""
        recorder = server.pid("pid")
        assert not ended(recorder)
    until(lambda: ended(recorder))
    assert (server.far / "arguments").read_text() == "-n nftop record -o -\n"


@pytest.mark.parametrize("victim", ["recorder", "connection"])
def test_what_is_killed_meanwhile_is_stated(server: Server, victim: str) -> None:
    with closing(RemoteHost("edge-07")) as remote:
        assert remote.wait() == "" and remote.ending() == ""
        recorder, data = server.pid("pid"), remote.data
        parent = int(Path(f"/proc/{recorder}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(recorder if victim == "recorder" else parent, signal.SIGKILL)
        until(lambda: remote.ending() != "")
        assert remote.ending().isprintable() and remote.ending() and BANNER not in remote.ending()
        assert data is not None
        until(lambda: not data.grows)
    until(lambda: ended(recorder))


def test_hosts_that_are_down_unknown_or_refuse_have_a_reason(server: Server) -> None:
    assert refused("edge-down").startswith("Connection refused (127.0.0.1 port ")
    assert "Host key verification failed" in refused("edge-stranger")
    assert "resolve" in refused("no-such-host.invalid")
    (server.folder / "user.pub").write_text("")
    assert "Permission denied" in refused("edge-07")
    assert not (server.far / "arguments").exists()


def test_a_host_that_is_no_host_is_no_option_and_no_command(server: Server) -> None:
    """What the configuration refuses does no harm behind `--` either."""
    proof = server.folder / "proof"
    for name in (f"-oProxyCommand=touch {proof}", f"edge-07;touch {proof}", f"$(touch {proof})"):
        assert refused(name)
    assert not proof.exists() and not (server.far / "arguments").exists()


def test_what_the_far_side_writes_is_text(server: Server) -> None:
    server.program("sudo", "echo 'sudo: a password is required' >&2; exit 1")
    assert refused("edge-07") == "sudo: a password is required"
    server.program("sudo", r"printf '\033[2J\233evil\342\200\256\n' >&2; exit 1")
    assert "evil" in refused("edge-07")
    server.program("sudo", "echo Welcome; exit 0")
    assert "another version" in refused("edge-07")


def test_another_version_is_stated(server: Server) -> None:
    run = "import nftop; nftop.__version__ = '9.1'; from nftop.cli.main import run; import sys; "
    run += "sys.exit(run(['demo', '--cpus', '16', *sys.argv[1:]]))"
    python = f"PYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)}"
    server.program("nftop", f'{python} -c {shlex.quote(run)} "$@"')
    with closing(RemoteHost("edge-07")) as remote:
        assert (remote.wait(), remote.version) == ("", "9.1")
        assert version_text("edge-07", remote.version) != ""
