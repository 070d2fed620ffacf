"""The notation of formulas: parsed and checked here, computed in `formula`.

    names of events, terms and metrics      uops_issued_any
    numbers                                 4   0.5   1e9
    + - * /  and parentheses                (a - b) / slots
    min(a, b, ...)  max(a, b, ...)
    first(a, b, ...)                        the first that has a number, row by row
    a if x > 5 else b                       one comparison: < <= > >=

A subset of Python's expressions, read by Python's parser; anything else is rejected, and nothing is
run as Python. Without numpy, so that loading a table does not import it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div)
COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
FUNCTIONS = frozenset({"min", "max", "first"})
# Beyond any formula of the vendors, and safe for the parser's stack.
MAX_LENGTH = 2000
MAX_DEPTH = 60


class FormulaError(ValueError):
    """Not a formula; the text states which part and why."""


def parse(text: str) -> ast.expr:
    """The checked syntax tree of a formula.

    Raises:
        FormulaError: the text is not in the notation.
    """
    if len(text) > MAX_LENGTH:
        raise FormulaError(f"a formula of {len(text)} characters; at most {MAX_LENGTH}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FormulaError(f"{text!r} is not a formula: {error}") from None
    _check(tree, text, MAX_DEPTH)
    return tree


def names(tree: ast.expr) -> tuple[str, ...]:
    """The names in a formula, each once, in the order of its text."""
    return tuple(dict.fromkeys(_names(tree)))


def number(node: ast.Constant) -> float | None:
    """The value of a constant; None if it is not a number that fits a float."""
    if type(node.value) not in (int, float):
        return None
    try:
        value = float(node.value)  # type: ignore[arg-type]
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def operands(node: ast.expr) -> tuple[ast.expr, ...] | None:
    """Operands of a node in the order of its text; None for a node outside the notation."""
    match node:
        case ast.Name() | ast.Constant():
            return () if isinstance(node, ast.Name) or number(node) is not None else None
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return (operand,)
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, OPERATORS):
            return left, right
        case ast.Call(func=ast.Name(id=name), args=[first, *rest], keywords=[]):
            return (first, *rest) if name in FUNCTIONS else None
        case ast.IfExp(test=ast.Compare(left=left, ops=[op], comparators=[right])) if isinstance(
            op, COMPARISONS
        ):
            return node.body, left, right, node.orelse
    return None


def _check(node: ast.expr, text: str, depth: int) -> None:
    inputs = operands(node)
    if inputs is None:
        raise FormulaError(f"{text!r}: {ast.unparse(node)!r} is not in the notation of formulas")
    if depth == 0:
        raise FormulaError(f"{text!r} is nested too deep")
    for operand in inputs:
        _check(operand, text, depth - 1)


def _names(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    for operand in operands(node) or ():
        yield from _names(operand)
