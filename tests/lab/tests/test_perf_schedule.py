"""Who is on the counters: the pure scheduler, on the counters of real PMUs."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab import machine as machines
from tests.lab.perf.pmu import Pmu, load
from tests.lab.perf.schedule import Group, fits, rota, running_ns, stretches

SKX, SKX_NO_HT = load(machines.load("skx-4")), load(machines.load("skx-4"), smt=False)
ICX = load(machines.load("icx"))
BDX, SPR = load(machines.load("bdx"), smt=False), load(machines.load("spr"))
CYCLES, INSTRUCTIONS, REF, SLOTS, RETIRING = 0x3C, 0xC0, 0x300, 0x400, 0x8000
GENERAL = (0x19C, 0x10E, 0x2C2, 0x10D, 0xC5, 0x10401C3, 0x4C2, 0x40004A3, 0x2A6)
MS = 1_000_000


def masks(pmu: Pmu, *configs: int) -> list[int]:
    return [pmu.mask_of(config) for config in configs]


def room(pmu: Pmu, *configs: int) -> bool:
    return fits(masks(pmu, *configs), pmu.available)


def test_fixed_counters_leave_the_general_ones_alone() -> None:
    assert room(SKX, CYCLES, INSTRUCTIONS, REF, *GENERAL[:4])
    assert not room(SKX, *GENERAL[:5])
    assert room(SKX_NO_HT, *GENERAL[:8])
    assert not room(SKX_NO_HT, *GENERAL[:9])
    assert room(ICX, CYCLES, INSTRUCTIONS, REF, SLOTS, RETIRING, *GENERAL[:8])


def test_cycles_go_to_a_general_counter_where_theirs_is_taken_and_ref_cycles_do_not() -> None:
    assert room(SKX, CYCLES, CYCLES, *GENERAL[:3])
    assert not room(SKX, CYCLES, CYCLES, *GENERAL[:4])
    assert not room(SKX, REF, REF)
    assert not room(ICX, SLOTS, SLOTS)


def test_a_filter_makes_another_event_of_it() -> None:
    filtered = CYCLES | 1 << 24
    assert SKX.mask_of(filtered) == 0xF
    assert SKX.mask_of(CYCLES | 1 << 21) == SKX.mask_of(CYCLES)  # AnyThread is no filter


def test_events_for_the_lower_counters_only() -> None:
    loads = (0x2D1, 0x8D1, 0x40D1, 0x1D3)
    assert room(ICX, *loads, *GENERAL[:4])
    assert not room(ICX, *loads, 0x4D1)
    assert room(ICX, *(0x4A3, 0x10A3, 0x14A3, 0x4A3, 0x4A3))
    assert not room(ICX, *(0xCA3, 0x5A3, 0x6A3, 0xCA3, 0xCA3))


def test_broadwell_counts_what_pends_in_level_1_on_one_counter() -> None:
    assert BDX.mask_of(0x8A3) == BDX.mask_of(0xCA3) == BDX.mask_of(0x148) == 0x4
    assert not room(BDX, 0xCA3, 0x148)
    assert BDX.mask_of(0x4A3) == BDX.mask_of(0x6A3) == 0xFF
    assert BDX.mask_of(0x4D1) == 0xF


def test_sapphire_rapids_has_lower_counters_for_codes_below_0x90() -> None:
    assert room(SPR, SLOTS, *(RETIRING + 0x100 * number for number in range(8)), *GENERAL[:4])
    assert SPR.mask_of(0x19C) == SPR.mask_of(0x412E) == SPR.mask_of(0x13C) == 0xFF
    assert SPR.mask_of(0x347) == SPR.mask_of(0x4D1) == 0xF
    assert SPR.mask_of(0x8A4) == 0x1
    assert not room(SPR, 0x8A4, 0x4A4)


@given(
    wanted=st.lists(st.integers(1, 15), max_size=5),
    available=st.integers(0, 15),
)
def test_masks_of_four_counters_never_fit_where_no_assignment_does(
    wanted: list[int], available: int
) -> None:
    counters = [1 << i for i in range(4) if available >> i & 1]
    possible = any(
        all(mask & counter for mask, counter in zip(wanted, order, strict=True))
        for order in itertools.permutations(counters, len(wanted))
    )
    assert possible or not fits(wanted, available)
    if all(mask in (0b1111, 0b0011, 0b0001) for mask in wanted):  # one within the other
        assert fits(wanted, available) == possible


def turns_of(pmu: Pmu, groups: list[Group], *, watchdog: bool = True) -> list[set[int]]:
    plan = rota(groups, pmu.available, pmu.held(watchdog=watchdog))
    return [set(turn) for turn in plan.turns]


def singles(pmu: Pmu, *configs: int) -> list[Group]:
    return [Group((mask,)) for mask in masks(pmu, *configs)]


def test_what_fits_never_rotates() -> None:
    assert turns_of(SKX, singles(SKX, CYCLES, INSTRUCTIONS, *GENERAL[:3])) == [{0, 1, 2, 3, 4}]
    assert turns_of(SKX, []) == [set()]


def test_single_events_take_turns_in_their_order() -> None:
    turns = turns_of(SKX, singles(SKX, *GENERAL[:5]))
    assert turns == [{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 0}, {3, 4, 0, 1}, {4, 0, 1, 2}]


def test_groups_are_on_as_a_whole_or_not_at_all() -> None:
    pair = Group(tuple(masks(SKX, *GENERAL[:3])))
    assert turns_of(SKX, [pair, pair]) == [{0}, {1}]


def test_the_watchdogs_counter_keeps_a_full_group_off_for_good() -> None:
    # Linux 6.1 on a Skylake model: a group of cycles and four more opens, and is never counted.
    full = Group(tuple(masks(SKX, CYCLES, *GENERAL[:4])))
    assert fits(full.masks, SKX.available)
    assert turns_of(SKX, [full]) == [set()]
    assert turns_of(SKX, [full], watchdog=False) == [{0}]


def test_a_group_without_a_free_counter_is_retried_in_its_turn() -> None:
    never = Group(tuple(masks(SKX, CYCLES, *GENERAL[:4])))
    assert turns_of(SKX, [never, *singles(SKX, INSTRUCTIONS)]) == [set(), {1}]


def test_what_needs_no_counter_is_always_on() -> None:
    free = Group((0, 0))
    assert turns_of(SKX, [free, *singles(SKX, *GENERAL[:5])])[2] == {0, 3, 4, 5, 1}


def test_pinned_groups_come_first_or_fail() -> None:
    pinned = Group((SKX.mask_of(REF),), pinned=True)
    plan = rota([*singles(SKX, REF), pinned, pinned], SKX.available)
    assert plan.turns == (frozenset({1}),)
    assert plan.failed == {2}


def test_an_exclusive_group_is_alone() -> None:
    alone = Group(tuple(masks(SKX, INSTRUCTIONS)), exclusive=True)
    assert turns_of(SKX, [alone, *singles(SKX, CYCLES, REF)]) == [{0}, {1, 2}, {2}]


# Percent of its time that `perf stat` found each of nine events counted, by Linux 6.1 on a Skylake
# model and by 7.2 on an Ice Lake model. The first four have one share, so they are taken as the
# group {cycles,instructions,r20d1,r04d1}; the second as four general counters and no watchdog.
SINGLES = (0x1D1, 0x2D1, 0x8D1, 0x10D1, 0x151)


@pytest.mark.parametrize(
    ("watchdog", "percent"),
    [
        (True, [33.30, 33.37, 33.26, 50.03, 66.72, 66.64]),
        (False, [50.10, 50.09, 50.12, 49.91, 66.59, 66.52]),
    ],
)
def test_shares_are_a_real_kernels(watchdog: bool, percent: list[float]) -> None:
    group = Group(tuple(masks(SKX, CYCLES, INSTRUCTIONS, 0x20D1, 0x4D1)))
    turns = turns_of(SKX, [group, *singles(SKX, *SINGLES)], watchdog=watchdog)
    shares = [100 * sum(index in turn for turn in turns) / len(turns) for index in range(6)]
    assert shares == pytest.approx(percent, abs=0.3)


@given(count=st.integers(1, 9), index=st.integers(0, 8), elapsed_ns=st.integers(0, 10**10))
def test_time_on_the_counters_is_that_of_the_turns(count: int, index: int, elapsed_ns: int) -> None:
    index %= count
    plan = rota(singles(SKX, *GENERAL[:count]), SKX.available)
    turn_ns = 4 * MS
    ran = running_ns(plan, index, elapsed_ns, turn_ns)
    whole, rest = divmod(elapsed_ns, turn_ns)
    expected = sum(turn_ns for turn in range(whole) if index in plan.turns[turn % len(plan.turns)])
    expected += rest if index in plan.turns[whole % len(plan.turns)] else 0
    assert ran == expected
    assert all(
        0 <= start <= end <= elapsed_ns
        for start, end, _ in stretches(plan, index, elapsed_ns, turn_ns)
    )


@pytest.mark.parametrize("events", [5, 6, 9])
def test_everybody_gets_the_same_share(events: int) -> None:
    plan = rota(singles(SKX, *GENERAL[:events]), SKX.available)
    ran = {running_ns(plan, index, 4 * MS * events * 7, 4 * MS) for index in range(events)}
    assert ran == {4 * 4 * MS * 7}
