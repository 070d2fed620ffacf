"""The model as payloads of nftop's sources.

Functions take the model, the time since its start, and `at_ns`, the same moment on the session's
clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nftop.model.column import Floats
from nftop.model.frame import Focus
from nftop.model.ids import Cpu
from nftop.model.missing import Reason
from nftop.model.sample import CounterTable, Counts, CpuTimes, ProcessFacts, ThreadTable
from nftop.model.struct import replace
from nftop.model.threads import CpuUse, ThreadRow
from nftop.sim.events import factors_of, turn_share
from nftop.sim.layout import Placed
from nftop.sim.model import Model
from nftop.sim.rates import stolen_ns, stolen_share
from nftop.sim.workloads import INDEX, REMOTE_RATIO
from nftop.uarch.table import NOT_LARGEST, EventSpec, Uarch

_QUIET = "left out by --quiet-cpus or --cpu-list"
_LEVEL_1 = "--tma-level 1: level 2 is not counted"
_UNKNOWN = "the simulated host has no such event"
_USER_HZ = 100
_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
# Start of all processes: in the minute before time 0, in the order of the scenario.
_FIRST_PID, _PIDS_APART, _START_TICKS = 4000, 1000, 9000
_THIEF, _NAP_NS = 900, 10_000_000
_SCAN_NS, _HUGE_BYTES = 5_000_000_000, 4 << 30


def focused_table(
    model: Model,
    t_ns: int,
    uarch: Uarch,
    quiet: Collection[int] = frozenset(),
    *,
    turns: bool = True,
    focus: Collection[int] = (),
    node: str = "",
) -> CounterTable:
    """As `counter_table`, with all that the table of `uarch` counts on the CPUs `focus`.

    Of what is below a node of level 2 only that below `node`.
    """
    whole = counter_table(model, t_ns, uarch, quiet, turns=turns)
    if not focus:
        return whole
    plan = uarch.plans[0].groups
    nodes = (*[""] * len(plan), *uarch.drilled_nodes)
    skipped = frozenset(at for at, name in enumerate(nodes) if name not in ("", node))
    always = len(plan) + len(uarch.focus_groups)
    # Groups of different nodes have the same turns, whichever is counted.
    drilled = (always + n for of in uarch.drill.values() for n in range(len(of)))
    turns_of = (*range(always), *drilled)
    counted = _counted(
        model,
        t_ns,
        uarch,
        (*plan, *uarch.deep_groups),
        quiet=quiet,
        cpus=sorted(focus),
        turns_of=turns_of,
        skipped=skipped,
    )
    return replace(whole, focus=counted)


def counter_table(
    model: Model,
    t_ns: int,
    uarch: Uarch,
    quiet: Collection[int] = frozenset(),
    *,
    turns: bool = True,
) -> CounterTable:
    """All events of the best plan of `uarch` and its turns, on every CPU.

    Groups share the time exactly: the first counts nine tenths of it, the others equal shares of
    the rest, to a nanosecond and a count, together all of it. nftop's real turns are one per tick.
    The number of counters is not limited. Without `turns` the plan's own group has all the time.
    """
    plan = uarch.plans[0]
    cpus = range(len(model.layout.topology.cpus))
    if turns:
        return _counted(model, t_ns, uarch, plan.groups, quiet=quiet, cpus=cpus)
    table = _counted(model, t_ns, uarch, plan.groups[:1], quiet=quiet, cpus=cpus)
    unread = [name for turn in plan.turns for name in turn if name not in table.events]
    reasons = np.full((len(cpus), len(unread)), np.uint8(Reason.SOURCE))
    return replace(
        table,
        events=(*table.events, *unread),
        group=np.append(table.group, np.zeros(len(unread), np.int32)),
        values=np.hstack([table.values, np.zeros(reasons.shape, np.uint64)]),
        reasons=np.hstack([table.reasons, reasons]),
        details={**table.details, **{name: {int(Reason.SOURCE): _LEVEL_1} for name in unread}},
    )


@cache
def _weights(event: EventSpec, uarch: str) -> Floats | None:
    """Factors by which each of `QUANTITIES` adds to an event; None for an unknown event."""
    counted = factors_of(event, uarch)
    if counted is None:
        return None
    weights = np.zeros(len(INDEX))
    weights[[INDEX[item] for item in counted]] = list(counted.values())
    weights.flags.writeable = False
    return weights


class _Fixed(NamedTuple):
    """Columns of a `CounterTable` that stay the same objects, as a real source's do.

    `weights`: of each event, None if it isn't counted. `hidden`: rows that are left out.
    """

    cpus: NDArray[np.int32]
    events: tuple[str, ...]
    group: NDArray[np.int32]
    reasons: NDArray[np.uint8]
    details: Mapping[str, Mapping[int, str]]
    weights: tuple[Floats | None, ...]
    hidden: NDArray[np.bool_]


@lru_cache(maxsize=16)
def _fixed(
    groups: tuple[tuple[tuple[str, EventSpec], ...], ...],
    uarch: str,
    quiet: frozenset[int],
    cpus: tuple[int, ...],
    skipped: frozenset[int],
) -> _Fixed:
    named = [pair for group in groups for pair in group]
    events = tuple(name for name, _ in named)
    group = np.repeat(np.arange(len(groups), dtype=np.int32), [len(item) for item in groups])
    reasons = np.zeros((len(cpus), len(events)), dtype=np.uint8)
    details: dict[str, dict[int, str]] = {name: {} for name in events}
    weights: list[Floats | None] = []
    for index, ((name, spec), turn) in enumerate(zip(named, group.tolist(), strict=True)):
        counted = turn not in skipped
        weights.append(_weights(spec, uarch) if counted else None)
        if weights[-1] is None:
            reason = Reason.HARDWARE if counted else Reason.SOURCE
            reasons[:, index] = reason
            details[name][int(reason)] = _UNKNOWN if counted else NOT_LARGEST
    hidden = np.isin(np.array(cpus), list(quiet))
    if hidden.any():
        reasons[hidden] = Reason.SOURCE
        for sentences in details.values():
            sentences[int(Reason.SOURCE)] = _QUIET
    numbers = np.array(cpus, dtype=np.int32)
    for array in (numbers, group, reasons, hidden):
        array.flags.writeable = False  # shared by all ticks
    return _Fixed(numbers, events, group, reasons, details, tuple(weights), hidden)


def _counted(
    model: Model,
    t_ns: int,
    uarch: Uarch,
    groups: Sequence[Sequence[str]],
    *,
    quiet: Collection[int],
    cpus: Sequence[int],
    turns_of: Sequence[int] | None = None,
    skipped: Collection[int] = (),
) -> CounterTable:
    """A table of these groups; `turns_of`: their turns if not one each, `skipped`: not counted."""
    slots = range(len(groups)) if turns_of is None else turns_of
    count = max(slots) + 1
    named = tuple(tuple((name, uarch.events[name]) for name in group) for group in groups)
    fixed = _fixed(named, uarch.name, frozenset(quiet), tuple(cpus), frozenset(skipped))
    hidden = fixed.hidden
    every = model.exact(t_ns, cpus)
    values = np.zeros(fixed.reasons.shape, dtype=np.uint64)
    totals: dict[str, Counts] = {}
    for index, (name, turn) in enumerate(zip(fixed.events, fixed.group.tolist(), strict=True)):
        weights = fixed.weights[index]
        if weights is None:
            continue
        if name not in totals:
            totals[name] = np.where(hidden, 0, np.floor(every @ weights).astype(np.uint64))
        values[:, index] = turn_share(totals[name], slots[turn], count)
    every_ns = np.array(t_ns, np.uint64)
    ran_ns = np.array(
        [
            np.uint64(0) if turn in skipped else turn_share(every_ns, slot, count)
            for turn, slot in enumerate(slots)
        ]
    )
    return CounterTable(
        cpus=fixed.cpus,
        events=fixed.events,
        group=fixed.group,
        values=values,
        reasons=fixed.reasons,
        enabled_ns=np.where(hidden[:, None], np.uint64(0), np.full_like(ran_ns, t_ns)),
        running_ns=np.where(hidden[:, None], np.uint64(0), ran_ns),
        details=fixed.details,
    )


def cpu_times(model: Model, t_ns: int) -> CpuTimes:
    """/proc/stat: time in no other field is idle."""
    rows = len(model.layout.topology.cpus)
    exact = model.exact(t_ns)
    ticks = np.zeros((rows, len(_FIELDS)), dtype=np.uint64)
    for name in ("user", "system", "softirq"):
        spent = np.floor(exact[:, INDEX[f"{name}_s"]] * _USER_HZ)
        ticks[:, _FIELDS.index(name)] = spent.astype(np.uint64)
    all_ticks = np.uint64(t_ns * _USER_HZ // 1_000_000_000)
    busy = np.minimum(ticks.sum(axis=1), all_ticks)
    ticks[:, _FIELDS.index("idle")] = all_ticks - busy
    return CpuTimes(np.arange(rows, dtype=np.int32), _FIELDS, ticks, _USER_HZ)


_NOTHING = Focus()


def thread_table(model: Model, t_ns: int, at_ns: int, wanted: Focus = _NOTHING) -> ThreadTable:
    """All threads of all tasks, and facts of the processes in `wanted`."""
    counts = model.counts(t_ns)
    rows: list[ThreadRow] = []
    for order, placed in enumerate(model.layout.placed):
        rows += _threads(model, placed, order, counts, at_ns)
        rows += _thieves(model, placed, order, (counts, t_ns), at_ns)
    selected = wanted.processes
    facts = () if selected is None else _described(rows, selected)
    uses = tuple(use for use in _uses(model, t_ns) if use.cpu in wanted.culprits)
    return ThreadTable(
        tuple(rows),
        hidden=0,
        scanned_at_ns=at_ns,
        facts=facts,
        culprits=_culprits(model, t_ns, rows, uses, wanted),
        uses=uses,
    )


def _described(rows: Iterable[ThreadRow], cpu: Cpu) -> tuple[ProcessFacts, ...]:
    """Processes with a thread on this CPU; the simulated host starts them as services."""
    return tuple(
        replace(_facts(pid, cpu, program), command=program)
        for pid, program in sorted({(row.pid, row.program) for row in rows if cpu in row.allowed})
    )


def _facts(pid: int, cpu: Cpu, program: str) -> ProcessFacts:
    unit = f"{program}.service"
    path = f"/system.slice/{unit}"
    return ProcessFacts(pid, cpu, "", "root", path, 0, None, name=program, container=unit)


def _culprits(
    model: Model, t_ns: int, rows: Iterable[ThreadRow], uses: Iterable[CpuUse], wanted: Focus
) -> tuple[ProcessFacts, ...]:
    """The processes on the CPUs that incidents are about; virtual machines by their names."""
    facts = {use.pid: _facts(use.pid, use.cpu, use.name) for use in uses}
    names = {identity(order)[0]: item for order, item in enumerate(model.layout.placed)}
    for row in rows:
        cpu = row.allowed[0]
        if cpu not in wanted.culprits or row.pid in facts:
            continue
        known = _facts(row.pid, cpu, row.program)
        placed = names.get(row.pid)
        if placed is not None and placed.task.kind == "vm":
            scope = f"machine-qemu\\x2d1\\x2d{placed.name}.scope"
            known = replace(
                known,
                user="libvirt-qemu",
                cgroup=f"/machine.slice/{scope}",
                container=f"vm {placed.name}",
            )
        if placed is not None and cpu in wanted.memory:
            known = replace(known, node_bytes=_node_bytes(model, placed, t_ns))
        facts[row.pid] = known
    return tuple(facts.values())


def _node_bytes(model: Model, placed: Placed, t_ns: int) -> tuple[tuple[int, int], ...]:
    """4 GiB of huge pages, as many on the other node as lines that devices move for the task."""
    factors: Mapping[str, float] = {}
    for step in model.scenario.steps:
        if step.at_s * 1e9 <= t_ns:
            factors = step.times.get(placed.task.name, factors)
    share = min(REMOTE_RATIO * factors.get("remote_reads", 1.0), 1.0)
    node = model.layout.topology.cpus[placed.cpus[0]].node or 0
    away = int(_HUGE_BYTES * share)
    return tuple(sorted(((node, _HUGE_BYTES - away), (1 - min(node, 1), away))))


def _uses(model: Model, t_ns: int) -> Iterable[CpuUse]:
    """What takes part of CPUs of tasks, as a scan of the last seconds has it."""
    for order, placed in enumerate(model.layout.placed):
        stolen = placed.task.stolen
        if stolen is None or not stolen.by or stolen.thread >= len(placed.cpus):
            continue
        share = stolen_share(model.scenario, placed.task, t_ns)
        if share:
            pid, cpu = identity(order)[0] + _THIEF, placed.cpus[stolen.thread]
            yield CpuUse(cpu, pid, stolen.by, int(share * _SCAN_NS), _SCAN_NS)


def identity(order: int) -> tuple[int, int]:
    """pid and start time of the order-th task of the layout."""
    return _FIRST_PID + _PIDS_APART * order, _START_TICKS + order


def placed_as(model: Model, kinds: Collection[str]) -> Iterator[tuple[int, Placed]]:
    for order, placed in enumerate(model.layout.placed):
        if placed.task.kind in kinds:
            yield order, placed


def main_cpu(model: Model, placed: Placed) -> Cpu:
    """CPU of an application's main thread: the system's in its package."""
    package = model.layout.topology.cpus[placed.cpus[0]].package
    return model.layout.housekeeping.get(package or 0, Cpu(0))


def _threads(
    model: Model, placed: Placed, order: int, counts: Counts, at_ns: int
) -> list[ThreadRow]:
    pid, start_ticks = identity(order)
    main = _MAIN_THREADS[placed.task.kind]
    program, comm, role = main if main is not None else ("dpdk-l3fwd", "", "")

    def row(tid: int, comm: str, role: str, index: int | None, cpu: Cpu) -> ThreadRow:
        voluntary = counts[cpu, INDEX["context_switches"]] - counts[cpu, INDEX["involuntary"]]
        return ThreadRow(
            pid=pid,
            tid=tid,
            start_ticks=start_ticks,
            comm=comm,
            program=program,
            role=role,
            role_index=index,
            allowed=(cpu,),
            last_cpu=cpu,
            run_ns=int(counts[cpu, INDEX["run_ns"]]),
            wait_ns=int(counts[cpu, INDEX["wait_ns"]]),
            voluntary=int(voluntary),
            involuntary=int(counts[cpu, INDEX["involuntary"]]),
            container=False,
            read_at_ns=at_ns,
        )

    rows = [] if main is None else [row(pid, comm, role, None, main_cpu(model, placed))]
    for index, cpu in enumerate(placed.cpus):
        name, role, role_index = _WORKERS[placed.task.kind](index, cpu)
        rows.append(
            row(
                pid if main is None and index == 0 else pid + 1 + index, name, role, role_index, cpu
            )
        )
    return rows


def _thieves(
    model: Model, placed: Placed, order: int, counted: tuple[Counts, int], at_ns: int
) -> list[ThreadRow]:
    """Threads of other programs, with a name, that take part of a CPU."""
    (counts, t_ns), stolen = counted, placed.task.stolen
    if stolen is None or not stolen.by or stolen.sleeps or stolen.thread >= len(placed.cpus):
        return []
    cpu = placed.cpus[stolen.thread]
    pid, start_ticks = identity(order)
    # It never sleeps while it takes anything; of the rest it wakes up now and then.
    asleep_ns = t_ns - stolen_ns(model.scenario, placed.task, t_ns)
    return [
        ThreadRow(
            pid=pid + _THIEF,
            tid=pid + _THIEF,
            start_ticks=start_ticks,
            comm=stolen.by,
            program=stolen.by,
            role="",
            role_index=None,
            allowed=(cpu,),
            last_cpu=cpu,
            run_ns=int(counts[cpu, INDEX["wait_ns"]]),
            wait_ns=0,
            voluntary=asleep_ns // _NAP_NS,
            involuntary=0,
            container=False,
            read_at_ns=at_ns,
        )
    ]


# Program, and name and role of a main thread that does not poll; l3fwd's does.
_MAIN_THREADS: Mapping[str, tuple[str, str, str] | None] = MappingProxyType(
    {
        "testpmd": ("dpdk-testpmd", "dpdk-testpmd", "dpdk_main"),
        "l3fwd": None,
        "vpp": ("vpp_main", "vpp_main", "vpp_main"),
        "ovs": ("ovs-vswitchd", "ovs-vswitchd", ""),
        "vm": ("qemu-system-x86", "qemu-system-x86", ""),
    }
)


def _l3fwd_thread(index: int, cpu: Cpu) -> tuple[str, str, int | None]:
    if index == 0:
        return "dpdk-l3fwd", "dpdk_main", None
    return f"dpdk-worker{cpu}", "dpdk_lcore", cpu


# Name, role and role index of polling threads.
_WORKERS: Mapping[str, Callable[[int, Cpu], tuple[str, str, int | None]]] = MappingProxyType(
    {
        "testpmd": lambda _, cpu: (f"dpdk-worker{cpu}", "dpdk_lcore", cpu),
        "l3fwd": _l3fwd_thread,
        "vpp": lambda index, _: (f"vpp_wk_{index}", "vpp_worker", index),
        "ovs": lambda index, cpu: (f"pmd-c{cpu:02}/id:{index + 8}", "ovs_pmd", cpu),
        "vm": lambda index, _: (f"CPU {index}/KVM", "qemu_vcpu", index),
    }
)
