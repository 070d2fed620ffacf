"""CPU columns of a pcm-sensor-server, rows as in its table."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nftop.derive.pcm.values import DocumentPair, scaled, within, without_sentinels
from nftop.model.column import (
    Bools,
    Column,
    Floats,
    column,
    missing,
    product,
    ratio,
    where,
    withhold,
)
from nftop.model.missing import Missing, Reason
from nftop.model.pcm import C_STATES

_NO_TOPDOWN = Missing(Reason.HARDWARE, "the server gives no top-down of this CPU")
_NO_LEVEL_2 = Missing(
    Reason.HARDWARE, "the server gives level 1 of top-down only on this CPU (level 2 from SPR on)"
)
_NO_RDT = Missing(
    Reason.SOURCE,
    "the server reads no RDT monitor: PCM_NO_RDT=1 keeps it off them, or another holds them",
)
_NO_C_STATES = Missing(Reason.HARDWARE, "the server reads 0 for every C-state of this CPU")
# Nodes of the catalogue, by the server's names. It rounds each down to whole percent.
_LEVEL_1 = {
    "frontend_bound": "tma.frontend_bound",
    "bad_speculation": "tma.bad_speculation",
    "backend_bound": "tma.backend_bound",
    "retiring": "tma.retiring",
}
_LEVEL_2 = {
    "fetch_latency_bound": "tma.fetch_latency",
    "fetch_bandwidth_bound": "tma.fetch_bandwidth",
    "branch_misprediction_bound": "tma.branch_mispredicts",
    "machine_clears_bound": "tma.machine_clears",
    "memory_bound": "tma.memory_bound",
    "core_bound": "tma.core_bound",
    "heavy_operations_bound": "tma.heavy_operations",
    "light_operations_bound": "tma.light_operations",
}
# Metrics that perf counts too.
_CORE_STATES = {0: "c0_ratio", 1: "c1_ratio", 3: "c3_ratio", 6: "c6_ratio"}
SHARED_CPU_METRICS = frozenset(
    {"ipc", "frequency_hz", *_LEVEL_1.values(), *_LEVEL_2.values(), *_CORE_STATES.values()}
)
_MIB = 2.0**20
# A poller never halts; what does may have another IPC in each of two seconds.
_ALWAYS = 0.95
_ABOUT_1 = 1.05


def cpu_columns(this: DocumentPair) -> dict[str, Column]:
    """By metric id of the catalogue, scope `cpu`: float64 (n,) and reasons."""
    table = this.table
    instructions, cycles, reference, tsc = (
        _rate(this, name)
        for name in (
            "instructions_retired_any",
            "clock_unhalted_thread",
            "clock_unhalted_ref",
            "invariant_tsc",
        )
    )
    computed = product(ratio(cycles, reference), tsc)
    # The server's own takes the nominal frequency for the TSC's, which is exact.
    frequency = this.average(table.of_cpu("core_frequency"))
    return {
        "ipc": ratio(instructions, cycles),
        "frequency_hz": where(frequency.present, frequency, computed),
        **_topdown(this),
        "l2_hit_ratio": _hit_ratio(this, "l2"),
        "l3_hit_ratio": _hit_ratio(this, "l3"),
        **_rdt(this),
        **{name: residency(this, table.of_cpu, state) for state, name in _CORE_STATES.items()},
        "thermal_headroom_c": without_sentinels(table.of_cpu("thermal_headroom")),
        "smi_per_s": _rate(this, "smi_count", zero_is_one=True),
    }


def always_busy(this: DocumentPair) -> Bools:
    """bool (n,): CPUs that did not halt in the document's interval."""
    reference, tsc = _rate(this, "clock_unhalted_ref"), _rate(this, "invariant_tsc")
    with np.errstate(invalid="ignore"):
        busy: Bools = reference.values >= _ALWAYS * tsc.values
    return busy


def residency(this: DocumentPair, of: Callable[[str], Floats], state: int) -> Column:
    """Share of time in a C-state; `of` reads a field of the table."""
    states = np.array([of(f"cstateresidency_{index}") for index in range(C_STATES)])
    one = within(this.average(states[state], zero_is_one=True), 0.0, _ABOUT_1)
    return one if np.any(states > 0) else withhold(one, one.present, _NO_C_STATES)


def _rate(this: DocumentPair, field: str, *, zero_is_one: bool = False) -> Column:
    return this.rate(lambda table: table.of_cpu(field), zero_is_one=zero_is_one)


def _topdown(this: DocumentPair) -> dict[str, Column]:
    """Whole percent as ratios; all zeros mean that the server can't count it, or an idle core."""
    columns: dict[str, Column] = {}
    for nodes, why in ((_LEVEL_1, _NO_TOPDOWN), (_LEVEL_2, _NO_LEVEL_2)):
        raw = np.array([this.table.of_cpu(field) for field in nodes])
        if not this.table.since_start and not raw.any():
            columns |= dict.fromkeys(nodes.values(), missing(raw.shape[1], why))
            continue
        nothing = ~np.any(raw > 0, axis=0)
        for field, metric in nodes.items():
            percent = this.average(this.table.of_cpu(field), zero_is_one=True)
            node = within(scaled(percent, 0.01), 0.0, _ABOUT_1)
            columns[metric] = withhold(node, nothing & node.present, Missing(Reason.IDLE))
    return columns


def _hit_ratio(this: DocumentPair, cache: str) -> Column:
    hits, misses = (_rate(this, f"{cache}_cache_{end}") for end in ("hits", "misses"))
    both = hits.present & misses.present
    all_of = where(both, column(hits.values + misses.values), where(hits.present, misses, hits))
    return ratio(hits, all_of)


def _rdt(this: DocumentPair) -> dict[str, Column]:
    """RDT monitors of each CPU; the server reports local and remote traffic together."""
    table = this.table
    fields = ("local_memory_bandwidth", "remote_memory_bandwidth")
    some = bool(np.any(np.array([table.of_cpu(field) for field in fields]) > 0))
    local, remote = (_rate(this, field, zero_is_one=some) for field in fields)
    metered = {
        "llc_occupancy_bytes": scaled(
            without_sentinels(table.of_cpu("l3_cache_occupancy")), 1024.0
        ),
        "memory_local_bytes_per_s": scaled(local, _MIB),
        "memory_remote_bytes_per_s": scaled(remote, _MIB),
    }
    return {
        name: withhold(one, one.reasons == Reason.HARDWARE, _NO_RDT)
        for name, one in metered.items()
    }
