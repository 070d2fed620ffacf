"""An experiment: settings of cache classes that are tried in turn, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypeAlias

from nftop.model.change import Change, Proposal
from nftop.model.ids import L3Domain
from nftop.model.struct import dataclass, field

# Why an experiment ended.
EndReason: TypeAlias = Literal[
    "clear",  # the recommendation is decided
    "rounds",  # all rounds are done
    "drops",  # harm limit
    "cost",  # harm limit
    "gone",  # a watched network function ended
    "silent",  # a watched network function gives no numbers
    "stopped",  # by the operator
    "guard",  # the guard ended it: another program changed the classes, or a write failed
]
# How a visit came to be measured.
Settling: TypeAlias = Literal[
    "still",  # occupancy and losses had settled
    "unmetered",  # a fixed time after the write: occupancy is not monitored
    "no_size",  # the same: the size of a cache is unknown
    "moving",  # the longest time after the write: something still moved
]
# Cycles per packet that are compared: busy cycles, or all cycles of cores that were always busy.
CostBasis: TypeAlias = Literal["busy", "full"]
# Effect of a setting on a network function, compared with the reference.
SettingEffect: TypeAlias = Literal["nothing", "costs", "gains", "drops", "undecided", "unmeasured"]


@dataclass(frozen=True, slots=True)
class Setting:
    """One configuration to try.

    Attributes:
        label: short text (`3 ways`).
        changes: from the state before the experiment; empty if that is the setting.
        ways: of the swept class; 0 if it is not a width.
        masks: bits by L3 of the swept class; empty if it is not a width.
        io: bits by L3 that these masks share with devices (I/O); caches without any are absent.
        shared: the same with classes of network functions, by class.
    """

    label: str
    changes: tuple[Change, ...]
    ways: int = 0
    masks: Mapping[L3Domain, int] = field(default_factory=dict)
    io: Mapping[L3Domain, int] = field(default_factory=dict)
    shared: Mapping[L3Domain, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations of a visit in seconds; `expected_settle_s` is for estimates only."""

    settle_least_s: float = 5.0
    settle_most_s: float = 60.0
    unmetered_s: float = 15.0
    expected_settle_s: float = 12.0
    measure_s: float = 20.0


@dataclass(frozen=True, slots=True)
class HarmLimits:
    """What ends an experiment.

    Attributes:
        drop_packets_per_s: of all watched network functions; None: the baseline's plus
            `drop_ratio` of the packets offered then.
        cpp_ratio: increase of cycles per packet over the baseline.
    """

    drop_packets_per_s: float | None = None
    drop_ratio: float = 0.05
    cpp_ratio: float = 0.25


@dataclass(frozen=True, slots=True)
class Experiment:
    """The plan of an experiment.

    Attributes:
        kind: `sweep`: widths of one class, ascending; `try`: the first setting is what is now.
        of_io: the ways of I/O are changed. Of a sweep they are its widths, and those of no class;
            `own` has all that are watched, since all want them.
        group: the class (directory, untrusted text).
        settings: at least two.
        watch: `NfRow.key` of network functions, with their names (untrusted text).
        own: keys of those of them that are in the class.
        caches: those that are changed.
        classes: directories whose occupancy has to settle.
        proposal: the whole change, for the guard: its state and every value it may write.
        left_out: why widths that were asked for are no setting, sentences.
        ends: least and most ways that a mask of this hardware has; 0 if unknown, or no sweep.
        polled: by class the names of the network functions in it, watched or not (untrusted text).
        rounds_least, rounds_most: rounds before it may end early, and in all.
        seed: of the order.
        tolerance_ratio: loss that the second recommendation allows.
    """

    kind: Literal["sweep", "try"]
    group: str
    settings: tuple[Setting, ...]
    watch: Mapping[str, str]
    own: frozenset[str]
    caches: tuple[L3Domain, ...]
    classes: tuple[str, ...]
    proposal: Proposal
    left_out: tuple[str, ...] = ()
    rounds_least: int = 2
    rounds_most: int = 8
    seed: int = 0
    tolerance_ratio: float = 0.02
    timing: Timing = field(default_factory=Timing)
    limits: HarmLimits = field(default_factory=HarmLimits)
    of_io: bool = False
    ends: tuple[int, int] = (0, 0)
    polled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def hex(self, bits: int) -> str:
        """A mask with the digits that all ways need."""
        return f"{bits:x}".zfill(-(-self.ends[1] // 4))


@dataclass(frozen=True, slots=True)
class NfLevels:
    """Numbers of a network function during a visit; NaN if absent.

    Attributes:
        packets_per_s, llc_misses_per_packet: of its readings. drop_packets_per_s: mean.
        lost_ratio: dropped / offered packets.
        cpp: cycles per packet as shown.
        busy_cpp: busy cycles per packet. full_cpp: all cycles, if its cores were always busy.
        clock: base clock of these cycles; "" if unknown.
        cpp_is_bound: `cpp` is an upper bound: it may include empty polls.
    """

    packets_per_s: float
    drop_packets_per_s: float
    lost_ratio: float
    cpp: float
    busy_cpp: float
    full_cpp: float
    llc_misses_per_packet: float
    clock: str = ""
    cpp_is_bound: bool = False

    def cost(self, basis: CostBasis) -> float:
        return self.busy_cpp if basis == "busy" else self.full_cpp


@dataclass(frozen=True, slots=True)
class Visit:
    """One stay at a setting, measured.

    Attributes:
        setting: index in `Experiment.settings`; -1 for the baseline.
        round: 1 for the first; 0 for the baseline.
        written_ns, settled_ns, end_ns: CLOCK_MONOTONIC.
        nfs: by `NfRow.key`.
        occupancy_bytes, memory_bytes_per_s, ipc: of the class; NaN if unknown.
        settling: how it came to be measured.
        io_hit_ratio: share of devices' writes that hit these caches; NaN if unknown.
        others: medians of classes and sockets of a `try`, by `class/NAME/METRIC` and
            `socket/NUMBER/METRIC`; absent if unknown.
    """

    setting: int
    round: int
    written_ns: int
    settled_ns: int
    end_ns: int
    nfs: Mapping[str, NfLevels]
    occupancy_bytes: float
    memory_bytes_per_s: float
    ipc: float
    settling: Settling = "still"
    io_hit_ratio: float = math.nan
    others: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over visits, and half of its 95 % interval; NaN if unknown."""

    value: float
    half: float


@dataclass(frozen=True, slots=True)
class NfEffect:
    """A network function at a setting.

    Attributes:
        cost_ratio: cycles per packet relative to the reference, less 1; NaN if not comparable.
        cost_basis: the cycles of `cost_ratio`; None without one.
        lost_ratio: packets lost of those offered, less the reference's share; where drops are
            unknown the loss of packets per second. NaN if unknown.
        effect: compared with the reference. tolerated: whether its loss is within the tolerance.
        close: it `costs`, but more visits may show that the loss is below the limit.
        cpp_is_bound: as `NfLevels.cpp_is_bound`, of any of its visits.
    """

    packets_per_s: Estimate
    cpp: Estimate
    drop_packets_per_s: float
    llc_misses_per_packet: float
    cost_ratio: float
    lost_ratio: float
    effect: SettingEffect
    tolerated: bool
    cost_basis: CostBasis | None = None
    close: bool = False
    cpp_is_bound: bool = False


@dataclass(frozen=True, slots=True)
class SettingResult:
    """A setting and its effects.

    Attributes:
        effect: the worst of its network functions'.
        visits: number of its visits. moving: those of them that had not settled.
        io_hit_ratio: mean over its visits; NaN if unknown.
    """

    setting: int
    visits: int
    nfs: Mapping[str, NfEffect]
    effect: SettingEffect
    occupancy_bytes: float
    memory_bytes_per_s: float
    ipc: float
    moving: int = 0
    io_hit_ratio: float = math.nan


@dataclass(frozen=True, slots=True)
class Curve:
    """Results by setting, in the order of the settings that were visited.

    Attributes:
        recommended: index of the setting to use, or None. tolerated: the same within the tolerance.
        decided: whether more visits would not change the recommendation.
        undecided: settings whose effect is open.
    """

    results: tuple[SettingResult, ...]
    recommended: int | None = None
    tolerated: int | None = None
    decided: bool = False
    undecided: tuple[int, ...] = ()


# What a `try` says of a number: `more` and `less` where neither is better; `drops`: packets are
# lost in every visit, and now in none, which is a fact of these visits.
TryWord: TypeAlias = Literal[
    "better", "worse", "more", "less", "same", "drops", "undecided", "unmeasured"
]


@dataclass(frozen=True, slots=True)
class TryDifference:
    """A number with the second setting, compared with the first.

    Attributes:
        kind, name: of what (untrusted text). metric: a metric's id; `lost_ratio` of packets.
        now, then: means over visits; NaN if unknown.
        change: relative, of `lost_ratio` absolute. half: of its 95 % interval.
    """

    kind: Literal["nf", "class", "socket"]
    name: str
    metric: str
    now: float
    then: float
    change: float
    half: float
    word: TryWord
