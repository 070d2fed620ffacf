"""Numbers of a pcm-sensor-server, by this host's CPUs and packages, as part of the frame.

perf takes precedence; the server fills gaps. Numbers that both have are compared: a persistent
difference shows interference with the counters.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nftop.derive.absence import after_absence
from nftop.derive.cpu.table import CPUS
from nftop.derive.fold_stage import FoldStage, TopologyChange
from nftop.derive.package.power import NO_C3, POWER
from nftop.derive.pcm.cpus import SHARED_CPU_METRICS, always_busy, cpu_columns
from nftop.derive.pcm.packages import (
    PCIE_METRICS,
    SHARED_PACKAGE_METRICS,
    PcieState,
    links,
    package_columns,
    step_pcie,
)
from nftop.derive.pcm.values import DocumentPair
from nftop.model.column import (
    Block,
    Bools,
    Column,
    Floats,
    column,
    from_readings,
    has_reason,
    missing,
    where,
)
from nftop.model.frame import Accelerator, BoxTraffic, CpuTable, PackageRow
from nftop.model.ids import Package, format_cpu_list
from nftop.model.metrics.pcm import PCM_CPU_METRICS, PCM_PACKAGE_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.pcm import ANOTHERS, PcmTable, rows_of
from nftop.model.sample import SourceReading
from nftop.model.struct import dataclass, field, replace
from nftop.model.topology import Topology

# Each metric with the power that it sums up.
_OF_POWER: Mapping[str, str] = {"energy_j": "power_w", "dram_energy_j": "dram_power_w"}
# A gap that counts is no longer than this, or than so many samples where they are far apart.
_LONGEST_S, _LONGEST_SAMPLES = 5.0, 2.5


@dataclass(frozen=True, slots=True)
class EnergyState:
    """Joules so far by metric, float64 (packages,), and the time of the last answer.

    A document covers the last second only, so energy is estimated: power x time since the previous
    answer. Gaps much longer than the sampling interval add nothing. NaN until the first such time.
    """

    at_ns: int | None = None
    joules: Mapping[str, Floats] = field(default_factory=dict)

    def interrupted(self) -> EnergyState:
        """The same, without the time until the next answer."""
        return replace(self, at_ns=None)


def step_energy(
    state: EnergyState, packages: Mapping[str, Column], at_ns: int, pace_s: float
) -> tuple[EnergyState, dict[str, Column]]:
    """Fold the power of packages in: energy by metric id, or the reason of the power.

    `at_ns` is CLOCK_MONOTONIC of the answer, `pace_s` the requested interval. WARMING until two
    answers are close enough.
    """
    passed_s = 0.0 if state.at_ns is None else (at_ns - state.at_ns) / 1e9
    longest_s = max(_LONGEST_S, _LONGEST_SAMPLES * pace_s)
    counts = 0 < passed_s <= longest_s
    begun = Missing(Reason.WARMING)
    if state.joules and not counts:
        begun = Missing(
            Reason.WARMING,
            f"no two answers of the server were within {longest_s:g} s yet, and over longer times "
            "energy is not estimated",
        )
    joules, columns = {}, {}
    for name, of in _OF_POWER.items():
        power = packages[of]
        before = state.joules.get(name)
        sums = np.full(len(power), np.nan) if before is None else before
        if counts:
            more = np.nan_to_num(sums) + power.values * passed_s
            sums = np.where(power.present, more, sums)
        joules[name] = sums
        columns[name] = where(power.present, column(sums, why=begun), power)
    return EnergyState(at_ns, joules), columns


_NOT_READ = Missing(Reason.SOURCE, "only a pcm-sensor-server reports it, and nftop reads none here")
_NOT_ITS = Missing(Reason.SOURCE, "the server does not report this CPU")
# A server whose sampling stands still goes on answering with the last second that it has.
_FROZEN_FROM_S = 10.0


@dataclass(frozen=True, slots=True)
class PcmRates:
    """Rates of a server, rows as in the topology.

    Attributes:
        cpus, packages: by metric id of that scope.
        links: by package, its links to others.
        busy: bool (n_cpu,), CPUs that did not halt in the server's last second.
        accelerators: by device and counter, counts per second.
        why: reason if the server gave nothing, else None.
    """

    cpus: Mapping[str, Column]
    packages: Mapping[str, Column]
    links: Mapping[Package, tuple[BoxTraffic, ...]] = field(default_factory=dict)
    busy: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    accelerators: Mapping[str, Mapping[str, Reading]] = field(default_factory=dict)
    why: Missing | None = None


@dataclass(frozen=True, slots=True)
class PcmState:
    table: PcmTable | None = None
    read_at_ns: int = 0
    changed_at_ns: int = 0
    pcie: PcieState = field(default_factory=PcieState)
    energy: EnergyState = field(default_factory=EnergyState)
    rates: PcmRates | None = None


def step_pcm(
    state: PcmState, reading: SourceReading[PcmTable] | None, topology: Topology, pace_s: float
) -> tuple[PcmState, PcmRates]:
    """Fold one document in; the rates of a document seen before are reused.

    `pace_s` is the sampling interval requested.
    """
    if reading is None:
        return _without(state, _NOT_READ, topology)
    if isinstance(reading.value, Missing):
        return _without(state, reading.value, topology)
    table, at_ns = reading.value, reading.read_at_ns
    if state.table is not None and state.rates is not None:
        # Of totals those with the same clock are the same document, in a recording too.
        same = table.since_start and table.interval_us == state.table.interval_us
        if same or table is state.table or at_ns == state.read_at_ns:
            return state, state.rates
    rows, packages = rows_of(table, topology)
    if rows is None or packages is None:
        return PcmState(), _nothing(topology, ANOTHERS)
    frozen = state.table is not None and np.array_equal(
        state.table.of_cpus, table.of_cpus, equal_nan=True
    )
    changed_at_ns = state.changed_at_ns if frozen else at_ns
    pcie_state, requests = step_pcie(state.pcie, table, at_ns)
    after = PcmState(table, at_ns, changed_at_ns, pcie_state, state.energy)
    if at_ns - changed_at_ns > _FROZEN_FROM_S * 1e9:
        still_s = (at_ns - changed_at_ns) / 1e9
        why = Missing(Reason.STALE, f"the server's numbers stand still, for {still_s:.0f} s now")
        rates = _nothing(topology, why)
        after = replace(after, energy=state.energy.interrupted())
    else:
        this = DocumentPair.of(state.table, table)
        of_packages = _spread(package_columns(this, requests), packages)
        energy, summed = step_energy(state.energy, of_packages, at_ns, pace_s)
        after = replace(after, energy=energy)
        rates = PcmRates(
            cpus=_spread(cpu_columns(this), rows),
            packages={**of_packages, **summed},
            links=_links(this, packages, topology),
            busy=always_busy(this)[np.maximum(rows, 0)] & (rows >= 0),
            accelerators=_accelerators(this),
        )
    return replace(after, rates=rates), rates


def _without(state: PcmState, why: Missing, topology: Topology) -> tuple[PcmState, PcmRates]:
    known = state.rates  # usually the same as in the tick before
    nothing = known if known is not None and known.why == why else _nothing(topology, why)
    gone = PcmState(energy=state.energy.interrupted(), rates=nothing)
    return after_absence(state, gone, why), nothing


def _nothing(topology: Topology, why: Missing) -> PcmRates:
    cpus, packages = (missing(len(item), why) for item in (topology.cpus, topology.packages))
    of_cpus = {metric.id for metric in PCM_CPU_METRICS}
    of_packages = {metric.id for metric in PCM_PACKAGE_METRICS}
    if why.reason is not Reason.SOURCE:  # it is there and fails: where perf is not, that is why
        of_cpus |= SHARED_CPU_METRICS
        of_packages |= SHARED_PACKAGE_METRICS
    return PcmRates(
        cpus=dict.fromkeys(of_cpus, cpus),
        packages=dict.fromkeys(of_packages, packages),
        busy=np.zeros(len(cpus), dtype=np.bool_),
        why=why,
    )


def _spread(columns: Mapping[str, Column], rows: NDArray[np.int64]) -> Mapping[str, Column]:
    """Columns of the server's rows as columns of the topology's rows."""
    block = Block.of(columns)
    if not block.reasons.shape[1]:
        return dict.fromkeys(columns, missing(len(rows), _NOT_ITS))
    absent = np.broadcast_to(rows < 0, (len(block), len(rows)))
    return block.take(np.maximum(rows, 0).tolist()).withheld(absent, _NOT_ITS)


def _links(
    this: DocumentPair, packages: NDArray[np.int64], topology: Topology
) -> Mapping[Package, tuple[BoxTraffic, ...]]:
    by_socket = links(this)
    sockets = this.table.sockets.tolist()
    return {
        package: by_socket[sockets[row]]
        for package, row in zip(topology.packages, packages.tolist(), strict=True)
        if row >= 0 and sockets[row] in by_socket
    }


def _accelerators(this: DocumentPair) -> Mapping[str, Mapping[str, Reading]]:
    """Counts per second; of totals only if both documents have them."""
    before = (
        {} if this.before is None else {name: dict(all_) for name, all_ in this.before.accelerators}
    )
    result: dict[str, Mapping[str, Reading]] = {}
    for device, counters in this.table.accelerators:
        names = [name for name, _ in counters]
        now = np.array([value for _, value in counters], dtype=np.float64)
        old = np.zeros(len(names))
        if this.table.since_start:
            old = np.array([before.get(device, {}).get(name, np.nan) for name in names])
        with np.errstate(invalid="ignore"):
            per_s = np.where(now >= old, (now - old) / this.seconds, np.nan)
        rates = column(per_s, (now < 0) | (now >= 2.0**63), Missing(Reason.WARMING))
        result[device] = {name: rates[index] for index, name in enumerate(names)}
    return result


READINGS = 5
_RATIO = 0.05


def taken(before: Floats | None, first: Floats, second: Floats) -> Floats:
    """Append a pair of readings to float64 (at most READINGS, 2, n).

    `first` and `second` are float64 (n,), NaN if absent. A change of rows starts anew.
    """
    pair = np.array([[first, second]])
    if before is None or before.shape[2] != pair.shape[2]:
        return pair
    return np.concatenate([before[1 - READINGS :], pair])


def differ(readings: Floats, pace_s: float) -> Bools:
    """bool (n,): rows on which two sources disagree; `readings` as from `taken`.

    Both are read every `pace_s` seconds; the first covers all that time, the second one second that
    ended up to one second earlier. At a pace of 1 s their sums over READINGS readings may differ by
    the largest number minus the smallest. The further the pace is from 1 s, the more they may
    differ: by the square of the ratio of both times, at most READINGS times. (With the square,
    noise of 5 % per second gives an alarm in fewer than 1 of 1000 readings.) Beyond that they must
    differ by 5 %, and the same one must be larger in each reading.
    """
    if len(readings) < READINGS:
        return np.zeros(readings.shape[2], dtype=np.bool_)
    first, second = readings[:, 0], readings[:, 1]
    larger, smaller = np.all(first > second, axis=0), np.all(first < second, axis=0)
    pace_s = max(pace_s, 1e-3)
    often = np.clip(max(pace_s, 1 / pace_s) ** 2, 1, READINGS)
    slack = often * np.ptp(readings, axis=0).max(axis=0)
    sums = readings.sum(axis=0)
    # A NaN makes both comparisons above, and so the result, false.
    with np.errstate(invalid="ignore"):
        far = np.abs(sums[0] - sums[1]) - slack > _RATIO * np.abs(sums).max(axis=0)
    apart: Bools = (larger | smaller) & far
    return apart


ORIGIN = "pcm"
_ORIGINS = np.array([None, ORIGIN], np.object_)  # by whether a number is the server's
_SETTLED = (Reason.IDLE, Reason.UNDEFINED)
_KNOWN = (Reason.PRESENT, *_SETTLED)
_CPU_PAIRS = ("ipc", "frequency_hz")
_PACKAGE_PAIRS = (
    "memory.read_bytes_per_s", "memory.write_bytes_per_s", "upi.received_bytes_per_s", "power_w",
    "dram_power_w",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Latest readings of perf and of the server, by metric."""

    rates: PcmRates | None = None
    readings: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerState:
    """`sums`: by package, of each energy that has begun, whether it is the server's."""

    pcm: PcmState = field(default_factory=PcmState)
    disagreement: Disagreement = field(default_factory=Disagreement)
    sums: tuple[Mapping[str, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class ServerOutput:
    """Contribution of the server to a frame.

    Attributes:
        remark: note on the source, including `disagreement`.
        disagreement: of perf and the server, or "".
    """

    cpus: CpuTable
    packages: tuple[PackageRow, ...]
    accelerators: tuple[Accelerator, ...]
    remark: str
    disagreement: str


def step_server(
    state: ServerState,
    reading: SourceReading[PcmTable] | None,
    table: CpuTable,
    packages: tuple[PackageRow, ...],
    others: Collection[str],
    *,
    pace_s: float,
) -> tuple[ServerState, ServerOutput]:
    """Fold one document into the tables counted without the server.

    `pace_s` is the requested interval. `others` are the sources read: without `perf` (cores) or
    `uncore` a missing number has the server's reason, else theirs.
    """
    pcm, rates = step_pcm(state.pcm, reading, table.topology, pace_s)
    disagreement, message = _step_disagreement(state.disagreement, table, packages, rates, pace_s)
    sums = _sums(state.sums, packages, rates)
    cpus, rows = _with_second_choice(table, packages, rates, sums, others)
    accelerators = tuple(Accelerator(name, per_s) for name, per_s in rates.accelerators.items())
    why = "" if rates.why is None else rates.why.message
    return ServerState(pcm, disagreement, sums), ServerOutput(
        cpus, rows, accelerators, message or why, message
    )


_PASSING = (Reason.WARMING, Reason.STALE, Reason.RESET)


def _sums(
    known: Sequence[Mapping[str, bool]], packages: Sequence[PackageRow], rates: PcmRates
) -> tuple[Mapping[str, bool], ...]:
    """As `ServerState.sums`: a sum goes on with the source that it began with.

    The kernel's and the server's have different bases, and a counter that changes its base jumps.
    """
    result = []
    for at, row in enumerate(packages):
        begun = dict(known[at]) if at < len(known) else {}
        for name in _OF_POWER:
            own, server = row.readings.get(name), rates.packages.get(name)
            if name not in begun and isinstance(own, float):
                begun[name] = False
            elif name not in begun and server is not None and server.present[at]:
                begun |= {} if _passes(own) else {name: True}
        result.append(begun)
    return tuple(result)


def _passes(reading: Reading | None) -> bool:
    return isinstance(reading, Missing) and reading.reason in _PASSING


def _with_second_choice(
    table: CpuTable,
    packages: tuple[PackageRow, ...],
    rates: PcmRates,
    sums: Sequence[Mapping[str, bool]],
    others: Collection[str],
) -> tuple[CpuTable, tuple[PackageRow, ...]]:
    """CPUs and packages with the server's numbers where perf has none, and origins."""
    if any(row.readings.get("c3_ratio") == NO_C3 for row in packages):
        # The server's 0 of a state that the CPU lacks is no measurement.
        cpu_rates, of_packages = dict(rates.cpus), dict(rates.packages)
        for rated in (cpu_rates, of_packages):
            rated.pop("c3_ratio", None)
        rates = replace(rates, cpus=cpu_rates, packages=of_packages)
    columns, origins = {**rates.cpus, **table.columns}, {}
    first = Block.of({name: columns[name] for name in rates.cpus})
    second = Block.of(rates.cpus)
    # Absent numbers that the server may fill.
    fills = (second.reasons == Reason.PRESENT) & ~has_reason(first.reasons, _KNOWN)
    replaced = fills if "perf" in others else fills | (first.reasons == Reason.SOURCE)
    for row, name in enumerate(second):
        used = fills[row] if name in table.columns else second[name].present
        columns[name] = where(replaced[row], second[name], columns[name])
        if used.any():
            origins[name] = tuple(_ORIGINS[used.astype(np.intp)].tolist())
    rows = tuple(
        _package(row, index, rates, sums[index], alone="uncore" not in others)
        for index, row in enumerate(packages)
    )
    return replace(table, columns=columns, origins=origins), rows


def _step_disagreement(
    state: Disagreement,
    table: CpuTable,
    packages: Sequence[PackageRow],
    rates: PcmRates,
    pace_s: float,
) -> tuple[Disagreement, str]:
    """Compare perf's own numbers with the server's; a sentence if they disagree."""
    if rates.why is not None:
        return Disagreement(), ""
    readings = dict(state.readings)
    if rates is not state.rates:
        for name in _CPU_PAIRS:
            busy = np.where(rates.busy, table.columns[name].values, np.nan)
            readings[name] = taken(readings.get(name), busy, rates.cpus[name].values)
        for name in _PACKAGE_PAIRS:
            first, second = _column_of(packages, name), rates.packages[name]
            readings[name] = taken(readings.get(name), first.values, second.values)
    clauses = []
    for name, reading in readings.items():
        rows = np.flatnonzero(differ(reading, pace_s)).tolist()
        if rows and name in _CPU_PAIRS:
            cpus = [table.topology.cpus[row].cpu for row in rows]
            clauses.append(f"{name} of CPU {format_cpu_list(cpus)}")
        elif rows:
            clauses.append(
                f"{name} of package {', '.join(str(packages[row].package) for row in rows)}"
            )
    sentence = (
        f"perf and the server differ by more than 5 % in {READINGS} readings: {', '.join(clauses)}"
    )
    return Disagreement(rates, readings), sentence if clauses else ""


def _package(
    row: PackageRow, index: int, rates: PcmRates, sums: Mapping[str, bool], *, alone: bool
) -> PackageRow:
    readings: dict[str, Reading] = dict(row.readings)
    origins = {}
    for name, server in rates.packages.items():
        first, second = None if sums.get(name) else readings.get(name), server[index]
        wanted = isinstance(first, Missing) and first.reason not in _SETTLED
        wanted = wanted and name not in _OF_POWER
        if first is None or (wanted and not isinstance(second, Missing)):
            readings[name] = second
        if readings[name] is second and not isinstance(second, Missing):
            origins[name] = ORIGIN
        elif isinstance(first, Missing) and isinstance(second, Missing):
            readings[name] = _better(first, second, alone=alone)
    if rates.why is not None:
        readings |= {name: rates.why for name, server in sums.items() if server}
    links = () if row.links else rates.links.get(row.package, ())
    return replace(
        row,
        readings=readings,
        origins=origins | ({"links": ORIGIN} if links else {}),
        # The server counts requests of devices by samples.
        estimates=row.estimates | (origins.keys() & PCIE_METRICS),
        sampled_s={name: age_s for name, age_s in row.sampled_s.items() if name not in origins},
        links=row.links or links,
    )


def _better(first: Missing, second: Missing, *, alone: bool) -> Missing:
    """Reason to show: the server's if perf is not available at all."""
    return second if alone and first.reason is Reason.SOURCE else first


def _column_of(packages: Sequence[PackageRow], name: str) -> Column:
    readings = {row: package.readings[name] for row, package in enumerate(packages)}
    return from_readings(readings, len(packages), Missing(Reason.SOURCE))


SERVER: FoldStage[ServerState, ServerOutput] = FoldStage(
    "server",
    ServerState,
    lambda state, tick: step_server(
        state,
        tick.sample.readings.get("pcm"),
        tick.output(CPUS),
        tick.output(POWER).packages,
        tick.sample.readings.keys(),
        pace_s=tick.pace_s,
    ),
    reset_on=TopologyChange.PACKAGES,
)
