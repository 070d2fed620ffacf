"""What shows that a core is saturated, so that its CPP has no empty polls in it; and its room.

Evidence, strongest first:

- `busy`: the NF's own busy share. Where it is known it decides alone: a core that had idle time and
  dropped packets dropped them in bursts.
- `vectors`: a VPP worker whose vectors are full (VLIB_FRAME_SIZE), empty polls included.
- `drops`: packets dropped because the core had left its NIC no free descriptor.

The last two can show that a core was saturated, never that it was not. A core that shares its CPU
(RUN below 95 %) drops packets while it waits, so they show nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from nftop.derive.nf.rates import WHOLE_RATIO, NfCore
from nftop.model.frame import Direction
from nftop.model.metrics.saturation import DROPPING_RATIO, SATURATED_RATIO
from nftop.model.reading import Missing
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
