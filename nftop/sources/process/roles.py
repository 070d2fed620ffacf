"""What a thread is for, as its name says.

Names are set by the frameworks themselves, so they tell more than a program's name does; the
kernel keeps 15 bytes of them. Where each comes from:

- DPDK, lib/eal/linux/eal.c: `lcore-slave-N` until 20.08, `lcore-worker-N` until 22.07,
  `rte-worker-N` until 23.07, `dpdk-workerN` since.
- Open vSwitch, lib/dpif-netdev.c: `pmd-cNN/id:M`, where NN is the CPU it polls on.
- VPP, src/vlib/threads.c: `vpp_main`, `vpp_wk_N`. grout: `grout:wN`. QEMU, accel/: `CPU N/KVM`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nftop.model.nf.kinds import NF_KINDS

_COMM_BYTES = 15


@dataclass(frozen=True, slots=True)
class Role:
    """A `ThreadRow.role` and its `role_index`."""

    name: str
    index: int | None = None


NO_ROLE = Role("")

_ROLES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("dpdk_lcore", re.compile(r"(?:lcore-slave-|lcore-worker-|rte-worker-|dpdk-worker)([0-9]+)")),
    ("ovs_pmd", re.compile(r"pmd-c([0-9]+)/id:[0-9]*")),
    ("vpp_main", re.compile(r"vpp_main")),
    ("vpp_worker", re.compile(r"vpp_wk_([0-9]+)")),
    ("grout_worker", re.compile(r"grout:w([0-9]+)")),
    ("qemu_vcpu", re.compile(r"CPU ([0-9]+)/(?:KVM|TCG)")),
)
# Threads that EAL starts in every application, whatever else its threads are called.
_EAL_SERVICE = re.compile(
    r"eal-intr-thread|dpdk-intr|rte_mp_handle|dpdk-mp-msg|(?:telemetry|dpdk-telemet)(?:-v?[12]?)?"
)
# Main threads of programs that also forward without any thread of such a name; the second is
# Debian's ovs-vswitchd-dpdk, as far as the kernel keeps it.
_NFS_WITHOUT_POLLERS = frozenset({"ovs-vswitchd", "ovs-vswitchd-dp"})
# In these the framework owns the main thread, and EAL's main lcore forwards nothing.
_OTHER_FRAMEWORKS = frozenset(role for role, kind in NF_KINDS.items() if kind != "dpdk")


def role_of(comm: str) -> Role:
    """The role a thread's name tells; `NO_ROLE` if it tells none."""
    for name, pattern in _ROLES:
        if hit := pattern.fullmatch(comm):
            return Role(name, int(hit[1]) if hit.groups() else None)
    return NO_ROLE


def has_dpdk_main(comms: Sequence[str]) -> bool:
    """Whether a process with threads of these names is an application with a DPDK main lcore."""
    roles = {role_of(comm).name for comm in comms}
    if roles & _OTHER_FRAMEWORKS:
        return False
    return "dpdk_lcore" in roles or any(map(_EAL_SERVICE.fullmatch, comms))


def is_nf(comms: Sequence[str]) -> bool:
    """Whether a process with threads of these names is a network function in user space."""
    known = any(role_of(comm).name in NF_KINDS for comm in comms)
    return known or has_dpdk_main(comms) or not _NFS_WITHOUT_POLLERS.isdisjoint(comms)


def settle_index(role: Role, comm: str, allowed: Sequence[int]) -> Role:
    """The role without its index where the kernel may have cut the last digit off.

    `lcore-worker-10` fills the name, so it is lcore 10 as well as any of 100 to 109. EAL numbers
    lcores after CPUs unless told otherwise: a thread that may run on a CPU such as 104 only can't
    be taken for lcore 10, nor with certainty for 104.
    """
    cut = len(comm.encode()) == _COMM_BYTES and comm[-1:].isdigit()
    if not cut or role.index is None or len(allowed) != 1:
        return role
    cpu = str(allowed[0])
    uncertain = cpu.startswith(str(role.index)) and cpu != str(role.index)
    return Role(role.name) if uncertain else role
