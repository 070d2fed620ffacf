"""How groups share the time of a box, and that their rates are true all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.reading import Missing, Reason
from nftop.sources.uncore.rota import (
    LONGEST_NS,
    SHORTEST_NS,
    SWITCHING_AT_MOST,
    round_of,
    shares,
)
from tests.sources.uncore.bench import ICX, SECOND, SKX, Bench, rates
from tests.sources.uncore.kernel import FakeUncore


def test_lines_read_and_written_have_half_of_the_time_where_four_opcodes_fit() -> None:
    cha = next(unit for unit in ICX.uncore if unit.name == "cha")
    assert shares(cha)[0] == 0.5
    assert set(cha.turns[0]) == {"itom_hit", "itom_miss", "pcirdcur_hit", "pcirdcur_miss"}


@given(
    parts=st.lists(st.integers(1, 9), min_size=2, max_size=9),
    interval_ns=st.integers(0, 100 * SECOND),
)
def test_rounds_fill_the_interval_and_are_the_same_backwards(
    parts: list[int], interval_ns: int
) -> None:
    wanted = [part / sum(parts) for part in parts]
    slices = round_of(wanted, interval_ns)
    round_ns = sum(each.duration_ns for each in slices)
    assert slices == slices[::-1]
    assert min(each.duration_ns for each in slices) >= SHORTEST_NS - 1
    for turn, part in enumerate(wanted):
        mine = sum(each.duration_ns for each in slices if each.turn == turn)
        assert mine == pytest.approx(part * round_ns, rel=1e-6)
    if interval_ns * min(wanted) >= 2 * LONGEST_NS:
        assert max(each.duration_ns for each in slices) <= 2 * LONGEST_NS + 1
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
def test_traffic_that_grows_steadily_looks_the_same_to_every_turn(
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
            for at, each in enumerate(opened.turns)
            if bench.fake.fds[each.fds[0]].on
        }
        middle = (bench.fake.now_ns + due_ns) // 2 - began_ns
        moments.setdefault(turn, []).append((due_ns - bench.fake.now_ns, middle))
        bench.wait(due_ns - bench.fake.now_ns)
    assert sorted(moments) == list(range(7))
    for turn, each in moments.items():
        mean = sum(length * at for length, at in each) / sum(length for length, _ in each)
        # The first turn alone has what is too much or too little.
        if turn:
            assert mean == pytest.approx(SECOND / 2, rel=1e-6)


def test_at_the_fastest_pace_every_metric_keeps_its_number(tmp_path: Path) -> None:
    bench = Bench(FakeUncore(tmp_path, SKX))
    reads = [bench.tick(SECOND // 10) for _ in range(30)]
    for row in rates(bench.fake, *reads):
        lost = {name for name, each in row.readings.items() if isinstance(each, Missing)}
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
        lost = {name for name, each in row.readings.items() if isinstance(each, Missing)}
        assert all("itomcachenear" in name or "llc" in name or "combined" in name for name in lost)


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


def test_a_group_that_another_program_keeps_off_says_so(tmp_path: Path) -> None:
    fake = FakeUncore(tmp_path, SKX, share=lambda pmu: 0.0 if "imc" in pmu else 1.0)
    bench = Bench(fake)
    for row in rates(fake, *(bench.tick() for _ in range(4))):
        lost = row.readings["memory.read_bytes_per_s"]
        assert isinstance(lost, Missing) and lost.reason is Reason.TAKEN
        assert isinstance(row.readings["pcie.read_bytes_per_s"], float)
