"""Rates of DPDK applications, per application and per polling core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TypeAlias

from nftop.derive.nf.counter_rates import (
    Rated,
    identity,
    known_rate,
    rate_counters,
    rate_of,
    rate_process,
)
from nftop.derive.nf.kinds.dpdk_queues import Attribution, LcoreThread, attribute, refreshed
from nftop.derive.nf.line_rate import frame_size, is_pci, line_of
from nftop.derive.nf.rates import (
    NfContext,
    NfCore,
    NfRates,
    drops_of_core,
    of_its_own_time,
    qualified,
    shares,
)
from nftop.derive.nf.registry import register
from nftop.derive.threads import by_process
from nftop.model.clock import NS_PER_S
from nftop.model.ids import Lcore
from nftop.model.metrics.nf import LATENCY_METRICS
from nftop.model.metrics.ports import PORT_LOSSES
from nftop.model.missing import Missing, Reading, Reason, quotient, total
from nftop.model.nf.components import NOT_REPORTED, DeferredRows, NfDrop, NfPort, NfQueue, NfXstat
from nftop.model.nf.dpdk_busy import busy_advice
from nftop.model.nf.kinds import DPDK_PROGRAM
from nftop.model.nf.queue_map import Prefix, Queue, QueueMap
from nftop.model.owner import owned_name, rank
from nftop.model.sample import DpdkApp, DpdkPort, DpdkTable
from nftop.model.struct import dataclass, field, replace

# Counter (`rx`, `tx`, `bytes`, `missed`, `queue`, `queue_missed`, `total`, `busy`), port or lcore,
# and the port's name and queue: a port number may be reused for another device.
DpdkCounter: TypeAlias = tuple[str, int, str, int]

# Ratio of sent to received packets from which an application is a generator.
_GENERATOR_RATIO = 1000

# Drops of queues that add up to the port's within this share are those.
_SAME_RATIO = 0.001

# Names of devices whose packets other ports count too. The name of a virtual device begins with its
# driver's (vdev.c).
_BONDS = ("net_bonding", "eth_bond")

# Before the name of a driver's counter.
_XSTAT = "xstat "
_NO_QUEUE = Missing(Reason.UNDEFINED, "it polls no queue: it works on what others received")
_ONLY_SENDS = Missing(Reason.UNDEFINED, "it only sends: packets that it leaves cost it nothing")
_NO_SHARE = Missing(Reason.SOURCE, "DPDK does not count the time that goes into a queue")
_NO_NODES = Missing(Reason.UNDEFINED, "nftop knows no packet graph of it")
_NO_DROPS = Missing(Reason.SOURCE, "what the application itself drops only it knows")
# The application reports their number; the length of nftop's message must not depend on it.
_MOST_QUEUES = 256
_ONLY_TOTAL = Missing(
    Reason.SOURCE, "DPDK does not report which lcore polls which queue; see the NF's total"
)


@dataclass(frozen=True, slots=True)
class DpdkState:
    """State by application: pid and start time.

    `attributions`: the last ones, which stay while the application does not answer. `generators`:
    those that only sent when packets last moved.
    """

    apps: Mapping[str, Rated[DpdkCounter]] = field(default_factory=dict)
    attributions: Mapping[str, Attribution] = field(default_factory=dict)
    generators: frozenset[str] = frozenset()


def step_dpdk(
    state: DpdkState | None, table: DpdkTable, context: NfContext
) -> tuple[DpdkState, tuple[NfRates, ...]]:
    """Fold one reading in; applications that ended are dropped."""
    state = state or DpdkState()
    apps: dict[str, Rated[DpdkCounter]] = {}
    attributions: dict[str, Attribution] = {}
    generators: set[str] = set()
    rates = []
    own_prefixes = {app.prefix for app in table.apps if rank(app.owner) == 0}
    own_threads = by_process(context.threads)
    for app in table.apps:
        key = identity(app.pid, app.start_ticks, app.socket)
        rated = rate_process(state.apps.get(key), app.problem, partial(_rate, app))
        if rated is not None:
            apps[key] = rated
        known = _app_rates(app, rated)
        threads = own_threads.get(app.pid, ())
        queue_map = _map_of(app, context.queue_map, own_prefixes)
        held = state.attributions.get(key) if app.problem is not None else None
        attributions[key] = (
            attribute(app, threads, known.counting, queue_map, moves=known.moves)
            if held is None
            else refreshed(held, threads)
        )
        generates = _only_generates(known, held=key in state.generators)
        if generates:
            generators.add(key)
        rates.append(_nf_rates(key, known, attributions[key], generates=generates))
    return DpdkState(apps, attributions, frozenset(generators)), tuple(rates)


def _map_of(app: DpdkApp, queue_map: QueueMap, own_prefixes: set[str]) -> QueueMap:
    """The operator's map, without a privileged prefix for an unprivileged application."""
    if rank(app.owner) == 0 or app.prefix not in own_prefixes:
        return queue_map
    return {prefix: item for prefix, item in queue_map.items() if prefix != Prefix(app.prefix)}


def _rate(app: DpdkApp, before: Rated[DpdkCounter] | None) -> Rated[DpdkCounter]:
    return rate_counters(before, _counters(app), app.read_at_ns)


def _counters(app: DpdkApp) -> dict[DpdkCounter, int]:
    """All cumulative counters of the application, by name."""
    counters: dict[DpdkCounter, int | None] = {}
    for port in app.ports:
        for name, count in port.xstats.items():
            counters[_of_port(_XSTAT + name, port)] = count
        counters[_of_port("rx_errors", port)] = port.rx_errors
        counters[_of_port("tx_errors", port)] = port.tx_errors
        counters[_of_port("rx_nombuf", port)] = port.rx_nombuf
        counters[_of_port("rx", port)] = port.rx_packets
        counters[_of_port("tx", port)] = port.tx_packets
        counters[_of_port("missed", port)] = port.rx_missed
        counters[_of_port("bytes", port)] = port.rx_bytes
        for queue, packets in enumerate(port.rx_queue_packets):
            counters[_of_port("queue", port, queue)] = packets
        for queue, packets in enumerate(port.rx_queue_missed):
            counters[_of_port("queue_missed", port, queue)] = packets
    for lcore in app.lcores:
        counters[_of_lcore("total", lcore.lcore)] = lcore.total_cycles
        counters[_of_lcore("busy", lcore.lcore)] = lcore.busy_cycles
    return {name: count for name, count in counters.items() if count is not None}


def _of_port(what: str, port: DpdkPort, queue: int = 0) -> DpdkCounter:
    return what, port.port, port.name, queue


def _of_lcore(what: str, lcore: Lcore) -> DpdkCounter:
    return what, lcore, "", 0


def _only_generates(rates: _AppRates, *, held: bool) -> bool:
    """Whether it sends now and hardly receives; `held` if no packets move or rates are unknown."""
    received, sent = rates.ports("rx"), rates.ports("tx")
    if isinstance(received, Missing) or isinstance(sent, Missing) or received == sent == 0:
        return held
    return sent > _GENERATOR_RATIO * received


def _nf_rates(key: str, rates: _AppRates, attribution: Attribution, *, generates: bool) -> NfRates:
    app, state = rates.app, rates.state
    received, sent = rates.ports("rx"), rates.ports("tx")
    packets = sent if generates else received
    how = attribution.how
    if generates:
        how += "; packets are counted as they are sent: it only generates"
    return NfRates(
        key=key,
        name=owned_name(
            qualified(app.name.removeprefix(DPDK_PROGRAM), app.prefix, usual="rte"), app.owner
        ),
        owner=app.owner,
        prefix=app.prefix,
        kind="dpdk",
        pid=app.pid,
        interval_s=None if state is None else state.interval_s,
        attribution=how,
        problem=app.problem,
        rx_packets_per_s=received,
        tx_packets_per_s=sent,
        missed_packets_per_s=rates.ports("missed"),
        packets_per_s=packets,
        direction="tx" if generates else "rx",
        cores=_cores(attribution, rates, packets, generates=generates),
        uncounted=attribution.uncounted,
        ports=app.problem or tuple(_port(rates, port) for port in app.ports),
        queues=app.problem or DeferredRows(partial(_queues, attribution, rates)),
        nodes=_NO_NODES,
        drops=app.problem or DeferredRows(partial(_drops, rates)),
        xstats=DeferredRows(partial(_xstats, rates)) if any(p.xstats for p in app.ports) else (),
        readings={**_losses(rates), **_latencies(app)},
        sampled_s=_latency_ages(app),
    )


def _latencies(app: DpdkApp) -> dict[str, Reading]:
    latency = app.problem or app.latency
    if isinstance(latency, Missing):
        return {metric.id: latency for metric in LATENCY_METRICS}
    times_ns = latency.mean_ns, latency.least_ns, latency.most_ns, latency.jitter_ns
    return {metric.id: float(ns) for metric, ns in zip(LATENCY_METRICS, times_ns, strict=True)}


def _latency_ages(app: DpdkApp) -> dict[str, float]:
    if app.problem is not None or isinstance(app.latency, Missing):
        return {}
    age_s = max(app.read_at_ns - app.latency.read_at_ns, 0) / NS_PER_S
    return {metric.id: age_s for metric in LATENCY_METRICS}


def _losses(rates: _AppRates) -> dict[str, Reading]:
    """Metrics of ports; drops for want of descriptors are in the row already."""
    return {
        metric: rates.ports(what)
        for _, metric, what in PORT_LOSSES
        if metric != "missed_packets_per_s"
    }


def _drops(rates: _AppRates) -> tuple[NfDrop, ...]:
    return tuple(
        NfDrop(
            _port_name(port),
            reason,
            rates.rate(_of_port("missed" if what == "rx_missed" else what, port)),
        )
        for port in rates.app.ports
        for reason, _, what in PORT_LOSSES
    )


def _xstats(rates: _AppRates) -> tuple[NfXstat, ...]:
    return tuple(
        NfXstat(_port_name(port), name, count, rates.rate(_of_port(_XSTAT + name, port)))
        for port in rates.app.ports
        for name, count in port.xstats.items()
    )


def _port_name(port: DpdkPort) -> str:
    return f"{port.port} {port.name}"


def _port(rates: _AppRates, port: DpdkPort) -> NfPort:
    received, sent, missed, size = (
        rates.rate(_of_port(what, port)) for what in ("rx", "tx", "missed", "bytes")
    )
    frame = frame_size(received, size)
    line = line_of(port.link_bits_per_s, frame, has_link=is_pci(port.name))
    return NfPort(_port_name(port), received, sent, missed, _NO_DROPS, frame, line)


def _no_busy(app: DpdkApp) -> Missing:
    advice = busy_advice(app)
    times_ns = (advice.why, advice.fix, "the kernel sees every poller as always busy")
    return Missing(Reason.SOURCE, "; ".join(filter(None, times_ns)))


def _queues(attribution: Attribution, rates: _AppRates) -> tuple[NfQueue, ...]:
    """All receive queues, with the CPU of the polling lcore if known."""
    cpu_of = {poller.lcore: poller.cpu for poller in attribution.pollers}
    all_on = None if attribution.all_on is None else attribution.all_on.cpu
    lcore_of = {
        queue: lcore for lcore, item in (attribution.queues or {}).items() for queue in item
    }
    queues = ((port, queue) for port in rates.app.ports for queue in range(port.rx_queues or 0))
    names = {port.port: _port_name(port) for port in rates.app.ports}
    return tuple(
        NfQueue(
            port=names[port.port],
            queue=queue,
            cpu=cpu_of.get(lcore_of.get((port.port, queue)), all_on),
            packets_per_s=rates.queue(port.port, queue),
            used_ratio=_NO_SHARE,
            missed_packets_per_s=rates.missed_in(port, [queue]),
        )
        for port, queue in islice(queues, _MOST_QUEUES)
    )


def _counts_twice(app: DpdkApp) -> Missing | None:
    """Why the ports of an application can't be added up, or None."""
    bond = next((port for port in app.ports if port.name.startswith(_BONDS)), None)
    if bond is None or all(port.bond_member is not None for port in app.ports):
        return None
    return Missing(
        Reason.SOURCE,
        f"port {bond.port} ({bond.name}) is made of others, and this DPDK does not report "
        "which: their packets would count twice",
    )


@dataclass(frozen=True, slots=True)
class _AppRates:
    """Rates of an application by name, or reasons.

    Attributes:
        counts_twice: see `_counts_twice`.
        no_busy: why there are no busy cycles, and what would help.
        port_of: ports by number.
        sums: rates over all ports that were asked for, by counter.
    """

    app: DpdkApp
    state: Rated[DpdkCounter] | None
    counts_twice: Missing | None
    no_busy: Missing
    port_of: Mapping[int, DpdkPort]
    sums: dict[str, Reading] = field(default_factory=dict)

    @property
    def counting(self) -> tuple[Lcore, ...]:
        """The lcores whose own cycle counter advances."""
        cycles = {lcore.lcore: self.lcore("total", lcore.lcore) for lcore in self.app.lcores}
        return tuple(
            lcore for lcore, rate in cycles.items() if not isinstance(rate, Missing) and rate > 0
        )

    @property
    def moves(self) -> bool:
        """Whether it is known to receive or send packets now."""
        both = (self.ports("rx"), self.ports("tx"))
        return any(not isinstance(item, Missing) and item > 0 for item in both)

    def ports(self, what: str) -> Reading:
        """One counter's rate over all ports, without members of bonding ports."""
        if what not in self.sums:
            self.sums[what] = self._sum(what)
        return self.sums[what]

    def _sum(self, what: str) -> Reading:
        if self.app.problem is None and self.counts_twice is not None:
            return self.counts_twice
        return total(
            (self.rate(_of_port(what, port)) for port in self.app.ports if not port.bond_member),
            of_nothing=self.app.problem or Missing(Reason.UNDEFINED, "it has no ports"),
        )

    def lcore(self, what: str, lcore: Lcore) -> Reading:
        name = _of_lcore(what, lcore)
        known = None if self.app.problem is not None else known_rate(self.state, name)
        return self.rate(name, self.no_busy) if known is None else known

    def queues(self, queues: Sequence[Queue]) -> Reading:
        """Receive rate of some queues; a port with one queue has the port's rate."""
        return total([self.queue(*queue) for queue in queues], _NO_QUEUE)

    def missed(self, queues: Sequence[Queue]) -> Reading:
        """Packets dropped for want of descriptors in some queues."""
        if self.app.problem is not None:
            return self.app.problem
        by_port: dict[int, list[int]] = {}
        for port, queue in queues:
            by_port.setdefault(port, []).append(queue)
        known = (self.missed_in(self.port_of.get(port), own) for port, own in by_port.items())
        return total(known, _NO_QUEUE)

    def missed_in(self, port: DpdkPort | None, queues: Sequence[int]) -> Reading:
        """Drops in some queues of one port.

        Of all its queues they are the port's. Queue counters that do not add up to the port's are
        of other errors.
        """
        if self.app.problem is not None:
            return self.app.problem
        if port is None:
            return Missing(Reason.SOURCE, "the application has no such port")
        of_port = self.rate(_of_port("missed", port))
        if isinstance(of_port, Missing) or of_port == 0 or len(queues) == port.rx_queues:
            return of_port
        counted = [
            rate_of(self.state, _of_port("queue_missed", port, queue), NOT_REPORTED)
            for queue in range(len(port.rx_queue_missed))
        ]
        summed = total(counted)
        if isinstance(summed, Missing) or abs(summed - of_port) > _SAME_RATIO * of_port:
            return Missing(
                Reason.SOURCE,
                f"several cores poll port {port.port}, and its driver counts its drops as one",
            )
        return total((counted[queue] for queue in queues if queue < len(counted)), NOT_REPORTED)

    def rate(self, name: DpdkCounter, uncounted: Missing | None = None) -> Reading:
        if self.app.problem is not None:
            return self.app.problem
        if (known := known_rate(self.state, name)) is not None:
            return known
        why = uncounted or Missing(Reason.SOURCE, f"the driver of port {name[1]} counts no such")
        return rate_of(self.state, name, why)

    def queue(self, port_id: int, queue: int) -> Reading:
        if self.app.problem is not None:
            return self.app.problem
        port = self.port_of.get(port_id)
        if port is None:
            return Missing(Reason.SOURCE, f"the application has no port {port_id}")
        if not port.rx_queue_packets and port.rx_queues == 1 and queue == 0:
            return self.rate(_of_port("rx", port))
        why = Missing(Reason.SOURCE, f"the driver of port {port_id} has no counter for each queue")
        return self.rate(_of_port("queue", port, queue), why)


def _app_rates(app: DpdkApp, state: Rated[DpdkCounter] | None) -> _AppRates:
    port_of = {port.port: port for port in app.ports}
    return _AppRates(app, state, _counts_twice(app), _no_busy(app), port_of)


def _cores(
    attribution: Attribution, rates: _AppRates, packets: Reading, *, generates: bool
) -> tuple[NfCore, ...]:
    cores = []
    for poller in attribution.pollers:
        if poller.cpu is None:
            continue
        cycles: Reading = rates.no_busy
        busy: Reading = cycles
        if poller.lcore is not None:
            cycles = rates.lcore("total", poller.lcore)
            busy = quotient(rates.lcore("busy", poller.lcore), cycles)
        taken = _packets_of(poller, attribution, rates, packets, generates=generates)
        run, wait = shares(poller.rate)
        busy = of_its_own_time(busy, run)
        cores.append(
            NfCore(
                cpu=poller.cpu,
                thread=poller.name,
                packets_per_s=taken,
                run_ratio=run,
                wait_ratio=wait,
                busy_ratio=busy,
                awake_busy_ratio=busy,  # one that slept is not rated at all
                nf_cycles_per_s=cycles,
                unpinned=poller.unpinned,
                missed_packets_per_s=_missed_of(poller, attribution, rates, generates=generates),
            )
        )
    return tuple(cores)


def _packets_of(
    poller: LcoreThread,
    attribution: Attribution,
    rates: _AppRates,
    packets: Reading,
    *,
    generates: bool,
) -> Reading:
    if poller == attribution.all_on:
        return packets
    if attribution.queues is None or poller.lcore is None or generates:
        return _ONLY_TOTAL
    return rates.queues(attribution.queues.get(poller.lcore, ()))


def _missed_of(
    poller: LcoreThread, attribution: Attribution, rates: _AppRates, *, generates: bool
) -> Reading:
    """Drops of the queues that one lcore polls."""
    if generates:
        return _ONLY_SENDS
    if attribution.queues is None or poller.lcore is None:
        return drops_of_core(rates.ports("missed"), len(attribution.pollers))
    return rates.missed(attribution.queues.get(poller.lcore, ()))


def _with_problem(table: DpdkTable, why: Missing) -> DpdkTable:
    return replace(
        table, apps=tuple(replace(app, problem=app.problem or why) for app in table.apps)
    )


register("dpdk", DpdkTable, DpdkState, rate=step_dpdk, with_problem=_with_problem)
