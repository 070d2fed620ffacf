"""Formulas against plain float arithmetic, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.column import Column, column, from_readings, missing
from nftop.model.missing import Missing, Reading, Reason
from nftop.uarch import grammar
from nftop.uarch.formula import compile_formula

NAMES = ("a", "b", "c")
WHY = Missing(Reason.PERMISSION, "needs CAP_PERFMON")
COUNTS = st.one_of(st.integers(0, 2**48).map(float), st.floats(0, 1e12), st.just(0.0))
ATOMS = st.one_of(
    st.sampled_from(NAMES), st.integers(0, 1000).map(str), st.floats(0, 1e6).map(repr)
)


def _compound(operands: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(operands, operands)
    return st.one_of(
        st.builds("({0[0]} {1} {0[1]})".format, pair, st.sampled_from("+-*/")),
        st.builds("(-{})".format, operands),
        st.builds(
            "{1}({0[0]}, {0[1]}, {2})".format, pair, st.sampled_from(["min", "max"]), operands
        ),
        st.builds(
            "({0[0]} if {1} {2} {3} else {0[1]})".format,
            pair,
            operands,
            st.sampled_from(["<", "<=", ">", ">="]),
            operands,
        ),
    )


EXPRESSIONS = st.recursive(ATOMS, _compound, max_leaves=12)
ROWS = st.lists(st.tuples(COUNTS, COUNTS, COUNTS), min_size=1, max_size=5)


def oracle(text: str, row: Mapping[str, float]) -> float | None:
    """Python's own arithmetic; None for a division by zero anywhere in what is evaluated."""
    try:
        return float(eval(text, {"min": min, "max": max}, dict(row)))
    except ZeroDivisionError:
        return None


def present(values: list[float]) -> Column:
    return column(np.array(values, dtype=np.float64))


def cell(text: str, **inputs: Reading) -> Reading:
    columns = {
        name: from_readings({0: reading}, 1, Missing(Reason.UNDEFINED))
        for name, reading in inputs.items()
    }
    return compile_formula(text)(columns, 1)[0]


@given(EXPRESSIONS, ROWS)
def test_any_expression_is_what_float_arithmetic_makes_of_it(
    text: str, rows: list[tuple[float, float, float]]
) -> None:
    inputs = {name: present([row[i] for row in rows]) for i, name in enumerate(NAMES)}
    result = compile_formula(text)(inputs, len(rows))
    for index, row in enumerate(rows):
        expected, got = oracle(text, dict(zip(NAMES, row, strict=True))), result[index]
        if expected is None:
            assert got == Missing(Reason.IDLE, Reason.IDLE.sentence), text
        elif not math.isfinite(expected):
            assert isinstance(got, Missing) and got.reason is Reason.ERROR, text
        elif isinstance(got, Missing):
            # Only a number too large on the way to a finite one, such as 1 / inf.
            assert got.reason is Reason.ERROR
        else:
            assert got == expected, text


@given(EXPRESSIONS, ROWS, st.sampled_from(NAMES), st.integers(0, 4))
def test_a_row_with_a_missing_input_never_has_a_number_it_needs(
    text: str, rows: list[tuple[float, float, float]], gone: str, where: int
) -> None:
    where %= len(rows)
    inputs = {name: present([row[i] for row in rows]) for i, name in enumerate(NAMES)}
    readings: dict[int, Reading] = dict(enumerate(inputs[gone].values.tolist()))
    broken = {**inputs, gone: from_readings({**readings, where: WHY}, len(rows), WHY)}
    whole = compile_formula(text)(inputs, len(rows))
    result = compile_formula(text)(broken, len(rows))
    for row in range(len(rows)):
        if row != where or gone not in compile_formula(text).names:
            assert result[row] == whole[row]
        elif " if " not in text:
            got = result[row]
            assert isinstance(got, Missing)
            assert got.reason in (Reason.PERMISSION, Reason.IDLE)
        assert bool(np.isnan(result.values[row])) == isinstance(result[row], Missing)


@given(st.lists(st.lists(COUNTS, min_size=3, max_size=3), min_size=1, max_size=6))
def test_a_sum_of_many_columns_is_their_sum(columns: list[list[float]]) -> None:
    inputs = {f"n{i}": present(values) for i, values in enumerate(columns)}
    result = compile_formula(" + ".join(inputs))(inputs, 3)
    for row in range(3):
        expected = 0.0
        for values in columns:
            expected += values[row]
        assert result[row] == expected


def test_zero_below_the_line_is_no_work_and_not_a_number() -> None:
    assert cell("a / b", a=0.0, b=0.0) == Missing(Reason.IDLE, Reason.IDLE.sentence)
    assert cell("a / b", a=5.0, b=0.0) == Missing(Reason.IDLE, Reason.IDLE.sentence)
    assert cell("a / (b - b)", a=5.0, b=2.0) == Missing(Reason.IDLE, Reason.IDLE.sentence)
    assert cell("a / b", a=0.0, b=5.0) == 0.0


def test_the_reason_is_that_of_the_first_input_that_has_none() -> None:
    taken = Missing(Reason.TAKEN, "the NMI watchdog holds it")
    assert cell("(a - b) / c", a=1.0, b=WHY, c=taken) == WHY
    assert cell("(a - b) / c", a=taken, b=WHY, c=1.0) == taken
    # A missing divisor is not a zero, and a zero before it is not the end of the story.
    assert cell("a / b + c", a=1.0, b=taken, c=WHY) == taken
    absent = cell("a + nothing", a=1.0)
    assert isinstance(absent, Missing) and absent.reason is Reason.SOURCE
    assert absent.message.startswith("nothing ")


def test_rows_keep_their_own_sentences_where_reasons_are_alike() -> None:
    one, other = (Missing(Reason.TAKEN, text) for text in ("by the watchdog", "by a profiler"))
    plain = Missing(Reason.TAKEN)
    a = from_readings({0: 1.0, 1: one, 2: 1.0, 3: 1.0}, 4, plain)
    b = from_readings({0: 1.0, 1: 1.0, 3: 1.0}, 4, other)
    c = from_readings({0: 1.0, 1: 1.0, 2: 1.0}, 4, plain)
    result = compile_formula("a + b + c")({"a": a, "b": b, "c": c}, 4)
    sentences = [
        row.message if isinstance(row, Missing) else row
        for row in map(result.__getitem__, range(4))
    ]
    assert sentences == [3.0, "by the watchdog", "by a profiler", plain.message]


def test_first_takes_the_first_known_value_of_a_row() -> None:
    taken = Missing(Reason.TAKEN, "held")
    assert cell("first(a, b)", a=2.0, b=3.0) == 2.0
    assert cell("first(a, b)", a=WHY, b=3.0) == 3.0
    assert cell("first(a, b, c)", a=WHY, b=taken, c=4.0) == 4.0
    assert cell("first(a, b)", a=WHY, b=taken) == WHY
    assert cell("first(a / b, c)", a=1.0, b=0.0, c=4.0) == 4.0


def test_a_condition_needs_only_the_branch_it_takes() -> None:
    assert cell("a if b > 1 else c", a=7.0, b=2.0, c=WHY) == 7.0
    assert cell("a if b > 1 else c", a=7.0, b=0.0, c=WHY) == WHY
    assert cell("a if b > 1 else c", a=7.0, b=WHY, c=1.0) == WHY


def test_a_number_too_large_is_an_error_and_no_warning() -> None:
    got = cell("a * a", a=1e200)
    assert isinstance(got, Missing) and got.reason is Reason.ERROR


def test_a_constant_fills_every_row_and_no_row_is_none() -> None:
    assert list(compile_formula("2 * 3")({}, 4).values) == [6.0] * 4
    assert len(compile_formula("a / b")({"a": missing(0, WHY), "b": missing(0, WHY)}, 0)) == 0


def test_names_are_unique_and_in_the_order_of_the_text() -> None:
    assert compile_formula("b + a * b - first(c, 1)").names == ("b", "a", "c")
    assert compile_formula("a + 1") is compile_formula("a + 1")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a +",
        "a b",
        "a ** b",
        "a // b",
        "a % b",
        "~a",
        "+a",
        "not a",
        "a and b",
        "a < b",
        "a if b else c",
        "a if b < c < 1 else c",
        "a if b == c else c",
        "a.b",
        "a[0]",
        "'a'",
        "True",
        "None",
        "1j",
        "1e999",
        "1" + "0" * 400,
        "[a]",
        "lambda: a",
        "(a := 1)",
        "abs(a)",
        "min()",
        "min(*a)",
        "min(a, key=b)",
        "__import__('os').system('true')",
        "min(a, b).real",
        "(" * 100 + "a" + ")" * 100 + " +" * 3,
        "-" * 500 + "a",
        "a" + " + a" * 100,
        "min(a" + ", a" * 1000 + ")",
        "a\0",
        "a; b",
        "x = 1",
    ],
)
def test_what_is_not_in_the_notation_is_refused(text: str) -> None:
    with pytest.raises(grammar.FormulaError):
        compile_formula(text)


@given(st.text(alphabet="ab1.,+-*/()<>= ifelsminax_'[]{}:\n", max_size=40))
def test_any_text_is_a_formula_or_a_formula_error(text: str) -> None:
    try:
        formula = compile_formula(text)
    except grammar.FormulaError:
        return
    result = formula({name: present([1.0]) for name in formula.names}, 1)
    assert isinstance(result[0], float | Missing)
