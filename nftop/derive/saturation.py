"""Saturation of cores and network functions, where CPP includes no empty polls; and their room.

Evidence, strongest first:

- `busy`: the NF's own busy share. Where it is known it decides alone: a core that had idle time and
  dropped packets dropped them in bursts.
- `vectors`: a VPP worker whose vectors are full (VLIB_FRAME_SIZE), empty polls included.
- `drops`: packets dropped because the core had left its NIC no free descriptor.

The last two can show that a core was saturated, never that it was not. A core that shares its CPU
(RUN below 95 %) drops packets while it waits, so they show nothing of it.

Packets per second are clock / CPP (equation 5 of the paper, 2 of its sequel). With bCPP for CPP
that is all a core can take, so its room is clock / bCPP - packets = packets x (1 / busy - 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nftop.derive.nf.rates import WHOLE_RATIO, NfCore
from nftop.model.frame import Direction
from nftop.model.metrics.saturation import DROPPING_RATIO, SATURATED_RATIO
from nftop.model.missing import Missing, Reading, Reason, quotient
from nftop.model.struct import dataclass


@dataclass(frozen=True, slots=True)
class Saturation:
    """Whether a core worked all the time, or all cores of an NF.

    Attributes:
        verdict: None if unknown.
        by: the evidence, of `busy`, `vectors`, `drops`; empty unless saturated.
    """

    verdict: bool | None
    by: tuple[str, ...] = ()


UNKNOWN = Saturation(None)


def saturation_of(core: NfCore, direction: Direction = "rx") -> Saturation:
    """One core; drops show nothing of a core whose packets are those sent."""
    run, busy = core.run_ratio, core.busy_ratio
    if isinstance(run, Missing):
        return UNKNOWN
    whole = run >= WHOLE_RATIO
    known = () if isinstance(busy, Missing) else ("busy",) * (busy >= SATURATED_RATIO)
    if not isinstance(busy, Missing) and not (whole and known):
        return Saturation(verdict=False)
    evidence = (
        *known,
        *("vectors",) * _has_full_vectors(core),
        *("drops",) * (direction == "rx" and _drops(core)),
    )
    return Saturation(verdict=True, by=evidence) if evidence and whole else UNKNOWN


def saturation_of_all(cores: Iterable[Saturation]) -> Saturation:
    """All cores of a network function; the evidence of any of them."""
    all_of = list(cores)
    verdicts = {core.verdict for core in all_of}
    if None in verdicts or not verdicts:
        return UNKNOWN
    if verdicts != {True}:
        return Saturation(verdict=False)
    by = dict.fromkeys(name for core in all_of for name in core.by)
    return Saturation(verdict=True, by=tuple(name for name in EVIDENCE if name in by))


EVIDENCE = ("busy", "vectors", "drops")


def _has_full_vectors(core: NfCore) -> bool:
    """Whether vectors are full and, if that is known, hardly a poll was empty."""
    fills = [core.vector_fill_ratio, core.poll_fill_ratio]
    return not isinstance(fills[0], Missing) and all(
        isinstance(fill, Missing) or fill >= SATURATED_RATIO for fill in fills
    )


def _drops(core: NfCore) -> bool:
    """Whether it drops a share of the packets that arrive which is no rare burst."""
    missed, packets = core.missed_packets_per_s, core.packets_per_s
    if isinstance(missed, Missing) or isinstance(packets, Missing):
        return False
    return missed > DROPPING_RATIO * (packets + missed)


@dataclass(frozen=True, slots=True)
class Room:
    """How much more a core, or a network function, can take.

    Attributes:
        ratio: share of its time that is left, 0..1.
        packets_per_s: more than now, at the cost that a packet has now.
    """

    ratio: Reading
    packets_per_s: Reading


_NONE = Room(0.0, 0.0)
_NO_COST = Missing(Reason.IDLE, "no packets, so none whose cost is known")
_NO_POLLER = Missing(Reason.IDLE, "no thread of it polls; it may not have been started")


def room_of(core: NfCore, direction: Direction = "rx") -> Room:
    """Room of one core: none if it drops or its vectors are full, whatever its busy time."""
    by = saturation_of(core, direction).by
    if by and by != ("busy",):
        return _NONE
    return _room(core.busy_ratio, core.packets_per_s)


def room_of_all(cores: Sequence[Room], packets_per_s: Reading) -> Room:
    """Room of a network function: until its busiest core is full, if packets stay spread as now."""
    shares = [core.ratio for core in cores]
    if any(share == 0.0 for share in shares):
        return _NONE
    absent = next((share for share in shares if isinstance(share, Missing)), None)
    if absent is not None or not shares:
        why = absent or _NO_POLLER
        return Room(why, why)
    least = min(share for share in shares if not isinstance(share, Missing))
    return Room(least, _room(1.0 - least, packets_per_s).packets_per_s)


def _room(busy: Reading, packets_per_s: Reading) -> Room:
    if isinstance(busy, Missing):
        return Room(busy, busy)
    busy = min(busy, 1.0)
    most = quotient(packets_per_s, busy)
    if isinstance(most, Missing) or isinstance(packets_per_s, Missing):
        idle = isinstance(most, Missing) and most.reason is Reason.IDLE
        return Room(1.0 - busy, _NO_COST if idle else most)
    return Room(1.0 - busy, _NO_COST if most == 0.0 else most - packets_per_s)
