"""The loader of the microarchitecture tables; their notation is explained in `generic.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, TypeAlias

# enum perf_type_id of include/uapi/linux/perf_event.h
PERF_TYPES: Mapping[str, int] = {"hardware": 0, "software": 1, "raw": 4}
CONFIG_WORDS = ("config", "config1", "config2", "config3")


@dataclass(frozen=True, slots=True)
class Encoding:
    """An event as perf_event_attr takes it: the PMU's type number and its configuration words."""

    pmu_type: int
    config: int = 0
    config1: int = 0
    config2: int = 0
    config3: int = 0


@dataclass(frozen=True, slots=True)
class PmuTerms:
    """An event in the words of a PMU of sysfs, `msr/tsc/`; only the host knows its encoding."""

    pmu: str
    terms: str

    def __str__(self) -> str:
        return f"{self.pmu}/{self.terms}/"


EventSpec: TypeAlias = Encoding | PmuTerms


@dataclass(frozen=True, slots=True)
class Plan:
    """Events to be counted as one group, and those without which it is pointless."""

    events: tuple[str, ...]
    needs: frozenset[str]


@dataclass(frozen=True, slots=True)
class Uarch:
    """One table.

    Attributes:
        name: `generic`, `SKX`.
        title: for people.
        events: by name; only those that a plan uses are ever opened.
        plans: best first, at least one.
    """

    name: str
    title: str
    events: Mapping[str, EventSpec]
    plans: tuple[Plan, ...]

    @property
    def counted(self) -> tuple[str, ...]:
        """Every event some plan counts, in the order of the plans: the columns of a reading."""
        return tuple(dict.fromkeys(name for plan in self.plans for name in plan.events))


def names() -> tuple[str, ...]:
    """The tables there are, sorted."""
    files = (entry.name for entry in resources.files(__package__).iterdir())
    return tuple(sorted(name[:-5] for name in files if name.endswith(".toml")))


def load(name: str = "generic") -> Uarch:
    """The table called `name`.

    Raises:
        KeyError: there is none of that name.
        ValueError: the table breaks its notation.
    """
    if name not in names():
        raise KeyError(f"no microarchitecture {name!r}; there are {', '.join(names())}")
    return parse((resources.files(__package__) / f"{name}.toml").read_text(encoding="utf-8"))


def parse(text: str) -> Uarch:
    """A table from its TOML text; ValueError says what is wrong with it."""
    raw = tomllib.loads(text)
    try:
        events = {name: _event(name, spec) for name, spec in raw["events"].items()}
        plans = tuple(_plan(spec, events) for spec in raw["plans"])
        table = Uarch(raw["name"], raw["title"], events, plans)
    except KeyError as error:
        raise ValueError(f"the table lacks {error}") from None
    if not plans:
        raise ValueError("the table has no plan")
    return table


def _event(name: str, spec: Mapping[str, Any]) -> EventSpec:
    if "pmu" in spec:
        if set(spec) != {"pmu", "terms"}:
            raise ValueError(f"event {name}: a PMU's event has `pmu` and `terms` only")
        return PmuTerms(spec["pmu"], spec["terms"])
    unknown = set(spec) - {"type", *CONFIG_WORDS}
    if unknown or spec.get("type") not in PERF_TYPES:
        raise ValueError(f"event {name}: needs a `pmu` or a known `type`, and configs")
    words = {word: spec[word] for word in CONFIG_WORDS if word in spec}
    if not all(type(value) is int and 0 <= value < 2**64 for value in words.values()):
        raise ValueError(f"event {name}: a config is not an unsigned 64-bit number")
    return Encoding(PERF_TYPES[spec["type"]], **words)


def _plan(spec: Mapping[str, Any], events: Mapping[str, EventSpec]) -> Plan:
    plan = Plan(tuple(spec["events"]), frozenset(spec["needs"]))
    if len(set(plan.events)) != len(plan.events) or not plan.events:
        raise ValueError(f"a plan is empty or counts an event twice: {', '.join(plan.events)}")
    for name in (*plan.events, *sorted(plan.needs)):
        if name not in events:
            raise ValueError(f"a plan names an unknown event: {name}")
    if not plan.needs <= set(plan.events):
        raise ValueError("a plan needs an event that it does not count")
    return plan
