"""Loader of the microarchitecture tables; `generic.toml` and `skx.toml` explain them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from nftop.model.data_files import data_file, data_names
from nftop.model.struct import dataclass, field, replace
from nftop.uarch import sections
from nftop.uarch.events import CONFIG_WORDS, OF_CORE, Encoding, EventSpec, PmuTerms, parse_event
from nftop.uarch.sections import Counters, CpuModel, Iio, Topdown, Uncore

_OWN = ("name", "title", "cpuid")
# Why a group of `Uarch.drill` is not counted.
NOT_LARGEST = (
    "counted while the level-2 node above it is the core's largest, light_operations only where "
    "notable"
)


def whole(raw: Mapping[str, Any], load: Callable[[str], Mapping[str, Any]]) -> dict[str, Any]:
    """The table `raw` merged with its bases.

        base = "SKX"                             inherit everything of skx.toml, except
        without = ["topdown.nodes.l1_bound"]     what is left out, and
        [events]                                 what the file itself has
        cycles = { vendor = "..." }

    Tables are merged key by key; lists are replaced. A CPU's own name, title and CPUID are never
    inherited. `load` returns the raw table of a name, or raises ValueError.

    Raises:
        ValueError: bases form a circle, or `without` has an unknown name.
    """
    return _whole(raw, load, ())


def _whole(
    raw: Mapping[str, Any], load: Callable[[str], Mapping[str, Any]], above: tuple[str, ...]
) -> dict[str, Any]:
    own = {key: value for key, value in raw.items() if key not in ("base", "without")}
    if "base" not in raw:
        if "without" in raw:
            raise ValueError("`without` is for a table with a base")
        return own
    base = raw["base"]
    if base in above:
        raise ValueError(f"{base} is based on itself")
    inherited = _whole(load(base), load, (*above, base))
    inherited = {key: value for key, value in inherited.items() if key not in _OWN}
    for path in raw.get("without", ()):
        inherited = _without(inherited, path, path.split("."))
    return _merged(inherited, own)


def _without(table: Any, path: str, keys: list[str]) -> dict[str, Any]:
    first, *rest = keys
    if not isinstance(table, Mapping) or first not in table:
        raise ValueError(f"`without` names what the base has not: {path}")
    kept = dict(table)
    if rest:
        kept[first] = _without(kept[first], path, rest)
    else:
        del kept[first]
    return kept


def _merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of the base first, in its order."""
    merged = dict(base)
    for key, value in own.items():
        both = isinstance(value, Mapping) and isinstance(base.get(key), Mapping)
        merged[key] = _merged(base[key], value) if both else value
    return merged


__all__ = [
    "CONFIG_WORDS",
    "Encoding",
    "EventSpec",
    "Plan",
    "PmuTerms",
    "Uarch",
    "identify",
    "load",
    "names",
    "parse",
]

GENERIC = "generic"
_SMT = {"on": True, "off": False}
_BEHIND_CPUID = re.compile(r"^\[(?!\[cpuid\]\])", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Plan:
    """Events counted as one group, and those without which it is pointless.

    Attributes:
        smt: for hyper-threading on (True) or off (False) only; None: for both.
        turns: further groups, which can take turns with `events`. Each counts cycles too.
    """

    events: tuple[str, ...]
    needs: frozenset[str]
    smt: bool | None = None
    turns: tuple[tuple[str, ...], ...] = ()

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The plan's own group and its turns."""
        return (self.events, *self.turns)


@dataclass(frozen=True, slots=True)
class Uarch:
    """One table.

    Attributes:
        name: `generic`, `SKX`.
        title: for people.
        events: by name; only those of a plan or focus group are opened.
        plans: best first, at least one.
        of_core: events that count for all threads of a core, on each of them, even if the CPU's own
            thread is halted.
        vendor_names: by event, the vendor's name if any.
        extras: events that replace another or use a spare counter: absence is no fault.
        cpuid: CPUs it is for; empty: any.
        counters, topdown: None if unknown.
        uncore: units outside the cores.
        traffic: by metric, a formula over counts per second of `uncore`'s events.
        focus_groups: further groups for a selected core, for level 3 of `topdown` and `probes`.
            Each is complete, clocks first.
        drill: by level-2 node of `topdown`, more groups of the selected core, counted while that
            node is the largest: what is below it.
        probes: by metric, a formula over counts per second of one core's events.
        iio: the stacks that count traffic of devices, or None.
    """

    name: str
    title: str
    events: Mapping[str, EventSpec]
    plans: tuple[Plan, ...]
    of_core: frozenset[str] = frozenset()
    vendor_names: Mapping[str, str] = field(default_factory=dict)
    extras: frozenset[str] = frozenset()
    cpuid: tuple[CpuModel, ...] = ()
    counters: Counters | None = None
    topdown: Topdown | None = None
    uncore: tuple[Uncore, ...] = ()
    traffic: Mapping[str, str] = field(default_factory=dict)
    focus_groups: tuple[tuple[str, ...], ...] = ()
    drill: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    probes: Mapping[str, str] = field(default_factory=dict)
    iio: Iio | None = None

    @property
    def main_events(self) -> tuple[str, ...]:
        """All events of the plans' own groups, in order, without turns."""
        return tuple(dict.fromkeys(name for plan in self.plans for name in plan.events))

    @property
    def deep_groups(self) -> tuple[tuple[str, ...], ...]:
        """`focus_groups` and then all of `drill`."""
        return (*self.focus_groups, *(group for groups in self.drill.values() for group in groups))

    @property
    def drilled_nodes(self) -> tuple[str, ...]:
        """By `deep_groups`, the node while which is the largest the group is counted; or ""."""
        drilled = (node for node, groups in self.drill.items() for _ in groups)
        return (*[""] * len(self.focus_groups), *drilled)

    @property
    def all_events(self) -> tuple[str, ...]:
        """Also events of turns, focus groups and drill."""
        groups = [*(group for plan in self.plans for group in plan.groups), *self.deep_groups]
        return tuple(dict.fromkeys((*self.main_events, *(e for group in groups for e in group))))

    def with_smt(self, *, on: bool) -> Uarch:
        """The table without plans for the other state of hyper-threading."""
        return replace(self, plans=tuple(plan for plan in self.plans if plan.smt in (None, on)))


def names() -> tuple[str, ...]:
    """All tables, sorted: `SKX` is the file skx.toml."""
    stems = (name[:-5] for name in data_names(__package__, "") if name.endswith(".toml"))
    return tuple(sorted(stem if stem == GENERIC else stem.upper() for stem in stems))


def uarch_names() -> tuple[str, ...]:
    """All tables of a CPU, sorted: without the generic one."""
    return tuple(name for name in names() if name != GENERIC)


@cache  # a parse takes 60 ms, and a recording may name a table in each of a thousand headers
def load(name: str = GENERIC) -> Uarch:
    """The table called `name`.

    Raises:
        KeyError: there is none.
        ValueError: the table is invalid.
    """
    if name not in names():
        raise KeyError(f"no microarchitecture {name!r}; there are {', '.join(names())}")
    return parse(_text(name))


def identify(vendor: str, family: int, model: int, stepping: int) -> str:
    """Name of the table for a CPU by CPUID leaves 0 and 1, else `generic`.

    Values as in /proc/cpuinfo: `GenuineIntel`, 6, 85, 4 is SKX.
    """
    for name in names():
        # Only the head of a file is read, for speed.
        head = _BEHIND_CPUID.split(_text(name), maxsplit=1)[0]
        cpus = map(sections.parse_model, tomllib.loads(head).get("cpuid", ()))
        if any(cpu.covers(vendor, family, model, stepping) for cpu in cpus):
            return name
    return GENERIC


def parse(text: str) -> Uarch:
    """A table from its TOML text; ValueError if it is invalid."""
    try:
        table = _table(whole(tomllib.loads(text), _base))
    except KeyError as error:
        raise ValueError(f"the table lacks {error}") from None
    except (TypeError, AttributeError) as error:
        raise ValueError(f"the table is not as its notation says: {error}") from None
    for smt in (True, False):
        if not table.with_smt(on=smt).plans:
            raise ValueError("the table has no plan" + (" with hyper-threading" if smt else ""))
    return table


def _base(name: str) -> dict[str, Any]:
    """The raw table of a base."""
    if name not in names():
        raise ValueError(f"the table is based on {name!r}, which there is not")
    return tomllib.loads(_text(name))


def _text(name: str) -> str:
    return data_file(__package__, f"{name.lower()}.toml").decode()


def _table(raw: Mapping[str, Any]) -> Uarch:
    events = {name: parse_event(name, spec) for name, spec in raw["events"].items()}
    if set(events) & set(raw.get("sets", {})):
        raise ValueError("a set has the name of an event")
    uncore = tuple(
        sections.parse_uncore(name, spec) for name, spec in raw.get("uncore", {}).items()
    )
    traffic = dict(raw.get("traffic", {}))
    sections.check_formulas(traffic, {event for unit in uncore for event in unit.events})
    sets = raw.get("sets", {})
    probes = dict(raw.get("probes", {}))
    sections.check_formulas(probes, {*events, sections.THREADS})
    extras = raw.get("extras", ())
    for name in extras:
        sections.known(name, events, "the list of extras")
    rows = (raw["events"], *(unit["events"] for unit in raw.get("uncore", {}).values()))
    return Uarch(
        name=raw["name"],
        title=raw["title"],
        events=events,
        plans=tuple(_plan(spec, events, sets) for spec in raw["plans"].values()),
        of_core=frozenset(name for name, spec in raw["events"].items() if spec.get(OF_CORE)),
        vendor_names={
            name: spec["vendor"] for row in rows for name, spec in row.items() if "vendor" in spec
        },
        extras=frozenset(extras),
        cpuid=tuple(sections.parse_model(spec) for spec in raw.get("cpuid", ())),
        counters=sections.parse_counters(raw["counters"], events) if "counters" in raw else None,
        topdown=sections.parse_topdown(raw["topdown"], events) if "topdown" in raw else None,
        uncore=uncore,
        traffic=traffic,
        focus_groups=tuple(
            _group(listed, events, sets, f"the focus group {name}")
            for name, listed in raw.get("focus", {}).items()
        ),
        drill={
            node: tuple(
                _group(listed, events, sets, f"the drill group {node}.{name}")
                for name, listed in groups.items()
            )
            for node, groups in raw.get("drill", {}).items()
        },
        probes=probes,
        iio=sections.parse_iio(raw["iio"]) if "iio" in raw else None,
    )


def _plan(
    spec: Mapping[str, Any], events: Mapping[str, EventSpec], sets: Mapping[str, Sequence[str]]
) -> Plan:
    if spec.get("smt", "on") not in _SMT:
        raise ValueError("a plan's `smt` is neither on nor off")
    smt = _SMT[spec["smt"]] if "smt" in spec else None
    turns = tuple(_group(turn, events, sets, "a plan") for turn in spec.get("turns", ()))
    needs = frozenset(_expand(spec["needs"], sets))
    plan = Plan(_group(spec["events"], events, sets, "a plan"), needs, smt, turns)
    for name in sorted(plan.needs):
        sections.known(name, events, "a plan")
    if not plan.needs <= set(plan.events):
        raise ValueError("a plan needs an event that it does not count")
    return plan


def _group(
    listed: Iterable[str],
    events: Mapping[str, EventSpec],
    sets: Mapping[str, Sequence[str]],
    user: str,
) -> tuple[str, ...]:
    group = _expand(listed, sets)
    if len(set(group)) != len(group) or not group:
        raise ValueError(f"{user} is empty or counts an event twice: {', '.join(group)}")
    for name in group:
        sections.known(name, events, user)
    return group


def _expand(listed: Iterable[str], sets: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    return tuple(event for name in listed for event in sets.get(name, (name,)))
