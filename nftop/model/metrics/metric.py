"""Types of the metric catalogue, and registration of metrics."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Literal, Protocol

from nftop.model.column import Column
from nftop.model.struct import dataclass

# Below this share of the time a number counted is an estimate, marked so; also in docs/screens.md.
# nftop's own main groups have nine tenths of it, those that take turns with them a tenth or less,
# and a program that shares the counters leaves half.
ESTIMATE_BELOW = 0.75


class Unit(Enum):
    """The unit of a value in code, and how a cell prints it."""

    RATIO = "ratio"  # 0..1, printed as a percentage
    CHANGE = "change"  # now / then - 1, printed as a percentage with its sign
    PER_CYCLE = "1/cycle"  # printed with two decimals
    CYCLES = "cycles"
    INSTRUCTIONS = "instructions"
    PACKETS_PER_S = "packets/s"  # printed in millions
    PER_S = "1/s"
    REQUESTS_PER_S = "requests/s"  # printed in millions
    PER_PACKET = "1/packet"
    BYTES_PER_PACKET = "bytes/packet"
    PACKETS = "packets"
    NS = "ns"
    HZ = "Hz"  # printed in GHz
    BYTES_PER_S = "bytes/s"  # printed in GB/s
    BYTES = "bytes"  # printed in MiB
    WATTS = "W"
    JOULES = "J"  # printed in kJ
    DEGREES_C = "degrees C"
    TEXT = "text"  # words: never a column of numbers

    __hash__ = object.__hash__  # Enum's own is a Python call, and units are keys of every cell


class CountedRates(Protocol):
    """Counter rates of all CPUs in one tick, rows as in the topology."""

    @property
    def core_cycles(self) -> Column:
        """Unhalted core cycles per second."""

    @property
    def coverage(self) -> Column:
        """Share of the interval in which cycles, instructions and clocks were counted."""

    def rate(self, event: str) -> Column:
        """Rate of an event per second, or a column with the reason why there is none."""

    def rate_by_cycles(self, event: str) -> Column:
        """As `rate`, scaled by the cycles of the event's own groups: for ratios across groups."""

    def share(self, event: str) -> Column:
        """Share of the interval in which an event was counted."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the catalogue.

    Attributes:
        id: name in frames and JSON; a dot nests (`tma.retiring`).
        label: column header, at most eight characters.
        scope: what a row of its table is.
        meaning: for an operator.
        formula: in the names of the catalogue and of the counters.
        origin: source of the definition.
        good: which direction is better, or None.
        priority: columns with a lower number stay longer on a narrow screen; None: never a column.
        coverage: metric with the share of the interval in which its events were counted: below
            ESTIMATE_BELOW it is an estimate. None without counters.
        per_clock: it counts cycles: an estimate if their clock is not the core's.
        bounded: it includes empty polls: an upper bound of a packet's cost unless the core is
            saturated.
        bad_above: a value above this is bad; None if no value is by itself.
        optional: a column only if some CPU has a value.
        compute: its formula over counter rates; None if a stage of the fold computes it.
        shows_reasons: the optional column is also shown if some CPU has a reason other than SOURCE.
    """

    id: str
    label: str
    unit: Unit
    scope: Literal["cpu", "nf", "package", "group", "core", "device"]
    meaning: str
    formula: str
    origin: str
    good: Literal["high", "low"] | None = None
    priority: float | None = None
    coverage: str | None = None
    per_clock: bool = False
    bounded: bool = False
    bad_above: float | None = None
    optional: bool = False
    shows_reasons: bool = False
    compute: Callable[[CountedRates], Column] | None = None


def is_other(clock: str | None) -> bool:
    """Whether cycles are of another clock than the core's; `clock`: of `Clock`."""
    return clock not in (None, "core")


def is_bound(metric: Metric, *, saturated: bool | None, clock: str | None) -> bool:
    """Whether a value is an upper bound of a packet's cost: it may include empty polls.

    Cycles of another clock than the core's are no bound: a core in turbo has more.
    """
    per_core_clock = not (metric.per_clock and is_other(clock))
    return metric.bounded and saturated is not True and per_core_clock


BOUND = "<"  # mark before an upper bound


def cycles_text(cycles: float, *, bound: bool) -> str:
    """Cycles as screens print them, with the mark of a bound."""
    return f"{BOUND if bound else ''}{cycles:.{1 if cycles < 99.95 else 0}f}"


_REGISTERED: dict[str, Metric] = {}


def register(metric: Metric) -> Metric:
    """Add a CPU metric to screens, exports and `nftop explain`, before `catalogue` is imported.

    Raises:
        ValueError: its scope is not `cpu`, it has no `compute`, or its id is taken.
    """
    if metric.scope != "cpu" or metric.compute is None:
        raise ValueError(f"{metric.id}: only CPU metrics with `compute` can be registered")
    if metric.id in _REGISTERED:
        raise ValueError(f"two metrics are called {metric.id}")
    _REGISTERED[metric.id] = metric
    return metric


def registered() -> tuple[Metric, ...]:
    return tuple(_REGISTERED.values())


COVERAGE = "coverage"
LLC_COVERAGE = "llc_misses_coverage"
LOADS_COVERAGE = "memory_loads_coverage"
SHARE_OF_TIME = "sum over the groups that count it(delta(time running)) / delta(time enabled)"
TIMES = "perf_event_open(2), PERF_FORMAT_TOTAL_TIME_*"

ESTIMATE_SENTENCE = f"Below {ESTIMATE_BELOW:.0%} what rests on it is an estimate, shown with '~'."

# Events of loads that memory served, by the tables' names: one of them on a CPU.
NEAR_LOADS = (
    "mem_load_l3_miss_retired_local_dram",
    "mem_load_uops_l3_miss_retired_local_dram",
    "offcore_response_local_dram",
)
FAR_LOADS = (
    "mem_load_l3_miss_retired_remote_dram",
    "mem_load_uops_l3_miss_retired_remote_dram_or_nofwd",
    "offcore_response_remote_dram",
)


def counted_event(counted: CountedRates, names: tuple[str, ...]) -> str:
    """The first of these events with a value on any CPU, else the first of them."""
    return next((name for name in names if counted.rate(name).present.any()), names[0])


COVERAGE_METRICS: tuple[Metric, ...] = (
    Metric(
        id=COVERAGE,
        label="COV",
        unit=Unit.RATIO,
        scope="cpu",
        meaning="Share of the interval in which cycles, instructions and clocks were counted, "
        f"in whichever counter group. {ESTIMATE_SENTENCE}",
        formula=SHARE_OF_TIME,
        origin=TIMES,
        good="high",
        priority=14,
        compute=lambda counted: counted.coverage,
    ),
    Metric(
        id=LLC_COVERAGE,
        label="MISS.cov",
        unit=Unit.RATIO,
        scope="cpu",
        meaning="Share of the interval in which last-level cache misses were counted. "
        f"{ESTIMATE_SENTENCE}",
        formula=SHARE_OF_TIME,
        origin=TIMES,
        good="high",
        optional=True,
        compute=lambda counted: counted.share("llc_misses"),
    ),
    Metric(
        id=LOADS_COVERAGE,
        label="MEM.cov",
        unit=Unit.RATIO,
        scope="cpu",
        meaning="Share of the interval in which loads that memory served were counted. "
        f"{ESTIMATE_SENTENCE}",
        formula=SHARE_OF_TIME,
        origin=TIMES,
        good="high",
        optional=True,
        compute=lambda counted: counted.share(counted_event(counted, NEAR_LOADS)),
    ),
)
