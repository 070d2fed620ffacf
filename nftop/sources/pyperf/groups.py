"""Which events the module can count together here, and the groups themselves.

Every event of a group is on the counters at the same time. What does not fit is counted by itself,
when the kernel lets it: events of ratios are then of different moments, and coverage says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.reading import Reason
from nftop.sources.perf.problems import Problem, explain
from nftop.sources.pyperf.module import Evlist, Evsel, PerfModule

# By our name, how perf is asked for it on CPUs of a list: `cpu` terms, since the module opens an
# event on every CPU of its PMU whatever map of CPUs it is given (seen with Linux 7.2).
_GENERIC = {
    "cycles": "cycles/{}/",
    "instructions": "instructions/{}/",
    "ref_cycles": "ref-cycles/{}/",
    "context_switches": "context-switches/{}/",
}
# What the PMU `msr` has of them takes no counter (arch/x86/events/msr.c). MPERF advances at the
# rate of the TSC while the CPU is not halted, as reference cycles do: Intel SDM volume 3,
# "Hardware Coordination Feedback"; AMD64 APM volume 2, "MPERF".
_OF_MSR = {"tsc": "tsc", "ref_cycles": "mperf"}
_MSR = "sys/bus/event_source/devices/msr/events"
_ON_CORE = ("cycles", "instructions")
# PERF_FORMAT_TOTAL_TIME_ENABLED and _RUNNING; without them the module gives times of 0.
_WITH_TIMES = 3
_UNKNOWN = Problem(Reason.HARDWARE, "the kernel's perf knows no such event on this CPU")
_HYBRID = Problem(Reason.SOURCE, "cores of several kinds are not counted through the kernel's perf")
_ELSEWHERE = Problem(
    Reason.SOURCE, "this perf would count it on other CPUs than told: it knows no `cpu` term"
)

Group = tuple[str, ...]


@dataclass(slots=True)
class Opened:
    """Groups that count on some CPUs.

    Attributes:
        reads: (CPU, event name, what reads it) of everything that counts, all of a CPU in a row.
    """

    lists: list[Evlist] = field(default_factory=list)
    reads: list[tuple[Cpu, str, Evsel]] = field(default_factory=list)

    def close(self) -> None:
        """Stop counting; nothing is read again. Safe to call twice."""
        self.reads = []
        lists, self.lists = self.lists, []
        for events in lists:
            events.disable()
            events.close()


def open_groups(
    module: PerfModule, groups: Iterable[Group], asked: Mapping[str, str], cpus: Sequence[Cpu]
) -> Opened | Problem:
    """Open and start groups on all of the CPUs, or none of it and why."""
    opened = Opened()
    for group in groups:
        problem = _open(module, group, asked, cpus, opened)
        if problem is not None:
            opened.close()
            return problem
    opened.reads.sort(key=lambda read: read[0])
    return opened


def basic_events(root: Path) -> Mapping[str, str]:
    """The events of every host; how to ask for each of them."""
    found = dict(_GENERIC)
    for name, event in _OF_MSR.items():
        if (root / _MSR / event).exists():
            found[name] = f"msr/{event},{{}}/"
    return found


def grouped(names: Iterable[str], of_metrics: Collection[str]) -> tuple[Group, ...]:
    """What is best counted together, best of all: what is of the core in one group.

    `of_metrics` are in the order in which perf wants them, and lead.
    """
    on_core = (*of_metrics, *_ON_CORE)
    return (on_core, *((name,) for name in names if name not in on_core))


def fitting(
    module: PerfModule, groups: Iterable[Group], asked: Mapping[str, str], cpu: Cpu
) -> tuple[tuple[Group, ...], Mapping[str, Problem]]:
    """Of these groups what opens on a CPU, as few groups as can be, and why the rest does not."""
    found: list[Group] = []
    absent: dict[str, Problem] = {}
    for group in groups:
        problem = _trial(module, group, asked, cpu)
        parts = parts_of(group)
        if problem is None:
            found.append(group)
        elif len(parts) == 1:
            absent |= dict.fromkeys(group, problem)
        else:
            fit, lacks = fitting(module, parts, asked, cpu)
            found += fit
            absent |= lacks
    return tuple(found), absent


def parts_of(group: Group) -> tuple[Group, ...]:
    """What to count by itself where the group can't be; the group itself if nothing can.

    Intel's top-down counts are one register, read behind `slots`.
    """
    basic = tuple(name for name in group if name in _ON_CORE)
    others = tuple(name for name in group if name not in _ON_CORE)
    if basic and others:
        return others, basic
    slots = tuple(name for name in others if "_topdown_" in name or name.endswith("_slots"))
    singles = tuple((name,) for name in group if name not in slots)
    return (slots, *singles) if slots else singles


def _trial(module: PerfModule, group: Group, asked: Mapping[str, str], cpu: Cpu) -> Problem | None:
    """Why the group does not open on a CPU; None where it does. It is closed again."""
    found = open_groups(module, (group,), asked, (cpu,))
    if isinstance(found, Problem):
        return found
    found.close()
    return None


def _open(
    module: PerfModule,
    group: Group,
    asked: Mapping[str, str],
    cpus: Sequence[Cpu],
    opened: Opened,
) -> Problem | None:
    where = ",".join(f"cpu={span}" for span in format_cpu_list(cpus).split(","))
    names = {asked[name].format(where): name for name in group}
    terms = ",".join(names)
    try:
        events = module.parse_events(terms if len(group) == 1 else f"{{{terms}}}")
    except OSError:
        # Its errno is what some other call left behind.
        return _UNKNOWN
    # perf may put them in another order, top-down events side by side.
    found = [(_name(event, names), event) for event in events]
    if sorted(name for name, _ in found) != sorted(group):
        return _HYBRID
    if not all(set(event.cpus()) <= set(cpus) for _, event in found):
        return _ELSEWHERE
    for _, event in found:
        event.read_format = _WITH_TIMES
    try:
        events.open()
    except OSError as error:
        return explain(error.errno or 0)
    opened.lists.append(events)
    events.enable()
    for name, event in found:
        opened.reads += [(Cpu(cpu), name, event) for cpu in event.cpus()]
    return None


def _name(event: Evsel, names: Mapping[str, str]) -> str:
    """Which of these it is, by what was asked for: it shows itself as PMU/TERM/ or as TERM."""
    shown = shown_as(event)
    return names.get(shown) or names.get(shown.partition("/")[2].removesuffix("/"), "")


def shown_as(event: Evsel) -> str:
    """What stands in `evsel(...)`."""
    return str(event).removeprefix("evsel(").removesuffix(")")
