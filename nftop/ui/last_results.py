"""Results of the frame on screen, kept so that a key press does not compute them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")
_KEPT = 2  # of the frame on screen, and of the one before, which a way back shows again


class LastResults(Generic[_P, _R]):
    """A function that keeps its last two results, by the identity of its arguments.

    Numbers, texts and tuples may be equal instead. A key press draws the frame again that is on
    screen already: what it does not change isn't computed again.
    """

    def __init__(self, work: Callable[_P, _R]) -> None:
        self._work = work
        self._kept: list[tuple[tuple[object, ...], _R]] = []

    def __call__(self, *args: _P.args, **named: _P.kwargs) -> _R:
        of = (*args, *named.values())
        for at, (known, result) in enumerate(self._kept):
            if _same(known, of):
                if at:
                    self._kept.insert(0, self._kept.pop(at))
                return result
        result = self._work(*args, **named)
        self._kept = [(of, result), *self._kept[: _KEPT - 1]]
        return result


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    return len(one) == len(other) and all(
        a is b or (isinstance(a, (int, str, tuple)) and type(a) is type(b) and a == b)
        for a, b in zip(one, other, strict=True)
    )
