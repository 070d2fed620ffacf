"""Pages of an incident, with what would mend it, and of the findings, with the rules' settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

import numpy as np
from textual.binding import BindingType

from nftop.control.resctrl.remedy import remedy, remedy_inputs
from nftop.derive.findings.registry import rule_called
from nftop.derive.findings.rule import Rule
from nftop.model.clock import NS_PER_S
from nftop.model.frame import Finding, Frame
from nftop.model.incident import Incident, Severity
from nftop.model.median import median
from nftop.model.remedy import Remedy
from nftop.model.struct import replace
from nftop.model.subject import Subject
from nftop.render.base.line import Line, Tone
from nftop.render.base.text import printable
from nftop.render.cores.layout import page_head
from nftop.render.frame.findings import finding_page_lines
from nftop.render.incidents.line import incident_text
from nftop.render.incidents.page import (
    IncidentView,
    absent_incident_lines,
    incident_page_lines,
    no_incident_lines,
)
from nftop.render.incidents.trend import VictimTrend, trend_of_trace, trend_points
from nftop.store.history.rings import SENT
from nftop.ui.change_control import ChangeControl
from nftop.ui.key_bindings import FINDINGS, INCIDENT, KeyRow, Mode, bindings
from nftop.ui.messages import WrongAnswerError
from nftop.ui.options import Options
from nftop.ui.rule_control import RuleControl, names_text
from nftop.ui.screens.base import BannerScreen
from nftop.ui.screens.editor_opener import EditorOpener
from nftop.ui.screens.page import PageScreen, PageText
from nftop.ui.screens.registry import screen_keys
from nftop.ui.session_view import SessionView
from nftop.ui.widgets.lines import Lines

_TREND_S, _BEFORE_S = 300.0, 60.0
# Before and after an incident that ended, at least.
_LEAST_MARGIN_S = 30.0
_RECEIVED = "packets_per_s"


class IncidentScreen(BannerScreen[int | None]):
    """One incident of the frame on screen; a screen's key closes it with the screen's index."""

    follows = True
    BINDINGS: ClassVar[list[BindingType]] = bindings(INCIDENT)
    PANEL: ClassVar[str] = "incident"
    HAS_PROMPT: ClassVar[bool] = True

    def __init__(
        self,
        session: SessionView,
        options: Options,
        changes: ChangeControl,
        rules: RuleControl,
        opener: EditorOpener,
        *,
        chosen: str = "",
    ) -> None:
        """`chosen`: an id."""
        super().__init__()
        self.bind_keys(screen_keys())
        self.changes = changes
        self._session = session
        self._options = options
        self._opener = opener
        self._rules = rules
        self._chosen = chosen
        self._last: Incident | None = None  # the one on the page, as it was shown last
        self._opened_now = session.past is None
        self._planned: tuple[object, Remedy] | None = None  # with what it was computed from
        self._remedy_modes: frozenset[Mode] = frozenset()
        self._acts: Mapping[str, Callable[[int], object]] = {
            "close": lambda _: self._close(),
            "screen": self.dismiss,
            "help": lambda _: self.open_help("incident", self._options),
            "incident": self._next,
            "edit": lambda _: self._open_draft(),
            "sweep": lambda _: self._open_sweep(),
            "copy": lambda _: self._copy(),
            "mute": lambda _: self._set(self._rules.toggle_muted),
            "acknowledge": lambda _: self._set(self._rules.toggle_acknowledged),
            "move": self._scroll,
            "page": lambda by: self._scroll(by * max(1, self.size.height - 3)),
        }

    def on_mouse_scroll_down(self) -> None:
        self._scroll(3)
        self.paint()

    def on_mouse_scroll_up(self) -> None:
        self._scroll(-3)
        self.paint()

    @property
    def key_rows(self) -> tuple[KeyRow, ...]:
        return (*screen_keys(), *INCIDENT)

    @property
    def modes(self) -> set[Mode]:
        return super().modes | self._remedy_modes

    def action_act(self, action: str, by: int) -> None:
        self._message = ""
        self._acts[action](by)
        self.paint()

    def paint(self) -> None:
        taken = self.show_banner()
        if taken is None:
            return
        width, height = self.size.width, max(0, self.size.height - 1 - taken)
        frame, head = self._session.frame, list[Line]()
        if frame is not None:
            past = self._session.past is not None
            unlocked = self._options.rw and self.changes.gate is not None and not past
            head = page_head(frame, replace(self._session.status, unlocked=unlocked), width, height)
        room = height - len(head)
        lines = self._lines(width, room)
        shown, position = self.in_view(lines, room)
        self.query_one("#incident", Lines).show([*head, *shown], height)
        self.show_footer(position=position, message=self._message)

    @property
    def incident(self) -> Incident | None:
        """The incident of the page as the frame has it; None if that has it not, or none at all.

        Until one has been shown it is the chosen one, else the worst.
        """
        listed, last = incidents_of(self._session.frame), self._last
        chosen = next((item for item in listed if item.id == self._chosen), None)
        if chosen is None and last is not None:
            # A moment that was computed again may have it under another id.
            return next((item for item in listed if _is_same(item, last)), None)
        return chosen or next(iter(listed), None)

    def _lines(self, width: int, height: int) -> list[Line]:
        frame, incident = self._session.frame, self.incident
        if frame is None or incident is None:
            self._remedy_modes = frozenset()
            if frame is None or self._last is None:
                return no_incident_lines(frame, width)
            return absent_incident_lines(frame, self._last, width)
        plan = self._remedy(frame, incident)
        modes: dict[Mode, object] = {
            "incident": True,
            "draft": plan.kind == "draft",
            "mask": plan.sweep,
        }
        self._remedy_modes = frozenset(mode for mode, holds in modes.items() if holds)
        self._chosen, self._last = incident.id, incident
        mask, other = plan.mask, self.changes.experiment.other_width
        listed = [item.id for item in incidents_of(frame)]
        view = IncidentView(
            frame,
            incident,
            plan,
            listed.index(incident.id) + 1,
            len(listed),
            self._trend(frame, incident, trend_points(width)),
            self._class_before(incident),
            ascii_only=self._options.ascii_only,
            swept="" if mask is None else other(mask.group, mask.l3, mask.new),
        )
        return incident_page_lines(view, width, height)

    def _remedy(self, frame: Frame, incident: Incident) -> Remedy:
        """As computed last while nothing that it depends on has changed."""
        inputs = remedy_inputs(incident, frame)
        if self._planned is None or self._planned[0] != inputs:
            self._planned = inputs, remedy(incident, frame)
        return self._planned[1]

    def _trend(self, frame: Frame, incident: Incident, points: int) -> VictimTrend | None:
        """Packets of the first victim, around the incident if it ended; None if unknown."""
        party = incident.victims[0].party if incident.victims else None
        if party is None or not party.key:
            return None
        trace = next((item for item in incident.traces if item.key == party.key), None)
        if trace is not None and self._begin_has_left(frame, incident):
            return trend_of_trace(party.name, trace, points)
        age_ns, span_s = 0, _TREND_S
        if incident.ended_ns is not None:
            margin_s = max(_LEAST_MARGIN_S, incident.lasted_s(frame.monotonic_ns) / 4)
            age_ns = max(frame.monotonic_ns - incident.ended_ns - round(margin_s * 1e9), 0)
            begin_ns = incident.began_ns - round(margin_s * 1e9)
            span_s = (frame.monotonic_ns - age_ns - begin_ns) / 1e9
        history, until_ns = self._session.history, frame.monotonic_ns - age_ns
        # No more parts than ticks, else there are gaps between them.
        steps = min(points, max(2, int(span_s / self._session.feed.interval_s)))
        for metric in (SENT, _RECEIVED):
            values = history.nf_matrix(metric, [party.key], steps, span_s, until_ns)[0]
            values = values[np.arange(points) * steps // points]
            if np.isfinite(values).any():
                # By the clock at its begin, which is marked in the graph.
                first_ns = until_ns - round(span_s * 1e9) - incident.began_ns + incident.since_ns
                return VictimTrend(party.name, values, span_s, first_ns, sent=metric == SENT)
        return None

    def _class_before(self, incident: Incident) -> dict[str, float]:
        """Occupancy and traffic of the culprit's class in the minute before its incident."""
        if incident.l3 is None or not incident.group or incident.until_ns is not None:
            return {}
        key, until_ns = (incident.group, incident.l3), incident.began_ns - NS_PER_S
        result = {}
        for metric in ("occupancy_bytes", "mbm_total_bytes_per_s"):
            values = self._session.history.class_series(metric, key, 6, _BEFORE_S, until_ns)
            known = values[np.isfinite(values)]
            if len(known):
                result[metric] = median(known)
        return result

    def _begin_has_left(self, frame: Frame, incident: Incident) -> bool:
        """Whether a graph of the history would not have its begin any more."""
        age_ns = frame.monotonic_ns - incident.began_ns + round(_LEAST_MARGIN_S * 1e9)
        oldest_ns = self._session.history.oldest_ns
        kept_ns = 0 if oldest_ns is None else frame.monotonic_ns - oldest_ns
        is_open = incident.until_ns is None
        return age_ns > (min(kept_ns, round(_TREND_S * 1e9)) if is_open else kept_ns)

    def _next(self, by: int) -> None:
        listed, shown = incidents_of(self._session.frame), self.incident
        if not listed:
            return
        # From one that the frame has not, the next one is the worst.
        at = min(by, 0) if shown is None else listed.index(shown) + by
        self._last = listed[at % len(listed)]
        self._chosen = self._last.id
        self._top = 0

    def _close(self) -> None:
        """Undo the way back in time that was made on this page, else return to the screen below."""
        if not (self._opened_now and self._session.to_now()):
            self.dismiss()

    def _open_draft(self) -> None:
        frame, incident = self._session.frame, self.incident
        if frame is None or incident is None:
            self._message = "no incident is shown"
            return
        plan = self._remedy(frame, incident)
        if plan.kind != "draft":
            what = "C copies the command" if plan.commands else plan.advice
            self._message = f"no change of cache classes mends it; {what}"
            return
        self._message = self._opener.drafted(plan, incident)

    def _open_sweep(self) -> None:
        frame, incident = self._session.frame, self.incident
        if frame is None or incident is None or not self._remedy(frame, incident).sweep:
            self._message = "no width of a mask is to be found for it"
        else:
            self._message = self._opener.sweep(incident.group, incident.l3)

    def _copy(self) -> None:
        frame, incident = self._session.frame, self.incident
        if frame is None or incident is None:
            self._message = "there is no incident to copy"
            return
        commands = self._remedy(frame, incident).commands
        # A comment, so that all of it can be pasted into a shell.
        text = f"# {printable(incident_text(incident))}"
        what = {0: "incident", 1: "incident and command"}
        self.copy((text, *commands), what.get(len(commands), "incident and commands"))

    def _set(self, change: Callable[[Incident], str]) -> None:
        incident = self.incident
        self._message = "no incident is shown" if incident is None else change(incident)

    def _scroll(self, lines: int) -> None:
        self._top += lines


class FindingsScreen(PageScreen, inherit_bindings=False):
    """All findings, with a cursor; mutes their rules and sets limits, for an NF or for all."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(FINDINGS)
    KEYS: ClassVar[tuple[KeyRow, ...]] = FINDINGS
    TABLE: ClassVar[str] = "findings"

    def __init__(
        self, session: SessionView, options: Options, changes: ChangeControl, rules: RuleControl
    ) -> None:
        self._session = session
        self._rules = rules
        self._chosen: tuple[str, Subject] | None = None
        self._limited: tuple[Rule, tuple[tuple[str, ...], ...]] | None = (
            None  # what the prompt is about
        )
        super().__init__(self._page, options, changes, toggle="F")

    def action_act(self, action: str, by: int) -> None:
        self._message = ""
        if action == "choose":
            self._choose(by)
        elif action == "mute":
            self._toggle_rule(for_all=by > 0)
        elif action == "ask_limit":
            self._ask_limit(for_all=by > 0)
        else:
            super().action_act(action, by)

    def answer(self, about: str, text: str) -> None:
        if about != "limit":
            super().answer(about, text)
        elif self._limited is not None:
            rule, names = self._limited
            try:
                limit = rule.parsed(text) if text else None
            except ValueError as error:
                raise WrongAnswerError(f"no limit: {printable(str(error))}") from error
            self._message = self._rules.set_limit(rule, limit, names)

    @property
    def finding(self) -> Finding | None:
        """The finding under the cursor; the first one if the chosen one is over."""
        listed = self._listed
        chosen = (item for item in listed if (item.rule, item.subject) == self._chosen)
        return next(chosen, None) or next(iter(listed), None)

    @property
    def _listed(self) -> Sequence[Finding]:
        frame = self._session.frame
        return () if frame is None else frame.findings

    def _page(self) -> PageText | None:
        frame = self._session.frame
        if frame is None:
            return None
        settings, finding = self._rules.settings, self.finding
        return partial(finding_page_lines, frame, settings=settings, chosen=finding)

    def _choose(self, by: int) -> None:
        listed, finding = list(self._listed), self.finding
        if finding is None:
            self._scroll(by)
            return
        # Of two equal ones the position counts.
        at = next(index for index, item in enumerate(listed) if item is finding)
        chosen = listed[max(0, min(at + by, len(listed) - 1))]
        self._chosen = chosen.rule, chosen.subject
        self.paint()
        lines = self._text(self.text_width)
        rows = [index for index, item in enumerate(lines) if item.fill is Tone.SELECTION]
        height = max(1, self.size.height - 2)
        if rows:  # below its rule's title
            self._top = max(min(self._top, rows[0] - 1), rows[-1] + 1 - height, 0)
        self.paint()

    def _toggle_rule(self, *, for_all: bool) -> None:
        finding = self.finding
        if finding is not None:
            names = self._names(finding, for_all=for_all)
            self._message = self._rules.toggle_rules([finding.rule], names)
        self.paint()

    def _ask_limit(self, *, for_all: bool) -> None:
        finding = self.finding
        rule = None if finding is None else rule_called(finding.rule)
        if finding is None or rule is None or rule.when:
            why = "no finding is selected" if finding is None else "its rule has no limit"
            self.show_message(why)
            return
        names = self._names(finding, for_all=for_all)
        self._limited = rule, names
        own = self._rules.settings.first_of(rule.id, names[0]).limit
        now = rule.limit if own is None else own
        subject = names_text(names)
        default = f"empty: {rule.printed(rule.limit)}"
        label = f"limit of {rule.id} for {subject}, now {rule.printed(now)} ({default})"
        self.ask("limit", label)

    def _names(self, finding: Finding, *, for_all: bool) -> tuple[tuple[str, ...], ...]:
        """Names of the NFs that a finding is about; () for all."""
        subject, frame = finding.subject, self._session.frame
        if for_all or frame is None:
            return ((),)
        if subject.kind == "nf":
            return (self._rules.names(subject.name),)
        own = [nf.name for nf in frame.nfs if not set(subject.cpus).isdisjoint(nf.cpus)]
        return tuple(self._rules.names(name) for name in own) or ((),)


def _is_same(item: Incident, last: Incident) -> bool:
    """Whether two incidents have the same cause and overlap in time."""
    names = [None if one.culprit is None else one.culprit.name for one in (item, last)]
    victims = [{victim.party.key for victim in one.victims} for one in (item, last)]
    overlap = item.since_ns <= (last.until_ns or item.since_ns) and last.since_ns <= (
        item.until_ns or last.since_ns
    )
    alike = item.kind == last.kind and names[0] == names[1]
    return alike and overlap and (names[0] is not None or not victims[0].isdisjoint(victims[1]))


def incidents_of(frame: Frame | None) -> Sequence[Incident]:
    """Incidents of a frame in the order of the page: open ones, then those that ended."""
    if frame is None:
        return ()
    harm = [item for item in frame.incidents if item.severity > Severity.INFO and not item.muted]
    others = [item for item in frame.incidents if item not in harm]
    return (*harm, *frame.past_incidents, *others)
