"""From the output of the commands to the counters of each PMD thread.

Only absolute numbers are used, and a queue's share: OVS prints percentages of a clock that may not
exist ("259288860693.2 % of total cycles"), and averages since its statistics were last cleared.

A block starts with an unindented line for one PMD thread, `pmd thread numa_id 0 core_id 1:`. The
labels differ by command and version; `_NAMES` has all of them (dpif-netdev.c and
dpif-netdev-perf.c), so the output of pmd-stats-show in 4.0 is read correctly too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from nftop.model.ids import Cpu
from nftop.model.nf.ovs import OvsPmd, OvsQueue
from nftop.model.struct import dataclass, field
from nftop.sources.nf_session.connection import ReplyError
from nftop.sources.ovs.commands import COUNTING, PERF, RXQ, STATS, OvsCall
from nftop.sources.ovs.replies import COUNTER_END, TEXT_LIMIT, Reply

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
_UNSAID_WINDOW_S = 60.0

# What OVS calls a counter, in small letters, and what it is here: a field of `PmdCounts`, or in the
# second table the flow table that had a hit.
_NAMES: Mapping[str, str] = {
    "packets received": "rx_packets",
    "rx packets": "rx_packets",
    "tx packets": "tx_packets",
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
    """Counters of one PMD thread in one reply; None if the reply has no such line.

    Attributes:
        upcalls: those that worked; misses: these and the lost ones.
        hits: packets by the flow table that knew them.
        counted_s: how long it has been counting.
    """

    numa: int
    rx_packets: int | None = None
    tx_packets: int | None = None
    idle_cycles: int | None = None
    busy_cycles: int | None = None
    used_cycles: int | None = None
    sleep_us: int | None = None
    upcalls: int | None = None
    lost_upcalls: int | None = None
    misses: int | None = None
    hits: Mapping[str, int] = field(default_factory=dict)
    counted_s: float | None = None


@dataclass(frozen=True, slots=True)
class PmdQueues:
    """The queues of one PMD thread, and its share for work on none of them."""

    numa: int
    queues: tuple[OvsQueue, ...]
    overhead_ratio: float | None


@dataclass(frozen=True, slots=True)
class _Block:
    """A PMD thread's lines; `before` is what stood between it and the block before."""

    numa: int
    core: int
    before: tuple[str, ...]
    lines: list[str] = field(default_factory=list)


def counted(text: str) -> dict[int, PmdCounts]:
    """Of pmd-stats-show or pmd-perf-show what each PMD thread counts, by its core.

    Raises:
        ReplyError: a line that is known has no number.
    """
    return {block.core: _counted(block) for block in _blocks(text)}


def polled(text: str) -> tuple[dict[int, PmdQueues], float | None]:
    """Of pmd-rxq-show the queues by core, and over how many seconds their shares are.

    Raises:
        ReplyError: a queue's line makes no sense.
    """
    by_core = {block.core: _polled(block) for block in _blocks(text)}
    window = _WINDOW.search(text)
    if window:
        return by_core, float(window[1])
    return by_core, _UNSAID_WINDOW_S if _SHARE_SHOWN.search(text) else None


def _blocks(text: str) -> Iterator[_Block]:
    """The blocks of PMD threads; the main thread's is left out."""
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
        block = _begun(line, tuple(between))
        between = []
        if block.core in seen:
            raise ReplyError(f"it tells of two PMD threads on core {block.core}")
        seen.add(block.core)
    if block is not None:
        yield block


def _begun(line: str, before: tuple[str, ...]) -> _Block:
    head = _THREAD.fullmatch(line.rstrip())
    if head is None or int(head[2]) >= _CPU_END:
        raise ReplyError("it does not say on which core a PMD thread is")
    return _Block(int(head[1]), int(head[2]), before)


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
    """One queue, or before 2.8 all of one port that this thread has."""
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
    """0..1 of a share in hundredths; None for NOT AVAIL, and for one that can't be."""
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
    """From the replies that are not errors.

    `read_at_ns` is the middle of the time in which the first of the counters must have been read:
    those that packets and cycles are taken from together.

    Raises:
        ReplyError: one of them makes no sense.
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
    """Packets and cycles are of one reply, so that what is divided was read at once."""
    numa = next(item.numa for item in (stats, perf, queues) if item is not None)
    main = stats or perf or PmdCounts(numa)
    detailed = perf or main
    return OvsPmd(
        core=Cpu(core),
        numa=numa,
        rx_packets=main.rx_packets,
        tx_packets=detailed.tx_packets,
        used_cycles=_used(main),
        busy_cycles=main.busy_cycles,
        sleep_us=detailed.sleep_us,
        upcalls=_upcalls(main),
        lost_upcalls=main.lost_upcalls,
        queues=queues.queues if queues else (),
        overhead_ratio=queues.overhead_ratio if queues else None,
        hits=main.hits,
        counted_s=detailed.counted_s,
    )


def _used(main: PmdCounts) -> int | None:
    if main.idle_cycles is None or main.busy_cycles is None:
        return main.used_cycles
    return main.idle_cycles + main.busy_cycles


def _upcalls(main: PmdCounts) -> int | None:
    """Every miss, the lost ones too, which 2.10 and later count apart."""
    if main.upcalls is None or main.lost_upcalls is None:
        return main.misses
    return main.upcalls + main.lost_upcalls
