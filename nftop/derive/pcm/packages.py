"""Package metrics of a pcm-sensor-server, rows as in its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from nftop.derive.pcm.cpus import residency
from nftop.derive.pcm.values import DocumentPair, within, without_sentinels
from nftop.model.column import Bools, Column, Floats, column, from_readings, missing
from nftop.model.frame import BoxTraffic
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.pcm import PcmTable, column_of
from nftop.model.struct import dataclass, field

_NO_LINKS = Missing(Reason.SOURCE, "the server reports no links between packages")
_NOT_DATA_ALONE = Missing(
    Reason.SOURCE,
    "the server counts what goes out with all that is no data: see upi.outgoing_bytes_per_s",
)
_NO_EVENT = Missing(Reason.SOURCE, "the server counts no such requests on this CPU")
_NO_ENDS = Missing(Reason.SOURCE, "the server counts hits and misses together")
_INCOMING, _OUTGOING = "incoming_data_traffic", "outgoing_data_and_non_data_traffic"
_PACKAGE_STATES = {0: "c0_ratio", 2: "c2_ratio", 3: "c3_ratio", 6: "c6_ratio"}
_RATES = {
    "memory.read_bytes_per_s": "dram_reads",
    "memory.write_bytes_per_s": "dram_writes",
    "memory.persistent_read_bytes_per_s": "persistent_memory_reads",
    "memory.persistent_write_bytes_per_s": "persistent_memory_writes",
    "power_w": "package_joules_consumed",
    "dram_power_w": "dram_joules_consumed",
}
# Metrics by the requests that they add up, each with a factor; as in the uncore tables of
# `uarch`, not as the server's own "PCIe Read Bytes", which on SKX adds RFO, CRd and DRd to reads.
_REQUESTS: Mapping[str, tuple[float, tuple[str, ...]]] = {
    "pcie.pcirdcur.total_per_s": (1, ("pcirdcur",)),
    "pcie.itom.total_per_s": (1, ("itom",)),
    "pcie.itomcachenear.total_per_s": (1, ("itomcachenear",)),
    "pcie.rfo.total_per_s": (1, ("rfo",)),
    "pcie.crd.total_per_s": (1, ("crd",)),
    "pcie.drd.total_per_s": (1, ("drd",)),
    "mmio.read_per_s": (1, ("prd", "ucrdf")),
    "mmio.write_per_s": (1, ("wil",)),
    "mmio.combined_write_per_s": (1, ("wcil", "wcilf")),
    "pcie.read_bytes_per_s": (64, ("pcirdcur",)),
    "pcie.write_bytes_per_s": (64, ("itom", "itomcachenear", "rfo")),
}
PCIE_METRICS = frozenset(_REQUESTS)
# Metrics that perf counts too.
SHARED_PACKAGE_METRICS = PCIE_METRICS | {
    "memory.read_bytes_per_s",
    "memory.write_bytes_per_s",
    "upi.received_bytes_per_s",
    "power_w",
    "energy_j",
    "dram_power_w",
    "dram_energy_j",
    *_PACKAGE_STATES.values(),
}
_ENDS = tuple(
    f"pcie.{opcode}.{end}_per_s"
    for opcode in ("itom", "rfo", "pcirdcur", "itomcachenear", "crd", "drd")
    for end in ("hit", "miss")
)


def package_columns(this: DocumentPair, pcie: Column | Floats) -> dict[str, Column]:
    """By metric id of the catalogue, scope `package`: float64 (s,) and reasons.

    `pcie` is requests per second, float64 (s, len(table.events)), or why there are none.
    """
    table = this.table
    local = this.average(table.of_package("local_memory_request_ratio"), 0.01)
    sockets = len(table.sockets)
    return {
        **{name: _rate(this, field) for name, field in _RATES.items()},
        "memory.local_ratio": within(local, -0.05, 1.05),
        "uncore_frequency_hz": this.average(table.of_package("uncore_frequency_die_0")),
        "thermal_headroom_c": _least_headroom(this),
        **{
            name: residency(this, table.of_package, state)
            for state, name in _PACKAGE_STATES.items()
        },
        "upi.received_bytes_per_s": _over_links(this, _INCOMING),
        "upi.outgoing_bytes_per_s": _over_links(this, _OUTGOING),
        "upi.sent_bytes_per_s": missing(sockets, _NOT_DATA_ALONE),
        **_pcie(pcie, table.events, sockets),
    }


def links(this: DocumentPair) -> Mapping[int, tuple[BoxTraffic, ...]]:
    """Links by the server's number of a package, ascending."""
    incoming = this.rate(lambda table: table.of_link(_INCOMING))
    result: dict[int, list[BoxTraffic]] = {}
    for row, (socket, number) in enumerate(this.table.links.tolist()):
        result.setdefault(socket, []).append(BoxTraffic(number, incoming[row], _NOT_DATA_ALONE))
    return {socket: tuple(boxes) for socket, boxes in result.items()}


def _rate(this: DocumentPair, field: str) -> Column:
    return this.rate(lambda table: table.of_package(field))


def _over_links(this: DocumentPair, field: str) -> Column:
    """Sum over a package's links, or the first reason."""
    one = this.rate(lambda table: table.of_link(field))
    rows: list[Reading] = []
    for socket in this.table.sockets.tolist():
        mine = np.flatnonzero(this.table.links[:, 0] == socket)
        gone = mine[~one.present[mine]]
        if not len(mine):
            rows.append(_NO_LINKS)
        else:
            rows.append(one[int(gone[0])] if len(gone) else float(one.values[mine].sum()))
    return _column(rows)


def _least_headroom(this: DocumentPair) -> Column:
    """Headroom of the hottest core; PCM has none of a package."""
    cores = without_sentinels(this.table.of_cpu("thermal_headroom"))
    rows: list[Reading] = []
    for socket in this.table.sockets.tolist():
        mine = np.flatnonzero(this.table.packages == socket)
        values = cores.values[mine][cores.present[mine]]
        if len(values):
            rows.append(float(values.min()))
        else:
            rows.append(cores[int(mine[0])] if len(mine) else Missing(Reason.SOURCE))
    return _column(rows)


def _pcie(requests: Column | Floats, names: tuple[str, ...], sockets: int) -> dict[str, Column]:
    """Metrics of requests; SOURCE for events that this CPU does not have."""
    absent = dict.fromkeys(_ENDS, missing(sockets, _NO_ENDS))
    if isinstance(requests, Column):
        return {**absent, **dict.fromkeys(_REQUESTS, requests)}
    result = {}
    for name, (factor, events) in _REQUESTS.items():
        counts = np.column_stack([column_of(requests, names, event) for event in events])
        none: Bools = np.all(np.isnan(counts), axis=1)
        total = factor * np.where(np.isnan(counts), 0.0, counts).sum(axis=1)
        result[name] = column(total, none, _NO_EVENT)
    return {**absent, **result}


def _column(readings: Sequence[Reading]) -> Column:
    return from_readings(dict(enumerate(readings)), len(readings), Missing(Reason.SOURCE))


# Device requests per second, from the server's totals.
#
# The server samples them: its collector counts for one second, adds that to its totals, and sleeps
# for two. So its totals grow by one second's requests about every three seconds, in steps; `/` and
# `/persecond` have the same totals. Each step therefore stands for one second; whether a server
# sleeps is inferred from the pace of its steps.
#
# Proof, in Intel PCM from its commit ff8b74cf of 2026-03-03 to June 2026: src/pcm-pcie-collector.h,
# PCIeCollector: `collect()` reads an IPlatform created with a delay of 1000 ms, adds what it gives
# to the totals, then its thread waits 2000 ms (`kDefaultIntervalMs`); src/pcm-pcie.h,
# LegacyPlatform: each of n groups of events is counted for 1000 / n ms and multiplied by n;
# src/pcm-sensor-server.cpp, `printPCIeCounterState()` prints the totals, whatever the path. Of each
# step, where the server rests.
_SAMPLE_S = 1.0
# Steps closer than this are of a server that does not rest between them.
_RESTING_FROM_S = 2.6
# Without steps for so long, there are no requests.
_IDLE_FROM_S = 10.0
# So many steps are kept: from as many on, and mostly from four on, polls once a second are sure of
# the pace of a server that rests.
_STEPS, _LEAST_STEPS = 7, 3
_NO_COLLECTOR = Missing(
    Reason.SOURCE, "this build of the server does not report it (upstream's do from March 2026 on)"
)
_NOT_COUNTED = Missing(Reason.HARDWARE, "the server's counters of devices' requests stay at 0")
_WARMING = Missing(
    Reason.WARMING,
    "the server counts devices' requests by samples, and three or more are needed to know its pace",
)
_PACE_UNSEEN = Missing(
    Reason.SOURCE,
    "the server counts devices' requests by samples, whose pace shows only at intervals of 1 s",
)
_RESTARTED = Missing(Reason.RESET, "the server's totals of devices' requests restarted")


@dataclass(frozen=True, slots=True)
class TotalsStep:
    """An increase of the totals, between `since_ns` and `seen_ns` (reads of two documents).

    `totals`: float64 (s, e).
    """

    seen_ns: int
    since_ns: int
    totals: Floats


@dataclass(frozen=True, slots=True)
class PcieState:
    """State of the totals.

    Attributes:
        table: the last document; at_ns: CLOCK_MONOTONIC of its read.
        steps: of the totals, newest last; at most `_STEPS`.
        rests: whether the server sleeps between its samples; None if unknown.
        late: the last document was so late that a step may have been missed.
    """

    table: PcmTable | None = None
    at_ns: int = 0
    steps: tuple[TotalsStep, ...] = field(default=())
    rests: bool | None = None
    still_since_ns: int = 0
    late: bool = False


def step_pcie(state: PcieState, table: PcmTable, at_ns: int) -> tuple[PcieState, Floats | Column]:
    """Fold one document in: requests per second, float64 (s, e), or a column of reasons."""
    before, sockets = state.table, len(table.sockets)
    why = _uncounted(table)
    if why is not None:
        return PcieState(), missing(sockets, why)
    if before is None or not before.same_layout(table) or _odd(before.pcie, table.pcie):
        restarted = before is not None and before.same_layout(table)
        first = PcieState(table, at_ns, still_since_ns=at_ns)
        return first, missing(sockets, _RESTARTED if restarted else _WARMING)
    after = _gone_on(state, before, table, at_ns)
    if at_ns - after.still_since_ns > _IDLE_FROM_S * 1e9:
        return after, np.where(np.isnan(table.pcie), np.nan, 0.0)
    if len(after.steps) < _LEAST_STEPS or after.rests is None:
        # Once may be a gap, behind which it will be seen again.
        unseen = (state.late and after.late) or (
            len(after.steps) >= _LEAST_STEPS and not _shows_pace(state, at_ns)
        )
        return after, missing(sockets, _PACE_UNSEEN if unseen else _WARMING)
    oldest, newest = after.steps[0], after.steps[-1]
    elapsed_s = (newest.seen_ns - oldest.seen_ns) / 1e9
    counted_s = (len(after.steps) - 1) * _SAMPLE_S if after.rests else elapsed_s
    return after, (newest.totals - oldest.totals) / counted_s


def _uncounted(table: PcmTable) -> Missing | None:
    """Why the server has no totals at all, or None."""
    if np.isnan(table.pcie).all():
        return _NO_COLLECTOR
    return None if np.any(table.pcie > 0) else _NOT_COUNTED


def _gone_on(state: PcieState, before: PcmTable, table: PcmTable, at_ns: int) -> PcieState:
    steps, still_since_ns, rests = state.steps, state.still_since_ns, state.rests
    late = at_ns - state.at_ns >= _RESTING_FROM_S * 1e9
    if late:
        steps, rests = (), None  # there may have been a step meanwhile that was not seen
    if not np.array_equal(before.pcie, table.pcie, equal_nan=True):
        if at_ns - still_since_ns > _IDLE_FROM_S * 1e9:
            steps = ()  # the time before was another one
        steps = (*steps[-_STEPS + 1 :], TotalsStep(at_ns, state.at_ns, table.pcie))
        still_since_ns = at_ns
    if len(steps) >= _LEAST_STEPS and _shows_pace(state, at_ns):
        sure = _rests(steps)
        rests = rests if sure is None else sure
    return PcieState(table, at_ns, steps, rests, still_since_ns, late)


def _shows_pace(state: PcieState, at_ns: int) -> bool:
    """Whether the previous document is recent enough to time steps."""
    return at_ns - state.at_ns < _RESTING_FROM_S / 2 * 1e9


def _rests(steps: tuple[TotalsStep, ...]) -> bool | None:
    """Whether the server sleeps between its samples, by bounds of the mean time between steps."""
    first, last, intervals = steps[0], steps[-1], len(steps) - 1
    if (last.since_ns - first.seen_ns) / 1e9 / intervals >= _RESTING_FROM_S:
        return True
    if (last.seen_ns - first.since_ns) / 1e9 / intervals < _RESTING_FROM_S:
        return False
    return None


def _odd(before: Floats, after: Floats) -> bool:
    """Whether totals stepped back, appeared, disappeared or are impossible."""
    same = np.array_equal(np.isnan(before), np.isnan(after))
    with np.errstate(invalid="ignore"):
        return not same or bool(np.any((after < before) | (after < 0) | (after >= 2.0**63)))
