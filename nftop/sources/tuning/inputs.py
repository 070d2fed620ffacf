"""Input and results of checks of the host."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path

from nftop.model.ids import Cpu, format_cpu_list, parse_cpu_list
from nftop.model.missing import Reason
from nftop.model.struct import dataclass, field
from nftop.model.topology import Topology
from nftop.sources.host.sysfs import SysTree

CPU = "sys/devices/system/cpu"
NOBODY_POLLS = "no thread polls here now"
_VCPU = re.compile(r"CPU (\d{1,4})/(?:KVM|TCG)")


@dataclass(frozen=True, slots=True)
class Poller:
    """A thread that polls."""

    cpu: Cpu  # where it polls; if not pinned, where it was last
    pinned: bool  # it may run nowhere else
    pid: int  # its process, with the name `program` (untrusted text)
    tid: int
    program: str
    kind: str  # nftop's kind of network function; "" if its name has none


@dataclass(frozen=True)
class CheckInputs:
    """A host with file system `root`, and its polling threads; `tree` reads below `root`.

    `quiet_cpus` must not be interrupted. `pinned` has the CPUs that fixes of this run give to
    threads, by TID and NUMA node; rows share it.
    """

    root: Path
    topology: Topology
    pollers: tuple[Poller, ...] = ()
    quiet_cpus: frozenset[Cpu] = frozenset()
    pinned: dict[tuple[str, int | None], Cpu] = field(default_factory=dict)

    @cached_property
    def tree(self) -> SysTree:
        return SysTree(self.root)

    @cached_property
    def polled(self) -> tuple[Cpu, ...]:
        """The CPUs that pinned threads poll on, ascending."""
        return tuple(sorted({poller.cpu for poller in self.pollers if poller.pinned}))

    @cached_property
    def checked_cpus(self) -> tuple[Cpu, ...]:
        """The polled CPUs, or every online CPU if none is polled."""
        return self.polled or tuple(info.cpu for info in self.topology.cpus if info.online)

    @cached_property
    def free_cpus(self) -> tuple[Cpu, ...]:
        """Online CPUs whose core neither polls, is quiet nor has a pinned vCPU.

        Isolated ones first, CPU 0 last.
        """
        guests = {
            where[0]
            for vcpus in self.vcpus.values()
            for _, where in vcpus.values()
            if len(where) == 1
        }
        taken = self.topology.with_siblings({*self.polled, *self.quiet_cpus, *guests})
        free = [info for info in self.topology.cpus if info.online and info.cpu not in taken]
        free.sort(key=lambda info: (info.cpu == 0, not info.isolated, info.cpu))
        return tuple(info.cpu for info in free)

    @cached_property
    def unprotected_cpus(self) -> tuple[Cpu, ...]:
        """Those of `free_cpus` that may be interrupted: neither isolated, tickless nor given away.

        A thread that nftop does not recognise may poll on an isolated CPU.
        """
        apart = {info.cpu for info in self.topology.cpus if info.isolated or info.nohz_full}
        apart |= {*self.partitions, *self.topology.with_siblings(self.pinned.values())}
        return tuple(cpu for cpu in self.free_cpus if cpu not in apart)

    @cached_property
    def partitions(self) -> tuple[Cpu, ...]:
        """CPUs isolated by control groups; known from Linux 6.8 on."""
        text = self.tree.text("sys/fs/cgroup/cpuset.cpus.isolated")
        try:
            return parse_cpu_list(text) if text else ()
        except ValueError:
            return ()

    @cached_property
    def vcpus(self) -> Mapping[str, Mapping[int, tuple[str, tuple[Cpu, ...]]]]:
        """By PID of each QEMU: by vCPU the TID of its thread, and the CPUs where it may run."""
        machines: dict[str, dict[int, tuple[str, tuple[Cpu, ...]]]] = {}
        for pid in sorted(filter(str.isdecimal, self.tree.names("proc")), key=int):
            if (self.tree.text(f"proc/{pid}/comm") or "").startswith("qemu"):
                mine = machines.setdefault(pid, {})
                for tid in self.tree.names(f"proc/{pid}/task"):
                    at = f"proc/{pid}/task/{tid}"
                    match = _VCPU.fullmatch(self.tree.text(f"{at}/comm") or "")
                    status = self.tree.text(f"{at}/status") or ""
                    listed = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
                    if match and listed:
                        mine[int(match[1])] = tid, parse_cpu_list(listed[1])
        return machines

    def nodes_of(self, cpus: Iterable[Cpu]) -> tuple[int, ...]:
        """The known NUMA nodes of these CPUs, ascending."""
        rows = (
            self.topology.cpus[self.topology.row_of[c]] for c in cpus if c in self.topology.row_of
        )
        return tuple(sorted({info.node for info in rows if info.node is not None}))


@dataclass(frozen=True, slots=True)
class HostFinding:
    """Result of a check."""

    reason: Reason  # PRESENT if it could be read
    text: str  # the result, in a sentence
    fix: str = ""  # a command for a shell; "" if none helps here
    advised: bool = True  # False if it was read and is not as the papers advise
    of: str = ""  # the item of the check (a NIC); "" if there is one result


def as_advised(text: str, of: str = "") -> HostFinding:
    return HostFinding(Reason.PRESENT, text, of=of)


def otherwise(text: str, fix: str = "", of: str = "") -> HostFinding:
    """Read, and not as the papers advise."""
    return HostFinding(Reason.PRESENT, text, fix, advised=False, of=of)


def pinning(inputs: CheckInputs, tids: Collection[int | str], node: int | None = None) -> str:
    """Commands that give each thread a core of its own, on `node` if given; "" if too few are free.

    No other fix of this run gets these CPUs or their siblings.
    """
    given = dict(inputs.pinned)
    for tid in map(str, tids):
        taken = inputs.topology.with_siblings(given.values())
        free = (
            cpu
            for cpu in inputs.free_cpus
            if cpu not in taken and (node is None or inputs.nodes_of((cpu,)) == (node,))
        )
        if (tid, node) not in given:
            cpu = next(free, None)
            if cpu is None:
                return ""
            given[tid, node] = cpu
    inputs.pinned.update(given)
    return "; ".join(f"sudo taskset -pc {given[str(tid), node]} {tid}" for tid in tids)


_DROP_INS, _LINES = "etc/default/grub.d", ("GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT")
# Options that a new value replaces; others of the parameter stay. Of one without a row: all.
_REPLACED = {"isolcpus": r"[0-9N].*|all", "pci": r"pcie_bus_\w+", "intel_iommu": "on|off",
             "iommu": "pt|nopt|off"}  # fmt: skip
_OPTIONS = re.compile(r"[\w.,:=@/+-]*")  # no shell reads one as anything else


def kernel_parameters(root: Path, **values: str) -> tuple[str, str]:
    """Sentence on parameters that the kernel needs at boot, and the command that sets them.

    Options that the kernel was booted with are kept, other values replaced. The command is "" if it
    was booted with all of it, or the boot loader's files are unknown. GRUB of Debian and its
    derivatives sources the folder of drop-ins in a shell; elsewhere there is grubby(8).
    """
    tree = SysTree(root)
    words = [word.partition("=") for word in (tree.text("proc/cmdline") or "").split()]
    whole = dict[str, str]()
    for name, value in values.items():
        old = [option for word, _, text in words if word == name for option in text.split(",")]
        kept = [o for o in old if o and not re.fullmatch(_REPLACED.get(name, ".*"), o)]
        kept += ["domain"] if name == "isolcpus" and kept and "domain" not in kept else []
        new = [option for option in value.split(",") if option not in kept]
        whole[name] = ",".join([*kept, *new])
    texts = [f"{name}={value}" for name, value in whole.items()]
    listed = " ".join(texts)
    if all((name, "=", value) in words for name, value in whole.items()):
        return f"the kernel was booted with {listed}", ""
    mkconfig = tree.text("usr/sbin/grub-mkconfig") or ""
    if not all(map(_OPTIONS.fullmatch, texts)):
        return f"boot the kernel with {listed}", ""
    if "/default/grub.d/" in mkconfig and (root / "usr/sbin/update-grub").exists():
        edits = "".join(f"s/ {name}=[^ ]*//g;" for name in whole)
        first, second = (f'{line}="$(printf %s " ${line}" | sed "{edits}"){{}}"' for line in _LINES)
        file = f"/{_DROP_INS}/99-nftop-{'-'.join(whole)}.cfg"
        command = f"printf '%s\\n' '{first.format(' ' + listed)}' '{second.format('')}' | "
        command += f"sudo tee {file} && sudo update-grub"
        if not (root / _DROP_INS).is_dir():
            command = f"sudo mkdir -p /{_DROP_INS} && {command}"
    elif (root / "usr/sbin/grubby").exists():
        command = f'sudo grubby --update-kernel=ALL --args="{listed}"'
    else:
        return f"boot the kernel with {listed}", ""
    return f"{listed} takes effect after a reboot", command


def cpus(listed: Iterable[Cpu]) -> str:
    """`CPU 4-7`."""
    return f"CPU {format_cpu_list(listed)}"
