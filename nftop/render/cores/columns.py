"""A CPU metric with a `priority` becomes a column; define it in `model/metrics/cpu.py`.

Columns of the CPU tables (Cores and Power screens) and their choice by width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import compress
from typing import Literal, NamedTuple, TypeAlias

from nftop.model.column import Block
from nftop.model.frame import CacheClass, CpuTable
from nftop.model.metrics.catalogue import CPU_METRICS, cpu_metric
from nftop.model.metrics.metric import Metric, Unit
from nftop.model.missing import Reason
from nftop.model.sst import CpuSetting
from nftop.model.struct import replace
from nftop.render.base.table import EDGE, LastResults, TableColumn, chosen_columns, fit_columns

# Screens with a table of CPUs.
CpuTableKind: TypeAlias = Literal["cores", "power"]
NARROW = 40
EVERY_COLUMN = 10_000  # cells in which all columns fit
# Order by `harm.cpu_harm`, which is no column.
HARM = "harm"
_LONG_BARS_FROM = 100
# Cells of a name such as ovs-vswitchd, on screens with room for it.
_LONG_NAMES_FROM, _LONG_NAMES = 100, 13

_WIDTHS: Mapping[Unit, int] = {
    Unit.RATIO: 4,
    Unit.CHANGE: 5,
    Unit.PER_CYCLE: 5,  # a space behind the mark of the number before: 333~ 1.55
    Unit.CYCLES: 6,
    Unit.INSTRUCTIONS: 6,
    Unit.PACKETS_PER_S: 6,
    Unit.PER_S: 6,
    Unit.PER_PACKET: 6,
    Unit.HZ: 5,
    Unit.DEGREES_C: 4,
}


LABELS = (
    TableColumn("cpu", "CPU", 6, right=True, priority=0),
    # The kernel keeps 15 characters of the name.
    TableColumn("thread", "THREAD", 14, right=False, priority=0.5, grows=2),
    TableColumn("nf", "NF", 11, right=False, priority=5.5, grows=14),
    TableColumn("smt", "SMT", 6, right=True, priority=6.6),
)


def _column_of(metric: Metric, priority: float) -> TableColumn:
    width = max(_WIDTHS[metric.unit], len(metric.label)) + 1
    return TableColumn(
        metric.id,
        metric.label,
        width,
        right=True,
        priority=priority,
        metric=metric,
        grows=int(metric.id == "wait_ratio"),  # stands behind a mark, too
    )


METRICS = tuple(
    _column_of(metric, metric.priority) for metric in CPU_METRICS if metric.priority is not None
)
# Frequency settings as text: see `settings.TEXTS`.
SST = TableColumn("sst", "SST", 4, right=False, priority=4.5)
CP = TableColumn("cp", "CP", 3, right=False, priority=2.2)
GOVERNOR = TableColumn("governor", "GOVERNOR/EPP", 13, right=False, priority=2.6, grows=7)
LIMITS = TableColumn(
    "limits", "MIN-MAX", 10, right=False, priority=1.2, metric=cpu_metric("max_frequency_hz")
)
LABEL_KEYS = frozenset({*(col.key for col in LABELS), "group", "sst", "cp", "governor"})

# Cache class: its hue and its name.
GROUP = TableColumn("group", "CLASS", 10, right=False, priority=3.1, grows=4)
# CPP against the median of the last minutes, and its graph; of screens with a history.
USUAL = TableColumn("usual", "vs.10m", 7, priority=2.6)
TREND = TableColumn("trend", "CPP 5min", 9, right=False, priority=5.7, grows=11)

# Ranks after rate, cost, busy and waiting.
BAR = TableColumn(
    "tma", "TOPDOWN 5% a letter", 21, right=False, priority=5.2, metric=cpu_metric("tma.retiring")
)
_SHORT_BAR = replace(BAR, label="TOPDN 10%", width=11)

# Columns of the Power screen with their priority.
_OF_POWER: tuple[tuple[str | TableColumn, float], ...] = (
    (SST, 1.05),
    ("frequency_hz", 1),
    ("base_frequency_hz", 1.1),
    (LIMITS, 1.2),
    (GOVERNOR, 2.6),
    (CP, 2.2),
    (GROUP, 2.7),
    ("busy_ratio", 3),
    ("c0_ratio", 2),
    ("c1_ratio", 4),
    ("c3_ratio", 9),
    ("c6_ratio", 4.1),
    ("thermal_headroom_c", 2.9),
    ("throttles_per_s", 4.9),
    ("smi_per_s", 5),
    ("ipc", 7),
    ("context_switches_per_s", 8),
)
_NF_OF_POWER = 2.8

_FIRST_TMA = next(at for at, col in enumerate(METRICS) if col.key.startswith("tma."))
# The first columns of the table; others follow them.
_FIRST = ("busy_ratio", "packets_per_s", "cpp", "cpp_vs_base", "ipc", "llc_misses_per_packet",
    "wait_ratio")  # fmt: skip
_MISSES_PRIORITY = 5.6
_CORES = (
    *LABELS[:3],
    *(
        replace(col, priority=_MISSES_PRIORITY) if key == "llc_misses_per_packet" else col
        for key in _FIRST for col in METRICS if col.key == key
    ),
    LABELS[3],
    SST,
    *(col for col in METRICS[:_FIRST_TMA] if col.key not in _FIRST),
    BAR,
    *(col for col in METRICS[_FIRST_TMA:] if col.key not in _FIRST),
    GROUP,
)  # fmt: skip
_POWER_LABELS = tuple(
    replace(col, priority=_NF_OF_POWER) if col.key == "nf" else col for col in LABELS
)
# Columns shown only if some CPU has a value.
_OPTIONAL: Mapping[CpuTableKind, tuple[TableColumn, ...]] = {
    "cores": tuple(
        col for col in _CORES if col.key in ("group", "sst") or (col.metric and col.metric.optional)
    ),
    "power": (CP, SST, GROUP, LIMITS, GOVERNOR, _column_of(cpu_metric("base_frequency_hz"), 0)),
}
_TABLES: Mapping[CpuTableKind, tuple[TableColumn, ...]] = {
    "cores": _CORES,
    "power": (
        *_POWER_LABELS,
        *(
            _column_of(cpu_metric(col), priority)
            if isinstance(col, str)
            else replace(col, priority=priority)
            for col, priority in _OF_POWER
        ),
    ),
}
_PRESENT, _HARDWARE, _SOURCE = map(int, (Reason.PRESENT, Reason.HARDWARE, Reason.SOURCE))
_BY_KEY = {col.key: col for table in (_TABLES["power"], _CORES) for col in table}
_BY_KEY |= {HARM: TableColumn(HARM, "harm", 5), USUAL.key: USUAL, TREND.key: TREND}
# Orders that are not by a column's values.
BY_HARM = frozenset({HARM, USUAL.key, TREND.key})
# Metrics of the Power screen's table.
POWER_CPU_METRICS: tuple[Metric, ...] = tuple(
    cpu_metric(col) for col, _ in _OF_POWER if isinstance(col, str)
)


def columns_for(
    width: int,
    cpus: CpuTable | None = None,
    table: CpuTableKind = "cores",
    *,
    trends: bool = False,
    chosen: tuple[str, ...] = (),
) -> tuple[TableColumn, ...]:
    """The columns shown in so many cells, from left to right; always including the CPU.

    Optional columns are shown only if some CPU has a value. Metrics that this hardware cannot
    count rank last. `trends`: with columns of the history. `chosen`: keys in the operator's order;
    empty: no choice.
    """
    here, never = _counted(cpus, table)
    return _columns_for(width, here, never, table, trends=trends, chosen=chosen)


# Keys of optional columns that a table of CPUs has, and of those it never will.
_Counted: TypeAlias = tuple[frozenset[str], frozenset[str]]


def _counted(cpus: CpuTable | None, table: CpuTableKind) -> _Counted:
    if cpus is None:
        return frozenset(), frozenset()
    tests = tuple(key for key, test in _OPTIONAL_TESTS.items() if test(cpus))
    return _count(_metrics_of(cpus), tests, table)


@lru_cache(maxsize=8)  # called several times a tick
def _count(metrics: _Metrics, tests: tuple[str, ...], table: CpuTableKind) -> _Counted:
    """`tests`: keys of the columns of `_OPTIONAL_TESTS` that have a value."""

    def has_value(col: TableColumn) -> bool:
        if col.key in _KNOWN_BY:
            return _KNOWN_BY[col.key] in metrics.known
        return col.key in tests or (col.metric is not None and col.metric.id in metrics.optional)

    never = (
        col.key
        for col in _TABLES[table]
        if col is not BAR and col.metric and col.metric.id in metrics.never
    )
    here = (col.key for col in filter(has_value, _OPTIONAL[table]))
    return frozenset(here), frozenset(never)


class _Metrics(NamedTuple):
    """Ids of metrics."""

    known: frozenset[str]  # some CPU has a value
    optional: frozenset[str]  # optional ones that belong on the screen
    never: frozenset[str]  # no CPU can have a value on this hardware


def _metrics_in(block: Block) -> _Metrics:
    reasons = block.reasons
    rows = (reasons == _PRESENT).any(axis=1), (reasons != _SOURCE).any(axis=1)
    known, readable = (frozenset(compress(block, chosen.tolist())) for chosen in rows)
    optional = (
        metric.id
        for metric in CPU_METRICS
        if metric.optional and metric.id in (readable if metric.shows_reasons else known)
    )
    absent = (reasons == _HARDWARE).all(axis=1) & bool(len(reasons.T))
    return _Metrics(known, frozenset(optional), frozenset(compress(block, absent.tolist())))


# Reasons seldom change from one tick to the next, values do.
_last_metrics = LastResults(
    _metrics_in, lambda block: ((tuple(block), block.reasons.shape, block.reasons.tobytes()),)
)
_metrics_of = LastResults[[CpuTable], _Metrics](lambda cpus: _last_metrics(Block.of(cpus.columns)))


@lru_cache(maxsize=16)  # called every tick
def _columns_for(
    width: int,
    here: frozenset[str],
    never: frozenset[str],
    table: CpuTableKind,
    *,
    trends: bool,
    chosen: tuple[str, ...],
) -> tuple[TableColumn, ...]:
    """`columns_for`: optional columns are shown if they are `here`; `never` rank last."""
    optional = {col.key for col in _OPTIONAL[table]}
    columns = [
        _at_width(col, width)
        for col in _TABLES[table]
        if col.key not in optional or col.key in here
    ]
    if trends and table == "cores":
        at = [col.key for col in columns].index("cpp") + 1
        if "cpp_vs_base" not in here:
            columns.insert(at, USUAL)
        columns.insert(
            next((i for i, c in enumerate(columns) if c.key == GROUP.key), len(columns)), TREND
        )
    if chosen:
        return chosen_columns(columns, chosen, width - EDGE)
    return fit_columns(columns, width - EDGE, last=never)


_HAS_PRIORITY = LastResults[[tuple[CpuSetting, ...]], bool](
    lambda settings: any(isinstance(item.priority, str) for item in settings)
)
_HAS_CP = LastResults[[tuple[CpuSetting, ...]], bool](
    lambda settings: any(isinstance(item.cp_class, int) for item in settings)
)
_HAS_GOVERNOR = LastResults[[tuple[CpuSetting, ...]], bool](
    lambda settings: any(isinstance(item.governor, str) for item in settings)
)
_OPTIONAL_TESTS: Mapping[str, Callable[[CpuTable], bool]] = {
    "group": lambda cpus: any(isinstance(item, CacheClass) for item in cpus.group),
    "sst": lambda cpus: _HAS_PRIORITY(cpus.settings),
    "cp": lambda cpus: _HAS_CP(cpus.settings),
    "governor": lambda cpus: _HAS_GOVERNOR(cpus.settings),
}
# Columns that are there if some CPU has a value of a metric.
_KNOWN_BY = {"limits": "max_frequency_hz", "base_frequency_hz": "base_frequency_hz"}


def _at_width(col: TableColumn, width: int) -> TableColumn:
    """The column on a screen of so many cells."""
    if col.key == "thread" and width < NARROW:
        return replace(col, width=9)
    if col.key == "nf" and width >= _LONG_NAMES_FROM:
        return replace(col, width=_LONG_NAMES)
    return _SHORT_BAR if col is BAR and width < _LONG_BARS_FROM else col


def metric_of(key: str) -> Metric | None:
    """Metric that rows are sorted by for this column; None for a label."""
    return _BY_KEY[key].metric


def shown_metrics(metrics: Iterable[Metric], cpus: CpuTable) -> list[Metric]:
    """Those of the metrics that belong on this host's screen."""
    here = _metrics_of(cpus).optional
    return [metric for metric in metrics if not metric.optional or metric.id in here]


def is_column(key: str) -> bool:
    """Whether any table of CPUs has a column with this key."""
    return key in _BY_KEY


def column_name(key: str) -> str:
    """Label of a column."""
    return _BY_KEY[key].label


def sorts_down(key: str) -> bool:
    """Whether a column sorts high to low by default: numbers do, names and CPUs do not."""
    return key not in LABEL_KEYS
