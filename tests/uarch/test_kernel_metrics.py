"""perf's formulas in nftop's notation: the same numbers, or a refusal."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.column import column
from nftop.model.metrics.tma import TMA_METRICS
from nftop.model.missing import Missing, Reason
from nftop.uarch.formula import compile_formula
from nftop.uarch.grammar import FormulaError
from nftop.uarch.kernel_metrics import event_key, event_name, nodes, same, translate

FORMULAS = {
    "share": r"d_ratio(topdown\-retiring - 2 * X.ANY, slots_of)",
    "slots_of": "4 * CPU_CLK_UNHALTED.THREAD",
    "smt": "1 - (A / 2 if #SMT_on else B)",
    "compared": "min(A, B) if A < B else max(A, 0.5)",
    "loop": "other + 1",
    "other": "loop + 1",
}


def value(metric: str, counts: Mapping[str, float], smt: float = 1.0, unit: str = "100%") -> object:
    matches = translate(metric, FORMULAS, {"#smt_on": smt}, unit)
    columns = {name: column(np.array([counts[key]])) for name, key in matches.events.items()}
    return compile_formula(matches.formula)(columns, 1)[0]


def test_metrics_replace_their_names() -> None:
    matches = translate("share", FORMULAS, {}, "100%slots")
    assert matches.events == {
        "kernel_topdown_retiring": "topdown-retiring",
        "kernel_x_any": "x.any",
        "cycles": "cpu_clk_unhalted.thread",
    }
    counts = {"topdown-retiring": 9.0, "x.any": 1.0, "cpu_clk_unhalted.thread": 7.0}
    assert value("share", counts) == pytest.approx(7 / 28)


def test_a_division_by_zero_is_idle_and_not_perf_s_zero() -> None:
    counts = {"topdown-retiring": 9.0, "x.any": 1.0, "cpu_clk_unhalted.thread": 0.0}
    idle = value("share", counts)
    assert isinstance(idle, Missing)
    assert idle.reason is Reason.IDLE


@pytest.mark.parametrize(("smt", "ratio"), [(1.0, 1 - 0.4 / 2), (0.0, 1 - 0.3)])
def test_conditions(smt: float, ratio: float) -> None:
    assert value("smt", {"a": 0.4, "b": 0.3}, smt) == pytest.approx(ratio)


@given(a=st.floats(0, 1e6), b=st.floats(0, 1e6))
def test_comparisons(a: float, b: float) -> None:
    assert value("compared", {"a": a, "b": b}) == pytest.approx(min(a, b) if a < b else max(a, 0.5))


@pytest.mark.parametrize(
    ("unit", "factor"), [("100%", 1), ("100%ops", 1), ("1%", 0.01), ("1percent of slots", 0.01)]
)
def test_units(unit: str, factor: float) -> None:
    assert value("smt", {"a": 0.4, "b": 0.3}, unit=unit) == pytest.approx(0.8 * factor)


@pytest.mark.parametrize("unit", ["", "1per_sec", "6.1e-05MiB", "percent", "1percentile"])
def test_what_is_no_share_is_refused(unit: str) -> None:
    with pytest.raises(FormulaError, match="no share"):
        translate("smt", FORMULAS, {"#smt_on": 1.0}, unit)


def test_metrics_in_a_circle_are_refused() -> None:
    with pytest.raises(FormulaError):
        translate("loop", FORMULAS, {}, "100%")


operands = st.sampled_from(["A", "B.C", r"d\-e", "2", "0.5"])
expressions = st.recursive(
    operands,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner)
        | st.builds("{} {} {}".format, inner, st.sampled_from("+-*"), operands)
        | st.builds("max({}, {})".format, inner, inner)
    ),
    max_leaves=12,
)


@given(text=expressions, counts=st.tuples(*[st.floats(1, 100)] * 3))
def test_arithmetic_is_perf_s(text: str, counts: tuple[float, ...]) -> None:
    """perf's operators have Python's meaning and precedence."""
    known = dict(zip(("a", "b.c", "d-e"), counts, strict=True))
    plain = text.replace(r"d\-e", "d").replace("B.C", "b").replace("A", "a")
    names = dict(zip(("a", "b", "d"), counts, strict=True))
    matches = translate("m", {"m": text}, {}, "100%")
    columns = {name: column(np.array([known[key]])) for name, key in matches.events.items()}
    result = compile_formula(matches.formula)(columns, 1)[0]
    try:
        wanted = eval(plain, {"max": max}, names)  # text made of the strategies above
    except ZeroDivisionError:
        assert isinstance(result, Missing)
        return
    assert result == pytest.approx(wanted, rel=1e-9, abs=1e-6)


@given(text=st.text(alphabet="ab.()+-*/,<> \\#@?if else0123%|^&", max_size=60))
def test_any_text_is_a_formula_or_refused(text: str) -> None:
    try:
        matches = translate("m", {"m": text}, {"#smt_on": 0.0}, "100%")
    except FormulaError:
        return
    compile_formula(matches.formula)


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("TOPDOWN.SLOTS", "topdown.slots"),
        (r"topdown\-fe\-bound", "topdown-fe-bound"),
        (r"cpu_core@INT_MISC.X\,cmask\=1@", "int_misc.x,cmask=1"),
    ],
)
def test_an_event_has_one_key_however_it_is_written(written: str, key: str) -> None:
    assert event_key(written) == key


def test_the_table_names_metrics_of_the_catalogue_and_events_of_nftop() -> None:
    assert set(nodes()) <= {metric.id for metric in TMA_METRICS}
    assert all(names for names in nodes().values())
    assert set(same().values()) == {"cycles", "instructions"}
    assert event_name("ls_not_halted_cyc") == "cycles"
