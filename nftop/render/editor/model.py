"""Data of the class editor: states, selection and rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from nftop.derive.cache.ways import Shares, is_used, limits, shares_with
from nftop.model.change import IO_GROUP, Cell, Proposal, State, mask_cell
from nftop.model.frame import Frame
from nftop.model.keep_timeout import KEEP_WITHIN_S
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ROOT, UNLIMITED_MBPS, MbaUnit, cache_of_line, split_path
from nftop.model.struct import dataclass, field


class LineRule(NamedTuple):
    """Rules for masks of a line of schemata, as `control.rdt_limits.MaskRule`."""

    ways: int
    min_bits: int = 1
    sparse: bool = False


@dataclass(frozen=True, slots=True)
class MaskSelection:
    """Selection in the editor.

    Attributes:
        group, line, domain: of the mask: class, line of schemata, cache.
        way: the selected way.
        linked: edits apply to all caches of the line.
    """

    group: str
    line: str
    domain: int
    way: int
    linked: bool = False

    @property
    def cache(self) -> str:
        """`L3` or `L2`."""
        return cache_of_line(self.line)


class MaskRow(NamedTuple):
    """A row of the table: a class and one of its masks."""

    group: str
    line: str


@dataclass(frozen=True)
class EditorState:
    """Everything that the class editor's page shows.

    Attributes:
        base: state of the host.
        target: that of the draft.
        plan: from one to the other.
        rules: of masks, by line.
        selection: class, mask and way.
        unit: of limits on bandwidth.
        io: by L3, ways that devices write into, and the source of that.
        threads: number of threads by class, from the last frame.
        filled: classes with lines in a last-level cache, from the last frame.
        where: resctrl's mount.
        trouble: alerts above the table.
        locked: why nothing can be applied; "": it can.
        waits: what the draft waits for; "": nothing.
        keep_within_s: time to keep an applied change.
        swept: another width that a sweep of this session found for the selection; "" if none.
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
    waits: str = ""
    keep_within_s: float = KEEP_WITHIN_S
    swept: str = ""

    @property
    def rule(self) -> LineRule:
        """Rule of the selected line."""
        return self.rules[self.selection.line]

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """All classes of host and draft; new ones last."""
        named = {cell.group for cell in self.base if cell.kind == "mode"}
        created = {cell.group for cell in self.target if cell.kind == "mode"} - named
        return (*sorted(named), *sorted(created))

    def bits(self, row: MaskRow, *, base: bool = False) -> int:
        """Ways of a class in the selected cache; 0: no mask."""
        state = self.base if base else self.target
        cell = mask_cell(row.group, row.line, self.selection.domain)
        return int(state.get(cell, "0"), 16)

    @property
    def io_row(self) -> MaskRow | None:
        """The ways of I/O of the selected cache, if they can be edited: they are set (io_alloc)."""
        wanted = ("io_cbm", self.selection.domain)
        cells = (cell for cell in self.target if (cell.kind, cell.number) == wanted)
        cell = next(cells, None) if self.selection.cache == "L3" else None
        return None if cell is None else MaskRow(IO_GROUP, cell.name)

    def bits_of(self, group: str, *, base: bool = False) -> int:
        """Ways of a class in the selected cache, for data or code."""
        return self._unions[base].get(group, 0)

    @cached_property
    def _unions(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Ways of each class in the selected cache: after the draft, before it."""
        unions: list[dict[str, int]] = [{}, {}]
        for base in (False, True):
            for group in self.groups:
                for line in lines_of(self.rules, self.selection.cache):
                    bits = self.bits(MaskRow(group, line), base=base)
                    unions[base][group] = unions[base].get(group, 0) | bits
        return unions[0], unions[1]

    def exists(self, group: str, *, base: bool = False) -> bool:
        """Whether the class exists."""
        return Cell("mode", group) in (self.base if base else self.target)

    def used(self, *, base: bool = False) -> frozenset[str]:
        """Classes in use, as `ways.is_used`."""
        return self._used[base]

    @cached_property
    def _used(self) -> tuple[frozenset[str], frozenset[str]]:
        """After the draft, and before it."""
        return self._used_in(self.target), self._used_in(self.base)

    def _used_in(self, state: State) -> frozenset[str]:
        inside = {split_path(where)[0] for cell, where in state.items() if cell.kind == "cpu"}
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
        """CPUs of each class after the draft, ascending."""
        by_class: dict[str, list[int]] = {group: [] for group in self.groups}
        for cell, where in sorted(self.target.items()):
            if cell.kind == "cpu":
                by_class.setdefault(split_path(where)[0], []).append(cell.number)
        return {group: tuple(cpus) for group, cpus in by_class.items()}


def lines_of(rules: Mapping[str, LineRule], cache: str) -> tuple[str, ...]:
    """Lines of schemata of `L3` or `L2`: one, or with CDP data and code."""
    return tuple(sorted((line for line in rules if cache_of_line(line) == cache), reverse=True))


def caches_of(rules: Mapping[str, LineRule]) -> tuple[str, ...]:
    """Caches that can be allocated: `L3`, `L2`."""
    return tuple(sorted({cache_of_line(line) for line in rules}, reverse=True))


def domains_of(state: State, line: str) -> tuple[int, ...]:
    """The caches of a line, ascending."""
    return tuple(
        sorted({cell.number for cell in state if cell.kind == "schemata" and cell.name == line})
    )


def rows_of(editor: EditorState, frame: Frame) -> tuple[MaskRow, ...]:
    """Masks of host and draft in the selected cache, in the order of the frame's classes."""
    known = [row.name for row in frame.groups]
    order = sorted(
        editor.groups,
        key=lambda group: (group != ROOT, known.index(group) if group in known else len(known)),
    )
    return tuple(
        row
        for group in order
        for row in (MaskRow(group, line) for line in lines_of(editor.rules, editor.selection.cache))
        if editor.bits(row) or editor.bits(row, base=True)
    )


def shares_at(editor: EditorState, row: MaskRow, *, base: bool = False) -> Shares:
    """Sharing of the ways of a mask."""
    ways, used = editor.rules[row.line].ways, editor.used(base=base)
    others = {item: Cbm(editor.bits_of(item, base=base), ways) for item in used - {row.group}}
    io = editor.io.get(editor.selection.domain, (0, ""))[0] if editor.selection.cache == "L3" else 0
    of_io = row.group == IO_GROUP
    own, io = Cbm(editor.bits(row, base=base), ways), 0 if of_io else io
    return shares_with(own, dict(sorted(others.items())), io, used=of_io or row.group in used)


def mask_text(bits: int, ways: int) -> str:
    """`0f0`, as resctrl prints it; `-` for none."""
    return Cbm(bits, max(ways, bits.bit_length(), 1)).hex if bits else "-"
