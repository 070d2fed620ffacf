"""The recorder of another host: one constant command line, and the operator's host in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Missing
from nftop.sources.ssh import FAR_COMMAND, SSH, RemoteRecorder, record_remote
from tests.waiting import LONGEST_S, until

REAL_SSH = shutil.which("ssh")


def fake_ssh(folder: Path, script: str) -> None:
    """An ssh in `folder` that notes its arguments, a line each, and runs `script`."""
    program = folder / "ssh"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {folder}/arguments\n{script}\n')
    program.chmod(0o755)


@pytest.fixture(autouse=True)
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


def begun(destination: str = "edge-07") -> RemoteRecorder:
    recorder = record_remote(destination)
    assert isinstance(recorder, RemoteRecorder)
    return recorder


def test_the_command_line(tmp_path: Path) -> None:
    fake_ssh(tmp_path, "printf recording")
    recorder = begun()
    try:
        assert os.read(recorder.output, 100) == b"recording"
        assert os.read(recorder.output, 100) == b""
    finally:
        os.close(recorder.output)
        recorder.close()
    assert (tmp_path / "arguments").read_text().splitlines() == [
        "-T",
        "-a",
        "-x",
        "-o",
        "BatchMode=yes",
        "-o",
        "ConnectTimeout=15",
        "-o",
        "ServerAliveInterval=5",
        "-o",
        "ServerAliveCountMax=3",
        "-o",
        "LogLevel=ERROR",
        "-o",
        "ClearAllForwardings=yes",
        "-o",
        "PermitLocalCommand=no",
        "-o",
        "RemoteCommand=none",
        "--",
        "edge-07",
        "sudo",
        "-n",
        "nftop",
        "record",
        "-o",
        "-",
    ]


@pytest.mark.parametrize(
    ("script", "ending"),
    [
        ("echo 'Permission denied (publickey).' >&2; exit 255", "Permission denied (publickey)."),
        ("echo 'sudo: a password is required' >&2; exit 1", "sudo: a password is required"),
        ("echo first >&2; echo last >&2; echo >&2; exit 1", "last"),
        (
            "echo 'ssh: connect to host a port 22: Connection refused' >&2; exit 255",
            "Connection refused (a port 22)",
        ),
        ("exit 3", "ssh ended with code 3"),
        ("head -c 3000000 /dev/zero >&2; echo end >&2", "end"),
    ],
)
def test_how_it_ended(tmp_path: Path, script: str, ending: str) -> None:
    fake_ssh(tmp_path, script)
    recorder = begun()
    try:
        until(lambda: recorder.ending() != "")
        assert ending in recorder.ending()[-400:]
    finally:
        os.close(recorder.output)
        recorder.close()


def test_it_ends_with_close(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    script = f"trap '' TERM HUP; echo $$ > {tmp_path}/pid; while :; do sleep 0.2; done"
    fake_ssh(tmp_path, script)
    recorder = begun()
    assert recorder.ending() == ""
    until(lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text().strip()))
    recorder.close()
    recorder.close()
    os.close(recorder.output)
    assert recorder.ending() == snapshot


def test_no_ssh_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    why = record_remote("edge-07")
    assert isinstance(why, Missing)
    assert why.message == snapshot


@pytest.mark.skipif(REAL_SSH is None, reason="ssh is not installed")
def test_the_operators_configuration_adds_nothing(tmp_path: Path) -> None:
    """Effective options with a configuration that adds a terminal, agent, ports and commands."""
    config = tmp_path / "config"
    config.write_text(
        "Host edge-07\n User root\n RequestTTY force\n ForwardAgent yes\n ForwardX11 yes\n"
        " LocalForward 9001 127.0.0.1:1\n RemoteForward 9002 127.0.0.1:1\n DynamicForward 9003\n"
        " PermitLocalCommand yes\n LocalCommand touch /tmp/x\n RemoteCommand reboot\n"
        " BatchMode no\n LogLevel DEBUG\n ConnectTimeout 600\n"
    )

    def options(*words: str) -> dict[str, str]:
        ended = subprocess.run(
            [str(REAL_SSH), "-G", "-F", str(config), *words],
            check=True,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
        )
        lines = (line.partition(" ") for line in ended.stdout.splitlines())
        return {name: value for name, _, value in lines}

    assert options("edge-07")["requesttty"] == "force", "the configuration is read"
    effective = options(*SSH[1:], "edge-07", *FAR_COMMAND)
    assert effective["user"] == "root"
    expected = {
        "requesttty": "false",
        "forwardagent": "no",
        "forwardx11": "no",
        "clearallforwardings": "yes",
        "permitlocalcommand": "no",
        "batchmode": "yes",
        "connecttimeout": "15",
        "loglevel": "ERROR",
    }
    assert {name: effective.get(name) for name in expected} == expected
    assert not {"localforward", "remoteforward", "dynamicforward"} & effective.keys()
    assert effective.get("remotecommand", "none") == "none"
