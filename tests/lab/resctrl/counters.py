"""The files of mon_data: what a group moved and holds."""

from __future__ import annotations

from collections.abc import Sequence

from tests.lab.resctrl import ledger
from tests.lab.resctrl.groups import held_bytes
from tests.lab.resctrl.state import Group, Resctrl, path_of

# What the kernel prints for a counter that it can not read, or that was given to others.
WORDS = ("Unavailable", "Error", "Unassigned")
_COLUMN = {"mbm_total_bytes": 0, "mbm_local_bytes": 1}


def show(state: Resctrl, group: Group, nodes: Sequence[int], event: str) -> str:
    """What an event says of a group in some nodes of a cache.

    A control group's number includes its monitoring groups', so it falls when one of them is
    removed. A counter that says a word instead is left out as long as another has a number.
    """
    numbers, words = [], []
    for child in (group, *group.children.values()):
        for node in nodes:
            word = state.words.get((path_of(child), node, event))
            if word is None:
                numbers.append(_bytes(state, child, node, event))
            else:
                words.append(word)
    return f"{sum(numbers)}\n" if numbers else f"{words[0]}\n"


def command(state: Resctrl, text: str) -> None:
    """`GROUP NODE EVENT WORD`: from now on a counter says `Unavailable`, `Error` or `Unassigned`.

    As in `/a/mon_groups/m 0 mbm_total_bytes Error`; the node is the L3's id, or that of its part.
    The word `number` gives the counter its number back. The group need not be there yet.

    Raises:
        ValueError: it is no such line.
    """
    monitoring = state.hardware.monitoring
    match text.split():
        case [path, node, event, word] if (
            monitoring is not None
            and event in monitoring.events
            and node in map(str, state.hardware.nodes)
        ):
            key = path, int(node), event
            if word == "number":
                state.words.pop(key, None)
            elif word in WORDS:
                state.words[key] = word
            else:
                raise ValueError(f"a counter never says {word!r}")
        case _:
            raise ValueError(f"{text!r} is not GROUP NODE EVENT WORD")


def commands(state: Resctrl) -> str:
    """What would make the counters say what they say, a line each."""
    rows = sorted(state.words.items())
    return "".join(f"{path} {node} {event} {word}\n" for (path, node, event), word in rows)


def _bytes(state: Resctrl, group: Group, node: int, event: str) -> int:
    book, monitoring = state.ledger, state.hardware.monitoring
    assert book is not None and monitoring is not None and group.rmid is not None
    column = state.hardware.nodes.index(node)
    if event == "llc_occupancy":
        return int(held_bytes(state)[group.rmid, column])
    moved = ledger.moved_bytes(book, state.now_ns())[group.rmid, column, _COLUMN[event]]
    return int(moved) // monitoring.scale_bytes * monitoring.scale_bytes
