"""The table of CPUs: counters, kernel times and NF rates brought together, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nftop.derive.counters import CounterRates, frequency_hz
from nftop.derive.nf import NfCore, NfRates, total
from nftop.derive.threads import NF_ROLES, ThreadRate
from nftop.model.column import Bools, Column, column, first_of, from_readings, missing, ratio, where
from nftop.model.frame import CpuTable
from nftop.model.reading import Missing, Reading, Reason
from nftop.model.topology import Topology

NO_NF = Missing(Reason.UNDEFINED, "no network function polls on this CPU")
_ALWAYS_BUSY = Missing(
    Reason.SOURCE, "only the program itself knows; the kernel sees a poller as always busy"
)


@dataclass(slots=True)
class Occupant:
    """Who polls on one CPU: the cores of known NFs, and threads that poll for others."""

    cores: list[tuple[NfRates, NfCore]] = field(default_factory=list)
    threads: list[ThreadRate] = field(default_factory=list)

    @property
    def thread(self) -> str:
        """The first poller's thread name, and how many more there are."""
        names = [core.thread for _, core in self.cores] or [
            rate.thread.comm for rate in self.threads
        ]
        others = max(len(self.threads), len(names)) - 1
        return f"{names[0]} +{others}" if others > 0 else names[0]

    @property
    def nf(self) -> str | None:
        """The NF it works for; None for a poller that no table knows as one."""
        names = [nf.name for nf, _ in self.cores] or [
            rate.thread.program for rate in self.threads if rate.thread.role in NF_ROLES
        ]
        return names[0] if names else None


@dataclass(frozen=True, slots=True)
class Cycles:
    """Cycles per second of every CPU and the clock that counted them."""

    per_s: Column
    clock: tuple[str | None, ...]


def occupants(
    topology: Topology, nfs: Sequence[NfRates], threads: Sequence[ThreadRate]
) -> Mapping[int, Occupant]:
    """Pollers by row of the topology; rows without one are absent."""
    found: dict[int, Occupant] = {}
    for nf in nfs:
        for core in nf.cores:
            row = topology.row_of.get(core.cpu)
            if row is not None:
                found.setdefault(row, Occupant()).cores.append((nf, core))
    for rate in threads:
        row = topology.row_of.get(rate.cpu) if rate.cpu is not None else None
        if row is not None and rate.polls:
            found.setdefault(row, Occupant()).threads.append(rate)
    return found


def count_cycles(rates: CounterRates, pollers: Mapping[int, Occupant]) -> Cycles:
    """Core cycles where they are counted, else the TSC's, else what the NF counted itself."""
    core, tsc = rates.rate("cycles"), rates.rate("tsc")
    rows = len(core)
    own = from_readings(
        {
            row: total(nf_core.nf_cycles_per_s for _, nf_core in who.cores)
            for row, who in pollers.items()
            if who.cores
        },
        rows,
        Missing(Reason.SOURCE),
    )
    clock = np.full(rows, None, dtype=object)
    clock[own.present] = "nf"
    clock[tsc.present] = "tsc"
    clock[core.present] = "core"
    return Cycles(first_of(first_of(core, tsc), own), tuple(clock))


def cpu_table(
    topology: Topology,
    *,
    online: tuple[bool, ...],
    rates: CounterRates,
    times: Mapping[str, Column],
    pollers: Mapping[int, Occupant],
    unattached: Missing,
) -> CpuTable:
    """One row per CPU.

    Args:
        topology: gives the rows.
        online: which of them run.
        rates: of the counter groups.
        times: the columns of `cputime.METRICS`.
        pollers: who polls where.
        unattached: why a poller's packets are unknown where no NF source attached to it.
    """
    rows = len(topology.cpus)
    polled = np.zeros(rows, dtype=np.bool_)
    polled[list(pollers)] = True
    cycles = count_cycles(rates, pollers)
    packets = from_readings(_packets(pollers, unattached), rows, NO_NF)
    busy = from_readings(_busy(pollers), rows, NO_NF)
    cpp = _of_nf(polled, ratio(cycles.per_s, packets))
    columns = {
        "busy_ratio": where(polled, busy, times["cpu_time_ratio"]),
        "rx_packets_per_s": packets,
        "ipc": ratio(rates.rate("instructions"), rates.rate("cycles")),
        "cpp": cpp,
        "busy_cpp": _of_nf(polled, _times(cpp, busy)),
        "ipp": _of_nf(polled, ratio(rates.rate("instructions"), packets)),
        "llc_misses_per_packet": _of_nf(polled, ratio(rates.rate("llc_misses"), packets)),
        "run_ratio": from_readings(_threads(pollers, "run_ratio", min), rows, NO_NF),
        "wait_ratio": from_readings(_threads(pollers, "wait_ratio", max), rows, NO_NF),
        "context_switches_per_s": rates.rate("context_switches"),
        "frequency_hz": frequency_hz(rates),
        "tsc_hz": rates.rate("tsc"),
        "coverage": rates.coverage,
        **times,
    }
    return CpuTable(
        topology=topology,
        online=online,
        thread=tuple(pollers[row].thread if row in pollers else None for row in range(rows)),
        nf=tuple(pollers[row].nf if row in pollers else None for row in range(rows)),
        cpp_clock=tuple(
            clock if has_packets else None
            for clock, has_packets in zip(cycles.clock, cpp.present, strict=True)
        ),
        attribution=tuple(_attribution(pollers.get(row)) for row in range(rows)),
        columns=columns,
    )


def _packets(pollers: Mapping[int, Occupant], unattached: Missing) -> dict[int, Reading]:
    return {
        row: total((core.packets_per_s for _, core in who.cores), of_nothing=unattached)
        for row, who in pollers.items()
    }


def _busy(pollers: Mapping[int, Occupant]) -> dict[int, Reading]:
    """Of a core that several NFs share, their busy times do not add up: each counts the other's."""
    return {
        row: who.cores[0][1].busy_ratio if len(who.cores) == 1 else _ALWAYS_BUSY
        for row, who in pollers.items()
    }


def _threads(
    pollers: Mapping[int, Occupant], share: str, worst: Callable[[Iterable[float]], float]
) -> dict[int, Reading]:
    readings: dict[int, Reading] = {}
    for row, who in pollers.items():
        shares: list[Reading] = [getattr(rate, share) for rate in who.threads]
        numbers = [each for each in shares if not isinstance(each, Missing)]
        if numbers:
            readings[row] = worst(numbers)
        else:
            readings[row] = shares[0] if shares else Missing(Reason.SOURCE, "its thread is hidden")
    return readings


def _attribution(who: Occupant | None) -> str:
    return "" if who is None else "; ".join(f"{nf.name}: {nf.attribution}" for nf, _ in who.cores)


def _of_nf(polled: Bools, values: Column) -> Column:
    return where(polled, values, missing(len(values), NO_NF))


def _times(one: Column, other: Column) -> Column:
    both = one.present & other.present
    return where(both, column(one.values * other.values), where(one.present, other, one))
