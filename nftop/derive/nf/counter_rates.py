"""Rates of the counters of one process, for all kinds of network functions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

from nftop.derive.absence import after_absence
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.struct import dataclass, replace

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

RESTARTED = Missing(Reason.RESET, "the application's counters restarted")


@dataclass(frozen=True, slots=True)
class Rated(Generic[K]):
    """One process' counters when last rated, and the rates per second.

    Attributes:
        read_at_ns: when `counters` were read.
        rates: of counters that were in the previous reading too.
        interval_s: between the two readings; None before the second and after a restart; 0 if they
            were already rated.
    """

    read_at_ns: int
    counters: Mapping[K, int]
    rates: Mapping[K, Reading]
    interval_s: float | None


def rate_counters(before: Rated[K] | None, counters: Mapping[K, int], read_at_ns: int) -> Rated[K]:
    """Fold one reading of a process' cumulative counters in.

    A reading that was already rated keeps its rates, over no time. After a restart all rates are
    RESET, and the next reading counts from there. After an older reading rates are WARMING.
    """
    if before is None or read_at_ns < before.read_at_ns:
        return Rated(read_at_ns, counters, {}, None)
    if read_at_ns == before.read_at_ns:
        return replace(before, interval_s=held(before.interval_s))
    elapsed_s = (read_at_ns - before.read_at_ns) / 1e9
    rates: dict[K, Reading] = {}
    for name, count in counters.items():
        old = before.counters.get(name)
        if old is None:
            continue
        if count < old:
            # If one counter stepped back, all were reset, even if higher again.
            return restarted(Rated(read_at_ns, counters, {}, None))
        rates[name] = (count - old) / elapsed_s
    return Rated(read_at_ns, counters, rates, elapsed_s)


def held(interval_s: float | None) -> float | None:
    """Interval of rates that are shown again: 0, so that rate x interval adds up."""
    return None if interval_s is None else 0.0


def restarted(rated: Rated[K]) -> Rated[K]:
    """The same reading without rates, since its counters restarted."""
    rates: dict[K, Reading] = dict.fromkeys(rated.counters, RESTARTED)
    return Rated(rated.read_at_ns, rated.counters, rates, None)


def known_rate(rated: Rated[K] | None, name: K) -> Reading | None:
    """One counter's rate, or None without one: `rate_of` then has the reason."""
    return None if rated is None else rated.rates.get(name)


def rate_of(rated: Rated[K] | None, name: K, uncounted: Missing) -> Reading:
    """One counter's rate; WARMING before its second reading, `uncounted` without such a counter."""
    if rated is None:
        return Missing(Reason.WARMING)
    if name in rated.rates:
        return rated.rates[name]
    return Missing(Reason.WARMING) if name in rated.counters else uncounted


def rate_process(
    before: T | None, problem: Missing | None, rate: Callable[[T | None], T]
) -> T | None:
    """State of a process: `rate` of the last state if it reported counters now."""
    return rate(before) if problem is None else after_absence(before, None, problem)


def identity(pid: int, start_ticks: int, socket: str) -> str:
    """Identity of a process: pid and start time, or its socket until they are known."""
    return f"{pid}:{start_ticks}" if pid else socket
