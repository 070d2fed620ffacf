"""Kernel, firmware and guests: what takes time from polling cores without being a process.

Files: the kernel's Documentation/scheduler/sched-rt-group.rst, Documentation/admin-guide/sysctl
(kernel.rst, vm.rst), Documentation/ABI/testing/sysfs-kernel-iommu_groups, proc(5). MSR_SMI_COUNT
(0x34): Intel SDM volume 4.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence

from nftop.model.ids import Cpu, format_cpu_list, parse_cpu_list
from nftop.model.missing import Reason
from nftop.model.peaks import memory_peak_bytes_per_s, modules_peak_bytes_per_s, usual_modules
from nftop.sources.host.sysfs import link_target
from nftop.sources.host.topology import read_capacity, read_cpuid
from nftop.sources.resctrl.files import GUEST, cpu_flags
from nftop.sources.tuning.devices import nics
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
from nftop.uarch.table import identify

_SYSCTL = "proc/sys/kernel"
_REAL_TIME = {"1": "SCHED_FIFO", "2": "SCHED_RR"}
_POLICY_FIELD = 38  # of those behind the name in /proc/PID/stat
_STAT_INTERVAL_S = 10  # from this on it is seldom
_SMI_COUNT, _MSR_BYTES, _SMI_WATCH_S = 0x34, 8, 1.0


def real_time(inputs: CheckInputs) -> HostFinding:
    """Whether the kernel takes time from polling threads of real-time policies."""
    runtime = inputs.tree.text(f"{_SYSCTL}/sched_rt_runtime_us")
    period = inputs.tree.number(f"{_SYSCTL}/sched_rt_period_us")
    if runtime is None or not period:
        return HostFinding(Reason.HARDWARE, "this kernel limits no real-time threads")
    if runtime == "-1":
        return as_advised("real-time threads are not limited (sched_rt_runtime_us is -1)")
    text = f"real-time threads may run {runtime} of {period} us"
    users = sorted(
        f"{poller.program}[{poller.tid}] ({_REAL_TIME[policy]}) on CPU {poller.cpu}"
        for poller in inputs.pollers
        if (policy := _policy(inputs, poller)) in _REAL_TIME
    )
    if not users:
        return as_advised(f"{text}, and no thread that polls is one")
    return otherwise(
        f"{text}: the rest is taken from {', '.join(users)}",
        "sudo sysctl kernel.sched_rt_runtime_us=-1",
    )


def _policy(inputs: CheckInputs, poller: Poller) -> str:
    """The scheduling policy of a thread, as /proc/PID/task/TID/stat has it; "" if unknown."""
    text = inputs.tree.text(f"proc/{poller.pid}/task/{poller.tid}/stat") or ""
    fields = text.rpartition(")")[2].split()
    return fields[_POLICY_FIELD] if len(fields) > _POLICY_FIELD else ""


def stat_interval(inputs: CheckInputs) -> HostFinding:
    """How often the kernel folds statistics of memory on every CPU."""
    seconds = inputs.tree.number("proc/sys/vm/stat_interval")
    if seconds is None:
        return HostFinding(Reason.HARDWARE, "this kernel has no vm.stat_interval")
    text = f"the kernel folds each CPU's statistics of memory every {seconds} s"
    if not inputs.polled:
        return HostFinding(Reason.IDLE, f"{NOBODY_POLLS}; {text}")
    if seconds >= _STAT_INTERVAL_S:
        return as_advised(text)
    return otherwise(text, "sudo sysctl vm.stat_interval=120")


def soft_lockup(inputs: CheckInputs) -> HostFinding:
    """Whether the soft-lockup watchdog wakes polling CPUs."""
    state = inputs.tree.text(f"{_SYSCTL}/soft_watchdog")
    if state is None:
        return HostFinding(Reason.HARDWARE, "this kernel has no soft-lockup watchdog")
    if state == "0":
        return as_advised("the soft-lockup watchdog is off")
    watched = inputs.tree.text(f"{_SYSCTL}/watchdog_cpumask")
    try:
        watched_cpus = set(parse_cpu_list(watched or ""))
    except ValueError:
        watched_cpus = set()
    if not watched_cpus:
        text = "the soft-lockup watchdog is on, and the kernel does not say for which CPUs"
        text += f": kernel.watchdog_cpumask is {watched}" if watched else ""
        return HostFinding(Reason.ERROR if watched else Reason.SOURCE, text)
    hit = sorted(watched_cpus & set(inputs.polled))
    text = f"the soft-lockup watchdog is on for {cpus(sorted(watched_cpus))}"
    if not inputs.polled:
        return HostFinding(Reason.IDLE, f"{NOBODY_POLLS}; {text}")
    if not hit:
        return as_advised(f"{text}, none of them polled on")
    others = format_cpu_list(sorted(watched_cpus - set(hit)))
    fix = (
        f"sudo sysctl kernel.watchdog_cpumask={others}"
        if others
        else ("sudo sysctl kernel.soft_watchdog=0")
    )
    return otherwise(f"{text}: it wakes {cpus(hit)}, polled on, every few seconds", fix)


def iommu(inputs: CheckInputs) -> HostFinding:
    """Whether the kernel's NICs pay for translation, and programs' NICs are isolated."""
    if not (inputs.root / "sys/class/iommu").is_dir():
        return HostFinding(Reason.HARDWARE, "this kernel knows no IOMMU")
    units = sorted(inputs.tree.names("sys/class/iommu"))
    devices = nics(inputs.tree, inputs.root)
    by_vfio = [nic.address for nic in devices if nic.driver == "vfio-pci"]
    if not units:
        text = "no IOMMU is on"
        if not by_vfio:
            return as_advised(text)
        text += f", and vfio-pci drives {', '.join(by_vfio)}: no memory is safe from them"
        firmware = "the BIOS has a switch for it (VT-d, AMD-Vi)"
        if (read_cpuid(inputs.root) or "?")[0] != "GenuineIntel":
            return otherwise(f"{text}; {firmware}")
        note, fix = kernel_parameters(inputs.root, intel_iommu="on", iommu="pt")
        return otherwise(f"{text}; {note}; {firmware}", fix)
    modes: dict[str, list[str]] = {}
    for nic in devices:
        group = link_target(inputs.root / f"sys/bus/pci/devices/{nic.address}/iommu_group")
        number = group.rpartition("/")[2]
        mode = inputs.tree.text(f"sys/kernel/iommu_groups/{number}/type")
        if mode and nic.driver and not nic.for_programs:
            modes.setdefault(mode, []).append(nic.address)
    text = f"the IOMMU is on ({', '.join(units)})"
    listed = "; ".join(f"{mode}: {', '.join(where)}" for mode, where in sorted(modes.items()))
    text += f", the kernel's NICs by mode: {listed}" if listed else ""
    if any(mode.startswith("DMA") for mode in modes):
        note, fix = kernel_parameters(inputs.root, iommu="pt")
        return otherwise(f"{text}; DMA maps every buffer anew; {note}", fix)
    return as_advised(text)


def smi(inputs: CheckInputs) -> HostFinding:
    """Whether firmware interrupts CPUs now: the count of a CPU that may be interrupted, twice.

    Firmware interrupts all CPUs at once.
    """
    free = inputs.unprotected_cpus
    if not free:
        why = "reading would interrupt a CPU: each polls, is isolated, quiet or has a pinned vCPU"
        return HostFinding(Reason.SOURCE, why)
    cpu = free[-1]  # CPU 0 if it may be
    try:
        first = _smi_count(inputs, cpu)
        time.sleep(_SMI_WATCH_S)
        second = _smi_count(inputs, cpu)
    except FileNotFoundError:
        if is_guest := GUEST in cpu_flags(inputs.root):
            why = "a guest has no count of system management interrupts"
        else:
            why = "the count of system management interrupts needs the module msr"
        fix = "" if is_guest else "sudo modprobe msr"
        return HostFinding(Reason.HARDWARE if is_guest else Reason.SOURCE, why, fix)
    except PermissionError:
        why = "only root can read the count of system management interrupts"
        return HostFinding(Reason.PERMISSION, why, "sudo nftop doctor")
    except OSError as error:
        return HostFinding(Reason.HARDWARE, f"this CPU has no count of SMIs: {error.strerror}")
    text = f"{second} system management interrupts since the start"
    if second == first:
        return as_advised(f"{text}, none in the last second")
    return otherwise(
        f"{text}, {second - first} in the last second: firmware stops all CPUs for each; the BIOS "
        "has switches for its sources, and the command counts those that are left",
        f"sudo perf stat -C {cpu} -e msr/smi/ -- sleep 60",
    )


def _smi_count(inputs: CheckInputs, cpu: Cpu) -> int:
    handle = os.open(inputs.root / f"dev/cpu/{cpu}/msr", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int.from_bytes(os.pread(handle, _MSR_BYTES, _SMI_COUNT)[:4], "little")
    finally:
        os.close(handle)


def threads(inputs: CheckInputs) -> HostFinding:
    """Whether hyper-thread siblings of polling CPUs are free for other tasks."""
    if not inputs.topology.cpus:
        return HostFinding(Reason.SOURCE, "the kernel lists no CPUs")
    if not any(info.siblings for info in inputs.topology.cpus):
        return as_advised("a core has one thread: hyper-threading is off")
    if not inputs.polled:
        return HostFinding(Reason.IDLE, f"{NOBODY_POLLS}; hyper-threading is on")
    isolated = set(inputs.tree.cpus(f"{CPU}/isolated") or ())
    siblings = inputs.topology.with_siblings(inputs.polled) - set(inputs.polled)
    open_to_all = sorted(siblings - isolated)
    if not open_to_all:
        return as_advised("hyper-threading is on; siblings of polled CPUs poll or are isolated")
    fix = (
        f"for c in {' '.join(map(str, open_to_all))}; do echo 0 | sudo tee "
        f"/{CPU}/cpu$c/online; done"
    )
    text = f"{cpus(open_to_all)} share cores with polled CPUs, and any task may run there"
    return otherwise(text, fix)


def guests(inputs: CheckInputs) -> Iterator[HostFinding]:
    """Whether vCPUs of QEMU have a CPU each, away from those that poll."""
    if not inputs.vcpus:
        yield HostFinding(Reason.IDLE, "no QEMU is among the processes that can be seen")
    users: dict[Cpu, list[str]] = {}  # TIDs of the vCPUs that are pinned to it, of all machines
    for vcpus in inputs.vcpus.values():
        for _, (tid, where) in sorted(vcpus.items()):
            if len(where) == 1:
                users.setdefault(where[0], []).append(tid)
    for pid, vcpus in inputs.vcpus.items():
        yield _vcpus(inputs, pid, dict(sorted(vcpus.items())), users)


def _vcpus(
    inputs: CheckInputs,
    pid: str,
    allowed: Mapping[int, tuple[str, tuple[Cpu, ...]]],
    users: Mapping[Cpu, Sequence[str]],
) -> HostFinding:
    if not allowed:
        return HostFinding(Reason.SOURCE, "its threads name no vCPUs", of=pid)
    alone = {vcpu: where[0] for vcpu, (_, where) in allowed.items() if len(where) == 1}
    polled = [vcpu for vcpu, cpu in alone.items() if cpu in inputs.polled]
    shared = [vcpu for vcpu, cpu in alone.items() if len(users[cpu]) > 1]
    flaws = {
        "may run on several CPUs": [vcpu for vcpu in allowed if vcpu not in alone],
        "runs where others poll": polled,
        "shares its CPU with another vCPU": shared,
    }
    texts = [f"vCPU {', '.join(map(str, vcpus))} {flaw}" for flaw, vcpus in flaws.items() if vcpus]
    if not texts:
        return as_advised(f"each of {len(allowed)} vCPUs has a CPU of its own", of=pid)
    # The first vCPU of a CPU may stay there.
    moved = [
        tid
        for vcpu, (tid, _) in allowed.items()
        if vcpu not in alone or vcpu in polled or tid != users[alone[vcpu]][0]
    ]
    fix = pinning(inputs, moved)
    texts += [] if fix or not moved else ["too few CPUs are free for them"]
    return otherwise("; ".join(texts), fix, of=pid)


def microcode(inputs: CheckInputs) -> HostFinding:
    """Whether all CPUs run one revision of microcode."""
    info = inputs.tree.text("proc/cpuinfo", _CPUINFO_BYTES) or ""
    revisions: dict[str, list[Cpu]] = {}
    cpu = Cpu(0)
    for line in info.splitlines():
        name, _, value = (word.strip() for word in line.partition(":"))
        if name == "processor" and value.isdecimal():
            cpu = Cpu(int(value))
        elif name == "microcode":
            revisions.setdefault(value, []).append(cpu)
    if not revisions:
        return HostFinding(Reason.HARDWARE, "the kernel does not say which microcode runs")
    if len(revisions) == 1:
        return as_advised(f"microcode {next(iter(revisions))} on all CPUs")
    listed = "; ".join(f"{name} on {cpus(where)}" for name, where in revisions.items())
    text = f"microcode differs: {listed}; loaded at boot it is the same on all"
    package = "intel-microcode" if "GenuineIntel" in info else "amd64-microcode"
    install = f"sudo apt-get install {package}"
    if (inputs.root / "usr/bin/dnf").exists():
        install = "sudo dnf upgrade microcode_ctl linux-firmware"
    return otherwise(f"{text}; it takes effect after a reboot", install)


_CPUINFO_BYTES = 4 << 20
_MLC = "sudo mlc --max_bandwidth"
_MEASURE = "measure it by Intel's mlc, without traffic, for nftop's --memory-peak"


def bandwidth(inputs: CheckInputs) -> HostFinding:
    """What memory can move by its modules, and whether that is what the CPU could have."""
    if GUEST in cpu_flags(inputs.root):
        return HostFinding(Reason.HARDWARE, "a guest does not see the modules of its host")
    cpuid = read_cpuid(inputs.root)
    uarch = "generic" if cpuid is None else identify(*cpuid)
    channels, fastest = usual_modules(uarch)
    capacity = read_capacity(inputs.root)
    packages = len(inputs.topology.packages)
    modules = capacity.memory_modules // max(packages, 1)
    peak = modules_peak_bytes_per_s(uarch, modules, capacity.memory_transfers_per_s)
    if not channels:
        return HostFinding(Reason.SOURCE, "nftop knows no channels of this CPU's memory", _MLC)
    if peak is None:
        most = memory_peak_bytes_per_s(uarch) or 0.0
        text = f"at most {most / 1e9:.0f} GB/s a package: firmware lists no modules, or not to you"
        return HostFinding(Reason.SOURCE, f"{text}; {_MEASURE}", _MLC)
    text = (
        f"{peak / 1e9:.0f} GB/s a package at most: {min(modules, channels)} of {channels} channels "
        f"at {capacity.memory_transfers_per_s / 1e6:.0f} MT/s; {_MEASURE}"
    )
    if modules >= channels and capacity.memory_transfers_per_s >= fastest * _SAME_SPEED:
        return as_advised(text)
    return otherwise(f"{text}; this CPU could have {fastest / 1e6:.0f} MT/s in each", _MLC)


_SAME_SPEED = 0.99
