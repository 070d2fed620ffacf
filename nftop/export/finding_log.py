"""Findings as entries of the local journal (systemd) or syslog, with their fields.

Formats: systemd.journal-fields(7) and its native protocol; RFC 5424, with structured data.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from nftop.export.output import warn
from nftop.model.frame import Finding
from nftop.model.number_text import counted
from nftop.render.base.text import printable

LogKind: TypeAlias = Literal["journal", "syslog"]
SOCKETS: dict[LogKind, str] = {"journal": "/run/systemd/journal/socket", "syslog": "/dev/log"}
# Entries in a minute; more are counted, and the next entry has their number.
MOST_PER_MINUTE = 60
_MINUTE_NS = 60_000_000_000
_WARNING, _INFO = 4, 6  # severities of RFC 5424
_DAEMON = 3
# RFC 5612: a number for use in documentation and where there is no registered one.
_SD_ID = "finding@32473"
_ESCAPES = str.maketrans({char: f"\\{char}" for char in '\\"]'})


class FindingLog:
    """Sends findings; never waits for the receiver. For one thread.

    Attributes:
        problem: error of the last entry; "" if it was sent.
        left_out: findings that were not sent since the last entry.
    """

    def __init__(self, kind: LogKind, host: str, path: str = "") -> None:
        """`host`: name of the measured host. `path`: of the socket; default: the system's."""
        self._kind, self._host = kind, printable(host)
        self._path = path or SOCKETS[kind]
        self._socket: socket.socket | None = None
        self._sent_ns: deque[int] = deque(maxlen=MOST_PER_MINUTE)
        self.problem, self.left_out = "", 0

    def put(self, finding: Finding, wall_ns: int, monotonic_ns: int) -> None:
        """Send the first tick of a finding; one that is muted is left out."""
        if finding.is_muted:
            return
        full = len(self._sent_ns) == MOST_PER_MINUTE
        if full and monotonic_ns - self._sent_ns[0] < _MINUTE_NS:
            self.left_out += 1
            return
        make = _journal_entry if self._kind == "journal" else _syslog_entry
        if not self.send(make(finding, self._host, wall_ns, self.left_out)):
            self.left_out += 1
            return
        self._sent_ns.append(monotonic_ns)
        self.left_out = 0

    def send(self, entry: bytes = b"") -> bool:
        """Send an entry; an empty one only looks for the receiver. Sets `problem`."""
        try:
            if self._socket is None:
                kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
                self._socket = socket.socket(socket.AF_UNIX, kind)
                self._socket.connect(self._path)
            if entry:
                self._socket.send(entry)
        except OSError as error:
            # The receiver may have been restarted: another socket for the next entry.
            self.close()
            self.problem = f"{self._path}: {error.strerror or error}"
            return False
        self.problem = ""
        return True

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def open_log(kind: LogKind | None, host: str) -> FindingLog | None:
    """The log of `--log`, with a message if nothing can be logged now; None without one."""
    log = None if kind is None else FindingLog(kind, host)
    if log is not None and not log.send():
        warn(f"nftop: no finding can be logged now: {log.problem}; each one tries again")
    return log


def _message(finding: Finding, left_out: int) -> str:
    more = f" (and {counted(left_out, 'finding')} not logged)" if left_out else ""
    return printable(f"{finding.where}: {finding.text} [{finding.rule}]{more}")


def _journal_entry(finding: Finding, host: str, wall_ns: int, left_out: int) -> bytes:
    fields = {
        "MESSAGE": _message(finding, left_out),
        "PRIORITY": str(_INFO if finding.is_note else _WARNING),
        "SYSLOG_IDENTIFIER": "nftop",
        "NFTOP_HOST": host,
        "NFTOP_RULE": finding.rule,
        "NFTOP_METRIC": finding.metric,
        "NFTOP_WHERE": printable(finding.where),
        "NFTOP_SINCE": _time(finding.since_ns),
        "NFTOP_TIME": _time(wall_ns),
        "NFTOP_LEFT_OUT": str(left_out),
    }
    # Values have no line breaks: `printable` replaces them.
    return "".join(f"{name}={value}\n" for name, value in fields.items()).encode()


def _syslog_entry(finding: Finding, host: str, wall_ns: int, left_out: int) -> bytes:
    priority = _DAEMON * 8 + (_INFO if finding.is_note else _WARNING)
    data = {
        "rule": finding.rule,
        "metric": finding.metric,
        "where": printable(finding.where),
        "since": _time(finding.since_ns),
        "leftOut": str(left_out),
    }
    params = " ".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in data.items())
    name = "".join(char for char in host if char.isascii() and char.isprintable() and char != " ")
    head = f"<{priority}>1 {_time(wall_ns)} {name or '-'} nftop {os.getpid()} finding"
    return f"{head} [{_SD_ID} {params}] {_message(finding, left_out)}".encode()


def _time(wall_ns: int) -> str:
    moment = datetime.fromtimestamp(wall_ns // 1_000_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{wall_ns // 1000 % 1_000_000:06d}Z"
