"""Source `pqos`: when it asks, when it must not, and the table that it gives."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.cache.table import classes_reading
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ROOT, ResctrlTable
from nftop.model.sample import SourceReading
from nftop.sources.pqos import source
from nftop.sources.pqos.protocol import MsrMetered, MsrState, table_of
from nftop.sources.pqos.source import PqosSource, offered
from tests.sources.pqos.fake import MIB, TOPOLOGY, Fake

S = 10**9


@dataclass
class Requested:
    """A worker that is asked."""

    fake: Fake
    printed: list[tuple[tuple[int, ...], bool, bool]] = field(default_factory=list)
    fails: Missing | None = None
    closed: int = 0

    def ask(
        self, quiet: Collection[int], *, read_classes: bool = True, meter: bool = False
    ) -> tuple[MsrState, tuple[MsrMetered, ...]] | Missing:
        self.printed.append((tuple(sorted(quiet)), read_classes, meter))
        if self.fails is not None:
            return self.fails
        rows = (MsrMetered(0, 0, {"llc_occupancy": 7, "mbm_total_bytes": 9}, 5),) if meter else ()
        return self.fake.read_classes(quiet), rows

    def close(self) -> None:
        self.closed += 1


@dataclass
class Bench:
    root: Path
    worker: Requested = field(default_factory=lambda: Requested(Fake()))
    now_ns: int = 0

    def source(self, way: str = "read", quiet: tuple[int, ...] = ()) -> PqosSource:
        return PqosSource(
            self.root,
            TOPOLOGY,
            way=way,
            quiet_cpus=quiet,
            worker=lambda: self.worker,
            clock=lambda: self.now_ns,
        )

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A host without resctrl, and PyPI's pqos."""
    monkeypatch.setattr(source, "binding_version", lambda: (4, 5))
    monkeypatch.setattr(source, "read_topology", lambda _: TOPOLOGY)
    result = Bench(tmp_path)
    result.write("proc/mounts", "proc /proc proc rw 0 0\n")
    result.write("proc/filesystems", "nodev\tproc\n")
    result.write("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu cqm rdt_a cat_l3\n")
    return result


def test_classes_are_the_table_that_resctrl_gives(bench: Bench) -> None:
    fake = bench.worker.fake
    fake.class_of |= {1: 2, 6: 2}
    fake.mask[2, 2] = [0xF0]
    fake.limit[0, 3] = 40
    table = bench.source().read()
    assert isinstance(table, ResctrlTable)
    assert [(group.name, group.clos) for group in table.groups] == [
        (ROOT, 0),
        ("COS1", 1),
        ("COS2", 2),
        ("COS3", 3),
    ]
    two = table.groups[2]
    assert two.cpus == (1, 6)
    assert [cache.cbm for cache in two.caches] == [Cbm(0x7FF, 11), Cbm(0xF0, 11)]
    assert [cache.mba for cache in table.groups[3].caches] == [40, 100]
    assert [(domain.l3, domain.ways, domain.size_bytes) for domain in table.domains] == [
        (0, 11, 11 * MIB),
        (1, 11, 11 * MIB),
    ]
    assert "--pqos monitor" in table.gaps


def test_code_and_data_apart(bench: Bench) -> None:
    bench.worker.fake.has_cdp = True
    bench.worker.fake.mask[0, 1] = [0xF, 0xF0]
    table = bench.source().read()
    assert isinstance(table, ResctrlTable)
    cache = table.groups[1].caches[0]
    assert (cache.cbm, cache.code) == (Cbm(0xF, 11), Cbm(0xF0, 11))
    assert table.limits.cdp


def test_classes_are_observed_every_ten_seconds_and_monitors_every_second(bench: Bench) -> None:
    own = bench.source("monitor", quiet=(3,))
    for now_s in (0, 0.5, 1, 2, 9, 10):
        bench.now_ns = round(now_s * S)
        own.read()
    assert bench.worker.printed == [((3,), now_s in (0, 10), True) for now_s in (0, 1, 2, 9, 10)]
    own = bench.source()
    bench.worker.printed.clear()
    for now_s in (20, 21, 29, 30):
        bench.now_ns = now_s * S
        own.read()
    assert bench.worker.printed == [((), True, False)] * 2


def test_what_monitors_report_is_in_the_table_and_why_others_report_nothing(bench: Bench) -> None:
    bench.worker.fake.class_of[1] = 1
    table = bench.source("monitor").read()
    assert isinstance(table, ResctrlTable)
    values = table.groups[0].caches[0].values
    assert (values["llc_occupancy"], values["mbm_total_bytes"]) == (7, 9)
    assert table.groups[0].caches[0].read_at_ns == 5
    local, empty, waits = (
        values["mbm_local_bytes"],
        table.groups[3].caches[0].values["llc_occupancy"],
        table.groups[1].caches[0].values["llc_occupancy"],
    )
    assert isinstance(local, Missing)
    assert isinstance(empty, Missing)
    assert isinstance(waits, Missing)
    assert (local.reason, empty.reason, waits.reason) == (
        Reason.HARDWARE,
        Reason.IDLE,
        Reason.WARMING,
    )


def test_why_a_class_is_not_metered_is_reported(snapshot: SnapshotAssertion) -> None:
    row = MsrMetered(0, 0, why=("TAKEN", "another program meters CPU 1"))
    table = table_of(Fake().read_classes(), (row,), TOPOLOGY, metering=True)
    value = table.groups[0].caches[0].values["llc_occupancy"]
    assert isinstance(value, Missing) and value.reason is Reason.TAKEN
    assert value.message == snapshot


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"proc/filesystems": "nodev\tresctrl\n"}, "this kernel has resctrl"),
        ({"proc/mounts": "resctrl /sys/fs/resctrl resctrl rw 0 0\n"}, "/sys/fs/resctrl"),
    ],
)
def test_where_the_kernel_has_resctrl_msrs_are_left_alone(
    bench: Bench, files: dict[str, str], words: str
) -> None:
    own = bench.source("monitor")
    assert isinstance(own.read(), ResctrlTable)
    for path, text in files.items():
        bench.write(path, text)
    assert not offered(bench.root)
    bench.now_ns = 20 * S
    result = own.read()
    assert isinstance(result, Missing)
    assert words in result.message
    assert len(bench.worker.printed) == 1
    assert bench.worker.closed == 1  # and its monitors are gone


def test_it_is_offered_where_the_cpu_has_rdt_and_the_kernel_no_resctrl(bench: Bench) -> None:
    assert offered(bench.root)
    bench.write("proc/cpuinfo", "flags\t\t: fpu sse\n")
    assert not offered(bench.root)


def test_without_the_binding_it_reports_how_to_get_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "binding_version", lambda: None)
    [check] = bench.source().check()
    assert (check.reason, check.fix) == (Reason.SOURCE, "pip install 'pqos>=4.3,<4.6'")
    assert bench.worker.printed == []


def test_a_failure_is_reported_and_tried_again_later(bench: Bench) -> None:
    own = bench.source("monitor")
    bench.worker.fails = Missing(Reason.ERROR, "libpqos: no")
    assert own.read() == bench.worker.fails
    bench.worker.fails = None
    bench.now_ns = 9 * S
    assert isinstance(own.read(), Missing)
    bench.now_ns = 10 * S
    assert isinstance(own.read(), ResctrlTable)


def test_off_is_off(bench: Bench) -> None:
    result = bench.source("off").read()
    assert isinstance(result, Missing)
    assert bench.worker.printed == []


def test_with_quiet_cpus_libpqos_is_started_only_if_reported(bench: Bench) -> None:
    """It runs on every CPU when it starts."""
    assert isinstance(bench.source("auto").read(), ResctrlTable)
    result = bench.source("auto", quiet=(3,)).read()
    assert isinstance(result, Missing)
    assert "--pqos read" in result.message
    assert isinstance(bench.source("read", quiet=(3,)).read(), ResctrlTable)


def test_what_it_reads_is_counted(bench: Bench) -> None:
    own = bench.source("monitor")
    assert own.counter_reads == 0
    own.read()
    # A class for each CPU; masks and limits of four classes in two caches; two events of a monitor.
    assert own.counter_reads == own.counter_interrupts == 8 + 2 * (4 + 4) + 2 * 2
    bench.now_ns = S
    own.read()
    assert own.counter_reads == 8 + 16 + 2 * 4


def test_quiet_cpus_are_not_queried_nor_a_cache_read_on_one(bench: Bench) -> None:
    table = bench.source(quiet=(2, 3)).read()
    assert isinstance(table, ResctrlTable)
    assert 2 not in table.groups[0].cpus
    assert "2 CPUs of --quiet-cpus" in table.gaps


def test_a_table_of_msrs_counts_only_without_one_of_resctrl() -> None:
    table = table_of(Fake().read_classes(), (), TOPOLOGY, metering=False)
    mine: SourceReading[ResctrlTable] = SourceReading(table, 1, 1)
    none = replace(mine, value=Missing(Reason.HARDWARE))
    other = replace(mine, read_at_ns=2)
    assert classes_reading({"resctrl": mine, "pqos": other}) is mine
    assert classes_reading({"resctrl": none, "pqos": other}) is other
    assert classes_reading({"resctrl": none}) is none
    assert classes_reading({}) is None
