"""Rules of findings and their registry.

A rule is registered next to the function that measures it; nothing else lists it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from nftop.derive.findings.inputs import FindingInputs
from nftop.model.column import Column
from nftop.model.struct import dataclass, field

Scope: TypeAlias = Literal["cpu", "core", "nf", "package", "group", "host"]


class FindingKey(NamedTuple):
    """Subject of a finding over ticks; with another owner (process) the rule starts over."""

    where: str
    owner: object


@dataclass(frozen=True, slots=True)
class Measured:
    """Values that a rule compares with its limit, for each of n subjects.

    Attributes:
        keys: the subjects.
        values: n numbers or reasons, in the unit of the rule's limit.
        context: by name, n numbers each, for conditions and the text.
        words: by name, n texts (untrusted) for the text.
    """

    keys: Sequence[FindingKey]
    values: Column
    context: Mapping[str, Column] = field(default_factory=dict)
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Only:
    """Condition: the rule applies only where this number of `Measured.context` is high enough.

    Attributes:
        least: in the number's own unit.
        condition: in words.
        unknown: whether it counts as met where the number is not known.
    """

    name: str
    least: float
    condition: str
    unknown: bool = False


# Below this load a core mostly polls, and its numbers do not describe packets.
LOADED = Only(
    "packets",
    100_000.0,
    "the core's network function takes in 100,000 packets a second there or more (an even share of "
    "its sum where that is all that is known)",
)
BUSY = Only("busy", 0.5, "it is busy half of the time or more, where it tells that", unknown=True)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        id: its name, in JSON and for `nftop explain`.
        rank: its position among the rules; the most severe is the lowest.
        title: its subject, in few words.
        metrics: catalogue ids it uses; the first is the finding's own.
        scope: kind of its subjects; a core is its polling hyper-threads together.
        measure: computes the values.
        limit: a value beyond it for `at_least_s` is a finding.
        clear: at or within it the finding ends.
        form, scale: format of a number like the limit, and the factor applied before.
        text: of the finding, for `str.format`: `value` and `limit` so printed, and the names of
            `Measured.context` (numbers) and `words`.
        source: publication of the limit.
        own: why nftop chose the limit itself; "" where the source has it.
        only: conditions, all of which must be met.
        beyond: side of the limit that is a finding.
        at_least_s: shortest duration.
        when: the criterion in words, where the limit's number does not express it; else "".
        note: further advice for the operator; may be "".
        is_note: see `Finding`.
        normal_for: programs of which the source itself reports values beyond the limit at full
            load: for these a finding without any other harm is information.
    """

    id: str
    title: str
    metrics: tuple[str, ...]
    scope: Scope
    measure: Callable[[FindingInputs], Measured]
    limit: float
    clear: float
    text: str
    source: str
    rank: float = 1000.0
    own: str = ""
    form: str = "{:.0%}"
    scale: float = 1.0
    only: tuple[Only, ...] = ()
    beyond: Literal["above", "below"] = "above"
    at_least_s: float = 5.0
    when: str = ""
    note: str = ""
    is_note: bool = False
    normal_for: tuple[str, ...] = ()

    def printed(self, number: float) -> str:
        """A number like the limit, with its unit."""
        return self.form.format(number * self.scale)


TALK = 'Intel, "Performance Considerations for Packet Processing on Intel Architecture"'
STABLE = '"Achieve stable high performance DPDK Application on modern CPU"'
RDT = (
    'Intel, "Deterministic Network Functions Virtualization with Intel Resource Director '
    'Technology"'
)

_RULES: dict[str, Rule] = {}


def register(rule: Rule) -> None:
    """Add a rule.

    Raises:
        ValueError: another rule has its id.
    """
    if rule.id in _RULES:
        raise ValueError(f"rule {rule.id} is registered already")
    _RULES[rule.id] = rule


def unregister(rule_id: str) -> None:
    """Remove a rule that was registered."""
    del _RULES[rule_id]


def registered() -> tuple[Rule, ...]:
    """All rules so far, by rank."""
    return tuple(sorted(_RULES.values(), key=lambda rule: rule.rank))
