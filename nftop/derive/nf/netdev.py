"""Rates of the kernel's network stack: by CPU, by interface, and as a network function.

It is a network function if the kernel forwards. The cost of its packets is estimated from interrupt
time, since nothing counts its cycles separately.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from nftop.derive.absence import after_absence
from nftop.derive.fold_stage import FoldStage
from nftop.derive.nf.cores import spread_of
from nftop.derive.nf.counter_rates import RESTARTED
from nftop.derive.nf.line_rate import frame_size, line_of, lines_of
from nftop.derive.occupants import Cycles
from nftop.model.column import Column, column, from_readings, missing
from nftop.model.frame import NfRow
from nftop.model.ids import Cpu
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.missing import Missing, Reading, Reason, product, quotient, total
from nftop.model.nf.components import NfPort, NfThread
from nftop.model.nf.netdev import Interface, InterfaceRow, NetdevTable
from nftop.model.sample import SourceReading
from nftop.model.struct import dataclass, replace
from nftop.model.topology import Topology

# In the order of `NetdevTable.softnet`.
METRICS = ("kernel_packets_per_s", "softnet_drops_per_s", "softnet_squeezes_per_s")
_WRAPS_AT = 1 << 32
# A counter that steps back by less than this was reset; else it wrapped.
_RESET_BELOW = 1 << 31
# Packets per second from which the kernel gets a row although it does not forward, and below which
# it loses it: less is an operator's SSH.
_SHOWN_FROM_PER_S, _SHOWN_TO_PER_S = 10_000.0, 1_000.0
# The row stays for this time after the last reason, so that it does not blink.
_STAYS_NS = 10_000_000_000
# A received packet is counted by its interface and by each above it. If CPUs receive more than this
# times the sum of interfaces, the rest is from other namespaces. It allows for drivers that update
# counters rarely.
_ELSEWHERE_RATIO = 1.5
_NOT_READ = Missing(Reason.SOURCE, "/proc/net is not read here")
_WARMING = Missing(Reason.WARMING)
_HOW = (
    "packets are of nftop's own network namespace; bCPP is of all interrupts of the CPUs on which "
    "the kernel takes packets in, and they and the backlog's drops are of the whole host"
)
_OTHER_WORK = Missing(
    Reason.UNDEFINED, "its CPUs do other work too: bCPP is of the time of interrupts"
)


@dataclass(frozen=True, slots=True)
class NetdevState:
    """State of the last reading.

    `worth_at_ns`: when there last was reason to show the kernel's row, or None.
    """

    table: NetdevTable | None = None
    read_at_ns: int = 0
    rates: NetdevRates | None = None
    worth_at_ns: int | None = None


@dataclass(frozen=True, slots=True)
class NetdevRates:
    """Rates of one reading.

    Attributes:
        columns: those named in `METRICS`.
        interfaces: of nftop's network namespace.
        forwarded_per_s: IP packets.
        interval_s: between the two readings; None before the second.
        shown: the kernel forwards or receives enough for a row, now or recently.
        problem: why it is not current, or None.
        once: names of the interfaces whose packets the kernel's row adds up.
    """

    columns: Mapping[str, Column]
    interfaces: tuple[InterfaceRow, ...] = ()
    forwarded_per_s: Reading = _NOT_READ
    interval_s: float | None = None
    shown: bool = False
    problem: Missing | None = None
    once: frozenset[str] = frozenset()


def step_netdev(
    state: NetdevState, reading: SourceReading[NetdevTable] | None, topology: Topology
) -> tuple[NetdevState, NetdevRates]:
    rows = len(topology.cpus)
    if reading is None:
        return NetdevState(), _nothing(rows, _NOT_READ)
    if isinstance(reading.value, Missing):
        kept = after_absence(state, NetdevState(), reading.value)
        return kept, _nothing(rows, reading.value, shown=kept.worth_at_ns is not None)
    if state.rates is not None and reading.read_at_ns == state.read_at_ns:
        return state, replace(state.rates, interval_s=0.0)  # none of it is new
    before, elapsed_s = state.table, (reading.read_at_ns - state.read_at_ns) / 1e9
    if before is None or elapsed_s <= 0:
        before, elapsed_s = None, 0.0
    rates = _rated(before, reading.value, elapsed_s, topology)
    worth_at_ns = state.worth_at_ns
    if _is_worth(rates, shown=worth_at_ns is not None):
        worth_at_ns = reading.read_at_ns
    elif worth_at_ns is not None and reading.read_at_ns - worth_at_ns >= _STAYS_NS:
        worth_at_ns = None
    rates = replace(rates, shown=worth_at_ns is not None)
    return NetdevState(reading.value, reading.read_at_ns, rates, worth_at_ns), rates


def _is_worth(rates: NetdevRates, *, shown: bool) -> bool:
    taken = rates.columns["kernel_packets_per_s"]
    least = _SHOWN_TO_PER_S if shown else _SHOWN_FROM_PER_S
    forwards = not isinstance(rates.forwarded_per_s, Missing) and rates.forwarded_per_s > 0
    return forwards or float(taken.values[taken.present].sum()) >= least


def kernel_row(
    rates: NetdevRates, topology: Topology, cycles: Cycles, times: Mapping[str, Column]
) -> tuple[NfRow, ...]:
    """The kernel as a network function, if it forwards.

    bCPP is, over the CPUs that receive packets, cycles per second x share of interrupts / packets
    received. The share is softirq / busy time of unhalted cycles, softirq / all time of the TSC's.
    There is none if much is received for other network namespaces, since interrupt time includes
    it.
    """
    if not rates.shown:
        return ()
    packets = rates.columns["kernel_packets_per_s"]
    taking = [row for row in range(len(packets)) if packets.present[row] and packets.values[row]]
    once = [interface for interface in rates.interfaces if interface.name in rates.once]
    received = rates.problem or total(item.rx_packets_per_s for item in once)
    missed = [item.missed_per_s for item in once if item.kind == "nic"]
    backlog = rates.columns["softnet_drops_per_s"]
    drops = total([*missed, *(backlog[row] for row in range(len(backlog)) if backlog.present[row])])
    clocks = {cycles.clock[row] for row in taking}
    spent = total((_interrupts(row, cycles, times) for row in taking), Missing(Reason.IDLE))
    costs = _of_others(packets, rates.interfaces) or quotient(spent, received)
    readings: dict[str, Reading] = {
        "rx_packets_per_s": received,
        "tx_packets_per_s": rates.problem or total(entry.tx_packets_per_s for entry in once),
        "missed_packets_per_s": rates.problem or drops,
        "drop_packets_per_s": rates.problem or drops,
        "cpp": rates.problem or _OTHER_WORK,
        "busy_cpp": rates.problem or (received if isinstance(received, Missing) else costs),
        "ipp": rates.problem or _OTHER_WORK,
    }
    return (
        NfRow(
            key="kernel",
            name="kernel",
            kind="kernel",
            pid=0,
            cpus=tuple(topology.cpus[row].cpu for row in taking),
            direction="rx",
            cpp_clock=next(iter(clocks)) if len(clocks) == 1 else None,
            saturated=None,
            interval_s=rates.interval_s,
            attribution=_HOW,
            problem=rates.problem,
            readings=readings,
        ),
    )


def _of_others(packets: Column, interfaces: Sequence[InterfaceRow]) -> Missing | None:
    """Why there is no bCPP, if CPUs receive far more than nftop's interfaces do."""
    came = total(
        (interface.rx_packets_per_s for interface in interfaces), Missing(Reason.UNDEFINED)
    )
    taken = float(packets.values[packets.present].sum())
    if isinstance(came, Missing):
        return came
    if taken <= came * _ELSEWHERE_RATIO:
        return None
    return Missing(
        Reason.UNDEFINED,
        f"CPUs take in {taken:.0f} packets a second, and {came:.0f} came by interfaces of nftop's "
        "own network namespace: interrupts are of other namespaces' packets too",
    )


def _interrupts(row: int, cycles: Cycles, times: Mapping[str, Column]) -> Reading:
    """Cycles per second of one CPU in hard and soft interrupts."""
    share = times["softirq_ratio"][row]
    if cycles.clock[row] == "core":
        share = quotient(share, times["cpu_time_ratio"][row])
    return product(share, cycles.per_s[row])


def _rated(
    before: NetdevTable | None, after: NetdevTable, elapsed_s: float, topology: Topology
) -> NetdevRates:
    columns = _columns(before, after, elapsed_s, topology)
    old = {} if before is None else {interface.name: interface for interface in before.interfaces}
    interfaces = tuple(
        _interface(old.get(interface.name), interface, elapsed_s) for interface in after.interfaces
    )
    forwarded = _rate(
        None if before is None else before.forwarded, after.forwarded, elapsed_s, _NOT_READ
    )
    return NetdevRates(
        columns=columns,
        interfaces=interfaces,
        forwarded_per_s=forwarded,
        interval_s=elapsed_s or None,
        once=frozenset(item.name for item in after.interfaces if item.counts_once),
    )


def _columns(
    before: NetdevTable | None, after: NetdevTable, elapsed_s: float, topology: Topology
) -> Mapping[str, Column]:
    rows = len(topology.cpus)
    if before is None:
        return {metric: missing(rows, _WARMING) for metric in METRICS}
    old = {int(cpu): counts for cpu, counts in zip(before.cpus, before.softnet, strict=True)}
    by_metric: dict[str, dict[int, Reading]] = {metric: {} for metric in METRICS}
    for cpu, counts in zip(after.cpus, after.softnet, strict=True):
        row = topology.row_of.get(Cpu(int(cpu)))
        if row is None:
            continue
        grown = _grown(old.get(int(cpu)), counts)
        for metric, item in zip(METRICS, grown, strict=True):
            by_metric[metric][row] = item if isinstance(item, Missing) else item / elapsed_s
    gone = Missing(Reason.SOURCE, "/proc/net/softnet_stat has no line of this CPU: it is offline")
    return {metric: from_readings(values, rows, gone) for metric, values in by_metric.items()}


def _grown(
    old: np.ndarray[tuple[int], np.dtype[np.uint64]] | None,
    new: np.ndarray[tuple[int], np.dtype[np.uint64]],
) -> tuple[Reading, ...]:
    """Differences of three 32 bit counters, which may have wrapped."""
    if old is None:
        return (_WARMING,) * len(METRICS)
    grown = [(int(a) - int(b)) % _WRAPS_AT for a, b in zip(new, old, strict=True)]
    if any(item >= _RESET_BELOW for item in grown):
        return (RESTARTED,) * len(METRICS)
    return tuple(float(item) for item in grown)


def _interface(old: Interface | None, new: Interface, elapsed_s: float) -> InterfaceRow:
    if old is not None and (new.rx_packets < old.rx_packets or new.tx_packets < old.tx_packets):
        # A counter stepped back: another interface of that name, or another driver.
        rates: tuple[Reading, Reading, Reading] = (RESTARTED, RESTARTED, RESTARTED)
        size: Reading = RESTARTED
    else:
        absent = Missing(Reason.SOURCE, "no device is behind it that could drop")
        rates = (
            _rate(None if old is None else old.rx_packets, new.rx_packets, elapsed_s, absent),
            _rate(None if old is None else old.tx_packets, new.tx_packets, elapsed_s, absent),
            _rate(None if old is None else old.rx_missed, new.rx_missed, elapsed_s, absent),
        )
        size = _rate(None if old is None else old.rx_bytes, new.rx_bytes, elapsed_s, _NOT_READ)
    frame = frame_size(rates[0], size)
    line = line_of(new.link_bits_per_s, frame, has_link=new.kind == "nic")
    row = InterfaceRow(new.name, new.kind, new.driver, new.node, new.owner, *rates)
    return replace(row, frame_bytes=frame, line_packets_per_s=line)


def _rate(old: int | None, new: int | None, elapsed_s: float, absent: Missing) -> Reading:
    if new is None:
        return absent
    if old is None or elapsed_s <= 0:
        return _WARMING
    return RESTARTED if new < old else (new - old) / elapsed_s


def _nothing(rows: int, why: Missing, *, shown: bool = False) -> NetdevRates:
    columns = {metric: column(np.full(rows, np.nan), why=why) for metric in METRICS}
    return NetdevRates(columns, shown=shown, problem=why)


_OTHERS_TOO = Missing(
    Reason.UNDEFINED, "its CPUs run other programs too, and count for all of them together"
)
_NOT_BY_QUEUE = Missing(Reason.SOURCE, "the kernel counts packets by CPU, not by queue")
_NO_NODES = Missing(Reason.UNDEFINED, "the kernel has no graph nodes")
_NO_DROPS = Missing(Reason.SOURCE, "what the kernel drops is counted by CPU, not by interface")
_NO_THREAD = Missing(Reason.UNDEFINED, "interrupts are no thread")


def with_kernel_details(
    row: NfRow, rates: NetdevRates, topology: Topology, times: Mapping[str, Column]
) -> NfRow:
    """The row with its CPUs as threads and its interfaces as ports."""
    packets, share = rates.columns["kernel_packets_per_s"], times["softirq_ratio"]
    at = [topology.row_of[cpu] for cpu in row.cpus]
    readings = {metric.id: _OTHERS_TOO for metric in NF_METRICS} | dict(row.readings)
    ports = tuple(
        NfPort(
            interface.name,
            interface.rx_packets_per_s,
            interface.tx_packets_per_s,
            interface.missed_per_s,
            _NO_DROPS,
            interface.frame_bytes,
            interface.line_packets_per_s,
        )
        for interface in rates.interfaces
    )
    line, fullest = lines_of(row.problem or ports)
    return replace(
        row,
        readings={
            **readings,
            "line_packets_per_s": line,
            "line_ratio": fullest,
            "imbalance_ratio": row.problem or spread_of([packets[item] for item in at]),
        },
        threads=tuple(
            NfThread(cpu, "interrupts", packets[item], share[item], _NO_THREAD)
            for cpu, item in zip(row.cpus, at, strict=True)
        ),
        ports=row.problem or ports,
        queues=_NOT_BY_QUEUE,
        nodes=_NO_NODES,
    )


NETDEV: FoldStage[NetdevState, NetdevRates] = FoldStage(
    "netdev",
    NetdevState,
    lambda state, tick: step_netdev(state, tick.sample.readings.get("netdev"), tick.topology),
    trim=lambda state: NetdevState(worth_at_ns=state.worth_at_ns),
    columns=lambda rates: rates.columns,
)
