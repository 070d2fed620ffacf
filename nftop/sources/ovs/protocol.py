"""Commands that nftop sends, by version (all of them only read), and parsing of replies.

`pmd-stats-show` has exact busy cycles, and is `pmd-perf-show` from 4.0 on, with packets sent and
sleep time. `pmd-rxq-show` takes its time window as an argument from 3.1 on (NEWS).

A reply is `{"id", "result": text, "error": null}`, or `{"id", "error": text}` if the command failed
(ovs/lib/unixctl.c, jsonrpc.c). It is untrusted: anything else is a `ReplyError`.
"""

from __future__ import annotations

import json
import re
from typing import TypeAlias

from nftop.model.struct import dataclass
from nftop.sources.nf_session.connection import ReplyError

Release: TypeAlias = tuple[int, int]

OLDEST: Release = (2, 6)
WINDOW_S = 5
_NEVER: Release = (1 << 16, 0)
_VERSION = re.compile(r"\S+ \(Open vSwitch\) ([0-9]{1,4})\.([0-9]{1,4})(?![0-9])")


@dataclass(frozen=True, slots=True)
class OvsCall:
    """A command with its arguments."""

    method: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Row:
    """A command, from one release to before another."""

    call: OvsCall
    since: Release = OLDEST
    before: Release = _NEVER


VERSION = OvsCall("version")
STATS = "dpif-netdev/pmd-stats-show"
PERF = "dpif-netdev/pmd-perf-show"
RXQ = "dpif-netdev/pmd-rxq-show"
COUNTING = (STATS, PERF)  # commands with packets and cycles, best first

_TABLE = (
    _Row(OvsCall(STATS), before=(4, 0)),
    _Row(OvsCall(PERF, ("-nh",)), since=(2, 10)),  # without histograms
    _Row(OvsCall(RXQ), before=(3, 1)),
    _Row(OvsCall(RXQ, ("-secs", str(WINDOW_S))), since=(3, 1)),
)
ALLOWED = frozenset({VERSION.method, *(row.call.method for row in _TABLE)})


def release_of(version: str) -> Release:
    """2.17 of `ovs-vswitchd (Open vSwitch) 2.17.9`.

    Raises ReplyError: it is not Open vSwitch, or is older than `OLDEST`.
    """
    match = _VERSION.match(version)
    if match is None:
        raise ReplyError(f"its version is {text(version, 'its version')!r}")
    release = int(match[1]), int(match[2])
    if release < OLDEST:
        raise ReplyError(f"it is older than {OLDEST[0]}.{OLDEST[1]}, the first that nftop reads")
    return release


def calls_for(release: Release) -> tuple[OvsCall, ...]:
    """The calls of every tick to that release, counters first."""
    return tuple(row.call for row in _TABLE if row.since <= release < row.before)


TEXT_LIMIT = 128  # characters of a name, a version or an error
COUNTER_END = 1 << 64


@dataclass(frozen=True, slots=True)
class Reply:
    """Output of a command at CLOCK_MONOTONIC `at_ns`: `text`, or `error`, "" on success."""

    text: str
    error: str
    at_ns: int


def request(number: int, method: str, arguments: tuple[str, ...]) -> bytes:
    """A request; its reply has the same `number`."""
    return json.dumps({"method": method, "params": list(arguments), "id": number}).encode("ascii")


def reply(raw: bytes, number: int, what: str, at_ns: int) -> Reply:
    """The reply to the request of that number. Raises ReplyError."""
    try:
        fields = json.loads(raw.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError) as error:
        raise ReplyError(f"its answer to {what} is not JSON") from error
    if not isinstance(fields, dict) or type(fields.get("id")) is not int or fields["id"] != number:
        raise ReplyError(f"its answer to {what} is for another request")
    failed = fields.get("error")
    if failed is not None:
        return Reply("", text(failed, f"the error in its answer to {what}") or "error", at_ns)
    result = fields.get("result")
    if result is None and "result" in fields:
        return Reply("", "", at_ns)
    if not isinstance(result, str):
        raise ReplyError(f"its answer to {what} is not a text")
    return Reply(result, "", at_ns)


def text(value: object, what: str) -> str:
    """One line of at most `TEXT_LIMIT` characters that any encoder accepts; still untrusted."""
    if not isinstance(value, str):
        raise ReplyError(f"{what} is not a text")
    first = value.strip().partition("\n")[0].strip()[:TEXT_LIMIT]
    # JSON escapes may be half a surrogate pair, which UTF-8 writers reject.
    return first.encode("utf-8", "replace").decode("utf-8")
