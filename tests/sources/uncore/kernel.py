"""A host of two packages whose boxes count, each event at a pace of its own.

Formats are those of the reference, so what a counter counts is told by the words it was set to.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nftop.sources.perf.abi import Kernel, MappedPage, PerfEventAttr
from nftop.sources.perf.pmu import encode, read_pmu
from nftop.uarch.table import Uarch
from tests.sources.trees import ONLINE, PMUS, put, write_tree
from tests.uarch.test_reference import UNITS
from tests.uarch.vectors import facts

PACKAGE_OF = {0: 0, 1: 0, 2: 1, 3: 1}
BOXES = {"cha": 3, "cbox": 3, "imc": 2, "upi": 2, "qpi": 2}


@dataclass
class Fd:
    box: int  # the type of its PMU
    cpu: int
    per_ns: int
    leader: int
    on: bool = False
    enabled_ns: int = 0
    ran_ns: int = 0
    members: list[int] = field(default_factory=list)


@dataclass
class FakeUncore:
    """Give it the folder that stands for `/` and the table; `kernel` is what a source takes."""

    root: Path
    uarch: Uarch
    boxes: Mapping[str, int] = field(default_factory=lambda: BOXES)
    unnumbered: tuple[str, ...] = ()
    umask_8_bits: bool = False
    switch_takes_ns: int = 0
    fd_limit: int = 10_000
    # (PMU, package) -> errno or 0
    refuse: Callable[[str, int], int] = lambda pmu, package: 0
    # PMU -> share of the time that a group which is on runs
    share: Callable[[str], float] = lambda pmu: 1.0
    read_errno: dict[str, int] = field(default_factory=dict)

    now_ns: int = 1_000
    fds: dict[int, Fd] = field(default_factory=dict)
    opens: int = 0
    switches: int = 0
    reads: int = 0
    interrupts: int = 0  # of a reader elsewhere
    online: set[int] = field(default_factory=lambda: set(PACKAGE_OF))
    names: dict[int, str] = field(default_factory=dict)
    per_ns: dict[tuple[int, int, int], int] = field(default_factory=dict)
    _next: int = 100

    def __post_init__(self) -> None:
        kind = 20
        for unit in self.uarch.uncore:
            formats = facts(self.uarch.name)["uncore"][UNITS[unit.name]]["format"]
            if self.umask_8_bits:
                formats = {**formats, "umask": "config:8-15"}
            for number in range(self.boxes.get(unit.name, 0)):
                alone = unit.name in self.unnumbered
                name = unit.pmu if alone else f"{unit.pmu}_{number}"
                kind += 1
                self.names[kind] = name
                texts = {f"format/{term}": where for term, where in formats.items()}
                self.put(name, {"type": str(kind), **texts})
                pmu = read_pmu(name, self.root)
                for at, (event, spec) in enumerate(unit.events.items()):
                    if self.umask_8_bits and unit.name == "cha":
                        continue
                    code = encode(pmu, spec.terms)
                    key = (code.pmu_type, code.config, code.config1)
                    assert key not in self.per_ns, f"{event} is another event's"
                    self.per_ns[key] = (at + 2) * (1 + number)
        files = {"cpu/present": "0-3"}
        for cpu, package in PACKAGE_OF.items():
            files[f"cpu/cpu{cpu}/topology/physical_package_id"] = str(package)
            files[f"cpu/cpu{cpu}/topology/core_id"] = str(cpu)
        write_tree(self.root, files)
        self.write_online()

    @property
    def kernel(self) -> Kernel:
        return Kernel(self._open, self._enable, self._disable, self._readv, self._close)

    def put(self, name: str, texts: Mapping[str, str]) -> None:
        """Write files of a PMU."""
        put(self.root / PMUS / name, texts)

    def counts_on(self, package: int) -> int | None:
        """The first online CPU of a package, as the kernel chooses."""
        mine = [cpu for cpu in sorted(self.online) if PACKAGE_OF[cpu] == package]
        return mine[0] if mine else None

    def write_online(self) -> None:
        """Write the online CPUs and the cpumasks; take events of packages that are gone apart."""
        put(self.root, {ONLINE: ",".join(map(str, sorted(self.online)))})
        mask = ",".join(str(c) for p in (0, 1) if (c := self.counts_on(p)) is not None)
        for name in self.names.values():
            self.put(name, {"cpumask": mask})
        for fd in self.fds.values():
            if self.counts_on(PACKAGE_OF[fd.cpu]) is None:
                fd.members.clear()
                fd.on = False

    def pass_ns(self, duration_ns: int) -> None:
        self.now_ns += duration_ns
        for fd in self.fds.values():
            if fd.on:
                fd.enabled_ns += duration_ns
                fd.ran_ns += int(duration_ns * self.share(self.names[fd.box]))

    def expected(self, event: str, box: int, package: int) -> int:
        """Counts of an event in a ns of its group's time."""
        unit = next(unit for unit in self.uarch.uncore if event in unit.events)
        return (list(unit.events).index(event) + 2) * (1 + box) + package

    def _open(self, attr: PerfEventAttr, cpu: int, group_fd: int) -> int:
        self.opens += 1
        assert cpu == self.counts_on(PACKAGE_OF[cpu]), "not the CPU of the mask"
        assert attr.flags == int(group_fd < 0), "a leader is off, the others with it"
        name = self.names[attr.type]
        code = self.refuse(name, PACKAGE_OF[cpu])
        if len(self.fds) >= self.fd_limit:
            code = errno.EMFILE
        if code:
            raise OSError(code, os.strerror(code))
        self._next += 1
        leader = self._next if group_fd < 0 else group_fd
        assert self.fds.get(leader, Fd(attr.type, cpu, 0, 0)).box == attr.type, "it spans boxes"
        per_ns = self.per_ns[attr.type, attr.config, attr.config1] + PACKAGE_OF[cpu]
        self.fds[self._next] = Fd(attr.type, cpu, per_ns, leader)
        self.fds[leader].members.append(self._next)
        assert len(self.fds[leader].members) <= 4, "a box has four counters"
        return self._next

    def _enable(self, fd: int) -> None:
        state = self.fds[fd]
        self.now_ns += self.switch_takes_ns  # and no counter counts meanwhile
        self.switches += 1
        self.interrupts += 1
        assert state.leader == fd and not state.on
        for other in self.fds.values():
            same = (other.box, PACKAGE_OF[other.cpu]) == (state.box, PACKAGE_OF[state.cpu])
            assert not (same and other.on), "two turns of one box at a time"
        state.on = bool(state.members)

    def _disable(self, fd: int) -> None:
        self.switches += 1
        self.interrupts += 1
        self.fds[fd].on = False

    def _readv(self, fd: int, views: MappedPage) -> int:
        state = self.fds[fd]
        assert state.leader == fd, "only leaders are read"
        self.reads += 1
        self.interrupts += state.on
        if code := self.read_errno.get(self.names[state.box], 0):
            raise OSError(code, os.strerror(code))
        values = [state.ran_ns * self.fds[member].per_ns for member in state.members]
        words = [len(values), state.enabled_ns, state.ran_ns, *values]
        data = struct.pack(f"={len(words)}Q", *words)
        (view,) = views
        assert len(data) <= view.nbytes
        view.cast("B")[: len(data)] = data
        return len(data)

    def _close(self, fd: int) -> None:
        state = self.fds.pop(fd)
        leader = self.fds.get(state.leader)
        if leader and fd in leader.members:
            leader.members.remove(fd)
