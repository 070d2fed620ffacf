"""RDT's registers: IA32_PQR_ASSOC, masks and limits of classes, and the monitors.

Source: Intel SDM volume 3, "Intel Resource Director Technology", and volume 4 for the numbers.
IIO LLC WAYS is in neither: see `nftop.sources.resctrl.source`; nor is MBA_CFG, which libpqos
reads from Ice Lake on. What the hardware would refuse with a fault is OSError EIO, as of `msr`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from nftop.model.rdt.masks import Cbm
from tests.lab.resctrl import ledger
from tests.lab.resctrl.groups import held_bytes
from tests.lab.resctrl.hardware import Hardware
from tests.lab.resctrl.ledger import Host, Ledger
from tests.lab.resctrl.state import Resctrl, controls, everything
from tests.lab.tree import failed

L3_QOS_CFG, MBA_CFG, IIO_LLC_WAYS = 0xC81, 0xC84, 0xC8B
EVTSEL, COUNTER, PQR_ASSOC = 0xC8D, 0xC8E, 0xC8F
FIRST_MASK, FIRST_LIMIT = 0xC90, 0xD50
_CLOS_AT, _RMID_BITS = 32, 10
_ERROR, _UNAVAILABLE = 1 << 63, 1 << 62
_COUNTER_BITS = 24
_OCCUPANCY, _TOTAL, _LOCAL = 1, 2, 3
_EVENTS = {
    _OCCUPANCY: "llc_occupancy",
    _TOTAL: "mbm_total_bytes",
    _LOCAL: "mbm_local_bytes",
}
_COLUMNS = {_TOTAL: 0, _LOCAL: 1}
# Two highest of eleven ways, as a Skylake-SP starts.
_IO_WAYS_AT_START = 0x600


@dataclass(slots=True, eq=False)
class Registers:
    """As they stand since the last boot, mount or unmount.

    Attributes:
        mounted: the resctrl that has them now; None while none is mounted.
        book: what every pair of class and RMID moves and holds; None without monitors.
        pqr: class and RMID of every CPU. selected: event and RMID of every CPU's monitor.
        masks, limits: by L3 and class; limits in what is held back, in percent.
        apart: L3s with CDP on: even masks are of data, odd ones of code.
        io: ways that devices write into by L3; empty where this CPU has no such register.
        modes: how MBA limits threads of a core, by L3; likewise.
    """

    hardware: Hardware
    now_ns: Callable[[], int]
    mounted: Callable[[], Resctrl | None]
    book: Ledger | None
    pqr: list[tuple[int, int]]
    masks: dict[int, list[int]]
    limits: dict[int, list[int]]
    io: dict[int, int]
    modes: dict[int, int]
    selected: dict[int, int] = field(default_factory=dict)
    apart: set[int] = field(default_factory=set)


def start(
    hardware: Hardware,
    host: Host,
    now_ns: Callable[[], int],
    mounted: Callable[[], Resctrl | None],
    *,
    io_register: bool,
    mba_config: bool,
) -> Registers:
    """As after a boot."""
    own, limit, meters = hardware.allocation, hardware.bandwidth, hardware.monitoring
    whole = 0 if own is None else (1 << own.ways) - 1
    book = None
    if meters is not None:
        pairs = replace(meters, rmids=meters.rmids * _classes(hardware))
        book = ledger.start(replace(hardware, monitoring=pairs), host, now_ns())
    return Registers(
        hardware=hardware,
        now_ns=now_ns,
        mounted=mounted,
        book=book,
        pqr=[(0, 0)] * len(hardware.domain_of),
        masks={l3: [whole] * (own.closids if own else 0) for l3 in hardware.domains},
        limits={l3: [0] * (limit.closids if limit else 0) for l3 in hardware.domains},
        io=dict.fromkeys(hardware.domains, _IO_WAYS_AT_START) if io_register else {},
        modes=dict.fromkeys(hardware.domains, 0) if limit and mba_config else {},
    )


def read(own: Registers, cpu: int, number: int) -> int:
    """One register of a CPU. Raises OSError EIO where it has none of this number."""
    domain = own.hardware.domain_of[cpu]
    state = own.mounted()
    if number == PQR_ASSOC and (own.hardware.allocation or own.hardware.monitoring):
        clos, rmid = own.pqr[cpu] if state is None else _of_cpu(state, cpu)
        return clos << _CLOS_AT | rmid
    if number == EVTSEL and own.hardware.monitoring is not None:
        return own.selected.get(cpu, 0)
    if number == COUNTER and own.hardware.monitoring is not None:
        return _metered(own, state, cpu)
    if number == L3_QOS_CFG and own.hardware.allocation is not None:
        return int(_apart(own, state, domain))
    if number == IIO_LLC_WAYS and domain in own.io:
        return own.io[domain]
    if number == MBA_CFG and domain in own.modes:
        return own.modes[domain]
    masks = own.masks[domain] if state is None else _masks(own, state, domain)
    if 0 <= number - FIRST_MASK < len(masks):
        return masks[number - FIRST_MASK]
    limits = own.limits[domain] if state is None else _limits(own, state, domain)
    if 0 <= number - FIRST_LIMIT < len(limits):
        return limits[number - FIRST_LIMIT]
    raise failed(errno.EIO)


def write(own: Registers, cpu: int, number: int, value: int) -> None:
    """Raises OSError EIO for what the hardware refuses, and for all of it under resctrl."""
    read(own, cpu, number)
    domain = own.hardware.domain_of[cpu]
    if number == EVTSEL:
        own.selected[cpu] = value
        return
    if own.mounted() is not None or number == COUNTER:
        raise failed(errno.EIO)
    if number == PQR_ASSOC:
        own.pqr[cpu] = _pair(own, value)
    elif number == L3_QOS_CFG:
        _set_apart(own, domain, value)
    elif number == IIO_LLC_WAYS:
        own.io[domain] = _mask(own, value)
    elif number == MBA_CFG:
        own.modes[domain] = value & 1
    elif number < FIRST_LIMIT:
        own.masks[domain][number - FIRST_MASK] = _mask(own, value)
    else:
        own.limits[domain][number - FIRST_LIMIT] = _limit(own, value)
    _changed(own)


def _classes(hardware: Hardware) -> int:
    cache, bandwidth = hardware.allocation, hardware.bandwidth
    return max(cache.closids if cache else 1, bandwidth.closids if bandwidth else 1)


def _pair(own: Registers, value: int) -> tuple[int, int]:
    """Class and RMID; bits that are neither are reserved."""
    clos, rmid = value >> _CLOS_AT, value & (1 << _CLOS_AT) - 1
    rmids = own.hardware.monitoring.rmids if own.hardware.monitoring else 1
    if clos >= _classes(own.hardware) or rmid >= max(rmids, 1) or rmid >> _RMID_BITS:
        raise failed(errno.EIO)
    return clos, rmid


def _mask(own: Registers, value: int) -> int:
    cache = own.hardware.allocation
    assert cache is not None
    if value >> cache.ways or not Cbm(value, cache.ways).contiguous:
        raise failed(errno.EIO)
    if value.bit_count() < cache.min_bits:
        raise failed(errno.EIO)
    return value


def _limit(own: Registers, value: int) -> int:
    """What is held back, rounded down to what the hardware can."""
    bandwidth = own.hardware.bandwidth
    assert bandwidth is not None
    if value > 100 - bandwidth.minimum:
        raise failed(errno.EIO)
    return value // bandwidth.granularity * bandwidth.granularity


def _set_apart(own: Registers, domain: int, value: int) -> None:
    cache = own.hardware.allocation
    assert cache is not None
    if value >> 1 or (value and not cache.cdp):
        raise failed(errno.EIO)
    (own.apart.add if value else own.apart.discard)(domain)


def _changed(own: Registers) -> None:
    """Tell the ledger: a row of it is a class and an RMID."""
    if own.book is None or own.hardware.monitoring is None:
        return
    rmids = own.hardware.monitoring.rmids
    row_of = np.array([clos * rmids + rmid for clos, rmid in own.pqr], dtype=np.int64)
    ways = ledger.all_ways(own.book)
    if own.hardware.allocation is not None:
        for column, node in enumerate(own.hardware.nodes):
            domain = own.hardware.domain_of[own.hardware.node_of.index(node)]
            for clos in range(_classes(own.hardware)):
                mask = _filled(own, domain, clos)
                rows = slice(clos * rmids, (clos + 1) * rmids)
                ways[rows, column] = [bool(mask >> way & 1) for way in range(ways.shape[2])]
    ledger.change(own.book, own.now_ns(), row_of, ways)


def _filled(own: Registers, domain: int, clos: int) -> int:
    """The ways that a class may fill; of classes beyond CAT's all."""
    masks = own.masks[domain]
    if domain in own.apart:
        both = masks[2 * clos : 2 * clos + 2]
        return both[0] | both[1] if len(both) == 2 else (1 << 64) - 1
    return masks[clos] if clos < len(masks) else (1 << 64) - 1


def _metered(own: Registers, state: Resctrl | None, cpu: int) -> int:
    """IA32_QM_CTR for what this CPU's IA32_QM_EVTSEL selects."""
    monitoring = own.hardware.monitoring
    assert monitoring is not None
    event, rmid = own.selected.get(cpu, 0) & 0xFF, own.selected.get(cpu, 0) >> _CLOS_AT
    if _EVENTS.get(event) not in monitoring.events or rmid >= monitoring.rmids:
        return _ERROR
    column = own.hardware.nodes.index(own.hardware.node_of[cpu])
    if state is None:
        assert own.book is not None
        rows = slice(rmid, None, monitoring.rmids)
        if event == _OCCUPANCY:
            held = ledger.held_bytes(own.book, own.now_ns())[rows, column].sum()
        else:
            moved = ledger.moved_bytes(own.book, own.now_ns())
            held = moved[rows, column, _COLUMNS[event]].sum()
    elif state.ledger is None or rmid >= len(state.ledger.held):
        return _UNAVAILABLE
    elif event == _OCCUPANCY:
        held = held_bytes(state)[rmid, column]
    else:
        held = ledger.moved_bytes(state.ledger, own.now_ns())[rmid, column, _COLUMNS[event]]
    return int(held) // monitoring.scale_bytes & (1 << _COUNTER_BITS) - 1


def _apart(own: Registers, state: Resctrl | None, domain: int) -> bool:
    return domain in own.apart if state is None else "cdp" in state.options


def _of_cpu(state: Resctrl, cpu: int) -> tuple[int, int]:
    """Class and RMID that resctrl has given a CPU: a monitoring group's RMID is the last found."""
    result = 0, 0
    for group in everything(state):
        if cpu in group.cpus:
            result = group.control.closid, group.rmid or 0
    return result


def _masks(own: Registers, state: Resctrl, domain: int) -> list[int]:
    """What resctrl has set; what it has not is as it was."""
    masks = list(own.masks[domain])
    for group in controls(state):
        for line, values in group.values.items():
            if line == "L3":
                masks[group.closid] = values[domain]
            elif line in ("L3DATA", "L3CODE"):
                masks[2 * group.closid + (line == "L3CODE")] = values[domain]
    return masks


def _limits(own: Registers, state: Resctrl, domain: int) -> list[int]:
    limits = list(own.limits[domain])
    for group in controls(state):
        value = group.values.get("MB", {}).get(domain, 100)
        limits[group.closid] = 100 - value if value <= 100 else 0
    return limits
