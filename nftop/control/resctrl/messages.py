"""Effects and warnings of changes of cache classes, as messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nftop.control.rdt_limits import Rules
from nftop.control.resctrl.operations import (
    DISABLED,
    ENABLED,
    by_cache,
    cpus_in,
    is_mask,
    monitors_of,
    rivals,
)
from nftop.control.wording import cpus_and_threads, describe
from nftop.model.change import Cell, Change, State
from nftop.model.ids import format_cpu_list
from nftop.model.number_text import counted
from nftop.model.rdt.rdt import DEFAULT, ROOT, cache_of_line, class_name, group_path, split_path

_MOST_NAMED = 6


def mask_effects(
    base: State, target: State, rules: Rules, changes: Sequence[Change]
) -> Iterator[tuple[Cell, str]]:
    """Messages by mask: ways that become shared."""
    caches = by_cache(target)
    for change in changes:
        if is_mask(change.cell) and change.new is not None:
            rows = caches[cache_of_line(change.cell.name), change.cell.number]
            shared = _shared(base, {cell: target[cell] for cell in rows}, rules, change)
            yield from ((change.cell, item) for item in shared)
        elif change.cell.kind == "io_cbm" and change.new is not None:
            yield from ((change.cell, item) for item in _shared_with_io(target, change))


def other_effects(target: State, changes: Sequence[Change]) -> Iterator[str]:
    """Other messages: monitoring groups that lose CPUs; CPUs and threads that fall to the root."""
    if any(is_mask(change.cell) and change.old and change.new for change in changes):
        yield "occupancy follows as lines are evicted: give it seconds before judging"
    switched = {change.new for change in changes if change.cell.kind == "io_alloc"}
    if ENABLED in switched:
        yield "I/O takes the highest class of the cache: no group can have it meanwhile"
    if DISABLED in switched:
        yield "the CPU chooses the ways of I/O again, and their class is free"
    yield from _unmetered(target, changes)
    yield from _fallen(changes)


def warnings(target: State, rules: Rules, changes: Sequence[Change]) -> Iterator[str]:
    """Messages: hyper-threads of a core in different classes; a root group without CPUs."""
    moved = {
        change.cell.number: change.new
        for change in changes
        if change.cell.kind == "cpu"
        and change.new
        and (change.old is None or split_path(change.old)[0] != split_path(change.new)[0])
    }
    for cpu, where in sorted(moved.items()):
        group = split_path(where)[0]
        group_of = {
            sibling: target.get(Cell("cpu", "", number=sibling), "")
            for sibling in rules.siblings.get(cpu, ())
        }
        apart = [key for key, where in group_of.items() if where and split_path(where)[0] != group]
        if apart and not (set(apart) & set(moved) and min(apart) < cpu):
            other = split_path(group_of[apart[0]])[0]
            yield (
                f"CPU {cpu} is in {class_name(group)} and its sibling {format_cpu_list(apart)} in "
                f"{class_name(other)}: they share a core's own caches"
            )
    if moved and not cpus_in(target, ROOT):
        yield f"{DEFAULT} has no CPU left: whatever is in no group runs in others' classes"


def foreign_group_messages(
    state: State, rules: Rules, changes: Iterable[Change], known: Mapping[Cell, str | None]
) -> Iterator[str]:
    """Messages on groups to be removed that nftop did not create, with their CPUs and threads.

    `known`: numbers of directories in nftop's history.
    """
    for cell in [change.cell for change in changes if change.new is None]:
        if cell.kind not in ("group", "monitor") or state[cell] == known.get(cell):
            continue
        home = group_path(cell.group, cell.name)
        threads = {Cell("task", "", name): where for name, where in rules.tasks.items()}
        inside = [
            key
            for key, where in {**state, **threads}.items()
            if key.kind in ("cpu", "task") and home in (where, split_path(where)[0])
        ]
        verb = "is" if len(inside) == 1 else "are"
        members = f": {cpus_and_threads(inside)} {verb} in it" * bool(inside)
        yield f"{describe(cell)} is not in nftop's history here, somebody else made it{members}"


def ways_text(bits: int) -> str:
    """Ways of a mask as a list: `way 3`, `ways 3-5,8`."""
    return f"way{'s' * (bits.bit_count() != 1)} {_list(bits)}"


def _list(bits: int) -> str:
    return format_cpu_list(way for way in range(bits.bit_length()) if bits >> way & 1)


def _shared(base: State, target: State, rules: Rules, change: Change) -> Iterator[str]:
    cell = change.cell
    bits = int(change.new or "0", 16)
    gained = bits & ~int(base.get(cell, "0"), 16)
    shared: dict[tuple[int, int], list[str]] = {}
    for other, value in target.items():
        both = int(value, 16) & bits if rivals(cell, other) else 0
        new = both & gained
        # With CDP both masks of another group may have them: it is listed once.
        if new and class_name(other.group) not in shared.setdefault((both, new), []):
            shared[both, new].append(class_name(other.group))
    for (both, new), groups in shared.items():
        some = f" ({_list(new)} {'is' if new.bit_count() == 1 else 'are'} new)" * (new != both)
        yield f"{describe(cell)}: shares {ways_text(both)}{some} with " + (
            ", ".join(groups[:_MOST_NAMED])
            + f" and {len(groups) - _MOST_NAMED} more" * (len(groups) > _MOST_NAMED)
        )
    io, origin = rules.io.get(cell.number, (0, ""))
    if cache_of_line(cell.name) == "L3" and gained & io:
        yield (
            f"{describe(cell)}: devices write into {ways_text(gained & io)} too (DDIO, {origin})"
        )


def _shared_with_io(target: State, change: Change) -> Iterator[str]:
    """Classes that have ways into which devices will write."""
    bits, shared = int(change.new or "0", 16), dict[int, list[str]]()
    for cell, value in sorted(target.items()):
        if is_mask(cell) and cache_of_line(cell.name) == "L3" and cell.number == change.cell.number:
            both, name = int(value, 16) & bits, class_name(cell.group)
            if both and name not in shared.setdefault(both, []):
                shared[both].append(name)
    for both, groups in shared.items():
        yield f"{describe(change.cell)}: shares {ways_text(both)} with " + (
            ", ".join(groups[:_MOST_NAMED])
            + f" and {len(groups) - _MOST_NAMED} more" * (len(groups) > _MOST_NAMED)
        )


def _unmetered(target: State, changes: Iterable[Change]) -> Iterator[str]:
    lost: dict[str, set[int]] = {}
    threads: dict[str, int] = {}
    for cell, old, new in ((change.cell, change.old, change.new) for change in changes):
        group, monitor = split_path(old or ROOT)
        if cell.kind in ("cpu", "task") and monitor and new and not split_path(new)[1]:
            if monitor not in monitors_of(target, group):
                continue  # its removal is requested
            name = class_name(group, monitor)
            if cell.kind == "cpu":
                lost.setdefault(name, set()).add(cell.number)
            else:
                threads[name] = threads.get(name, 0) + 1
    for name, cpus in lost.items():
        yield f"monitoring group {name} meters CPU {format_cpu_list(cpus)} no more"
    for name, count in threads.items():
        yield f"monitoring group {name} meters {counted(count, 'thread')} no more"


def _fallen(changes: Iterable[Change]) -> Iterator[str]:
    rows = list(changes)
    gone = {row.cell.group for row in rows if row.cell.kind == "group" and row.new is None}
    for group in sorted(gone):
        fallen = [
            row.cell for row in rows if row.new == ROOT and split_path(row.old or "/")[0] == group
        ]
        cpus = format_cpu_list(cell.number for cell in fallen if cell.kind == "cpu")
        threads = sum(cell.kind == "task" for cell in fallen)
        movers = [f"CPU {cpus}"] * bool(cpus) + [counted(threads, "thread")] * bool(threads)
        if movers:
            falls = "falls" if len(fallen) == 1 else "fall"
            yield f"{' and '.join(movers)} of {class_name(group)} {falls} to {DEFAULT}"
