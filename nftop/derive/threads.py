"""Run time, wait time and polling of each watched thread."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from nftop.derive.absence import after_absence
from nftop.derive.fold_stage import FoldStage, FoldTick
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.nf.kinds import POLLING_RATIO
from nftop.model.sample import SourceReading, ThreadTable
from nftop.model.struct import dataclass, field, replace
from nftop.model.threads import ThreadRow

# On a nohz_full CPU the kernel brings a running thread's time up to date once a second
# (sched_tick_remote), so a shorter look can see no progress, or two seconds' worth. For so long
# what was said of it last still holds.
HOLD_NS = 2_000_000_000

_WARMING = Missing(Reason.WARMING)
_NO_WAIT = Missing(Reason.HARDWARE, "this kernel keeps no schedstat")


@dataclass(frozen=True, slots=True)
class ThreadRate:
    """One thread and its shares of the interval: metrics run_ratio, wait_ratio.

    `polls` is None before the second reading.
    """

    thread: ThreadRow
    run_ratio: Reading
    wait_ratio: Reading
    polls: bool | None

    @property
    def cpu(self) -> Cpu | None:
        """The CPU it is pinned to, or None."""
        return self.thread.allowed[0] if len(self.thread.allowed) == 1 else None


def by_process(threads: Sequence[ThreadRate]) -> dict[int, list[ThreadRate]]:
    """Threads by the pid of their process, in their order."""
    result: dict[int, list[ThreadRate]] = {}
    for rate in threads:
        result.setdefault(rate.thread.pid, []).append(rate)
    return result


@dataclass(frozen=True, slots=True)
class _Track:
    """State of a thread.

    Attributes:
        row: its last reading.
        since: the reading from which the next shares are counted: the last with progress.
        rate: its last result.
        awake: it was running or ready to run at `row`.
        running: it was on its CPU at `row`.
    """

    row: ThreadRow
    since: ThreadRow
    rate: ThreadRate
    awake: bool = False
    running: bool = False


@dataclass(frozen=True, slots=True)
class ThreadState:
    read_at_ns: int | None = None
    tracks: Mapping[tuple[int, int], _Track] = field(default_factory=dict)

    @property
    def rates(self) -> tuple[ThreadRate, ...]:
        return tuple(track.rate for track in self.tracks.values())


def step_threads(
    state: ThreadState, reading: SourceReading[ThreadTable] | None, nohz_full: Collection[Cpu]
) -> tuple[ThreadState, tuple[ThreadRate, ...]]:
    """Fold one reading of the threads in; threads that ended are dropped at once.

    While the source is late, threads stay where they were, without shares. The kernel updates the
    times of threads on `nohz_full` CPUs only once a second.
    """
    if reading is None:
        return ThreadState(), ()
    if isinstance(reading.value, Missing):
        why = reading.value
        state = after_absence(state, ThreadState(), why)
        return state, tuple(replace(one, run_ratio=why, wait_ratio=why) for one in state.rates)
    if state.read_at_ns != reading.read_at_ns:
        tracks = {}
        for row in reading.value.threads:
            identity = row.tid, row.start_ticks
            late = len(row.allowed) == 1 and row.allowed[0] in nohz_full
            tracks[identity] = _follow(state.tracks.get(identity), row, late=late)
        state = ThreadState(reading.read_at_ns, tracks)
    return state, state.rates


def _follow(track: _Track | None, row: ThreadRow, *, late: bool) -> _Track:
    if track is None or row.run_ns < track.row.run_ns:
        return _Track(row, row, ThreadRate(row, _WARMING, _WARMING, None))
    elapsed_ns = row.read_at_ns - track.since.read_at_ns
    if elapsed_ns <= 0:
        return track
    slept = row.voluntary != track.row.voluntary
    moved = slept or row.involuntary != track.row.involuntary
    progressed = _spent_ns(row) > _spent_ns(track.since)
    awake = not slept and (track.awake or row.run_ns > track.row.run_ns)
    if late and track.running and not moved:
        # On its CPU then, and not switched out since: it ran all the time, whatever a counter
        # that is not up to date says.
        return _rated(track, row, 1.0, 0.0, awake=True, running=True)
    if late and not progressed and elapsed_ns <= HOLD_NS:
        held = replace(track.rate, thread=row)
        return replace(track, row=row, rate=held, awake=awake, running=False)
    # The clock is read a little before the counters, so a spinning thread can come out a little
    # over its interval; more than all of the time is still all of it.
    run = min((row.run_ns - track.since.run_ns) / elapsed_ns, 1.0)
    waited = _waited(track, row, run, elapsed_ns, awake=track.awake and not slept)
    return _rated(track, row, run, waited, awake=awake, running=progressed and not moved)


def _waited(
    track: _Track, row: ThreadRow, run: float, elapsed_ns: int, *, awake: bool
) -> float | None:
    """Share of time it waited: for a thread that stayed awake, all time it did not run."""
    if row.wait_ns is None or track.since.wait_ns is None:
        return None
    if awake:
        return 1.0 - run
    return min(max((row.wait_ns - track.since.wait_ns) / elapsed_ns, 0.0), 1.0 - run)


def _rated(
    track: _Track, row: ThreadRow, run: float, waited: float | None, *, awake: bool, running: bool
) -> _Track:
    # Half as much is enough to stay one, so that a load near the threshold does not flicker.
    threshold = POLLING_RATIO / 2 if track.rate.polls else POLLING_RATIO
    polls = run + (waited or 0.0) > threshold
    wait: Reading = _NO_WAIT if waited is None else waited
    return _Track(row, row, ThreadRate(row, run, wait, polls), awake, running)


def _spent_ns(row: ThreadRow) -> int:
    return row.run_ns + (row.wait_ns or 0)


def _run(state: ThreadState, tick: FoldTick) -> tuple[ThreadState, tuple[ThreadRate, ...]]:
    nohz_full = {info.cpu for info in tick.topology.cpus if info.nohz_full}
    return step_threads(state, tick.sample.readings.get("processes"), nohz_full)


THREADS: FoldStage[ThreadState, Sequence[ThreadRate]] = FoldStage("threads", ThreadState, _run)
