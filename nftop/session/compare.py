"""One side of a comparison: an interval of a recording, folded; and such sides by host."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from nftop.derive.compare.hosts import HostPair, LeftOut
from nftop.derive.compare.intervals import Interval
from nftop.derive.compare.intervals_report import comparison
from nftop.model.clock import NS_PER_S
from nftop.model.struct import dataclass, replace
from nftop.session.interval import Cut, ticks

# A cycle may be longer than an interval: so much before and after it is read too, as the live
# verdict has it of the time before a change. Longer intervals show such a cycle themselves.
CONTEXT_S = 600
_SIDES = ("before", "after")


@dataclass(frozen=True, slots=True)
class Side:
    """One interval of a comparison.

    Attributes:
        file, host: as typed, and as recorded (untrusted text).
        simulated: whether any tick is simulated.
        uarch: of the CPUs.
        interval_s: between ticks at its end.
        interval: its samples.
        lost: messages on missing data.
        context: the interval with up to `CONTEXT_S` before and after it.
    """

    file: str
    host: str
    simulated: bool
    uarch: str
    interval_s: float
    interval: Interval
    lost: tuple[str, ...]
    context: Interval


def side(cut: Cut, other: Cut) -> Side:
    """Read an interval and its context, up to the other interval.

    Raises OSError, and InterruptedError if reading is stopped.
    """
    item = _read([cut])
    return replace(item, context=_context(cut, other, item.interval))


def _read(cuts: Sequence[Cut]) -> Side:
    """Read intervals of one host in the order of time, as one and without context."""
    interval = Interval()
    simulated, uarch, interval_s, lost = False, "", 0.0, list[str]()
    for cut in cuts:
        for shown in ticks(cut):
            simulated |= shown.frame.host.simulated
            uarch, interval_s = shown.frame.host.uarch, shown.interval_ns / 1e9
            interval.take(shown.frame)
        lost += [loss.sentence for _, loss in cut.losses]
        lost += [cut.unfinished] if cut.unfinished else []
    files, name = ", ".join(cut.file for cut in cuts), cuts[0].host.name
    return Side(files, name, simulated, uarch, interval_s, interval, tuple(lost), interval)


def _context(cut: Cut, other: Cut, interval: Interval) -> Interval:
    """The interval with what lies before and after it, without anything of the other one.

    It ends at recorded changes: what they do to a number is no cycle of it.
    """
    from_ns, to_ns = cut.from_ns, cut.to_ns
    if to_ns - from_ns >= CONTEXT_S * NS_PER_S:
        return interval
    from_ns, to_ns = from_ns - CONTEXT_S * NS_PER_S, to_ns + CONTEXT_S * NS_PER_S
    if (cut.began_ns, cut.host) == (other.began_ns, other.host):
        if other.to_ns <= cut.from_ns:
            from_ns = max(from_ns, other.to_ns)
        else:
            to_ns = min(to_ns, other.from_ns)
    context = Interval()
    changed_ns = 0
    for shown in ticks(replace(cut, from_ns=from_ns, to_ns=to_ns, losses=[])):
        last_ns = max((item.wall_ns for item in shown.frame.noticed), default=0)
        if changed_ns < last_ns <= cut.from_ns:
            context, changed_ns = Interval(), last_ns
        elif last_ns > cut.to_ns:
            break
        context.take(shown.frame)
    return context


def notes(a: Side, b: Side, names: tuple[str, str] = ("A", "B")) -> tuple[str, ...]:
    """What speaks for taking a comparison with care, sentences; `names` of the sides."""
    one, two = names
    lines = []
    if a.host != b.host:
        lines.append(f"{one} is of the host {a.host}, {two} of {b.host}")
    if a.uarch != b.uarch:
        lines.append(
            f"the CPUs of {one} are {a.uarch}, of {two} {b.uarch}: counters need not count the same"
        )
    if a.simulated != b.simulated:
        lines.append(f"{one if a.simulated else two} is SIMULATED, and the other is not")
    if abs(a.interval_s - b.interval_s) > 0.01 * max(a.interval_s, b.interval_s):
        lines.append(
            f"{one} has a tick every {a.interval_s:g} s, {two} every {b.interval_s:g} s: the noise "
            "of longer ones is smaller, so that the test does not hold as stated"
        )
    for name, item in zip(names, (a, b), strict=True):
        lines += [f"{name}: {sentence}" for sentence in item.lost]
    return tuple(lines)


class HostCuts(NamedTuple):
    """The recordings of one host, each side in the order of time."""

    host: str
    before: tuple[Cut, ...]
    after: tuple[Cut, ...]


def paired_hosts(
    before: Sequence[Cut], after: Sequence[Cut]
) -> tuple[list[HostCuts], list[LeftOut]]:
    """Recordings by the host's name, and hosts that are no pair with the reason; sorted."""
    pairs, left_out = list[HostCuts](), list[LeftOut]()
    for host in sorted({cut.host.name for cut in (*before, *after)}):
        old, new = (
            tuple(sorted((cut for cut in cuts if cut.host.name == host), key=lambda c: c.from_ns))
            for cuts in (before, after)
        )
        of_time = sorted((*old, *new), key=lambda cut: cut.from_ns)
        about = {(cut.host.model, cut.host.uarch, cut.host.simulated) for cut in of_time}
        if not new:
            left_out.append(LeftOut(host, "nothing is recorded after the change", "only_before"))
        elif not old:
            left_out.append(LeftOut(host, "nothing is recorded before the change", "only_after"))
        elif any(two.from_ns < one.to_ns for one, two in pairwise(of_time)):
            left_out.append(LeftOut(host, "its intervals overlap", "overlap"))
        elif len(about) > 1:
            left_out.append(LeftOut(host, "its CPUs differ, or one is SIMULATED", "other_machine"))
        else:
            pairs.append(HostCuts(host, old, new))
    return pairs, left_out


@dataclass(frozen=True, slots=True)
class HostRun:
    """One host, read.

    Attributes:
        before, after: its sides, whose samples are dropped.
        pair: its comparison.
        notes: what speaks for taking it with care, sentences.
    """

    before: Side
    after: Side
    pair: HostPair
    notes: tuple[str, ...]


def host_run(cuts: HostCuts) -> HostRun:
    """Read and compare one host; raises as `side`."""
    a, b = _read(cuts.before), _read(cuts.after)
    result = comparison(a.interval, b.interval, zero_losses=True, sides=_SIDES)
    pair = HostPair(cuts.host, result, b.interval.tsc_hz)
    lines = [*notes(a, b, _SIDES)]
    if cuts.before[0].from_ns > cuts.after[0].from_ns:
        lines.append("it was recorded after the change first, then before it: exchanged sides?")
    lines += [f"{own.entity.name}: {note}" for own in pair.comparison.reports for note in own.notes]
    for item in (a, b):
        item.interval.entities.clear()  # samples of many hosts are too many for memory
    return HostRun(a, b, pair, tuple(lines))
