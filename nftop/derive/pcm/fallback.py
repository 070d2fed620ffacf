"""What a pcm-sensor-server gives, in a frame: behind perf's numbers where both have one.

Where both have one they are compared: that others interfere with the counters of either shows as
a difference that stays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from nftop.derive.pcm.disagreement import READINGS, differ, taken
from nftop.derive.pcm.fold import PcmRates, PcmState, step_pcm
from nftop.derive.pcm.packages import PCIE_METRICS
from nftop.model.column import Bools, Column, Floats, from_readings, where
from nftop.model.frame import Accelerator, CpuTable, PackageRow
from nftop.model.ids import format_cpu_list
from nftop.model.pcm import PcmTable
from nftop.model.reading import Missing, Reading, Reason
from nftop.model.sample import SourceReading

ORIGIN = "pcm"
_SETTLED = (Reason.IDLE, Reason.UNDEFINED)
_SETTLED_NUMBERS = tuple(np.uint8(reason) for reason in _SETTLED)
_CPU_PAIRS = ("ipc", "frequency_hz")
_PACKAGE_PAIRS = ("memory.read_bytes_per_s", "memory.write_bytes_per_s", "upi.received_bytes_per_s")


@dataclass(frozen=True, slots=True)
class Apart:
    """What perf and the server told last, by metric as `derive.apart` has it."""

    rates: PcmRates | None = None
    readings: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerState:
    """What is known of the server, and of how it differs from perf."""

    pcm: PcmState = field(default_factory=PcmState)
    apart: Apart = field(default_factory=Apart)


@dataclass(frozen=True, slots=True)
class Shown:
    """The parts of a frame that the server has a part in.

    `apart` says how perf's numbers and the server's differ, "" where they don't; `remark`, which is
    said of the source, has that too.
    """

    cpus: CpuTable
    packages: tuple[PackageRow, ...]
    accelerators: tuple[Accelerator, ...]
    remark: str
    apart: str


def step_server(
    state: ServerState,
    reading: SourceReading[PcmTable] | None,
    table: CpuTable,
    packages: tuple[PackageRow, ...],
    others: Collection[str],
    *,
    pace_s: float,
) -> tuple[ServerState, Shown]:
    """Fold one document in, behind what has been counted without the server.

    `pace_s` is the seconds from sample to sample that were asked for.
    `others` are the sources that were read. Where none counts cores (`perf`), or what is outside
    them (`uncore`), a number that the server lacks too has the server's reason; else theirs, which
    says what may be done about it.
    """
    pcm, rates = step_pcm(state.pcm, reading, table.topology, pace_s)
    apart, said = _step_apart(state.apart, table, packages, rates, pace_s)
    cpus, rows = _with_second_choice(table, packages, rates, others)
    accelerators = tuple(Accelerator(name, per_s) for name, per_s in rates.accelerators.items())
    why = "" if rates.why is None else rates.why.message
    return ServerState(pcm, apart), Shown(cpus, rows, accelerators, said or why, said)


def _with_second_choice(
    table: CpuTable, packages: tuple[PackageRow, ...], rates: PcmRates, others: Collection[str]
) -> tuple[CpuTable, tuple[PackageRow, ...]]:
    """CPUs and packages with the server's numbers where there are no others, named as its."""
    columns = dict(table.columns)
    origins = {}
    for name, second in rates.cpus.items():
        first = columns.get(name)
        columns[name] = (
            second if first is None else _first_of(first, second, alone="perf" not in others)
        )
        used = second.present if first is None else second.present & _open(first)
        if used.any():
            origins[name] = tuple(ORIGIN if item else None for item in used.tolist())
    rows = tuple(
        _package(row, index, rates, alone="uncore" not in others)
        for index, row in enumerate(packages)
    )
    return replace(table, columns=columns, origins=origins), rows


def _step_apart(
    state: Apart, table: CpuTable, packages: Sequence[PackageRow], rates: PcmRates, pace_s: float
) -> tuple[Apart, str]:
    """Compare what perf counted (not yet with the server's in its place) with the server's.

    A sentence where the two have differed by more than 5 % in five documents in a row; "" where
    not. Of CPUs only those are compared that never halted, since IPC of others is that of the
    moments they ran, which are other ones in a tick and in the server's second.
    """
    if rates.why is not None:
        return Apart(), ""
    readings = dict(state.readings)
    if rates is not state.rates:
        for name in _CPU_PAIRS:
            busy = np.where(rates.busy, table.columns[name].values, np.nan)
            readings[name] = taken(readings.get(name), busy, rates.cpus[name].values)
        for name in _PACKAGE_PAIRS:
            first, second = _column_of(packages, name), rates.packages[name]
            readings[name] = taken(readings.get(name), first.values, second.values)
    said = []
    for name, reading in readings.items():
        rows = np.flatnonzero(differ(reading, pace_s)).tolist()
        if rows and name in _CPU_PAIRS:
            cpus = [table.topology.cpus[row].cpu for row in rows]
            said.append(f"{name} of CPU {format_cpu_list(cpus)}")
        elif rows:
            said.append(
                f"{name} of package {', '.join(str(packages[row].package) for row in rows)}"
            )
    sentence = (
        f"perf and the server differ by more than 5 % in {READINGS} readings: {', '.join(said)}"
    )
    return Apart(rates, readings), sentence if said else ""


def _package(row: PackageRow, index: int, rates: PcmRates, *, alone: bool) -> PackageRow:
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
            readings[name] = _better(first, second, alone=alone)
    links = () if row.links else rates.links.get(row.package, ())
    return replace(
        row,
        readings=readings,
        origins=origins | ({"links": ORIGIN} if links else {}),
        # The server counts requests of devices by samples.
        estimates=row.estimates | (origins.keys() & PCIE_METRICS),
        links=row.links or links,
    )


def _first_of(first: Column, second: Column, *, alone: bool) -> Column:
    """perf's number, else the server's; of two reasons as `_better` has it."""
    gone = _open(first) & second.present
    if alone:
        gone |= first.reasons == Reason.SOURCE
    return where(gone, second, first) if gone.any() else first


def _open(first: Column) -> Bools:
    """bool (n,): where another's number is wanted. Not where it is known that there is none."""
    # np.isin takes ten times as long, and every column is asked in every tick.
    wanted = ~first.present
    for reason in _SETTLED_NUMBERS:
        wanted &= first.reasons != reason
    return wanted


def _better(first: Missing, second: Missing, *, alone: bool) -> Missing:
    """Why there is no number: the server's reason where perf is not there at all."""
    return second if alone and first.reason is Reason.SOURCE else first


def _column_of(packages: Sequence[PackageRow], name: str) -> Column:
    readings = {row: package.readings[name] for row, package in enumerate(packages)}
    return from_readings(readings, len(packages), Missing(Reason.SOURCE))
