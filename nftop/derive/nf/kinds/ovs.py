"""Rates of OVS-DPDK: each PMD thread counts its own packets and its busy cycles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

from nftop.derive.nf.counter_rates import (
    Rated,
    identity,
    known_rate,
    rate_counters,
    rate_of,
    rate_process,
    restarted,
)
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
from nftop.derive.threads import ThreadRate
from nftop.model.metrics.flow_tables import CACHES, LOOKUPS
from nftop.model.missing import Missing, Reading, Reason, quotient, total
from nftop.model.nf.components import DeferredRows, NfDrop, NfFlowTables, NfQueue
from nftop.model.nf.ovs import OvsPmd, OvsSwitch, OvsTable
from nftop.model.owner import owned_name
from nftop.model.struct import dataclass, field, replace

# Counter (a field of `OvsPmd`) and core of the PMD thread.
OvsCounter: TypeAlias = tuple[str, int]

_UNREPORTED = Missing(Reason.SOURCE, "this OVS does not count it for its PMD threads")
_CLEARED = Missing(Reason.RESET, "its statistics were cleared, and OVS has none to tell yet")
_ONLY_PASSES = Missing(
    Reason.SOURCE,
    "OVS before 2.10 counts passes through its flow tables, of which a packet may take several",
)
_NO_CYCLES = Missing(
    Reason.IDLE, "OVS reports a PMD thread's cycles only once it has received a packet"
)
_NO_BUSY = Missing(
    Reason.SOURCE,
    "this OVS does not count busy cycles, and its pmd-rxq-show has no shares of each queue yet",
)
_NO_DROPS = Missing(
    Reason.SOURCE,
    "OVS' PMD statistics don't count what the NIC dropped; its DPDK telemetry socket does",
)
_NO_PORTS = Missing(Reason.SOURCE, "OVS' PMD statistics are of threads, not of ports")
_NO_NODES = Missing(Reason.UNDEFINED, "OVS has no graph nodes")
_QUEUES_AS_ONE = Missing(
    Reason.SOURCE, "OVS counts the packets of a PMD thread, not those of each of its queues"
)
_NO_WINDOW = Missing(Reason.WARMING, "pmd-rxq-show has no share of it yet: its window is not full")
# Reason of drops.
LOST = "lost upcalls"
_NO_PMDS = Missing(Reason.UNDEFINED, "it has no PMD threads")

# OVS' counting time may lag behind the time between two readings by this much, since replies differ
# in time; beyond that it was cleared.
_LAG_RATIO = 0.3
_LAG_S = 0.25


@dataclass(frozen=True, slots=True)
class OvsState:
    """State by process: pid and start time."""

    switches: Mapping[str, Rated[OvsCounter]] = field(default_factory=dict)


def step_ovs(
    state: OvsState | None, table: OvsTable, context: NfContext
) -> tuple[OvsState, tuple[NfRates, ...]]:
    """Fold one reading in; processes that ended are dropped.

    Packets are those received by PMD threads, without taps of the main thread.
    """
    known = {} if state is None else state.switches
    switches: dict[str, Rated[OvsCounter]] = {}
    rates = []
    for switch in table.switches:
        key = identity(switch.pid, switch.start_ticks, switch.socket)
        rated = rate_process(known.get(key), switch.problem, partial(_rate, switch))
        if rated is not None:
            switches[key] = rated
        rates.append(_nf_rates(key, _PmdRates(switch, rated), context.threads))
    return OvsState(switches), tuple(rates)


def _rate(switch: OvsSwitch, before: Rated[OvsCounter] | None) -> Rated[OvsCounter]:
    rated = rate_counters(before, _counters(switch), switch.read_at_ns)
    return restarted(rated) if _cleared(rated) else rated


def _cleared(rated: Rated[OvsCounter]) -> bool:
    """Whether statistics were cleared between two readings, even if higher again."""
    if rated.interval_s is None:
        return False
    lags_s = (
        rated.interval_s * (1 - rate / 1000)
        for (what, _), rate in rated.rates.items()
        if what == "counted_ms" and not isinstance(rate, Missing)
    )
    return max(lags_s, default=0.0) > max(_LAG_S, _LAG_RATIO * rated.interval_s)


def _counters(switch: OvsSwitch) -> dict[OvsCounter, int]:
    """All cumulative counters of OVS, by name."""
    return {
        (what, pmd.core): count
        for pmd in switch.pmds
        for what, count in {**_rated_counters(pmd), "counted_ms": _counted_ms(pmd)}.items()
        if count is not None
    }


def _counted_ms(pmd: OvsPmd) -> int | None:
    return None if pmd.counted_s is None else round(pmd.counted_s * 1000)


def _rated_counters(pmd: OvsPmd) -> dict[str, int | None]:
    return {
        "rx_packets": pmd.rx_packets,
        "tx_packets": pmd.tx_packets,
        "used_cycles": pmd.used_cycles,
        "busy_cycles": pmd.busy_cycles,
        "sleep_us": pmd.sleep_us,
        "upcalls": pmd.upcalls,
        "lost_upcalls": pmd.lost_upcalls,
        "tx_batches": pmd.tx_batches,
        **pmd.hits,
    }


@dataclass(frozen=True, slots=True)
class _PmdRates:
    """Rates of one vswitchd by name, or reasons."""

    switch: OvsSwitch
    rated: Rated[OvsCounter] | None

    def rate(self, what: str, pmd: OvsPmd) -> Reading:
        if self.switch.problem is not None:
            return self.switch.problem
        name = what, pmd.core
        known = known_rate(self.rated, name)
        return rate_of(self.rated, name, _uncounted(what, pmd)) if known is None else known

    def total(self, what: str) -> Reading:
        """One counter's rate over all PMD threads."""
        return total(
            (self.rate(what, pmd) for pmd in self.switch.pmds),
            of_nothing=self.switch.problem or _NO_PMDS,
        )

    def busy_awake(self, pmd: OvsPmd) -> Reading:
        """Share of its awake time that a PMD thread worked."""
        busy, used = self.rate("busy_cycles", pmd), self.rate("used_cycles", pmd)
        ratio = quotient(busy, used)
        if pmd.busy_cycles is None and not isinstance(used, Missing):
            return _of_its_queues(pmd)
        return ratio

    def busy(self, pmd: OvsPmd) -> Reading:
        """Share of all time that a PMD thread worked."""
        ratio = self.busy_awake(pmd)
        asleep = self.rate("sleep_us", pmd)
        if isinstance(ratio, Missing) or isinstance(asleep, Missing):
            return ratio  # what does not count its sleep is too old to sleep
        return ratio * max(1.0 - asleep / 1e6, 0.0)


def _uncounted(what: str, pmd: OvsPmd) -> Missing:
    if all(count is None for count in _rated_counters(pmd).values()):
        return _CLEARED
    if what.endswith("_cycles") and pmd.used_cycles is None and pmd.rx_packets == 0:
        return _NO_CYCLES
    if what == "rx_packets" and pmd.used_cycles is not None:
        return _ONLY_PASSES
    return _UNREPORTED


def _of_its_queues(pmd: OvsPmd) -> Reading:
    """Busy ratio from the shares in pmd-rxq-show; OVS 4.0 has no exact busy cycles."""
    shares_of_time = [*(queue.used_ratio for queue in pmd.queues), pmd.overhead_ratio]
    known = [share for share in shares_of_time if share is not None]
    # Each share is rounded.
    return min(sum(known), 1.0) if len(known) == len(shares_of_time) else _NO_BUSY


def _nf_rates(key: str, rates: _PmdRates, threads: Sequence[ThreadRate]) -> NfRates:
    switch = rates.switch
    own = {
        rate.thread.role_index: rate
        for rate in threads
        if rate.thread.pid == switch.pid and rate.thread.role == "ovs_pmd"
    }
    received = rates.total("rx_packets")
    return NfRates(
        key=key,
        name=owned_name(
            qualified(switch.name, folder(switch.rundir), usual="openvswitch"), switch.owner
        ),
        owner=switch.owner,
        prefix="",
        kind="ovs",
        pid=switch.pid,
        interval_s=None if rates.rated is None else rates.rated.interval_s,
        attribution=_attribution(switch),
        problem=switch.problem,
        rx_packets_per_s=received,
        tx_packets_per_s=rates.total("tx_packets"),
        missed_packets_per_s=switch.problem or _NO_DROPS,
        packets_per_s=received,
        direction="rx",
        cores=tuple(_core(rates, pmd, own.get(pmd.core)) for pmd in switch.pmds),
        uncounted=None,
        ports=_NO_PORTS,
        queues=switch.problem
        or DeferredRows(
            lambda: [item for pmd in switch.pmds for item in _queues(rates, pmd, own.get(pmd.core))]
        ),
        nodes=_NO_NODES,
        flow_tables=switch.problem
        or DeferredRows(
            lambda: [_flow_tables(rates, pmd, own.get(pmd.core)) for pmd in switch.pmds]
        ),
        drops=switch.problem
        or DeferredRows(
            lambda: [
                NfDrop(_thread_name(pmd, own.get(pmd.core)), LOST, rates.rate("lost_upcalls", pmd))
                for pmd in switch.pmds
            ]
        ),
        readings={f"ovs.{name}": value for name, value in _lookups(rates, switch.pmds).items()},
    )


def _lookups(rates: _PmdRates, pmds: Sequence[OvsPmd]) -> dict[str, Reading]:
    """Rates of flow tables over some PMD threads, by the end of the metric's id."""

    def summed(what: str) -> Reading:
        return total(
            (rates.rate(what, pmd) for pmd in pmds), of_nothing=rates.switch.problem or _NO_PMDS
        )

    # An OVS that has a table prints its line; before 2.10 there were fewer.
    tables = [table for table in LOOKUPS if any(table in pmd.hits for pmd in pmds)]
    hits = {table: summed(table) for table in LOOKUPS}
    upcalls = summed("upcalls")
    unreported = emc if isinstance(emc := hits["emc"], Missing) else _UNREPORTED
    cached = total((hits[table] for table in tables if table in CACHES), unreported)
    every = total([*(hits[table] for table in tables), upcalls])
    return {
        "cache_hit_ratio": quotient(cached, every),
        **{f"{table}_hits_per_s": reading for table, reading in hits.items()},
        "upcalls_per_s": upcalls,
        "lost_upcalls_per_s": summed("lost_upcalls"),
        "packets_per_batch": quotient(summed("tx_packets"), summed("tx_batches")),
    }


def _flow_tables(rates: _PmdRates, pmd: OvsPmd, thread: ThreadRate | None) -> NfFlowTables:
    cpu = pmd.core if thread is None else where_it_runs(thread)
    return NfFlowTables(cpu, _thread_name(pmd, thread), **_lookups(rates, [pmd]))


def _thread_name(pmd: OvsPmd, thread: ThreadRate | None) -> str:
    return f"pmd on core {pmd.core}" if thread is None else thread.thread.comm


def _queues(rates: _PmdRates, pmd: OvsPmd, thread: ThreadRate | None) -> tuple[NfQueue, ...]:
    """Queues of one PMD thread; a single queue has the thread's packets."""
    received = rates.rate("rx_packets", pmd)
    return tuple(
        NfQueue(
            port=queue.port,
            queue=queue.queue,
            cpu=pmd.core if thread is None else where_it_runs(thread),
            packets_per_s=received if len(pmd.queues) == 1 else _QUEUES_AS_ONE,
            used_ratio=_NO_WINDOW if queue.used_ratio is None else queue.used_ratio,
            enabled=queue.enabled,
        )
        for queue in pmd.queues
    )


def _attribution(switch: OvsSwitch) -> str:
    if not switch.pmds:
        return "it has no PMD threads: does it have a DPDK port, and is dpdk-init set?"
    by_window = any(
        pmd.busy_cycles is None and pmd.overhead_ratio is not None for pmd in switch.pmds
    )
    window_s = switch.usage_window_s
    how = "each PMD thread counts what it receives"
    if by_window and window_s is not None:
        how += f"; its busy share is that of the last {window_s:.0f} s, as pmd-rxq-show rounds it"
    return how


def _core(rates: _PmdRates, pmd: OvsPmd, thread: ThreadRate | None) -> NfCore:
    run, wait = shares(thread)
    own = awake_or_asleep(thread)
    name = _thread_name(pmd, thread)
    return NfCore(
        cpu=pmd.core if thread is None else where_it_runs(thread),
        thread=name,
        packets_per_s=rates.rate("rx_packets", pmd),
        run_ratio=run,
        wait_ratio=wait,
        busy_ratio=of_its_own_time(rates.busy(pmd), own),
        awake_busy_ratio=of_its_own_time(rates.busy_awake(pmd), own),
        nf_cycles_per_s=rates.rate("used_cycles", pmd),
        # OVS binds it, so its CPU is known even if its thread can't be seen.
        unpinned=None if thread is None else not_bound(name, thread.thread.allowed),
    )


def _with_problem(table: OvsTable, why: Missing) -> OvsTable:
    return replace(
        table,
        switches=tuple(replace(switch, problem=switch.problem or why) for switch in table.switches),
    )


register("ovs", OvsTable, OvsState, rate=step_ovs, with_problem=_with_problem)
