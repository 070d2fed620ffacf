"""Model of the class editor, without its screen: draft, selection, message."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

from nftop.control.profile.profile import Listing
from nftop.control.profile.validate import fit
from nftop.control.rdt_limits import Rules
from nftop.control.resctrl import draft as drafts
from nftop.control.resctrl.draft import Draft, DraftStep, drifted, read_since_ns, rebased
from nftop.control.wording import differences
from nftop.derive.cache.ways import has_filled
from nftop.model.change import IO_GROUP, Change, ClassAction, Proposal, State
from nftop.model.frame import Frame
from nftop.model.ids import parse_cpu_list
from nftop.model.keep_timeout import KEEP_WITHIN_S
from nftop.model.rdt.rdt import IO_ORIGINS, MB, ROOT, cache_of_line
from nftop.model.struct import replace
from nftop.render.editor.model import (
    EditorState,
    LineRule,
    MaskRow,
    MaskSelection,
    caches_of,
    domains_of,
    lines_of,
    rows_of,
)

_RELOAD = "r takes it over"
_AGAIN = "what was taken back is in the draft again: z drops it"
# Outcome of an applied draft: pending, kept, or reverted.
AppliedOutcome: TypeAlias = Literal["open", "kept", "back"]


class EditorModel:
    """Draft and selection of the class editor.

    Attributes:
        draft: requested state.
        selection: class, mask and way.
        message: shown until the next key.
        applied: the applied draft until it is kept; if it is reverted it is drafted again.
        acts: key actions, called with a distance.
        answers: handlers of prompts, by subject.
    """

    def __init__(
        self,
        base: State,
        rules: Rules,
        where: str,
        program: str,
        *,
        read_at_ns: int,
        group: str = ROOT,
        l3: int | None = None,
        profiles: Mapping[str, Listing] | None = None,
    ) -> None:
        """Begin with an empty draft.

        `where`: resctrl's mount. `program`: first words of command lines for this host.
        `group`, `l3`: selected class and cache. `read_at_ns`: CLOCK_MONOTONIC of `base`.
        `profiles`: profiles that can be added to the draft, by name.
        """
        self.draft = drafts.begin(base, rules, program)
        self.applied: Draft | None = None
        self.profiles = profiles or {}
        self._numbers: Mapping[str, int] = {}  # the hardware's class by group, as far as known
        self.message = ""
        self._where = where
        self._rows: tuple[MaskRow, ...] = ()
        self._read_at_ns = read_at_ns
        self._foreign: tuple[Change, ...] = ()
        self.selection = self._first(group, l3=l3)
        self.acts: Mapping[str, Callable[[int], None]] = {
            "class": self._class,
            "way": self._way,
            "toggle": lambda _: self._edit(drafts.toggle, self.selection.way),
            "shift": lambda by: self._edit(drafts.shift, by),
            "grow": lambda by: self._edit(
                drafts.grow if by > 0 else drafts.shrink, self.selection.way
            ),
            "alike": lambda _: self._alike(),
            "bandwidth": lambda by: self._limited(
                lambda group, domains: drafts.step_limit(self.draft, group, domains, by)
            ),
            "domain": self._domain,
            "link": lambda _: self._link(),
            "cache": lambda _: self._cache(),
            "remove": lambda _: self._of_class(
                lambda: self._take(drafts.remove(self.draft, self.selection.group))
            ),
            "reset": lambda _: self._take(drafts.reset(self.draft)),
        }
        self.answers: Mapping[str, Callable[[str], None]] = {
            "cpus": self._move,
            "name": self._create,
            "limit": self._limit,
            "profile": self._profile,
        }

    @property
    def trouble(self) -> tuple[str, ...]:
        """Changes by other programs since the draft began."""
        if not self._foreign:
            return ()
        # CPUs go online and offline on their own; nothing else changes by itself.
        itself = all(
            item.cell.kind == "cpu" and None in (item.old, item.new) for item in self._foreign
        )
        prefix = "changed" if itself else "changed by another program"
        changes = ", ".join(differences(self._foreign, "was", "is"))
        return (f"{prefix} since the draft began ({_RELOAD}): {changes}",)

    def editor_state(
        self,
        frame: Frame,
        *,
        locked: str = "",
        waits: str = "",
        keep_within_s: float = KEEP_WITHIN_S,
    ) -> EditorState:
        """What the screen draws."""
        rules = self.draft.rules
        return EditorState(
            base=self.draft.base,
            target=self.draft.target,
            plan=self.draft.plan,
            rules=self._line_rules,
            selection=self.selection,
            unit="percent" if rules.limit is None else rules.limit.unit,
            io={**rules.io, **self._drafted_io()},
            threads={row.name: row.tasks for row in frame.groups},
            filled=frozenset(row.name for row in frame.groups if has_filled(row)),
            where=self._where,
            trouble=self.trouble,
            locked=locked,
            waits=waits,
            keep_within_s=keep_within_s,
        )

    def see(self, frame: Frame) -> None:
        """Take a new frame: update the rows and detect changes by others."""
        editor = self.editor_state(frame)
        self._numbers = {row.name: row.clos for row in frame.groups if row.clos is not None}
        io_row = editor.io_row
        self._rows = (*([] if io_row is None else [io_row]), *rows_of(editor, frame))
        # A frame read before the base says nothing new.
        since_ns = read_since_ns(frame)
        if since_ns is not None and since_ns >= self._read_at_ns:
            self._foreign = drifted(self.draft.base, frame)
        self._settle()

    def reload(
        self, base: State, rules: Rules, read_at_ns: int, fate: AppliedOutcome = "open"
    ) -> None:
        """Rebase the draft on the host's current state.

        `fate`: outcome of the applied draft when the reading began.
        """
        applied, wishes = self.applied, drafts.actions(self.draft)
        self.draft, self.message = rebased(self.draft, base, rules)
        if fate != "open":
            self.applied = None
        if fate == "back" and applied is not None:
            again, note = rebased(applied, base, rules, wishes)
            if again.target != self.draft.target:
                self.draft = again
                self.message = "; ".join(filter(None, (_AGAIN, note)))
        self._read_at_ns, self._foreign = read_at_ns, ()
        selection = self.selection
        if selection.line not in self._line_rules:
            self.selection = self._first(selection.group)
        elif selection.domain not in domains_of(base, selection.line):
            first = domains_of(base, selection.line)[0]  # the selected cache went offline
            self.selection = replace(selection, domain=first)

    # Actions of keys

    def _class(self, by: int) -> None:
        if self._rows:
            here = self._row_index()
            row = self._rows[max(0, min(here + by, len(self._rows) - 1))]
            self.selection = replace(self.selection, group=row.group, line=row.line)

    def _way(self, by: int) -> None:
        most = self._line_rules[self.selection.line].ways - 1
        self.selection = replace(self.selection, way=max(0, min(self.selection.way + by, most)))

    def _domain(self, by: int) -> None:
        every = domains_of(self.draft.base, self.selection.line)
        at = every.index(self.selection.domain) if self.selection.domain in every else -by
        self.selection = replace(self.selection, domain=every[(at + by) % len(every)])

    def _link(self) -> None:
        self.selection = replace(self.selection, linked=not self.selection.linked)
        self.message = (
            f"edits apply to all {self.selection.cache} (L: to one)"
            if self.selection.linked
            else f"edits apply to {self.selection.cache} {self.selection.domain} only"
        )

    def _cache(self) -> None:
        caches = caches_of(self._line_rules)
        cache = caches[(caches.index(self.selection.cache) + 1) % len(caches)]
        if cache == self.selection.cache:
            self.message = f"only {cache} can be allocated here"
            return
        self.selection = replace(
            self._first(self.selection.group, cache), linked=self.selection.linked
        )

    def _alike(self) -> None:
        selection = self.selection
        domains = _led(selection.domain, domains_of(self.draft.base, selection.line))
        self._take(drafts.copy_first(self.draft, selection.group, selection.line, domains))

    def _move(self, text: str) -> None:
        try:
            cpus = parse_cpu_list(text)
        except ValueError as error:
            self.message = str(error)
            return
        self._of_class(lambda: self._take(drafts.move(self.draft, self.selection.group, cpus)))

    def _create(self, text: str) -> None:
        known = {cell for cell in self.draft.target if cell.kind == "group"}
        self._take(drafts.create(self.draft, text))
        for cell in self.draft.target:
            if cell.kind == "group" and cell not in known:
                self.selection = replace(self.selection, group=cell.group)

    def _limit(self, text: str) -> None:
        if not (text.isascii() and text.isdigit() and len(text) < 11):
            self.message = f"{text!r} is not a limit: give a whole number"
            return
        self._limited(lambda group, domains: drafts.limit(self.draft, group, domains, int(text)))

    def _profile(self, name: str) -> None:
        """Add a profile's actions to the draft; a profile that does not fit adds none."""
        listing = self.profiles.get(name)
        if listing is None:
            self.message = f"no profile {name!r}; known: {', '.join(self.profiles)}"
            return
        result = fit(listing, self.draft.target, self.draft.rules, self._numbers)
        wrong = [problem for problem in result.problems if problem.fatal]
        if wrong:
            more = f" and {len(wrong) - 1} more" * (len(wrong) > 1)
            hint = f"{self.draft.program} cat import offers fixes"
            self.message = f"{name} does not fit: {wrong[0].text}{more}; {hint}"
            return
        notes = "".join(f"; {problem.text}" for problem in result.problems)
        self._take(drafts.ask(self.draft, result.actions))
        self.message = self.message or f"the draft has profile {name}{notes}"

    def pick(self, row: MaskRow, way: int, *, toggle: bool) -> None:
        """Select a mask and a way, as a click does; `toggle` also adds or removes the way."""
        if row not in self._rows:
            return
        rule = self._line_rules[row.line]
        self.selection = replace(
            self.selection, group=row.group, line=row.line, way=max(0, min(way, rule.ways - 1))
        )
        self.message = ""
        if toggle:
            self.acts["toggle"](0)

    # Helpers

    @property
    def _line_rules(self) -> Mapping[str, LineRule]:
        return {
            line: LineRule(rule.ways, rule.min_bits, rule.sparse)
            for line, rule in self.draft.rules.masks.items()
            if domains_of(self.draft.base, line)
        }

    def _first(self, group: str, cache: str = "", l3: int | None = None) -> MaskSelection:
        rules = self._line_rules
        line = lines_of(rules, cache or caches_of(rules)[0])[0]
        every = domains_of(self.draft.base, line)
        domain = l3 if cache_of_line(line) == "L3" and l3 in every and l3 is not None else every[0]
        bits = drafts.mask(self.draft, group, line, domain) or 1
        return MaskSelection(group, line, domain, bits.bit_length() - 1)

    def _row_index(self) -> int:
        here = MaskRow(self.selection.group, self.selection.line)
        return self._rows.index(here) if here in self._rows else 0

    def _settle(self) -> None:
        """Select another row if the selected class is gone."""
        if self._rows and MaskRow(self.selection.group, self.selection.line) not in self._rows:
            self._class(0)

    def _domains(self, line: str) -> tuple[int, ...]:
        """Caches that an edit changes, the selected one first."""
        every = domains_of(self.draft.base, line)
        return (
            _led(self.selection.domain, every)
            if self.selection.linked
            else (self.selection.domain,)
        )

    def _limited(self, how: Callable[[str, tuple[int, ...]], DraftStep]) -> None:
        if self.selection.cache != "L3":
            self.message = "bandwidth limits are per L3: press c"
            return
        self._of_class(lambda: self._take(how(self.selection.group, self._domains(MB))))

    def _of_class(self, step: Callable[[], None]) -> None:
        """Do what only a class can have done to it."""
        if self.selection.group == IO_GROUP:
            self.message = "devices have ways only: no CPUs, no limit, and no class to remove"
        else:
            step()

    def _drafted_io(self) -> dict[int, tuple[int, str]]:
        """Ways of I/O of the draft, where they are set."""
        return {
            cell.number: (int(value, 16), IO_ORIGINS["io_alloc"])
            for cell, value in self.draft.target.items()
            if cell.kind == "io_cbm"
        }

    def _edit(self, how: Callable[..., DraftStep], by: int) -> None:
        selection = self.selection
        self._take(
            how(self.draft, selection.group, selection.line, self._domains(selection.line), by)
        )

    def begin_with(self, wanted: Sequence[ClassAction]) -> None:
        """Add actions to the draft; the message says why they are refused."""
        self._take(drafts.ask(self.draft, wanted))

    def _take(self, step: DraftStep) -> None:
        self.draft, self.message = step


def drift_of(draft: Draft, proposal: Proposal) -> tuple[str, ...]:
    """Differences between a proposal's base and the draft's, as text."""
    return differences(drafts.drift(draft, proposal.base), "was", "is")


def has_masks(rules: Rules, base: State) -> bool:
    """Whether there is any mask to edit."""
    return any(domains_of(base, line) for line in rules.masks)


def _led(first: int, every: tuple[int, ...]) -> tuple[int, ...]:
    return (first, *(item for item in every if item != first))
