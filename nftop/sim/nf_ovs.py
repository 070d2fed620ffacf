"""Replies of the simulated OVS on its control socket, in closed form like the rest of the model.

Each PMD thread polls one queue of one of two ports, and all it receives goes out on the other.
"""

from __future__ import annotations

from nftop.model.ids import Cpu
from nftop.model.nf.ovs import OvsPmd, OvsQueue, OvsSwitch, OvsTable
from nftop.model.sample import Counts
from nftop.sim.layout import Placed
from nftop.sim.model import Model
from nftop.sim.payloads import identity, placed_as
from nftop.sim.workloads import INDEX

VERSION = "ovs-vswitchd (Open vSwitch) 3.5.0"
# pmd-rxq-show -secs 5, and until it has run for so long its shares are NOT AVAIL.
_WINDOW_S = 5.0


def ovs_table(model: Model, t_ns: int, at_ns: int) -> OvsTable:
    """Every ovs-vswitchd."""
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
    rundir = f"/var/run/{placed.name}"
    nodes = [model.layout.topology.cpus[cpu].node for cpu in placed.cpus]
    return OvsSwitch(
        pid=pid,
        start_ticks=start_ticks,
        name="ovs-vswitchd",
        rundir=rundir,
        socket=f"{rundir}/ovs-vswitchd.{pid}.ctl",
        version=VERSION,
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
        tx_packets=packets,
        used_cycles=used,
        busy_cycles=busy,
        sleep_us=0,
        upcalls=1,
        lost_upcalls=0,
        queues=(queue,),
        overhead_ratio=overhead,
    )


_PACKETS_AND_CYCLES = ("packets", "tsc", "work_cycles")
