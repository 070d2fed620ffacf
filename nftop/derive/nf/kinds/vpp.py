"""Rates of VPP: packets of each thread by interface.

VPP counts a packet on each interface it passes: NIC, bond, tunnel. Only interfaces that consist of
no others are summed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from nftop.derive.nf.counter_rates import RESTARTED, held, identity, rate_process
from nftop.derive.nf.line_rate import frame_size
from nftop.derive.nf.rates import (
    NfContext,
    NfCore,
    NfRates,
    awake_or_asleep,
    folder,
    not_bound,
    of_its_own_time,
    qualified,
    shares,
    where_it_runs,
)
from nftop.derive.nf.registry import register
from nftop.derive.nf.vpp_graph import (
    NODES_OFF,
    NodeState,
    RatedErrors,
    busy_ratio,
    clocks_per_packet,
    counters_of_nodes,
    dropped_with_error,
    error_drops_per_s,
    fills,
    nodes_counted,
    rate_errors,
    step_nodes,
)
from nftop.derive.threads import ThreadRate
from nftop.model.column import Bools, Floats
from nftop.model.ids import Cpu
from nftop.model.metrics.saturation import VPP_FRAME
from nftop.model.missing import Missing, Reading, Reason, quotient
from nftop.model.nf.components import NOT_REPORTED, DeferredRows, NfDrop, NfPort
from nftop.model.nf.vpp import VppInstance, VppInterfaces, VppNodes, VppTable, VppThread
from nftop.model.owner import owned_name
from nftop.model.sample import Counts
from nftop.model.struct import dataclass, field, replace

VppCounter: TypeAlias = Literal[
    "rx_packets",
    "tx_packets",
    "rx_misses",
    "drops",
    "rx_bytes",
    "rx_no_buffers",
    "rx_errors",
    "tx_errors",
]
_COUNTED: tuple[VppCounter, ...] = ("rx_packets", "tx_packets", "rx_misses", "drops")
# Reasons of drops, as VPP's counters of interfaces have it (/if/rx-miss). Those of tx-error are
# drops of tx nodes.
_REASONS: Mapping[str, VppCounter] = {
    "rx-miss": "rx_misses",
    "rx-error": "rx_errors",
    "rx-no-buf": "rx_no_buffers",
}
# Their metrics.
_METRICS: Mapping[str, VppCounter] = {
    "rx_errors_per_s": "rx_errors",
    "tx_errors_per_s": "tx_errors",
    "rx_nombuf_per_s": "rx_no_buffers",
}

# Default names of VPP's interfaces that consist of others (their format functions), and how
# their kinds begin in its API (VNET_DEVICE_CLASS), in lower case.
_STACKED_NAME = re.compile(
    "(BondEthernet|bvi|geneve_tunnel|gre|gtpu_tunnel|ipip|ipsec|l2tpv3_tunnel|lisp_gpe|loop|"
    "mpls-tunnel|nsh_tunnel|pipe|pppoe_session|vxlan_gpe_tunnel|vxlan_tunnel|wg)[0-9]+"
)
_STACKED_KINDS = (
    "bond", "bvi", "geneve", "gre", "gtpu", "ipip", "ipsec", "l2tp", "lisp", "loopback", "mpls",
    "nsh", "pipe", "pppoe", "vxlan", "wireguard",
)  # fmt: skip
_BONDS = ("bond", "BondEthernet")
_BOND_NODE = "bond-input"

_NO_INTERFACES = Missing(Reason.UNDEFINED, "it has no interfaces")
_HIDDEN_BOND = Missing(
    Reason.SOURCE,
    "it has a bond, and no name shows which interface that is: its packets would count twice",
)


@dataclass(frozen=True, slots=True, eq=False)
class RatedPackets:
    """One VPP's counters when last rated, and the rates.

    Attributes:
        read_at_ns: when they were read.
        rows: the threads' indices, of the arrays' rows; columns: the interfaces' names.
        counted: the counters there are; counts: uint64 (n, t, i), of each.
        per_s: by counter, float64 (t,), each thread's over all interfaces that consist of no
            others, or a reason.
        by_interface: by counter, float64 (i,), each interface's over all threads.
        missed_per_s: float64 (t,), `rx_misses` of what each thread receives from; NaN where it
            shares an interface that drops.
        interval_s: between the two readings; None without rates, 0 if they were already rated.
    """

    read_at_ns: int
    rows: tuple[int, ...]
    columns: tuple[str, ...]
    counted: tuple[VppCounter, ...]
    counts: Counts
    per_s: Mapping[VppCounter, Floats] | Missing
    by_interface: Mapping[VppCounter, Floats] | Missing
    missed_per_s: Floats | Missing
    interval_s: float | None


def rate_packets(before: RatedPackets | None, vpp: VppInstance) -> RatedPackets:
    """Fold one reading in; one that was already rated keeps its rates.

    All are RESET after a counter stepped back, and WARMING after a change of threads or interfaces,
    which may reuse an index, or after an older reading.
    """
    if before is not None and before.read_at_ns == vpp.read_at_ns:
        return replace(before, interval_s=held(before.interval_s))
    counted = vpp.interfaces
    rows = tuple(thread.index for thread in vpp.threads)
    tables = _tables(counted)
    kinds, counts = tuple(tables), np.stack([*tables.values()])
    per_s: Mapping[VppCounter, Floats] | Missing = Missing(Reason.WARMING)
    by_interface: Mapping[VppCounter, Floats] | None = None
    missed_per_s: Floats | Missing = Missing(Reason.WARMING)
    interval_s = None
    if not counted.names:
        per_s = _NO_INTERFACES
    elif (
        before is not None
        and (before.rows, before.columns, before.counted) == (rows, counted.names, kinds)
        and (elapsed_s := (vpp.read_at_ns - before.read_at_ns) / 1e9) > 0
    ):
        if (counts < before.counts).any():
            per_s = RESTARTED
        else:
            rates = (counts - before.counts) / elapsed_s
            by_interface = dict(zip(kinds, rates.sum(axis=1), strict=True))
            if _hides_a_bond(counted, vpp.nodes):
                per_s = _HIDDEN_BOND
            else:
                interval_s = elapsed_s
                summed = rates[:, :, ~_stacked(counted)].sum(axis=2)
                per_s = dict(zip(kinds, summed, strict=True))
                own = rates[:, :, ~_stacked(counted)]
                missed_per_s = _missed_of_threads(
                    own[kinds.index("rx_packets")], own[kinds.index("rx_misses")], rows
                )
    interface_rates = by_interface or (
        per_s if isinstance(per_s, Missing) else Missing(Reason.WARMING)
    )
    return RatedPackets(
        vpp.read_at_ns,
        rows,
        counted.names,
        kinds,
        counts,
        per_s,
        interface_rates,
        per_s if isinstance(per_s, Missing) else missed_per_s,
        interval_s,
    )


def _tables(interfaces: VppInterfaces) -> Mapping[VppCounter, Counts]:
    """Those there are; older recordings have the first four."""
    tables: dict[VppCounter, Counts | None] = {
        "rx_packets": interfaces.rx_packets,
        "tx_packets": interfaces.tx_packets,
        "rx_misses": interfaces.rx_misses,
        "drops": interfaces.drops,
        "rx_bytes": interfaces.rx_bytes,
        "rx_no_buffers": interfaces.rx_no_buffers,
        "rx_errors": interfaces.rx_errors,
        "tx_errors": interfaces.tx_errors,
    }
    return {kind: table for kind, table in tables.items() if table is not None}


def _missed_of_threads(received: Floats, missed: Floats, threads: tuple[int, ...]) -> Floats:
    """float64 (t,): packets that each thread left without descriptors; NaN if unknown.

    VPP's main thread reads the counters of NICs and books them as its own (dpdk_update_counters in
    src/plugins/dpdk/device/dpdk_priv.h), so an interface's drops are those of the only thread that
    receives from it. Where workers book drops themselves, they are theirs.

    Args:
        received: float64 (t, i), packets per second.
        missed: float64 (t, i).
        threads: indices of the threads.
    """
    result = np.zeros(len(threads))
    workers = np.array([index != 0 for index in threads])
    for at in np.flatnonzero(missed.any(axis=0)):
        takers = received[:, at] > 0
        if takers.sum() == 1:
            result[takers] += missed[:, at].sum()
        elif not missed[~workers, at].any():
            result += missed[:, at]
        else:
            result[takers] = np.nan
    return result


def _stacked(interfaces: VppInterfaces) -> Bools:
    """bool (i,): interfaces that consist of others."""
    if interfaces.kinds:
        return np.array(
            [kind.lower().startswith(_STACKED_KINDS) for kind in interfaces.kinds], bool
        )
    return np.array([bool(_STACKED_NAME.fullmatch(name)) for name in interfaces.names], bool)


def _hides_a_bond(interfaces: VppInterfaces, nodes: VppNodes | None) -> bool:
    """Whether packets passed a bond that is not known as an interface."""
    if nodes is None or _BOND_NODE not in nodes.names:
        return False
    known = any(kind.startswith(_BONDS) for kind in interfaces.kinds or interfaces.names)
    return not known and bool(nodes.vectors[:, nodes.names.index(_BOND_NODE)].any())


_NO_CYCLES = Missing(Reason.SOURCE, "VPP does not count the cycles of a thread, only of its nodes")
_NO_QUEUES = Missing(
    Reason.SOURCE, "VPP's stats segment does not report which thread polls which queue"
)
_SHARED_DROPS = Missing(
    Reason.SOURCE,
    "VPP counts drops by interface, and several of its threads receive from one that drops",
)
_NO_FRAME = Missing(Reason.UNDEFINED, "it consists of other interfaces, or is a tunnel: no frames")
_NO_SPEED = Missing(Reason.SOURCE, "VPP's stats segment does not report the speed of a link")
_NOWHERE = Missing(
    Reason.SOURCE, "some of its threads were not found, so their CPUs are not known: run as root"
)


@dataclass(frozen=True, slots=True)
class VppState:
    """State by process: pid and start time."""

    instances: Mapping[str, _Known] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    packets: RatedPackets
    nodes: NodeState | None
    errors: RatedErrors | None


def step_vpp(
    state: VppState | None, table: VppTable, context: NfContext
) -> tuple[VppState, tuple[NfRates, ...]]:
    """Fold one reading in; processes that ended are dropped."""
    known = {} if state is None else state.instances
    instances: dict[str, _Known] = {}
    rates = []
    for vpp in table.instances:
        key = identity(vpp.pid, vpp.start_ticks, vpp.socket)
        rated = rate_process(known.get(key), vpp.problem, partial(_step_instance, vpp))
        if rated is not None:
            instances[key] = rated
        rates.append(_nf_rates(key, _VppRates(vpp, rated), context))
    return VppState(instances), tuple(rates)


def _step_instance(vpp: VppInstance, before: _Known | None) -> _Known:
    return _Known(
        rate_packets(None if before is None else before.packets, vpp),
        step_nodes(None if before is None else before.nodes, vpp.heartbeat, vpp.nodes),
        rate_errors(None if before is None else before.errors, vpp),
    )


@dataclass(frozen=True, slots=True)
class _VppRates:
    """Rates of one VPP, or reasons."""

    vpp: VppInstance
    known: _Known | None

    def thread(self, what: VppCounter, thread: VppThread) -> Reading:
        """One counter's rate of one thread, over interfaces that consist of no others."""
        return self._rate(what, self.vpp.threads.index(thread))

    def all_threads(self, what: VppCounter) -> Reading:
        return self._rate(what, slice(None))

    def busy(self, thread: VppThread, packets_per_s: Reading, tsc_hz: Reading) -> Reading:
        if self.vpp.problem is not None:
            return self.vpp.problem
        nodes = self.known.nodes if self.known is not None else None
        bounds = clocks_per_packet(nodes, self.vpp.threads.index(thread), thread.rx_queues)
        return busy_ratio(bounds, packets_per_s, tsc_hz)

    def missed(self, thread: VppThread) -> Reading:
        """Drops of the interfaces from which only this thread receives."""
        if self.vpp.problem is not None or self.known is None:
            return self.vpp.problem or Missing(Reason.WARMING)
        per_s = self.known.packets.missed_per_s
        if isinstance(per_s, Missing):
            return per_s
        own = float(per_s[self.vpp.threads.index(thread)])
        return _SHARED_DROPS if np.isnan(own) else own

    def fills(self, thread: VppThread, packets_per_s: Reading) -> tuple[Reading, Reading]:
        """As `fills`, from VPP's own rates of vectors and loops, without counters per node."""
        if self.vpp.problem is not None:
            return self.vpp.problem, self.vpp.problem
        nodes = self.known.nodes if self.known is not None else None
        if nodes is not None or thread.vector_rate is None:
            return fills(nodes, self.vpp.threads.index(thread))
        loops: Reading = NODES_OFF if thread.loops_per_s is None else thread.loops_per_s
        by_loop = quotient(packets_per_s, loops)
        if not isinstance(by_loop, Missing):
            by_loop = min(by_loop / VPP_FRAME, 1.0)
        return min(thread.vector_rate / VPP_FRAME, 1.0), by_loop

    def receives(self, thread: VppThread) -> bool:
        """Whether it has received anything since VPP began to count."""
        row = self.vpp.threads.index(thread)
        return bool(self.vpp.interfaces.rx_packets[row].any())

    def interfaces(self) -> tuple[NfPort, ...] | Missing:
        """All interfaces; a packet counts on every one that it passed."""
        if self.vpp.problem is not None or self.known is None:
            return self.vpp.problem or Missing(Reason.WARMING)
        rates = self.known.packets.by_interface
        if isinstance(rates, Missing):
            return rates
        of = self.vpp.interfaces
        return tuple(
            replace(
                NfPort(name, *(float(rates[what][at]) for what in _COUNTED)),
                frame_bytes=_NO_FRAME if stacked else _frame_bytes(rates, at),
                line_packets_per_s=_NO_SPEED,
            )
            for at, (name, stacked) in enumerate(zip(of.names, _stacked(of), strict=True))
        )

    @property
    def errors(self) -> RatedErrors | None:
        return None if self.known is None else self.known.errors

    def drops(self) -> Sequence[NfDrop] | Missing:
        """By its NICs by interface, and with an error by node."""
        if self.vpp.problem is not None or self.known is None:
            return self.vpp.problem or Missing(Reason.WARMING)
        rates, names = self.known.packets.by_interface, self.known.packets.columns
        if isinstance(rates, Missing):
            return dropped_with_error(self.errors) or rates
        return DeferredRows(
            lambda: [
                *(
                    NfDrop(name, reason, float(rates[what][at]))
                    for at, name in enumerate(names)
                    for reason, what in _REASONS.items()
                    if what in rates
                ),
                *dropped_with_error(self.errors),
            ]
        )

    def losses(self) -> dict[str, Reading]:
        """Metrics of what its interfaces and nodes lose; of interfaces those that are counted."""
        counted = () if self.known is None else self.known.packets.counted
        known = {metric: what for metric, what in _METRICS.items() if what in counted}
        return {
            "error_drops_per_s": error_drops_per_s(self.vpp, self.errors),
            **{metric: self.all_threads(what) for metric, what in known.items()},
        }

    def _rate(self, what: VppCounter, rows: int | slice) -> Reading:
        if self.vpp.problem is not None or self.known is None:
            return self.vpp.problem or Missing(Reason.WARMING)
        per_s = self.known.packets.per_s
        return per_s if isinstance(per_s, Missing) else float(per_s[what][rows].sum())


def _frame_bytes(rates: Mapping[VppCounter, Floats], at: int) -> Reading:
    """Mean size of the frames that an interface received."""
    if "rx_bytes" not in rates:
        return NOT_REPORTED
    return frame_size(float(rates["rx_packets"][at]), float(rates["rx_bytes"][at]))


def _nf_rates(key: str, rates: _VppRates, context: NfContext) -> NfRates:
    vpp = rates.vpp
    own = {
        _index_of(rate): rate
        for rate in context.threads
        if rate.thread.pid == vpp.pid and rate.thread.role in ("vpp_main", "vpp_worker")
    }
    forwarding = _forwarding(rates)
    cores = [_core(rates, thread, own.get(thread.index), context) for thread in forwarding]
    known = tuple(core for core in cores if core is not None)
    received = rates.all_threads("rx_packets")
    return NfRates(
        key=key,
        name=owned_name(
            qualified(vpp.name, folder(vpp.socket.rpartition("/")[0]), usual="vpp"), vpp.owner
        ),
        owner=vpp.owner,
        prefix="",
        kind="vpp",
        pid=vpp.pid,
        interval_s=None if rates.known is None else rates.known.packets.interval_s,
        attribution="each of its threads counts what it receives",
        problem=vpp.problem,
        rx_packets_per_s=received,
        tx_packets_per_s=rates.all_threads("tx_packets"),
        missed_packets_per_s=rates.all_threads("rx_misses"),
        packets_per_s=received,
        direction="rx",
        cores=known,
        uncounted=None if len(known) == len(cores) else _NOWHERE,
        ports=rates.interfaces(),
        queues=_NO_QUEUES,
        nodes=vpp.problem or nodes_counted(None if rates.known is None else rates.known.nodes),
        drops=rates.drops(),
        xstats=DeferredRows(
            lambda: counters_of_nodes(
                vpp, rates.errors, None if rates.known is None else rates.known.nodes, received
            )
        ),
        readings=rates.losses(),
    )


def _index_of(rate: ThreadRate) -> int:
    """VPP's index of a thread: 0 is vpp_main, n is vpp_wk_<n-1>; -1 for other names."""
    if rate.thread.role == "vpp_main":
        return 0
    return -1 if rate.thread.role_index is None else rate.thread.role_index + 1


def _forwarding(rates: _VppRates) -> Sequence[VppThread]:
    """The workers, and the main thread if there are none or it receives packets."""
    threads = rates.vpp.threads
    workers = [thread for thread in threads if thread.index != 0]
    return [thread for thread in threads if thread.index or not workers or rates.receives(thread)]


def _core(
    rates: _VppRates, thread: VppThread, rate: ThreadRate | None, context: NfContext
) -> NfCore | None:
    """Rates of one thread; None if its CPU is unknown."""
    cpu: Cpu | None = thread.cpu if rate is None else where_it_runs(rate)
    if cpu is None:
        return None
    run, wait = shares(rate)
    packets = rates.thread("rx_packets", thread)
    busy = of_its_own_time(rates.busy(thread, packets, context.tsc_hz), awake_or_asleep(rate))
    vector_fill, poll_fill = rates.fills(thread, packets)
    fallback = f"vpp_wk_{thread.index - 1}" if thread.index else "vpp_main"
    name = fallback if rate is None else rate.thread.comm
    return NfCore(
        cpu=cpu,
        thread=name,
        packets_per_s=packets,
        run_ratio=run,
        wait_ratio=wait,
        busy_ratio=busy,
        awake_busy_ratio=_of_awake_time(busy, run),
        nf_cycles_per_s=_NO_CYCLES,
        unpinned=None if rate is None else not_bound(name, rate.thread.allowed),
        missed_packets_per_s=rates.missed(thread),
        vector_fill_ratio=vector_fill,
        poll_fill_ratio=poll_fill,
    )


def _of_awake_time(busy: Reading, run: Reading) -> Reading:
    """From the busy share of all time to that of the thread's run time."""
    ratio = quotient(busy, run)
    return ratio if isinstance(ratio, Missing) else min(ratio, 1.0)


def _with_problem(table: VppTable, why: Missing) -> VppTable:
    return replace(
        table, instances=tuple(replace(vpp, problem=vpp.problem or why) for vpp in table.instances)
    )


register("vpp", VppTable, VppState, rate=step_vpp, with_problem=_with_problem)
