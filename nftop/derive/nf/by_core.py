"""A network function's numbers by physical core, as papers have them.

Papers count by physical core: with hyper-threading on, the cycles of a core once, and the packets
and instructions of both its threads.
"""

from __future__ import annotations

from nftop.model.frame import Frame, NfRow
from nftop.model.reading import Missing, Reading, Reason, quotient
from nftop.model.struct import dataclass

BY_CORE = ("cpp", "ipp", "ipc", "packets_per_s")
MIXED = Missing(
    Reason.UNDEFINED, "on some of its cores one thread polls and on others two: no paper did that"
)


@dataclass(frozen=True, slots=True)
class Here:
    """A network function in the terms of the papers.

    Attributes:
        smt: both threads of each of its cores poll for it; None where that is so of some.
        cores: physical cores.
        readings: by metric of a paper: CPP, IPP, IPC of cores; packets per second of each core.
    """

    smt: bool | None
    cores: int
    readings: dict[str, Reading]


def here_of(frame: Frame, nf: NfRow) -> Here:
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
        return Here(None, len(cores), dict.fromkeys(BY_CORE, why))
    threads = float(counts.pop())
    cpp: Reading = nf.readings["cpp"]
    if not isinstance(cpp, Missing) and nf.cpp_clock != "core":
        cpp = Missing(Reason.SOURCE, "its cycles are not counted by the core's own clock")
    ipc = nf.readings["ipc"]
    return Here(
        threads > 1,
        len(cores),
        {
            "cpp": quotient(cpp, threads),
            "ipp": nf.readings["ipp"],
            "ipc": ipc if isinstance(ipc, Missing) else ipc * threads,
            "packets_per_s": quotient(packets, float(len(cores))),
        },
    )
