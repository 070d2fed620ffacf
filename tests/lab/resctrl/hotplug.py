"""CPUs that go offline or come online: what becomes of the groups' CPUs.

Source: `resctrl_offline_cpu` and `resctrl_online_cpu` of arch/x86/kernel/cpu/resctrl, Linux 6.1.
No domain goes: a cache keeps a CPU.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tests.lab.resctrl.state import Resctrl, changed, everything


def follow(state: Resctrl, online: Collection[int]) -> None:
    """Have these CPUs and no others: who is gone is nobody's, who comes is the root's."""
    came = set(online) - state.hardware.online
    for group in everything(state):
        group.cpus &= set(online)
    state.root.cpus |= came
    state.hardware = replace(state.hardware, online=frozenset(online))
    changed(state)
