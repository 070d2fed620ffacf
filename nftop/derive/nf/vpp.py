"""Rates of VPP: each thread's packets by interface, and how busy its graph nodes say it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from nftop.derive.nf.counter_rates import identity, rate_process
from nftop.derive.nf.rates import (
    Around,
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
from nftop.derive.nf.vpp_nodes import (
    NodeState,
    busy_ratio,
    clocks_per_packet,
    nodes_counted,
    step_nodes,
)
from nftop.derive.nf.vpp_packets import Counted, RatedPackets, rate_packets
from nftop.derive.threads import ThreadRate
from nftop.model.ids import Cpu
from nftop.model.nf.parts import NfPort
from nftop.model.nf.vpp import VppInstance, VppTable, VppThread
from nftop.model.owner import owned_name
from nftop.model.reading import Missing, Reading, Reason, quotient

_NO_CYCLES = Missing(Reason.SOURCE, "VPP does not count the cycles of a thread, only of its nodes")
_NO_QUEUES = Missing(
    Reason.SOURCE, "VPP's stats segment does not tell which thread polls which queue"
)
_NOWHERE = Missing(
    Reason.SOURCE, "some of its threads were not found, so their CPUs are not known: run as root"
)


@dataclass(frozen=True, slots=True)
class VppState:
    """By process: pid and start time, so that a restart is another."""

    instances: Mapping[str, _Known] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """One VPP's packets and nodes when last rated."""

    packets: RatedPackets
    nodes: NodeState | None


def step_vpp(
    state: VppState | None, table: VppTable, around: Around
) -> tuple[VppState, tuple[NfRates, ...]]:
    """Fold one reading in; processes that are gone leave no trace."""
    known = {} if state is None else state.instances
    instances: dict[str, _Known] = {}
    rates = []
    for vpp in table.instances:
        key = identity(vpp.pid, vpp.start_ticks, vpp.socket)
        rated = rate_process(known.get(key), vpp.problem, partial(_step_instance, vpp))
        if rated is not None:
            instances[key] = rated
        rates.append(_nf_rates(key, _VppRates(vpp, rated), around))
    return VppState(instances), tuple(rates)


def _step_instance(vpp: VppInstance, before: _Known | None) -> _Known:
    packets, nodes = (None, None) if before is None else (before.packets, before.nodes)
    return _Known(rate_packets(packets, vpp), step_nodes(nodes, vpp.heartbeat, vpp.nodes))


@dataclass(frozen=True, slots=True)
class _VppRates:
    """One VPP's rates, with a reason for each that is not there."""

    vpp: VppInstance
    known: _Known | None

    def thread(self, what: Counted, thread: VppThread) -> Reading:
        """One counter's rate of one thread, over all interfaces that are not made of others."""
        return self._rate(what, self.vpp.threads.index(thread))

    def all_threads(self, what: Counted) -> Reading:
        return self._rate(what, slice(None))

    def busy(self, thread: VppThread, packets_per_s: Reading, tsc_hz: Reading) -> Reading:
        if self.vpp.problem is not None:
            return self.vpp.problem
        nodes = self.known.nodes if self.known is not None else None
        bounds = clocks_per_packet(nodes, self.vpp.threads.index(thread), thread.rx_queues)
        return busy_ratio(bounds, packets_per_s, tsc_hz)

    def receives(self, thread: VppThread) -> bool:
        """Whether it has received anything since VPP began to count."""
        row = self.vpp.threads.index(thread)
        return bool(self.vpp.interfaces.rx_packets[row].any())

    def interfaces(self) -> tuple[NfPort, ...] | Missing:
        """Each interface, those made of others too: a packet is on every one that it passed."""
        if self.vpp.problem is not None or self.known is None:
            return self.vpp.problem or Missing(Reason.WARMING)
        rates = self.known.packets.by_interface
        if isinstance(rates, Missing):
            return rates
        ends: tuple[Counted, ...] = ("rx_packets", "tx_packets", "rx_misses", "drops")
        return tuple(
            NfPort(name, *(float(rates[end][at]) for end in ends))
            for at, name in enumerate(self.known.packets.columns)
        )

    def _rate(self, what: Counted, rows: int | slice) -> Reading:
        if self.vpp.problem is not None or self.known is None:
            return self.vpp.problem or Missing(Reason.WARMING)
        per_s = self.known.packets.per_s
        return per_s if isinstance(per_s, Missing) else float(per_s[what][rows].sum())


def _nf_rates(key: str, rates: _VppRates, around: Around) -> NfRates:
    vpp = rates.vpp
    own = {
        _index_of(rate): rate
        for rate in around.threads
        if rate.thread.pid == vpp.pid and rate.thread.role in ("vpp_main", "vpp_worker")
    }
    forwarding = _forwarding(rates)
    cores = [_core(rates, thread, own.get(thread.index), around) for thread in forwarding]
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
        drop_packets_per_s=rates.all_threads("rx_misses"),
        packets_per_s=received,
        direction="rx",
        cores=known,
        uncounted=None if len(known) == len(cores) else _NOWHERE,
        ports=rates.interfaces(),
        queues=_NO_QUEUES,
        nodes=vpp.problem or nodes_counted(None if rates.known is None else rates.known.nodes),
    )


def _index_of(rate: ThreadRate) -> int:
    """VPP's index of a thread: 0 is vpp_main, n is vpp_wk_<n-1>; -1 where its name is odd."""
    if rate.thread.role == "vpp_main":
        return 0
    return -1 if rate.thread.role_index is None else rate.thread.role_index + 1


def _forwarding(rates: _VppRates) -> Sequence[VppThread]:
    """The workers, and the main thread where there are none or it has received packets itself."""
    threads = rates.vpp.threads
    workers = [thread for thread in threads if thread.index != 0]
    return [thread for thread in threads if thread.index or not workers or rates.receives(thread)]


def _core(
    rates: _VppRates, thread: VppThread, found: ThreadRate | None, around: Around
) -> NfCore | None:
    """One thread's; None where nothing tells its CPU."""
    cpu: Cpu | None = thread.cpu if found is None else where_it_runs(found)
    if cpu is None:
        return None
    run, wait = shares(found)
    packets = rates.thread("rx_packets", thread)
    busy = of_its_own_time(rates.busy(thread, packets, around.tsc_hz), awake_or_asleep(found))
    fallback = f"vpp_wk_{thread.index - 1}" if thread.index else "vpp_main"
    name = fallback if found is None else found.thread.comm
    return NfCore(
        cpu=cpu,
        thread=name,
        packets_per_s=packets,
        run_ratio=run,
        wait_ratio=wait,
        busy_ratio=busy,
        awake_busy_ratio=_of_awake_time(busy, run),
        nf_cycles_per_s=_NO_CYCLES,
        loose=None if found is None else not_bound(name, found.thread.allowed),
    )


def _of_awake_time(busy: Reading, run: Reading) -> Reading:
    """Share of the time its thread ran, from that of all time: in interrupt mode it sleeps."""
    ratio = quotient(busy, run)
    return ratio if isinstance(ratio, Missing) else min(ratio, 1.0)
