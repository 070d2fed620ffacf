"""Source `power` on trees with a kernel that counts: values, pace, and every reason for none."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nftop.model.missing import Missing, Reason
from nftop.model.uncore import POWER_EVENTS, UncoreTable
from nftop.sources.base import RETRY_AFTER_NS
from nftop.sources.host.topology import read_topology
from nftop.sources.perf.abi import Kernel, MappedPage, PerfEventAttr
from nftop.sources.power.source import SLOW_NS, PowerSource
from tests.sources.trees import PMUS, put, unpack
from tests.sources.tuning.test_checks import FOLDER, needs_trees

S = 10**9
SCALE = "2.3283064365386962890625e-10"


class Counting:
    """Counts 2 for each ns on every event; `refused` opens fail with that errno by PMU type."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.opened: dict[int, tuple[int, int, int, list[int]]] = {}
        self.opens: list[tuple[int, int]] = []  # PMU type and CPU
        self.reads: list[int] = []  # CPUs
        self.refused: dict[int, int] = {}
        self.gone: set[int] = set()
        self.failing: dict[int, int] = {}  # errno of reads by CPU

    @property
    def kernel(self) -> Kernel:
        return Kernel(self.open, lambda fd: None, lambda fd: None, self.readv, self.close)

    def open(self, attr: PerfEventAttr, cpu: int, leader: int) -> int:
        if attr.type in self.refused:
            raise OSError(self.refused[attr.type], "refused")
        self.opens.append((attr.type, cpu))
        fd = len(self.opens) + 100
        self.opened[fd] = (attr.type, attr.config, cpu, [])
        self.opened[fd if leader < 0 else leader][3].append(fd)
        return fd

    def readv(self, fd: int, pages: MappedPage) -> int:
        _, _, cpu, members = self.opened[fd]
        self.reads.append(cpu)
        if cpu in self.failing:
            raise OSError(self.failing[cpu], "failed")
        if cpu in self.gone:
            return 0
        words = np.array(
            [len(members), self.now_ns, self.now_ns, *[2 * self.now_ns] * len(members)]
        )
        pages[0][:] = words.astype(np.uint64).data
        return pages[0].nbytes

    def close(self, fd: int) -> None:
        del self.opened[fd]


def tree(root: Path) -> Path:
    """Two packages of two cores of two threads: CPU n and n + 4 are a core."""
    for cpu in range(8):
        folder = f"sys/devices/system/cpu/cpu{cpu}"
        put(
            root / folder,
            {
                "topology/physical_package_id": str(cpu % 4 // 2),
                "topology/core_id": str(cpu % 4),
                "topology/thread_siblings_list": f"{cpu % 4},{cpu % 4 + 4}",
                "thermal_throttle/core_throttle_count": "3" if cpu == 2 else "0",
                "thermal_throttle/package_throttle_count": "0",
            },
        )
    put(root / "sys/devices/system/cpu", {"online": "0-7", "present": "0-7", "possible": "0-7"})
    put(
        root / PMUS / "power",
        {
            "type": "40",
            "cpumask": "0,2",
            "format/event": "config:0-7",
            "events/energy-pkg": "event=0x02",
            "events/energy-pkg.scale": SCALE,
            "events/energy-pkg.unit": "Joules",
            "events/energy-ram": "event=0x03",
            "events/energy-ram.scale": SCALE,
        },
    )
    put(
        root / PMUS / "cstate_pkg",
        {
            "type": "41",
            "cpumask": "0,2",
            "format/event": "config:0-63",
            "events/c2-residency": "event=0x00",
            "events/c6-residency": "event=0x02",
        },
    )
    put(
        root / PMUS / "cstate_core",
        {
            "type": "42",
            "cpumask": "0-3",
            "format/event": "config:0-63",
            "events/c6-residency": "event=0x02",
        },
    )
    return root


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def source(tmp_path: Path, counting: Counting) -> Iterator[PowerSource]:
    source = opened(tree(tmp_path), counting)
    yield source
    source.close()
    assert not counting.opened


def opened(root: Path, counting: Counting, **options: tuple[int, ...]) -> PowerSource:
    return PowerSource(root, kernel=counting.kernel, clock_ns=lambda: counting.now_ns, **options)


def of(table: UncoreTable | Missing, event: str) -> dict[int, int | Reason]:
    """Values or reasons of an event, by package of what packages have, else by CPU."""
    assert isinstance(table, UncoreTable)
    rows = np.flatnonzero(table.event == POWER_EVENTS.index(event)).tolist()
    of_cores = event.startswith("core")
    return {
        int((table.boxes if of_cores else table.packages)[row]): Reason(int(table.reasons[row]))
        if table.reasons[row]
        else int(table.values[row])
        for row in rows
    }


def test_packages_are_read_twice_a_second_and_cores_every_five(
    source: PowerSource, counting: Counting
) -> None:
    counting.now_ns = S
    first = source.read()
    assert of(first, "energy_pkg") == of(first, "energy_ram") == {0: 2 * S, 1: 2 * S}
    assert of(first, "core_c6") == dict.fromkeys(range(4), 2 * S)
    assert of(first, "core_throttles") == {cpu: 3 if cpu == 2 else 0 for cpu in range(8)}
    assert sorted(counting.reads) == [0, 0, 0, 1, 2, 2, 2, 3]
    counting.now_ns += S // 4
    assert source.read() is first and len(counting.reads) == 8
    counting.now_ns += S // 4
    second = source.read()
    assert of(second, "package_c6") == {0: 3 * S, 1: 3 * S} and of(second, "core_c6")[1] == 2 * S
    assert sorted(counting.reads[8:]) == [0, 0, 2, 2]
    counting.now_ns = S + SLOW_NS
    assert of(source.read(), "core_c6")[1] == 2 * (S + SLOW_NS)
    assert source.counter_reads == source.counter_interrupts == 20
    assert isinstance(second, UncoreTable) and second.gaps == ""


def test_a_packages_throttling_is_that_of_the_cpu_that_saw_most(
    tmp_path: Path, source: PowerSource, counting: Counting
) -> None:
    def count(cpu: int, value: int) -> None:
        folder = f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle"
        put(tmp_path / folder, {"package_throttle_count": str(value)})

    def after_5_s() -> dict[int, int | Reason]:
        counting.now_ns += SLOW_NS
        return of(source.read(), "package_throttles")

    count(1, 40)
    assert after_5_s() == {0: 40, 1: 0}
    # Each CPU counts those it saw; CPU 5 is of package 0, and comes to the same count as CPU 1.
    count(0, 3)
    count(5, 7)
    count(3, 2)
    assert after_5_s() == {0: 47, 1: 2}
    count(1, 41)
    assert after_5_s() == {0: 48, 1: 2}
    count(1, 0)
    assert after_5_s() == {0: 48, 1: 2}, "a counter that restarted"


def test_nothing_is_read_by_interrupting_a_core_that_polls(
    source: PowerSource, counting: Counting, tmp_path: Path
) -> None:
    source.on_pollers((5, 2), read_topology(tmp_path))  # CPU 5 is the sibling of 1
    table = source.read()
    assert set(counting.reads) == {0, 3}
    values = of(table, "core_c6")
    assert values[1] is values[2] is Reason.SOURCE and values[0] == values[3] == 0
    assert of(table, "energy_pkg") == {0: 0, 1: Reason.SOURCE}
    assert of(table, "core_throttles")[2] == 3, "files interrupt nothing"


def test_what_a_host_lacks_has_its_reason(tmp_path: Path, counting: Counting) -> None:
    root = tree(tmp_path)
    put(root / PMUS / "power", {"events/energy-ram.scale": "6.103515625e-05"})
    counting.refused = {41: errno.EACCES}
    source = opened(root, counting, quiet_cpus=(3,))
    table = source.read()
    assert of(table, "energy_ram") == {0: Reason.ERROR, 1: Reason.ERROR}
    assert of(table, "package_c6") == {0: Reason.PERMISSION, 1: Reason.PERMISSION}
    assert of(table, "package_c3") == {0: Reason.HARDWARE, 1: Reason.HARDWARE}
    assert of(table, "core_c6")[3] is Reason.SOURCE
    states = {check.name: check.state for check in source.check()}
    assert states["power energy"] == "ok" and states["power package C-states"] == "permission"
    assert states["power throttling"] == "tune"
    source.close()


def test_a_guest_has_nothing_and_one_reason(tmp_path: Path, counting: Counting) -> None:
    put(tmp_path / "sys/devices/system/cpu", {"online": "0", "present": "0", "possible": "0"})
    put(
        tmp_path / "sys/devices/system/cpu/cpu0/topology",
        {"physical_package_id": "0", "core_id": "0"},
    )
    source = opened(tmp_path, counting)
    why = source.read()
    assert isinstance(why, Missing) and why.reason is Reason.HARDWARE
    assert {check.reason for check in source.check()} == {Reason.HARDWARE}
    fixes = {check.fix for check in source.check() if check.fix}
    assert fixes == {"sudo modprobe rapl", "sudo modprobe intel_cstate"}, "it may be a host"
    put(tmp_path / "proc", {"cpuinfo": "processor : 0\nflags : fpu hypervisor\n"})
    assert not any(check.fix for check in source.check())
    assert {check.reason for check in source.check()} == {Reason.HARDWARE}
    source.close()
    assert isinstance(source.read(), Missing)


def test_a_cpu_that_goes_and_comes_is_opened_anew(
    source: PowerSource, counting: Counting, tmp_path: Path
) -> None:
    source.read()
    counting.gone = {2}
    counting.now_ns = S
    assert of(source.read(), "energy_pkg")[1] is Reason.RESET
    put(tmp_path / "sys/devices/system/cpu", {"online": "0,1,3-7"})
    put(tmp_path / PMUS / "power", {"cpumask": "0,3"})
    put(tmp_path / PMUS / "cstate_pkg", {"cpumask": "0,3"})
    put(tmp_path / PMUS / "cstate_core", {"cpumask": "0-1,3,6"})
    counting.now_ns = 2 * S
    again = source.read()
    assert of(again, "energy_pkg") == {0: 4 * S, 1: 4 * S}
    assert of(again, "core_c6").keys() == {0, 1, 3, 6}


def test_a_box_that_fails_is_opened_again_and_no_other(
    source: PowerSource, counting: Counting
) -> None:
    source.read()
    before = len(counting.opens)
    counting.failing, counting.now_ns = {3: errno.EIO}, SLOW_NS
    assert of(source.read(), "core_c6")[3] is Reason.ERROR
    counting.failing = {}
    counting.now_ns += RETRY_AFTER_NS - 1
    source.read()
    assert len(counting.opens) == before
    counting.now_ns += 1
    assert of(source.read(), "core_c6")[3] == 2 * counting.now_ns, "read at once"
    assert counting.opens[before:] == [(42, 3)]


def test_a_group_that_lost_its_events_is_opened_with_the_next_reading(
    source: PowerSource, counting: Counting
) -> None:
    source.read()
    before = len(counting.opens)
    counting.gone, counting.now_ns = {0}, S
    assert of(source.read(), "energy_pkg") == {0: Reason.RESET, 1: 2 * S}
    counting.gone, counting.now_ns = set(), 2 * S
    assert of(source.read(), "energy_pkg") == {0: 4 * S, 1: 4 * S}
    assert counting.opens[before:] == [(40, 0), (40, 0), (41, 0), (41, 0)]


@pytest.mark.parametrize(
    ("code", "reason"),
    [(errno.EBUSY, Reason.TAKEN), (errno.EMFILE, Reason.ERROR), (errno.EACCES, Reason.PERMISSION)],
)
def test_a_pmu_that_can_t_be_opened_is_tried_again_and_no_other(
    tmp_path: Path, counting: Counting, code: int, reason: Reason
) -> None:
    counting.refused = {41: code}
    source = opened(tree(tmp_path), counting)
    assert of(source.read(), "package_c6") == {0: reason, 1: reason}
    before = len(counting.opens)
    counting.now_ns = RETRY_AFTER_NS - 1
    source.read()
    counting.refused = {}
    assert len(counting.opens) == before
    counting.now_ns = RETRY_AFTER_NS
    assert of(source.read(), "package_c6") == dict.fromkeys((0, 1), 2 * RETRY_AFTER_NS)
    assert {pmu for pmu, _ in counting.opens[before:]} == {41}
    source.close()
    assert not counting.opened


def test_a_module_loaded_later_is_counted(tmp_path: Path, counting: Counting) -> None:
    root = tree(tmp_path)
    (root / PMUS / "cstate_core").rename(root / "cstate_core")
    source = opened(root, counting)
    assert of(source.read(), "core_c6")[0] is Reason.HARDWARE
    (root / "cstate_core").rename(root / PMUS / "cstate_core")
    counting.now_ns = RETRY_AFTER_NS
    assert of(source.read(), "core_c6") == dict.fromkeys(range(4), 2 * RETRY_AFTER_NS)
    source.close()


def test_no_counter_is_opened_on_a_core_that_polls(
    source: PowerSource, counting: Counting, tmp_path: Path
) -> None:
    source.read()
    counting.failing, counting.now_ns = {1: errno.EIO}, SLOW_NS
    source.read()
    source.on_pollers((1,), read_topology(tmp_path))
    counting.failing, before = {}, len(counting.opens)
    counting.now_ns += 2 * RETRY_AFTER_NS
    assert of(source.read(), "core_c6")[1] is Reason.SOURCE and len(counting.opens) == before
    source.on_pollers((), read_topology(tmp_path))
    counting.now_ns += S
    assert of(source.read(), "core_c6")[1] == 2 * counting.now_ns
    assert counting.opens[before:] == [(42, 1)]


def test_a_cpu_that_goes_takes_no_other_core_s_counts(
    source: PowerSource, counting: Counting, tmp_path: Path
) -> None:
    """The indexes of cores change when a core goes offline."""
    source.read()
    before = len(counting.opens)
    put(tmp_path / "sys/devices/system/cpu", {"online": "0,2-4,6-7"})
    put(tmp_path / PMUS / "cstate_core", {"cpumask": "0,2-3"})
    counting.now_ns = SLOW_NS
    assert of(source.read(), "core_c6") == dict.fromkeys((0, 2, 3), 2 * SLOW_NS)
    assert len(counting.opens) == before


READ = (
    r"/cpu/(present|online|possible)$"
    r"|/cpu/cpu\d+/(topology/(\w+_id|\w+_list)|thermal_throttle/\w+_count)$"
)


@needs_trees
@pytest.mark.parametrize(
    ("archive", "tree", "packages", "most"),
    [
        ("nri-cpuallocator-sysfs-2s4n40c.tar.bz2", "sysfs/2-socket-4-node-40-core", 2, 0),
        ("nri-sysfs-sample2-112cpu.tar.xz", "sample2", 2, 2577),
        ("nri-sysfs-sample1-hybrid.tar.xz", "sample1", 1, 15557),
        ("nri-topologyaware-sysfs-desktop-server-4socket.tar.bz2",
         "sysfs/4-socket-server-nosnc", 4, 0),
    ],
)  # fmt: skip
def test_throttling_of_real_hosts(
    tmp_path: Path, counting: Counting, archive: str, tree: str, packages: int, most: int
) -> None:
    assert FOLDER is not None
    unpack(FOLDER / archive, tmp_path, tree, READ)
    root = tmp_path / tree
    cpus = root / "sys/devices/system/cpu"
    source = opened(root, counting)
    table = source.read()
    lines = {check.name: check for check in source.check()}
    source.close()

    def counts(kind: str) -> dict[int, int]:
        files = cpus.glob(f"cpu*/thermal_throttle/{kind}_throttle_count")
        return {int(file.parts[-3].removeprefix("cpu")): int(file.read_text()) for file in files}

    online = {info.cpu for info in read_topology(root).cpus if info.online}
    cores = {cpu: count for cpu, count in counts("core").items() if cpu in online}
    assert of(table, "core_throttles") == cores and len(cores) >= 16
    # Each CPU counts the events of its package that it saw: the highest count misses the fewest.
    first: dict[int, int] = {}
    for cpu, count in sorted(counts("package").items()):
        package = int((cpus / f"cpu{cpu}/topology/physical_package_id").read_text())
        first[package] = max(first.get(package, 0), count)
    assert of(table, "package_throttles") == first and len(first) == packages
    check = lines["power throttling"]
    assert check.state == ("tune" if most else "ok")
    assert not most or f"up to {max(*cores.values(), *first.values())} times" in check.text
    assert max(*cores.values(), *first.values()) == most
    # These trees have no PMUs, as guests' have none.
    assert set(of(table, "energy_pkg").values()) == {Reason.HARDWARE}
    assert {lines[f"power {name}"].reason for name in ("energy", "package C-states")} == {
        Reason.HARDWARE
    }
