"""Statistics of the simulated network functions: DPDK telemetry, OVS replies, VPP segments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from nftop.model.ids import Cpu, Lcore
from nftop.model.missing import Missing, Reason
from nftop.model.nf.ovs import OvsPmd, OvsQueue, OvsSwitch, OvsTable
from nftop.model.nf.vpp import VppErrors, VppInstance, VppInterfaces, VppNodes, VppTable, VppThread
from nftop.model.nf.vpp_drops import counts_vpp_drops
from nftop.model.sample import Counts, DpdkApp, DpdkLatency, DpdkLcore, DpdkPort, DpdkTable
from nftop.model.struct import replace
from nftop.sim import workloads
from nftop.sim.layout import Placed
from nftop.sim.model import Model
from nftop.sim.payloads import identity, main_cpu, placed_as
from nftop.sim.uncore import nic_bus
from nftop.sim.workloads import INDEX

DPDK_VERSION = "DPDK 24.11.1"
_TESTPMD_PORTS = 4
# The papers' frames of 64 bytes, without their check sequence; links of 25 Gbit/s, an assumption.
_FRAME_BYTES, _LINK_BITS_PER_S = 60, 25_000_000_000


def dpdk_table(model: Model, t_ns: int, at_ns: int, *, everything: bool = False) -> DpdkTable:
    """`everything`: with all counters of ports."""
    counts = model.counts(t_ns)
    apps = (
        replace(
            _APPS[placed.task.kind](model, placed, order, counts),
            read_at_ns=at_ns,
            latency=_latency(model, placed, t_ns, at_ns),
        )
        for order, placed in placed_as(model, _APPS)
    )
    if everything:
        return DpdkTable(tuple(apps))
    return DpdkTable(
        tuple(
            replace(app, ports=tuple(replace(port, xstats={}) for port in app.ports))
            for app in apps
        )
    )


def ports_of(placed: Placed) -> tuple[tuple[Cpu, ...], tuple[Cpu, ...]]:
    """CPUs that poll the queues of a cross-connect's two ports, alternating."""
    return placed.cpus[::2], placed.cpus[1::2]


def _testpmd(model: Model, placed: Placed, order: int, counts: Counts) -> DpdkApp:
    """testpmd --record-core-cycles: its lcores report busy cycles."""
    main = main_cpu(model, placed)
    lcores = [DpdkLcore(Lcore(main), (main,), "RTE")]
    for cpu in placed.cpus:
        cycles = (int(counts[cpu, INDEX[name]]) for name in ("tsc", "work_cycles"))
        lcores.append(DpdkLcore(Lcore(cpu), (cpu,), "RTE", *cycles))
    received = sum(int(counts[cpu, INDEX["packets"]]) for cpu in placed.cpus)
    missed = sum(int(counts[cpu, INDEX["missed"]]) for cpu in placed.cpus)
    ports = tuple(
        _port(order, port, (received + port) // _TESTPMD_PORTS, (missed + port) // _TESTPMD_PORTS)
        for port in range(_TESTPMD_PORTS)
    )
    params = (
        "dpdk-testpmd",
        f"--nb-cores={len(placed.cpus)}",
        "--record-core-cycles",
        f"--latencystats={placed.cpus[0]}",
        "--auto-start",
    )
    return _app(placed, order, ports, tuple(lcores), params)


# latencystats of the simulated testpmd are read every 10 s: a mean of full bursts, a least of one
# packet, and a most, all assumptions.
_LATENCY_NS, _MOST_LATENCY_NS = 10_000_000_000, 250_000
_NO_LATENCY = Missing(Reason.SOURCE, "the application has no latencystats on")


def _latency(model: Model, placed: Placed, t_ns: int, at_ns: int) -> DpdkLatency | Missing:
    if placed.task.kind != "testpmd":
        return _NO_LATENCY
    age_ns = t_ns % _LATENCY_NS
    own = model.rates(t_ns - age_ns)[0][list(placed.cpus)].sum(axis=0)
    packets, work, tsc = (float(own[INDEX[name]]) for name in ("packets", "work_cycles", "tsc"))
    if not packets:
        return Missing(Reason.IDLE, "latencystats has timed no packet yet")
    packet_ns = work / packets * len(placed.cpus) / tsc * 1e9
    mean_ns = round(_BURST * packet_ns)
    return DpdkLatency(
        mean_ns, round(packet_ns), _MOST_LATENCY_NS, mean_ns // 8, read_at_ns=at_ns - age_ns
    )


def _l3fwd(_: Model, placed: Placed, order: int, counts: Counts) -> DpdkApp:
    """l3fwd: a port with one queue for each lcore, as in its --config."""
    ports = tuple(
        _port(order, port, int(counts[cpu, INDEX["packets"]]), int(counts[cpu, INDEX["missed"]]))
        for port, cpu in enumerate(placed.cpus)
    )
    lcores = tuple(DpdkLcore(Lcore(cpu), (cpu,), "RTE") for cpu in placed.cpus)
    config = ",".join(f"({port},0,{cpu})" for port, cpu in enumerate(placed.cpus))
    mask = hex((1 << len(ports)) - 1)
    params = ("dpdk-l3fwd", "-p", mask, f"--config={config}")
    return _app(placed, order, ports, lcores, params)


_RECEIVED_OR_NOT = ("packets", "missed", "lost_upcalls")


def _ovs(model: Model, placed: Placed, order: int, counts: Counts) -> DpdkApp:
    """The DPDK of OVS: its ports, and PMD threads unknown to EAL."""
    main = main_cpu(model, placed)
    threads = (DpdkLcore(Lcore(n), (cpu,), "NON_EAL") for n, cpu in enumerate(placed.cpus, 1))
    polled = ports_of(placed)
    sides = [
        [tuple(int(counts[cpu, INDEX[name]]) for name in _RECEIVED_OR_NOT) for cpu in cpus]
        for cpus in polled
    ]
    received = [sum(packets for packets, _, _ in side) for side in sides]
    sent = [sum(packets - lost for packets, _, lost in side) for side in sides]
    ports = tuple(
        replace(
            _port(order, port, received[port], sum(missed for _, missed, _ in side)),
            rx_queues=max(len(side), 1),
            tx_packets=sent[1 - port],  # what comes in on one goes out on the other
            rx_queue_packets=tuple(packets for packets, _, _ in side) or (0,),
        )
        for port, side in enumerate(sides)
    )
    lcores = (DpdkLcore(Lcore(0), (main,), "RTE"), *threads)
    return _app(placed, order, ports, lcores, ("ovs-vswitchd",))


_APPS: Mapping[str, Callable[[Model, Placed, int, Counts], DpdkApp]] = MappingProxyType(
    {"testpmd": _testpmd, "l3fwd": _l3fwd, "ovs": _ovs}
)


def _port(order: int, port: int, packets: int, missed: int) -> DpdkPort:
    """A port that sends what it receives, named by a fictitious PCI address."""
    return DpdkPort(
        port=port,
        name=f"0000:{nic_bus(order):02x}:{port // 8:02x}.{port % 8}",
        rx_queues=1,
        rx_packets=packets,
        tx_packets=packets,
        rx_missed=missed,
        rx_queue_packets=(packets,),
        rx_bytes=packets * _FRAME_BYTES,
        link_bits_per_s=_LINK_BITS_PER_S,
        rx_errors=0,
        tx_errors=0,
        rx_nombuf=0,
        xstats=_xstats(packets, missed),
    )


def _xstats(packets: int, missed: int) -> Mapping[str, int]:
    """As ethdev's generic ones."""
    size = packets * _FRAME_BYTES
    return {
        "rx_good_packets": packets,
        "tx_good_packets": packets,
        "rx_good_bytes": size,
        "tx_good_bytes": size,
        "rx_missed_errors": missed,
        "rx_errors": 0,
        "tx_errors": 0,
        "rx_mbuf_allocation_errors": 0,
        "rx_q0_packets": packets,
        "rx_q0_bytes": size,
        "rx_q0_errors": 0,
    }


def _app(
    placed: Placed,
    order: int,
    ports: tuple[DpdkPort, ...],
    lcores: tuple[DpdkLcore, ...],
    params: tuple[str, ...],
) -> DpdkApp:
    """An application; `params` begins with its program; `read_at_ns` is set later."""
    program = params[0]
    pid, start_ticks = identity(order)
    listed = ",".join(str(lcore.lcore) for lcore in lcores)
    return DpdkApp(
        pid=pid,
        start_ticks=start_ticks,
        name=program,
        prefix=placed.name,
        socket=f"/var/run/dpdk/{placed.name}/dpdk_telemetry.v2",
        version=DPDK_VERSION,
        problem=None,
        ports=ports,
        lcores=lcores,
        lcores_told=True,
        eal_params=(program, "-l", listed, f"--file-prefix={placed.name}"),
        app_params=params,
        read_at_ns=0,
        took_ns=0,
    )


OVS_VERSION = "ovs-vswitchd (Open vSwitch) 3.5.0"
# Bursts are full, as OVS' are at most: an assumption.
_BURST = 32
# Window of pmd-rxq-show -secs 5; its shares are NOT AVAIL before the first full one.
_WINDOW_S = 5.0


def ovs_table(model: Model, t_ns: int, at_ns: int) -> OvsTable:
    counts = model.counts(t_ns)
    window_ns = round(_WINDOW_S * 1e9)
    earlier = model.counts(t_ns - window_ns) if t_ns >= window_ns else None
    return OvsTable(
        tuple(
            _switch(model, placed, order, (counts, earlier), at_ns)
            for order, placed in placed_as(model, ("ovs",))
        )
    )


def _switch(
    model: Model, placed: Placed, order: int, counts: tuple[Counts, Counts | None], at_ns: int
) -> OvsSwitch:
    pid, start_ticks = identity(order)
    rundir = "/var/run/openvswitch"
    nodes = [model.layout.topology.cpus[cpu].node for cpu in placed.cpus]
    return OvsSwitch(
        pid=pid,
        start_ticks=start_ticks,
        name="ovs-vswitchd",
        rundir=rundir,
        socket=f"{rundir}/ovs-vswitchd.{pid}.ctl",
        version=OVS_VERSION,
        problem=None,
        pmds=tuple(
            _pmd(cpu, node or 0, position, *counts)
            for position, (cpu, node) in enumerate(zip(placed.cpus, nodes, strict=True))
        ),
        usage_window_s=_WINDOW_S,
        read_at_ns=at_ns,
        took_ns=0,
    )


def _pmd(cpu: Cpu, node: int, position: int, now: Counts, earlier: Counts | None) -> OvsPmd:
    packets, used, busy = (int(now[cpu, INDEX[name]]) for name in _PACKETS_AND_CYCLES)
    cached, megaflow, upcalls, lost = (int(now[cpu, INDEX[name]]) for name in _LOOKUPS)
    queue = OvsQueue(f"dpdk{position % 2}", position // 2, enabled=True, used_ratio=None)
    overhead = None
    if earlier is not None:
        _, used_before, busy_before = (int(earlier[cpu, INDEX[n]]) for n in _PACKETS_AND_CYCLES)
        share = round((busy - busy_before) / (used - used_before), 2)
        queue = OvsQueue(queue.port, queue.queue, enabled=True, used_ratio=share)
        overhead = 0.0  # all it does it does for its queue
    return OvsPmd(
        core=cpu,
        numa=node,
        rx_packets=packets,
        tx_packets=packets - lost,
        used_cycles=used,
        busy_cycles=busy,
        sleep_us=0,
        upcalls=upcalls,
        lost_upcalls=lost,
        queues=(queue,),
        overhead_ratio=overhead,
        hits={"phwol": 0, "simple": 0, "emc": cached, "smc": 0, "megaflow": megaflow},
        tx_batches=packets // _BURST,
    )


_LOOKUPS = ("emc_hits", "megaflow_hits", "upcalls", "lost_upcalls")
_PACKETS_AND_CYCLES = ("packets", "tsc", "work_cycles")


VPP_VERSION = "26.06"
_INPUT = "dpdk-input"
# VPP's statseg section: `update-interval 1.0`, `per-node-counters on`.
_UPDATE_NS = 1_000_000_000
# TSC cycles of an empty poll, an assumption.
_EMPTY_POLL_CYCLES = 60


def vpp_table(model: Model, t_ns: int, at_ns: int) -> VppTable:
    beats = t_ns // _UPDATE_NS
    times = t_ns, beats * _UPDATE_NS, max(beats - 1, 0) * _UPDATE_NS
    now, refreshed, before = (model.counts(time) for time in times)
    return VppTable(
        tuple(
            replace(
                _instance(model, placed, order, (refreshed, before)),
                heartbeat=beats,
                interfaces=_interfaces(placed, order, now),
                read_at_ns=at_ns,
                errors=_errors(placed, now),
            )
            for order, placed in placed_as(model, ("vpp",))
        )
    )


def _instance(
    model: Model, placed: Placed, order: int, refreshed: tuple[Counts, Counts]
) -> VppInstance:
    """All that does not depend on the time of the read; `refreshed`: the last two counts."""
    pid, start_ticks = identity(order)
    nodes, before = (_nodes(placed, counts) for counts in refreshed)
    return VppInstance(
        pid=pid,
        start_ticks=start_ticks,
        name="vpp",
        socket=f"/run/{placed.name}/stats.sock",
        version=VPP_VERSION,
        problem=None,
        heartbeat=0,
        threads=_threads(model, placed, nodes, before),
        interfaces=_interfaces(placed, order, refreshed[0]),
        nodes=nodes,
        read_at_ns=0,
        took_ns=0,
    )


def _threads(
    model: Model, placed: Placed, nodes: VppNodes, before: VppNodes
) -> tuple[VppThread, ...]:
    """The main thread and the workers; a worker's loop calls its input node once."""
    calls, vectors = nodes.calls - before.calls, nodes.vectors - before.vectors
    loops = calls[:, 0] / (_UPDATE_NS / 1e9)
    rate = vectors[:, 1] // np.maximum(calls[:, 1], 1)
    main = VppThread(0, main_cpu(model, placed), 0, None, 0.0)
    workers = (
        VppThread(index, cpu, 1, float(loops[index]), float(rate[index]))
        for index, cpu in enumerate(placed.cpus, 1)
    )
    return (main, *workers)


def _interfaces(placed: Placed, order: int, counts: Counts) -> VppInterfaces:
    """Two ports; what comes in on one and is not dropped with an error goes out on the other."""
    names = ("local0", *(f"eth{nic_bus(order):x}/0/{number}" for number in (0, 1)))
    shape = len(placed.cpus) + 1, len(names)
    received, sent, missed, dropped = (np.zeros(shape, dtype=np.uint64) for _ in range(4))
    errors = _errors(placed, counts)
    is_drop = [counts_vpp_drops(*error) for error in zip(errors.nodes, errors.names, strict=True)]
    lost = errors.counts[:, is_drop].sum(axis=1)
    for index, cpu in enumerate(placed.cpus, 1):
        port = 1 + (index - 1) % 2
        received[index, port] = counts[cpu, INDEX["packets"]]
        dropped[index, port] = lost[index]
        sent[index, 3 - port] = received[index, port] - lost[index]
        missed[0, port] += counts[cpu, INDEX["missed"]]  # as the main thread reads it from the NIC
    zeros = np.zeros(shape, dtype=np.uint64)
    return VppInterfaces(
        names,
        received,
        sent,
        missed,
        dropped,
        rx_bytes=received * np.uint64(_FRAME_BYTES),
        rx_no_buffers=zeros,
        rx_errors=zeros,
        tx_errors=zeros,
    )


def _errors(placed: Placed, counts: Counts) -> VppErrors:
    """The scenario's, of each worker one of so many packets that it received."""
    errors = placed.task.errors
    split = [name.split("/", 1) for name in errors]
    packets = counts[list(placed.cpus), INDEX["packets"]].astype(np.uint64)
    of_workers = packets[:, None] // np.array(list(errors.values()), dtype=np.uint64)
    main = np.zeros((1, len(errors)), dtype=np.uint64)
    return VppErrors(
        1,
        tuple(node for node, _ in split),
        tuple(name for _, name in split),
        np.vstack([main, of_workers]),
    )


def _nodes(placed: Placed, counts: Counts) -> VppNodes:
    """The input node first; `work_cycles` by the workload's shares, the rest in empty polls."""
    shares = workloads.tables()[placed.task.workload]["nodes"]
    names = (_INPUT, *(name for name in shares if name != _INPUT))
    own = counts[list(placed.cpus)]
    packets, work, tsc, frames = (
        own[:, INDEX[name]] for name in ("packets", "work_cycles", "tsc", "frames")
    )
    clocks = np.floor(work[:, None] * np.array([shares[name] for name in names])).astype(np.uint64)
    empty = np.maximum(tsc.astype(np.int64) - work.astype(np.int64), 0).astype(np.uint64)
    clocks[:, 0] += empty
    calls = np.repeat(frames[:, None], len(names), axis=1)
    calls[:, 0] += empty // np.uint64(_EMPTY_POLL_CYCLES)
    vectors = np.repeat(packets[:, None], len(names), axis=1)
    main = np.zeros((1, len(names)), dtype=np.uint64)
    return VppNodes(names, *(np.vstack([main, item]) for item in (clocks, vectors, calls)))
