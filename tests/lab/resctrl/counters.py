"""The files of mon_data: what a group moved and holds."""

from __future__ import annotations

from collections.abc import Sequence

from tests.lab.resctrl import ledger
from tests.lab.resctrl.groups import held_bytes
from tests.lab.resctrl.state import Group, Resctrl, Word, path_of

_COLUMN = {"mbm_total_bytes": 0, "mbm_local_bytes": 1}


def show(state: Resctrl, group: Group, nodes: Sequence[int], event: str) -> str:
    """What an event says of a group in some nodes of a cache.

    A control group's number includes its monitoring groups', so it falls when one of them is
    removed. A counter that says a word instead is left out as long as another has a number.
    """
    numbers, words = [], []
    for each in (group, *group.children.values()):
        for node in nodes:
            word = state.words.get((path_of(each), node, event))
            if word is None:
                numbers.append(_bytes(state, each, node, event))
            else:
                words.append(word)
    return f"{sum(numbers)}\n" if numbers else f"{words[0]}\n"


def pretend(state: Resctrl, group: Group, node: int, event: str, word: Word | None) -> None:
    """Have a counter say a word from now on; None: its number again."""
    key = path_of(group), node, event
    if word is None:
        state.words.pop(key, None)
    else:
        state.words[key] = word


def _bytes(state: Resctrl, group: Group, node: int, event: str) -> int:
    book, monitoring = state.ledger, state.hardware.monitoring
    assert book is not None and monitoring is not None and group.rmid is not None
    column = state.hardware.nodes.index(node)
    if event == "llc_occupancy":
        return int(held_bytes(state)[group.rmid, column])
    moved = ledger.moved_bytes(book, state.now_ns())[group.rmid, column, _COLUMN[event]]
    return int(moved) // monitoring.scale_bytes * monitoring.scale_bytes
