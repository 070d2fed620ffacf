"""Commands of perf(1) for one core, to go on with where nftop ends, or why one is not possible.

Nothing here runs them. Versions: tools/perf of the kernel's history (c2c: 4.10; Processor Trace:
4.1, `intel_pt` of one CPU and `--itrace`).
"""

from __future__ import annotations

from collections.abc import Collection

from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.struct import dataclass

_SECONDS, _TRACE_SECONDS, _SAMPLES_HZ = 5, 0.1, 999
# What the scripts that make flame graphs parse.
_FIELDS = "comm,pid,tid,cpu,time,event,ip,sym,dso"
_INSTALL = "perf is not installed: Debian's package linux-perf, Ubuntu's linux-tools"
_NO_EVENTS = (
    "no PMU samples loads with their addresses (Intel: mem-loads, AMD: ibs_op); guests have none"
)
_NO_INTERRUPT = (
    "the PMU counts here, but does not interrupt, so it samples nothing (perf_event_open: "
    "EOPNOTSUPP); guests may lack that"
)
_NO_SAMPLES = "the kernel samples nothing here, by no PMU and no timer (EOPNOTSUPP)"
_NO_TRACE = "this CPU, or the hypervisor, offers no Processor Trace (no PMU intel_pt)"


@dataclass(frozen=True, slots=True)
class PerfTool:
    """perf of a host.

    Attributes:
        version: (6, 1); None: not installed; (0, 0): unknown.
        cycles: a core PMU counts.
        samples: the event that a CPU can be sampled by: `cycles` where the PMU interrupts, else
            `cpu-clock`, a timer; "": none.
        memory_events: it samples loads and stores with their addresses.
        processor_trace: the PMU of Processor Trace is there.
        fault: why it does not run although it is installed; "" if it runs.
    """

    version: tuple[int, int] | None
    cycles: bool
    samples: str
    memory_events: bool
    processor_trace: bool
    fault: str = ""


@dataclass(frozen=True, slots=True)
class PerfTask:
    """One purpose with its commands in order, or `why` there are none."""

    title: str
    commands: tuple[str, ...] = ()
    why: str = ""


def perf_tasks(cpu: Cpu, together: Collection[Cpu], tool: PerfTool) -> tuple[PerfTask, ...]:
    """Tasks for a CPU; `together` are all CPUs of its network function, which share data."""
    if tool.version is None:
        return (PerfTask("perf", why=_INSTALL),)
    if tool.fault:
        return (PerfTask("perf", why=tool.fault),)
    data, lines, trace = (f"cpu{cpu}{suffix}.data" for suffix in ("", "-c2c", "-pt"))
    listed = format_cpu_list(sorted({cpu, *together}))
    record = f"sudo perf record -C {cpu} -F {_SAMPLES_HZ} -e {tool.samples} -g -o {data}"
    counted = "cycles,instructions,ref-cycles,cache-misses"
    title = "its counters, without interrupting it for samples"
    if not tool.cycles:
        counted = "task-clock,context-switches,cpu-migrations,page-faults"
        title = "what the kernel counts of it (no PMU), without samples"
    unsampled = "" if tool.samples else _NO_SAMPLES
    uninterrupted = "" if tool.samples == "cycles" else _NO_INTERRUPT
    rows: tuple[tuple[str, tuple[int, int], str, tuple[str, ...]], ...] = (
        (title, (0, 0), "", (f"sudo perf stat -C {cpu} -e {counted} -- sleep {_SECONDS}",)),
        (
            "where its time goes, by function",
            (0, 0),
            unsampled,
            (f"{record} -- sleep {_SECONDS}", f"sudo perf report -i {data} --stdio"),
        ),
        (
            "each sample by time, for flame graphs",
            (0, 0),
            unsampled,
            (f"sudo perf script -i {data} -F {_FIELDS}",),
        ),
        (
            "lines of cache that it shares with others (c2c)",
            (4, 10),
            uninterrupted if tool.memory_events else _NO_EVENTS,
            (
                f"sudo perf c2c record -- -C {listed} -o {lines} sleep {_SECONDS}",
                f"sudo perf c2c report -i {lines} --stdio",
            ),
        ),
        (
            "every branch it takes (Processor Trace)",
            (4, 1),
            "" if tool.processor_trace else _NO_TRACE,
            (
                f"sudo perf record -C {cpu} -e intel_pt// -o {trace} -- sleep {_TRACE_SECONDS}",
                f"sudo perf script -i {trace} --itrace=i1us -F comm,tid,cpu,time,ip,sym",
            ),
        ),
    )
    tasks = []
    for title, since, why, commands in rows:
        too_old = (0, 0) < tool.version < since
        old = f"perf {tool.version[0]}.{tool.version[1]} is too old: {since[0]}.{since[1]} can"
        no = old if too_old else why
        tasks.append(PerfTask(title, () if no else commands, no))
    return tuple(tasks)
