"""Monitoring groups of a network function's threads: made, or taken away again."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from nftop.control.gate_protocols import ClassGate
from nftop.model.change import Cell, CreateMonitor, Proposal, RemoveMonitor, State
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.rdt.rdt import OWN_PREFIX, ROOT, class_name, split_path

_MOST_LETTERS = 40
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")


def monitor_name(nf: str, pid: int) -> str:
    """Name of the monitoring groups of a network function."""
    word = _NOT_IN_NAMES.sub("-", nf).strip("-")[:_MOST_LETTERS]
    return f"{OWN_PREFIX}{word}-{pid}" if word else f"{OWN_PREFIX}{pid}"


def propose_monitor(
    gate: ClassGate, name: str, threads: Iterable[tuple[int, Cpu]]
) -> tuple[Proposal, tuple[int, ...]]:
    """Groups called `name` for threads (TID, CPU), or without nftop's groups that have them."""
    known = dict(threads)
    state = gate.host.state()
    group_of = {
        int(task.partition("@")[0]): where for task, where in gate.host.tasks((), known).items()
    }
    actions: Sequence[CreateMonitor | RemoveMonitor] = _removals(state, group_of, known)
    actions = actions or creations(name, state, group_of, known)
    commands = tuple(_command(gate.program, action) for action in actions)
    return gate.propose(actions, commands), ()


def _group_of_cpu(state: State, cpu: Cpu) -> str:
    return state.get(Cell("cpu", "", number=cpu), ROOT)


def _removals(
    state: State, group_of: dict[int, str], threads: dict[int, Cpu]
) -> Sequence[RemoveMonitor]:
    """nftop's monitoring groups that have these threads, or the CPUs of those in no group."""
    removed = set()
    for tid, cpu in threads.items():
        own = group_of.get(tid, ROOT)
        group, monitor = split_path(_group_of_cpu(state, cpu) if own == ROOT else own)
        if monitor.startswith(OWN_PREFIX):
            removed.add((group, monitor))
    return [RemoveMonitor(group, monitor) for group, monitor in sorted(removed)]


def creations(
    name: str, state: State, group_of: Mapping[int, str], threads: Mapping[int, Cpu]
) -> Sequence[CreateMonitor]:
    """A group in each class that they run in: of CPUs where the class is the CPU's.

    There a group of the thread would be the root group's, and its class's counters lose it.
    """
    tids: dict[str, list[int]] = defaultdict(list)
    cpus: dict[str, set[Cpu]] = defaultdict(set)
    for tid, cpu in threads.items():
        own = split_path(group_of.get(tid, ROOT))[0]
        of_cpu = split_path(_group_of_cpu(state, cpu))[0]
        if own == ROOT and of_cpu != ROOT:
            cpus[of_cpu].add(cpu)
        else:
            tids[own].append(tid)
    return [
        CreateMonitor(group, name, tuple(sorted(cpus[group])), tuple(sorted(tids[group])))
        for group in sorted({*tids, *cpus})
    ]


def _command(program: str, action: CreateMonitor | RemoveMonitor) -> str:
    verb = "create" if isinstance(action, CreateMonitor) else "remove"
    words = [f"{program} cat {verb} --group {class_name(action.group)} --monitor {action.name}"]
    if isinstance(action, RemoveMonitor):
        return words[0]
    words += [f"--cpus {format_cpu_list(action.cpus)}"] * bool(action.cpus)
    words += [f"--threads {','.join(map(str, action.tids))}"] * bool(action.tids)
    return " ".join(words)
