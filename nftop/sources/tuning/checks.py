"""Checks of the host's tuning, one row each, with references; those of the cores are here.

Files: the kernel's Documentation/ABI/testing/sysfs-devices-system-cpu (isolated, nohz_full,
cpuidle), Documentation/admin-guide/kernel-parameters.txt (isolcpus, nohz_full, rcu_nocbs) and
Documentation/power/pm_qos_interface.rst (/dev/cpu_dma_latency, pm_qos_resume_latency_us).
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from nftop.model.check import Check
from nftop.model.ids import Cpu, format_cpu_list, parse_cpu_list
from nftop.model.missing import Reason
from nftop.model.struct import dataclass
from nftop.model.topology import Topology
from nftop.sources.host.sysfs import read_up_to
from nftop.sources.tuning import devices, kernel
from nftop.sources.tuning.inputs import (
    CPU,
    NOBODY_POLLS,
    CheckInputs,
    HostFinding,
    Poller,
    as_advised,
    cpus,
    kernel_parameters,
    otherwise,
    pinning,
)

# The names that intel_idle and acpi_idle give: C1 and C1E wake up in a few microseconds.
_DEEP = re.compile(r"C([2-9]|[1-9][0-9]).*")
_STATE = re.compile(r"state([0-9]{1,2})")
_ANY_LATENCY, _NO_LATENCY = "0", "n/a"
# A request of 2000 s is none: PM_QOS_CPU_LATENCY_DEFAULT_VALUE.
_NO_REQUEST_US = 2_000_000_000


def isolation(inputs: CheckInputs) -> Iterator[HostFinding]:
    """Whether the scheduler puts nothing else on the polling CPUs."""
    isolated = inputs.tree.cpus(f"{CPU}/isolated")
    if isolated is None:
        yield HostFinding(Reason.SOURCE, "the kernel does not say which CPUs are isolated")
        return
    listed = {*isolated, *inputs.partitions}
    yield _covered(inputs, listed, "isolated from the scheduler", "isolcpus")
    # Other busy threads do not necessarily forward packets.
    roaming = {(p.program, p.tid, p.cpu) for p in inputs.pollers if p.kind and not p.pinned}
    for name, tid, last in sorted(roaming):
        fix = pinning(inputs, [tid])
        text = f"{name}[{tid}] polls and is not pinned: it runs on CPU {last} now"
        yield otherwise(text if fix else f"{text}, and no CPU is free for it", fix)


def tick(inputs: CheckInputs) -> HostFinding:
    """Whether the timer tick is off on the polling CPUs."""
    listed = inputs.tree.cpus(f"{CPU}/nohz_full")
    if listed is None:
        return HostFinding(
            Reason.HARDWARE, "this kernel can't switch the tick off (CONFIG_NO_HZ_FULL)"
        )
    return _covered(inputs, listed, "without a tick (nohz_full)", "nohz_full")


def callbacks(inputs: CheckInputs) -> HostFinding:
    """Whether RCU callbacks run on other CPUs than the polling ones."""
    line = inputs.tree.text("proc/cmdline")
    if line is None:
        return HostFinding(Reason.SOURCE, "the kernel's command line can't be read")
    listed = [word.partition("=")[2] for word in line.split() if word.startswith("rcu_nocbs=")]
    every = [info.cpu for info in inputs.topology.cpus]
    last = str(every[-1] if every else 0)  # may be called N
    try:
        named = {
            cpu
            for text in listed
            for cpu in (every if text == "all" else parse_cpu_list(re.sub(r"\bN\b", last, text)))
        }
    except ValueError:
        return HostFinding(Reason.ERROR, f"rcu_nocbs={listed[-1]} names no CPUs that can be read")
    # The kernel adds CPUs without a tick by itself.
    named |= set(inputs.tree.cpus(f"{CPU}/nohz_full") or ())
    return _covered(inputs, named, "without RCU callbacks (rcu_nocbs)", "rcu_nocbs")


def idle_states(inputs: CheckInputs) -> HostFinding:
    """Deepest idle state that the CPUs may enter."""
    try:
        request_us, unseen = _request_us(inputs), ""
    except PermissionError:
        request_us = _NO_REQUEST_US
        unseen = ", unless a program forbids it by /dev/cpu_dma_latency, which only root can read"
    except OSError as error:
        request_us, unseen = _NO_REQUEST_US, f"; /dev/cpu_dma_latency: {error.strerror}"
    usable = {cpu: _enabled(inputs, cpu, request_us) for cpu in inputs.checked_cpus}
    deepest = {cpu: states[-1] for cpu, states in usable.items() if states}
    if not deepest:
        driver = inputs.tree.text(f"{CPU}/cpuidle/current_driver") or "none"
        return HostFinding(
            Reason.HARDWARE, f"the kernel manages no idle states here (driver {driver})"
        )
    by_state: dict[_State, list[Cpu]] = {}
    for cpu, state in deepest.items():
        by_state.setdefault(state, []).append(cpu)
    text = "; ".join(
        f"{cpus(where)} may sleep as deep as {state.name}, {state.latency_us} us to wake up"
        for state, where in sorted(by_state.items(), key=lambda item: item[1][0])
    )
    if request_us < _NO_REQUEST_US:
        text += f"; a program holds all to {request_us} us by /dev/cpu_dma_latency"
    deep = [cpu for cpu in deepest if any(state.deep for state in usable[cpu])]
    if not deep:
        return as_advised(text)
    least = min(item.latency_us for cpu in deep for item in usable[cpu] if item.deep)
    return otherwise(text + unseen, f"sudo cpupower -c {format_cpu_list(deep)} idle-set -D {least}")


@dataclass(frozen=True, slots=True)
class _State:
    name: str
    latency_us: int

    @property
    def deep(self) -> bool:
        return _DEEP.fullmatch(self.name) is not None


def _request_us(inputs: CheckInputs) -> int:
    """Wake-up latency that programs request for all CPUs. Raises OSError."""
    try:
        raw = read_up_to(os.fspath(inputs.root / "dev/cpu_dma_latency"), 4)
    except FileNotFoundError:
        return _NO_REQUEST_US
    return int(struct.unpack("=i", raw)[0]) if len(raw) == 4 else _NO_REQUEST_US


def _enabled(inputs: CheckInputs, cpu: Cpu, request_us: int) -> list[_State]:
    """The idle states that a CPU may enter, the deepest last."""
    at = f"{CPU}/cpu{cpu}"
    hits = map(_STATE.fullmatch, inputs.tree.names(f"{at}/cpuidle"))
    numbers = sorted(int(hit[1]) for hit in hits if hit)
    # A limit of wake-up latency, which the kernel observes.
    limit = inputs.tree.text(f"{at}/power/pm_qos_resume_latency_us") or _ANY_LATENCY
    states = []
    for number in numbers:
        folder = f"{at}/cpuidle/state{number}"
        latency = inputs.tree.number(f"{folder}/latency")
        if latency is None or inputs.tree.number(f"{folder}/disable") != 0:
            continue
        if latency > request_us or (limit == _NO_LATENCY and latency > 0):
            continue
        if limit.isdecimal() and limit != _ANY_LATENCY and latency > int(limit):
            continue
        states.append(_State(inputs.tree.text(f"{folder}/name") or f"state {number}", latency))
    return states


def _covered(
    inputs: CheckInputs, covered: Collection[Cpu], what: str, parameter: str
) -> HostFinding:
    verb = "are" if len(covered) > 1 else "is"
    state = f"{cpus(sorted(covered)) if covered else 'none'} {verb} {what}"
    if not inputs.polled:
        none = NOBODY_POLLS if not inputs.pollers else "no thread that polls is pinned"
        return HostFinding(Reason.IDLE, f"{none}; {state}")
    missing = sorted(set(inputs.polled) - set(covered))
    if not missing:
        return as_advised(f"all polled CPUs are {what}: {cpus(inputs.polled)}")
    wanted = format_cpu_list(sorted({*covered, *inputs.polled}))
    programs = ", ".join(
        sorted({p.program for p in inputs.pollers if p.pinned and p.cpu in missing})
    )
    text = f"polled on by {programs} but not {what}: {cpus(missing)}; {state}"
    note, fix = kernel_parameters(inputs.root, **{parameter: wanted})
    return otherwise(f"{text}; {note}", fix)


# Clocks: the kernel's Documentation/admin-guide/pm/cpufreq.rst and intel_pstate.rst.
_NO_TURBO = f"{CPU}/intel_pstate/no_turbo"
_BOOST = f"{CPU}/cpufreq/boost"
_CLOCKSOURCE = "sys/devices/system/clocksource/clocksource0"


def turbo(inputs: CheckInputs) -> HostFinding:
    """Whether cores may run above their guaranteed frequency."""
    no_turbo, boost = inputs.tree.number(_NO_TURBO), inputs.tree.number(_BOOST)
    if no_turbo is None and boost is None:
        driver = (
            _of_cpu(inputs, inputs.checked_cpus[0], "scaling_driver")
            if inputs.checked_cpus
            else None
        )
        why = f"the kernel has no switch for turbo here (cpufreq driver {driver or 'none'})"
        return HostFinding(Reason.HARDWARE, why)
    path, is_off = (_NO_TURBO, no_turbo == 1) if no_turbo is not None else (_BOOST, boost == 0)
    if is_off:
        return as_advised(f"turbo is off (/{path})")
    ranges = {
        cpu: (_khz(inputs, cpu, "base_frequency"), _khz(inputs, cpu, "scaling_max_freq"))
        for cpu in inputs.checked_cpus
    }
    if ranges and all(base and most and most <= base for base, most in ranges.values()):
        return as_advised(
            f"turbo is on, but {cpus(inputs.checked_cpus)} may not run above base frequency"
        )
    tops = sorted({most for _, most in ranges.values() if most})
    upto = f": up to {tops[-1] / 1e6:.2f} GHz" if tops else ""
    bases = sorted({base for base, _ in ranges.values() if base})
    upto += f", {bases[0] / 1e6:.2f} GHz is guaranteed" if upto and bases else ""
    text = f"turbo is on{upto}"
    return otherwise(text, f"echo {int(no_turbo is not None)} | sudo tee /{path}")


def governor(inputs: CheckInputs) -> HostFinding:
    """Whether cores keep their frequency regardless of load."""
    by_governor: dict[str, list[Cpu]] = {}
    for cpu in inputs.checked_cpus:
        name = _of_cpu(inputs, cpu, "scaling_governor")
        if name:
            by_governor.setdefault(name, []).append(cpu)
    if not by_governor:
        return HostFinding(Reason.HARDWARE, "the kernel scales no core's frequency here")
    text = "; ".join(
        f"{cpus(where)}: {name}, {_range(inputs, where)}"
        for name, where in sorted(by_governor.items(), key=lambda item: item[1][0])
    )
    scaled = [
        cpu
        for name, where in by_governor.items()
        for cpu in where
        if name != "performance" and not _is_fixed(inputs, cpu)
    ]
    if scaled:
        listed = format_cpu_list(scaled)
        return otherwise(text, f"sudo cpupower -c {listed} frequency-set -g performance")
    return as_advised(text)


def clock_source(inputs: CheckInputs) -> HostFinding:
    """Whether the kernel's clock source is the TSC."""
    name = inputs.tree.text(f"{_CLOCKSOURCE}/current_clocksource")
    available = (inputs.tree.text(f"{_CLOCKSOURCE}/available_clocksource") or "").split()
    if name is None:
        return HostFinding(Reason.SOURCE, "the kernel does not name its clock source")
    if name == "tsc":
        return as_advised("the kernel's clock source is the TSC")
    if "tsc" in available:
        text = f"the kernel's clock source is {name}, and the TSC is available"
        return otherwise(text, f"echo tsc | sudo tee /{_CLOCKSOURCE}/current_clocksource")
    text = f"the kernel's clock source is {name}: it has no TSC, or distrusts it, and says why"
    return otherwise(text, "sudo dmesg | grep -i tsc")


def _of_cpu(inputs: CheckInputs, cpu: Cpu, name: str) -> str | None:
    return inputs.tree.text(f"{CPU}/cpu{cpu}/cpufreq/{name}", cpu=cpu)


def _khz(inputs: CheckInputs, cpu: Cpu, name: str) -> int | None:
    return inputs.tree.number(f"{CPU}/cpu{cpu}/cpufreq/{name}")


def _is_fixed(inputs: CheckInputs, cpu: Cpu) -> bool:
    least = _khz(inputs, cpu, "scaling_min_freq")
    return least is not None and least == _khz(inputs, cpu, "scaling_max_freq")


def _range(inputs: CheckInputs, where: list[Cpu]) -> str:
    least = [khz for cpu in where if (khz := _khz(inputs, cpu, "scaling_min_freq"))]
    most = [khz for cpu in where if (khz := _khz(inputs, cpu, "scaling_max_freq"))]
    if not least or not most:
        return "range unknown"
    return f"{min(least) / 1e6:.2f} to {max(most) / 1e6:.2f} GHz"


# Watchdogs and interrupts: Documentation/admin-guide/sysctl/kernel.rst, Documentation/core-api/irq.
_IRQ = "proc/irq"
_BALANCER = "irqbalance"
# Files in an interrupt's folder; its other entries are handlers.
_FILES = frozenset(
    ("affinity_hint", "effective_affinity", "effective_affinity_list", "node", "smp_affinity",
     "smp_affinity_list", "spurious")
)  # fmt: skip
_NAMED = 4  # interrupts; the others are counted


def watchdog(inputs: CheckInputs) -> HostFinding:
    """Whether the NMI watchdog interrupts every CPU and holds one of its counters."""
    state = inputs.tree.text("proc/sys/kernel/nmi_watchdog")
    if state is None:
        return HostFinding(Reason.HARDWARE, "this kernel has no NMI watchdog")
    if state == "0":
        return as_advised("the NMI watchdog is off")
    text = "the NMI watchdog is on: it interrupts CPUs and holds a counter of each"
    return otherwise(text, "sudo sysctl kernel.nmi_watchdog=0")


def balancer(inputs: CheckInputs) -> HostFinding:
    """Whether irqbalance moves interrupts."""
    pids = [pid for pid in inputs.tree.names("proc") if pid.isdecimal()]
    if not pids:
        return HostFinding(Reason.SOURCE, "no process can be seen in /proc")
    running = [pid for pid in pids if inputs.tree.text(f"proc/{pid}/comm") == _BALANCER]
    if running:
        return otherwise(
            f"irqbalance runs (process {', '.join(running)}): it may move interrupts to any CPU "
            "that IRQBALANCE_BANNED_CPULIST in its configuration does not name",
            "sudo systemctl disable --now irqbalance",
        )
    # Processes of other namespaces, or of other users under hidepid, are not visible.
    return as_advised(f"irqbalance is not among the {len(pids)} processes that can be seen")


def interrupts(inputs: CheckInputs) -> HostFinding:
    """Whether devices' interrupts go to polling CPUs."""
    if not inputs.polled:
        return HostFinding(Reason.IDLE, NOBODY_POLLS)
    numbers = sorted((name for name in inputs.tree.names(_IRQ) if name.isdecimal()), key=int)
    if not numbers:
        return HostFinding(Reason.SOURCE, "the kernel lists no interrupts (/proc/irq)")
    aimed: dict[str, set[Cpu]] = {}
    for number in numbers:
        # Those with a handler; others are never raised.
        users = sorted(set(inputs.tree.names(f"{_IRQ}/{number}")) - _FILES)
        where = _directed(inputs, number) & set(inputs.polled) if users else set()
        if where:
            aimed[f"{number} ({', '.join(users)})"] = where
    if not aimed:
        return as_advised(f"no device's interrupt is directed at {cpus(inputs.polled)}")
    named = ", ".join([*aimed][:_NAMED])
    more = f" and {len(aimed) - _NAMED} more" if len(aimed) > _NAMED else ""
    hit = sorted({cpu for where in aimed.values() for cpu in where})
    others = format_cpu_list(sorted(inputs.unprotected_cpus))
    loop = " ".join(item.split()[0] for item in aimed)
    fix = f"for i in {loop}; do echo {others} | sudo tee /proc/irq/$i/smp_affinity_list; done"
    return otherwise(
        f"interrupt {named}{more} directed at {cpus(hit)}, polled on", fix if others else ""
    )


def _directed(inputs: CheckInputs, number: str) -> set[Cpu]:
    """CPUs an interrupt goes to; before Linux 4.15 those it may go to."""
    for name in ("effective_affinity_list", "smp_affinity_list"):
        text = inputs.tree.text(f"{_IRQ}/{number}/{name}")
        if text:
            try:
                return set(parse_cpu_list(text))
            except ValueError:
                continue
    return set()


# The papers: "Benchmarking and Analysis of Software Data Planes", and "Deterministic Network
# Functions Virtualization with Intel Resource Director Technology".
_SDP, _RDT = "data planes paper", "RDT paper"


@dataclass(frozen=True, slots=True)
class HostCheck:
    """A row: its name after `host`, why it matters with a reference, and its function."""

    name: str
    why: str
    run: Callable[[CheckInputs], HostFinding | Iterable[HostFinding]]


ROWS: tuple[HostCheck, ...] = (
    HostCheck(
        "isolation",
        f"another task on a core that polls takes its time ({_SDP}, 10.1: 1.3; {_RDT}, 2.3.2)",
        isolation,
    ),
    HostCheck(
        "tick",
        f"frequent ticks cost latency ({_RDT}, 2.3.2; {_SDP}, 10.1: 1.3 asks for low jitter "
        "without naming ticks)",
        tick,
    ),
    HostCheck(
        "rcu", f"the kernel's deferred work runs on the core otherwise ({_RDT}, 2.3.2)", callbacks
    ),
    HostCheck(
        "c-states",
        "without deep states performance is more consistent, and the rate without drops better "
        f"({_SDP}, 10.1: 1.1); they cost latency ({_RDT}, 2.3.1)",
        idle_states,
    ),
    HostCheck(
        "turbo",
        f"a frequency that changes makes performance inconsistent ({_SDP}, 10.1: 1.1; {_RDT}, "
        "2.3.1)",
        turbo,
    ),
    HostCheck(
        "governor", f"changing speed states do so too ({_SDP}, 10.1: 1.1; {_RDT}, 2.3.1)", governor
    ),
    HostCheck(
        "clock source",
        f"a TSC that seems unreliable is checked continuously, which costs latency ({_RDT}, 2.3.2)",
        clock_source,
    ),
    HostCheck(
        "huge pages",
        f"they reduce page faults and TLB misses ({_RDT}, 2.3.2 and C.2.1)",
        devices.huge_pages,
    ),
    HostCheck(
        "memory channels",
        f"bandwidth grows with the number of channels ({_SDP}, 10.1: 1.5), which are to be used "
        "uniformly (10.2: 2.3)",
        devices.channels,
    ),
    HostCheck(
        "clusters",
        f"where memory is not used equally on all sockets, Cluster-on-Die is to be off ({_SDP}, "
        "10.1: 1.6)",
        devices.clusters,
    ),
    HostCheck(
        "nic",
        f"cores, memory and device on one node for the best latency ({_RDT}, 2.3.2); a NIC on one "
        f"socket and its application on both is one cause of traffic between them ({_SDP}, 9.2)",
        devices.nodes,
    ),
    HostCheck(
        "nic link",
        f"payload of 256 bytes, reads of 512 or more, no ASPM ({_SDP}, 10.1: 1.2)",
        devices.links,
    ),
    HostCheck(
        "nmi watchdog",
        f"off on the paper's host ({_RDT}, C.2.1); it takes a counter from top-down, too",
        watchdog,
    ),
    HostCheck(
        "irqbalance",
        f"it spreads interrupts over all cores ({_RDT}, 2.3.2: disable it; C.2.1: disabled there)",
        balancer,
    ),
    HostCheck(
        "interrupts", f"they belong on other cores than those that poll ({_RDT}, 2.3.2)", interrupts
    ),
    HostCheck(
        "real-time limit",
        "the rest is taken from a polling thread of a real-time policy: 50 ms of each second "
        f"({_RDT}, C.2.1: no limit there)",
        kernel.real_time,
    ),
    HostCheck(
        "vm statistics",
        f"the kernel's worker for them runs on every CPU that had changes ({_RDT}, C.2.1: 10 s)",
        kernel.stat_interval,
    ),
    HostCheck(
        "soft lockup",
        f"the timer and the thread of its watchdog wake the CPU ({_RDT}, C.2.1: off there)",
        kernel.soft_lockup,
    ),
    HostCheck(
        "iommu",
        f"a device handed to a guest or a program wants it on ({_RDT}, 2.3.2); translating each "
        "buffer of the kernel's own NICs costs time",
        kernel.iommu,
    ),
    HostCheck(
        "smi",
        f"firmware runs outside of the kernel meanwhile, which costs latency ({_RDT}, 2.3.1)",
        kernel.smi,
    ),
    HostCheck(
        "hyper-threading",
        f"threads of a core share its resources, which costs latency ({_RDT}, 2.3.1: off)",
        kernel.threads,
    ),
    HostCheck("qemu", f"real-time applications want dedicated CPUs ({_RDT}, 2.3.2)", kernel.guests),
    HostCheck(
        "microcode",
        "CPUs of different revisions may differ in what an instruction costs "
        "(Documentation/arch/x86/microcode.rst)",
        kernel.microcode,
    ),
    HostCheck(
        "memory bandwidth",
        f"shares of it are of what the modules can move; a load reaches less ({_SDP}, 7.1)",
        kernel.bandwidth,
    ),
)


def host_checks(
    root: Path,
    topology: Topology,
    pollers: tuple[Poller, ...] = (),
    quiet_cpus: frozenset[Cpu] = frozenset(),
) -> tuple[Check, ...]:
    """Every row, as doctor's lines. Never raises: a failed check is a line.

    `quiet_cpus` are not interrupted. A fix is a command of a shell.
    """
    pinned: dict[tuple[str, int | None], Cpu] = {}
    return tuple(
        check
        for row in ROWS
        for check in _run(row, CheckInputs(root, topology, pollers, quiet_cpus, pinned))
    )


def _run(row: HostCheck, inputs: CheckInputs) -> Iterator[Check]:
    """One row, with `CheckInputs` of its own, so that unreadable files are noted in this row."""
    name = f"host {row.name}"
    try:
        result = row.run(inputs)
        findings = (result,) if isinstance(result, HostFinding) else tuple(result)
    except Exception as error:  # noqa: BLE001 - the boundary: no check may stop another
        yield Check(name, Reason.ERROR, f"{type(error).__name__}: {error}", why=row.why)
        return
    notes = inputs.tree.notes()
    for item in findings:
        text = "; ".join([item.text, *notes]) if item is findings[-1] else item.text
        full = f"{name} {item.of}" if item.of else name
        yield Check(full, item.reason, text, item.fix, why=row.why, advised=item.advised)
