"""Classes, frequencies of cores, the history of changes, and experiments as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nftop.control.cpufreq.policies import CoreSettings
from nftop.control.journal_entry import Entry
from nftop.export.json.changes_of import change_object
from nftop.export.json.encode import json_bytes, picked
from nftop.model.change import Receipt
from nftop.model.experiment import (
    Curve,
    Estimate,
    Experiment,
    NfEffect,
    SettingResult,
    TryDifference,
    Visit,
)
from nftop.model.footprint import CacheUse, Footprint, FootprintRow
from nftop.model.missing import Missing
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import CacheDomain, GroupCache, ResctrlGroup, ResctrlTable
from nftop.model.sst import SstPackage, SstState

if TYPE_CHECKING:  # numpy comes with it
    from nftop.derive.experiment.engine import ExperimentState

CLASSES_SCHEMA, CHANGE_SCHEMA = "nftop.cat/1", "nftop.change/1"
EXPERIMENT_SCHEMA = "nftop.experiment/1"
FOOTPRINT_SCHEMA = "nftop.footprint/1"


def classes_json(table: ResctrlTable, *, simulated: bool = False, unfinished: str = "") -> str:
    """One object: `groups`, `domains` (the caches and their ways of I/O), `mba_unit`, `notes`.

    `io_alloc`: `enabled`, `disabled`, or null where the kernel does not offer it.
    Masks are hexadecimal texts; what is absent is null. `unfinished`: message on a pending change.
    """
    return json_bytes(
        {
            "schema": CLASSES_SCHEMA,
            "simulated": simulated,
            "mba_unit": table.mba_unit,
            "groups": list(map(_group, table.groups)),
            "domains": list(map(_domain, table.domains)),
            "io_alloc": {None: None, False: "disabled", True: "enabled"}[table.limits.io_alloc],
            "notes": table.gaps or None,
            "unfinished": unfinished or None,
        }
    ).decode()


def change_json(
    entry: Entry,
    *,
    simulated: bool = False,
    unfinished: str = "",
    undone_by: tuple[int, bool] | None = None,
) -> str:
    """One object for one change of the history.

    `unfinished`: message on a pending change; its `outcome` is null unless it is complete.
    `undone_by`: the number of the change that undid it, and whether only in part.
    """
    return json_bytes(
        {
            "schema": CHANGE_SCHEMA,
            "simulated": simulated,
            **picked(entry, "number time operator"),
            "command": entry.command or None,
            "outcome": entry.outcome,
            "unfinished": unfinished or None,
            **picked(entry, "verified undoes leaves left"),
            "undone_by": undone_by and undone_by[0],
            "undone_in_part": undone_by is not None and undone_by[1],
            "changes": [change_object(change) for change in entry.changes],
        }
    ).decode()


def _domain(domain: CacheDomain) -> dict[str, Any]:
    io = domain.io
    return {
        **picked(domain, "l3 ways size_bytes"),
        "io": None if isinstance(io, Missing) else io.cbm.hex,
        "io_provenance": io.message if isinstance(io, Missing) else io.provenance,
    }


def _group(group: ResctrlGroup) -> dict[str, Any]:
    return {
        **picked(group, "name owner clos"),
        "mode": group.mode or None,
        "cpus": list(group.cpus),
        "threads": list(group.tasks),
        "l3": {str(cache.l3): _cache(cache) for cache in group.caches},
        "l2": {str(item.l2): {"cbm": item.cbm.hex, "code": _hex(item.code)} for item in group.l2},
        "monitors": [picked(monitor, "name cpus") for monitor in group.monitors],
    }


def _cache(cache: GroupCache) -> dict[str, Any]:
    return {
        "cbm": None if isinstance(cache.cbm, Missing) else cache.cbm.hex,
        "code": _hex(cache.code),
        "mba": None if isinstance(cache.mba, Missing) else cache.mba,
    }


def _hex(mask: Cbm | None) -> str | None:
    return None if mask is None else mask.hex


def experiment_json(
    plan: Experiment,
    state: ExperimentState,
    curve: Curve,
    receipt: Receipt,
    *,
    simulated: bool = False,
) -> str:
    """One object: the plan, every visit, the curve by setting, and whether all is as before.

    Ratios are 0..1; what is absent is null. `recommended`, `tolerated`: indices in `settings`.
    """
    return json_bytes(
        {
            "schema": EXPERIMENT_SCHEMA,
            "simulated": simulated,
            "kind": plan.kind,
            "group": plan.group or None,
            "of_io": plan.of_io,
            "seed": plan.seed,
            "rounds_least": plan.rounds_least,
            "rounds_most": plan.rounds_most,
            "measure_s": plan.timing.measure_s,
            "limits": _limits(plan, state),
            "watch": [
                {"key": key, "name": name, "own": key in plan.own}
                for key, name in plan.watch.items()
            ],
            "settings": [
                {
                    "label": setting.label,
                    "ways": setting.ways or None,
                    "masks": {str(l3): f"{bits:x}" for l3, bits in setting.masks.items()},
                    "io": {str(l3): f"{bits:x}" for l3, bits in setting.io.items()},
                    "shared": {
                        str(l3): {name: f"{bits:x}" for name, bits in classes.items()}
                        for l3, classes in setting.shared.items()
                    },
                    "changes": [change_object(change) for change in setting.changes],
                }
                for setting in plan.settings
            ],
            "left_out": list(plan.left_out),
            "ends": [end or None for end in plan.ends],
            "polled": {name: list(nfs) for name, nfs in plan.polled.items()},
            "visits": [_visit(visit) for visit in state.visits],
            "curve": [_result(item) for item in curve.results],
            "differences": [_difference(item) for item in _differences(plan, state)],
            "recommended": curve.recommended,
            "tolerated": curve.tolerated,
            "tolerance_ratio": plan.tolerance_ratio,
            "decided": curve.decided,
            "undecided": list(curve.undecided),
            "ended": state.ended,
            "detail": state.detail or None,
            "outcome": receipt.outcome,
            "code": receipt.code,
            "sentences": list(receipt.sentences),
        }
    ).decode()


def _differences(plan: Experiment, state: ExperimentState) -> Sequence[TryDifference]:
    from nftop.derive.experiment.curve import differences  # noqa: PLC0415 - numpy comes with it

    return differences(plan, state.visits) if plan.kind == "try" else ()


def _difference(item: TryDifference) -> dict[str, Any]:
    return {
        **picked(item, "kind name metric word"),
        "now": _known(item.now),
        "then": _known(item.then),
        "change": _known(item.change),
        "half": _known(item.half),
    }


def _limits(plan: Experiment, state: ExperimentState) -> dict[str, Any]:
    """Harm limits; that on drops is known once the baseline is measured."""
    from nftop.derive.experiment.engine import drop_limit  # noqa: PLC0415 - numpy comes with it

    given = plan.limits.drop_packets_per_s
    most = drop_limit(plan, state.visits[0]) if state.visits else given
    return {
        "drop_packets_per_s": None if most is None else _known(most),
        "drop_ratio": None if given is not None else plan.limits.drop_ratio,
        "cpp_ratio": plan.limits.cpp_ratio,
    }


def _visit(visit: Visit) -> dict[str, Any]:
    return {
        "setting": visit.setting if visit.round else None,
        "round": visit.round,
        "settling": visit.settling,
        "settle_s": (visit.settled_ns - visit.written_ns) / 1e9,
        "measure_s": (visit.end_ns - visit.settled_ns) / 1e9,
        "nfs": {
            key: {
                "packets_per_s": _known(nf.packets_per_s),
                "drop_packets_per_s": _known(nf.drop_packets_per_s),
                "lost_ratio": _known(nf.lost_ratio),
                "cpp": _known(nf.cpp),
                "cpp_is_bound": nf.cpp_is_bound,
                "busy_cpp": _known(nf.busy_cpp),
                "full_cpp": _known(nf.full_cpp),
                "clock": nf.clock or None,
                "llc_misses_per_packet": _known(nf.llc_misses_per_packet),
            }
            for key, nf in visit.nfs.items()
        },
        "occupancy_bytes": _known(visit.occupancy_bytes),
        "memory_bytes_per_s": _known(visit.memory_bytes_per_s),
        "ipc": _known(visit.ipc),
        "io_hit_ratio": _known(visit.io_hit_ratio),
    }


def _result(item: SettingResult) -> dict[str, Any]:
    return {
        "setting": item.setting,
        "visits": item.visits,
        "moving_visits": item.moving,
        "effect": item.effect,
        "nfs": {key: _nf(nf) for key, nf in item.nfs.items()},
        "occupancy_bytes": _known(item.occupancy_bytes),
        "memory_bytes_per_s": _known(item.memory_bytes_per_s),
        "ipc": _known(item.ipc),
        "io_hit_ratio": _known(item.io_hit_ratio),
    }


def _nf(nf: NfEffect) -> dict[str, Any]:
    return {
        "packets_per_s": _estimate(nf.packets_per_s),
        "cpp": _estimate(nf.cpp),
        "cpp_is_bound": nf.cpp_is_bound,
        "drop_packets_per_s": _known(nf.drop_packets_per_s),
        "llc_misses_per_packet": _known(nf.llc_misses_per_packet),
        "cost_ratio": _known(nf.cost_ratio),
        "cost_basis": nf.cost_basis,
        "lost_ratio": _known(nf.lost_ratio),
        "effect": nf.effect,
        "tolerated": nf.tolerated,
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {"value": _known(estimate.value), "half": _known(estimate.half)}


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def footprint_json(
    footprint: Footprint, receipt: Receipt | None, *, complete: bool, simulated: bool = False
) -> str:
    """One object: `footprint_object`, whether it is complete, and whether all is as before.

    `outcome` is null if nothing was written.
    """
    return json_bytes(
        {
            "schema": FOOTPRINT_SCHEMA,
            "simulated": simulated,
            **footprint_object(footprint),
            "complete": complete,
            "outcome": None if receipt is None else receipt.outcome,
            "code": None if receipt is None else receipt.code,
            "sentences": [] if receipt is None else list(receipt.sentences),
        }
    ).decode()


def footprint_object(footprint: Footprint) -> dict[str, Any]:
    """A row for each network function and cache; bytes, and what is absent is null."""
    return {
        "min_bits": footprint.min_bits,
        "way_bytes": {str(l3): size for l3, size in footprint.way_bytes.items()},
        "rows": [_footprint_row(footprint, row) for row in footprint.rows],
    }


def _footprint_row(footprint: Footprint, row: FootprintRow) -> dict[str, Any]:
    subject = row.subject
    absent = isinstance(subject.counter, Missing)
    return {
        **picked(subject, "key name l3 group"),
        "counter": None if absent else subject.counter,
        "why": subject.counter.message if isinstance(subject.counter, Missing) else None,
        "together": _cache_use(row.together),
        "own": _cache_use(row.own),
        "own_why": subject.own.message if isinstance(subject.own, Missing) else None,
        "needs_ways": footprint.ways(row),
        "may_want_more": None if row.best is None else row.at_least,
    }


def _cache_use(use: CacheUse | None) -> dict[str, Any] | None:
    if use is None:
        return None
    names = (
        "capacity_bytes typical_bytes most_bytes typical_bytes_per_s most_bytes_per_s packets_per_s"
    )
    return {
        "cbm": f"{use.bits:x}",
        "shared": f"{use.shared:x}",
        **{name: _known(value) for name, value in picked(use, names).items()},
        **picked(use, "readings still"),
    }


SST_SCHEMA = "nftop.sst/1"


def cores_json(
    cores: Sequence[CoreSettings],
    keepers: Sequence[str],
    state: SstState | Missing,
    *,
    simulated: bool = False,
    unfinished: str = "",
) -> str:
    """One object: `cpus`, `packages`, `others` (programs that set frequencies here).

    What is absent is null; `missing` says why `packages` of intel-speed-select are.
    """
    classes = {} if isinstance(state, Missing) else state.cp_class
    return json_bytes(
        {
            "schema": SST_SCHEMA,
            "simulated": simulated,
            "cpus": [_core(core, classes.get(core.cpu)) for core in cores],
            "packages": None if isinstance(state, Missing) else list(map(_package, state.packages)),
            "missing": {"packages": state.message} if isinstance(state, Missing) else {},
            "others": list(keepers),
            "unfinished": unfinished or None,
        }
    ).decode()


def _core(core: CoreSettings, cp_class: int | None) -> dict[str, Any]:
    return {
        "cpu": core.cpu,
        "siblings": list(core.siblings),
        "together": list(core.together),
        "driver": core.driver or None,
        "sst_priority": core.priority,
        "base_frequency_hz": _hz(core.base_khz),
        "min_hz": _hz(core.min_khz),
        "max_hz": _hz(core.max_khz),
        "hardware_min_hz": _hz(core.least_khz),
        "hardware_max_hz": _hz(core.most_khz),
        **picked(core, "governor epp pinned"),
        "sst_cp_class": cp_class,
    }


def _package(row: SstPackage) -> dict[str, Any]:
    return {
        **picked(row, "package die level"),
        "sst_bf": row.bf,
        "sst_bf_supported": row.bf_supported,
        "sst_cp": row.cp,
        "sst_cp_supported": row.cp_supported,
    }


def _hz(khz: int | None) -> int | None:
    return None if khz is None else khz * 1000
