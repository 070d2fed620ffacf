"""What the editor of cache classes shows, as data: states, where in them one is, and the rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from nftop.derive.cache.ways import Shares, is_used, limits, shares_with
from nftop.model.change import Cell, Proposal, State, parts
from nftop.model.frame import Frame
from nftop.model.keep_timeout import KEEP_WITHIN_S
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ROOT, UNLIMITED_MBPS, MbaUnit
from nftop.model.struct import dataclass, field


class LineRule(NamedTuple):
    """What masks of one line of schemata must be like, as `control.rules.MaskRule`."""

    ways: int
    min_bits: int = 1
    sparse: bool = False


@dataclass(frozen=True, slots=True)
class MaskSelection:
    """Where in the editor one is.

    Attributes:
        group, line, domain: of the selected mask: a class, a line of schemata, a cache.
        way: the selected one.
        linked: all caches of the line are changed alike.
    """

    group: str
    line: str
    domain: int
    way: int
    linked: bool = False

    @property
    def cache(self) -> str:
        """`L3` or `L2`."""
        return self.line[:2]


class MaskRow(NamedTuple):
    """A line of the table: a class, and which of its masks."""

    group: str
    line: str


@dataclass(frozen=True)
class EditorState:
    """Attributes.

    base: what is on the host. target: what the draft leads to. plan: how.
    rules: of masks, by line. selection: class, mask and way. unit: of limits on bandwidth.
    io: by L3 the ways that devices write into as well, and how that is known.
    threads: how many are in a class by themselves, as last told.
    filled: classes that have lines in a last-level cache, as last told.
    where: resctrl's mount, as operators know it.
    trouble: what has to be known before anything else, sentences.
    locked: why nothing can be applied; "" where it can be.
    keep_within_s: how long an applied change waits to be kept.
    """

    base: State
    target: State
    plan: Proposal
    rules: Mapping[str, LineRule]
    selection: MaskSelection
    unit: MbaUnit = "percent"
    io: Mapping[int, tuple[int, str]] = field(default_factory=dict)
    threads: Mapping[str, int] = field(default_factory=dict)
    filled: frozenset[str] = frozenset()
    where: str = ""
    trouble: tuple[str, ...] = ()
    locked: str = ""
    keep_within_s: float = KEEP_WITHIN_S

    @property
    def rule(self) -> LineRule:
        """Of the selected line."""
        return self.rules[self.selection.line]

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """Every class there is or would be; those to be made come last."""
        named = {cell.group for cell in self.base if cell.kind == "mode"}
        created = {cell.group for cell in self.target if cell.kind == "mode"} - named
        return (*sorted(named), *sorted(created))

    def bits(self, row: MaskRow, *, base: bool = False) -> int:
        """The ways of a class in the selected cache; 0 where it has no mask there."""
        state = self.base if base else self.target
        return int(state.get(Cell("schemata", row.group, row.line, self.selection.domain), "0"), 16)

    def bits_of(self, group: str, *, base: bool = False) -> int:
        """All ways that a class may fill in the selected cache, be it with data or code."""
        return self._unions[base].get(group, 0)

    @cached_property
    def _unions(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """All ways of each class in the selected cache: after the draft, and before it."""
        unions: list[dict[str, int]] = [{}, {}]
        for base in (False, True):
            for group in self.groups:
                for line in lines_of(self.rules, self.selection.cache):
                    bits = self.bits(MaskRow(group, line), base=base)
                    unions[base][group] = unions[base].get(group, 0) | bits
        return unions[0], unions[1]

    def exists(self, group: str, *, base: bool = False) -> bool:
        """Whether there is such a class."""
        return Cell("mode", group) in (self.base if base else self.target)

    def used(self, *, base: bool = False) -> frozenset[str]:
        """The classes that would be in use, or are; as `ways.is_used`."""
        return self._used[base]

    @cached_property
    def _used(self) -> tuple[frozenset[str], frozenset[str]]:
        """After the draft, and before it."""
        return self._used_in(self.target), self._used_in(self.base)

    def _used_in(self, state: State) -> frozenset[str]:
        inside = {parts(where)[0] for cell, where in state.items() if cell.kind == "cpu"}
        inside |= {group for group, threads in self.threads.items() if threads}
        masks: dict[str, list[Cbm]] = {group: [] for group in self.groups}
        limited: dict[str, list[float]] = {group: [] for group in self.groups}
        for cell, value in state.items():
            if cell.kind == "schemata" and cell.name in self.rules:
                masks[cell.group].append(Cbm(int(value, 16), self.rules[cell.name].ways))
            elif cell.kind == "schemata" and cell.name == "MB" and int(value) < UNLIMITED_MBPS:
                limited[cell.group].append(float(value))
        return frozenset(
            group
            for group in self.groups
            if is_used(
                group,
                inside=group in inside,
                limited=limits(masks[group], limited[group], self.unit),
                filled=group in self.filled,
            )
        )

    @cached_property
    def cpus(self) -> Mapping[str, tuple[int, ...]]:
        """The CPUs of each class after the draft, ascending."""
        by_class: dict[str, list[int]] = {group: [] for group in self.groups}
        for cell, where in sorted(self.target.items()):
            if cell.kind == "cpu":
                by_class.setdefault(parts(where)[0], []).append(cell.number)
        return {group: tuple(cpus) for group, cpus in by_class.items()}


def lines_of(rules: Mapping[str, LineRule], cache: str) -> tuple[str, ...]:
    """The lines of schemata of `L3` or `L2`: one, or with CDP that of data and that of code."""
    return tuple(sorted((line for line in rules if line[:2] == cache), reverse=True))


def caches_of(rules: Mapping[str, LineRule]) -> tuple[str, ...]:
    """`L3`, `L2`: those that can be allocated."""
    return tuple(sorted({line[:2] for line in rules}, reverse=True))


def domains_of(state: State, line: str) -> tuple[int, ...]:
    """The caches of a line, ascending."""
    return tuple(sorted({cell.number for cell in state
                         if cell.kind == "schemata" and cell.name == line}))  # fmt: skip


def rows_of(editor: EditorState, frame: Frame) -> tuple[MaskRow, ...]:
    """The masks there are or would be in the selected cache: classes in the order of the frame."""
    known = [row.name for row in frame.groups]
    order = sorted(editor.groups, key=lambda group: (
        group != ROOT, known.index(group) if group in known else len(known)))  # fmt: skip
    return tuple(
        row
        for group in order
        for row in (MaskRow(group, line) for line in lines_of(editor.rules, editor.selection.cache))
        if editor.bits(row) or editor.bits(row, base=True)
    )


def shares_at(editor: EditorState, row: MaskRow, *, base: bool = False) -> Shares:
    """Whose the ways of a mask would be, or are; by the rules of every screen."""
    ways, used = editor.rules[row.line].ways, editor.used(base=base)
    others = {item: Cbm(editor.bits_of(item, base=base), ways) for item in used - {row.group}}
    io = editor.io.get(editor.selection.domain, (0, ""))[0] if editor.selection.cache == "L3" else 0
    own = Cbm(editor.bits(row, base=base), ways)
    return shares_with(own, dict(sorted(others.items())), io, used=row.group in used)


def mask_text(bits: int, ways: int) -> str:
    """`0f0`, as resctrl prints it; `-` where there is none."""
    return Cbm(bits, max(ways, bits.bit_length(), 1)).hex if bits else "-"
