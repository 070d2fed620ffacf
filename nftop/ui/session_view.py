"""View state shared by the screens: frame shown, selection, order, filter, message."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial

import numpy as np

from nftop.model.change import OwnChange
from nftop.model.clock import NS_PER_S
from nftop.model.frame import Focus, Frame
from nftop.model.ids import Cpu, Package
from nftop.model.incident import Severity
from nftop.model.struct import dataclass, field, replace
from nftop.model.timeline import Strip
from nftop.model.topology import Topology
from nftop.render.base.format import duration_text
from nftop.render.base.table import LastResults
from nftop.render.cores.columns import HARM, is_column
from nftop.render.cores.harm import (
    SICK,
    RowFacts,
    RowPast,
    RowTrends,
    hidden_culprits,
    merged_culprits,
    pollers_of,
    row_facts,
    trends_of,
    values_before,
)
from nftop.render.cores.layout import Histories
from nftop.render.cores.resources import PackagePast
from nftop.render.cores.rows import (
    CpuRows,
    CpuView,
    Cursor,
    arrange,
    find,
    move,
    rows_in_view,
    settle,
)
from nftop.render.frame.header import ViewStatus, time_of_day
from nftop.render.incidents.line import has_no_values
from nftop.session.feed import Feed, PastControl, Player, TimeControl
from nftop.store.history.events import STRIP_NS, EventHistory
from nftop.store.history.rings import HistorySeries, TickHistory
from nftop.ui.key_bindings import MOST

_BEFORE_STEPS = 6  # of the minute before an incident
# Graphs before so much of the live history are drawn from the frames of the past.
_LEAST_GRAPH_NS = 60 * NS_PER_S
_SPANS_NS = (STRIP_NS, 1800 * NS_PER_S, 3600 * NS_PER_S, 2 * 3600 * NS_PER_S, 4 * 3600 * NS_PER_S)


@dataclass
class SessionView:
    """What the screens of one session share: history, cursor, filter, time shown.

    Attributes:
        ticks: history of the feed's frames.
        time: goes back and forth in time; None: neither a replay nor a past is there.
        events: what happened, for the timeline.
        past: the frame of the moment gone back to; None: the screen shows now.
        newest: the newest frame; None before the first.
        frozen: the frame of a frozen screen; None while it follows the feed.
        ended: why frames have ended, "" if requested; None while they come.
        view: filter and order of CPUs.
        rows: of the frame on screen.
        cursor: the selected CPU.
        pinned: a page or screen about the selected CPU is open: the selection stays.
        page: rows of a page.
        lines: of the table's body.
        search: text of the last search.
        recording: state of the recording, for the header.
        message: shown in the footer until the next key.
        facts: what rows of the frame have beside its columns; of `arrange`.
        written: class changes that this nftop wrote.
        until_ns: CLOCK_MONOTONIC when nftop's change of classes is reverted; None: none pending.
        columns: keys chosen by the operator, by table.
    """

    feed: Feed
    ticks: TickHistory
    time: TimeControl | None = None
    events: EventHistory = field(default_factory=EventHistory)
    past: Frame | None = None
    newest: Frame | None = None
    frozen: Frame | None = None
    ended: str | None = None
    view: CpuView = field(default_factory=CpuView)
    rows: CpuRows = field(default_factory=lambda: CpuRows(()))
    cursor: Cursor = field(default_factory=Cursor)
    pinned: bool = False
    page: int = 1
    lines: int = 1
    search: str = ""
    message: str = ""
    written: tuple[OwnChange, ...] = ()
    until_ns: int | None = None
    recording: Callable[[], str] = lambda: ""
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    facts: RowFacts = field(default_factory=RowFacts)
    _before: dict[object, Mapping[Cpu, Mapping[str, float]]] = field(default_factory=dict)

    @cached_property  # checking a protocol costs as much as a line of the screen
    def player(self) -> Player | None:
        """The feed if it is a recording's."""
        return self.feed if isinstance(self.feed, Player) else None

    @cached_property
    def past_control(self) -> PastControl | None:
        """`time` if it goes into the past of a live session."""
        return self.time if isinstance(self.time, PastControl) else None

    @property
    def own_changes(self) -> tuple[OwnChange, ...]:
        """Class changes by nftop, also of a recording; other observed changes are of others."""
        return (*self.events.own_changes(), *self.written)

    @property
    def frame(self) -> Frame | None:
        """The frame on screen."""
        return self.past or self.frozen or self.newest

    @property
    def history(self) -> TickHistory:
        """Ticks for graphs that end at the frame on screen."""
        past = None if self.past_control is None else self.past_control.history
        oldest_ns = self.ticks.oldest_ns
        if past is None or self.past is None or oldest_ns is None:
            return self.ticks
        known = self.past.monotonic_ns - oldest_ns >= _LEAST_GRAPH_NS
        return self.ticks if known else past

    @property
    def strip(self) -> Strip | None:
        """Drops and events of the last minutes, or of the whole recording; None before a frame."""
        position = self.player.position if self.player is not None else None
        if position is not None:
            span_ns = max(position.last_ns - position.first_ns, NS_PER_S)
            return self.events.strip(
                position.last_ns, span_ns=span_ns, cursor_ns=position.at_ns, whole=True
            )
        if self.newest is None:
            return None
        now_ns = self.newest.wall_ns
        if self.past is None:
            return self.events.strip(now_ns)
        age_ns = now_ns - self.past.wall_ns
        span_ns = next((span for span in _SPANS_NS if age_ns < span), _SPANS_NS[-1])
        return self.events.strip(now_ns, span_ns=span_ns, cursor_ns=self.past.wall_ns)

    @property
    def row(self) -> int | None:
        """Selected row of the frame's CPUs; None if none is shown."""
        return self.rows.shown[self.cursor.index] if self.rows.shown else None

    @property
    def cpu(self) -> Cpu | None:
        """Selected CPU; None if none is shown."""
        if self.frame is None or self.row is None:
            return None
        return self.frame.cpus.topology.cpus[self.row].cpu

    @property
    def status(self) -> ViewStatus:
        """Status for the header."""
        notice = "" if self.newest is None else self.newest.notice
        if self.ended is not None:
            status = ViewStatus(
                "STOPPED" if self.ended else "ENDED", None, self.ended, notice=notice
            )
        elif self.past is not None and self.newest is not None:
            age = duration_text((self.newest.wall_ns - self.past.wall_ns) / NS_PER_S)
            status = ViewStatus(f"○ PAST {age} ago", notice=notice)
        elif self.player is not None:
            position = self.player.position
            mode = "REMOTE" if position is not None and position.remote else "REPLAY"
            status = ViewStatus(mode, self.player.interval_s, notice=notice)
        elif self.frozen is not None:
            status = ViewStatus(f"PAUSED at {time_of_day(self.frozen)}", notice=notice)
        else:
            status = ViewStatus("LIVE", self.feed.interval_s, notice=notice)
        position = None if self.time is None else self.time.position
        now_ns = None
        if self.player is None:
            position = None if self.past is None else position
            now_ns = None if position is None or self.newest is None else self.newest.wall_ns
        return replace(
            status, position=position, now_ns=now_ns, recording=self.recording(), strip=self.strip
        )

    def arrange(self, *, merged: bool = False) -> None:
        """Compute the rows of the frame; call it before drawing CPUs.

        `merged`: all CPUs of a culprit are one row.
        """
        frame = self.frame
        if frame is None:
            return
        self.facts, self.rows = self.rows_of(frame, merged=merged)

    def rows_of(self, frame: Frame, *, merged: bool) -> tuple[RowFacts, CpuRows]:
        """Facts and rows of any frame."""
        merged = merged and self.view.folded and not self.view.filter
        return self._arranged(frame, self.view, merged, self.facts_of(frame))

    @cached_property
    def _arranged(self) -> LastResults[[Frame, CpuView, bool, RowFacts], tuple[RowFacts, CpuRows]]:
        return LastResults(_arranged)

    @cached_property
    def facts_of(self) -> LastResults[[Frame], RowFacts]:
        """Facts of any frame, before rows are merged."""

        def facts(frame: Frame) -> RowFacts:
            return row_facts(frame, self._trends(frame), self._values_before(frame))

        return LastResults(facts)

    @property
    def sick(self) -> tuple[int, int] | None:
        """Pollers of the frame that are harmed, and all of them; None without any, or any value."""
        return None if self.frame is None else self._sick(self.frame)

    @cached_property
    def _sick(self) -> LastResults[[Frame], tuple[int, int] | None]:
        def sick(frame: Frame) -> tuple[int, int] | None:
            if has_no_values(frame):
                return None
            rows = pollers_of(frame.cpus).rows
            if not len(rows):
                return None
            harm = self.facts_of(frame).harm
            return (0 if harm is None else int((harm[rows] >= SICK).sum())), len(rows)

        return LastResults(sick)

    def _values_before(self, frame: Frame) -> dict[Cpu, Mapping[str, float]]:
        """Values of victims' CPUs before their incident; the history has them once for each."""
        known, self._before = self._before, {}
        values: dict[Cpu, Mapping[str, float]] = {}
        for item in frame.incidents:
            if item.severity is Severity.INFO:
                continue
            cpus = tuple(dict.fromkeys(cpu for one in item.victims for cpu in one.party.cpus))
            key = item.id, item.began_ns, cpus
            if (own := known.get(key)) is None:
                own = values_before(cpus, partial(self._median_before, item.began_ns - NS_PER_S))
            self._before[key] = own
            values = {**own, **values}  # the worst incident comes first
        return values

    def _median_before(
        self, until_ns: int, metric: str, cpus: Sequence[Cpu], span_s: float
    ) -> HistorySeries:
        values = self.history.cpu_matrix(metric, cpus, _BEFORE_STEPS, span_s, until_ns)
        ordered = np.sort(values, axis=1)  # NaN last
        middle = np.maximum(np.isfinite(values).sum(axis=1) - 1, 0) // 2
        medians: HistorySeries = ordered[np.arange(len(cpus)), middle]
        return medians

    def histories(self, frame: Frame) -> Histories:
        """Histories up to a frame, for graphs."""
        trends = self.facts_of(frame).trends
        return self._histories(frame, self.history, trends, self.view.sort)

    @cached_property
    def _histories(self) -> LastResults[[Frame, TickHistory, RowTrends, str], Histories]:
        def histories(frame: Frame, _: TickHistory, trends: RowTrends, sort: str) -> Histories:
            nfs, packages = self._nf_past(frame, steady=True), self._package_past(frame)
            return Histories(trends, nfs, packages, sort)

        return LastResults(histories)

    def _trends(self, frame: Frame) -> RowTrends:
        """Histories of rows up to a frame."""
        history, until_ns = self.history, frame.monotonic_ns

        def cpu_past(metric: str, cpus: Sequence[Cpu], points: int, span_s: float) -> HistorySeries:
            return history.cpu_matrix(metric, cpus, points, span_s, until_ns)

        return trends_of(frame, cpu_past, self._nf_past(frame))

    def _nf_past(self, frame: Frame, *, steady: bool = False) -> RowPast:
        """`steady`: graphs of many parts end with the last whole one, and stay until the next."""
        history, now_ns = self.history, frame.monotonic_ns

        def past(metric: str, keys: Sequence[str], points: int, span_s: float) -> HistorySeries:
            until_ns = _whole(now_ns, points, span_s) if steady else now_ns
            return history.nf_matrix(metric, keys, points, span_s, until_ns)

        return past

    def _package_past(self, frame: Frame) -> PackagePast:
        history, now_ns = self.history, frame.monotonic_ns

        def past(metric: str, package: Package, points: int, span_s: float) -> HistorySeries:
            until_ns = _whole(now_ns, points, span_s)
            return history.package_series(metric, package, points, span_s, until_ns)

        return past

    def settle(self, page: int, *, pinned: bool = False) -> None:
        """Keep the cursor valid for the rows, in a body of `page` lines.

        By harm, the culprits are among the first rows.

        `pinned`: the screen is about the selected CPU.
        """
        if self.frame is not None:
            self.lines = max(1, page)
            self.page = rows_in_view(self.rows, self.lines)
            if self.view.sort == HARM and not self.view.inverted and self.facts.culprits:
                hidden = hidden_culprits(self.frame, self.rows.shown, self.page)
                self.rows = self.rows.lifted(hidden, self.page) if hidden else self.rows
            self.cursor = settle(
                self.cursor, self.frame.cpus, self.rows, self.lines, pinned=pinned or self.pinned
            )

    def move(self, by: int) -> None:
        """Move the cursor down by so many rows; the key for the first row ends the selection."""
        if self.frame is not None:
            self.message = ""
            self.cursor = move(self.cursor, by, self.frame.cpus, self.rows, self.lines)
            if by <= -MOST:
                self.cursor = replace(self.cursor, held=False)

    def change_view(self, **changes: object) -> None:
        """Change the view."""
        self.view = replace(self.view, **changes)  # type: ignore[arg-type]
        self.message = ""

    def cycle_sort(self, step: int, keys: Sequence[str]) -> None:
        """Sort by the next or previous of these columns."""
        if not keys:
            return
        at = keys.index(self.view.sort) if self.view.sort in keys else -step
        self.change_view(sort=keys[(at + step) % len(keys)], inverted=False)

    def can_sort(self, key: str) -> bool:
        """Whether the table of CPUs has a column with this key."""
        return is_column(key)

    def pause(self) -> None:
        """Freeze the screen, or follow the feed again. In the past, go on from there or stop."""
        if self.past is not None and self.time is not None:
            self.time.pause()
            return
        self.frozen = self.newest if self.frozen is None else None

    def to_now(self) -> bool:
        """Leave the past; whether the screen showed it."""
        if self.past_control is None or not self.past_control.active:
            return False
        self.past_control.to_now()
        self.past = self.frozen = None
        return True

    def find(self, step: int) -> None:
        """Select the next row that matches the search; a message if there is none."""
        if self.frame is None:
            return
        if not self.search:
            self.message = "no search yet: / finds a thread, an NF or a CPU"
            return
        by = find(self.cursor, self.search, step, self.frame.cpus, self.rows)
        if by is not None:
            self.move(by)
            return
        hidden = ", i shows all CPUs" if self.rows.folded else ""
        self.message = f"not found: {self.search}{hidden}"


def _arranged(
    frame: Frame,
    view: CpuView,
    merged: bool,  # noqa: FBT001 - of `LastResults`
    facts: RowFacts,
) -> tuple[RowFacts, CpuRows]:
    """Facts and rows of a frame; the first CPU of a culprit stands for all of its CPUs."""
    rows = arrange(frame.cpus, view, facts.harm)
    facts = replace(facts, merged=merged_culprits(frame) if merged else {})
    row_of = frame.cpus.topology.row_of
    others = (cpu for cpus in facts.merged.values() for cpu in cpus[1:])
    return facts, rows.without({row_of[cpu] for cpu in others})


def _whole(now_ns: int, points: int, span_s: float) -> int:
    """End of the last whole part of a graph of many parts; of one with few parts now."""
    if points < _MANY_STEPS:
        return now_ns
    step_ns = max(1, round(span_s * NS_PER_S / points))
    return now_ns // step_ns * step_ns


# Parts of a graph from which one is short.
_MANY_STEPS = 60


def focus_request(now: Focus, wanted: Focus, topology: Topology, *, stays: bool) -> Focus:
    """What to count next: `now` is counted, the view requests `wanted`.

    A frozen screen (`stays`) starts nothing new, since it could not show it; what the view no
    longer requests ends, since counting costs the CPUs.
    """
    # Threads of a core are counted together: going from one to the other changes nothing.
    core = topology.with_siblings(() if now.core is None else (now.core,))
    if wanted.core is not None and (stays or wanted.core in core):
        wanted = replace(wanted, core=now.core)
    if stays:
        wanted = replace(
            wanted,
            traffic=wanted.traffic and now.traffic,
            processes=now.processes,
            counters=wanted.counters and now.counters,
        )
    return wanted
