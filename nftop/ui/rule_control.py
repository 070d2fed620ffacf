"""Settings of the findings' rules, as the pages change them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from textual.app import App

from nftop.derive.findings.rule import Rule
from nftop.model.frame import Frame
from nftop.model.incident import Incident
from nftop.model.rule_settings import NO_SETTINGS, RuleSettings, setting_names
from nftop.session.feed import Feed
from nftop.ui.options import Options
from nftop.ui.screens.base import BannerScreen


class RuleControl:
    """Settings of rules in effect: given to the feed, and kept if there is a file for them.

    One for the session: frames have a setting only from the next tick on.
    """

    def __init__(
        self,
        feed: Feed,
        options: Options,
        app: Callable[[], App[None]],
        frame: Callable[[], Frame | None],
    ) -> None:
        """`frame`: the one on screen."""
        self._feed = feed
        self._past = options.past
        self._file = options.rules
        self._app = app
        self._frame = frame
        self._saving = threading.Lock()
        self.settings: RuleSettings = NO_SETTINGS if self._file is None else self._file.settings

    def set(self, settings: RuleSettings) -> str:
        """Use these settings from the next tick on; why they are not kept, or "".

        A thread writes the file; a message follows if it fails.
        """
        self.settings = settings
        self._feed.set_rules(settings)
        if self._past is not None:
            self._past.set_rules(settings)
        if self._file is None or self._file.path is None:
            return "for this session only"
        if self._file.problem:
            return f"for this session only: {self._file.problem}"
        self._app().run_worker(self._save, name="rules", thread=True, exit_on_error=False)
        return ""

    def _save(self) -> None:
        if self._file is None:
            return
        try:
            with self._saving:  # the last thread writes the newest
                self._file.save(self.settings)
        except (OSError, ValueError) as error:
            why = (error.strerror if isinstance(error, OSError) else "") or str(error)
            self._app().call_later(self._report, f"for this session only: {why}")

    def _report(self, problem: str) -> None:
        screen = self._app().screen
        if isinstance(screen, BannerScreen):
            screen.show_message(problem)

    def toggle_muted(self, incident: Incident) -> str:
        """Mute all rules that are its evidence, for its victims; or none of them. What it did."""
        names = [self.names(item.party.name) for item in incident.victims] or [()]
        # What is measured of a socket or the host is muted for all, or not at all.
        of_all = ("package", "host")
        common = {rule for rule, where in incident.findings if where.split(" ")[0] in of_all}
        rules = dict.fromkeys(rule for rule, _ in incident.findings)
        pairs = [(rule, nf) for rule in rules for nf in ([()] if rule in common else names)]
        return self._toggle(pairs) if pairs else "no rule is its evidence"

    def names(self, nf: str) -> tuple[str, ...]:
        """Names under which settings of an NF are, the most exact first."""
        frame = self._frame()
        nfs = () if frame is None else frame.nfs
        known = setting_names((item.name, item.cpus) for item in nfs)
        return known.get(nf) or (nf,)

    def row_name(self, rule: str, names: Sequence[str]) -> str:
        """The name under which a setting of an NF is kept: that of the one it has, else its own.

        "" without names: the setting is for all.
        """
        own = self.settings.first_of(rule, names).nf
        return own or (names[-1] if names else "")

    def toggle_rules(self, rules: Sequence[str], nfs: Sequence[tuple[str, ...]]) -> str:
        """Mute rules for NFs, () for all, or none of them. What it did."""
        return self._toggle([(rule, names) for rule in rules for names in nfs])

    def _toggle(self, pairs: Sequence[tuple[str, tuple[str, ...]]]) -> str:
        settings = self.settings
        muted = not all(settings.first_of(rule, names).muted for rule, names in pairs)
        for rule, names in pairs:
            settings = settings.with_muted(rule, self.row_name(rule, names), muted=muted)
        problem = self.set(settings)
        nfs = {rule: [names for one, names in pairs if one == rule] for rule, _ in pairs}
        rules: dict[str, list[str]] = {}
        for rule, of_rule in nfs.items():
            rules.setdefault(names_text(of_rule), []).append(rule)
        done = "muted" if muted else "no longer muted"
        texts = (f"{', '.join(named)} {done} for {whom}" for whom, named in rules.items())
        return "; ".join(texts) + (f" ({problem})" if problem else "")

    def set_limit(self, rule: Rule, limit: float | None, nfs: Sequence[tuple[str, ...]]) -> str:
        """Another limit of a rule for NFs, () for all; None: no other. What it did."""
        settings = self.settings
        for names in nfs:
            settings = settings.with_limit(rule.id, limit, self.row_name(rule.id, names))
        problem = self.set(settings)
        shown = "nftop's own" if limit is None else rule.printed(limit)
        done = f"limit of {rule.id} is {shown} for {names_text(nfs)}"
        return f"{done} ({problem})" if problem else done

    def toggle_acknowledged(self, incident: Incident) -> str:
        """Mark an incident as seen, or not. What it did."""
        known = incident.id in self.settings.acknowledged
        problem = self.set(self.settings.with_acknowledged(incident.id, acknowledged=not known))
        done = "not acknowledged any more" if known else "acknowledged"
        return f"{done}{f' ({problem})' if problem else ''}"


def names_text(nfs: Sequence[tuple[str, ...]]) -> str:
    return ", ".join(names[-1] for names in nfs if names) or "all"
