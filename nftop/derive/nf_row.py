"""A network function's line: its packets, and what its cores spent on them."""

from __future__ import annotations

from collections.abc import Mapping

from nftop.derive.cpus import Cycles, Occupant, saturated
from nftop.derive.nf import NfRates, product, quotient, total
from nftop.model.column import Column
from nftop.model.frame import Clock, NfRow
from nftop.model.ids import format_cpu_list
from nftop.model.reading import Missing, Reading, Reason
from nftop.model.topology import Topology

_NOBODY = Missing(Reason.IDLE, "no thread of it polls: is it started?")
_MIXED = Missing(
    Reason.SOURCE, "its cores count by different clocks, and their cycles do not add up"
)


def nf_row(
    nf: NfRates,
    topology: Topology,
    cycles: Cycles,
    counted: tuple[Column, Column],
    pollers: Mapping[int, Occupant],
) -> NfRow:
    """Packets as the NF counts them; CPP, busy CPP, IPP and IPC over all cores that poll for it.

    Where its cores count by different clocks the sum is of the TSC's cycles, if all have them. A
    core that can't be counted, or whose cycles are not the NF's alone, leaves no sum: a part is
    not passed off as the whole. Two lcores on one CPU share its cycles, which count once.
    `counted` are core cycles and instructions per second.
    """
    core_cycles, instructions = counted
    rows = sorted({topology.row_of[core.cpu] for core in nf.cores if core.cpu in topology.row_of})
    clocks = {cycles.clock[row] for row in rows}
    if len(clocks) > 1 and cycles.tsc_per_s.present[rows].all():
        clocks = {"tsc"}
        cycles = cycles.by_tsc()
    why_not = _why_not(nf, topology, rows, pollers)
    all_cycles = why_not or total((cycles.per_s[row] for row in rows), _NOBODY)
    busy_cycles = why_not or _busy_cycles(nf, topology, cycles, rows)
    all_instructions = why_not or total((instructions[row] for row in rows), _NOBODY)
    all_core_cycles = why_not or total((core_cycles[row] for row in rows), _NOBODY)
    if len(clocks) > 1 and not isinstance(all_cycles, Missing):
        all_cycles = busy_cycles = _MIXED
    cpp = quotient(all_cycles, nf.packets_per_s)
    clock: Clock | None = next(iter(clocks)) if len(clocks) == 1 else None
    verdicts = {saturated(core.busy_ratio, core.run_ratio) for core in nf.cores}
    return NfRow(
        key=nf.key,
        name=nf.name,
        kind=nf.kind,
        pid=nf.pid,
        cpus=tuple(sorted({core.cpu for core in nf.cores})),
        direction=nf.direction,
        cpp_clock=None if isinstance(cpp, Missing) else clock,
        saturated=None if why_not or None in verdicts or not verdicts else verdicts == {True},
        interval_s=nf.interval_s,
        attribution=nf.attribution,
        problem=nf.problem,
        owner=nf.owner,
        readings={
            "rx_packets_per_s": nf.rx_packets_per_s,
            "tx_packets_per_s": nf.tx_packets_per_s,
            "drop_packets_per_s": nf.drop_packets_per_s,
            "cpp": cpp,
            "busy_cpp": quotient(busy_cycles, nf.packets_per_s),
            "ipp": quotient(all_instructions, nf.packets_per_s),
            "ipc": quotient(all_instructions, all_core_cycles),
        },
    )


def _why_not(
    nf: NfRates, topology: Topology, rows: list[int], pollers: Mapping[int, Occupant]
) -> Missing | None:
    if nf.uncounted is not None:
        return nf.uncounted
    unknown = {core.cpu for core in nf.cores} - topology.row_of.keys()
    if unknown:
        where = format_cpu_list(unknown)
        return Missing(Reason.SOURCE, f"it polls on CPU {where}, which this host does not show")
    shared = (pollers[row].shared_with(nf) for row in rows if row in pollers)
    return next((why for why in shared if why is not None), None)


def _busy_cycles(nf: NfRates, topology: Topology, cycles: Cycles, rows: list[int]) -> Reading:
    if len(rows) < len(nf.cores):
        return Missing(Reason.SOURCE, "two of its threads share a CPU: their busy times overlap")
    at = ((core, topology.row_of[core.cpu]) for core in nf.cores)
    each = [product(core.busy_of(cycles.clock[row]), cycles.per_s[row]) for core, row in at]
    summed = total(each, _NOBODY)
    if isinstance(summed, Missing) and any(one != summed for one in each):
        # What is said of one of several cores may not pass for what is said of all.
        cpu = nf.cores[each.index(summed)].cpu
        return Missing(summed.reason, f"CPU {cpu}: {summed.sentence}")
    return summed
