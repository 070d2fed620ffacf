"""Commands that nftop sends, by version. All of them only read.

`pmd-stats-show` has exact busy cycles, and is `pmd-perf-show` from 4.0 on. That counts what is sent
and how long a thread slept. `pmd-rxq-show` takes the time it looks back over from 3.1 on (NEWS).
"""

from __future__ import annotations

import re
from typing import TypeAlias

from nftop.model.struct import dataclass
from nftop.sources.nf_session.connection import ReplyError
from nftop.sources.ovs.replies import text

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

    Raises:
        ReplyError: it is not Open vSwitch, or is older than `OLDEST`.
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
