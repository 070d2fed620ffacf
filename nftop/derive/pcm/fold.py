"""A pcm-sensor-server's documents brought to this host's CPUs and packages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from nftop.derive.absence import after_absence
from nftop.derive.pcm.cpus import SHARED_CPU_METRICS, always_busy, cpu_columns
from nftop.derive.pcm.energy import EnergyState, step_energy
from nftop.derive.pcm.packages import SHARED_PACKAGE_METRICS, links, package_columns
from nftop.derive.pcm.pcie import PcieState, step_pcie
from nftop.derive.pcm.values import Told
from nftop.model.column import Bools, Column, column, missing, where
from nftop.model.frame import BoxTraffic
from nftop.model.ids import Package
from nftop.model.metrics.pcm import PCM_CPU_METRICS, PCM_PACKAGE_METRICS
from nftop.model.pcm import PcmTable
from nftop.model.pcm_places import ANOTHERS, places
from nftop.model.reading import Missing, Reading, Reason
from nftop.model.sample import SourceReading
from nftop.model.topology import Topology

_NOT_READ = Missing(Reason.SOURCE, "only a pcm-sensor-server tells it, and nftop reads none here")
_NOT_ITS = Missing(Reason.SOURCE, "the server does not tell of this CPU")
# A server whose sampling stands still goes on answering with the last second that it has.
_FROZEN_FROM_S = 10.0


@dataclass(frozen=True, slots=True)
class PcmRates:
    """What a server gives, rows as in the topology.

    Attributes:
        cpus: by metric id of the catalogue, scope `cpu`.
        packages: by metric id, scope `package`.
        links: by package, its links to others.
        busy: bool (n_cpu,), CPUs that have not halted in the server's last second.
        accelerators: by device and counter, counts per second.
        why: why there is nothing; None where there is.
    """

    cpus: Mapping[str, Column]
    packages: Mapping[str, Column]
    links: Mapping[Package, tuple[BoxTraffic, ...]] = field(default_factory=dict)
    busy: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    accelerators: Mapping[str, Mapping[str, Reading]] = field(default_factory=dict)
    why: Missing | None = None


@dataclass(frozen=True, slots=True)
class PcmState:
    """The last document that was rated, when it was read, and what it gave."""

    table: PcmTable | None = None
    read_at_ns: int = 0
    changed_at_ns: int = 0
    pcie: PcieState = field(default_factory=PcieState)
    energy: EnergyState = field(default_factory=EnergyState)
    rates: PcmRates | None = None


def step_pcm(
    state: PcmState, reading: SourceReading[PcmTable] | None, topology: Topology, pace_s: float
) -> tuple[PcmState, PcmRates]:
    """Fold one document in. A document seen before keeps what it gave.

    `pace_s` is the seconds from sample to sample that were asked for.
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
    rows, packages = places(table, topology)
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
        this = Told.of(state.table, table)
        of_packages = {
            name: _spread(one, packages) for name, one in package_columns(this, requests).items()
        }
        energy, summed = step_energy(state.energy, of_packages, at_ns, pace_s)
        after = replace(after, energy=energy)
        rates = PcmRates(
            cpus={name: _spread(one, rows) for name, one in cpu_columns(this).items()},
            packages=of_packages | summed,
            links=_links(this, packages, topology),
            busy=_spread_busy(always_busy(this), rows),
            accelerators=_accelerators(this),
        )
    return replace(after, rates=rates), rates


def _without(state: PcmState, why: Missing, topology: Topology) -> tuple[PcmState, PcmRates]:
    known = state.rates  # mostly the same as in the tick before, and made once
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


def _spread(one: Column, rows: NDArray[np.int64]) -> Column:
    """A column of the server's rows as one of the topology's."""
    if not len(one):
        return missing(len(rows), _NOT_ITS)
    taken = np.maximum(rows, 0)
    details = {}
    if one.details:
        pairs = enumerate(rows.tolist())
        details = {new: one.details[old] for new, old in pairs if old in one.details}
    column_of = Column(one.values[taken], one.reasons[taken], details, one.by_reason)
    return column_of if (rows >= 0).all() else where(rows >= 0, column_of,
                                                     missing(len(rows), _NOT_ITS))  # fmt: skip


def _spread_busy(busy: Bools, rows: NDArray[np.int64]) -> Bools:
    spread: Bools = busy[np.maximum(rows, 0)] & (rows >= 0)
    return spread


def _links(
    this: Told, packages: NDArray[np.int64], topology: Topology
) -> Mapping[Package, tuple[BoxTraffic, ...]]:
    by_socket = links(this)
    sockets = this.table.sockets.tolist()
    return {
        package: by_socket[sockets[row]]
        for package, row in zip(topology.packages, packages.tolist(), strict=True)
        if row >= 0 and sockets[row] in by_socket
    }


def _accelerators(this: Told) -> Mapping[str, Mapping[str, Reading]]:
    """Counts per second; of totals only where both documents have them."""
    before = {} if this.before is None else {name: dict(all_) for name, all_ in
                                             this.before.accelerators}  # fmt: skip
    found: dict[str, Mapping[str, Reading]] = {}
    for device, counters in this.table.accelerators:
        names = [name for name, _ in counters]
        now = np.array([value for _, value in counters], dtype=np.float64)
        old = np.zeros(len(names))
        if this.table.since_start:
            old = np.array([before.get(device, {}).get(name, np.nan) for name in names])
        with np.errstate(invalid="ignore"):
            per_s = np.where(now >= old, (now - old) / this.seconds, np.nan)
        rates = column(per_s, (now < 0) | (now >= 2.0**63), Missing(Reason.WARMING))
        found[device] = {name: rates[index] for index, name in enumerate(names)}
    return found
