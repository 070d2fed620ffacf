"""Explanations of a table's events and formulas, and the `perf stat` command for `nftop tma`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np

from nftop.model.column import Column, column
from nftop.model.missing import Reason
from nftop.uarch.events import PERF_TYPES, RAW_FIELDS, Encoding, EventSpec, PmuTerms
from nftop.uarch.formula import compile_formula
from nftop.uarch.sections import BUSIEST, THREADS
from nftop.uarch.table import Uarch
from nftop.uarch.topdown import CLOCKS, DEEPEST, evaluate, events_read

_NODE, _SLOTS = "tma.", "slots_per_cycle"
_WORDS = {THREADS: "online threads of the core"}
_TYPES = {number: name for name, number in PERF_TYPES.items()}


def definition(uarch: Uarch, metric: str, *, smt: bool) -> tuple[tuple[str, str], ...]:
    """Pairs of name and definition: the metric's formula, its terms and its events.

    An event has the vendor's name, if any, and its encoding. Other metrics in the formula are only
    named. Empty if the table has no formula for the metric.
    """
    formulas, name = _formulas(uarch, metric, smt=smt)
    if name not in formulas:
        return ()
    specs = dict(uarch.events)
    for unit in uarch.uncore:
        specs |= unit.events
    nodes = frozenset() if uarch.topdown is None else uarch.topdown.nodes.keys()
    definitions = {metric: _plain(formulas[name])}
    events: dict[str, str] = {}
    waiting = list(compile_formula(formulas[name]).names)
    while waiting:
        term = waiting.pop(0)
        if term in definitions or term in events:
            continue
        if term in specs:
            vendor = uarch.vendor_names.get(term, "")
            events[term] = f"{vendor} {perf_name(specs[term])}".strip()
        elif term in _WORDS or term.startswith(BUSIEST):
            definitions[term] = _WORDS.get(
                term, "of a core's threads that count which is the largest"
            )
        elif term == _SLOTS and uarch.topdown is not None:
            definitions[term] = str(uarch.topdown.slots_per_cycle)
        elif term in formulas and term not in nodes:
            definitions[term] = _plain(formulas[term])
            waiting += compile_formula(formulas[term]).names
    return (*definitions.items(), *events.items())


def perf_name(spec: EventSpec, name: str = "") -> str:
    """The event for `perf stat -e`, as `cpu/event=0x3c,umask=0x0/`, `slots`; `name` labels it."""
    if not isinstance(spec, Encoding):
        alone = spec.pmu == "cpu" and "=" not in spec.terms
        named = f"{spec.terms},name={name}" if name else spec.terms
        return spec.terms if alone else f"{spec.pmu}/{named}/"
    if _TYPES[spec.pmu_type] != "raw":
        return f"{_TYPES[spec.pmu_type]}/config={spec.config:#x}/"
    fields = {field: (spec.config >> low) % 2**width for field, (low, width) in RAW_FIELDS.items()}
    terms = [f"{field}={value:#x}" for field, value in fields.items() if value or field == "event"]
    terms += [f"offcore_rsp={spec.config1:#x}"] if spec.config1 else []
    terms += [f"name={name}"] if name else []
    return f"cpu/{','.join(terms)}/"


def _formulas(uarch: Uarch, metric: str, *, smt: bool) -> tuple[Mapping[str, str], str]:
    """The formulas that contain the metric's, and its name among them."""
    if metric.startswith(_NODE):
        topdown = uarch.topdown
        return ({} if topdown is None else topdown.formulas(smt=smt)), metric.removeprefix(_NODE)
    return (uarch.traffic if metric in uarch.traffic else uarch.probes), metric


def _plain(formula: str) -> str:
    return " ".join(formula.split())


PlannedGroup = tuple[str, ...]
_NAME = re.compile(r"[A-Za-z0-9_.]+")
_LEVELS = 2


def groups_to_count(
    uarch: Uarch, *, smt: bool
) -> tuple[tuple[PlannedGroup, ...], tuple[PlannedGroup, ...]]:
    """Groups of events for levels 1 and 2 of top-down, and further ones for what is below.

    Those of the table's best plan and focus, each with its clock and without unused events. A
    further group has events needed only because another program's counts lack the core's busiest
    thread. Empty for a table without top-down.
    """
    if uarch.topdown is None:
        return (), ()
    read = frozenset().union(*events_read(uarch.topdown.formulas(smt=smt)).values())
    wanted = {name for name in read if _is_of_core(uarch, name)}
    clock = next(item for item in CLOCKS if item in uarch.events)
    plan = uarch.with_smt(on=smt).plans[0]
    main = _of_use(plan.groups, wanted, clock)
    more = [name for name in uarch.events if name in wanted]
    main += _what_else(uarch, main, more, clock, smt=smt, levels=_LEVELS)
    known = {name for group in main for name in group}
    deep = _of_use(uarch.deep_groups, wanted - known, clock)
    deep += _what_else(uarch, main + deep, more, clock, smt=smt, levels=DEEPEST)
    return main, deep


def takes_all_counters(uarch: Uarch, groups: Iterable[PlannedGroup], *, smt: bool) -> bool:
    """Whether a group needs every general counter, so that the NMI watchdog prevents it."""
    counters = uarch.counters
    if counters is None:
        return False
    fixed = frozenset().union(*counters.fixed)
    room = counters.general_smt_on if smt else counters.general_smt_off
    taken = (sum(not _is_free(uarch, name, fixed) for name in group) for group in groups)
    return max(taken, default=0) >= room


def _is_free(uarch: Uarch, name: str, fixed: frozenset[str]) -> bool:
    """Whether it needs no general counter: PERF_METRICS are read with the slots."""
    spec = uarch.events[name]
    return name in fixed or (isinstance(spec, PmuTerms) and "=" not in spec.terms)


def perf_group(uarch: Uarch, group: PlannedGroup) -> str:
    """A group for `perf stat -e`, with the vendor's names as far as perf allows."""
    names = (uarch.vendor_names.get(item, item) for item in group)
    events = (
        perf_name(uarch.events[item], name if _NAME.fullmatch(name) else item)
        for item, name in zip(group, names, strict=True)
    )
    return f"{{{','.join(events)}}}"


def _is_of_core(uarch: Uarch, name: str) -> bool:
    spec = uarch.events.get(name)
    if isinstance(spec, Encoding):
        return spec.pmu_type == PERF_TYPES["raw"]
    return spec is not None and spec.pmu == "cpu"


def _of_use(
    groups: tuple[PlannedGroup, ...], wanted: set[str], clock: str
) -> tuple[PlannedGroup, ...]:
    """The groups restricted to wanted events and the clock, without empty ones."""
    kept = [tuple(name for name in group if name in wanted or name == clock) for group in groups]
    useful = [group for group in kept if set(group) & wanted - {clock}]
    return tuple(group if clock in group else (*group, clock) for group in useful)


def _what_else(
    uarch: Uarch,
    groups: tuple[PlannedGroup, ...],
    more: list[str],
    clock: str,
    *,
    smt: bool,
    levels: int,
) -> tuple[PlannedGroup, ...]:
    """A group of events, with the clock, that give further nodes a number."""
    counted = {name for group in groups for name in group}
    lacking: list[str] = []
    least = _without_number(uarch, counted, smt=smt, levels=levels)
    for name in (name for name in more if name not in counted):
        left = _without_number(uarch, {*counted, *lacking, name}, smt=smt, levels=levels)
        if left < least:
            least, lacking = left, [*lacking, name]
    return ((clock, *lacking),) if lacking else ()


def _without_number(uarch: Uarch, counted: set[str], *, smt: bool, levels: int) -> int:
    """Number of nodes that lack an event."""
    one: dict[str, Column] = {name: column(np.array([1.0])) for name in sorted(counted)}
    nodes = evaluate(uarch, one, smt=smt, levels=levels)
    return sum(Reason(int(node.reasons[0])) is Reason.SOURCE for node in nodes.values())
