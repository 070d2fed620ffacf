"""Network functions that have ended; part of the fold, so that a replay shows the same.

Only a source that answers shows that one of its functions is gone. Functions of a late or failed
source are neither present nor gone.
"""

from __future__ import annotations

from collections.abc import Mapping

from nftop.model.frame import Frame
from nftop.model.missing import Reason
from nftop.model.nf.kinds import NF_SOURCES
from nftop.model.struct import dataclass, field

# How long a departure is shown.
GONE_FOR_S = 120.0
_MOST = 32


@dataclass(frozen=True, slots=True)
class NfSighting:
    """One function at the last reading that had it.

    Attributes:
        key, name, pid, kind: as in `NfRow` (the name is untrusted text).
        until_ns: wall time of that tick. until_monotonic_ns: CLOCK_MONOTONIC.
    """

    key: str
    name: str
    pid: int
    kind: str
    until_ns: int
    until_monotonic_ns: int


@dataclass(frozen=True, slots=True)
class DepartureState:
    """Functions that are present, by key, and those that departed, latest last."""

    present: Mapping[str, NfSighting] = field(default_factory=dict)
    gone: tuple[NfSighting, ...] = ()


def step_departures(state: DepartureState, frame: Frame) -> DepartureState:
    """Fold one frame in.

    A process that another source reports (OVS and DPDK) is not gone; the kernel is never gone.
    """
    present: dict[str, NfSighting] = {}
    for nf in frame.nfs:
        if not nf.pid:
            continue
        known = state.present.get(nf.key)
        present[nf.key] = (
            NfSighting(nf.key, nf.name, nf.pid, nf.kind, frame.wall_ns, frame.monotonic_ns)
            if known is None or _answers(frame, nf.kind)
            else known
        )
    pids = {value.pid for value in present.values()}
    left = [known for key, known in state.present.items() if key not in present]
    left = [known for known in left if known.pid not in pids]
    present |= {known.key: known for known in left if not _answers(frame, known.kind)}
    gone = [*state.gone, *(known for known in left if known.key not in present)]
    kept = [item for item in gone if item.key not in present and _is_recent(item, frame)]
    return DepartureState(present, tuple(kept[-_MOST:]))


def _answers(frame: Frame, kind: str) -> bool:
    source = frame.sources.get(NF_SOURCES.get(kind, kind))
    return source is not None and source.reason is Reason.PRESENT


def _is_recent(departed: NfSighting, frame: Frame) -> bool:
    return 0 <= frame.monotonic_ns - departed.until_monotonic_ns <= GONE_FOR_S * 1e9
