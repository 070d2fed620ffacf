"""Rules of findings and their registry.

A rule is registered beside the function that measures it; nothing else lists it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from nftop.derive.findings.inputs import FindingInputs
from nftop.model.column import Column
from nftop.model.struct import dataclass, field

Scope: TypeAlias = Literal["cpu", "core", "nf", "package", "group", "host"]


class FindingKey(NamedTuple):
    """A place over ticks: where it is, and who is there, so that another begins anew."""

    where: str
    who: object


@dataclass(frozen=True, slots=True)
class Measured:
    """What a rule compares, in every place where it may hold.

    Attributes:
        keys: the n places.
        values: n numbers or why there is none, in the unit of the rule's limit.
        beside: by name, n numbers each that conditions ask for and the text may say.
        words: by name, n texts (untrusted) that the text may say.
    """

    keys: Sequence[FindingKey]
    values: Column
    beside: Mapping[str, Column] = field(default_factory=dict)
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Only:
    """A rule counts only where this number of `Measured.beside` is so high.

    Attributes:
        least: in the number's own unit.
        said: the condition in words.
        unknown: whether it is taken to be met where the number is not known. If not, nothing is
            said there.
    """

    name: str
    least: float
    said: str
    unknown: bool = False


# Below this load what a core does is mostly polling, and says nothing of packets.
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
        title: what it is about, in few words.
        metrics: the catalogue's, that it looks at; the first is the finding's own.
        scope: what a place is; a core is its polling hyper-threads together.
        measure: what is compared.
        limit: beyond it for `at_least_s` it is a finding.
        clear: at it or on its other side the finding ends.
        form, scale: how a number like the limit is printed, for `str.format`, and what it is
            multiplied with before.
        text: of the finding, for `str.format`: `value` and `limit` so printed, and the names of
            `Measured.beside` (numbers) and `words`.
        source: who says so, and where.
        own: why nftop chose the limit itself; "" where the source names it.
        only: conditions, all of which must be met.
        beyond: on which side of the limit it is a finding.
        at_least_s: how long it must have lasted.
        when: in words when it is a finding, where the limit's number says nothing; else "".
        note: what the operator has to know of it beside; "" if nothing.
        is_note: see `Finding`.
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
