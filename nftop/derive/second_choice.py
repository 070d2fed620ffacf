"""What a pcm-sensor-server gives, in a frame: behind perf's numbers where both have one.

Where both have one they are compared: that others interfere with the counters of either shows as
a difference that stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from nftop.derive.pcm import PcmRates, PcmState, step_pcm
from nftop.derive.pcm_packages import PCIE_METRICS
from nftop.model.column import Bools, Column, from_readings, where
from nftop.model.frame import Accelerator, CpuTable, PackageRow
from nftop.model.ids import format_cpu_list
from nftop.model.pcm import PcmTable
from nftop.model.reading import Missing, Reading, Reason
from nftop.model.sample import SourceReading

ORIGIN = "pcm"
_APART_RATIO, _APART_TICKS = 0.05, 5
_SETTLED = (Reason.IDLE, Reason.UNDEFINED)
_CPU_PAIRS = ("ipc", "frequency_hz")
_PACKAGE_PAIRS = ("memory.read_bytes_per_s", "memory.write_bytes_per_s", "upi.received_bytes_per_s")


@dataclass(frozen=True, slots=True)
class Apart:
    """For how many documents in a row perf and the server have differed, by metric and row."""

    rates: PcmRates | None = None
    documents: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerState:
    """What is known of the server, and of how it differs from perf."""

    pcm: PcmState = field(default_factory=PcmState)
    apart: Apart = field(default_factory=Apart)


@dataclass(frozen=True, slots=True)
class Shown:
    """The parts of a frame that the server has a part in; `remark` is said of the source."""

    cpus: CpuTable
    packages: tuple[PackageRow, ...]
    accelerators: tuple[Accelerator, ...]
    remark: str


def step_server(
    state: ServerState,
    reading: SourceReading[PcmTable] | None,
    table: CpuTable,
    packages: tuple[PackageRow, ...],
) -> tuple[ServerState, Shown]:
    """Fold one document in, behind what has been counted without the server."""
    pcm, rates = step_pcm(state.pcm, reading, table.topology)
    apart, remark = _step_apart(state.apart, table, packages, rates)
    cpus, rows = _with_second_choice(table, packages, rates)
    accelerators = tuple(Accelerator(name, per_s) for name, per_s in rates.accelerators.items())
    why = "" if rates.why is None else rates.why.sentence
    return ServerState(pcm, apart), Shown(cpus, rows, accelerators, remark or why)


def _with_second_choice(
    table: CpuTable, packages: tuple[PackageRow, ...], rates: PcmRates
) -> tuple[CpuTable, tuple[PackageRow, ...]]:
    """CPUs and packages with the server's numbers where there are no others, named as its."""
    columns = dict(table.columns)
    origins = {}
    for name, second in rates.cpus.items():
        first = columns.get(name)
        columns[name] = second if first is None else _first_of(first, second)
        used = second.present if first is None else second.present & _open(first)
        if used.any():
            origins[name] = tuple(ORIGIN if each else None for each in used.tolist())
    rows = tuple(_package(row, index, rates) for index, row in enumerate(packages))
    return replace(table, columns=columns, origins=origins), rows


def _step_apart(
    state: Apart, table: CpuTable, packages: Sequence[PackageRow], rates: PcmRates
) -> tuple[Apart, str]:
    """Compare what perf counted (not yet with the server's in its place) with the server's.

    A sentence where the two have differed by more than 5 % in five documents in a row; "" where
    not. Of CPUs only those are compared that never halted, since IPC of others is that of the
    moments they ran, which are other ones in a tick and in the server's second.
    """
    if rates.why is not None:
        return Apart(), ""
    documents = dict(state.documents)
    if rates is not state.rates:
        for name in _CPU_PAIRS:
            apart = _differ(table.columns[name], rates.cpus[name]) & rates.busy
            documents[name] = _count(documents.get(name), apart)
        for name in _PACKAGE_PAIRS:
            first = _column_of(packages, name)
            documents[name] = _count(documents.get(name), _differ(first, rates.packages[name]))
    said = []
    for name, runs in documents.items():
        rows = np.flatnonzero(runs >= _APART_TICKS).tolist()
        if rows and name in _CPU_PAIRS:
            cpus = [table.topology.cpus[row].cpu for row in rows]
            said.append(f"{name} of CPU {format_cpu_list(cpus)}")
        elif rows:
            said.append(
                f"{name} of package {', '.join(str(packages[row].package) for row in rows)}"
            )
    sentence = (
        f"perf and the server differ by more than 5 % for {_APART_TICKS} s: {', '.join(said)}"
    )
    return Apart(rates, documents), sentence if said else ""


def _package(row: PackageRow, index: int, rates: PcmRates) -> PackageRow:
    readings: dict[str, Reading] = dict(row.readings)
    origins = {}
    for name, column in rates.packages.items():
        first, second = readings.get(name), column[index]
        wanted = isinstance(first, Missing) and first.reason not in _SETTLED
        if first is None or (wanted and not isinstance(second, Missing)):
            readings[name] = second
        if readings[name] is second and not isinstance(second, Missing):
            origins[name] = ORIGIN
        elif isinstance(first, Missing) and isinstance(second, Missing):
            readings[name] = _better(first, second)
    return replace(
        row,
        readings=readings,
        origins=origins,
        # The server counts requests of devices by samples.
        estimates=row.estimates | (origins.keys() & PCIE_METRICS),
        links=row.links or rates.links.get(row.package, ()),
    )


def _first_of(first: Column, second: Column) -> Column:
    """perf's number, else the server's; of two reasons as `_better` has it."""
    gone = (first.reasons == Reason.SOURCE) | (_open(first) & second.present)
    return where(gone, second, first)


def _open(first: Column) -> Bools:
    """bool (n,): where another's number is wanted. Not where it is known that there is none."""
    closed: Bools = np.isin(first.reasons, (Reason.PRESENT, *_SETTLED))
    return ~closed


def _better(first: Missing, second: Missing) -> Missing:
    """Why there is no number: the server's reason where perf is not there at all."""
    return second if first.reason is Reason.SOURCE else first


def _column_of(packages: Sequence[PackageRow], name: str) -> Column:
    readings = {row: package.readings[name] for row, package in enumerate(packages)}
    return from_readings(readings, len(packages), Missing(Reason.SOURCE))


def _differ(first: Column, second: Column) -> Bools:
    both = first.present & second.present
    with np.errstate(invalid="ignore"):
        more = np.abs(first.values - second.values) > _APART_RATIO * np.maximum(
            np.abs(first.values), np.abs(second.values)
        )
    apart: Bools = both & more
    return apart


def _count(before: NDArray[np.int64] | None, apart: Bools) -> NDArray[np.int64]:
    """One more where they differ, 0 where not; after a change of rows from the beginning."""
    if before is None or before.shape != apart.shape:
        before = np.zeros(apart.shape, dtype=np.int64)
    return np.where(apart, before + 1, 0)
