"""What /proc says of the lab's host: cpuinfo, stat, filesystems, mounts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from nftop.model.topology import CpuInfo, Topology
from nftop.sim.model import Model
from nftop.sim.payloads import cpu_times
from nftop.sim.workloads import INDEX
from tests.lab.cpuid.leaves import apic_id
from tests.lab.machine import Machine, vendor
from tests.lab.server import NAME


def cpuinfo(topology: Topology, machine: Machine) -> str:
    """/proc/cpuinfo, a paragraph for each online CPU; arch/x86/kernel/cpu/proc.c has its format.

    `[cpuinfo]` of the machine has what is the same for all of its CPUs.
    """
    sizes = {cache.id: cache.size_bytes for cache in topology.l3}
    table = dict(machine.tables["cpuinfo"])
    paragraphs = []
    for info in topology.cpus:
        if info.online:
            l3_size = 0 if info.l3 is None else sizes[info.l3]
            rows = _cpuinfo_rows(topology, info, table | {"vendor": vendor(machine)}, l3_size)
            paragraphs.append("".join(f"{_label(name)}: {value}\n" for name, value in rows))
    return "".join(f"{text}power management:\n\n" for text in paragraphs)


def _label(name: str) -> str:
    return f"{name}\t\t" if len(name) < 8 else f"{name}\t"


def _cpuinfo_rows(
    topology: Topology, info: CpuInfo, table: Mapping[str, Any], l3_size: int
) -> Iterator[tuple[str, object]]:
    package = [other for other in topology.cpus if other.package == info.package and other.online]
    cores = sorted({other.core for other in package if other.core is not None})
    core = cores.index(info.core) if info.core is not None else 0
    apic = apic_id(topology, info)
    mhz = table["mhz"]
    yield "processor", info.cpu
    yield "vendor_id", table["vendor"]
    yield "cpu family", table["family"]
    yield "model", table["model"]
    yield "model name", f"LAB: virtual {table['name']}"  # what `Host.lab` looks for
    yield "stepping", table["stepping"]
    yield "microcode", f"{table['microcode']:#x}"
    yield "cpu MHz", f"{mhz:.3f}"
    yield "cache size", f"{l3_size // 1024} KB"
    yield "physical id", info.package
    yield "siblings", len(package)
    yield "core id", core
    yield "cpu cores", len(cores)
    yield "apicid", apic
    yield "initial apicid", apic
    yield "fpu", "yes"
    yield "fpu_exception", "yes"
    yield "cpuid level", table["cpuid_level"]
    yield "wp", "yes"
    yield "flags", " ".join(table["flags"].split())
    yield "bogomips", f"{2 * mhz:.2f}"
    yield "clflush size", 64
    yield "cache_alignment", 64
    yield "address sizes", table["address_sizes"]


def stat(model: Model, t_ns: int, booted_s: int, online: Collection[int]) -> str:
    """/proc/stat of the simulated host, proc(5); `booted_s` is its boot in Unix time.

    What the model knows nothing of (interrupts, forks) is 0. It knows of no CPU that is offline
    either: such a one goes on, unseen.
    """
    times = cpu_times(model, t_ns)
    # guest and guest_nice come last, and are part of user and nice.
    rows = [f"cpu  {_numbers(times.ticks.sum(axis=0))} 0 0"]
    rows += [
        f"cpu{cpu} {_numbers(ticks)} 0 0"
        for cpu, ticks in zip(times.cpus, times.ticks, strict=True)
        if cpu in online
    ]
    switches = model.counts(t_ns)[:, INDEX["context_switches"]].sum()
    rows += ["intr 0", f"ctxt {switches}", f"btime {booted_s}", "processes 0"]
    rows += ["procs_running 1", "procs_blocked 0", "softirq 0"]
    return "\n".join([*rows, ""])


def _numbers(row: Any) -> str:
    return " ".join(map(str, row.tolist()))


def filesystems(real: str, *, resctrl: bool) -> str:
    """/proc/filesystems of a kernel that has resctrl or not, from that of this one."""
    line = "nodev\tresctrl\n"
    return real.replace(line, "") + (line if resctrl else "")


def mounts(real: str, resctrl: str | None) -> str:
    """/proc/mounts, from this process's own.

    Without what the lab itself mounted; with resctrl, if it is: where, and its options as the
    kernel prints them, `/sys/fs/resctrl rw,relatime`, or None.
    """
    rows = [row for row in real.splitlines() if not _ours(row)]
    if resctrl is not None:
        target, options = resctrl.split(" ")
        rows.append(f"resctrl {target} resctrl {options} 0 0")
    return "\n".join([*rows, ""])


def _ours(row: str) -> bool:
    source, target, kind, *_ = row.split()
    # The rest of /sys/fs is shown again in a folder that has room for resctrl.
    return source == NAME or (kind == "sysfs" and target.startswith("/sys/fs/"))
