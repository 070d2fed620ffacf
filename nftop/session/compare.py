"""One side of a comparison: an interval of a recording, folded."""

from __future__ import annotations

from nftop.derive.compare.intervals import Interval
from nftop.model.clock import NS_PER_S
from nftop.model.struct import dataclass, replace
from nftop.session.interval import Cut, ticks

# A cycle may be longer than an interval: so much before and after it is read too, as the live
# verdict has it of the time before a change. Longer intervals show such a cycle themselves.
CONTEXT_S = 600


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
    interval = Interval()
    simulated, uarch, interval_s = False, "", 0.0
    for shown in ticks(cut):
        simulated |= shown.frame.host.simulated
        uarch, interval_s = shown.frame.host.uarch, shown.interval_ns / 1e9
        interval.take(shown.frame)
    lost = tuple(loss.sentence for _, loss in cut.losses)
    if cut.unfinished:
        lost = (*lost, cut.unfinished)
    return Side(
        cut.file,
        cut.host.name,
        simulated,
        uarch,
        interval_s,
        interval,
        lost,
        _context(cut, other, interval),
    )


def _context(cut: Cut, other: Cut, interval: Interval) -> Interval:
    """The interval with what lies before and after it, without anything of the other one."""
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
    for shown in ticks(replace(cut, from_ns=from_ns, to_ns=to_ns, losses=[])):
        context.take(shown.frame)
    return context


def notes(a: Side, b: Side) -> tuple[str, ...]:
    """What speaks for taking a comparison with care, sentences."""
    lines = []
    if a.host != b.host:
        lines.append(f"A is of the host {a.host}, B of {b.host}")
    if a.uarch != b.uarch:
        lines.append(f"A's CPUs are {a.uarch}, B's {b.uarch}: counters need not count the same")
    if a.simulated != b.simulated:
        lines.append(f"{'A' if a.simulated else 'B'} is SIMULATED, and the other is not")
    if abs(a.interval_s - b.interval_s) > 0.01 * max(a.interval_s, b.interval_s):
        lines.append(
            f"A has a tick every {a.interval_s:g} s, B every {b.interval_s:g} s: the noise of "
            "longer ones is smaller, so that the test does not hold as stated"
        )
    for name, item in (("A", a), ("B", b)):
        lines += [f"{name}: {sentence}" for sentence in item.lost]
    return tuple(lines)
