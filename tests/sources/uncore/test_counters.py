"""Which boxes are found, and what is counted on them."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Missing, Reason
from nftop.sources.uncore.open_counters import shares, turns_of
from nftop.uarch import table
from nftop.uarch.table import Uarch
from tests.sources.trees import PMUS, put, write_tree
from tests.sources.uncore.bench import ICX, MODELS, SECOND, SKX, Bench, rates, reasons
from tests.sources.uncore.kernel import FakeUncore


@pytest.mark.parametrize("uarch", MODELS, ids=lambda uarch: uarch.name)
def test_every_event_is_counted_on_every_box_and_scaled_by_its_share(
    tmp_path: Path, uarch: Uarch
) -> None:
    bench = Bench(FakeUncore(tmp_path, uarch))
    assert bench.fake.opens == 0  # nothing before the first read
    bench.tick()
    bench.tick()
    before, after = bench.tick(), bench.tick()
    assert after.gaps == ""
    for unit in uarch.uncore:
        shared = dict(zip(turns_of(unit), shares(unit, detailed=True), strict=True))
        for turn, share in shared.items():
            for event in turn:
                mine = after.event == after.events.index(event)
                assert mine.sum() == 2 * bench.fake.boxes[unit.name]
                ran = (after.running_ns - before.running_ns)[mine]
                assert (ran / SECOND).tolist() == pytest.approx([share] * len(ran), rel=1e-6)
    for row in rates(bench.fake, before, after):
        package = int(row.package)
        writes = [e for unit in uarch.uncore for e in unit.events if e.startswith("cas_write")]
        assert row.readings["memory.write_bytes_per_s"] == pytest.approx(
            sum(64e9 * bench.fake.expected(e, box, package) for e in writes for box in (0, 1))
        )
        lost = [name for name, reading in row.readings.items() if isinstance(reading, Missing)]
        assert {row.readings[name].reason for name in lost} <= {Reason.HARDWARE}  # type: ignore[union-attr]
        assert {"pcie.itom.hit_per_s", "mmio.write_per_s"} <= row.estimates
        assert not any(name.startswith(("memory", "upi")) for name in row.estimates)
        assert len(row.channels) == len(row.links) == 2
    bench.counters.close()
    bench.counters.close()
    assert not bench.fake.fds


@pytest.mark.parametrize("uarch", MODELS, ids=lambda uarch: uarch.name)
def test_cost_is_reported(tmp_path: Path, uarch: Uarch) -> None:
    bench = Bench(FakeUncore(tmp_path, uarch))
    for _ in range(3):
        bench.tick()
        costs = bench.counters.costs
        assert (costs.reads, costs.interrupts) == (bench.fake.reads, bench.fake.interrupts)
    assert bench.fake.interrupts > 0


def test_one_box_without_a_number(tmp_path: Path) -> None:
    bench = Bench(FakeUncore(tmp_path, SKX, boxes={"imc": 1}, unnumbered=("imc",)))
    read = bench.tick()
    mine = read.event == read.events.index("cas_read")
    assert read.boxes[mine].tolist() == [0, 0]
    assert reasons(read, "itom_hit", 0) == {Reason.HARDWARE}
    assert "no PMU uncore_cha_0" in read.details["itom_hit"][Reason.HARDWARE]


def test_free_running_counters_are_no_boxes(tmp_path: Path) -> None:
    fake = FakeUncore(tmp_path, SKX)
    fake.put("uncore_imc_free_running_0", {"type": "99", "cpumask": "0,2"})
    read = Bench(fake).tick()
    assert (read.event == read.events.index("cas_read")).sum() == 4


def test_a_kernel_too_old_for_the_cpu_reports_it(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    """Its umask of 8 bits can't hold an opcode; memory needs none."""
    bench = Bench(FakeUncore(tmp_path, ICX, umask_8_bits=True))
    read = bench.tick()
    assert reasons(read, "itom_hit", 0) == {Reason.HARDWARE}
    assert read.details["itom_hit"][Reason.HARDWARE] == snapshot
    assert reasons(read, "cas_read", 1) == {Reason.PRESENT}


@pytest.mark.parametrize(
    ("devices", "hint"),
    [((), "no counters outside the cores"), (("uncore_type_0_0",), "uncore_type_")],
)
def test_no_pmu_at_all_is_one_sentence(tmp_path: Path, devices: tuple[str, ...], hint: str) -> None:
    fake = FakeUncore(tmp_path, ICX, boxes={})
    put(tmp_path / PMUS, {})
    for name in devices:
        fake.put(name, {"type": "50", "cpumask": "0,2"})
    bench = Bench(fake)
    read = bench.read()
    assert isinstance(read, Missing) and read.reason is Reason.HARDWARE
    assert hint in read.message
    assert bench.counters.due_ns is None


def test_a_table_without_units_is_one_sentence_too(tmp_path: Path) -> None:
    read = Bench(FakeUncore(tmp_path, table.load())).read()
    assert isinstance(read, Missing) and read.reason is Reason.SOURCE


def test_one_package_needs_no_links(tmp_path: Path) -> None:
    fake = FakeUncore(tmp_path, SKX, boxes={"cha": 1, "imc": 1})
    write_tree(tmp_path, {f"cpu/cpu{cpu}/topology/physical_package_id": "0" for cpu in (2, 3)})
    fake.online -= {2, 3}
    fake.write_online()
    read = Bench(fake).tick()
    assert read.gaps == ""
    assert set(read.packages) == {0}
