"""General counters of a CPU: how many are needed and free, and which processes hold perf events."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nftop.sources.base import SETTLE_S
from nftop.sources.perf.abi import READ_HEADER_WORDS, Kernel
from nftop.sources.perf.group import close_group, open_group
from nftop.uarch.events import PERF_TYPES
from nftop.uarch.table import Encoding, PmuTerms, Uarch

# PERF_COUNT_HW_BRANCH_INSTRUCTIONS: an architectural event without a fixed counter, which every
# general counter can count (Intel SDM volume 3, "Branch Instructions Retired").
_ON_ANY_COUNTER = Encoding(PERF_TYPES["hardware"], 4)
_MAX_COUNTERS = 16
# What /proc/PID/fd shows of a descriptor of perf_event_open(2).
_PERF_EVENT = "anon_inode:[perf_event]"


@dataclass(frozen=True, slots=True)
class Holder:
    """A process with open perf events.

    Attributes:
        comm: its command, as /proc/PID/comm has it.
        events: number of its descriptors of perf events.
    """

    pid: int
    comm: str
    events: int


@dataclass(frozen=True, slots=True)
class GeneralCounters:
    """General counters of one CPU: all of them, and those a group can get."""

    total: int
    free: int


def general_counters_needed(uarch: Uarch, events: Collection[str], *, watchdog: bool) -> int:
    """How many general counters a group of events takes.

    `watchdog`: the NMI watchdog holds the fixed counter of cycles. Every fixed counter takes one
    event; parts of PERF_METRICS are read with the slots; events of other PMUs need none.
    """
    fixed = [] if uarch.counters is None else list(uarch.counters.fixed)
    if watchdog:
        fixed = [item for item in fixed if "cycles" not in item]
    needed = 0
    for event in events:
        slot = next((item for item in fixed if event in item), None)
        if slot is not None:
            fixed.remove(slot)
        elif _takes_counter(uarch, event):
            needed += 1
    return needed


def fits_beside_watchdog(
    uarch: Uarch, events: Collection[str], opened: Sequence[Collection[str]]
) -> bool:
    """Whether a group fits on a CPU of which the NMI watchdog has the counter of cycles.

    If it does and still never runs, somebody else has counters. `opened` are all the groups that
    the kernel accepted, which shows how many counters the firmware left. False without a table.
    """
    counters = uarch.counters
    if counters is None:
        return False
    most = max((general_counters_needed(uarch, item, watchdog=False) for item in opened), default=0)
    few, many = sorted((counters.general_smt_on, counters.general_smt_off))
    general = many if most > few else few
    return general_counters_needed(uarch, events, watchdog=True) <= general


def _takes_counter(uarch: Uarch, event: str) -> bool:
    spec = uarch.events[event]
    if isinstance(spec, PmuTerms):
        # Without `=` it is a name of sysfs: the slots or a part of PERF_METRICS.
        return spec.pmu == "cpu" and "=" in spec.terms
    return spec.pmu_type != PERF_TYPES["software"]


def count_general_counters(kernel: Kernel, cpu: int) -> GeneralCounters | None:
    """How many general counters of a CPU there are and are free; None where none can be opened.

    Opens groups of as many events as there are counters, then of one less, until one runs: up to
    half a second, for `nftop doctor` alone. Never raises.
    """
    total = 0
    for size in range(_MAX_COUNTERS, 0, -1):
        ran = _runs(kernel, cpu, size)
        if ran is None:
            continue
        total = total or size
        if ran:
            return GeneralCounters(total, size)
    return GeneralCounters(total, 0) if total else None


def _runs(kernel: Kernel, cpu: int, size: int) -> bool | None:
    """Whether a group of that many events gets onto the counters; None: it does not open."""
    try:
        group = open_group(kernel, cpu, [_ON_ANY_COUNTER] * size)
    except OSError:
        return None
    try:
        time.sleep(SETTLE_S)
        words = memoryview(bytearray(8 * (READ_HEADER_WORDS + size))).cast("Q")
        kernel.readv(group.fds[0], [words.cast("B")])
        return bool(words[2])
    except OSError:
        return False
    finally:
        close_group(kernel, group)


def perf_event_holders(root: Path = Path("/")) -> tuple[Holder, ...]:
    """The processes in /proc other than this one that have perf events open, most events first.

    Reads the descriptors of every process: for `nftop doctor` alone. Processes whose
    descriptors can't be read, or that end meanwhile, are left out.
    """
    holders = []
    for folder in _entries(root / "proc"):
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with suppress(OSError):
                events = sum(map(_is_perf_event, _entries(folder / "fd")))
                if events:
                    comm = (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
                    holders.append(Holder(int(folder.name), comm, events))
    return tuple(sorted(holders, key=lambda holder: (-holder.events, holder.pid)))


def _is_perf_event(descriptor: Path) -> bool:
    """Whether /proc/PID/fd/N is of a perf event; one closed since the folder was listed is not."""
    try:
        return str(descriptor.readlink()) == _PERF_EVENT
    except OSError:
        return False


def _entries(folder: Path) -> tuple[Path, ...]:
    """The entries of a folder; empty if it can't be read."""
    try:
        return tuple(folder.iterdir())
    except OSError:
        return ()
