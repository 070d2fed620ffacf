"""Hosts and mounts for tests of the lab's resctrl."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from nftop.model.column import Bools, Floats
from tests.lab.resctrl import profile
from tests.lab.resctrl.hardware import (
    BandwidthAllocation,
    CacheAllocation,
    Hardware,
    Monitoring,
)
from tests.lab.resctrl.ledger import Host
from tests.lab.resctrl.mount import mount
from tests.lab.resctrl.processes import Task
from tests.lab.resctrl.state import Resctrl
from tests.lab.resctrl.tree import ResctrlTree
from tests.lab.tree import Caller

ROOT = Caller(pid=100, uid=0, gid=0)
USER = Caller(pid=200, uid=1000, gid=1000)
MIB = 1 << 20
SCALE = 65536
# Two sockets of two cores of two threads, as in tests/data/kernel.
SMALL = Hardware(
    domain_of=(0, 0, 1, 1, 0, 0, 1, 1),
    node_of=(0, 0, 1, 1, 0, 0, 1, 1),
    online=frozenset(range(8)),
    size_bytes={0: 16 * MIB, 1: 16 * MIB},
    allocation=CacheAllocation(ways=11, min_bits=1, shareable_bits=0x600, closids=16, cdp=True),
    bandwidth=BandwidthAllocation(closids=8, minimum=10, granularity=10, throttle="max"),
    monitoring=Monitoring(
        rmids=176,
        scale_bytes=SCALE,
        events=("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"),
    ),
)


def few(rmids: int, closids: int = 8) -> Hardware:
    """The small host with few RMIDs and classes."""
    assert SMALL.monitoring is not None
    assert SMALL.bandwidth is not None
    return replace(
        SMALL,
        monitoring=replace(SMALL.monitoring, rmids=rmids),
        bandwidth=replace(SMALL.bandwidth, closids=closids),
    )


@dataclass
class Clock:
    """A clock that stands until it is set."""

    now_ns: int = 0

    def __call__(self) -> int:
        return self.now_ns

    def forward(self, seconds: float) -> None:
        """Time passes."""
        self.now_ns += round(seconds * 1e9)


@dataclass
class People:
    """Threads that there are, by id; the clock ticks when it is told to."""

    by_id: dict[int, Task] = field(
        default_factory=lambda: {
            pid: Task(0 if pid < 200 else 1000, pid, 1) for pid in (100, 101, 200)
        }
    )
    ticks: int = 1000

    def tasks(self) -> Mapping[int, Task]:
        return dict(sorted(self.by_id.items()))

    def now(self) -> int:
        return self.ticks

    def start(self, pid: int, parent: int) -> None:
        """A tick later, a thread starts another."""
        self.ticks += 1
        self.by_id[pid] = Task(0, self.ticks, parent)
        self.ticks += 1


BOTH = pytest.mark.parametrize("kernel", profile.kernels())
# Bytes a second that every CPU of the busy host moves, and the share of it that is local.
RATE = 1e9
LOCAL = 0.75


def busy_host(count: int, starts_ns: tuple[int, ...] = (0,)) -> Host:
    """CPU n of `count` moves n+1 times RATE; each way is shared by those who may fill it."""

    def traffic(at_ns: int) -> Floats:
        moved = np.arange(1, count + 1) * RATE * (at_ns / 1e9)
        return np.stack([moved, LOCAL * moved], axis=1)

    def fill(at_ns: int, cpus: Sequence[Sequence[int]], ways: Bools, way_bytes: float) -> Floats:
        claims = np.array([float(len(cpu)) for cpu in cpus])[:, None] * ways
        total = np.maximum(claims.sum(axis=0), 1.0)
        return np.asarray((claims / total).sum(axis=1) * way_bytes)

    return Host(starts_ns, 2.0, traffic, fill)


@dataclass
class Lab:
    """A mounted resctrl to be used as a shell does, and its clock."""

    tree: ResctrlTree
    clock: Clock
    people: People

    @property
    def state(self) -> Resctrl:
        return self.tree.state

    def cat(self, path: str, caller: Caller = ROOT) -> str:
        handle = self.tree.open(path, 0, caller)
        return handle.read(1 << 20, 0).decode()

    def echo(self, text: str, path: str, caller: Caller = ROOT) -> None:
        data = f"{text}\n".encode()
        assert self.tree.open(path, 1, caller).write(data, 0) == len(data)

    def mkdir(self, path: str, caller: Caller = ROOT) -> None:
        self.tree.mkdir(path, 0o755, caller)

    def rmdir(self, path: str, caller: Caller = ROOT) -> None:
        self.tree.rmdir(path, caller)

    def rename(self, old: str, new: str, caller: Caller = ROOT) -> None:
        self.tree.rename(old, new, caller)

    @property
    def status(self) -> str:
        return self.cat("/info/last_cmd_status").removesuffix("\n")


def lab(
    kernel: str = "6.1",
    hardware: Hardware = SMALL,
    options: Collection[str] = (),
    at_s: float = 0.0,
) -> Lab:
    """A fresh mount on the busy host."""
    clock, people = Clock(round(at_s * 1e9)), People()
    host = busy_host(len(hardware.domain_of))
    state = mount(hardware, profile.load(kernel), people, host, clock, options)
    return Lab(ResctrlTree(state), clock, people)


def number(call: Callable[[], object]) -> int:
    """The errno that a call fails with."""
    with pytest.raises(OSError) as caught:
        call()
    assert caught.value.errno is not None
    return caught.value.errno


def two_groups(kernel: str = "7.2") -> Lab:
    host = lab(kernel)
    host.mkdir("/a")
    host.mkdir("/b")
    host.echo("0-3", "/a/cpus_list")
    return host
