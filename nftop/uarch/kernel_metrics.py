"""The kernel's own metrics: perf's formulas, translated to the notation of `grammar`.

perf's notation (tools/perf/util/expr.l and expr.y): names of events and metrics, with a backslash
before `-`, `,` and `=`, `pmu@event@` for pmu/event/, numbers, `#literals`, the arithmetic of
`grammar`, `d_ratio(a, b)`, `a if c else b` with c true unless 0, and more that top-down does not
use, which is rejected.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

from nftop.model.data_files import data_file
from nftop.model.struct import dataclass
from nftop.uarch import grammar
from nftop.uarch.grammar import FormulaError

_TOKEN = re.compile(
    r"\s*(?:(?P<literal>#[\w.\-]+)|(?P<symbol>(?:\\[-,=]|[\w.:@?])+)|(?P<sign>[-+*/(),<>]))"
)
_OF_PMU = re.compile(r"(?P<pmu>\w+)@(?P<event>[^@]+)@")
_WORDS = frozenset({"if", "else", "min", "max", "d_ratio"})
_REFUSED = frozenset({"source_count", "has_event", "strcmp_cpuid_str"})
# Factor and unit of `100%slots`, `1percent of slots`.
_PERCENT = re.compile(r"(?P<factor>\d+(?:\.\d+)?)\s*(?:%|percent\b)")
_DEEPEST = 20


@dataclass(frozen=True, slots=True)
class Translated:
    """A metric.

    Attributes:
        formula: in the notation of `grammar`, over the keys of `events`.
        events: by name in the formula, the `event_key` of perf's event.
    """

    formula: str
    events: Mapping[str, str]


def nodes() -> Mapping[str, tuple[str, ...]]:
    """By nftop's metric id, perf's possible names, best first."""
    return {metric: tuple(names) for metric, names in _names()["nodes"].items()}


def same() -> Mapping[str, str]:
    """By `event_key`, nftop's event that counts the same."""
    return dict(_names()["same"])


@cache
def _names() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(data_file(__package__, "names/kernel_metrics.toml").decode())


def event_key(name: str) -> str:
    """One spelling for an event, as for `cpu@TOPDOWN.SLOTS@` and `topdown.slots`."""
    name = name.replace("\\", "")
    of_pmu = _OF_PMU.fullmatch(name)
    return (of_pmu["event"] if of_pmu else name).lower()


def event_name(key: str) -> str:
    """Name of an event of the kernel's metrics in formulas and columns."""
    return same().get(key) or "kernel_" + re.sub(r"\W", "_", key)


def translate(
    metric: str, formulas: Mapping[str, str], literals: Mapping[str, float], unit: str
) -> Translated:
    """The metric as a ratio, with the metrics it uses inserted.

    Args:
        metric: its name in `formulas`.
        formulas: perf's formula (MetricExpr) of every metric of the PMU.
        literals: values of `#smt_on` and others, names in lower case.
        unit: perf's ScaleUnit, the factor to percent.

    Raises:
        FormulaError: it is not a share, or not in the notation, or uses something unknown.
    """
    percent = _PERCENT.match(unit)
    if percent is None:
        raise FormulaError(f"{metric} is no share of anything (its unit is {unit!r})")
    events: dict[str, str] = {}
    pieces = _pieces(metric, formulas, literals, events, _DEEPEST)
    text = " ".join(islice(pieces, grammar.MAX_LENGTH))
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise FormulaError(f"{formulas[metric]!r} is no formula") from None
    expression = ast.unparse(_Rewrite().visit(tree))
    factor = float(percent["factor"])
    formula = expression if factor == 100.0 else f"({expression}) * {factor / 100.0!r}"
    grammar.parse(formula)
    return Translated(formula, events)


def _pieces(
    metric: str,
    formulas: Mapping[str, str],
    literals: Mapping[str, float],
    events: dict[str, str],
    depth: int,
) -> Iterator[str]:
    """The formula of a metric as Python, and its events into `events`."""
    if depth == 0:
        raise FormulaError(f"{metric} is made of too many others")
    yield "("
    for kind, word in _tokens(formulas[metric]):
        if kind == "literal":
            if word.lower() not in literals:
                raise FormulaError(f"it asks for {word}, which nftop doesn't know here")
            yield repr(literals[word.lower()])
        elif kind == "sign" or word in _WORDS or _NUMBER.fullmatch(word):
            yield word
        elif word in _REFUSED:
            raise FormulaError(f"it uses {word}, which nftop doesn't know")
        elif word in formulas and word != metric:
            yield from _pieces(word, formulas, literals, events, depth - 1)
        else:
            key = event_key(word)
            events[event_name(key)] = key
            yield event_name(key)
    yield ")"


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at, text = 0, text.strip()
    while at < len(text):
        expression = _TOKEN.match(text, at)
        if expression is None or expression.lastgroup is None:
            raise FormulaError(f"it has {text[at:].strip()[:1]!r}, which nftop doesn't know")
        yield expression.lastgroup, expression[expression.lastgroup]
        at = expression.end()


_NUMBER = re.compile(r"\d+\.?\d*(?:e\d+)?|\.\d+")


class _Rewrite(ast.NodeTransformer):
    """Rewrites d_ratio to a division, and a bare condition to a comparison with 0."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "d_ratio" and len(node.args) == 2:
            return ast.BinOp(node.args[0], ast.Div(), node.args[1])
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.test, ast.Compare):
            node.test = ast.Compare(node.test, [ast.Gt()], [ast.Constant(0)])
        return node
