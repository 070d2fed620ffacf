"""Options of `nftop cat` as actions, and actions as the equivalent command line."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from nftop.cli.parsers.cat import MASKS
from nftop.control.resctrl.backend import ClassBackend
from nftop.control.resctrl.writer import threads_of
from nftop.model.change import (
    Action,
    CreateGroup,
    CreateMonitor,
    MoveCpus,
    MoveTasks,
    RemoveGroup,
    RemoveMonitor,
    SetIoWays,
    SetSchemata,
)
from nftop.model.rdt.rdt import UNLIMITED_MBPS, class_directory, class_name, group_path, split_path

Threads: TypeAlias = Callable[[int], tuple[int, ...]]


class UsageError(Exception):
    """An invalid command line; the text says why."""


class GoneError(Exception):
    """Something named does not exist on this host; the text says what."""


def actions(options: argparse.Namespace, threads: Threads | None = None) -> Sequence[Action]:
    """Actions of a command line; `threads`: those of a process. Raises UsageError, GoneError."""
    if options.subcommand == "io":
        return [_io_action(options)]
    group = class_directory(options.group)
    if options.subcommand == "move" and options.tasks:
        return [MoveTasks(_threads(options.tasks, threads or threads_of), group)]
    if options.subcommand == "move":
        return [MoveCpus(options.cpus, group)]
    if options.subcommand == "remove":
        named = options.monitor is not None
        return [RemoveMonitor(group, options.monitor) if named else RemoveGroup(group)]
    if options.subcommand == "create":
        return _create(options, group, threads or threads_of)
    masks = mask_actions(options, group)
    if not masks:
        raise UsageError("nothing to set: --l3 ID=MASK, --mba ID=N, ...")
    return masks


def missed(options: argparse.Namespace, host: ClassBackend, threads: Threads | None = None) -> str:
    """Message on threads of a moved process that are in other classes now; "" if none are.

    Such a thread was started between preview and move by one that was not moved yet.
    """
    wanted = [item for item in actions(options, threads) if isinstance(item, _OF_THREADS)]
    left = [
        name
        for item in wanted
        for name, where in host.tasks((), item.tids).items()
        if (split_path(where)[0], where)[isinstance(item, CreateMonitor)] != _destination(item)
    ]
    if not left:
        return ""
    return f"{len(left)} of its threads came since and are not moved: give the command again"


_OF_THREADS = (MoveTasks, CreateMonitor)


def _destination(action: MoveTasks | CreateMonitor) -> str:
    monitor = action.name if isinstance(action, CreateMonitor) else ""
    return group_path(action.group, monitor)


def _create(options: argparse.Namespace, group: str, threads: Threads) -> Sequence[Action]:
    masks = mask_actions(options, group)
    tasks, alone = getattr(options, "tasks", ()), getattr(options, "threads", ())
    if options.monitor is None:
        if tasks or alone:
            raise UsageError("--tasks and --threads are of a monitoring group: --monitor")
        moved = [MoveCpus(options.cpus, group)] if options.cpus else []
        return [CreateGroup(group), *masks, *moved]
    if masks:
        raise UsageError("a monitoring group has no masks of its own: it has its class's")
    tids = dict.fromkeys((*_threads(tasks, threads), *alone))
    return [CreateMonitor(group, options.monitor, options.cpus, tuple(tids))]


def _io_action(options: argparse.Namespace) -> SetIoWays:
    switch = {"enable": True, "disable": False, "set": None}[options.io_command]
    return SetIoWays(switch, _l3_pairs(options))


def _l3_pairs(options: argparse.Namespace) -> tuple[tuple[int, int], ...]:
    pairs = getattr(options, "l3", ())
    if len({domain for domain, _ in pairs}) < len(pairs):
        raise UsageError("--l3 is given twice for one ID")
    return tuple(pairs)


class TrialWish(NamedTuple):
    """A configuration to try: its name, its actions, and the words of the command line for it."""

    label: str
    actions: tuple[Action, ...]
    words: tuple[str, ...]


def io_wish(options: argparse.Namespace) -> TrialWish:
    """Ways of I/O to try; they are switched on for it if they are not. Raises UsageError."""
    given = [name for name in (*MASKS, "mba") if name != "l3" and getattr(options, name)]
    if options.file is not None or options.group is not None or given:
        raise UsageError("--io stands alone, with the ways as --l3 ID=MASK")
    if not options.l3:
        raise UsageError("--io: which ways? --l3 ID=MASK")
    words = [word for l3, bits in options.l3 for word in ("--l3", f"{l3}={bits:x}")]
    action = SetIoWays(enabled=True, values=_l3_pairs(options))
    return TrialWish("I/O ways", (action,), ("--io", *words))


def mask_actions(options: argparse.Namespace, group: str) -> list[Action]:
    """Masks and limits of a class that the command line sets. Raises UsageError."""
    result: list[Action] = []
    for option, resource in {**MASKS, "mba": "MB"}.items():
        pairs = getattr(options, option)
        if len({domain for domain, _ in pairs}) < len(pairs):
            raise UsageError(f"--{option} is given twice for one ID")
        values = tuple((item, UNLIMITED_MBPS if of is None else of) for item, of in pairs)
        if values:
            result.append(SetSchemata(group, resource, values))
    return result


def _threads(pids: Sequence[int], threads: Threads) -> tuple[int, ...]:
    tids = {pid: threads(pid) for pid in pids}
    gone = [pid for pid, own in tids.items() if not own]
    if gone:
        raise GoneError(f"there is no process {', '.join(map(str, gone))}")
    return tuple(dict.fromkeys(tid for own in tids.values() for tid in own))


def command(options: argparse.Namespace, program: str) -> str:
    """The equivalent command line, for the history."""
    if options.subcommand == "io":
        words = ["cat", "io", options.io_command]
    else:
        words = ["cat", options.subcommand, "--group", class_name(class_directory(options.group))]
    for option, base in {**dict.fromkeys(MASKS, "x"), "mba": "d"}.items():
        for domain, value in getattr(options, option, ()):
            text = "unlimited" if value is None else format(value, base)
            words += [f"--{option}", f"{domain}={text}"]
    for option in ("cpus", "tasks", "threads"):
        values = getattr(options, option, ())
        if values:
            words += [f"--{option}", ",".join(map(str, values))]
    if getattr(options, "monitor", None) is not None:
        words += ["--monitor", options.monitor]
    return f"{program} {shlex.join(words)}"
