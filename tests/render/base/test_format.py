"""Numbers in cells: examples an operator would check, and what holds for every number."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing, Reading, Reason
from nftop.render.base import format as fmt

REASONS = [reason for reason in Reason if reason is not Reason.PRESENT]
missing = st.sampled_from(REASONS).map(Missing)
NUMBERS = [item for item in Unit if item is not Unit.TEXT]
units = st.sampled_from(NUMBERS)


@pytest.mark.parametrize(
    ("value", "unit", "width", "text"),
    [
        (0.97, Unit.RATIO, 5, "97%"),
        (0.042, Unit.RATIO, 5, "4.2%"),
        (1.0, Unit.RATIO, 5, "100%"),
        (0.0, Unit.RATIO, 5, "0%"),
        (0.0002, Unit.RATIO, 5, "0+%"),
        (0.042, Unit.RATIO, 2, "4%"),
        (0.002, Unit.RATIO, 3, "0+%"),
        (1.2144, Unit.PER_CYCLE, 5, "1.21"),
        (14_880_952.0, Unit.PACKETS_PER_S, 6, "14.9"),
        (148_809_523.0, Unit.PACKETS_PER_S, 6, "149"),
        (12_345.0, Unit.PACKETS_PER_S, 6, "0.012"),
        (5.0, Unit.PACKETS_PER_S, 6, "0+"),
        (2.2e9, Unit.HZ, 5, "2.20"),
        (254.3, Unit.CYCLES, 5, "254"),
        (15.34, Unit.CYCLES, 5, "15.3"),
        (233_000.0, Unit.CYCLES, 6, "233k"),
        (233_000.0, Unit.CYCLES, 5, "233k"),
        (5_600_000.0, Unit.CYCLES, 5, "5.60M"),
        (5_600_000.0, Unit.CYCLES, 1, "#"),
        (9.75, Unit.PER_PACKET, 6, "9.75"),
        (-0.0, Unit.PER_S, 5, "0"),
        (64_800_000.0, Unit.REQUESTS_PER_S, 7, "64.8"),
        (325_806.0, Unit.REQUESTS_PER_S, 7, "0.326"),
        (2.75 * 2**20, Unit.BYTES, 5, "2.8"),
        (192.0 * 2**20, Unit.BYTES, 5, "192"),
    ],
)
def test_a_number_prints_by_its_unit(value: float, unit: Unit, width: int, text: str) -> None:
    assert fmt.number(value, unit, width) == text


def test_marks_next_to_a_number_use_some_of_its_width() -> None:
    assert fmt.cell(254.0, Unit.CYCLES, 5, bound=True, estimate=True) == "<254~"
    assert fmt.cell(25_400.0, Unit.CYCLES, 5, bound=True, estimate=True) == "<25k~"
    assert fmt.cell(0.0001, Unit.RATIO, 6, bound=True) == "<0+%"


def test_a_missing_value_is_its_mark_and_never_a_number() -> None:
    assert fmt.cell(Missing(Reason.PERMISSION), Unit.HZ, 5, bound=True, estimate=True) == "[p]"
    assert fmt.cell(Missing(Reason.PERMISSION), Unit.HZ, 2) == "p"
    assert fmt.number(math.nan, Unit.HZ, 5) == Reason.ERROR.mark


@given(
    reading=st.floats() | missing,
    unit=units,
    width=st.integers(-2, 14),
    bound=st.booleans(),
    estimate=st.booleans(),
)
def test_a_cell_never_exceeds_its_width(
    reading: Reading, unit: Unit, width: int, bound: bool, estimate: bool
) -> None:
    text = fmt.cell(reading, unit, width, bound=bound, estimate=estimate)
    assert len(text) <= max(0, width)
    assert text.isascii()
    assert text.isprintable()


@given(
    value=st.floats(1e-12, 1e15),
    unit=units.filter(lambda unit: unit is not Unit.CHANGE),
    width=st.integers(1, 14),
)
def test_what_is_not_zero_never_prints_as_zero(value: float, unit: Unit, width: int) -> None:
    text = fmt.number(value, unit, width)
    assert text.startswith(("0+", "+0+", "#")) or re.search("[1-9]", text)


SCALE = {"%": 1e-2, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
FACTOR = {
    Unit.PACKETS_PER_S: 1e6,
    Unit.REQUESTS_PER_S: 1e6,
    Unit.HZ: 1e9,
    Unit.BYTES_PER_S: 1e9,
    Unit.BYTES: 2.0**20,
    Unit.JOULES: 1e3,
}


@given(
    value=st.floats(1e-3, 1e14),
    unit=units.filter(lambda u: u is not Unit.CHANGE),
    width=st.integers(1, 14),
)
def test_what_prints_is_the_number_to_the_digits_shown(
    value: float, unit: Unit, width: int
) -> None:
    text = fmt.number(value, unit, width)
    result = re.fullmatch(r"(\d+(?:\.(\d+))?)(?:e(-?\d+))?([kMGT]?)(%?)", text)
    if not result:
        assert re.fullmatch(r"#+|0\+%?", text)
        return
    digits, decimals, power, suffix, percent = result.groups()
    scale = (
        10.0 ** int(power or 0)
        * SCALE.get(suffix, 1.0)
        * SCALE.get(percent, 1.0)
        * FACTOR.get(unit, 1.0)
    )
    half = 0.5 * 10 ** -len(decimals or "") * scale
    assert abs(float(digits) * scale - value) <= half * (1 + 1e-9)


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0.2, "+20%"),
        (-0.2, "-20%"),
        (0.0123, "+1%"),
        (-0.0004, "0%"),
        (0.0, "0%"),
        (-0.999, "-99%"),
        (-1.0, "-100%"),
        (1.5, "+150%"),
        (9.0, "x10"),
        (1234.0, "x1.24k"),
    ],
)
def test_a_change_has_its_sign_and_is_nothing_or_all_only_where_it_is(
    ratio: float, text: str
) -> None:
    assert fmt.number(ratio, Unit.CHANGE, 8) == text
    assert len(fmt.number(ratio, Unit.CHANGE, 4)) <= 4


@given(st.floats(), units, st.integers(0, 9), st.booleans())
def test_a_column_prints_what_its_cells_would(
    value: float, unit: Unit, width: int, bound: bool
) -> None:
    assert fmt.printer(unit, width, bound=bound)(value) == fmt.cell(value, unit, width, bound=bound)


def test_so_it_does_at_every_power_of_ten_and_where_digits_round() -> None:
    digits = (0.5, 0.95, 0.995, 0.9995, 1, 1.5, 2, 3, 4, 4.9, 5, 5.1, 7, 9.4, 9.94, 9.95, 9.994)
    values = [one * 10.0**power for one in digits for power in range(-13, 14)]
    for unit in NUMBERS:
        for width in (3, 5, 6, 8):
            for bound in (False, True):
                printed = fmt.printer(unit, width, bound=bound)
                wanted = [fmt.cell(value, unit, width, bound=bound) for value in values]
                assert [printed(value) for value in values] == wanted


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.0, "100.0%"),
        (0.9996, ">99.9%"),
        (0.9994, "99.9%"),
        (0.995, "99.5%"),
        (0.1, "10.0%"),
        (0.0123, "1.2%"),
        (1e-7, "0+%"),
        (0.0, "0%"),
    ],
)
def test_a_share_has_a_decimal_and_is_all_only_where_it_is(ratio: float, text: str) -> None:
    assert fmt.share(ratio, 7) == text
    assert len(fmt.share(ratio, 4)) <= 4


def test_times_have_their_own_unit_in_words() -> None:
    texts = {
        0.0: "0 ns",
        90.0: "90.0 ns",
        998.0: "998 ns",
        4_100.0: "4.1 us",
        130e6: "130 ms",
        2.5e9: "2.5 s",
        90e9: "90.0 s",
    }
    assert {value: fmt.worded(value, Unit.NS) for value in texts} == texts
    assert fmt.worded(Missing(Reason.IDLE), Unit.NS) == Reason.IDLE.mark
