"""What would mend an incident: a draft of cache classes, or a command; never applied by itself."""

from __future__ import annotations

from typing import Literal, TypeAlias

from nftop.model.change import CreateGroup, MoveCpus, Proposal, SetSchemata
from nftop.model.ids import L3Domain
from nftop.model.struct import dataclass

RemedyAction: TypeAlias = SetSchemata | MoveCpus | CreateGroup


@dataclass(frozen=True, slots=True)
class RemedyCheck:
    """A property of a draft that is good, or not."""

    good: bool
    text: str


@dataclass(frozen=True, slots=True)
class DraftMask:
    """A mask before and in the draft; bits of a cache of `ways` ways.

    `victims`, `io`: ways of the incident's victims, and ways that devices write into.
    """

    group: str
    l3: L3Domain
    ways: int
    old: int
    new: int
    victims: int
    io: int


@dataclass(frozen=True, slots=True)
class Remedy:
    """A draft or a command for one incident.

    Attributes:
        kind: `draft` can be opened in the editor; `command` is text for the operator, which nftop
            never runs; `advice` has no command.
        advice: what it does, or why there is nothing, a sentence.
        commands: exact command lines.
        actions: of the draft. proposal: its plan. mask: what it changes, to be drawn.
        checks: of the draft. unproven: what is not known about its effect; "" for nothing.
        sweep: command line that finds the width of its mask by experiment; "" if none can.
    """

    kind: Literal["draft", "command", "advice"]
    advice: str
    commands: tuple[str, ...] = ()
    actions: tuple[RemedyAction, ...] = ()
    proposal: Proposal | None = None
    mask: DraftMask | None = None
    checks: tuple[RemedyCheck, ...] = ()
    unproven: str = ""
    sweep: str = ""
