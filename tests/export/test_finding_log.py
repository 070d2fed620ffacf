"""Findings in the journal and in syslog: datagrams on a real socket."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from nftop.export.finding_log import MOST_PER_MINUTE, SOCKETS, FindingLog, LogKind, open_log
from nftop.model.frame import Finding
from nftop.model.struct import replace
from tests.frames import about

FINDING = Finding(
    "drops", "drop_packets_per_s", about('nf a"]\nPRIORITY=0'), "3.8M\x1b[0m dropped", 10**18
)
WALL_NS = 1_769_828_400_250_000_000  # 2026-01-31T03:00:00.25Z


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "log"))
        listening.settimeout(10)
        yield listening


def log(kind: LogKind, receiver: socket.socket) -> FindingLog:
    return FindingLog(kind, "edge 07", receiver.getsockname())


def test_fields_of_the_journal_are_one_line(receiver: socket.socket) -> None:
    sender = log("journal", receiver)
    sender.put(FINDING, WALL_NS, 1)
    lines = receiver.recv(1 << 16).decode().removesuffix("\n").split("\n")
    fields = dict(line.split("=", 1) for line in lines)
    assert len(lines) == len(fields) == 10
    assert fields["PRIORITY"] == "4" and fields["SYSLOG_IDENTIFIER"] == "nftop"
    assert fields["NFTOP_RULE"] == "drops" and fields["NFTOP_METRIC"] == "drop_packets_per_s"
    assert fields["NFTOP_TIME"] == "2026-01-31T03:00:00.250000Z"
    assert fields["NFTOP_WHERE"] == 'nf a"]?PRIORITY=0'
    assert fields["MESSAGE"].endswith("[drops]") and "\x1b" not in fields["MESSAGE"]
    sender.put(replace(FINDING, is_note=True), WALL_NS, 2)
    assert b"\nPRIORITY=6\n" in receiver.recv(1 << 16)
    sender.close()


def test_syslog_gets_structured_data(receiver: socket.socket) -> None:
    sender = log("syslog", receiver)
    sender.put(FINDING, WALL_NS, 1)
    entry = receiver.recv(1 << 16).decode()
    match = re.fullmatch(
        r"<28>1 2026-01-31T03:00:00\.250000Z edge07 nftop \d+ finding "
        r'\[finding@32473 ((?:\w+="(?:[^"\\\]]|\\.)*" ?)+)\] (.*)',
        entry,
    )
    assert match
    values = dict(re.findall(r'(\w+)="((?:[^"\\\]]|\\.)*)"', match[1]))
    assert values["rule"] == "drops" and values["where"] == 'nf a\\"\\]?PRIORITY=0'
    sender.close()


def test_a_flood_is_bounded_and_counted(receiver: socket.socket) -> None:
    sender = log("journal", receiver)
    receiver.setblocking(False)
    sent = 0
    for number in range(MOST_PER_MINUTE + 40):
        sender.put(FINDING, WALL_NS, number)
        try:
            receiver.recv(1 << 16)
        except BlockingIOError:
            continue
        sent += 1
    assert (sent, sender.left_out) == (MOST_PER_MINUTE, 40)
    sender.put(FINDING, WALL_NS, 61 * 10**9)
    assert b"NFTOP_LEFT_OUT=40\n" in receiver.recv(1 << 16) and sender.left_out == 0
    sender.close()


def test_muted_ones_are_not_sent(receiver: socket.socket) -> None:
    sender = log("journal", receiver)
    sender.put(replace(FINDING, is_muted=True), WALL_NS, 1)
    receiver.setblocking(False)
    with pytest.raises(BlockingIOError):
        receiver.recv(1)


def test_at_the_start_a_missing_receiver_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert open_log(None, "x") is None
    monkeypatch.setitem(SOCKETS, "syslog", str(tmp_path / "absent"))
    sender = open_log("syslog", "x")
    assert sender is not None and sender.left_out == 0
    (printed,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path / "absent") in printed and "No such file" in printed
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "absent"))
        listening.setblocking(False)
        sender = open_log("syslog", "x")
        assert sender is not None and sender.problem == ""
        with pytest.raises(BlockingIOError):  # a look for the receiver is no entry
            listening.recv(1)
        sender.put(FINDING, WALL_NS, 1)
        assert b"finding" in listening.recv(1 << 16)
        sender.close()
    assert capsys.readouterr().err == ""


def test_without_a_receiver_it_reports_it_and_goes_on(tmp_path: Path) -> None:
    sender = FindingLog("syslog", "x", str(tmp_path / "absent"))
    sender.put(FINDING, WALL_NS, 1)
    assert "No such file" in sender.problem and sender.left_out == 1
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "absent"))
        sender.put(FINDING, WALL_NS, 2)
        assert b'leftOut="1"' in listening.recv(1 << 16)
    assert (sender.problem, sender.left_out) == ("", 0)
    sender.close()
