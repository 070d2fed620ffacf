"""Input and results of checks of the host."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.missing import Reason
from nftop.model.struct import dataclass
from nftop.model.topology import Topology
from nftop.sources.host.sysfs import SysTree

CPU = "sys/devices/system/cpu"
NOBODY_POLLS = "no thread polls here now"


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

    `quiet_cpus` must not be interrupted.
    """

    root: Path
    topology: Topology
    pollers: tuple[Poller, ...] = ()
    quiet_cpus: frozenset[Cpu] = frozenset()

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
        """Online CPUs whose core neither polls nor is quiet: isolated ones first, CPU 0 last."""
        taken = self.topology.with_siblings({*self.polled, *self.quiet_cpus})
        free = [info for info in self.topology.cpus if info.online and info.cpu not in taken]
        free.sort(key=lambda info: (info.cpu == 0, not info.isolated, info.cpu))
        return tuple(info.cpu for info in free)

    def nodes_of(self, cpus: Iterable[Cpu]) -> tuple[int, ...]:
        """The known NUMA nodes of these CPUs, ascending."""
        rows = (self.topology.cpus[self.topology.row_of[c]] for c in cpus
                if c in self.topology.row_of)  # fmt: skip
        return tuple(sorted({info.node for info in rows if info.node is not None}))


@dataclass(frozen=True, slots=True)
class HostFinding:
    """Result of a check."""

    reason: Reason  # PRESENT if it could be read
    text: str  # the result, in a sentence
    fix: str = ""  # a command, or what to do; "" if nothing need be done
    advised: bool = True  # False if it was read and is not as the papers advise
    of: str = ""  # the item of the check (a NIC); "" if there is one result


def as_advised(text: str, of: str = "") -> HostFinding:
    return HostFinding(Reason.PRESENT, text, of=of)


def otherwise(text: str, fix: str = "", of: str = "") -> HostFinding:
    """Read, and not as the papers advise."""
    return HostFinding(Reason.PRESENT, text, fix, advised=False, of=of)


def pinning(inputs: CheckInputs, tids: Iterable[int | str], node: int | None = None) -> str:
    """Commands that give each thread a free CPU, of `node` if given; "" if too few are free."""
    free = [cpu for cpu in inputs.free_cpus if node is None or inputs.nodes_of((cpu,)) == (node,)]
    threads = list(tids)
    if len(free) < len(threads):
        return ""
    pairs = zip(free, threads, strict=False)
    return "; ".join(f"sudo taskset -pc {cpu} {tid}" for cpu, tid in pairs)


_BOOT_FILE, _ALL_LINES = "/etc/default/grub", "GRUB_CMDLINE_LINUX"


def kernel_parameters(root: Path, **values: str) -> str:
    """The command that sets parameters of the kernel's command line, in place of older values."""
    texts = [f"{name}={value}" for name, value in values.items()]
    if (root / "usr/sbin/grubby").exists():
        return f'sudo grubby --update-kernel=ALL --args="{" ".join(texts)}"  # then reboot'
    older = "|".join(values)
    edit = rf's/ ?\b({older})=[^" ]*//g; s/^{_ALL_LINES}="/&{" ".join(texts)} /'
    return f"sudo sed -Ei '{edit}' {_BOOT_FILE} && sudo update-grub  # then reboot"


def cpus(listed: Iterable[Cpu]) -> str:
    """`CPU 4-7`."""
    return f"CPU {format_cpu_list(listed)}"
