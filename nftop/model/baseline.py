"""A baseline: numbers of network functions and their cores that the operator kept."""

from __future__ import annotations

from collections.abc import Mapping

from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.struct import dataclass, field

# The last so many ticks are what a baseline rests on; fewer than the latter are none.
MOST_TICKS, LEAST_TICKS = 30, 5
# Where the packets differ by more than this share from the baseline's, the load has moved.
LOAD_MOVED_RATIO = 0.1

NO_BASELINE = Missing(Reason.SOURCE, "no baseline is kept: b keeps one")


@dataclass(frozen=True, slots=True)
class BaselineLevel:
    """Level of one metric over the ticks of a baseline.

    Attributes:
        median: in the metric's unit. spread: the median absolute deviation from it.
        ticks: number of ticks with a value.
    """

    median: float
    spread: float
    ticks: int


@dataclass(frozen=True, slots=True)
class CoreBaseline:
    """One CPU of a network function. Fields as in `NfBaseline`."""

    cpu: Cpu
    levels: Mapping[str, BaselineLevel]
    clock: str | None = None
    saturated: bool | None = None


@dataclass(frozen=True, slots=True)
class NfBaseline:
    """One network function.

    Attributes:
        key, name, kind, pid: as in `NfRow`; name is untrusted text.
        levels: by metric id; metrics with too few values are absent.
        clock: of CPP: the levels have only cycles of this clock. None without a CPP.
        saturated: whether its cores were always busy; None if unknown.
        ticks: number of ticks.
    """

    key: str
    name: str
    kind: str
    pid: int
    levels: Mapping[str, BaselineLevel]
    clock: str | None = None
    saturated: bool | None = None
    ticks: int = 0
    cores: tuple[CoreBaseline, ...] = ()


@dataclass(frozen=True, slots=True)
class Baselines:
    """All baselines of one moment.

    Attributes:
        wall_ns: of the last tick.
        nfs: functions with enough ticks. short: number of ticks of the others, by `NfRow.key`.
    """

    wall_ns: int
    nfs: tuple[NfBaseline, ...]
    short: Mapping[str, int] = field(default_factory=dict)
