"""What the handlers in changed programs ask (`rewrite.CALL`): CPUID of the CPU they are on."""

from __future__ import annotations

import errno
import functools
import os
from pathlib import Path

from tests.lab.calls import caller, seccomp
from tests.lab.calls.affinity import Placement
from tests.lab.calls.seccomp import Caught
from tests.lab.calls.supervisor import Handlers
from tests.lab.cpuid.rewrite import CALL
from tests.lab.tree import failed

_BYTES = 16
# A program leaves anything in ecx for a leaf that has none; an offset in a file has a sign.
_SUBLEAVES = (1 << 31) - 1


def handlers(devices: Path, placement: Placement) -> Handlers:
    """The call's handler; `devices` is where a `msr.tree.DeviceTree` is mounted."""
    return {CALL: functools.partial(_answer, devices, placement)}


def _answer(devices: Path, placement: Placement, listener: int, caught: Caught) -> None:
    """call(leaf, subleaf, where to write eax, ebx, ecx, edx)."""
    leaf, subleaf, address = caught.arguments[:3]
    cpu = placement.cpu(caught.tid)
    handle = os.open(devices / f"{cpu}/cpuid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.pread(handle, _BYTES, (subleaf & _SUBLEAVES) << 32 | leaf & 0xFFFFFFFF)
    finally:
        os.close(handle)
    if len(data) < _BYTES or not seccomp.waits(listener, caught):
        raise failed(errno.EIO)
    caller.store(caught.tid, address, data)
    seccomp.answer(listener, caught)
