"""CPP of the CPUs of a cache class, over all network functions that poll there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from nftop.model.frame import Clock, Frame, NfRow, base_clock
from nftop.model.reading import Missing, Reading, Reason

_MIXED = Missing(Reason.SOURCE, "cycles are counted by different clocks here and do not add up")
_IN_VAIN = Missing(Reason.UNDEFINED, "a core without packets polls here, whose cycles are unknown")
_NO_PACKETS = Missing(Reason.IDLE, "no packets here, so none that costs anything")


class Cost(NamedTuple):
    """CPP of some CPUs.

    Attributes:
        cpp: cycles per packet, or why it is unknown.
        clock: what counted the cycles; None without a number.
        saturated: whether all these cores were busy all the time, so that it includes no empty
            polls; None if unknown for some.
    """

    cpp: Reading
    clock: Clock | None = None
    saturated: bool | None = None


class _Share(NamedTuple):
    cpp: Reading
    packets_per_s: Reading
    clock: Clock | None
    saturated: bool | None


def cost_of(frame: Frame, rows: Sequence[int]) -> Cost:
    """Sum of cycles / sum of packets of network functions that poll on these rows of `frame.cpus`.

    A network function with all its cores among them counts as a whole, cores without packets
    included; of others each core here counts. Without packets it is left out; with packets but
    without CPP there is no sum.
    """
    here = {frame.cpus.topology.cpus[row].cpu for row in rows}
    whole = [nf for nf in frame.nfs if nf.cpus and here.issuperset(nf.cpus)]
    covered = {cpu for nf in whole for cpu in nf.cpus}
    rest = [row for row in rows if frame.cpus.topology.cpus[row].cpu not in covered]
    return _summed([*map(_of_nf, whole), *_of_cores(frame, rest)])


def _of_nf(nf: NfRow) -> _Share:
    packets = nf.readings["rx_packets_per_s" if nf.direction == "rx" else "tx_packets_per_s"]
    return _Share(nf.readings["cpp"], packets, nf.cpp_clock, nf.saturated)


def _of_cores(frame: Frame, rows: Collection[int]) -> Iterator[_Share]:
    """Shares of the cores of partly included network functions that have packets."""
    cpus = frame.cpus
    packets = {row: cpus.columns["packets_per_s"][row] for row in rows}
    forwards = {cpus.nf_pid[row] for row, item in packets.items() if item != 0}
    for row, packet in packets.items():
        if cpus.nf[row] is not None and cpus.nf_pid[row] in forwards:
            # Empty polls of a core without packets are a cost of the others' packets.
            weight = _IN_VAIN if packet == 0 else packet
            yield _Share(cpus.columns["cpp"][row], weight, cpus.cpp_clock[row], cpus.saturated[row])


def _summed(shares: Sequence[_Share]) -> Cost:
    cycles_per_s = packets_per_s = 0.0
    counted = [share for share in shares if share.packets_per_s != 0]
    for item in counted:
        if isinstance(item.packets_per_s, Missing):
            return Cost(item.packets_per_s)
        if isinstance(item.cpp, Missing):
            return Cost(item.cpp)
        cycles_per_s += item.cpp * item.packets_per_s
        packets_per_s += item.packets_per_s
    if not packets_per_s:
        return Cost(_NO_PACKETS)
    clocks = {entry.clock for entry in counted}
    if len(set(map(base_clock, clocks))) > 1:
        return Cost(_MIXED)
    clock = next(
        (element for element in clocks if element != base_clock(element)), next(iter(clocks))
    )
    states = {entry.saturated for entry in counted}
    full = False if False in states else None if None in states else True
    return Cost(cycles_per_s / packets_per_s, clock, full)
