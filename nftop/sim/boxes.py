"""What the boxes outside a package's cores count: each its share of the package's traffic.

Shares of a quantity are whole numbers that sum to the package's; they never go back.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nftop.model.sample import Counts
from nftop.model.struct import dataclass
from nftop.sim.model import Model
from nftop.sim.workloads import INDEX, QUANTITIES
from nftop.uarch.table import PmuTerms

# What is known of a package beyond the sum over its CPUs: lines that go over its links, and ticks
# of the clocks that its boxes and its memory run at, which every box counts by itself.
_LINKS, _CLOCKS = ("link_lines_sent", "link_lines_received"), ("uncore_clocks", "memory_clocks")
OF_PACKAGE: tuple[str, ...] = (*QUANTITIES, *_LINKS, *_CLOCKS)
OF_PACKAGE_INDEX: Mapping[str, int] = MappingProxyType({n: i for i, n in enumerate(OF_PACKAGE)})
# 2.4 GHz, and DDR4-2666: ticks in so many nanoseconds.
_TICKS = ((12, 5), (4, 3))
# Whose boxes are another's.
_SAME_BOXES: Mapping[str, str] = MappingProxyType({"CLX": "SKX", "HSX": "BDX", "EMR": "SPR"})


@dataclass(frozen=True, slots=True)
class _Unit:
    """One PMU of a microarchitecture; `boxes` None: as many as cores."""

    boxes: int | None
    numbers: tuple[int, ...]
    weights: tuple[int, ...]
    memory: bool
    events: Mapping[frozenset[tuple[str, int]], Mapping[str, int]]


def pmus(uarch: str) -> tuple[str, ...]:
    """The PMUs that are known of a microarchitecture, by their sysfs names without numbers.

    Raises:
        KeyError: none is known of it.
    """
    return tuple(_units(uarch))


def boxes(model: Model, pmu: str, uarch: str) -> tuple[int, ...]:
    """The numbers of a PMU's boxes, the same in each package; KeyError if there is no such PMU."""
    unit = _units(uarch)[pmu]
    cpus = model.layout.topology.cpus
    cores = {info.core: info.package for info in cpus}
    largest = max(list(cores.values()).count(package) for package in set(cores.values()))
    return unit.numbers or tuple(range(largest if unit.boxes is None else unit.boxes))


def parts_of_box(event: PmuTerms, uarch: str) -> Mapping[str, int] | None:
    """The quantities of `OF_PACKAGE` that an event counts, with a factor each.

    None: the host has no such event. KeyError: no PMU is known of this microarchitecture.
    """
    unit = _units(uarch).get(event.pmu)
    return None if unit is None else unit.events.get(_terms(event.terms))


def package_counts(model: Model, t_ns: int) -> Counts:
    """What all boxes of a package count together until `t_ns`: uint64 (packages, k).

    k as in `OF_PACKAGE`, packages as in the topology.
    """
    counts = model.counts(t_ns)
    cpus = model.layout.topology.cpus
    of = np.array([-1 if info.package is None else info.package for info in cpus])
    packages = model.layout.topology.packages
    total = np.zeros((len(packages), len(OF_PACKAGE)), dtype=np.uint64)
    for row, package in enumerate(packages):
        total[row, : len(QUANTITIES)] = counts[of == package].sum(axis=0)
    # What a package's devices write elsewhere leaves it, as does what others read here.
    writes, reads = (total[:, INDEX[name]] for name in ("remote_writes", "remote_reads"))
    if len(packages) > 1:
        total[:, OF_PACKAGE_INDEX["link_lines_sent"]] = writes + (reads.sum() - reads)
        total[:, OF_PACKAGE_INDEX["link_lines_received"]] = reads + (writes.sum() - writes)
    for name, (ticks, ns) in zip(_CLOCKS, _TICKS, strict=True):
        total[:, OF_PACKAGE_INDEX[name]] = t_ns * ticks // ns
    return total


def box_counts(model: Model, t_ns: int, pmu: str, uarch: str) -> Counts:
    """What each box counts until `t_ns`: uint64 (packages, boxes, k); k as in `OF_PACKAGE`."""
    total = package_counts(model, t_ns)
    weights = box_weights(model, pmu, uarch)
    shares = weighted(total, weights)
    for name in _CLOCKS:
        shares[:, :, OF_PACKAGE_INDEX[name]] = total[:, None, OF_PACKAGE_INDEX[name]]
    return shares


def box_weights(model: Model, pmu: str, uarch: str) -> tuple[int, ...]:
    """In which proportion the boxes of a PMU share its package's traffic."""
    unit = _units(uarch)[pmu]
    weights = unit.weights or (1,) * len(boxes(model, pmu, uarch))
    unit_weights = iter(model.scenario.channel_weights) if unit.memory else iter(())
    return tuple(next(unit_weights, 1) if weight else 0 for weight in weights)


def weighted(totals: Counts, weights: Sequence[int]) -> Counts:
    """`totals` (m, k) in shares by whole weights, of which one is not 0: uint64 (m, boxes, k)."""
    parts = sum(weights)
    slots = (totals[:, None, :] + np.arange(parts, dtype=np.uint64)[:, None]) // np.uint64(parts)
    before = np.zeros((len(totals), parts + 1, totals.shape[1]), dtype=np.uint64)
    np.cumsum(slots, axis=1, out=before[:, 1:])
    ends: NDArray[np.int64] = np.cumsum(np.array(weights, dtype=np.int64))
    shares: Counts = before[:, ends] - before[:, ends - np.array(weights, dtype=np.int64)]
    return shares


def _terms(text: str) -> frozenset[tuple[str, int]]:
    """An event's terms with their values; a term alone is 1, and what is 0 need not be said."""
    pairs = (term.partition("=") for term in text.split(",") if term)
    fields = ((name, int(value or "1", 0)) for name, _, value in pairs)
    return frozenset((name, value) for name, value in fields if value)


@functools.cache
def _units(uarch: str) -> Mapping[str, _Unit]:
    text = (resources.files(__package__) / "boxes.toml").read_text(encoding="utf-8")
    raw = tomllib.loads(text)
    rows = raw[_SAME_BOXES.get(uarch, uarch)]
    bases = {pmu: raw[row["as"]][pmu] if "as" in row else {} for pmu, row in rows.items()}
    return {pmu: _unit({**bases[pmu], **row}) for pmu, row in rows.items()}


def _unit(row: Mapping[str, Any]) -> _Unit:
    return _Unit(
        boxes=None if row["boxes"] == "cores" else row["boxes"],
        numbers=tuple(row.get("numbers", ())),
        weights=tuple(row.get("weights", ())),
        memory=row.get("memory", False),
        events={
            _terms(terms): MappingProxyType({counted: 1} if isinstance(counted, str) else counted)
            for terms, counted in row["events"].items()
        },
    )
