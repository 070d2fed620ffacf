"""What a profile says, whatever its form: statements with their places, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from nftop.model.ids import Cpu
from nftop.model.rdt.rdt import MbaUnit
from nftop.model.struct import dataclass, field

# Classes have 16 bits at most in the hardware's register of associations.
MOST_CLASSES = 1 << 16

ClassId: TypeAlias = (
    "int | str"  # a class by its number, as pqos has it, or a group by its directory
)
CdpType: TypeAlias = Literal["", "CODE", "DATA"]


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A place in a text: columns `start` to `end` of a line, lines from 1, columns from 0.

    Line 0 is nowhere: of what was read by another parser, which does not tell.
    """

    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Edit:
    """`new` in the place of what is there; no `span`: a line put after the last."""

    span: TextSpan | None
    new: str


NOWHERE = TextSpan(0, 0, 0)


@dataclass(frozen=True, slots=True)
class ProfileProblem:
    """Something that is wrong, or is to be known.

    Attributes:
        line: where; 0 of the whole.
        text: a sentence.
        edits: what would mend it, all of them together; empty where nothing is offered.
        fatal: whether nothing can be done while it is there.
    """

    line: int
    text: str
    edits: tuple[Edit, ...] = ()
    fatal: bool = True


@dataclass(frozen=True, slots=True)
class MaskStatement:
    """The ways of a class: `resource` L3 or L2, `cdp` its type with CDP; no `domains`: in all."""

    class_id: ClassId
    resource: Literal["L3", "L2"]
    cdp: CdpType
    domains: tuple[int, ...] | None
    bits: int
    span: TextSpan


@dataclass(frozen=True, slots=True)
class LimitStatement:
    """The memory bandwidth of a class, in `unit`; no `domains`: in all."""

    class_id: ClassId
    unit: MbaUnit
    domains: tuple[int, ...] | None
    value: int
    span: TextSpan


@dataclass(frozen=True, slots=True)
class CpusStatement:
    """CPUs of a class."""

    class_id: ClassId
    cpus: tuple[Cpu, ...]
    span: TextSpan


@dataclass(frozen=True, slots=True)
class TasksStatement:
    """Threads of a class."""

    class_id: ClassId
    tids: tuple[int, ...]
    span: TextSpan


Statement: TypeAlias = "MaskStatement | LimitStatement | CpusStatement | TasksStatement"


@dataclass(frozen=True, slots=True)
class Listing:
    """A profile as it was read.

    Attributes:
        statements: in their order; of two about the same the later holds, as with pqos.
        problems: in the order of their lines.
        groups: the directories of classes that are told by number.
    """

    statements: tuple[Statement, ...]
    problems: tuple[ProfileProblem, ...] = ()
    groups: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExportedProfile:
    """Attributes.

    statements: of every group, the root group first; a mask in all domains names none.
    notes: what of the host a profile does not hold, a sentence each.
    """

    statements: tuple[Statement, ...]
    notes: tuple[str, ...]


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
