"""One call of perf_event_open, and the file name that carries it from supervisor to server."""

from __future__ import annotations

import base64
import binascii
import errno
import functools
from dataclasses import dataclass

from tests.lab.tree import failed

_PREFIX = "event"
_SEPARATOR = ","


@dataclass(frozen=True, slots=True)
class Call:
    """A caller's arguments, as far as they mean the same in another process.

    Attributes:
        event: number of the event that is to be opened; unique in a lab.
        attr: its perf_event_attr as `attr.cut` gives it; zeros at the end don't count.
        pid: -1 every task; never 0.
        cpu: -1 any.
        leader: number of the group's event; 0: it is its own.
        flags: PERF_FLAG_*.
        uid: the caller's.
        privileged: it has CAP_PERFMON or CAP_SYS_ADMIN.
    """

    event: int
    attr: bytes
    pid: int
    cpu: int
    leader: int
    flags: int
    uid: int
    privileged: bool


def name_of(call: Call) -> str:
    """The call as a file name."""
    numbers = (call.event, call.pid, call.cpu, call.leader, call.flags, call.uid, call.privileged)
    text = base64.urlsafe_b64encode(call.attr.rstrip(b"\0")).decode("ascii")
    return _SEPARATOR.join([_PREFIX, *(str(int(number)) for number in numbers), text])


@functools.lru_cache(maxsize=64)  # a file is looked up, opened, and is the leader of others
def parse_name(name: str) -> Call:
    """The call that `name_of` made this of.

    Raises:
        OSError: ENOENT, there is no such file.
    """
    prefix, *fields = name.split(_SEPARATOR)
    if prefix != _PREFIX or len(fields) != 8:
        raise failed(errno.ENOENT)
    try:
        event, pid, cpu, leader, flags, uid, privileged = (int(field) for field in fields[:7])
        attr = base64.urlsafe_b64decode(fields[7])
    except (ValueError, binascii.Error):
        raise failed(errno.ENOENT) from None
    return Call(event, attr, pid, cpu, leader, flags, uid, bool(privileged))


def event_of(name: str) -> int:
    """The number of the event in a file's name; OSError ENOENT as `parse_name`."""
    return parse_name(name).event
