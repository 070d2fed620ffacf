"""What comes with a change that its masks and lists alone don't show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nftop.control.rules import Rules
from nftop.control.steps import MB, cpus_in, monitors_of, rivals
from nftop.model.action import Cell, Change, State, parts
from nftop.model.ids import format_cpu_list
from nftop.model.rdt import ROOT

_MOST_NAMED = 6


def effects(base: State, target: State, rules: Rules, changes: Sequence[Change]) -> Iterator[str]:
    """Sentences: ways that come to be shared, monitors that lose CPUs, who falls to the root."""
    for change in changes:
        if _is_mask(change.cell) and change.new is not None:
            yield from _shared(base, target, rules, change)
    if any(_is_mask(each.cell) and each.old and each.new for each in changes):
        yield "occupancy follows as lines are evicted: give it seconds before judging"
    yield from _unmetered(target, changes)
    yield from _fallen(changes)


def warnings(target: State, rules: Rules, changes: Sequence[Change]) -> Iterator[str]:
    """Sentences: hyper-threads of one core in different classes; a root group that has no CPU."""
    moved = {each.cell.number: each.new for each in changes if each.cell.kind == "cpu" and each.new}
    for cpu, where in sorted(moved.items()):
        group = parts(where)[0]
        places = {each: target.get(Cell("cpu", "", number=each), "")
                  for each in rules.siblings.get(cpu, ())}  # fmt: skip
        apart = [each for each, there in places.items() if there and parts(there)[0] != group]
        if apart and not (set(apart) & set(moved) and min(apart) < cpu):
            other = parts(places[apart[0]])[0]
            yield (
                f"CPU {cpu} is in {group} and its sibling {format_cpu_list(apart)} in {other}: "
                "they share a core's own caches"
            )
    if moved and not cpus_in(target, ROOT):
        yield "the root group has no CPU left: whatever is in no group runs in others' classes"


def ways_text(bits: int) -> str:
    """The ways of a mask, as a list."""
    return format_cpu_list(way for way in range(bits.bit_length()) if bits >> way & 1)


def more(count: int) -> str:
    """` and N more`, if there are."""
    return f" and {count} more" if count > 0 else ""


def _is_mask(cell: Cell) -> bool:
    return cell.kind == "schemata" and cell.name != MB


def _shared(base: State, target: State, rules: Rules, change: Change) -> Iterator[str]:
    """Ways that come to be shared with others or with I/O by a new mask."""
    cell = change.cell
    gained = int(change.new or "0", 16) & ~int(base.get(cell, "0"), 16)
    shared: dict[int, list[str]] = {}
    for other, value in sorted(target.items()):
        both = int(value, 16) & gained if rivals(cell, other) else 0
        # With CDP both of another group's masks may have them: it is named once.
        if both and other.group not in shared.setdefault(both, []):
            shared[both].append(other.group)
    for both, groups in shared.items():
        yield f"{cell.name} {cell.number} of {cell.group}: shares ways {ways_text(both)} with " + (
            ", ".join(groups[:_MOST_NAMED]) + more(len(groups) - _MOST_NAMED)
        )
    io, origin = rules.io.get(cell.number, (0, ""))
    if cell.name.startswith("L3") and gained & io:
        yield (
            f"{cell.name} {cell.number} of {cell.group}: devices write into ways "
            f"{ways_text(gained & io)} too (DDIO, {origin})"
        )


def _unmetered(target: State, changes: Iterable[Change]) -> Iterator[str]:
    """CPUs and threads that leave their monitoring group with their class."""
    lost: dict[str, set[int]] = {}
    threads: dict[str, int] = {}
    for cell, old, new in ((each.cell, each.old, each.new) for each in changes):
        if cell.kind in ("cpu", "task") and old and new and parts(old)[1] and not parts(new)[1]:
            group, monitor = parts(old)
            if monitor not in monitors_of(target, group):
                continue  # it is to go: that is what was asked for
            if cell.kind == "cpu":
                lost.setdefault(f"{group}:{monitor}", set()).add(cell.number)
            else:
                threads[f"{group}:{monitor}"] = threads.get(f"{group}:{monitor}", 0) + 1
    for name, cpus in lost.items():
        yield f"monitoring group {name} meters CPU {format_cpu_list(cpus)} no more"
    for name, count in threads.items():
        yield f"monitoring group {name} meters {_threads(count)} no more"


def _fallen(changes: Iterable[Change]) -> Iterator[str]:
    """Who is in the root group's class when his own group is gone."""
    rows = list(changes)
    gone = {each.cell.group for each in rows if each.cell.kind == "group" and each.new is None}
    for group in sorted(gone):
        fallen = [
            each.cell for each in rows if each.new == ROOT and parts(each.old or "/")[0] == group
        ]
        cpus = format_cpu_list(cell.number for cell in fallen if cell.kind == "cpu")
        threads = sum(cell.kind == "task" for cell in fallen)
        who = [f"CPU {cpus}"] * bool(cpus) + [_threads(threads)] * bool(threads)
        if who:
            yield f"{' and '.join(who)} of {group} fall to the root group's class"


def _threads(count: int) -> str:
    return f"{count} thread{'s' * (count != 1)}"
