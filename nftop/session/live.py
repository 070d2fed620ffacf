"""This host, live."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Sequence
from typing import Any, Protocol, TypeVar

from nftop.derive.compare.baseline import is_early, keep
from nftop.derive.cpu_filter import only_cpus
from nftop.derive.findings.engine import begun
from nftop.derive.fold import FoldState, comparing, polling_cpus, step
from nftop.derive.incidents.lifecycle import culprit_focus
from nftop.derive.topdown.tma import drilled_node
from nftop.model.baseline import Baselines
from nftop.model.error_text import describe_error
from nftop.model.frame import Finding, Focus, Frame
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.rule_settings import RuleSettings
from nftop.model.sample import Sample, SourceReading, ThreadTable
from nftop.model.struct import dataclass, replace
from nftop.model.topology import Topology
from nftop.sources.base import (
    CounterFocusing,
    CulpritFocusing,
    Detailing,
    Focusing,
    ProcessFocusing,
    Source,
    Turning,
)

_T = TypeVar("_T")
# A source that takes longer than this gets company if others wait behind it.
STALL_S = 0.02
_JOIN_S = 1.0


def read_source(source: Source) -> SourceReading[Any]:
    """One reading with its time. An exception becomes an ERROR reading."""
    started_ns = time.monotonic_ns()
    value = _attempt(source, source.read)
    took_ns = time.monotonic_ns() - started_ns
    return SourceReading(value, started_ns + took_ns // 2, took_ns)


def _attempt(source: Source, work: Callable[[], _T]) -> _T | Missing:
    """Call a method of a source; ERROR if it raises."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - the boundary: no source may stop another
        return Missing(Reason.ERROR, f"{source.name}: {type(error).__name__}: {error}")


@dataclass(slots=True, eq=False)
class _Slot:
    """A source that may block, with its last reading."""

    source: Source
    latest: SourceReading[Any]
    requested: bool = False
    requested_at: int = 0  # number of the request that has waited longest
    running: bool = False
    closed: bool = False


class BlockingSources:
    """Sources that may block, read by one helper thread, the oldest request and the quickest first.

    While a source takes longer than STALL_S and others are queued behind it, or some still wait
    since the request before, another thread reads those; it ends when the queue is empty. So a
    source that hangs delays the others by STALL_S.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        warming = Missing(Reason.WARMING, "it has not answered yet")
        started_ns = time.monotonic_ns()
        self._slots = [_Slot(item, SourceReading(warming, started_ns, 0)) for item in sources]
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._idle = threading.Condition(self._lock)
        self._threads: set[threading.Thread] = set()
        self._requests = 0
        self._last_start_ns = started_ns
        self._stopped = False

    @property
    def latest(self) -> dict[str, SourceReading[Any]]:
        """The last reading of every source; WARMING if it never gave one."""
        return {slot.source.name: slot.latest for slot in self._slots}

    def request(self) -> None:
        """Request a reading of every source; one under way is followed by another."""
        with self._lock:
            self._requests += 1
            for slot in self._slots:
                if not slot.requested:
                    slot.requested, slot.requested_at = True, self._requests
            if self._slots and not self._threads:
                self._start()
            self._relieve()
            self._work.notify()

    def wait(self, timeout_s: float) -> None:
        """Wait for all requested readings, but not longer than `timeout_s`."""
        deadline_s = time.monotonic() + timeout_s
        with self._lock:
            while any(slot.requested or slot.running for slot in self._slots):
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    return
                self._idle.wait(min(left_s, STALL_S) if self._queue() else left_s)
                self._relieve()

    def close(self) -> None:
        """Close every source in a thread of its own; one that hangs, after its reading."""
        with self._lock:
            self._stopped = True
            threads = [*self._threads]
            for slot in self._slots:
                if slot.running or slot.closed:
                    continue
                slot.closed = True
                closing = threading.Thread(
                    target=_attempt, args=(slot.source, slot.source.close), daemon=True
                )
                with contextlib.suppress(RuntimeError):  # no thread: what is open ends with nftop
                    closing.start()
                    threads.append(closing)
            self._work.notify_all()
        deadline_s = time.monotonic() + _JOIN_S
        for thread in threads:
            thread.join(max(deadline_s - time.monotonic(), 0.0))

    def _queue(self) -> list[_Slot]:
        return [slot for slot in self._slots if slot.requested and not slot.running]

    def _relieve(self) -> None:
        """Start a thread if a source stalls the queue, or if the queue outlasts a request."""
        stalled = time.monotonic_ns() - self._last_start_ns >= STALL_S * 1e9
        queue = self._queue()
        late = any(slot.requested_at < self._requests for slot in queue)
        is_busy = sum(slot.running for slot in self._slots) >= len(self._threads)
        if queue and (stalled or late) and is_busy:
            self._start()

    def _start(self) -> None:
        # A daemon: a source stuck in the kernel must not keep nftop from ending.
        permanent = not self._threads
        thread = threading.Thread(
            target=self._run, kwargs={"permanent": permanent}, name="nftop-helper", daemon=True
        )
        self._last_start_ns = time.monotonic_ns()
        try:
            thread.start()
        except RuntimeError:  # no more threads: the queue waits for the source that stalls it
            if permanent:
                raise
        else:
            self._threads.add(thread)

    def _run(self, *, permanent: bool) -> None:
        while (slot := self._next(permanent=permanent)) is not None:
            reading = read_source(slot.source)
            with self._lock:
                slot.latest, slot.running, slot.closed = reading, False, self._stopped
                if not any(item.requested or item.running for item in self._slots):
                    self._idle.notify_all()
            if slot.closed:
                _attempt(slot.source, slot.source.close)

    def _next(self, *, permanent: bool) -> _Slot | None:
        """The next source to read; None: the thread ends."""
        with self._lock:
            while not self._stopped:
                queue = self._queue()
                if queue:
                    slot = min(queue, key=lambda item: (item.requested_at, item.latest.took_ns))
                    slot.requested, slot.running = False, True
                    self._last_start_ns = time.monotonic_ns()
                    return slot
                if not permanent:
                    break
                self._work.wait()
            self._threads.discard(threading.current_thread())
            return None


class Sampler:
    """Takes a `Sample` from a set of sources.

    Readings of sources that may block are requested first, the others are read meanwhile. Sources
    that answer within the grace time are in the same sample; of the others the last reading goes
    in, with its age.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._inline = [source for source in sources if source.inline]
        self._turns = [source for source in self._inline if isinstance(source, Turning)]
        self._blocking = BlockingSources([source for source in sources if not source.inline])
        self._failed: dict[str, Missing] = {}

    @property
    def turning(self) -> bool:
        """Some source wants `turn` before the next sample."""
        return any(source.turning for source in self._turns)

    def turn(self) -> None:
        """Start the last part of the tick; an exception shows in the source's next reading."""
        for source in self._turns:
            if source.turning:
                failure = _attempt(source, source.turn)
                if failure is not None:
                    self._failed[source.name] = failure

    def sample(self, interval_s: float, grace_s: float) -> Sample:
        """One sample; returns at most `grace_s` after the inline sources were read.

        `interval_s` is the pace, which the sample carries.
        """
        monotonic_ns, wall_ns = time.monotonic_ns(), time.time_ns()
        self._blocking.request()
        readings = {source.name: read_source(source) for source in self._inline}
        for name, why in self._failed.items():
            readings[name] = replace(readings[name], value=why)
        self._failed.clear()
        self._blocking.wait(grace_s)
        readings.update(self._blocking.latest)
        return Sample(wall_ns, monotonic_ns, int(interval_s * 1e9), readings)

    def close(self) -> None:
        """Close every source."""
        for source in self._inline:
            source.close()
        self._blocking.close()


EVERY_S = 3.0


class Notice:
    """Last result of a callable that may block on a disk."""

    def __init__(self, ask: Callable[[], str]) -> None:
        """`ask`: returns a sentence or "". It is called in one thread at a time."""
        self._ask = ask
        self._request_lock = threading.Lock()
        self._requested_at_ns: int | None = None
        self._answer = ""

    def latest(self, now_ns: int) -> str:
        """The last result; a new call starts after EVERY_S."""
        due = self._requested_at_ns is None or now_ns - self._requested_at_ns >= EVERY_S * 1e9
        if due and self._request_lock.acquire(blocking=False):
            self._requested_at_ns = now_ns
            # A daemon: a disk that hangs must not keep nftop from ending.
            threading.Thread(target=self._run, name="nftop-notice", daemon=True).start()
        return self._answer

    def _run(self) -> None:
        try:
            self._answer = self._ask()
        except Exception as error:  # noqa: BLE001 - the boundary: it must not end the frames
            self._answer = describe_error(error)
        finally:
            self._request_lock.release()


MIN_INTERVAL_S = 0.1
# How long a tick waits for sources that may block: enough for a telemetry reply, small against the
# interval.
_GRACE_RATIO, _GRACE_AT_MOST_S = 0.25, 0.25
# Share of a tick in which multiplexing sources count their other groups.
_TURN_RATIO = 0.1


class SessionClock(Protocol):
    """The clock of a session, replaced in tests."""

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC."""

    def wait(self, news: threading.Event, seconds: float) -> None:
        """Wait that long, or until there are `news`."""


class SystemClock:
    """CLOCK_MONOTONIC and real waits."""

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def wait(self, news: threading.Event, seconds: float) -> None:
        news.wait(seconds)


# What is counted on demand is counted in the last so many of so many ticks: a rate needs two.
_SAMPLED_TICKS, _SAMPLED_EVERY = 2, 5


def is_sampled(tick: int) -> bool:
    """Whether all that packages can count is counted at the tick of this number."""
    return tick % _SAMPLED_EVERY >= _SAMPLED_EVERY - _SAMPLED_TICKS


def _disturbs(sample: Sample) -> bool:
    """Whether counting outside the cores interrupts a polling core."""
    reading = sample.readings.get("uncore")
    return reading is not None and getattr(reading.value, "warning", "") != ""


def without_commands(sample: Sample) -> Sample:
    """The sample as it may be recorded: arguments of commands can have secrets in them."""
    reading = sample.readings.get("processes")
    if reading is None or not isinstance(reading.value, ThreadTable) or not reading.value.facts:
        return sample
    facts = tuple(replace(item, command="") for item in reading.value.facts)
    processes = replace(reading, value=replace(reading.value, facts=facts))
    return replace(sample, readings={**sample.readings, "processes": processes})


class Live:
    """A `Feed` of this host's frames, on absolute deadlines.

    A late tick is taken at once; missed ticks are skipped. Deadlines do not drift: they are
    multiples of the interval since the start, or since the tick before a change of the interval.

    Attributes:
        state: of the fold before the newest sample.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        start: FoldState,
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
            on_pollers: called with the polling CPUs at the first tick and when they change.
            cpus: show these rows only; all CPUs if not given.
            soon_s: time until the first values, and until those of a new focus, if less than the
                interval.
            notice: text to show besides the values, "" for none; called now and then in a thread
                of its own.
            clock: default: the system's.
            on_sample: called with every sample before it is processed, without command lines of
                processes; must not block.
            on_finding: called with every new finding and the wall and monotonic time of its first
                tick; must not block.
            on_baseline: called with every baseline kept, None if forgotten, and the wall and
                monotonic time of the first sample compared with it, before that; must not block.
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
        self._rules = start.rules
        self._clock = clock or SystemClock()
        self._focus = Focus()
        self._stopped = False
        self.state = start
        # Ends the wait for the next tick after a change of interval or focus, or `stop`.
        self._news = threading.Event()

    @property
    def interval_s(self) -> float:
        return self._interval_s

    def set_interval(self, seconds: float) -> None:
        """Change the pace, of the present tick too; at least MIN_INTERVAL_S."""
        self._interval_s = max(seconds, MIN_INTERVAL_S)
        self._news.set()

    def set_focus(self, focus: Focus) -> None:
        counts = focus.counts != self._focus.counts
        self._focus = focus
        if counts:
            self._news.set()

    def baseline(self, *, keep: bool) -> None:
        self._keeps.append(keep)

    def set_rules(self, settings: RuleSettings) -> None:
        self._rules = settings

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
        requested, tick, disturbs = Focus(), 0, False
        findings: tuple[Finding, ...] = ()
        culprits, memory = tuple[Cpu, ...](), tuple[Cpu, ...]()
        node = ""
        try:
            while not self._stopped:
                interval_s = self._interval_s
                focus, before = self._focus, focus
                sampled = focus.traffic or (is_sampled(tick) and not disturbs)
                wanted = replace(
                    focus, node=node, culprits=culprits, memory=memory, traffic=sampled
                )
                if wanted != requested:
                    self._focus_sources(wanted, requested)
                    requested = wanted
                tick += 1
                grace_s = min(interval_s * _GRACE_RATIO, _GRACE_AT_MOST_S)
                sample = sampler.sample(interval_s, grace_s)
                self.state = state = self._apply_requests(state, sample)
                self._on_sample(without_commands(sample))
                disturbs = _disturbs(sample)
                state, frame = step(state, sample)
                for item in begun(findings, frame.findings):
                    self._on_finding(item, frame.wall_ns, frame.monotonic_ns)
                findings = frame.findings
                culprits, memory = culprit_focus(frame)
                node = drilled_node(frame.focus, node)
                if polling_cpus(frame) != pollers:
                    pollers = polling_cpus(frame)
                    self._on_pollers(pollers, frame.topology)
                frame = replace(frame, notice=self._notice.latest(self._clock.monotonic_ns()))
                yield frame if self._cpus is None else only_cpus(frame, self._cpus)
                began_ns = self._wait(
                    sampler, began_ns, focus, waited_for=first or focus.counts != before.counts
                )
                first = False
        finally:
            sampler.close()

    def _apply_requests(self, state: FoldState, sample: Sample) -> FoldState:
        """Apply what was requested since the last tick: baselines, settings of rules."""
        while self._keeps:
            # Too few ticks are no baseline: it is kept as soon as there are enough.
            if self._keeps[0] and is_early(state.baseline):
                break
            kept = keep(state.baseline) if self._keeps.popleft() else None
            self._on_baseline(kept, sample.wall_ns, sample.monotonic_ns)
            state = comparing(state, kept)
        return replace(state, rules=self._rules)

    def _wait(self, sampler: Sampler, began_ns: int, focus: Focus, *, waited_for: bool) -> int:
        """Wait for the deadline of the next tick, or until `stop`; returns the deadline.

        A new interval or focus moves it. Multiplexing sources get the last tenth of the tick,
        unless that has passed; afterwards the deadline can only move forward.
        """
        turned_until_ns: int | None = None
        while True:
            self._news.clear()
            if self._stopped:
                return began_ns
            pause_s = self._interval_s
            if self._soon_s is not None and (waited_for or self._focus.counts != focus.counts):
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
        """Wait until then or for news; False if that time has passed."""
        ahead_ns = at_ns - self._clock.monotonic_ns()
        if ahead_ns > 0:
            self._clock.wait(self._news, ahead_ns / 1e9)
        return ahead_ns > 0

    def _focus_sources(self, focus: Focus, before: Focus) -> None:
        """Called between two ticks, so never during a reading of an inline source."""
        core = (focus.core, focus.node) != (before.core, before.node)
        culprits = (focus.culprits, focus.memory) != (before.culprits, before.memory)
        for source in self._sources:
            # Comparisons first: isinstance with a protocol is slow.
            if core and isinstance(source, Focusing):
                source.focus(focus.core, focus.node)
            if focus.processes != before.processes and isinstance(source, ProcessFocusing):
                source.focus_processes(focus.processes)
            if culprits and isinstance(source, CulpritFocusing):
                source.focus_culprits(focus.culprits, focus.memory)
            if focus.traffic != before.traffic and isinstance(source, Detailing):
                source.detail(wanted=focus.traffic)
            if focus.counters != before.counters and isinstance(source, CounterFocusing):
                source.everything(wanted=focus.counters)

    def _next_deadline_ns(self, began_ns: int, interval_s: float) -> int:
        step_ns = int(interval_s * 1e9)
        missed = max((self._clock.monotonic_ns() - began_ns) // step_ns, 0)
        return began_ns + (missed + 1) * step_ns
