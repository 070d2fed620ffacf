"""All registers that a CPU of the lab has: RDT's, and those that programs ask for what it is.

Numbers: Intel SDM volume 4. The others are not there (EIO), the counters of performance events
among them: programs have perf for these.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass

from nftop.sim.model import Model
from nftop.sim.workloads import INDEX
from tests.lab.machine import Machine
from tests.lab.meters import Meters
from tests.lab.msr import registers
from tests.lab.msr.registers import Registers
from tests.lab.tree import failed

_COUNTS = {0x10: "tsc", 0xE7: "ref_cycles", 0xE8: "cycles"}  # TSC, MPERF, APERF
_MICROCODE, _PLATFORM_INFO = 0x8B, 0xCE
_BUS_MHZ, _LEAST_RATIO = 100, 10


@dataclass(frozen=True, slots=True)
class Msrs:
    """The registers of every CPU; `rdt` are made anew by whoever mounts or unmounts resctrl."""

    machine: Machine
    model: Model
    meters: Meters
    now_ns: Callable[[], int]
    rdt: Callable[[], Registers]

    def read(self, cpu: int, number: int) -> int:
        """OSError EIO where there is none of this number."""
        metered = self.meters.register(cpu, number, self.now_ns())
        if metered is not None:
            return metered
        own = self.machine.tables["cpuinfo"]
        if number in _COUNTS:
            row = self.model.exact(self.now_ns(), [cpu])[0]
            return int(row[INDEX[_COUNTS[number]]])
        if number == _MICROCODE:
            return int(own["microcode"]) << 32
        if number == _PLATFORM_INFO:
            return round(float(own["mhz"]) / _BUS_MHZ) << 8 | _LEAST_RATIO << 40
        return registers.read(self.rdt(), cpu, number)

    def write(self, cpu: int, number: int, value: int) -> None:
        """OSError EIO for what can't be written here, or not so."""
        reads = _COUNTS.keys() | {_MICROCODE, _PLATFORM_INFO}
        if number in reads or self.meters.register(cpu, number, self.now_ns()) is not None:
            raise failed(errno.EIO)
        registers.write(self.rdt(), cpu, number, value)
