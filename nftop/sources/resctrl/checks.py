"""What `nftop doctor` says of resctrl."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from nftop.model.ids import format_cpu_list
from nftop.model.rdt.rdt import EVENTS, ResctrlTable
from nftop.model.reading import Missing, Reason
from nftop.sources.base import Check
from nftop.sources.resctrl.files import read_text
from nftop.sources.resctrl.mount import FIX, NOT_MOUNTED, Mount

_NAME = "resctrl"
_FLAGS_BYTES = 1 << 14  # the first CPU's part of /proc/cpuinfo
# Flags of /proc/cpuinfo, and the word of the boot parameter rdt= that has the kernel offer what
# the CPU has: Skylake-SP's kernels hide some of it, and say the flag all the same.
_FLAGS = {
    "cat_l3": "l3cat",
    "mba": "mba",
    "cqm_occup_llc": "cmt",
    "cqm_mbm_total": "mbmtotal",
    "cqm_mbm_local": "mbmlocal",
}
_EVENT_FLAGS = dict(zip(EVENTS, ("cqm_occup_llc", "cqm_mbm_total", "cqm_mbm_local"), strict=True))


def absent(why: Missing, root: Path) -> Check:
    """A host where resctrl is not mounted, or not to be had."""
    if why.reason is Reason.SOURCE:
        return Check(_NAME, why.reason, NOT_MOUNTED, FIX)
    hidden = [word for flag, word in _FLAGS.items() if flag in _flags(root)]
    return Check(_NAME, why.reason, why.message, _boot(hidden))


def present(mount: Mount, table: ResctrlTable, root: Path) -> tuple[Check, ...]:
    """A mounted resctrl: what it offers and how much of that is in use."""
    flags = _flags(root)
    return (
        _mounted(mount, table),
        _allocation(table, flags),
        _bandwidth(table, flags),
        _monitoring(table, flags),
        *_reads(table),
    )


def _mounted(mount: Mount, table: ResctrlTable) -> Check:
    own = sorted(mount.options - {"rw", "ro", "relatime", "nosuid", "nodev", "noexec"})
    text = f"{mount.shown}, options {', '.join(own) or 'none'}"
    owners = Counter(group.owner or "unknown" for group in table.groups[1:])
    made = ", ".join(f"{number} {owner}'s" for owner, number in sorted(owners.items()))
    count = len(table.groups)
    text += f"; {count} group{'s' * (count != 1)}" + (f", by their names {made}" if made else "")
    if "debug" not in mount.options:
        text += "; the numbers of classes show with the mount option debug (Linux 6.7)"
    if table.notes:
        return Check(_NAME, Reason.ERROR, f"{text}; {'; '.join(table.notes)}")
    return Check(_NAME, Reason.PRESENT, text)


def _allocation(table: ResctrlTable, flags: frozenset[str]) -> Check:
    name, limits = f"{_NAME} L3", table.limits
    ways = next((domain.ways for domain in table.domains if domain.ways is not None), None)
    if ways is None:
        why = "the kernel offers no allocation of last-level cache"
        hidden = ["l3cat"] if "cat_l3" in flags else []
        return Check(name, Reason.HARDWARE, why, _boot(hidden))
    text = f"{ways} ways, masks of {limits.min_bits or 1} at least"
    text += ", gaps allowed" if limits.sparse else ""
    text += ", code and data apart (CDP)" if limits.cdp else ""
    text += f"; classes: {_used(len(table.groups), limits.closids)}; I/O: {_io(table)}"
    full = limits.closids is not None and len(table.groups) >= limits.closids
    return Check(name, Reason.TAKEN if full else Reason.PRESENT, text)


def _bandwidth(table: ResctrlTable, flags: frozenset[str]) -> Check:
    name, limits = f"{_NAME} MB", table.limits
    if limits.mba_least is None:
        why = "the kernel offers no limits on memory bandwidth"
        return Check(name, Reason.HARDWARE, why, _boot(["mba"] if "mba" in flags else []))
    step = "" if limits.mba_step is None else f", in steps of {limits.mba_step}"
    least = "" if table.mba_unit == "MBps" else f", {limits.mba_least} at least{step}"
    return Check(name, Reason.PRESENT, f"limits in {table.mba_unit}{least}")


def _monitoring(table: ResctrlTable, flags: frozenset[str]) -> Check:
    name = f"{_NAME} monitors"
    values = [cache.values for group in table.groups[:1] for cache in group.caches]
    lost = [
        event
        for event in EVENTS
        if not values
        or any(
            isinstance(said, Missing) and said.reason is Reason.HARDWARE
            for said in (value[event] for value in values)
        )
    ]
    hidden = [_FLAGS[_EVENT_FLAGS[event]] for event in lost if _EVENT_FLAGS[event] in flags]
    metered = [event for event in EVENTS if event not in lost]
    if not metered:
        return Check(name, Reason.HARDWARE, "the kernel meters no group", _boot(hidden))
    used = len(table.groups) + sum(len(group.monitors) for group in table.groups)
    text = f"{', '.join(metered)}; RMIDs: {_used(used, table.limits.rmids)}"
    text += ", and those in limbo, which the kernel does not tell"
    full = table.limits.rmids is not None and used >= table.limits.rmids
    reason = Reason.HARDWARE if lost else Reason.TAKEN if full else Reason.PRESENT
    return Check(name, reason, text + (f"; no {', '.join(lost)}" if lost else ""), _boot(hidden))


def _reads(table: ResctrlTable) -> tuple[Check, ...]:
    """What reading the counters disturbs."""
    cpus = [domain.read_on for domain in table.domains if domain.read_on is not None]
    if not cpus:
        return ()
    text = (
        f"the kernel reads the counters on CPU {format_cpu_list(cpus)}, one for each cache, as it "
        "chooses; --quiet-cpus leaves those of a cache alone, nohz_full has it choose another"
    )
    return (Check(f"{_NAME} reads", Reason.PRESENT, text),)


def _io(table: ResctrlTable) -> str:
    io = table.domains[0].io
    return io.message if isinstance(io, Missing) else f"{io.cbm.hex}, {io.provenance}"


def _used(count: int, limit: int | None) -> str:
    none_left = ", none is left" if limit is not None and count >= limit else ""
    return f"{count} of {'an unknown number' if limit is None else limit} in use{none_left}"


def _boot(hidden: list[str]) -> str:
    """The fix for what the CPU has and the kernel does not offer."""
    if not hidden:
        return ""
    # Skylake-SP: CAT always, and monitors up to stepping 4 (arch/x86/kernel/cpu/resctrl/core.c).
    why = "kernels leave it off where an erratum may make it wrong"
    return f"this CPU has it ({why}): boot with rdt={','.join(hidden)}"


def _flags(root: Path) -> frozenset[str]:
    try:
        text = read_text(os.fspath(root / "proc/cpuinfo"), _FLAGS_BYTES)
    except OSError:
        return frozenset()
    line = next((item for item in text.splitlines() if item.startswith("flags")), "")
    return frozenset(line.partition(":")[2].split())
