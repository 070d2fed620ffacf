"""What comes with a change that its masks and lists alone don't show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nftop.control.resctrl.operations import (
    EXCLUSIVE,
    SHAREABLE,
    by_cache,
    cpus_in,
    monitors_of,
    rivals,
    steps,
)
from nftop.control.rules import MB, Rules, untouchable
from nftop.control.wording import counted, cpus_and_threads, describe
from nftop.model.change import Cell, Change, Proposal, State, parts, place
from nftop.model.ids import format_cpu_list
from nftop.model.rdt.rdt import ROOT

_MOST_NAMED = 6
_LOCKED = "pseudo-locked"


def of_masks(
    base: State, target: State, rules: Rules, changes: Sequence[Change]
) -> Iterator[tuple[Cell, str]]:
    """By mask, sentences: its ways that come to be shared."""
    caches = by_cache(target)
    for change in changes:
        if _is_mask(change.cell) and change.new is not None:
            rows = caches[change.cell.name[:2], change.cell.number]
            shared = _shared(base, {cell: target[cell] for cell in rows}, rules, change)
            yield from ((change.cell, item) for item in shared)


def effects(target: State, changes: Sequence[Change]) -> Iterator[str]:
    """Other sentences: monitors that lose CPUs, who falls to the root."""
    if any(_is_mask(change.cell) and change.old and change.new for change in changes):
        yield "occupancy follows as lines are evicted: give it seconds before judging"
    yield from _unmetered(target, changes)
    yield from _fallen(changes)


def warnings(target: State, rules: Rules, changes: Sequence[Change]) -> Iterator[str]:
    """Sentences: hyper-threads of one core in different classes; a root group that has no CPU."""
    moved = {
        change.cell.number: change.new
        for change in changes
        if change.cell.kind == "cpu" and change.new
    }
    for cpu, where in sorted(moved.items()):
        group = parts(where)[0]
        places = {sibling: target.get(Cell("cpu", "", number=sibling), "")
                  for sibling in rules.siblings.get(cpu, ())}  # fmt: skip
        apart = [key for key, where in places.items() if where and parts(where)[0] != group]
        if apart and not (set(apart) & set(moved) and min(apart) < cpu):
            other = parts(places[apart[0]])[0]
            yield (
                f"CPU {cpu} is in {group} and its sibling {format_cpu_list(apart)} in {other}: "
                "they share a core's own caches"
            )
    if moved and not cpus_in(target, ROOT):
        yield "the root group has no CPU left: whatever is in no group runs in others' classes"


def strangers(
    state: State, rules: Rules, changes: Iterable[Change], known: Mapping[Cell, str | None]
) -> Iterator[str]:
    """Sentences: directories that are to go and are not those that nftop made, and who is in them.

    `known`: the numbers of those that nftop's history has.
    """
    for cell in [change.cell for change in changes if change.new is None]:
        if cell.kind not in ("group", "monitor") or state[cell] == known.get(cell):
            continue
        home = place(cell.group, cell.name)
        threads = {Cell("task", "", name): where for name, where in rules.tasks.items()}
        inside = [
            key
            for key, where in {**state, **threads}.items()
            if key.kind in ("cpu", "task") and home in (where, parts(where)[0])
        ]
        whom = (
            f": {cpus_and_threads(inside)} {'is' if len(inside) == 1 else 'are'} in it"
            if inside
            else ""
        )
        yield f"{describe(cell)} is not in nftop's history here, somebody else made it{whom}"


def ways_text(bits: int) -> str:
    """The ways of a mask, as a list: `way 3`, `ways 3-5,8`."""
    return f"way{'s' * (bits.bit_count() != 1)} {_list(bits)}"


def _list(bits: int) -> str:
    return format_cpu_list(way for way in range(bits.bit_length()) if bits >> way & 1)


def more(count: int) -> str:
    """` and N more`, if there are."""
    return f" and {count} more" if count > 0 else ""


def _is_mask(cell: Cell) -> bool:
    return cell.kind == "schemata" and cell.name != MB


def _shared(base: State, target: State, rules: Rules, change: Change) -> Iterator[str]:
    """Ways that come to be shared with others or with I/O by a new mask."""
    cell = change.cell
    bits = int(change.new or "0", 16)
    gained = bits & ~int(base.get(cell, "0"), 16)
    shared: dict[tuple[int, int], list[str]] = {}
    for other, value in target.items():
        both = int(value, 16) & bits if rivals(cell, other) else 0
        new = both & gained
        # With CDP both of another group's masks may have them: it is named once.
        if new and other.group not in shared.setdefault((both, new), []):
            shared[both, new].append(other.group)
    for (both, new), groups in shared.items():
        some = f" ({_list(new)} {'is' if new.bit_count() == 1 else 'are'} new)" * (new != both)
        yield f"{cell.name} {cell.number} of {cell.group}: shares {ways_text(both)}{some} with " + (
            ", ".join(groups[:_MOST_NAMED]) + more(len(groups) - _MOST_NAMED)
        )
    io, origin = rules.io.get(cell.number, (0, ""))
    if cell.name.startswith("L3") and gained & io:
        yield (
            f"{cell.name} {cell.number} of {cell.group}: devices write into "
            f"{ways_text(gained & io)} too (DDIO, {origin})"
        )


def _unmetered(target: State, changes: Iterable[Change]) -> Iterator[str]:
    """CPUs and threads that leave their monitoring group with their class."""
    lost: dict[str, set[int]] = {}
    threads: dict[str, int] = {}
    for cell, old, new in ((change.cell, change.old, change.new) for change in changes):
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
        yield f"monitoring group {name} meters {counted(count, 'thread')} no more"


def _fallen(changes: Iterable[Change]) -> Iterator[str]:
    """Who is in the root group's class when his own group is gone."""
    rows = list(changes)
    gone = {row.cell.group for row in rows if row.cell.kind == "group" and row.new is None}
    for group in sorted(gone):
        fallen = [row.cell for row in rows if row.new == ROOT and parts(row.old or "/")[0] == group]
        cpus = format_cpu_list(cell.number for cell in fallen if cell.kind == "cpu")
        threads = sum(cell.kind == "task" for cell in fallen)
        movers = [f"CPU {cpus}"] * bool(cpus) + [counted(threads, "thread")] * bool(threads)
        if movers:
            falls = "falls" if len(fallen) == 1 else "fall"
            yield f"{' and '.join(movers)} of {group} {falls} to the root group's class"


def judged(
    base: State,
    target: State,
    changes: Sequence[Change],
    rules: Rules,
    commands: tuple[str, ...],
) -> Proposal:
    """The proposal that these changes of `base`, which lead to `target`, are."""
    refusals = (*forbidden(base, changes), *_exclusive(target, rules, changes))
    if refusals:
        messages = tuple(dict.fromkeys(refusals))
        return Proposal(base, (), refusals=messages, commands=commands)
    shared = tuple(of_masks(base, target, rules, changes))
    return Proposal(
        base=base,
        changes=tuple(changes),
        effects=(*(messages for _, messages in shared), *effects(target, changes)),
        warnings=tuple(warnings(target, rules, changes)),
        commands=commands,
        of_masks=shared,
    )


def forbidden(base: State, changes: Iterable[Change]) -> Iterator[str]:
    """Groups that are not to be touched, be it for another's sake."""
    for step in steps(base, changes):
        why = untouchable(base, step.group, step.monitor)
        if why:
            yield why
    for change in changes:
        for where in (change.old, change.new):
            if change.cell.kind in ("cpu", "task") and where is not None:
                why = untouchable(base, *parts(where))
                if why:
                    yield why


def _exclusive(target: State, rules: Rules, changes: Iterable[Change]) -> Iterator[str]:
    """The kernel lets nobody share the ways of an exclusive group, nor it those of I/O."""

    def mode(cell: Cell) -> str:
        return target.get(Cell("mode", cell.group), SHAREABLE)

    caches = by_cache(target)
    for cell, new in ((change.cell, change.new) for change in changes):
        if cell.kind != "schemata" or cell.name == MB or new is None:
            continue
        bits, rule = int(new, 16), rules.masks.get(cell.name)
        if rule is not None and mode(cell) == EXCLUSIVE and bits & rule.shareable:
            yield f"{cell.group} is exclusive and can't have ways of I/O ({rule.shareable:x})"
        for other in caches[cell.name[:2], cell.number]:
            both = int(target[other], 16) & bits if rivals(cell, other) else 0
            if not both:
                continue
            alone = {mode(cell), mode(other)} & {EXCLUSIVE} or mode(other) == _LOCKED
            if alone:
                yield (
                    f"{cell.name} {cell.number}={new}: {ways_text(both)} can't be shared "
                    f"with {other.group}, which is {mode(other)}"
                    if mode(other) != SHAREABLE
                    else f"{cell.name} {cell.number}={new}: {cell.group} is exclusive, and "
                    f"{other.group} has {ways_text(both)}"
                )
