"""Registered folds, one per source of network functions; modules of `nf.kinds` register theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from nftop.derive.absence import after_absence
from nftop.derive.nf.rates import NfContext, NfRates
from nftop.model.missing import Missing
from nftop.model.struct import dataclass

TableT = TypeVar("TableT")
StateT = TypeVar("StateT")


@dataclass(frozen=True, slots=True)
class NfMemory:
    table: object
    state: object


NfFold: TypeAlias = Callable[
    [NfMemory | None, object, NfContext], tuple[NfMemory | None, tuple[NfRates, ...]]
]
_FOLDS: dict[str, NfFold] = {}
NF_FOLDS: Mapping[str, NfFold] = MappingProxyType(_FOLDS)  # by source


def register(
    source: str,
    table: type[TableT],
    state: type[StateT],
    *,
    rate: Callable[[StateT | None, TableT, NfContext], tuple[StateT, tuple[NfRates, ...]]],
    with_problem: Callable[[TableT, Missing], TableT],
) -> None:
    """Add the fold of a source.

    Args:
        source: its id.
        table: type of its readings.
        state: type of the fold's state.
        rate: (state, reading, context) -> (state, rates).
        with_problem: table with a problem for each network function, for a late source.

    Raises:
        ValueError: the source has a fold.
    """
    if source in _FOLDS:
        raise ValueError(f"two folds of source {source}")

    def fold(
        before: NfMemory | None, value: object, context: NfContext
    ) -> tuple[NfMemory | None, tuple[NfRates, ...]]:
        if isinstance(value, Missing):
            before = after_absence(before, None, value)
            if before is None or not isinstance(before.table, table):
                return None, ()
            latest = before.table
            now = with_problem(latest, value)
        elif isinstance(value, table):
            now = latest = value
        else:
            raise TypeError(f"source {source} gave a {type(value).__name__}")
        known = before.state if before is not None and isinstance(before.state, state) else None
        after, rates = rate(known, now, context)
        return NfMemory(latest, after), rates

    _FOLDS[source] = fold
