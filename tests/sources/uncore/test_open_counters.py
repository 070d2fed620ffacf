"""How groups share the time of a box, and that their rates are true all the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.derive.package.table import HELD_SAMPLE_NS
from nftop.model.column import column
from nftop.model.missing import Missing, Reason
from nftop.model.uncore import UncoreTable
from nftop.sources.uncore.open_counters import (
    LONGEST_NS,
    SHORTEST_NS,
    SWITCHING_AT_MOST,
    round_of,
    shares,
)
from nftop.uarch import table
from nftop.uarch.table import Uarch
from nftop.uarch.topdown import evaluate_traffic
from tests.sources.uncore.bench import ICX, SECOND, SKX, Bench, folded, rates, reasons
from tests.sources.uncore.kernel import FakeUncore

BDX = table.load("BDX")


def test_lines_read_and_written_have_half_of_the_time_where_four_opcodes_fit() -> None:
    cha = next(unit for unit in ICX.uncore if unit.name == "cha")
    for detailed in (True, False):
        ratios = shares(cha, detailed=detailed)
        assert ratios[0] == 0.5 and sum(ratios) == pytest.approx(1.0)
    assert set(cha.turns[0]) == {"itom_hit", "itom_miss", "pcirdcur_hit", "pcirdcur_miss"}


@given(
    ratios=st.lists(st.integers(1, 9), min_size=2, max_size=9),
    interval_ns=st.integers(0, 100 * SECOND),
)
def test_rounds_fill_the_interval_and_are_the_same_backwards(
    ratios: list[int], interval_ns: int
) -> None:
    wanted = [component / sum(ratios) for component in ratios]
    slices = round_of(wanted, interval_ns)
    round_ns = sum(item.duration_ns for item in slices)
    assert slices == slices[::-1]
    assert min(item.duration_ns for item in slices) >= SHORTEST_NS - 1
    for turn, component in enumerate(wanted):
        mine = sum(entry.duration_ns for entry in slices if entry.turn == turn)
        assert mine == pytest.approx(component * round_ns, rel=1e-6)
    if interval_ns * min(wanted) >= 2 * LONGEST_NS:
        assert max(entry.duration_ns for entry in slices) <= 2 * LONGEST_NS + 1
        assert interval_ns / round_ns == pytest.approx(round(interval_ns / round_ns), abs=1e-3)


def test_the_pace_is_learned_and_kept_through_a_late_tick(tmp_path: Path) -> None:
    bench = Bench(FakeUncore(tmp_path, SKX))
    bench.tick()
    assert bench.counters.round_ns == pytest.approx(32 * SHORTEST_NS)
    bench.tick()
    assert bench.counters.round_ns == pytest.approx(SECOND, rel=1e-6)
    bench.tick(SECOND * 11 // 10)
    assert bench.counters.round_ns == pytest.approx(SECOND, rel=1e-6)
    bench.tick(SECOND // 2)
    assert bench.counters.round_ns == pytest.approx(SECOND / 2, rel=1e-6)


@pytest.mark.parametrize("late_ns", [-SECOND // 10, 0, SECOND // 10])
def test_traffic_that_grows_steadily_is_the_same_for_every_turn(
    tmp_path: Path, late_ns: int
) -> None:
    """Whole rounds go from reading to reading: all turns have the same mean moment."""
    bench = Bench(FakeUncore(tmp_path, SKX))
    bench.tick()
    bench.tick()
    moments: dict[int, list[tuple[int, int]]] = {}
    began_ns = bench.fake.now_ns
    until_ns = began_ns + SECOND + late_ns
    while bench.fake.now_ns < until_ns:
        due_ns = min(until_ns, bench.counters.due_ns or until_ns)
        (turn,) = {
            at
            for opened in bench.counters.boxes
            if opened.box.unit.name == "cha"
            for at, item in enumerate(opened.turns)
            if bench.fake.fds[item.fds[0]].on
        }
        middle = (bench.fake.now_ns + due_ns) // 2 - began_ns
        moments.setdefault(turn, []).append((due_ns - bench.fake.now_ns, middle))
        bench.wait(due_ns - bench.fake.now_ns)
    assert sorted(moments) == list(range(7))
    for turn, moment in moments.items():
        mean = sum(length * at for length, at in moment) / sum(length for length, _ in moment)
        # The first turn alone has what is too much or too little.
        if turn:
            assert mean == pytest.approx(SECOND / 2, rel=1e-6)


def test_at_the_fastest_pace_every_metric_keeps_its_number(tmp_path: Path) -> None:
    bench = Bench(FakeUncore(tmp_path, SKX))
    reads = [bench.tick(SECOND // 10) for _ in range(30)]
    for row in rates(bench.fake, *reads):
        lost = {name for name, reading in row.readings.items() if isinstance(reading, Missing)}
        assert all("itomcachenear" in name or "llc" in name or "combined" in name for name in lost)


def test_where_turns_change_slowly_rounds_are_longer_and_no_number_is_lost(
    tmp_path: Path,
) -> None:
    """As on kernels that set all groups of a CPU anew for each that is switched on."""
    bench = Bench(FakeUncore(tmp_path, SKX, switch_takes_ns=2_000_000))
    reads = [bench.tick() for _ in range(20)]
    assert bench.counters.switch_ns == 6 * 2_000_000
    assert bench.counters.round_ns == pytest.approx(12 * 12_000_000 / SWITCHING_AT_MOST)
    seen = bench.fake.switches
    reads += [bench.tick() for _ in range(20)]
    took_ns = (bench.fake.switches - seen) / 2 * 2_000_000
    assert took_ns <= 1.1 * SWITCHING_AT_MOST * 20 * SECOND
    for row in rates(bench.fake, *reads):
        lost = {name for name, reading in row.readings.items() if isinstance(reading, Missing)}
        assert all("itomcachenear" in name or "llc" in name or "combined" in name for name in lost)


@pytest.mark.parametrize(("uarch", "switches"), [(SKX, 4), (ICX, 2), (BDX, 4)])
def test_what_is_not_shown_costs_nothing(tmp_path: Path, uarch: Uarch, switches: int) -> None:
    bench = Bench(FakeUncore(tmp_path, uarch), detailed=False)
    bench.tick()
    bench.tick()
    fake, seen = bench.fake, (bench.fake.switches, bench.fake.reads)
    reads = [bench.tick() for _ in range(5)]
    boxes = 2 * fake.boxes["cha"]
    rounds = 5 * SECOND / bench.counters.round_ns
    # Off and on; the last turn of a round is the first of the next.
    assert fake.switches - seen[0] == pytest.approx(2 * switches * boxes * rounds, rel=0.1)
    off = [unit for unit in uarch.uncore if unit.on_demand]
    groups = sum(2 * fake.boxes[unit.name] * len(unit.turns) for unit in uarch.uncore)
    assert fake.reads - seen[1] == 5 * groups
    assert reads[-1].gaps == ""
    for row in rates(fake, *reads):
        why = row.readings["mmio.write_per_s"]
        assert isinstance(why, Missing) and why.reason is Reason.SOURCE
        assert "Traffic screen" in why.message
        assert isinstance(row.readings["pcie.write_bytes_per_s"], float)
    for event in (event for unit in off for turn in unit.on_demand for event in turn):
        assert reasons(reads[-1], event, 0) == {Reason.SOURCE}


@pytest.mark.parametrize("uarch", [SKX, ICX, BDX], ids=lambda uarch: uarch.name)
@pytest.mark.parametrize("ns", [SECOND, SECOND // 10])
def test_focus_and_its_end_disturb_no_other_number(tmp_path: Path, uarch: Uarch, ns: int) -> None:
    bench = Bench(FakeUncore(tmp_path, uarch), detailed=False)
    names = ("pcie.write_bytes_per_s", "memory.read_bytes_per_s", "mmio.write_per_s")
    exact = [{name: rate_of(bench.fake, uarch, name, at) for name in names} for at in (0, 1)]

    def readings() -> Iterator[UncoreTable]:
        for tick in range(-3, 60):
            bench.counters.detail(wanted=tick >= 0 and tick // 20 % 2 == 0)
            yield bench.tick(ns)

    numbers: list[bool] = []
    ages_s: list[float] = []
    for tick, (first, second) in enumerate(folded(bench.fake, readings()), -3):
        if tick < 0:
            continue
        for row in (first, second):
            for name in names[:2]:
                assert row.readings[name] == pytest.approx(exact[row.package][name]), (tick, name)
        mmio = first.readings["mmio.write_per_s"]
        numbers.append(isinstance(mmio, float))
        ages_s.append(first.sampled_s.get("mmio.write_per_s", 0.0))
        if isinstance(mmio, float):
            assert mmio == pytest.approx(exact[0]["mmio.write_per_s"])
        else:
            focused = tick // 20 % 2 == 0
            assert mmio.reason is (Reason.WARMING if focused else Reason.SOURCE), (tick, mmio)
    # The last number is held for a while, with its age; readings are folded a second apart.
    assert all(numbers[2 if ns == SECOND else 8 : 20]) and all(numbers[50:])
    assert numbers[20:40] == [age_s > 0 or at == 0 for at, age_s in enumerate(ages_s[20:40])]
    assert max(ages_s) == HELD_SAMPLE_NS / 1e9 and not any(numbers[37:40])


def rate_of(fake: FakeUncore, uarch: Uarch, metric: str, package: int) -> float:
    """What the formula of a package's metric is here: of events per second, at all boxes."""
    per_s = {
        event: column(
            np.array(
                [
                    1e9
                    * sum(
                        fake.expected(event, box, package) for box in range(fake.boxes[unit.name])
                    )
                ]
            )
        )
        for unit in uarch.uncore
        for event in unit.events
    }
    reading = evaluate_traffic(uarch, per_s)[metric][0]
    assert isinstance(reading, float)
    return reading


def test_where_the_turns_are_all_on_demand_none_wakes_anybody(tmp_path: Path) -> None:
    (cha,) = (unit for unit in SKX.uncore if unit.name == "cha")
    first, *others = (*cha.turns, *cha.on_demand)
    uarch = replace(SKX, uncore=(replace(cha, turns=(first,), on_demand=tuple(others)),))
    bench = Bench(FakeUncore(tmp_path, uarch), detailed=False)
    bench.tick()
    bench.tick()
    stands = bench.counters.due_ns is None
    assert stands
    seen = bench.fake.switches
    assert bench.tick().gaps == "" and bench.fake.switches == seen
    bench.counters.detail(wanted=True)
    bench.tick()
    assert bench.counters.due_ns is not None
    assert bench.tick().running_ns.all()


def test_multiplexing_with_another_program_is_handed_over_not_corrected(tmp_path: Path) -> None:
    fake = FakeUncore(tmp_path, SKX, share=lambda pmu: 0.25 if pmu == "uncore_imc_1" else 1.0)
    bench = Bench(fake)
    bench.tick()
    before, after = bench.tick(), bench.tick()
    imc_1 = (after.event == after.events.index("cas_read")) & (after.boxes == 1)
    assert (after.running_ns[imc_1] * 4 == after.enabled_ns[imc_1]).all()
    for row in rates(fake, before, after):
        assert "memory.read_bytes_per_s" in row.estimates
        exact = 64e9 * sum(fake.expected("cas_read", box, int(row.package)) for box in (0, 1))
        assert row.readings["memory.read_bytes_per_s"] == pytest.approx(exact)


def test_a_group_that_another_program_keeps_off_reports_it(tmp_path: Path) -> None:
    fake = FakeUncore(tmp_path, SKX, share=lambda pmu: 0.0 if "imc" in pmu else 1.0)
    bench = Bench(fake)
    for row in rates(fake, *(bench.tick() for _ in range(4))):
        lost = row.readings["memory.read_bytes_per_s"]
        assert isinstance(lost, Missing) and lost.reason is Reason.TAKEN
        assert isinstance(row.readings["pcie.read_bytes_per_s"], float)
