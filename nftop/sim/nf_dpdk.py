"""Telemetry of the simulated DPDK applications, OVS among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from nftop.model.ids import Cpu, Lcore
from nftop.model.sample import Counts, DpdkApp, DpdkLcore, DpdkPort, DpdkTable
from nftop.model.struct import replace
from nftop.sim.layout import Placed
from nftop.sim.model import Model
from nftop.sim.payloads import identity, main_cpu, placed_as
from nftop.sim.workloads import INDEX

VERSION = "DPDK 24.11.1"
_TESTPMD_PORTS = 4


def dpdk_table(model: Model, t_ns: int, at_ns: int) -> DpdkTable:
    """The DPDK applications behind their telemetry sockets."""
    counts = model.counts(t_ns)
    return DpdkTable(
        tuple(
            replace(_APPS[placed.task.kind](model, placed, order, counts), read_at_ns=at_ns)
            for order, placed in placed_as(model, _APPS)
        )
    )


def ports_of(placed: Placed) -> tuple[tuple[Cpu, ...], tuple[Cpu, ...]]:
    """Of a cross-connect's two ports, the CPUs that poll their queues: in turn."""
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
        _port(order, port, (received + port) // _TESTPMD_PORTS,
              (missed + port) // _TESTPMD_PORTS)
        for port in range(_TESTPMD_PORTS)
    )  # fmt: skip
    params = (
        "dpdk-testpmd",
        f"--nb-cores={len(placed.cpus)}",
        "--record-core-cycles",
        "--auto-start",
    )
    return _app(placed, order, ports, tuple(lcores), params)


def _l3fwd(_: Model, placed: Placed, order: int, counts: Counts) -> DpdkApp:
    """l3fwd: a port with one queue for each lcore, as its --config says."""
    ports = tuple(
        _port(order, port, int(counts[cpu, INDEX["packets"]]),
              int(counts[cpu, INDEX["missed"]]))
        for port, cpu in enumerate(placed.cpus)
    )  # fmt: skip
    lcores = tuple(DpdkLcore(Lcore(cpu), (cpu,), "RTE") for cpu in placed.cpus)
    config = ",".join(f"({port},0,{cpu})" for port, cpu in enumerate(placed.cpus))
    mask = hex((1 << len(ports)) - 1)
    params = ("dpdk-l3fwd", "-p", mask, f"--config={config}")
    return _app(placed, order, ports, lcores, params)


def _ovs(model: Model, placed: Placed, order: int, counts: Counts) -> DpdkApp:
    """The DPDK beneath OVS: its ports, and PMD threads that EAL knows but has not started."""
    main = main_cpu(model, placed)
    threads = (DpdkLcore(Lcore(n), (cpu,), "NON_EAL") for n, cpu in enumerate(placed.cpus, 1))
    polled = ports_of(placed)
    sides = [
        [tuple(int(counts[cpu, INDEX[name]]) for name in ("packets", "missed")) for cpu in cpus]
        for cpus in polled
    ]
    received = [sum(packets for packets, _ in side) for side in sides]
    ports = tuple(
        replace(
            _port(order, port, received[port], sum(missed for _, missed in side)),
            rx_queues=max(len(side), 1),
            tx_packets=received[1 - port],  # what comes in on one goes out on the other
            rx_queue_packets=tuple(packets for packets, _ in side) or (0,),
        )
        for port, side in enumerate(sides)
    )
    lcores = (DpdkLcore(Lcore(0), (main,), "RTE"), *threads)
    return _app(placed, order, ports, lcores, ("ovs-vswitchd",))


_APPS: Mapping[str, Callable[[Model, Placed, int, Counts], DpdkApp]] = MappingProxyType(
    {"testpmd": _testpmd, "l3fwd": _l3fwd, "ovs": _ovs}
)


def _port(order: int, port: int, packets: int, missed: int) -> DpdkPort:
    """A port that sends on whatever it received; named by a made-up PCI address."""
    bus = 0x18 + order % 0x80
    return DpdkPort(
        port=port,
        name=f"0000:{bus:02x}:{port // 8:02x}.{port % 8}",
        rx_queues=1,
        rx_packets=packets,
        tx_packets=packets,
        rx_missed=missed,
        rx_queue_packets=(packets,),
    )


def _app(
    placed: Placed,
    order: int,
    ports: tuple[DpdkPort, ...],
    lcores: tuple[DpdkLcore, ...],
    params: tuple[str, ...],
) -> DpdkApp:
    """An application; `params` begins with its program, and `read_at_ns` is still to be set."""
    program = params[0]
    pid, start_ticks = identity(order)
    listed = ",".join(str(lcore.lcore) for lcore in lcores)
    return DpdkApp(
        pid=pid,
        start_ticks=start_ticks,
        name=program,
        prefix=placed.name,
        socket=f"/var/run/dpdk/{placed.name}/dpdk_telemetry.v2",
        version=VERSION,
        problem=None,
        ports=ports,
        lcores=lcores,
        lcores_told=True,
        eal_params=(program, "-l", listed, f"--file-prefix={placed.name}"),
        app_params=params,
        read_at_ns=0,
        took_ns=0,
    )
