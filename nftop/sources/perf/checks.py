"""What `nftop doctor` says about the counters of a host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nftop.model.ids import format_cpu_list
from nftop.model.reading import Reason
from nftop.sources.base import Check
from nftop.sources.perf.abi import Kernel
from nftop.sources.perf.cpu_groups import CoreGroups
from nftop.sources.perf.cpu_state import Row
from nftop.sources.perf.occupancy import count_general_counters, perf_event_holders
from nftop.sources.perf.probe import made_up_for, stand_ins
from nftop.sources.perf.problems import NO_CPU, Problem, sysctl
from nftop.uarch.table import Uarch

_NO_TABLE = Problem(
    Reason.SOURCE,
    "nftop has no table for this CPU model: it counts the kernel's generic events, which give no "
    "top-down",
)


def table_checks(
    name: str, uarch: Uarch, cores: CoreGroups, *, turns: bool = True
) -> tuple[Check, ...]:
    """One check of the source, one for CPUs that count nothing, and for what is missing.

    That is one for all events that the same CPUs lack for the same reason, by the first of them.
    Events that stand in for others are among what is counted, and not among what is missing, as
    those are not that others stand in for; nor are those of groups that take turns, if it was asked
    to do without `turns`.
    """
    extras = stand_ins(uarch, turns=turns)
    idle: dict[Problem, list[int]] = {}
    lacking: dict[tuple[str, Problem], list[int]] = {}
    counted: dict[str, None] = {}
    for row in cores.rows:
        if row.problem is not None:
            idle.setdefault(row.problem, []).append(row.cpu)
            continue
        names = dict.fromkeys(name for group in cores.members(row) for name in group.names)
        counted |= names
        needless = extras | made_up_for(uarch, names.keys(), turns=turns)
        for event, problem in cores.absences(row).items():
            if event not in needless:
                lacking.setdefault((event, problem), []).append(row.cpu)
    active = [row.cpu for row in cores.rows if row.group is not None]
    checks = [_whole(name, active, list(counted), cores.rotation.turns(), idle)]
    for problem, cpus in idle.items():
        checks.append(_check(f"{name} CPU {format_cpu_list(cpus)}", problem))
    alike: dict[tuple[Problem, tuple[int, ...]], list[str]] = {}
    order = {event: index for index, event in enumerate(uarch.all_events)}
    for (event, problem), cpus in sorted(lacking.items(), key=lambda item: order[item[0][0]]):
        alike.setdefault((problem, tuple(cpus)), []).append(event)
    for (problem, where_not), (event, *others) in alike.items():
        everywhere = len(where_not) == len(active)
        where = "" if everywhere else f" (CPU {format_cpu_list(where_not)})"
        also = f"; so for {', '.join(others)}" if others else ""
        checks.append(_check(f"{name} {event}", problem, where + also))
    if uarch.topdown is None:
        checks.append(_check(f"{name} top-down", _NO_TABLE))
    return tuple(checks)


def counter_checks(
    name: str, kernel: Kernel, cores: CoreGroups, root: Path = Path("/")
) -> tuple[Check, ...]:
    """How many counters are free and which processes hold perf events, if a group found none.

    Of one CPU, the first on which a group never ran. Nothing where every group ran.
    """
    row = next((row for row in cores.rows if _lacks_counter(row, cores)), None)
    if row is None:
        return ()
    found = count_general_counters(kernel, row.cpu)
    text = f"no general counter of CPU {row.cpu} can be opened"
    if found is not None:
        text = f"{found.free} of {found.total} general counters of CPU {row.cpu} are free"
    if sysctl(root, "nmi_watchdog") == "1":
        text += ", and the NMI watchdog holds a counter of cycles"
    holders = perf_event_holders(root)
    programs = ", ".join(f"{holder.comm} (pid {holder.pid}: {holder.events})" for holder in holders)
    text += (
        f"; perf events are held by {programs}"
        if programs
        else "; no process in /proc that may be looked into holds perf events"
    )
    return (Check(f"{name} counters", Reason.TAKEN, text),)


def _lacks_counter(row: Row, cores: CoreGroups) -> bool:
    problems = (row.problem, row.left, *cores.absences(row).values())
    return any(problem is not None and problem.reason is Reason.TAKEN for problem in problems)


def _whole(
    name: str,
    active: Sequence[int],
    counted: Sequence[str],
    turns: int,
    idle: dict[Problem, list[int]],
) -> Check:
    if not active:
        problem = next(iter(idle), NO_CPU)
        return Check(name, problem.reason, f"no CPU is counted: {problem.sentence}", problem.fix)
    cpus = format_cpu_list(active)
    pace = "one read a tick each"
    if turns:
        pace = f"two reads a tick each; beside the main group {turns} more take turns"
    text = f"counts {', '.join(counted)} on CPU {cpus}, {pace}"
    return Check(name, Reason.PRESENT, text)


def _check(name: str, problem: Problem, where: str = "") -> Check:
    return Check(name, problem.reason, problem.sentence + where, problem.fix)
