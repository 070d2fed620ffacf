"""Cells, changes and what the guard does, as text for messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nftop.model.change import POLICY_KINDS, Cell, Change, State, bf_words
from nftop.model.ids import format_cpu_list, mhz_text
from nftop.model.rdt.rdt import (
    DEFAULT,
    MASK_LINES,
    MB,
    ROOT,
    UNLIMITED_MBPS,
    class_name,
    split_path,
)

_MOST_NAMED = 6

# What the guard does and did; the history has the changes of this host alone.
HISTORY = "`nftop history` will say what became of the change"
GUARD_IS_SLOW = "the guard is still at it after {:g} s"
GUARD_GOES_ON = f"the guard goes on: {HISTORY}"
GUARD_REVERTS = f"the guard takes it back: {HISTORY}"
GUARD_ENDED = (
    "the guard ended without an answer, so the change may still be on the host: `nftop recover` "
    "reverts an incomplete change; `nftop history` has the complete ones"
)


def describe(cell: Cell) -> str:
    cpus = cell.name or str(cell.number)
    words = {
        "group": f"group {class_name(cell.group)}",
        "monitor": f"monitoring group {class_name(cell.group, cell.name)}",
        "mode": f"the mode of {class_name(cell.group)}",
        "schemata": f"{cell.name} {cell.number} of {class_name(cell.group)}",
        "cpu": f"the group of CPU {cell.number}",
        "task": f"the group of thread {cell.name.partition('@')[0]}",
        "governor": f"the governor of CPU {cpus}",
        "epp": f"EPP of CPU {cpus}",
        "min_khz": f"scaling_min_freq of CPU {cpus}",
        "max_khz": f"scaling_max_freq of CPU {cpus}",
        "bf": bf_words(cell),
        "cp_class": f"the SST-CP class of CPU {cell.number}",
        "io_alloc": "io_alloc",
        "io_cbm": f"ways of I/O in L3 {cell.number}",
    }
    return words[cell.kind]


def left_alone(cells: Iterable[Cell], state: State) -> tuple[str, ...]:
    """A message per cell that others have changed, one for all CPUs."""
    every = sorted(cells)
    sentences = [
        f"{describe(cell)} {_changed(cell, state)}, {_shown(cell, state.get(cell))} now"
        for cell in every
        if cell.kind not in ("cpu", "io_alloc")
    ]
    if any(cell.kind == "io_alloc" for cell in every):
        sentences.append("io_alloc stays enabled: without it the ways that somebody set are lost")

    moved: dict[str, list[int]] = {}
    for cell in every:
        if cell.kind == "cpu":
            moved.setdefault(_changed(cell, state), []).append(cell.number)
    sentences += [f"the group of CPU {format_cpu_list(cpus)} {how}" for how, cpus in moved.items()]
    return tuple(sentences)


def _changed(cell: Cell, state: State) -> str:
    """Origin of a change: the kernel may have made it when a CPU came online."""
    kernel = ", or by the kernel when it came online" if _may_be_initial(cell, state) else ""
    return f"was changed by somebody else since{kernel}: left alone"


def _may_be_initial(cell: Cell, state: State) -> bool:
    """Whether a cell has the value that the kernel gives a CPU or a cache that comes online.

    That is the root group, all ways, or no limit: no class of the same cache has more.
    """
    value = state.get(cell)
    if value is None or cell.kind == "cpu":
        return value == ROOT
    if cell.kind not in ("schemata", "io_cbm"):
        return False
    base = 16 if cell.name in MASK_LINES else 10
    peers = [
        int(other, base)
        for peer, other in state.items()
        if (peer.kind, peer.name, peer.number) == ("schemata", cell.name, cell.number)
    ]
    number = int(value, base)
    return number == max(peers, default=0) and (base == 10 or number & (number + 1) == 0)


def offline_sentences(
    cells: Iterable[Cell], goal: Mapping[Cell, str | None] | State
) -> tuple[str, ...]:
    """What can't be reverted since it is offline, and its state when it is online again.

    The kernel puts a CPU that comes online into the root group, and gives every group all ways and
    no limit in a cache that does (`resctrl_online_cpu`, `domain_setup_ctrlval`, Linux 6.1 to 7.2).
    """
    every = sorted(cells)
    by_group: dict[str, list[int]] = {}
    for cell in every:
        if cell.kind == "cpu":
            by_group.setdefault(str(goal.get(cell)), []).append(cell.number)
    sentences = [
        f"CPU {format_cpu_list(cpus)}: offline, so it can't be moved back to {_group_text(where)}; "
        f"the kernel puts it into {DEFAULT} when it is online again"
        for where, cpus in by_group.items()
    ]
    sentences += [
        f"{cell.name} {cell.number}: offline, so {class_name(cell.group)} can't be set back to "
        f"{_shown(cell, goal.get(cell))} there; the kernel resets it to "
        f"{'all ways' if cell.name in MASK_LINES else 'no limit'} when it is online again"
        for cell in every
        if cell.kind == "schemata"
    ]
    sentences += [
        f"CPU {name}: offline, so its frequencies can't be set back; it may still have those of "
        "the change when it is online again"
        for name in dict.fromkeys(cell.name for cell in every if cell.kind in POLICY_KINDS)
    ]
    sentences += [
        f"{describe(cell)}: offline, or it can't be read now, so it can't be set back to "
        f"{goal.get(cell)}; it may still have the value of the change when it is online again"
        for cell in every
        if cell.kind in ("bf", "cp_class")
    ]
    sentences += [
        f"L3 {cell.number}: offline, so its ways of I/O can't be set back to "
        f"{_shown(cell, goal.get(cell))}; the kernel resets them to all ways when it is online "
        "again"
        for cell in every
        if cell.kind == "io_cbm"
    ]
    return tuple(sentences)


def offline_now(cells: Iterable[Cell]) -> tuple[str, ...]:
    """A message per CPU, cache or power domain that went offline."""
    names = [
        f"{cell.name} {cell.number}"
        if cell.kind in ("schemata", "io_cbm")
        else describe(cell)
        if cell.kind == "bf"
        else f"CPU {cell.name or cell.number}"
        for cell in sorted(cells)
    ]
    return tuple(f"{name} is offline now" for name in dict.fromkeys(names))


def _group_text(where: str) -> str:
    return class_name(*split_path(where))


def differences(changes: Sequence[Change], old: str, new: str) -> tuple[str, ...]:
    """`CELL: OLD WORDS, NEW WORDS` for the first changes, and the number of the others."""
    named = [_differs(change, old, new) for change in changes[:_MOST_NAMED]]
    more = [f"and {len(changes) - _MOST_NAMED} more"] if len(changes) > _MOST_NAMED else []
    return (*named, *more)


def _differs(change: Change, old: str, new: str) -> str:
    cell, values = change.cell, (change.old, change.new)
    if cell.kind in POLICY_KINDS and None in values and cell.kind != "epp":
        return f"CPU {cell.name} is {'on' if change.old is None else 'off'}line now"
    if cell.kind == "cpu" and None in values:  # a CPU that is online is in some group
        return f"CPU {cell.number} is {'on' if change.old is None else 'off'}line now"
    if cell.kind in ("group", "monitor") and None not in values:
        return f"{describe(cell)} is another of that name now: it was removed and made again"
    was, is_now = (_shown(cell, value) for value in values)
    return f"{describe(cell)}: {was} {old}, {is_now} {new}"


def _shown(cell: Cell, value: str | None) -> str:
    if value is None:
        return "not there"
    if cell.kind in ("group", "monitor"):
        return "there"  # a directory's value is its inode
    if cell.kind in ("min_khz", "max_khz"):
        return mhz_text(int(value))
    if cell.kind in ("cpu", "task"):
        return _group_text(value)
    if cell.name == MB and int(value) >= UNLIMITED_MBPS:
        return "no limit"
    return value


def displaced_messages(group_of: Mapping[Cell, str], target: State) -> tuple[str, ...]:
    """A message per removed group on the CPUs and threads that can't return to it."""
    by_group: dict[str, list[Cell]] = {}
    for cell, where in group_of.items():
        by_group.setdefault(where, []).append(cell)
    return tuple(_displaced(split_path(where), cells, target) for where, cells in by_group.items())


def _displaced(where: tuple[str, str], cells: Sequence[Cell], target: State) -> str:
    group, monitor = where
    to_root = group != ROOT and target[cells[0]] == ROOT
    removed = Cell("group", group) if to_root else Cell("monitor", group, monitor)
    state = "is another of that name now" if removed in target else "is gone"
    now_in = f"{DEFAULT} has" if to_root or group == ROOT else f"{class_name(group)} itself has"
    return f"{describe(removed)} {state}: {now_in} {cpus_and_threads(cells)}, which was in it"


def cpus_and_threads(cells: Iterable[Cell]) -> str:
    """CPUs and threads among cells: `CPU 1-3 and thread 70, 71`; "" if none."""
    every = sorted(cells)
    cpus = format_cpu_list(cell.number for cell in every if cell.kind == "cpu")
    tids = [cell.name.partition("@")[0] for cell in every if cell.kind == "task"]
    named = ", ".join(tids[:_MOST_NAMED])
    rest = f" and {len(tids) - _MOST_NAMED} more" if len(tids) > _MOST_NAMED else ""
    return " and ".join([f"CPU {cpus}"] * bool(cpus) + [f"thread {named}{rest}"] * bool(tids))
