"""Formulas over columns: compiled once, computed with numpy, with a reason for each missing result.

A row has a number exactly if all that it needs has one. Otherwise its reason is that of the first
missing input in the order of the text; a division by zero is `Reason.IDLE`; a number too large for
float64 is `Reason.ERROR`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nftop.model.column import Bools, Column, Floats, Reasons, missing
from nftop.model.missing import Missing, Reason
from nftop.model.struct import dataclass
from nftop.uarch import grammar

_Blame: TypeAlias = NDArray[np.int16]
_Used: TypeAlias = NDArray[np.uint64]
# Values of `blame`: nobody, input 1.., or the arithmetic itself.
_NOBODY, _ZERO, _OVERFLOW = 0, -1, -2
_MAX_INPUTS = 64  # bits of `_Term.used`
# Usage of an input by every value.
ALL_ROWS: Bools = np.ones((), np.bool_)
_NO_INPUT: _Used = np.array(0, np.uint64)
_DIVISION = Missing(Reason.IDLE)
_TOO_LARGE = Missing(Reason.ERROR, "the numbers counted are too large to be true")


@dataclass(frozen=True, slots=True)
class _Term:
    """An intermediate result. Shapes broadcast.

    Attributes:
        values: undefined where `blame` is not 0.
        blame: the input that is the reason for no value.
        used: bit i: the value was computed from input i + 1.
    """

    values: Floats
    blame: _Blame
    used: _Used


_Node: TypeAlias = Callable[[Mapping[str, _Term]], _Term]
_Arithmetic: TypeAlias = Callable[[Mapping[str, Floats]], Floats]


@dataclass(frozen=True, slots=True)
class Formula:
    """A compiled formula; `names` are the columns it reads. Made by `compile_formula`.

    `arithmetic` computes values only; None if the formula has `first` or `if`, so that a value may
    leave inputs unused.
    """

    text: str
    names: tuple[str, ...]
    node: _Node
    arithmetic: _Arithmetic | None

    def __call__(self, columns: Mapping[str, Column], rows: int) -> Column:
        """The result for columns of shape (rows,).

        A name that is not in `columns` is missing with `Reason.SOURCE`. Never raises for contents
        of columns.
        """
        return self.with_usage(columns, rows)[0]

    def with_usage(
        self, columns: Mapping[str, Column], rows: int
    ) -> tuple[Column, Mapping[str, Bools]]:
        """As the call, and by name, bool () or (rows,), where the value was computed from it.

        Only `first` and `if` leave inputs unused; usage is undefined in rows without a value.
        """
        inputs = [
            columns.get(name)
            or missing(rows, Missing(Reason.SOURCE, f"{name} is not counted here"))
            for name in self.names
        ]
        if self.arithmetic is not None:
            result = _computed(self.arithmetic, dict(zip(self.names, inputs, strict=True)), rows)
            if result is not None:
                return result, dict.fromkeys(self.names, ALL_ROWS)
        return self._with_terms(inputs, rows)

    def _with_terms(
        self, inputs: Sequence[Column], rows: int
    ) -> tuple[Column, Mapping[str, Bools]]:
        """`with_usage` for formulas that choose, and for rows in which the arithmetic fails."""
        terms = {
            name: _Term(
                column.values,
                np.where(column.present, 0, index).astype(np.int16),
                np.array(1 << index - 1, np.uint64) if self.arithmetic is None else _NO_INPUT,
            )
            for index, (name, column) in enumerate(zip(self.names, inputs, strict=True), 1)
        }
        with np.errstate(all="ignore"):
            result = self.node(terms)
        values = np.broadcast_to(result.values, (rows,))
        blame = np.broadcast_to(result.blame, (rows,))
        blame = np.where((blame == _NOBODY) & ~np.isfinite(values), np.int16(_OVERFLOW), blame)
        return _column(values, blame, inputs), self._usage(result.used)

    def _usage(self, used: _Used) -> Mapping[str, Bools]:
        if self.arithmetic is not None:
            return dict.fromkeys(self.names, ALL_ROWS)
        return {
            name: (used >> np.uint64(index) & np.uint64(1)).astype(np.bool_)
            for index, name in enumerate(self.names)
        }


@lru_cache(maxsize=1024)
def compile_formula(text: str) -> Formula:
    """Compile a formula of the notation in `grammar`; the same text gives the same object.

    Raises:
        grammar.FormulaError: the text is not in the notation.
    """
    tree = grammar.parse(text)
    names = grammar.names(tree)
    if len(names) > _MAX_INPUTS:
        raise grammar.FormulaError(f"{text!r} reads more than {_MAX_INPUTS} inputs")
    return Formula(text, names, _node(tree), None if _chooses(tree) else _arithmetic(tree))


def _chooses(tree: ast.expr) -> bool:
    """Whether it has `first` or `if`."""
    if isinstance(tree, ast.IfExp):
        return True
    if isinstance(tree, ast.Call) and _FUNCTIONS[ast.unparse(tree.func)] is _first:
        return True
    return any(_chooses(operand) for operand in grammar.operands(tree) or ())


def has_inputs(text: str, known: Container[str]) -> bool:
    """Whether the formula has a value where only these names have one.

    Raises:
        grammar.FormulaError: the text is not in the notation.
    """
    return _has_inputs(_parsed(text), known)


_parsed = lru_cache(maxsize=1024)(grammar.parse)


def _has_inputs(tree: ast.expr, known: Container[str]) -> bool:
    if isinstance(tree, ast.Name):
        return tree.id in known
    known_inputs = [_has_inputs(operand, known) for operand in grammar.operands(tree) or ()]
    if isinstance(tree, ast.Call) and _FUNCTIONS[ast.unparse(tree.func)] is _first:
        return any(known_inputs)
    return all(known_inputs)


def _computed(arithmetic: _Arithmetic, inputs: Mapping[str, Column], rows: int) -> Column | None:
    """Result of plain arithmetic with NaN for absent inputs; None for other NaN or infinity."""
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            values = arithmetic({name: column.values for name, column in inputs.items()})
    except FloatingPointError:
        return None
    values = np.broadcast_to(values, (rows,))
    finite = np.isfinite(values)
    if finite.all():
        return Column(values, _all_present(rows))
    blame = np.zeros(rows, np.int16)
    for index, column in enumerate(inputs.values(), 1):
        blame[(blame == _NOBODY) & ~column.present] = index
    if not np.array_equal(finite, blame == _NOBODY):
        return None
    return _column(values, blame, tuple(inputs.values()))


@lru_cache(maxsize=16)
def _all_present(rows: int) -> Reasons:
    reasons = np.zeros(rows, np.uint8)
    reasons.flags.writeable = False
    return reasons


def _node(tree: ast.expr) -> _Node:
    known_inputs = [_node(operand) for operand in grammar.operands(tree) or ()]
    match tree:
        case ast.Name(id=name):
            return lambda terms: terms[name]
        case ast.Constant():
            constant = _Term(np.array(grammar.number(tree)), np.array(_NOBODY, np.int16), _NO_INPUT)
            return lambda _: constant
        case ast.UnaryOp():
            return lambda terms: _negative(known_inputs[0](terms))
        case ast.BinOp(op=op):
            combine = _OPERATORS[type(op)]
        case ast.Call(func=ast.Name(id=name)):
            combine = _FUNCTIONS[name]
        case ast.IfExp(test=ast.Compare(ops=[op])):
            compare = _COMPARISONS[type(op)]
            return lambda terms: _choose(compare, *(operand(terms) for operand in known_inputs))
        case _:
            raise grammar.FormulaError(f"{ast.unparse(tree)!r} is not in the notation of formulas")
    return lambda terms: reduce(combine, (operand(terms) for operand in known_inputs))


def _arithmetic(tree: ast.expr) -> _Arithmetic:
    """The numpy operations of a formula without `first` and `if`."""
    known_inputs = [_arithmetic(operand) for operand in grammar.operands(tree) or ()]
    match tree:
        case ast.Name(id=name):
            return lambda inputs: inputs[name]
        case ast.Constant():
            constant = np.array(grammar.number(tree), np.float64)
            return lambda _: constant
        case ast.UnaryOp():
            return lambda inputs: np.negative(known_inputs[0](inputs))
        case ast.BinOp(op=op):
            function = _UFUNCS[type(op)]
        case ast.Call(func=ast.Name(id=name)):
            function = _UFUNCS[name]
    return lambda inputs: reduce(function, (operand(inputs) for operand in known_inputs))


_UFUNCS: Mapping[object, np.ufunc] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.true_divide,
    "min": np.minimum,
    "max": np.maximum,
}


def _elementwise(function: Callable[[Any, Any], Any]) -> Callable[[_Term, _Term], _Term]:
    return lambda a, b: _Term(function(a.values, b.values), _first_blame(a, b), _either(a, b))


def _either(a: _Term, b: _Term) -> _Used:
    return a.used if a.used is b.used else np.bitwise_or(a.used, b.used)


def _divide(a: _Term, b: _Term) -> _Term:
    blame = _first_blame(a, b)
    blame = np.where((blame == _NOBODY) & (b.values == 0), np.int16(_ZERO), blame)
    return _Term(np.true_divide(a.values, b.values), blame, _either(a, b))


def _first(a: _Term, b: _Term) -> _Term:
    use_b = (a.blame != _NOBODY) & (b.blame == _NOBODY)
    return _Term(
        np.where(use_b, b.values, a.values),
        np.where(use_b, b.blame, a.blame),
        np.where(use_b, b.used, a.used),
    )


def _negative(a: _Term) -> _Term:
    return _Term(np.negative(a.values), a.blame, a.used)


def _choose(
    compare: Callable[[Any, Any], Any], then: _Term, left: _Term, right: _Term, other: _Term
) -> _Term:
    undecided = _first_blame(left, right)
    holds: Bools = compare(left.values, right.values)
    blame = np.where(holds, then.blame, other.blame)
    chosen = np.where(holds, then.used, other.used)
    return _Term(
        np.where(holds, then.values, other.values),
        np.where(undecided != _NOBODY, undecided, blame),
        np.bitwise_or(np.bitwise_or(left.used, right.used), chosen),
    )


def _first_blame(a: _Term, b: _Term) -> _Blame:
    return np.where(a.blame != _NOBODY, a.blame, b.blame)


_OPERATORS: Mapping[type[ast.operator], Callable[[_Term, _Term], _Term]] = {
    ast.Add: _elementwise(np.add),
    ast.Sub: _elementwise(np.subtract),
    ast.Mult: _elementwise(np.multiply),
    ast.Div: _divide,
}
_FUNCTIONS: Mapping[str, Callable[[_Term, _Term], _Term]] = {
    "min": _elementwise(np.minimum),
    "max": _elementwise(np.maximum),
    "first": _first,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}


def _column(values: Floats, blame: _Blame, inputs: Sequence[Column]) -> Column:
    """Values with the reasons and messages of the inputs to blame."""
    reasons = np.full(len(values), Reason.PRESENT, np.uint8)
    details: dict[int, str] = {}
    by_reason: dict[int, str] = {}
    for code in sorted(set(blame.tolist()) - {_NOBODY}):
        if code < 0:
            source = missing(len(values), _DIVISION if code == _ZERO else _TOO_LARGE)
        else:
            source = inputs[code - 1]
        (rows,) = (blame == code).nonzero()
        reasons[rows] = source.reasons[rows]
        own = {row: text for row, text in source.details.items() if blame[row] == code}
        for reason in sorted(set(source.reasons[rows].tolist())):
            text = source.by_reason.get(reason) or Reason(reason).sentence
            if by_reason.setdefault(reason, text) != text:
                alike = rows[source.reasons[rows] == reason].tolist()
                own |= {row: text for row in alike if row not in own}
        details |= own
    return Column(np.where(blame == _NOBODY, values, np.nan), reasons, details, by_reason)
