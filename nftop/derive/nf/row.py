"""The row of a network function: its packets and what its cores spent on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nftop.derive.nf.rates import NfRates
from nftop.derive.occupants import Cycles, Occupant, OwnTime, own_clock, own_cycles, own_times
from nftop.derive.packet_cost import cost_per_packet
from nftop.derive.saturation import UNKNOWN, Saturation, saturation_of, saturation_of_all
from nftop.model.column import Column
from nftop.model.frame import Clock, Frame, NfRow
from nftop.model.ids import format_cpu_list
from nftop.model.missing import Missing, Reading, Reason, product, quotient, total
from nftop.model.struct import dataclass
from nftop.model.topology import Topology

_NO_POLLER = Missing(Reason.IDLE, "no thread of it polls; it may not have been started")
_MIXED = Missing(
    Reason.SOURCE, "its cores count by different clocks, and their cycles do not add up"
)


def nf_row(
    nf: NfRates,
    topology: Topology,
    cycles: Cycles,
    counted: tuple[Column, Column],
    pollers: Mapping[int, Occupant],
    *,
    of_all_nfs: Mapping[int, OwnTime | None],
    times: Mapping[str, Column],
) -> NfRow:
    """Packets as the NF counts them; CPP, busy CPP, IPP and IPC over all its polling cores.

    Of different clocks the sum is of TSC cycles, if all cores have them. Lcores of one CPU share
    its cycles, which count once. Of a shared CPU its threads' cycles count, and no instructions.

    Args:
        nf: its rates.
        topology: gives the rows.
        cycles: of every CPU.
        counted: core cycles and instructions per second.
        pollers: by row.
        of_all_nfs: `own_times` of all network functions, by row.
        times: columns of `cpu.time.METRICS`.
    """
    rows = sorted({topology.row_of[core.cpu] for core in nf.cores if core.cpu in topology.row_of})
    here = {row: pollers[row] for row in rows if row in pollers}
    own = own_times(here, times, nf, of_all_nfs)
    why_not = _why_not(nf, topology, here, own)
    reasons = (occupant.shared(own[row], nf) for row, occupant in here.items())
    shared = next(filter(None, reasons), None)
    all_cycles, busy_cycles, clock = _cycles(nf, topology, cycles, rows, own)
    all_cycles, busy_cycles = why_not or all_cycles, why_not or busy_cycles
    core_cycles, instructions = (
        why_not or shared or total((column[row] for row in rows), _NO_POLLER) for column in counted
    )
    saturations = (saturation_of(core, nf.direction) for core in nf.cores)
    full = UNKNOWN if why_not else saturation_of_all(saturations)
    readings = {
        "rx_packets_per_s": nf.rx_packets_per_s,
        "tx_packets_per_s": nf.tx_packets_per_s,
        "cpp": cost_per_packet(all_cycles, nf.packets_per_s),
        "busy_cpp": cost_per_packet(busy_cycles, nf.packets_per_s),
        "ipp": cost_per_packet(instructions, nf.packets_per_s),
        "ipc": quotient(instructions, core_cycles),
    }
    return _row(nf, readings, clock, full=full, shared=shared)


def _row(
    nf: NfRates,
    readings: Mapping[str, Reading],
    clock: Clock | None,
    *,
    full: Saturation,
    shared: Missing | None,
) -> NfRow:
    return NfRow(
        key=nf.key,
        name=nf.name,
        kind=nf.kind,
        pid=nf.pid,
        cpus=tuple(sorted({core.cpu for core in nf.cores})),
        direction=nf.direction,
        cpp_clock=None if isinstance(readings["cpp"], Missing) else clock,
        saturated=full.verdict,
        saturated_by=full.by,
        interval_s=nf.interval_s,
        attribution=nf.attribution,
        problem=nf.problem,
        owner=nf.owner,
        shared=shared,
        readings=readings,
        sampled_s=nf.sampled_s,
    )


def _cycles(
    nf: NfRates,
    topology: Topology,
    cycles: Cycles,
    rows: Sequence[int],
    own: Mapping[int, OwnTime | None],
) -> tuple[Reading, Reading, Clock | None]:
    """Cycles per second of its cores, those of work, and their common clock."""
    clocks = {cycles.clock[row] for row in rows}
    if len(clocks) > 1 and cycles.tsc_per_s.present[rows].all():
        clocks = {"tsc"}
        cycles = cycles.by_tsc()
    taken = {row: own_cycles(cycles.per_s[row], cycles.clock[row], own.get(row)) for row in rows}
    labels = {row: own_clock(cycles.clock[row], own.get(row)) for row in rows}
    summed, busy = total(taken.values(), _NO_POLLER), _busy_cycles(nf, topology, taken, labels)
    if len(clocks) != 1:
        return (summed, busy, None) if isinstance(summed, Missing) else (_MIXED, _MIXED, None)
    # The sum is an estimate if one of its parts is.
    by_run = (label for row, label in labels.items() if label != cycles.clock[row])
    return summed, busy, next(by_run, next(iter(clocks)))


def _why_not(
    nf: NfRates, topology: Topology, here: Mapping[int, Occupant], own: Mapping[int, OwnTime | None]
) -> Missing | None:
    if nf.uncounted is not None:
        return nf.uncounted
    unknown = {core.cpu for core in nf.cores} - topology.row_of.keys()
    if unknown:
        where = format_cpu_list(unknown)
        return Missing(Reason.SOURCE, f"it polls on CPU {where}, which this host does not show")
    return next(
        (why for row, occupant in here.items() if (why := occupant.uncounted(own[row], nf))), None
    )


def _busy_cycles(
    nf: NfRates,
    topology: Topology,
    taken: Mapping[int, Reading],
    clocks: Mapping[int, Clock | None],
) -> Reading:
    if len(taken) < len(nf.cores):
        return Missing(Reason.SOURCE, "two of its threads share a CPU: their busy times overlap")
    at = ((core, topology.row_of[core.cpu]) for core in nf.cores)
    per_core = [product(core.busy_of(clocks[row]), taken[row]) for core, row in at]
    summed = total(per_core, _NO_POLLER)
    if isinstance(summed, Missing) and any(one != summed for one in per_core):
        # Name the core, since not all have this reason.
        cpu = nf.cores[per_core.index(summed)].cpu
        return Missing(summed.reason, f"CPU {cpu}: {summed.message}")
    return summed


BY_CORE = ("cpp", "ipp", "ipc", "packets_per_s")
MIXED = Missing(Reason.UNDEFINED, "SMT use differs between its cores; no paper measured that")


@dataclass(frozen=True, slots=True)
class PaperMetrics:
    """A network function by the terms of the papers.

    Attributes:
        smt: both threads of each of its cores poll for it; None if only of some.
        cores: physical cores.
        readings: by metric of a paper: CPP, IPP, IPC of cores; packets per second of each core.
    """

    smt: bool | None
    cores: int
    readings: dict[str, Reading]


def paper_metrics(frame: Frame, nf: NfRow) -> PaperMetrics:
    """Its numbers by physical core: with two threads a core CPP is half, IPC twice the threads'."""
    row_of, infos = frame.topology.row_of, frame.topology.cpus
    cores: dict[object, int] = {}
    for cpu in nf.cpus:
        if cpu in row_of:
            core = infos[row_of[cpu]].core
            cores[("cpu", cpu) if core is None else core] = (
                cores.get(("cpu", cpu) if core is None else core, 0) + 1
            )
    counts = set(cores.values())
    packets = nf.readings["rx_packets_per_s" if nf.direction == "rx" else "tx_packets_per_s"]
    if len(counts) != 1:
        of_none: Reading = nf.readings["cpp"]
        if not isinstance(of_none, Missing):
            of_none = Missing(Reason.IDLE, "no thread of it polls")
        why = MIXED if counts else of_none
        return PaperMetrics(None, len(cores), dict.fromkeys(BY_CORE, why))
    threads = float(counts.pop())
    cpp: Reading = nf.readings["cpp"]
    if not isinstance(cpp, Missing) and nf.cpp_clock != "core":
        cpp = Missing(Reason.SOURCE, "its cycles are not counted by the core's own clock")
    ipc = nf.readings["ipc"]
    return PaperMetrics(
        threads > 1,
        len(cores),
        {
            "cpp": quotient(cpp, threads),
            "ipp": nf.readings["ipp"],
            "ipc": ipc if isinstance(ipc, Missing) else ipc * threads,
            "packets_per_s": quotient(packets, float(len(cores))),
        },
    )
