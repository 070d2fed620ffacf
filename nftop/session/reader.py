"""A recording as frames: folded with the code that folds live samples. `replay` paces it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from nftop.derive.compare.baseline import keep as kept_now
from nftop.derive.cpu_filter import only_cpus
from nftop.derive.findings.engine import FINDINGS, EarlierFindings, FindingState
from nftop.derive.fold import FoldState, comparing, step
from nftop.model.baseline import Baselines
from nftop.model.frame import Frame
from nftop.model.recording_loss import RecordingLoss
from nftop.model.rule_settings import RuleSettings
from nftop.model.struct import dataclass, replace
from nftop.session.feed import FeedError
from nftop.session.markers import finding_begins, noted_begin
from nftop.store.format.records import BASELINE, Header, Marker, Tick, baselines_of
from nftop.store.reading.bytes import Readable
from nftop.store.reading.scan import Scan, ScanItem, add_loss
from nftop.store.reading.seek import SeekPosition, last_before
from nftop.uarch.table import GENERIC, load, names

# A jump folds at least so much of what came before, for what needs more than one tick: counter
# groups that take turns, shares of them, baselines.
WARM_UP_NS = 10_000_000_000
# What ended is shown for two minutes, and values before an incident are of the minute before it:
# where findings began not long before, a first position folds so much, and a report more.
START_NS, REPORT_NS = 210_000_000_000, 960_000_000_000
_BEFORE_NS, _RECENT_NS = 60_000_000_000, 900_000_000_000
# A jump on screen folds so much where findings began in its last half minute, if that takes about
# a second: of so few CPUs, with ticks so far apart.
_SEEK_NS, _FEW_CPUS, _APART_NS = 90_000_000_000, 128, 900_000_000
# Frames that are kept to step back to: folding them anew would start without their past; fewer
# where they take more than so many bytes, as far as that is known.
_KEPT, _KEPT_BYTES = 120, 128 << 20
_FRAME_BYTES_PER_CPU = 1500  # measured, 512 CPUs with every source
_MANY_REMARKS, _MANY_FINDINGS = 64, 2000
_GOES_BACK = "time goes back here: what follows is another session, and numbers start anew"
_ANOTHER = "another recording begins here, and numbers start anew"


class NoRecordingError(FeedError):
    """What is to be replayed is no recording; the text says why."""


class NoMomentError(FeedError):
    """It is a recording, and not of the time that was asked for; the text says why."""


@dataclass(frozen=True, slots=True)
class ReplayedTick:
    """One tick of a recording, folded.

    Attributes:
        warmed: since a jump, how many ticks were folded before it; None without one.
        remarks: markers and losses between the tick before and this one, the last of many.
        size_bytes: about how much memory it takes.
    """

    number: int
    wall_ns: int
    monotonic_ns: int
    interval_ns: int
    frame: Frame
    warmed: int | None
    remarks: tuple[str, ...]
    size_bytes: int = 0


class Tape:
    """Frames of a recording, forward and by jumps. Not thread-safe.

    Attributes:
        header: the last one read; None before the first.
        on_frame: as in `__init__`.
    """

    def __init__(
        self,
        data: Readable,
        *,
        on_frame: Callable[[Frame], None] | None = None,
        on_loss: Callable[[RecordingLoss], None] | None = None,
        on_marker: Callable[[Marker], None] | None = None,
        goes_back: bool = False,
        state_at: Callable[[int], FoldState | None] | None = None,
    ) -> None:
        """Without `goes_back` no more than two frames are kept.

        `on_frame` gets every folded frame, those of a jump's warm-up too. `state_at` returns the
        fold's state before the first sample after the seek point at an address. With a complete
        state a jump needs no warm-up; a state without a sample has only what outlasts a warm-up.
        """
        self.header: Header | None = None
        self._data = data
        self.on_frame = on_frame or (lambda _: None)
        self._on_loss = on_loss or (lambda _: None)
        self._on_marker = on_marker or (lambda _: None)
        self._scan = Scan(data)
        self._state: FoldState | None = None
        self.rules: RuleSettings | None = None  # from the next tick on; None: those of the state
        self._state_at = state_at or (lambda _: None)
        self._resumed: FoldState | None = None
        self._earlier: EarlierFindings | None = None
        self._began_ns: int | None = None
        self._next: Tick | None = None
        self._ahead: deque[ScanItem] = deque()  # what was read behind `_next`
        self._remarks: deque[str] = deque(maxlen=_MANY_REMARKS)
        self._newest_loss = ""  # since the newest tick
        self._lost: list[RecordingLoss] = []
        self._warmed: int | None = None
        # What the recording compares with, and what the viewer does instead, if anything.
        self._recorded: Baselines | None = None
        self._own: Baselines | None = None
        self._kept: deque[ReplayedTick] = deque(maxlen=_KEPT if goes_back else 2)
        self._back = 0
        self._newest_ns: int | None = None

    @property
    def ended(self) -> bool:
        """The recording was finished, and all of it read."""
        return self._scan.ended

    def tail_loss(self) -> RecordingLoss | None:
        """Damage at the end of the data, once all was read; None if none."""
        return self._scan.tail_loss()

    def unfinished(self) -> str:
        """Message that the recording has no end, once all was read; else ""."""
        tail_loss = self.tail_loss()
        off = tail_loss is None or not tail_loss.size_bytes or not tail_loss.damage
        if self.ended or not off or self._newest_ns is None:
            return ""
        last = datetime.fromtimestamp(self._newest_ns // 10**9, UTC)
        return f"the recording was not finished: what came after {last:%H:%M:%S} is not known"

    def end_message(self, *, over: bool, long: bool) -> str:
        """Message on how the data end, when no further tick is available; "" if none is needed.

        Until `over`, an incomplete tick may still be written and the end may still follow; after a
        `long` wait the recording counts as unfinished.
        """
        tail_loss = self.tail_loss()
        message = tail_loss.sentence if tail_loss is not None and (over or tail_loss.damage) else ""
        message = message or self._newest_loss
        return message or (self.unfinished() if over or long else "")

    def upcoming(self) -> tuple[int, int] | None:
        """Monotonic time and interval of the next tick, in ns; None where there is none now."""
        if self._back:
            shown = self._kept[-self._back]
            return shown.monotonic_ns, shown.interval_ns
        tick = self._peek()
        return None if tick is None else (tick.sample.monotonic_ns, tick.sample.interval_ns)

    def forward(self) -> ReplayedTick | None:
        """The next tick; None while there is none."""
        if self._back:
            self._back -= 1
            return self._kept[-1 - self._back]
        while (tick := self._peek()) is not None:
            if (shown := self._fold(tick)) is not None:
                return shown
        return None

    def back(self) -> ReplayedTick | None:
        """The tick before, as it was shown; None where it is not kept any more."""
        if self._back + 1 >= len(self._kept):
            return None
        self._back += 1
        return self._kept[-1 - self._back]

    def on_to(self, wall_ns: int) -> ReplayedTick | None:
        """At least one tick on, to the one nearest to a later time; None where there is none."""
        reached = self.forward()
        while reached is not None and reached.wall_ns < wall_ns:
            following = self.forward()
            if following is None:
                break
            if following.wall_ns - following.interval_ns // 2 > wall_ns:
                self.back()
                break
            reached = following
        return reached

    def back_to(self, wall_ns: int) -> ReplayedTick | None:
        """At least one tick back, to the one nearest to a time; None where it is not kept."""
        reached = self.back()
        while reached is not None and reached.wall_ns - reached.interval_ns // 2 > wall_ns:
            reached = self.back()
        return reached

    def go(
        self, wall_ns: int, *, nearest: bool = False, fold_ns: int = _SEEK_NS
    ) -> tuple[ReplayedTick, ...]:
        """To the last tick at or before this time, or to the first: it, behind the one before.

        With `nearest` also to one that is half an interval later: ticks are never on the second.
        Empty where there is no tick at all. If findings began before, up to `fold_ns` are folded
        from a minute before they did.
        """
        seen = self._kept[-1] if self._kept else None
        slow = seen and (len(seen.frame.cpus) > _FEW_CPUS or seen.interval_ns < _APART_NS)
        fold_ns = 0 if slow and fold_ns == _SEEK_NS else fold_ns
        position = last_before(self._data, lambda point: point.wall_ns > wall_ns)
        if position is None:
            return ()
        state = self._state_at(position.at)
        if state is None or state.before is None:
            begins, is_whole = finding_begins(self._data, wall_ns)
            before_ns = _warm_from(wall_ns, [item[0][0] for item in begins.values()], fold_ns)
            position = last_before(self._data, lambda point: point.wall_ns > before_ns) or position
            state = self._state_at(position.at)
            self.restart(position, state)
            if self._earlier is not None:
                known = self._earlier
                self._earlier = replace(known, until_ns=wall_ns, begins=begins, is_whole=is_whole)
        else:
            self.restart(position, state)
        self.reach(wall_ns, nearest=nearest)
        return self.newest

    def begin_at(self, wall_ns: int) -> tuple[ReplayedTick, ...]:
        """To the tick nearest to this time, with what ended in the two minutes before it."""
        return self.go(wall_ns, nearest=True, fold_ns=START_NS)

    def baseline(self, *, keep: bool) -> None:
        """Compare what comes with the ticks folded so far, or again with what the recording has."""
        if self._state is not None:
            self._own = kept_now(self._state.baseline) if keep else None
            self._compare()

    def _compare(self) -> None:
        if self._state is not None:
            self._state = comparing(self._state, self._own or self._recorded)

    def restart(self, position: SeekPosition, state: FoldState | None = None) -> None:
        """Go on from a seek point, with this state or nothing of what was before it."""
        self._scan = Scan(self._data, position.at)
        self._state = self._next = None
        self._resumed = state
        self._kept.clear()
        self._back = 0
        self._remarks.clear()
        self._newest_loss = ""
        self._lost.clear()
        self._ahead.clear()
        whole = state is not None and state.before is not None
        self._warmed = 0 if position.point.number and not whole else None
        first_ns = position.point.wall_ns
        self._earlier = None
        if position.point.number and state is None:
            self._earlier = EarlierFindings(first_ns, first_ns + WARM_UP_NS)

    def reach(self, wall_ns: int, *, nearest: bool) -> bool:
        """Fold on to a tick as `go` means it; False: what there is now ends before it is passed."""
        while (tick := self._peek()) is not None:
            early_ns = tick.sample.interval_ns // 2 if nearest else 0
            if self._kept and tick.sample.wall_ns - early_ns > wall_ns:
                return True
            self._fold(tick)
        return False

    @property
    def newest(self) -> tuple[ReplayedTick, ...]:
        """The last tick that was folded since a restart, behind the one before."""
        return tuple(self._kept)[-2:]

    def _peek(self) -> Tick | None:
        while self._next is None:
            item = self._ahead.popleft() if self._ahead else self._scan.next()
            self._data.passed(self._scan.passed)
            if item is None:
                return None
            if isinstance(item, Header):
                self._begin(item)
            elif isinstance(item, Tick):
                self._next = item if self._state is not None else None
                self._check_order(item)
            elif isinstance(item, Marker):
                self._remarks.append(item.text or item.kind)
                self._on_marker(item)
                if item.kind == BASELINE:
                    self._recorded = baselines_of(item)
                    self._compare()
            elif isinstance(item, RecordingLoss):
                self._miss(item)
        return self._next

    def _miss(self, loss: RecordingLoss) -> None:
        self._newest_loss = loss.sentence
        self._remarks.append(loss.sentence)
        add_loss(self._lost, loss)
        self._on_loss(loss)

    def _check_order(self, tick: Tick) -> None:
        """Sessions can stand behind each other, the same one twice or the later one first."""
        before = None if self._state is None else self._state.before
        if before is not None and tick.sample.monotonic_ns <= before.monotonic_ns and self.header:
            self._miss(RecordingLoss(None, 0, _GOES_BACK))
            self._state = _fresh(self.header)
            self._compare()

    def _begin(self, header: Header) -> None:
        """Every minute has a header; only that of another recording, or after a jump, counts."""
        recorded, self._recorded = self._recorded, header.baselines
        if self._state is not None and header.began_ns == self._began_ns:
            # The note of a changed baseline may be lost; the header repeats it.
            if recorded != header.baselines:
                self._compare()
            return
        if self._state is not None:
            self._miss(RecordingLoss(None, 0, _ANOTHER))
        self.header, self._began_ns = header, header.began_ns
        if self._resumed is not None and self._resumed.before is not None:
            self._state, self._resumed = self._resumed, None
            if self._own is not None:
                self._compare()
            return
        if header.uarch not in names():
            self._remarks.append(f"this nftop has no table for {header.uarch}: no top-down")
        self._state = _fresh(header)
        if self._earlier is not None:
            stages = {FINDINGS.name: FindingState(earlier=self._earlier)}
            self._state, self._earlier = replace(self._state, stages=stages), None
        self._compare()

    def _fold(self, tick: Tick) -> ReplayedTick | None:
        """Fold a tick; None if its numbers are invalid, which counts as a loss."""
        if self._state is None or self.header is None:
            raise AssertionError("a tick without a header")
        before, sample, self._next = self._with_begins(self._state, tick), tick.sample, None
        try:
            before = before if self.rules is None else replace(before, rules=self.rules)
            state, frame = step(before, sample)
            if self.header.cpus is not None:
                frame = only_cpus(frame, frozenset(self.header.cpus))
        except Exception as error:  # noqa: BLE001 - the boundary: anybody may have written the file
            why = f"its numbers make no sense: {type(error).__name__}: {error}"
            self._miss(RecordingLoss(1, 0, why, senseless=True))
            return None
        self._state = state
        if self._resumed is not None:
            # Now there are rates: without them findings would have ended.
            stages = {**state.stages, **self._resumed.stages}
            self._state = replace(state, stages=stages, rules=self._resumed.rules)
            self._resumed = None
        if self._lost:
            frame = replace(frame, lost=tuple(self._lost))
            self._lost.clear()
        shown = ReplayedTick(
            tick.number,
            sample.wall_ns,
            sample.monotonic_ns,
            sample.interval_ns,
            frame,
            self._warmed,
            tuple(self._remarks),
            tick.fresh_bytes + len(frame.cpus) * _FRAME_BYTES_PER_CPU,
        )
        self._remarks.clear()
        self._newest_loss = ""
        if self._warmed is not None:
            self._warmed += 1
        self._keep(shown)
        self._newest_ns = sample.wall_ns
        self.on_frame(frame)
        return shown

    def _with_begins(self, state: FoldState, tick: Tick) -> FoldState:
        """The state before a tick, with the begins of findings that are noted right behind it.

        What the first tick of a recording meets may have begun before if the session had.
        """
        noted: dict[tuple[str, str], tuple[int, int]] = {}
        while not self._ahead or noted_begin(self._ahead[-1]) is not None:
            if (item := self._scan.next()) is None:
                break
            self._ahead.append(item)
            noted |= filter(None, [noted_begin(item)])
        stage = state.stages.get(FINDINGS.name)
        known = stage if isinstance(stage, FindingState) else FindingState()
        earlier = known.earlier
        if state.before is None and tick.number and not earlier.from_ns:
            first_ns = tick.sample.wall_ns
            earlier = EarlierFindings(first_ns, first_ns + WARM_UP_NS)
        if noted:
            known_now = [*earlier.noted.items(), *noted.items()]
            earlier = replace(earlier, noted=dict(known_now[-_MANY_FINDINGS:]))
        if earlier is known.earlier:
            return state
        return replace(
            state, stages={**state.stages, FINDINGS.name: replace(known, earlier=earlier)}
        )

    def _keep(self, shown: ReplayedTick) -> None:
        self._kept.append(shown)
        total = sum(item.size_bytes for item in self._kept)
        while total > _KEPT_BYTES and len(self._kept) > 2:
            total -= self._kept.popleft().size_bytes


def _fresh(header: Header) -> FoldState:
    known = header.uarch in names()
    table = load(header.uarch if known else GENERIC).with_smt(on=header.smt)
    return FoldState(header.host, header.topology, table, header.queue_map)


def _warm_from(wall_ns: int, begins: Sequence[int], fold_ns: int) -> int:
    """Wall time from which a jump folds: from before findings that began not long before."""
    span_ns = _RECENT_NS if fold_ns >= START_NS else fold_ns - _BEFORE_NS
    near = [since_ns for since_ns in begins if wall_ns - since_ns <= span_ns]
    first_ns = max(min(near) - _BEFORE_NS, wall_ns - fold_ns) if near else wall_ns
    return min(first_ns, wall_ns - WARM_UP_NS)
