"""Threads and what processes ran on a CPU; without numpy, for what changes the host."""

from __future__ import annotations

from nftop.model.ids import Cpu
from nftop.model.struct import dataclass


@dataclass(frozen=True, slots=True)
class CpuUse:
    """What one process ran on a CPU between two scans of /proc.

    Attributes:
        name: its program, or the kernel thread (untrusted text).
        run_ns: run time of its threads that were last on this CPU, at least: for a process that was
            quiet at the first scan it is known by clock ticks.
        over_ns: time between the scans.
    """

    cpu: Cpu
    pid: int
    name: str
    run_ns: int
    over_ns: int


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """One thread of an NF or a possible poller.

    Attributes:
        start_ticks: start time in clock ticks since boot; identity together with tid.
        comm, program: name of the thread and of its process. Untrusted text.
        role: from its name: a role of `model.nf.kinds`, `qemu_vcpu`, or "".
        role_index: number in that name (lcore id, worker index), or None.
        allowed: CPUs it may run on. last_cpu: where it ran last.
        run_ns, wait_ns: cumulative time on a CPU and waiting for one; without schedstat run_ns is
            in clock ticks and wait_ns None.
        voluntary, involuntary: cumulative context switches.
        container: whether its mount namespace differs from nftop's; None if unknown.
        read_at_ns: CLOCK_MONOTONIC when run_ns and wait_ns were read.
        vm: name of the virtual machine that its process runs (untrusted text), or "".
    """

    pid: int
    tid: int
    start_ticks: int
    comm: str
    program: str
    role: str
    role_index: int | None
    allowed: tuple[Cpu, ...]
    last_cpu: Cpu
    run_ns: int
    wait_ns: int | None
    voluntary: int
    involuntary: int
    container: bool | None
    read_at_ns: int
    vm: str = ""

    @property
    def label(self) -> str:
        """Name on the screen: the thread's, or that of the VM whose virtual CPU it is."""
        if self.role != "qemu_vcpu" or not self.vm:
            return self.comm
        return f"{self.vm} vCPU {self.role_index}"
