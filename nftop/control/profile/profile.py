"""A profile in any format: statements with their positions, and problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from nftop.model.ids import Cpu
from nftop.model.rdt.rdt import MbaUnit
from nftop.model.struct import dataclass, field

# Classes have 16 bits at most in the hardware's register of associations.
MOST_CLASSES = 1 << 16
# Of a text, and CPUs and domains in all of its lists: a range of few characters names thousands.
MOST_BYTES, MOST_LISTED = 1 << 17, 1 << 17

ClassId: TypeAlias = (
    "int | str"  # a class by its number, as pqos has it, or a group by its directory
)
CdpType: TypeAlias = Literal["", "CODE", "DATA"]


class TooLongError(ValueError):
    """A profile is longer, or lists more, than any host's."""


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A position in a text: columns `start` to `end` of a line; lines from 1, columns from 0.

    Line 0: unknown, for TOML's sub-tables and multi-line strings.
    """

    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces a span by `new`; without `span` appends a line."""

    span: TextSpan | None
    new: str


NOWHERE = TextSpan(0, 0, 0)


@dataclass(frozen=True, slots=True)
class ProfileProblem:
    """An error or a note.

    Attributes:
        line: its line; 0: the whole text.
        text: message.
        edits: edits that fix it together; empty if there is no fix.
        fatal: whether the profile can't be used with it.
    """

    line: int
    text: str
    edits: tuple[Edit, ...] = ()
    fatal: bool = True


@dataclass(frozen=True, slots=True)
class MaskStatement:
    """Mask of a class; `cdp`: type with CDP; `domains` None: all."""

    class_id: ClassId
    resource: Literal["L3", "L2"]
    cdp: CdpType
    domains: tuple[int, ...] | None
    bits: int
    span: TextSpan


@dataclass(frozen=True, slots=True)
class LimitStatement:
    """Limit on the memory bandwidth of a class; `domains` None: all."""

    class_id: ClassId
    unit: MbaUnit
    domains: tuple[int, ...] | None
    value: int
    span: TextSpan


@dataclass(frozen=True, slots=True)
class CpusStatement:
    class_id: ClassId
    cpus: tuple[Cpu, ...]
    span: TextSpan


@dataclass(frozen=True, slots=True)
class TasksStatement:
    class_id: ClassId
    tids: tuple[int, ...]
    span: TextSpan


Statement: TypeAlias = "MaskStatement | LimitStatement | CpusStatement | TasksStatement"


@dataclass(frozen=True, slots=True)
class Listing:
    """A profile as it was read.

    Attributes:
        statements: in order; a later one overrides an earlier one, as with pqos.
        problems: in the order of their lines.
        groups: group names of classes that are given by number.
        names: where a group's name is written, quoted, if it is written once.
    """

    statements: tuple[Statement, ...]
    problems: tuple[ProfileProblem, ...] = ()
    groups: Mapping[int, str] = field(default_factory=dict)
    names: Mapping[str, TextSpan] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExportedProfile:
    """The classes of a host as a profile.

    Attributes:
        statements: of every group, the root group first; a mask in all domains names none.
        notes: messages on state of the host that a profile can't contain.
        numbers: the hardware's class by group, as far as known.
    """

    statements: tuple[Statement, ...]
    notes: tuple[str, ...]
    numbers: Mapping[str, int] = field(default_factory=dict)


def mended(text: str, problems: Iterable[ProfileProblem]) -> str:
    """The text with every edit of these problems."""
    lines = text.splitlines()
    edits = {edit for problem in problems for edit in problem.edits}
    added = sorted(edit.new for edit in edits if edit.span is None)
    inside = [(edit.span, edit.new) for edit in edits if edit.span is not None]
    # From the right, so that the columns of those before stay what they are.
    for span, new in sorted(inside, key=lambda item: (item[0].line, -item[0].start)):
        line = lines[span.line - 1]
        lines[span.line - 1] = line[: span.start] + new + line[span.end :]
    return "".join(f"{line}\n" for line in (*lines, *added))
