"""What a table computes a metric from, in words: formulas, and events as perf takes them."""

from __future__ import annotations

from collections.abc import Mapping

from nftop.uarch.events import PERF_TYPES, RAW_FIELDS, Encoding, EventSpec
from nftop.uarch.formula import compile_formula
from nftop.uarch.sections import BUSIEST, THREADS
from nftop.uarch.table import Uarch

_NODE, _SLOTS = "tma.", "slots_per_cycle"
_WORDS = {THREADS: "online threads of the core"}
_TYPES = {number: name for name, number in PERF_TYPES.items()}


def definition(uarch: Uarch, metric: str, *, smt: bool) -> tuple[tuple[str, str], ...]:
    """Pairs of a name and what it is: the metric's formula, its terms, its events.

    An event is the vendor's name, where it has one, and its encoding. Other metrics that the
    formula reads are but named. Empty where the table has no formula for the metric's id.
    """
    formulas, name = _formulas(uarch, metric, smt=smt)
    if name not in formulas:
        return ()
    specs = dict(uarch.events)
    for unit in uarch.uncore:
        specs |= unit.events
    nodes = frozenset() if uarch.topdown is None else uarch.topdown.nodes.keys()
    said = {metric: _plain(formulas[name])}
    events: dict[str, str] = {}
    waiting = list(compile_formula(formulas[name]).names)
    while waiting:
        each = waiting.pop(0)
        if each in said or each in events:
            continue
        if each in specs:
            vendor = uarch.vendor_names.get(each, "")
            events[each] = f"{vendor} {perf_name(specs[each])}".strip()
        elif each in _WORDS or each.startswith(BUSIEST):
            said[each] = _WORDS.get(each, "of a core's threads that count which is the largest")
        elif each == _SLOTS and uarch.topdown is not None:
            said[each] = str(uarch.topdown.slots_per_cycle)
        elif each in formulas and each not in nodes:
            said[each] = _plain(formulas[each])
            waiting += compile_formula(formulas[each]).names
    return (*said.items(), *events.items())


def perf_name(spec: EventSpec, name: str = "") -> str:
    """The event as `perf stat -e` takes it: `cpu/event=0x3c,umask=0x0/`, `slots`.

    `name` is what perf is to call it, where it does not stand for itself.
    """
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
    """The formulas among which the metric's is, and its name there."""
    if metric.startswith(_NODE):
        topdown = uarch.topdown
        return ({} if topdown is None else topdown.formulas(smt=smt)), metric.removeprefix(_NODE)
    return (uarch.traffic if metric in uarch.traffic else uarch.probes), metric


def _plain(formula: str) -> str:
    return " ".join(formula.split())
