"""`nftop fleet --prometheus`: options, text, hosts over ssh, and the screen in tmux."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from nftop import __version__
from nftop.cli.commands import fleet as command
from nftop.cli.commands.fleet import RemoteHost, version_text
from nftop.cli.config import ConfigError
from nftop.export.http.request import Board
from nftop.export.http.server import Serving
from nftop.model.fleet import FleetHost
from nftop.model.loopback import Loopback
from nftop.model.struct import replace
from nftop.session.replay import Replay
from nftop.sources.ssh import FAR_COMMAND, SSH
from nftop.store.reading.bytes import PipeBytes
from nftop.store.user.rules import RulesFile
from nftop.ui.screens.fleet import FleetMemory, OpenedHost
from tests.command import called
from tests.export.http.test_real_prometheus import PROMETHEUS, prometheus, targets_up
from tests.fleet import host_frame, three_hosts
from tests.peers.prometheus import prometheus_peer
from tests.ports import free_port
from tests.waiting import LONGEST_S, until

TMUX = shutil.which("tmux")
RECORDS = f"exec {shlex.quote(sys.executable)} -m nftop demo --cpus 16 record -o -"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the first on PATH, with the operator's configuration in it."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def fake_ssh(folder: Path, script: str) -> None:
    program = folder / "ssh"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {folder}/arguments\n{script}\n')
    program.chmod(0o755)


# Options and text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "--prometheus URL"),
        (("alerts", "--job", ""), "--job"),
        (("alerts", "--prometheus", "http://x"), "alerts reads no Prometheus"),
        (("--prometheus", "ftp://x"), "http://HOST:PORT"),
        (("--prometheus", "http://u:p@x"), "--prometheus-token-file"),
        (("--prometheus", "http://x", "--prometheus-token-file", "/absent"), "/absent"),
    ],
)
def test_usage_errors(folder: Path, arguments: tuple[str, ...], text: str) -> None:
    ended = called("fleet", *arguments)
    assert ended.returncode == 2
    assert text in ended.stderr


@pytest.mark.parametrize("form", ["--json", "--csv"])
def test_other_forms_are_refused(folder: Path, form: str) -> None:
    ended = called("-n", "1", form, "fleet", "--prometheus", "http://127.0.0.1:1")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert form in ended.stderr


def test_a_token_is_read_from_a_file_and_never_sent_in_the_clear(folder: Path) -> None:
    token = folder / "token"
    token.write_text("secret-token\n")
    with prometheus_peer(three_hosts()) as peer:
        arguments = ("--prometheus-token-file", str(token), "--prometheus")
        ended = called("-n", "1", "fleet", *arguments, f"http://127.0.0.1:{peer.port}")
        assert ended.returncode == 0
        assert peer.headers["Authorization"] == "Bearer secret-token"
    ended = called("-n", "1", "fleet", *arguments, "http://prometheus.example:9090")
    assert ended.returncode == 2
    assert "https" in ended.stderr
    assert "secret" not in ended.stdout + ended.stderr


def test_an_empty_token_file_is_a_usage_error(folder: Path) -> None:
    token = folder / "token"
    token.write_text(" \n")
    arguments = ("--prometheus-token-file", str(token), "--prometheus", "http://127.0.0.1:1")
    ended = called("-n", "1", "fleet", *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert str(token) in ended.stderr


def test_text_has_every_row(folder: Path) -> None:
    with prometheus_peer({**three_hosts(), "gone:9739": None}) as peer:
        ended = called("-n", "1", "fleet", "--prometheus", f"http://127.0.0.1:{peer.port}")
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "4 hosts, 1 down" in ended.stdout
        assert ended.stdout.isascii()
        rows = [line for line in ended.stdout.splitlines() if line.startswith(("edge-", "core-"))]
        assert len(rows) == 12


def test_a_job_without_a_target_is_an_error(folder: Path) -> None:
    with prometheus_peer(three_hosts()) as peer:
        where = ("--prometheus", f"http://127.0.0.1:{peer.port}")
        for count in (("-n", "1"), ("--batch",)):
            ended = called(*count, "fleet", "--job", "x\x1b[2J", *where)
            assert (ended.returncode, ended.stdout) == (1, "")
            assert "x?[2J" in ended.stderr and len(ended.stderr.splitlines()) == 1
        assert 'job="x' in peer.requested[-1]["query"][0]


def test_without_a_prometheus_text_fails(folder: Path) -> None:
    ended = called("-n", "1", "fleet", "--prometheus", f"http://127.0.0.1:{free_port()}")
    assert ended.returncode == 1
    assert "no Prometheus listens" in ended.stdout


def test_a_wrong_mapping_is_an_error_of_the_configuration(folder: Path) -> None:
    config = folder / "nftop" / "config.toml"
    config.parent.mkdir()
    config.write_text('[fleet.hosts]\n"a" = "-oProxyCommand=reboot"\n')
    ended = called("-n", "1", "fleet", "--prometheus", "http://127.0.0.1:1")
    assert ended.returncode == 2
    assert "fleet.hosts" in ended.stderr
    config.write_text("x = = 1")
    ended = called("-n", "1", "fleet", "--prometheus", "http://127.0.0.1:1")
    assert (ended.returncode, ended.stderr.count("config.toml")) == (2, 1)
    config.write_text('[fleet.hosts]\n"edge-07:9739" = "root@edge-07"\n')
    shown = called("config", "--show")
    assert '[fleet.hosts]\n"edge-07:9739" = "root@edge-07"\n' in shown.stdout


# Hosts over ssh


def waited(remote: RemoteHost) -> str:
    try:
        return remote.wait()
    finally:
        remote.close()


def test_a_host_opens_with_the_first_of_its_recording(folder: Path) -> None:
    fake_ssh(folder, RECORDS)
    remote = RemoteHost("root@edge-07")
    try:
        assert remote.wait() == ""
        assert remote.version == __version__
        assert isinstance(remote.feed, Replay)
        assert next(remote.feed.frames()).host.simulated
        assert remote.ending() == ""
    finally:
        remote.close()
    assert remote.ending() != ""
    assert (folder / "arguments").read_text().split() == [
        *SSH[1:],
        "root@edge-07",
        *FAR_COMMAND,
    ]


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("echo 'Permission denied (publickey).' >&2; exit 255", "Permission denied (publickey)."),
        ("echo 'sudo: a password is required' >&2; exit 1", "sudo: a password is required"),
        ("echo 'sudo: nftop: command not found' >&2; exit 1", "command not found"),
        # The reason comes first: a line may be too narrow for all of it.
        (
            "echo 'ssh: connect to host edge-07 port 22: Connection refused' >&2; exit 255",
            "Connection refused (edge-07 port 22)",
        ),
        ("exit 7", "code 7"),
        ("echo Welcome to edge-07; exit 0", "another version"),
        ("head -c 100000 /dev/urandom; echo 'nftop 0.0.1' >&2; exit 1", "another version"),
        (r"printf '\033[2Jevil\n' >&2; exit 1", "?[2Jevil"),
    ],
)
def test_why_a_host_does_not_open(folder: Path, script: str, text: str) -> None:
    fake_ssh(folder, script)
    why = waited(RemoteHost("edge-07"))
    assert text in why
    assert why.isprintable()


def test_a_banner_before_the_recording_is_no_loss(folder: Path) -> None:
    fake_ssh(folder, f"echo Welcome to edge-07; {RECORDS}")
    remote = RemoteHost("edge-07")
    try:
        assert remote.wait() == ""
        assert remote.feed is not None
        next(remote.feed.frames())
        position = remote.feed.position
        assert position is not None
        assert (position.remote, position.remark) == (True, "")
    finally:
        remote.close()


def test_what_goes_on_without_a_recording_is_given_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nftop.cli.commands.fleet._BEGINS_WITHIN_S", 0.0)
    fake_ssh(folder, "while :; do echo garbage; sleep 0.1; done")
    assert waited(RemoteHost("edge-07")) == "what it sends is no recording of nftop's"


def test_a_host_that_is_silent_can_be_given_up(folder: Path) -> None:
    fake_ssh(folder, "exec sleep 600")
    remote = RemoteHost("edge-07")
    result: list[str] = []
    waiting = threading.Thread(target=lambda: result.append(remote.wait()))
    waiting.start()
    remote.cancel()
    waiting.join(LONGEST_S)
    assert result == ["given up"]
    assert remote.ending() != ""


def test_a_host_that_opens_as_it_is_given_up_is_closed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cancel` comes between the header and the end of `wait`."""
    fake_ssh(folder, RECORDS)
    remote = RemoteHost("edge-07")
    opens = remote._wait

    def given_up() -> str:
        problem = opens()
        remote.cancel()
        return problem

    monkeypatch.setattr(remote, "_wait", given_up)
    assert remote.wait() == "given up"
    assert remote._recorder is not None and remote._recorder._process.returncode is not None
    assert isinstance(remote.data, PipeBytes) and not remote.data.grows


def test_a_host_that_fails_to_open_is_closed_by_cancel(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_ssh(folder, "exec sleep 600")
    remote = RemoteHost("edge-07")

    def fails() -> str:
        raise RuntimeError

    monkeypatch.setattr(remote, "_wait", fails)
    with pytest.raises(RuntimeError):
        remote.wait()
    remote.cancel()
    recorder, data = remote._recorder, remote.data
    assert recorder is not None and isinstance(data, PipeBytes)
    until(lambda: recorder._process.returncode is not None)
    until(lambda: not data.grows)


def test_rules_that_can_not_be_read_close_the_host(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_ssh(folder, RECORDS)
    remote = RemoteHost("edge-07")
    assert remote.wait() == ""

    def fails(*, for_session: bool) -> RulesFile:
        raise ConfigError("rules.toml")

    monkeypatch.setattr(command, "open_rules", fails)
    opened = OpenedHost(FleetHost("edge-07:9739", "edge-07", "up", 0, 0.0), remote)
    with pytest.raises(ConfigError):
        command._show(opened, Namespace(), FleetMemory())
    assert remote._recorder is not None and remote._recorder._process.returncode is not None


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_an_open_host_that_is_given_up_leaves_no_process(folder: Path) -> None:
    fake_ssh(folder, RECORDS)
    before = {item.name for item in threading.enumerate()}
    opened = descriptors()
    remote = RemoteHost("edge-07")
    assert remote.wait() == ""
    data, recorder = remote.data, remote._recorder
    assert isinstance(data, PipeBytes) and recorder is not None
    remote.cancel()
    until(lambda: not data.grows)
    until(lambda: recorder._process.returncode is not None)
    until(lambda: {item.name for item in threading.enumerate()} <= before)
    until(lambda: descriptors() <= opened)
    remote.cancel()
    assert waited(remote) == "given up"


def test_another_version_is_a_sentence() -> None:
    assert version_text("edge-07", __version__) == ""
    assert "edge-07 runs nftop 9.1" in version_text("edge-07", "9.1")
    assert version_text("edge-07", "\x1b[2J").isprintable()
    assert "unknown version" in version_text("edge-07", "")


# The screen, in a terminal


@contextmanager
def hosts() -> Iterator[dict[str, Serving]]:
    """Three simulated hosts that serve a frame each; those that are taken out are not closed."""
    servers = {}
    try:
        for name, scenario, into_s in (
            ("edge-07", "noisy", 20),
            ("edge-08", "slow", 15),
            ("core-1", "healthy", 15),
        ):
            frame = replace(host_frame(name, scenario, into_s), wall_ns=time.time_ns())
            board = Board(3600.0, "nf")
            board.publish(frame)
            servers[name] = Serving(Loopback("127.0.0.1", 0), board.reply, board.counted)
            servers[name].start()
        yield servers
    finally:
        for server in servers.values():
            server.close()


class Tmux:
    """A tmux server of its own, with one window of this size."""

    def __init__(self, socket: Path, size: tuple[int, int], command: str) -> None:
        self._command = [TMUX or "", "-S", str(socket), "-f", "/dev/null"]
        width, height = map(str, size)
        self.run("new-session", "-d", "-x", width, "-y", height, command)

    def run(self, *arguments: str) -> str:
        return subprocess.run(
            [*self._command, *arguments],
            check=True,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
        ).stdout

    def until(self, holds: Callable[[str], bool]) -> str:
        """The screen, once it is as wanted."""
        deadline = time.monotonic() + LONGEST_S
        while not holds(text := self.run("capture-pane", "-p")):
            assert time.monotonic() < deadline, text
            time.sleep(0.2)
        return text

    def press(self, *keys: str) -> None:
        self.run("send-keys", *keys)

    def find(self, text: str) -> None:
        """Type it into the prompt of `/`; keys that follow at once would go into the prompt too."""
        self.press("/")
        self.until(lambda text: "q quit" not in text)
        self.press(*text, "Enter")
        self.until(lambda text: "q quit" in text)


@pytest.mark.real
@pytest.mark.skipif(
    not (PROMETHEUS and TMUX), reason="tmux or Prometheus is not installed: make prometheus gets it"
)
def test_three_hosts_and_a_prometheus_in_tmux(folder: Path) -> None:
    fake_ssh(folder, RECORDS)
    with ExitStack() as stack:
        servers = stack.enter_context(hosts())
        targets = {name: server.where.shown for name, server in servers.items()}
        config = folder / "nftop" / "config.toml"
        config.parent.mkdir()
        config.write_text(f'[fleet.hosts]\n"{targets["edge-07"]}" = "edge-07"\n')
        address = stack.enter_context(prometheus(folder, list(targets.values())))
        until(lambda: targets_up(address) == len(targets))
        command = shlex.join(
            # They would go before the terminal's own size.
            [
                "env",
                "-u",
                "COLUMNS",
                "-u",
                "LINES",
                f"PATH={os.environ['PATH']}",
                f"XDG_CONFIG_HOME={folder}",
                "LC_ALL=C.UTF-8",
                "TERM=xterm-256color",
                sys.executable,
                "-m",
                "nftop",
                "fleet",
                "--prometheus",
                f"http://{address}",
                "-d",
                "2",
            ]
        )
        terminals = {}
        for size in ((80, 24), (120, 36)):
            errors = folder / f"errors-{size[0]}"
            shell = f"{command} 2>{errors}; echo EXIT $?; sleep 600"
            terminals[size] = Tmux(folder / f"tmux-{size[0]}", size, shell)
            stack.callback(terminals[size].run, "kill-server")
        for (width, height), terminal in terminals.items():
            text = terminal.until(lambda text: "3 hosts" in text and "q quit" in text)
            lines = text.rstrip("\n").split("\n")
            assert len(lines) == height
            assert max(map(len, lines)) <= width
            rows = [line for line in lines if line.startswith(("edge-", "core-"))]
            assert len(rows) == 12
            assert rows[0].startswith("edge-08") and "7.61M" in rows[0]
            assert "noisy neighbour" in text and "8.44M drop/s" in text
        servers.pop("edge-08").close()
        for terminal in terminals.values():
            text = terminal.until(lambda text: "1 down" in text)
            assert len([line for line in text.split("\n") if line.startswith("edge-07")]) == 4
        # The operator opens a host, which the mapping names, and comes back.
        small, large = terminals.values()
        small.find("edge-07")
        small.press("g", "Enter")
        small.until(lambda text: "REMOTE" in text and "[1 Cores]" in text)
        small.press("q")
        small.until(lambda text: "back from edge-07" in text)
        # Of another there is no host of ssh: the line to add is shown.
        large.find("core-1")
        large.press("Enter")
        large.until(lambda text: f'"{targets["core-1"]}" = "HOST"' in text)
        large.press("Escape")
        large.until(lambda text: "q quit" in text)
        for (width, _), terminal in terminals.items():
            terminal.press("q")
            terminal.until(lambda text: "EXIT 0" in text)
            assert (folder / f"errors-{width}").read_text() == ""
        assert (folder / "arguments").read_text().count("edge-07") == 1


@pytest.mark.real
@pytest.mark.skipif(not TMUX, reason="tmux is not installed")
def test_a_broken_connection_is_stated_on_the_way_back(folder: Path) -> None:
    # What is cut off has no end.
    recording = folder / "whole"
    subprocess.run(
        ["sh", "-c", f"{RECORDS} --duration 2s -d 0.2 >{recording}"], check=True, timeout=LONGEST_S
    )
    size = recording.stat().st_size - 100
    fake_ssh(
        folder, f"head -c {size} {recording}; sleep 2; echo 'Connection closed.' >&2; exit 255"
    )
    config = folder / "nftop" / "config.toml"
    config.parent.mkdir()
    config.write_text('[fleet.hosts]\n"edge-07:9739" = "edge-07"\n')
    page = {"edge-07:9739": three_hosts()["edge-07:9739"]}
    with prometheus_peer(page) as peer, ExitStack() as stack:
        command = shlex.join(
            [
                "env",
                f"PATH={os.environ['PATH']}",
                f"XDG_CONFIG_HOME={folder}",
                "LC_ALL=C.UTF-8",
                sys.executable,
                "-m",
                "nftop",
                "fleet",
                "--prometheus",
                f"http://127.0.0.1:{peer.port}",
            ]
        )
        terminal = Tmux(folder / "tmux", (80, 24), f"{command}; sleep 600")
        stack.callback(terminal.run, "kill-server")
        terminal.until(lambda text: "1 host" in text and "q quit" in text)
        terminal.press("Enter")
        terminal.until(lambda text: "END" in text.split("\n")[0])
        terminal.until(lambda text: "> connection lost: Connection closed." in text)
        terminal.press("q")
        terminal.until(lambda text: "edge-07: Connection closed." in text)
