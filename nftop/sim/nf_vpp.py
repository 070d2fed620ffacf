"""What the simulated VPP's stats segment holds, in closed form like everything else.

Each worker polls one queue of one of two interfaces and sends on the other. Its clocks are split
over graph nodes as `workloads.toml` says; what it is not at work is spent on empty polls.
"""

from __future__ import annotations

import numpy as np

from nftop.model.nf.vpp import VppInstance, VppInterfaces, VppNodes, VppTable, VppThread
from nftop.model.sample import Counts
from nftop.model.struct import replace
from nftop.sim import workloads
from nftop.sim.layout import Placed
from nftop.sim.model import Model
from nftop.sim.payloads import identity, main_cpu, placed_as
from nftop.sim.workloads import INDEX

VERSION = "26.06"
_INPUT = "dpdk-input"
_INTERFACES = ("local0", "port0", "port1")
# Its statseg section says `update-interval 1.0` and `per-node-counters on`.
_UPDATE_NS = 1_000_000_000
# Packets per call under full load (a whole frame) and below, and TSC cycles of an empty poll; the
# latter two are assumptions.
_WHOLE_FRAME, _SMALL_FRAME, _EMPTY_POLL_CYCLES = 256, 32, 60


def vpp_table(model: Model, t_ns: int, at_ns: int) -> VppTable:
    """Every VPP."""
    beats = t_ns // _UPDATE_NS
    times = t_ns, beats * _UPDATE_NS, max(beats - 1, 0) * _UPDATE_NS
    now, refreshed, before = (model.counts(time) for time in times)
    return VppTable(
        tuple(
            replace(
                _instance(model, placed, order, (refreshed, before)),
                heartbeat=beats,
                interfaces=_interfaces(placed, now),
                read_at_ns=at_ns,
            )
            for order, placed in placed_as(model, ("vpp",))
        )
    )


def _instance(
    model: Model, placed: Placed, order: int, refreshed: tuple[Counts, Counts]
) -> VppInstance:
    """What does not depend on when it is read; `refreshed` are the last two updates' counts."""
    pid, start_ticks = identity(order)
    nodes, before = (_nodes(placed, counts) for counts in refreshed)
    return VppInstance(
        pid=pid,
        start_ticks=start_ticks,
        name="vpp",
        socket=f"/run/{placed.name}/stats.sock",
        version=VERSION,
        problem=None,
        heartbeat=0,
        threads=_threads(model, placed, nodes.calls - before.calls),
        interfaces=_interfaces(placed, refreshed[0]),
        nodes=nodes,
        read_at_ns=0,
        took_ns=0,
    )


def _threads(model: Model, placed: Placed, calls: Counts) -> tuple[VppThread, ...]:
    """The main thread and the workers; a worker's loop calls its input node once."""
    loops = calls[:, 0] / (_UPDATE_NS / 1e9)
    main = VppThread(0, main_cpu(model, placed), 0, None, 0.0)
    workers = (
        VppThread(index, cpu, 1, float(loops[index]), float(_frame(placed)))
        for index, cpu in enumerate(placed.cpus, 1)
    )
    return (main, *workers)


def _frame(placed: Placed) -> int:
    return _WHOLE_FRAME if placed.task.load >= 1.0 else _SMALL_FRAME


def _interfaces(placed: Placed, counts: Counts) -> VppInterfaces:
    shape = len(placed.cpus) + 1, len(_INTERFACES)
    received, sent, missed = (np.zeros(shape, dtype=np.uint64) for _ in range(3))
    for index, cpu in enumerate(placed.cpus, 1):
        port = 1 + (index - 1) % 2
        received[index, port] = sent[index, 3 - port] = counts[cpu, INDEX["packets"]]
        missed[index, port] = counts[cpu, INDEX["missed"]]
    return VppInterfaces(_INTERFACES, received, sent, missed, np.zeros(shape, dtype=np.uint64))


def _nodes(placed: Placed, counts: Counts) -> VppNodes:
    """The input node first; `work_cycles` in the workload's shares, the rest in empty polls."""
    shares = workloads.tables()[placed.task.workload]["nodes"]
    names = (_INPUT, *(name for name in shares if name != _INPUT))
    own = counts[list(placed.cpus)]
    packets, work, tsc = (own[:, INDEX[name]] for name in ("packets", "work_cycles", "tsc"))
    clocks = np.floor(work[:, None] * np.array([shares[name] for name in names])).astype(np.uint64)
    empty = np.maximum(tsc.astype(np.int64) - work.astype(np.int64), 0).astype(np.uint64)
    clocks[:, 0] += empty
    calls = np.repeat((packets // np.uint64(_frame(placed)))[:, None], len(names), axis=1)
    calls[:, 0] += empty // np.uint64(_EMPTY_POLL_CYCLES)
    vectors = np.repeat(packets[:, None], len(names), axis=1)
    main = np.zeros((1, len(names)), dtype=np.uint64)
    return VppNodes(names, *(np.vstack([main, item]) for item in (clocks, vectors, calls)))
