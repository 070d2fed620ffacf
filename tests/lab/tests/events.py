"""A PerfTree under a clock of ours, and calls to it, without a mount."""

from __future__ import annotations

import functools
import itertools
import struct
from dataclasses import dataclass, field

from nftop.sim import scenario
from nftop.sim.events import count
from nftop.sim.model import Model, model_of
from nftop.uarch.table import Encoding
from tests.lab import machine as machines
from tests.lab.perf.call import Call, name_of
from tests.lab.perf.tasks import Tasks
from tests.lab.perf.tree import PerfTree
from tests.lab.tree import Caller, Handle

CPUS = 16
S, MS = 1_000_000_000, 1_000_000
HARDWARE, SOFTWARE, RAW = 0, 1, 4
ENABLED, RUNNING, ID, GROUP, LOST = (1 << i for i in range(5))
TIMES = ENABLED | RUNNING
DISABLED, INHERIT, PINNED, EXCLUSIVE, EXCLUDE_KERNEL = 1, 2, 4, 8, 32
ON_EXEC = 1 << 12
ENABLE, DISABLE, RESET, FOR_ID = 0x2400, 0x2401, 0x2403, 0x80082407
SUPERVISOR = Caller(1, 0, 0)
ROOT, OTHER = 0, 1000
GENERAL = (0x19C, 0x10E, 0x2C2, 0x10D, 0xC5, 0x4C2, 0x40004A3, 0x2A6, 0x4A6)
POLLER = 1  # a CPU on which something polls


@functools.cache
def model(machine: str = "skx-7") -> Model:
    """What happens on a machine that is told nothing of it."""
    return model_of(scenario.load(machines.load(machine).scenario), CPUS)


def expected(config: int, cpu: int, start_ns: int, end_ns: int, uarch: str = "SKX") -> int:
    encoding = Encoding(RAW, config)
    since, until = (count(model(), encoding, cpu, t_ns, uarch) for t_ns in (start_ns, end_ns))
    return until - since


@dataclass(slots=True)
class Lab:
    """A machine with a clock that stands still, and switches for what programs can set."""

    machine: str = "skx-4"
    now_ns: int = 0
    online: set[int] = field(default_factory=lambda: set(range(CPUS)))
    paranoid: int = 2
    watchdog: bool = False
    ran_ns: dict[int, int] = field(default_factory=dict)
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    tree: PerfTree = field(init=False)

    def __post_init__(self) -> None:
        self.tree = PerfTree(
            machines.load(self.machine),
            model(),
            lambda: self.now_ns,
            online=lambda: self.online,
            paranoid=lambda: self.paranoid,
            watchdog=lambda: self.watchdog,
            tasks=Tasks(lambda pid: ROOT if pid in self.ran_ns else None, self.ran_ns.get),
        )

    def name(
        self,
        pmu_type: int,
        config: int,
        *,
        config1: int = 0,
        cpu: int = 0,
        pid: int = -1,
        leader: int = 0,
        bits: int = 0,
        form: int = TIMES,
        flags: int = 0,
        uid: int = ROOT,
        privileged: int = 1,
        period: int = 0,
    ) -> str:
        attr = struct.pack("<IIQQQQQQQ", pmu_type, 64, config, period, 0, form, bits, 0, config1)
        return name_of(
            Call(next(self.numbers), attr, pid, cpu, leader, flags, uid, bool(privileged))
        )

    def open(self, pmu_type: int, config: int, **how: int) -> Handle:
        return self.tree.open("/" + self.name(pmu_type, config, **how), 2, SUPERVISOR)

    def raw(self, config: int, **how: int) -> Handle:
        return self.open(RAW, config, **how)

    def group(self, *configs: int, bits: int = 0, form: int = TIMES | GROUP) -> Handle:
        """A group of raw events on CPU 0; the leader's handle."""
        leader = self.raw(configs[0], form=form, bits=bits)
        number = id_of(leader)
        for config in configs[1:]:
            self.raw(config, leader=number, form=form)
        return leader

    def code(self, pmu_type: int, config: int, **how: int) -> int:
        """The errno of an open, 0 if it succeeds; nothing stays open."""
        try:
            self.open(pmu_type, config, **how).close()
        except OSError as error:
            return error.errno or -1
        return 0


def words(handle: Handle) -> list[int]:
    data = handle.read(4096, 0)
    return list(struct.unpack(f"<{len(data) // 8}Q", data))


def id_of(handle: Handle) -> int:
    buffer = bytearray(8)
    handle.ioctl(FOR_ID, 0, buffer)
    return int.from_bytes(buffer, "little")
