"""Rules of findings and their registry.

A rule is registered next to the function that measures it; nothing else lists it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

from nftop.derive.findings.inputs import FindingInputs, FindingKey
from nftop.model.column import Column
from nftop.model.number_text import COUNT, number_texts
from nftop.model.struct import dataclass, field

Scope: TypeAlias = Literal["cpu", "core", "nf", "package", "group", "host"]


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
BUSY = Only("busy", 0.5, "it is busy half of the time or more, where it reports that", unknown=True)


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
        form, scale: format of a number like the limit, `SI` or for `str.format`, and the factor
            applied before.
        text: what was measured, in the past tense, for `str.format`: `value` and `limit` so
            printed, `beyond`, and the names of `Measured.context` (numbers) and `words`.
        detail: continues `text`, with the limit and names, in the same way.
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
    detail: str = ", {beyond} {limit}"
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
        return si(number) if self.form == SI else self.form.format(number * self.scale)

    def parsed(self, text: str) -> float:
        """A limit as it is printed: `5%` or `0.05`, `12 GB/s`, `1.5M`, `20k`.

        Raises:
            ValueError: it is no such number of 0 or more, or its unit is another.
        """
        match = _NUMBER.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"no number: {text}")
        number, prefix, unit = float(match[1]), match[2], match[3]
        tail = "" if self.form == SI else self.form.partition("}")[2].strip()
        share = self.form.endswith("%}")
        own = tail[1:] if tail[:1] in tuple(_PREFIXES) else tail
        if unit not in ("", "%" if share else own):
            raise ValueError(f"its unit is {('%' if share else own) or 'none'}")
        if not math.isfinite(number):
            raise ValueError("not finite")
        if unit == "%":
            return number / 100
        if share and number > 1:
            raise ValueError(f"a share: {number:g}% or {number / 100:g}")
        return number * _PREFIXES[prefix] if prefix else number / self.scale


# `Rule.detail` where the subject is not the network function itself.
LIMIT_AND_NF = ", {beyond} {limit} ({nf})"
SI = "si"  # form of a number with three digits and an SI prefix
_PREFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_NUMBER = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([kMGT]?)\s*(%|[A-Za-z/]*)")


def si(value: float) -> str:
    """As cells have counts: `3.82M`, `630k`, `12.0`, `0+`."""
    return next(number_texts(value, COUNT))


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


def rule_of(rule_id: str) -> Rule | None:
    """The rule of that id, or None."""
    return _RULES.get(rule_id)


def registered() -> tuple[Rule, ...]:
    """All rules so far, by rank."""
    return tuple(sorted(_RULES.values(), key=lambda rule: rule.rank))
