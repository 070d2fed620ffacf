"""IIO LLC WAYS, the register that says into which ways of the L3 devices write (DDIO).

MSR 0xC8B of a package, a bit for each way; 0x600 when a Skylake-SP starts. Not in Intel's SDM:
A. Farshin and others, "Reexamining Direct Cache Access to Optimize I/O Intensive Applications for
Multi-hundred-gigabit Networks", USENIX ATC 2020. So it is read on the CPUs of that time only.
"""

from __future__ import annotations

import os
from pathlib import Path

from nftop.model.ids import Cpu
from nftop.model.rdt.masks import Cbm

UARCHS = frozenset({"SKX", "CLX"})
_IIO_LLC_WAYS = 0xC8B
_BYTES = 8


def read_io_ways(root: Path, cpu: Cpu, ways: int) -> Cbm | None:
    """The ways of a CPU's package; None where they can't be read or are no ways of its cache.

    The kernel reads it on that very CPU. It takes the module `msr` and CAP_SYS_RAWIO.
    """
    try:
        handle = os.open(root / f"dev/cpu/{cpu}/msr", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = os.pread(handle, _BYTES, _IIO_LLC_WAYS)
    except OSError:
        return None
    finally:
        os.close(handle)
    bits = int.from_bytes(data, "little")
    return Cbm(bits, ways) if len(data) == _BYTES and 0 < bits < 1 << ways else None
