"""What an encoded event counts in the model: `count(event, cpu, t)`."""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from nftop.model.data_files import data_file
from nftop.model.sample import Counts
from nftop.sim.model import Model
from nftop.sim.workloads import INDEX
from nftop.uarch.events import PERF_TYPES
from nftop.uarch.table import Encoding, EventSpec, PmuTerms

_RAW = PERF_TYPES["raw"]
# Microarchitectures with the raw codes of another.
_SAME_CODES: Mapping[str, str] = MappingProxyType({"CLX": "SKX"})


def factors_of(event: EventSpec, uarch: str = "SKX") -> Mapping[str, float] | None:
    """The quantities that an event counts, each with a factor; None for an unknown event.

    Raises:
        KeyError: unknown microarchitecture.
    """
    return _table(_SAME_CODES.get(uarch, uarch)).get(
        _encoded(event) if isinstance(event, PmuTerms) else event
    )


def count(model: Model, event: EventSpec, cpu: int, t_ns: int, uarch: str = "SKX") -> int:
    """Counter value of `event` on `cpu` at `t_ns`, counting since the start.

    Raises:
        KeyError: unknown event; ValueError: the time is before the start.
    """
    factors = factors_of(event, uarch)
    if factors is None:
        raise KeyError(f"the simulated host has no event {event}")
    exact = model.exact(t_ns, [cpu])[0]
    return math.floor(float(sum(factor * exact[INDEX[key]] for key, factor in factors.items())))


def share(total: int, factors: int) -> Counts:
    """`total` in `parts` even shares that sum to it: uint64 (parts,)."""
    return (np.uint64(total) + np.arange(factors, dtype=np.uint64)) // np.uint64(factors)


def turn_share(totals: Counts, index: int, factors: int) -> Counts:
    """Share of each of `totals` counted by group `index` of `parts`: the first nine tenths, or all.

    The others share the rest equally.
    """
    if factors == 1:
        return totals
    tenth = totals // np.uint64(10)
    return totals - tenth if index == 0 else nth_share(tenth, index - 1, factors - 1)


def nth_share(totals: Counts, index: int, factors: int) -> Counts:
    """Element `index` of `share` for each of `totals`, in their shape."""
    return (totals + np.uint64(index)) // np.uint64(factors)


def _encoded(event: PmuTerms) -> EventSpec:
    """The event as configuration words, if it has terms of the kernel."""
    if event.pmu != "cpu":
        return event
    fields = _raw()["format"]
    words = [0, 0]
    for term in event.terms.split(","):
        name, _, value = term.partition("=")
        if name not in fields:
            return event
        word, bit = fields[name]
        words[word] |= int(value or "1", 0) << bit
    return Encoding(_RAW, *words)


@functools.cache
def _raw() -> Mapping[str, Any]:
    return tomllib.loads(data_file(__package__, "events.toml").decode())


@functools.cache
def _table(uarch: str) -> Mapping[EventSpec, Mapping[str, float]]:
    raw = _raw()
    rows: list[tuple[EventSpec, str | Mapping[str, float]]] = [
        (Encoding(number, int(config, 0)), counted)
        for kind, number in PERF_TYPES.items()
        if number != _RAW
        for config, counted in raw[kind].items()
    ]
    rows += [
        (Encoding(_RAW, *(int(word, 0) for word in words.split(","))), counted)
        for words, counted in raw["raw"][uarch].items()
    ]
    for words, counted in raw["pmu"].items():
        pmu, terms, _ = words.split("/")
        rows.append((PmuTerms(pmu, terms), counted))
    return {
        event: MappingProxyType({counted: 1.0} if isinstance(counted, str) else counted)
        for event, counted in rows
    }
