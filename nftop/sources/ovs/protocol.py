"""Commands that nftop sends, by version (all of them only read), and parsing of replies.

`pmd-stats-show` has exact busy cycles, and is `pmd-perf-show` from 4.0 on, with packets sent and
sleep time. `pmd-rxq-show` takes its time window as an argument from 3.1 on (NEWS).

A reply is `{"id", "result": text, "error": null}`, or `{"id", "error": text}` if the command failed
(ovs/lib/unixctl.c, jsonrpc.c). It is untrusted: anything else is a `ReplyError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from nftop.model.ids import Cpu
from nftop.model.nf.ovs import OvsPmd, OvsQueue
from nftop.model.struct import dataclass, field
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
    return Reply(_whole(result), "", at_ns)


def text(value: object, what: str) -> str:
    """One line of at most `TEXT_LIMIT` characters that any encoder accepts; still untrusted."""
    if not isinstance(value, str):
        raise ReplyError(f"{what} is not a text")
    first = value.strip().partition("\n")[0].strip()[:TEXT_LIMIT]
    return _whole(first)


def _whole(value: str) -> str:
    """A text without halves of surrogate pairs, which JSON can name and UTF-8 writers reject."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


# The text in replies. Only absolute numbers and shares of queues are used: OVS prints percentages
# of a clock that may not exist ("259288860693.2 % of total cycles"), and averages since its
# statistics were last cleared. A block starts with an unindented line for one PMD thread, `pmd
# thread numa_id 0 core_id 1:`. The labels differ by command and version; `_NAMES` has all of them
# (dpif-netdev.c and dpif-netdev-perf.c).
_THREAD = re.compile(r"pmd thread numa_id ([0-9]{1,5}) core_id ([0-9]{1,5}):")
_LINE = re.compile(r"\s+(?:- )?([A-Za-z][^:]*):\s*(.*)")
_COUNT = re.compile(r"([0-9]{1,20})(?![0-9.])")
_SECONDS = re.compile(r"Measurement duration: ([0-9]{1,12}(?:\.[0-9]{1,6})?) s")
_WINDOW = re.compile(r"Displaying last ([0-9]{1,6}) seconds pmd usage %")
_QUEUE_IDS = re.compile(r"\s*([0-9]+(?: [0-9]+)*)\s*(\(\w+\))?(?:\s|$)")
_SHARE = re.compile(r"(?:pmd usage|overhead):\s*([0-9]{1,3}) %\s*")
_SHARE_SHOWN = re.compile(r"(?:pmd usage|overhead):")
_CPU_END = 1 << 16
# Versions that do not print the window of shares use six intervals of 10 s (PMD_RXQ_INTERVAL_MAX).
_USUAL_WINDOW_S = 60.0

# OVS' name of a counter in lower case: a field of `PmdCounts`, or in the second table the flow
# table of a hit.
_NAMES: Mapping[str, str] = {
    "packets received": "rx_packets",
    "rx packets": "rx_packets",
    "tx packets": "tx_packets",
    "tx batches": "tx_batches",
    "polling cycles": "idle_cycles",  # until 2.6
    "idle cycles": "idle_cycles",
    "processing cycles": "busy_cycles",
    "cycles": "used_cycles",  # when pmd-perf-show was new
    "used tsc cycles": "used_cycles",
    "sleep time (us)": "sleep_us",
    "miss": "misses",  # until 2.9, lost ones among them
    "miss with success upcall": "upcalls",
    "upcalls": "upcalls",
    "lost": "lost_upcalls",
    "miss with failed upcall": "lost_upcalls",
    "lost upcalls": "lost_upcalls",
}
_HITS: Mapping[str, str] = {
    "phwol hits": "phwol",
    "simple match hits": "simple",
    "emc hits": "emc",
    "smc hits": "smc",
    "megaflow hits": "megaflow",
}


@dataclass(frozen=True, slots=True)
class PmdCounts:
    """Counters of one PMD thread in one reply; None if the reply has no such line."""

    numa: int
    rx_packets: int | None = None
    tx_packets: int | None = None
    tx_batches: int | None = None
    idle_cycles: int | None = None
    busy_cycles: int | None = None
    used_cycles: int | None = None
    sleep_us: int | None = None
    upcalls: int | None = None  # successful ones
    lost_upcalls: int | None = None
    misses: int | None = None  # these and the lost ones
    hits: Mapping[str, int] = field(default_factory=dict)  # packets by flow table
    counted_s: float | None = None  # time of counting


@dataclass(frozen=True, slots=True)
class PmdQueues:
    """The queues of one PMD thread, and its share of other work."""

    numa: int
    queues: tuple[OvsQueue, ...]
    overhead_ratio: float | None


@dataclass(frozen=True, slots=True)
class _Block:
    """A PMD thread's lines; `before` has the lines between it and the block before."""

    numa: int
    core: int
    before: tuple[str, ...]
    lines: list[str] = field(default_factory=list)


def counted(text: str) -> dict[int, PmdCounts]:
    """Counters of each PMD thread in pmd-stats-show or pmd-perf-show, by core.

    Raises ReplyError: a known line has no number.
    """
    return {block.core: _counted(block) for block in _blocks(text)}


def polled(text: str) -> tuple[dict[int, PmdQueues], float | None]:
    """Queues by core in pmd-rxq-show, and the seconds of their shares. Raises ReplyError."""
    by_core = {block.core: _polled(block) for block in _blocks(text)}
    window = _WINDOW.search(text)
    if window:
        return by_core, float(window[1])
    return by_core, _USUAL_WINDOW_S if _SHARE_SHOWN.search(text) else None


def _blocks(text: str) -> Iterator[_Block]:
    """The blocks of PMD threads, without the main thread's."""
    seen: set[int] = set()
    between: list[str] = []
    block: _Block | None = None
    for line in text.split("\n"):
        if not line.strip():
            continue
        if line[0].isspace():
            if block is not None:
                block.lines.append(line)
            continue
        if block is not None:
            yield block
            block = None
        if not line.startswith("pmd thread"):
            between = [line] if line.endswith(":") else [*between[-8:], line]
            continue
        head = _THREAD.fullmatch(line.rstrip())
        if head is None or int(head[2]) >= _CPU_END:
            raise ReplyError("it does not say on which core a PMD thread is")
        block = _Block(int(head[1]), int(head[2]), tuple(between))
        between = []
        if block.core in seen:
            raise ReplyError(f"it lists two PMD threads on core {block.core}")
        seen.add(block.core)
    if block is not None:
        yield block


def _counted(block: _Block) -> PmdCounts:
    values: dict[str, int] = {}
    hits: dict[str, int] = {}
    for line in block.lines:
        shown = _LINE.match(line)
        if shown is None:
            continue
        name = shown[1].strip().lower()
        if name in _NAMES:
            values[_NAMES[name]] = _count(shown[2], name)
        elif name in _HITS:
            hits[_HITS[name]] = _count(shown[2], name)
    since = [match[1] for line in block.before if (match := _SECONDS.fullmatch(line.rstrip()))]
    return PmdCounts(
        numa=block.numa, hits=hits, counted_s=float(since[-1]) if since else None, **values
    )


def _count(shown: str, name: str) -> int:
    match = _COUNT.match(shown)
    if match is None or int(match[1]) >= COUNTER_END:
        raise ReplyError(f"{name} of a PMD thread is not a whole number")
    return int(match[1])


def _polled(block: _Block) -> PmdQueues:
    queues: list[OvsQueue] = []
    overhead: float | None = None
    for line in block.lines:
        word = line.split(maxsplit=1)[0]
        if word == "port:":
            queues += _queues(line)
        elif word == "overhead:":
            overhead = _share(line)
    return PmdQueues(block.numa, tuple(queues), overhead)


def _queues(line: str) -> Iterator[OvsQueue]:
    """One queue; before 2.8 all queues of one port on this thread."""
    port, _, rest = line.rpartition("queue-id:")
    ids = _QUEUE_IDS.match(rest)
    if ids is None:
        raise ReplyError("a queue of a PMD thread has no number")
    for number in ids[1].split():
        if len(number) > 5 or int(number) >= _CPU_END:
            raise ReplyError("the number of a queue is out of range")
        yield OvsQueue(
            port=port.strip().removeprefix("port:").strip()[:TEXT_LIMIT],
            queue=int(number),
            enabled=ids[2] != "(disabled)",
            used_ratio=_share(rest),
        )


def _share(line: str) -> float | None:
    """0..1 of a percentage; None for NOT AVAIL or an impossible one."""
    shown = _SHARE.search(line)
    return int(shown[1]) / 100 if shown and int(shown[1]) <= 100 else None


@dataclass(frozen=True, slots=True)
class OvsCounters:
    """Counters of one poll; fields as in `OvsSwitch`."""

    pmds: tuple[OvsPmd, ...]
    usage_window_s: float | None
    read_at_ns: int
    took_ns: int


def counters(replies: Mapping[OvsCall, Reply], sent_at_ns: int) -> OvsCounters:
    """Counters in the replies that are not errors. Raises ReplyError.

    `read_at_ns` is the middle of the time in which the reply with packets and cycles was read.
    """
    valid = {call.method: reply for call, reply in replies.items() if not reply.error}
    stats = counted(valid[STATS].text) if STATS in valid else {}
    perf = counted(valid[PERF].text) if PERF in valid else {}
    queues, window_s = polled(valid[RXQ].text) if RXQ in valid else ({}, None)
    first = next((valid[method] for method in COUNTING if method in valid), None)
    last_ns = max((reply.at_ns for reply in replies.values()), default=sent_at_ns)
    return OvsCounters(
        pmds=tuple(
            _pmd(core, stats.get(core), perf.get(core), queues.get(core))
            for core in sorted(stats.keys() | perf.keys() | queues.keys())
        ),
        usage_window_s=window_s,
        read_at_ns=(sent_at_ns + (first.at_ns if first else last_ns)) // 2,
        took_ns=last_ns - sent_at_ns,
    )


def _pmd(
    core: int, stats: PmdCounts | None, perf: PmdCounts | None, queues: PmdQueues | None
) -> OvsPmd:
    """Packets and cycles are of one reply, so that a quotient is of one time."""
    numa = next(item.numa for item in (stats, perf, queues) if item is not None)
    main = stats or perf or PmdCounts(numa)
    used, upcalls = main.used_cycles, main.misses
    if main.idle_cycles is not None and main.busy_cycles is not None:
        used = main.idle_cycles + main.busy_cycles
    if main.upcalls is not None and main.lost_upcalls is not None:
        upcalls = main.upcalls + main.lost_upcalls  # 2.10 and later count lost ones separately
    detailed = perf or main
    return OvsPmd(
        core=Cpu(core),
        numa=numa,
        rx_packets=main.rx_packets,
        tx_packets=detailed.tx_packets,
        used_cycles=used,
        busy_cycles=main.busy_cycles,
        sleep_us=detailed.sleep_us,
        upcalls=upcalls,
        lost_upcalls=main.lost_upcalls,
        queues=queues.queues if queues else (),
        overhead_ratio=queues.overhead_ratio if queues else None,
        hits=main.hits,
        counted_s=detailed.counted_s,
        # The line is left out before the first one.
        tx_batches=0 if detailed.tx_packets == 0 else detailed.tx_batches,
    )
