"""A draft on a newer state of the host: what of it fits there, and what does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nftop.control.resctrl.draft import Draft, Step, actions, ask, begin, value_text
from nftop.control.resctrl.operations import MB
from nftop.control.rules import Rules
from nftop.model.change import (
    Cell,
    ClassAction,
    CreateGroup,
    MoveCpus,
    RemoveGroup,
    SetSchemata,
    State,
)
from nftop.model.ids import format_cpu_list


def rebased(draft: Draft, base: State, rules: Rules, more: Sequence[ClassAction] = ()) -> Step:
    """The same wishes on a newer state, and `more`; those that do not fit there are named."""
    fresh = begin(base, rules, draft.program)
    wanted = [action for action in (*actions(draft), *more) if not _is_so(base, action)]
    after, said = ask(fresh, wanted)
    if after is not fresh:
        return after, said
    after, left = _as_many(fresh, wanted)
    # Of what does not fit as a whole a part may.
    after, left = _as_many(after, [part for item, _ in left for part in _parts(item)])
    said = ", ".join(f"{_named(item)} ({why})" for item, why in left)
    return after, f"left out of the draft: {said}"


def _is_so(base: State, wish: ClassAction) -> bool:
    """Whether a class that is to be made or removed is there, or gone, already."""
    there = Cell("group", wish.group) in base
    return there if isinstance(wish, CreateGroup) else not there and isinstance(wish, RemoveGroup)


def _as_many(
    draft: Draft, wishes: Sequence[ClassAction]
) -> tuple[Draft, list[tuple[ClassAction, str]]]:
    """As many of them as fit, and the others with what speaks against each."""
    left = [(item, "") for item in wishes]
    fits = True
    while fits:  # one may make room for another
        fits, tried, left = False, left, []
        for wish, _ in tried:
            after, why = ask(draft, [wish])
            if after is draft:
                left.append((wish, why))
            else:
                draft, fits = after, True
    return draft, left


def _parts(wish: ClassAction) -> list[ClassAction]:
    """A wish for each mask and CPU."""
    if isinstance(wish, SetSchemata):
        return [replace(wish, values=(value,)) for value in wish.values]
    if isinstance(wish, MoveCpus):
        return [replace(wish, cpus=(cpu,)) for cpu in wish.cpus]
    return [wish]


def _named(wish: ClassAction) -> str:
    """A wish in few words."""
    if isinstance(wish, SetSchemata):
        base = "d" if wish.resource == MB else "x"
        values = " ".join(f"{domain}={value_text(value, base)}" for domain, value in wish.values)
        return f"{wish.group} {wish.resource} {values}"
    if isinstance(wish, MoveCpus):
        return f"CPU {format_cpu_list(wish.cpus)} into {wish.group}"
    return f"{'making' if isinstance(wish, CreateGroup) else 'removing'} {wish.group}"
