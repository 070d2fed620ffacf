"""From what the commands print to numbers: absolute ones, never a percentage but a queue's share.

OVS prints percentages of a clock that it may not have ("259288860693.2 % of total cycles"), and
averages since whenever its statistics were cleared.

A block begins with a line that is not indented and is one PMD thread's, `pmd thread numa_id 0
core_id 1:`. What a line is called differs by command and version; `_NAMES` has all of them (from
dpif-netdev.c and dpif-netdev-perf.c), so what 4.0 prints for pmd-stats-show is read as what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nftop.model.nf.ovs import OvsQueue
from nftop.sources.ovs.replies import COUNTER_END, TEXT_LIMIT, ReplyError

_THREAD = re.compile(r"pmd thread numa_id ([0-9]{1,5}) core_id ([0-9]{1,5}):")
_LINE = re.compile(r"\s+(?:- )?([A-Za-z][^:]*):\s*(.*)")
_COUNT = re.compile(r"([0-9]{1,20})(?![0-9.])")
_SECONDS = re.compile(r"Measurement duration: ([0-9]{1,12}(?:\.[0-9]{1,6})?) s")
_WINDOW = re.compile(r"Displaying last ([0-9]{1,6}) seconds pmd usage %")
_QUEUE_IDS = re.compile(r"\s*([0-9]+(?: [0-9]+)*)\s*(\(\w+\))?(?:\s|$)")
_SHARE = re.compile(r"(?:pmd usage|overhead):\s*([0-9]{1,3}) %\s*")
_SHARE_SHOWN = re.compile(r"(?:pmd usage|overhead):")
_CPU_END = 1 << 16
# Before OVS says over what time its shares are, it is six intervals of 10 s (PMD_RXQ_INTERVAL_MAX).
_UNSAID_WINDOW_S = 60.0

# What OVS calls a counter, in small letters, and what it is here: a field of `Counted`, or in the
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
class Counted:
    """What one reply says of one PMD thread, as printed; None where it has no such line.

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
class Polled:
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


def counted(text: str) -> dict[int, Counted]:
    """Of pmd-stats-show or pmd-perf-show what each PMD thread counts, by its core.

    Raises:
        ReplyError: a line that is known has no number.
    """
    return {block.core: _counted(block) for block in _blocks(text)}


def polled(text: str) -> tuple[dict[int, Polled], float | None]:
    """Of pmd-rxq-show the queues by core, and over how many seconds their shares are.

    Raises:
        ReplyError: a queue's line makes no sense.
    """
    found = {block.core: _polled(block) for block in _blocks(text)}
    said = _WINDOW.search(text)
    if said:
        return found, float(said[1])
    return found, _UNSAID_WINDOW_S if _SHARE_SHOWN.search(text) else None


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


def _counted(block: _Block) -> Counted:
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
    since = [found[1] for line in block.before if (found := _SECONDS.fullmatch(line.rstrip()))]
    return Counted(
        numa=block.numa, hits=hits, counted_s=float(since[-1]) if since else None, **values
    )


def _count(shown: str, name: str) -> int:
    found = _COUNT.match(shown)
    if found is None or int(found[1]) >= COUNTER_END:
        raise ReplyError(f"{name} of a PMD thread is not a whole number")
    return int(found[1])


def _polled(block: _Block) -> Polled:
    queues: list[OvsQueue] = []
    overhead: float | None = None
    for line in block.lines:
        word = line.split(maxsplit=1)[0]
        if word == "port:":
            queues += _queues(line)
        elif word == "overhead:":
            overhead = _share(line)
    return Polled(block.numa, tuple(queues), overhead)


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
