"""Sections of a table beside events and plans; `skx.toml` explains their notation.

All are checked when read: a formula can't use an unknown name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from nftop.model.struct import dataclass
from nftop.uarch import grammar
from nftop.uarch.events import EventSpec, PmuTerms, parse_event, port_event

# Constants of formulas, set by `topdown`.
THREADS = "threads"
CONSTANTS = frozenset({"slots_per_cycle", THREADS})
BUSIEST = "busiest_"
_NODE_FIELDS = frozenset(
    {"formula", "parent", "of", "threshold", "also", "unreliable", "estimated"}
)


@dataclass(frozen=True, slots=True)
class CpuModel:
    """One CPUID signature: steppings `first_stepping` to `last_stepping` of a model."""

    vendor: str
    family: int
    model: int
    first_stepping: int
    last_stepping: int

    def covers(self, vendor: str, family: int, model: int, stepping: int) -> bool:
        same = (vendor, family, model) == (self.vendor, self.family, self.model)
        return same and self.first_stepping <= stepping <= self.last_stepping


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters of a logical CPU, which limit the table's plans.

    Attributes:
        general_smt_on, general_smt_off: general counters by hyper-threading in the firmware (the
            kernel learns the number at boot).
        width_bits: of a counter.
        fixed: the events of each fixed counter.
    """

    general_smt_on: int
    general_smt_off: int
    width_bits: int
    fixed: tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class Topdown:
    """The top-down method.

    Attributes:
        slots_per_cycle: micro-operations that the core can issue per cycle.
        terms_smt_on, terms_smt_off: intermediate formulas by name, in the order of computation.
        nodes: formula by metric; a node comes after those it is computed from.
        level: by metric in the order of the table, from 1 on.
        parent: by metric below level 1.
        of_cycles: metrics that are shares of the threads' cycles; all others are of slots.
        estimated: metrics that the vendor only estimates: of slots, so that they need not fit their
            whole; of cycles, so that waits that overlap may come to more than there are.
        threshold: by metric, the ratio above which the vendor calls it notable.
        also: by metric, a part of it whose threshold counts as well.
        unreliable_smt: metrics that the vendor calls unreliable with hyper-threading.
        equal: terms by name, each with an event that counts the same.
        absent: by metric that this CPU has no formula for, why.
    """

    slots_per_cycle: int
    terms_smt_on: Mapping[str, str]
    terms_smt_off: Mapping[str, str]
    nodes: Mapping[str, str]
    level: Mapping[str, int]
    parent: Mapping[str, str]
    of_cycles: frozenset[str]
    estimated: frozenset[str]
    threshold: Mapping[str, float]
    also: Mapping[str, str]
    unreliable_smt: frozenset[str]
    equal: Mapping[str, str]
    absent: Mapping[str, str]

    def terms(self, *, smt: bool) -> Mapping[str, str]:
        return self.terms_smt_on if smt else self.terms_smt_off

    def formulas(self, *, smt: bool) -> dict[str, str]:
        """All of them, in the order of computation."""
        return {**self.terms(smt=smt), **self.nodes}


@dataclass(frozen=True, slots=True)
class Uncore:
    """One kind of unit outside the cores, with one or several boxes per package.

    Attributes:
        pmu: its PMU in sysfs is `pmu` for a single box, else `pmu`_0, `pmu`_1, ...
        counters: general counters of a box.
        events: `PmuTerms` of this PMU; counted on every box and added up.
        turns: groups of events that one box can count at a time.
        on_demand: further groups, which take time from the others.
        first_share: share of the time for the first turn; None: equal shares.
        links: its boxes are links to other packages.
        only: its boxes by package and number; None: all.
    """

    name: str
    pmu: str
    counters: int
    events: Mapping[str, PmuTerms]
    turns: tuple[tuple[str, ...], ...]
    on_demand: tuple[tuple[str, ...], ...] = ()
    first_share: float | None = None
    links: bool = False
    only: frozenset[tuple[int, int]] | None = None


@dataclass(frozen=True, slots=True)
class Iio:
    """The stacks between devices and the mesh, a box each.

    Attributes:
        pmu: its PMU in sysfs is `pmu`_0, `pmu`_1, ...
        counters: of a box.
        ports: root ports of a stack.
        first_device: device number of port 0; those of the others follow.
        events: terms without `ch_mask`, whose bit N is port N.
    """

    pmu: str
    counters: int
    ports: int
    first_device: int
    events: Mapping[str, PmuTerms]

    def unit(self, package: int, stack: int, ports: Iterable[int]) -> Uncore:
        """One box as a unit that counts these ports in turns."""
        turns = {
            number: {
                port_event(name, number): PmuTerms(
                    self.pmu, f"{event.terms},ch_mask={1 << number:#x}"
                )
                for name, event in self.events.items()
            }
            for number in sorted(ports)
        }
        return Uncore(
            f"stack {stack} of package {package}",
            self.pmu,
            self.counters,
            {name: event for turn in turns.values() for name, event in turn.items()},
            tuple(tuple(turn) for turn in turns.values()),
            only=frozenset({(package, stack)}),
        )


def parse_model(spec: Mapping[str, Any]) -> CpuModel:
    steppings = spec["steppings"]
    if len(steppings) != 2:
        raise TypeError("steppings are the first and the last")
    return CpuModel(spec["vendor"], spec["family"], spec["model"], *steppings)


def parse_counters(spec: Mapping[str, Any], events: Collection[str]) -> Counters:
    """The section `counters`; ValueError for a fixed counter of an unknown event."""
    fixed = tuple(frozenset(names) for names in spec["fixed"])
    for name in sorted(frozenset().union(*fixed)):
        known(name, events, "a fixed counter")
    on, off = spec["general_smt_on"], spec["general_smt_off"]
    return Counters(on, off, spec["width_bits"], fixed)


def parse_topdown(spec: Mapping[str, Any], events: Collection[str]) -> Topdown:
    """The section `topdown`; ValueError for an invalid formula or an unknown name."""
    terms = spec["terms"]
    # Terms by threads first: shared terms use them.
    smt_on = {**terms.get("smt_on", {}), **terms["both"]}
    smt_off = {**terms.get("smt_off", {}), **terms["both"]}
    rows = spec["nodes"]
    inputs = {*events, *CONSTANTS, *(BUSIEST + name for name in events)}
    if set(rows) & {*inputs, *smt_on, *smt_off}:
        raise ValueError("a top-down metric has the name of something else")
    level = _levels(rows)
    nodes: dict[str, str] = {}
    for term_set in (smt_on, smt_off):
        check_formulas(term_set, inputs)
        nodes = {}
        for depth in sorted(set(level.values())):
            formulas = {name: row["formula"] for name, row in rows.items() if level[name] == depth}
            nodes |= _in_order(formulas, {*inputs, *term_set, *nodes})
    for name, row in rows.items():
        if set(row) - _NODE_FIELDS or row.get("of", "slots") not in ("slots", "cycles"):
            raise ValueError(f"{name} has a field that no node has")
        if "also" in row and rows.get(row["also"], {}).get("parent") != name:
            raise ValueError(f"{name} is notable also by {row['also']!r}, which is no part of it")
    equal = dict(spec.get("equal", {}))
    for term, event in equal.items():
        known(term, terms["both"], "topdown.equal")
        known(event, events, "topdown.equal")
    return Topdown(
        spec["slots_per_cycle"],
        smt_on,
        smt_off,
        nodes,
        level,
        {name: row["parent"] for name, row in rows.items() if "parent" in row},
        frozenset(name for name, row in rows.items() if row.get("of") == "cycles"),
        frozenset(name for name, row in rows.items() if row.get("estimated", False)),
        {name: float(row["threshold"]) for name, row in rows.items() if "threshold" in row},
        {name: row["also"] for name, row in rows.items() if "also" in row},
        frozenset(name for name, row in rows.items() if row.get("unreliable") == "smt"),
        equal,
        dict(spec.get("absent", {})),
    )


def _levels(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Depth of each node; roots are level 1."""
    level: dict[str, int] = {}
    for name in rows:
        above = [name]
        while "parent" in rows[above[-1]]:
            parent = rows[above[-1]]["parent"]
            if parent not in rows or parent in above:
                raise ValueError(f"{above[-1]} is a part of {parent!r}, which is no node above it")
            above.append(parent)
        level[name] = len(above)
    return level


def _in_order(formulas: Mapping[str, str], inputs: Iterable[str]) -> dict[str, str]:
    """The formulas, each after those that it uses; ValueError for unknown names and circles."""
    names = set(inputs)
    reads = {name: set(grammar.names(grammar.parse(text))) for name, text in formulas.items()}
    ordered: dict[str, str] = {}
    while len(ordered) < len(formulas):
        waiting = {name: text for name, text in formulas.items() if name not in ordered}
        ready = next((name for name in waiting if reads[name] <= names), None)
        if ready is None:
            check_formulas(waiting, names)
        else:
            ordered[ready] = waiting[ready]
            names.add(ready)
    return ordered


def parse_uncore(name: str, spec: Mapping[str, Any]) -> Uncore:
    """A section `uncore.NAME`; ValueError if it is invalid."""
    events: dict[str, PmuTerms] = {}
    for key, row in spec["events"].items():
        event: EventSpec = parse_event(key, {"pmu": spec["pmu"], **row})
        if not isinstance(event, PmuTerms) or event.pmu != spec["pmu"]:
            raise ValueError(f"event {key}: a unit's event has `terms` of its own PMU")
        events[key] = event
    turns, on_demand = (
        tuple(tuple(turn) for turn in spec.get(key, ())) for key in ("turns", "on_demand")
    )
    for turn in (*turns, *on_demand):
        for key in turn:
            known(key, events, f"a turn of {name}")
        if not 0 < len(turn) <= spec["counters"]:
            raise ValueError(f"a turn of {name} has no event or more than there are counters")
    if {key for turn in (*turns, *on_demand) for key in turn} != set(events):
        raise ValueError(f"an event of {name} has no turn")
    first_share = spec.get("first_share")
    if first_share is not None and not (0 < first_share < 1 and len(turns) > 1):
        raise ValueError(f"the first turn of {name} can't have {first_share} of the time")
    counters, links = spec["counters"], spec.get("links", False)
    return Uncore(name, spec["pmu"], counters, events, turns, on_demand, first_share, links)


def parse_iio(spec: Mapping[str, Any]) -> Iio:
    """The section `iio`; ValueError if it is invalid."""
    rows = {
        name: parse_event(name, {"pmu": spec["pmu"], **row}) for name, row in spec["events"].items()
    }
    events = {name: row for name, row in rows.items() if isinstance(row, PmuTerms)}
    if len(events) != len(rows) or len(events) > spec["counters"]:
        raise ValueError("the events of iio need `terms`, and a counter each")
    counters, ports = spec["counters"], spec["ports"]
    return Iio(spec["pmu"], counters, ports, spec["first_device"], events)


def check_formulas(formulas: Mapping[str, str], inputs: Iterable[str]) -> None:
    """ValueError unless each formula is valid and uses only inputs and earlier formulas."""
    names = set(inputs)
    for name, text in formulas.items():
        for used in grammar.names(grammar.parse(text)):
            known(used, names, f"the formula of {name}")
        names.add(name)


def known(name: str, names: Collection[str], user: str) -> None:
    """ValueError if the name is unknown."""
    if name not in names:
        raise ValueError(f"{user} names an unknown event: {name}")
