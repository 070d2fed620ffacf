"""Changes of cache classes by any program, found by comparing readings of resctrl."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nftop.derive.absence import after_absence
from nftop.derive.cache.table import classes_reading
from nftop.derive.fold_stage import FoldStage, FoldTick
from nftop.derive.threads import THREADS, ThreadRate
from nftop.model.change import IO_KINDS, Cell, Change, Noticed, OwnChange
from nftop.model.frame import GroupRow
from nftop.model.ids import L3Domain
from nftop.model.missing import Missing
from nftop.model.rdt.rdt import ROOT, IoWays, ResctrlGroup, ResctrlTable, split_path
from nftop.model.sample import SourceReading
from nftop.model.struct import dataclass, field, replace

# Limit of remembered changes.
MOST = 32
# A tool writes group by group, possibly across readings: changes noticed within this time are one.
TOGETHER_NS = 3_000_000_000
# Uncertainty of a reading's time: it takes this long before or after its middle.
_READING_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ObservedClasses:
    """State of the last reading.

    Attributes:
        read_at_ns: its time; None before the first.
        groups: the changeable fields of each group and of the ways of I/O, to detect quickly that
            nothing changed.
        cells: as `change.State`. A value absent in a reading keeps the previous one.
        tasks: group of each thread that is not in the root group.
        threads: start time of each watched thread, by tid.
        noticed: the last changes, oldest first.
    """

    read_at_ns: int | None = None
    groups: tuple[object, ...] = ()
    cells: Mapping[Cell, str] = field(default_factory=dict)
    tasks: Mapping[int, str] = field(default_factory=dict)
    threads: Mapping[int, int] = field(default_factory=dict)
    noticed: tuple[Noticed, ...] = ()


def step_changes(
    state: ObservedClasses,
    reading: SourceReading[ResctrlTable] | None,
    threads: Sequence[ThreadRate],
    wall_ns: int,
) -> ObservedClasses:
    """Fold one reading of resctrl in: differences from the last one are changes since then.

    A thread counts if it is watched before and after, or moved between two groups: any other may
    have started or ended. After an absence of resctrl nothing is compared: it may be another mount.
    """
    if reading is None:
        return replace(ObservedClasses(), noticed=state.noticed)
    if isinstance(reading.value, Missing):
        anew = ObservedClasses(noticed=state.noticed)
        return after_absence(state, anew, reading.value)
    if reading.read_at_ns == state.read_at_ns:
        return state
    table = reading.value
    groups = (*map(_changeable, table.groups), (table.limits.io_alloc, *_io_masks(table)))
    same = groups == state.groups
    tasks = {tid: group.name for group in table.groups if group.name != ROOT for tid in group.tasks}
    watched = {rate.thread.tid: rate.thread.start_ticks for rate in threads}
    cells = state.cells
    if not same:
        present = {group.name for group in table.groups}
        cells = {
            cell: text
            for cell, text in state.cells.items()
            if cell.kind == "cpu" or cell.group in present
        }
        cells |= _cells(table)
    noticed = state.noticed
    if state.read_at_ns is not None:
        result = [] if same else list(_different(state.cells, cells))
        result += _moved(state, tasks, watched)
        if result:
            one = Noticed(state.read_at_ns, reading.read_at_ns, wall_ns, tuple(result))
            noticed = (*noticed, one)[-MOST:]
    return ObservedClasses(reading.read_at_ns, groups, cells, tasks, watched, noticed)


def together(noticed: Sequence[Noticed]) -> tuple[Noticed, ...]:
    """Changes noticed shortly after each other, merged into one."""
    joined: list[Noticed] = []
    for item in noticed:
        if joined and item.since_ns - joined[-1].at_ns <= TOGETHER_NS:
            last = joined[-1]
            joined[-1] = replace(
                last, at_ns=item.at_ns, wall_ns=item.wall_ns, changes=last.changes + item.changes
            )
        else:
            joined.append(item)
    return tuple(joined)


def groups_in(changes: Iterable[Change]) -> tuple[str, ...]:
    """Control groups that changes affect, also those that a CPU or a thread left.

    Ways of I/O are of no group.
    """
    result: dict[str, None] = {}
    for change in changes:
        if change.cell.kind in ("cpu", "task"):
            paths = (change.old, change.new)
            result |= dict.fromkeys(
                split_path(position)[0] for position in paths if position is not None
            )
        elif change.cell.kind not in IO_KINDS:
            result[change.cell.group] = None
    return tuple(result)


def is_own_change(change: Change, noticed: Noticed, own_changes: Sequence[OwnChange]) -> bool:
    """Whether nftop itself made a change: written in that interval, from old to new.

    Args:
        change: one of those of `noticed`.
        noticed: its interval.
        own_changes: what nftop wrote, oldest first; undoing is a change of its own.
    """
    own = [
        written
        for entry in own_changes
        if entry.from_ns <= noticed.at_ns + _READING_NS
        and entry.until_ns >= noticed.since_ns - _READING_NS
        for written in entry.changes
    ]
    (was, now), born = _ends(change), False
    # Several changes may lie between two readings.
    for item in reversed(own):
        if item.cell == change.cell and _ends(item)[1] == now:
            now = _ends(item)[0]
            # Initial values of a new class are not predictable.
            born = now is None and change.cell.kind == "schemata"
            if born or now == was:
                return True
    return False


def _ends(change: Change) -> tuple[str | None, str | None]:
    """Old and new value, reduced to what both sides know: no monitoring groups, no inodes."""
    kind = change.cell.kind
    if kind not in ("cpu", "task", "group"):
        return change.old, change.new
    ends = (
        None if end is None else "" if kind == "group" else split_path(end)[0]
        for end in (change.old, change.new)
    )
    return next(ends), next(ends)


def _changeable(group: ResctrlGroup) -> object:
    caches = tuple((cache.l3, cache.cbm, cache.code, cache.mba) for cache in group.caches)
    return group.name, group.inode, group.cpus, caches, group.l2


def _cells(table: ResctrlTable) -> dict[Cell, str]:
    result: dict[Cell, str] = {}
    # While a CPU moves, two files may have it: one of them is the root group's.
    for group in sorted(table.groups, key=lambda group: group.name != ROOT):
        if group.name != ROOT:
            result[Cell("group", group.name)] = str(group.inode)
        result |= dict(schemata_cells(group))
        result |= dict.fromkeys((Cell("cpu", "", "", cpu) for cpu in group.cpus), group.name)
    line = "L3DATA" if table.limits.cdp else "L3"
    if table.limits.io_alloc is not None:
        switched = "enabled" if table.limits.io_alloc else "disabled"
        result[Cell("io_alloc", "", line)] = switched
    return result | {Cell("io_cbm", "", line, l3): f"{bits:x}" for l3, bits in _io_masks(table)}


def _io_masks(table: ResctrlTable) -> Iterator[tuple[L3Domain, int]]:
    """Ways of I/O by cache, as set: by io_alloc, or in the register. CPUID's hint never changes."""
    for domain in table.domains:
        if isinstance(domain.io, IoWays) and domain.io.origin != "cpuid":
            yield domain.l3, domain.io.cbm.bits


def schemata_cells(group: ResctrlGroup | GroupRow) -> Iterator[tuple[Cell, str]]:
    """Cells of a group's known masks and limits, with the values as the kernel writes them."""
    for cache in group.caches:
        data = "L3" if cache.code is None else "L3DATA"
        if not isinstance(cache.cbm, Missing):
            yield Cell("schemata", group.name, data, cache.l3), f"{cache.cbm.bits:x}"
        if cache.code is not None:
            yield Cell("schemata", group.name, "L3CODE", cache.l3), f"{cache.code.bits:x}"
        if not isinstance(cache.mba, Missing):
            yield Cell("schemata", group.name, "MB", cache.l3), f"{cache.mba:.0f}"
    for mask in group.l2:
        data = "L2" if mask.code is None else "L2DATA"
        yield Cell("schemata", group.name, data, mask.l2), f"{mask.cbm.bits:x}"
        if mask.code is not None:
            yield Cell("schemata", group.name, "L2CODE", mask.l2), f"{mask.code.bits:x}"


def _different(old: Mapping[Cell, str], new: Mapping[Cell, str]) -> Iterator[Change]:
    """Sorted changes; of a group that appeared or disappeared only that."""
    for cell in sorted(old.keys() | new.keys()):
        was, now = old.get(cell), new.get(cell)
        if was != now and (cell.kind == "group" or None not in (was, now)):
            yield Change(cell, was, now)


def _moved(
    state: ObservedClasses, tasks: Mapping[int, str], watched: Mapping[int, int]
) -> Iterator[Change]:
    for tid in sorted(state.tasks.keys() | tasks.keys()):
        was, now = state.tasks.get(tid, ROOT), tasks.get(tid, ROOT)
        stayed = tid in watched and state.threads.get(tid) == watched[tid]
        if was != now and (stayed or ROOT not in (was, now)):
            start = watched.get(tid)
            name = str(tid) if start is None else f"{tid}@{start}"
            yield Change(Cell("task", "", name), was, now)


def _run(state: ObservedClasses, tick: FoldTick) -> tuple[ObservedClasses, tuple[Noticed, ...]]:
    reading = classes_reading(tick.sample.readings)
    state = step_changes(state, reading, tick.output(THREADS), tick.sample.wall_ns)
    return state, state.noticed


CHANGES: FoldStage[ObservedClasses, tuple[Noticed, ...]] = FoldStage(
    "changes", ObservedClasses, _run, lasting=True
)
