"""This host, live."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Sequence
from typing import Protocol

from nftop.derive.compare.baseline import keep
from nftop.derive.findings.engine import begun
from nftop.derive.fold import State, comparing, polling_cpus, step
from nftop.derive.select import only_cpus
from nftop.model.baseline import Baselines
from nftop.model.frame import Finding, Focus, Frame
from nftop.model.ids import Cpu
from nftop.model.sample import Sample
from nftop.model.struct import replace
from nftop.model.topology import Topology
from nftop.session.notice import Notice
from nftop.session.sampler import Sampler
from nftop.sources.base import Detailing, Focusing, ProcessFocusing, Source

MIN_INTERVAL_S = 0.1
# How long a tick waits for the slow sources: long enough for a telemetry answer, short enough
# that the frame is still of its tick.
_GRACE_RATIO, _GRACE_AT_MOST_S = 0.25, 0.25
# The last part of a tick, in which sources that take turns count what else there is.
_TURN_RATIO = 0.1


class SessionClock(Protocol):
    """Time as the session sees it; tests bring their own."""

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC."""

    def wait(self, news: threading.Event, seconds: float) -> None:
        """Wait that long, or until there are `news`."""


class SystemClock:
    """The real one."""

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def wait(self, news: threading.Event, seconds: float) -> None:
        news.wait(seconds)


class Live:
    """A `Feed` of this host's frames, on absolute deadlines.

    A tick that comes late, because the host was busy or stopped, is taken at once; ticks that
    were missed altogether are not made up for. Nothing drifts: deadlines are multiples of the
    interval from the start, or from the tick before a change of it.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        start: State,
        interval_s: float,
        *,
        on_pollers: Callable[[frozenset[Cpu], Topology], None],
        cpus: Collection[Cpu] | None = None,
        soon_s: float | None = None,
        notice: Callable[[], str] | None = None,
        clock: SessionClock | None = None,
        on_sample: Callable[[Sample], None] | None = None,
        on_finding: Callable[[Finding, int, int], None] | None = None,
        on_baseline: Callable[[Baselines | None, int, int], None] | None = None,
    ) -> None:
        """Set up; nothing is read before `frames`.

        Args:
            sources: what to read; they are closed when the frames end.
            start: the fold's first state, which names host and topology.
            interval_s: seconds between ticks, at least MIN_INTERVAL_S.
            on_pollers: told the polling CPUs at the first tick and whenever they change.
            cpus: show these rows only; all CPUs if not given.
            soon_s: how long who looks is to wait for numbers that are not there yet, if less than
                the interval: those of the first frame, and of what is looked at anew.
            notice: what is to be said beside the numbers, "" if nothing; asked now and then, off
                this thread.
            clock: the system's if not given.
            on_sample: given every sample before anything is made of it; must not wait.
            on_finding: given every finding that begins, and wall and monotonic time of the tick
                that is the first to have it; must not wait.
            on_baseline: given each that is kept, None where it is forgotten, and the wall and the
                monotonic time of the sample it is first compared with, before that; likewise.
        """
        self._sources = sources
        self._start = start
        self._interval_s = max(interval_s, MIN_INTERVAL_S)
        self._on_pollers = on_pollers
        self._cpus = None if cpus is None else frozenset(cpus)
        self._soon_s = soon_s
        self._notice = Notice(notice or (lambda: ""))
        self._on_sample = on_sample or (lambda _: None)
        self._on_finding = on_finding or (lambda _finding, _wall_ns, _monotonic_ns: None)
        self._on_baseline = on_baseline or (lambda *_: None)
        self._keeps: deque[bool] = deque()
        self._clock = clock or SystemClock()
        self._looking = Focus()
        self._stopped = False
        # Something was told, and who waits for the next tick has to look what.
        self._news = threading.Event()

    @property
    def interval_s(self) -> float:
        return self._interval_s

    def set_interval(self, seconds: float) -> None:
        """Change the pace, of the present tick too; at least MIN_INTERVAL_S."""
        self._interval_s = max(seconds, MIN_INTERVAL_S)
        self._news.set()

    def look_at(self, looking: Focus) -> None:
        counts = looking.counts != self._looking.counts
        self._looking = looking
        if counts:
            self._news.set()

    def baseline(self, *, keep: bool) -> None:
        self._keeps.append(keep)

    def stop(self) -> None:
        self._stopped = True
        self._news.set()

    def frames(self) -> Generator[Frame, None, None]:
        """A frame per tick until `stop`. The first has no rates yet: WARMING."""
        sampler = Sampler(self._sources)
        state = self._start
        pollers: frozenset[Cpu] | None = None
        began_ns = self._clock.monotonic_ns()
        focus, first = Focus(), True
        findings: tuple[Finding, ...] = ()
        try:
            while not self._stopped:
                interval_s = self._interval_s
                focus, before = self._looking, focus
                if focus != before:
                    self._tell(focus, before)
                grace_s = min(interval_s * _GRACE_RATIO, _GRACE_AT_MOST_S)
                sample = sampler.sample(interval_s, grace_s)
                state = self._heed(state, sample)
                self._on_sample(sample)
                state, frame = step(state, sample)
                for item in begun(findings, frame.findings):
                    self._on_finding(item, frame.wall_ns, frame.monotonic_ns)
                findings = frame.findings
                if polling_cpus(frame) != pollers:
                    pollers = polling_cpus(frame)
                    self._on_pollers(pollers, frame.topology)
                frame = replace(frame, notice=self._notice.latest(self._clock.monotonic_ns()))
                yield frame if self._cpus is None else only_cpus(frame, self._cpus)
                began_ns = self._rest(
                    sampler, began_ns, focus, waited_for=first or focus.counts != before.counts
                )
                first = False
        finally:
            sampler.close()

    def _heed(self, state: State, sample: Sample) -> State:
        """Keep or forget baselines as was asked for since the last tick."""
        while self._keeps:
            kept = keep(state.baseline) if self._keeps.popleft() else None
            self._on_baseline(kept, sample.wall_ns, sample.monotonic_ns)
            state = comparing(state, kept)
        return state

    def _rest(self, sampler: Sampler, began_ns: int, focus: Focus, *, waited_for: bool) -> int:
        """Wait for the deadline of the next tick, or until `stop`; what it was.

        What is told meanwhile moves it. Sources take their turns in its last part; but not in a
        tick whose time for it has gone. Once they have, it comes no later.
        """
        turned_until_ns: int | None = None
        while True:
            self._news.clear()
            if self._stopped:
                return began_ns
            pause_s = self._interval_s
            if self._soon_s is not None and (waited_for or self._looking.counts != focus.counts):
                pause_s = min(pause_s, self._soon_s)
            deadline_ns = self._next_deadline_ns(began_ns, pause_s)
            if turned_until_ns is not None:
                deadline_ns = min(deadline_ns, turned_until_ns)
            elif sampler.turning and self._wait_until(
                deadline_ns - int(pause_s * _TURN_RATIO * 1e9)
            ):
                if self._news.is_set():
                    continue
                sampler.turn()
                turned_until_ns = deadline_ns
            self._clock.wait(self._news, (deadline_ns - self._clock.monotonic_ns()) / 1e9)
            if not self._news.is_set():
                return deadline_ns

    def _wait_until(self, at_ns: int) -> bool:
        """Wait until then or for news; False where that time has gone."""
        ahead_ns = at_ns - self._clock.monotonic_ns()
        if ahead_ns > 0:
            self._clock.wait(self._news, ahead_ns / 1e9)
        return ahead_ns > 0

    def _tell(self, looking: Focus, before: Focus) -> None:
        """Between two ticks: a source that is read in this thread is not told while it reads."""
        for source in self._sources:
            if isinstance(source, Focusing) and looking.core != before.core:
                source.focus(looking.core)
            if isinstance(source, ProcessFocusing) and looking.processes != before.processes:
                source.focus_processes(looking.processes)
            if isinstance(source, Detailing) and looking.traffic != before.traffic:
                source.detail(wanted=looking.traffic)

    def _next_deadline_ns(self, began_ns: int, interval_s: float) -> int:
        step_ns = int(interval_s * 1e9)
        missed = max((self._clock.monotonic_ns() - began_ns) // step_ns, 0)
        return began_ns + (missed + 1) * step_ns
