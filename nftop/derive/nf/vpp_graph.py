"""VPP's packet graph: clocks of its nodes, busy time from them, and their error counters.

Clocks of an input node include empty polls, so work lies between two bounds: the clocks of all
other nodes, and those of all nodes. A known number of queues narrows them: a call returns at most a
frame of each queue, so some calls must have found packets, and an empty call costs no more.

VPP refreshes node counters at its own pace, so clocks per packet are kept; times packets per
second, that is clocks per second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import TypeAlias

import numpy as np

from nftop.derive.nf.counter_rates import Rated, rate_counters, rate_of
from nftop.model.column import Bools, Floats
from nftop.model.metrics.saturation import VPP_FRAME
from nftop.model.missing import Missing, Reading, Reason, product, quotient, total
from nftop.model.nf.components import DeferredRows, NfDrop, NfNode, NfXstat
from nftop.model.nf.vpp import VppErrors, VppInstance, VppNodes
from nftop.model.nf.vpp_drops import counts_vpp_drops
from nftop.model.sample import Counts
from nftop.model.struct import dataclass, replace

# VPP's nodes of type INPUT that bring packets from outside, by its source code's
# VLIB_REGISTER_NODE. An unknown one shows by its calls without packets: other nodes have none.
_DEVICE_INPUTS = (
    "dpdk-input", "af-packet-input", "af_xdp-input", "avf-input", "memif-input", "netmap-input",
    "pg-input", "rdma-input", "tap-input", "vhost-user-input", "virtio-input", "vmxnet3-input",
)  # fmt: skip
# Bounds closer than this count as one number; half of it is the error.
_NEAR_ENOUGH = 0.05

NODES_OFF = Missing(
    Reason.SOURCE,
    "VPP counts nothing per node by default: 'per-node-counters on' in its statseg section",
)
_NO_INPUT = Missing(Reason.IDLE, "its input nodes brought no packets since VPP counted last")


@dataclass(frozen=True, slots=True, eq=False)
class NodeState:
    """One VPP's nodes when last refreshed.

    Attributes:
        heartbeat, nodes: as read then.
        delta: counts since the previous refresh, or why there are none.
    """

    heartbeat: int
    nodes: VppNodes
    delta: VppNodes | Missing


def step_nodes(
    before: NodeState | None, heartbeat: int, nodes: VppNodes | None
) -> NodeState | None:
    """Fold one reading in; values hold between refreshes. Nodes that never ran may be left out."""
    if nodes is None:
        return None
    known = None if before is None else _with_names(before.nodes, nodes.names)
    if before is None or known is None or _shape(known) != _shape(nodes):
        return NodeState(heartbeat, nodes, Missing(Reason.WARMING, "VPP has not counted twice yet"))
    if before.heartbeat == heartbeat:
        return before
    pairs = list(zip(_counted(known), _counted(nodes), strict=True))
    if heartbeat < before.heartbeat or any((new < old).any() for old, new in pairs):
        return NodeState(
            heartbeat, nodes, Missing(Reason.RESET, "VPP's counters per node were cleared")
        )
    return NodeState(heartbeat, nodes, VppNodes(nodes.names, *(new - old for old, new in pairs)))


def clocks_per_packet(
    state: NodeState | None, row: int, queues: int | None
) -> tuple[float, float] | Missing:
    """Least and most TSC cycles of work per packet received by the thread in `row`.

    Args:
        state: None if VPP keeps no counters per node.
        row: of the nodes' arrays.
        queues: number of its receive queues; None if unknown, which widens the bounds.
    """
    if state is None:
        return NODES_OFF
    if isinstance(state.delta, Missing):
        return state.delta
    clocks, vectors, calls = (
        np.asarray(item[row], dtype=np.float64) for item in _counted(state.delta)
    )
    device = _device_inputs(state.delta.names)
    packets = float(vectors[device].sum())
    if packets <= 0:
        return _NO_INPUT
    polls = device | (calls > vectors)
    least = float(clocks[~polls & (vectors > 0)].sum())
    if queues:
        least += float((clocks * _share(vectors, calls * VPP_FRAME * queues))[polls].sum())
    return least / packets, float(clocks.sum()) / packets


def fills(state: NodeState | None, row: int) -> tuple[Reading, Reading]:
    """How full the vectors of the thread in `row` are, and the polls of its input; 0 to 1.

    Vectors: packets per call of the node that most packets pass, input nodes left out. Polls:
    packets per call of the input node that brings most, empty calls included; 1 at most, which
    several queues exceed.
    """
    if state is None:
        return NODES_OFF, NODES_OFF
    if isinstance(state.delta, Missing):
        return state.delta, state.delta
    vectors, calls = (np.asarray(item[row], dtype=np.float64) for item in _counted(state.delta)[1:])
    device = _device_inputs(state.delta.names)
    graph = ~(device | (calls > vectors))
    return _fill_of(vectors, calls, graph), _fill_of(vectors, calls, device)


def _fill_of(vectors: Floats, calls: Floats, among: Bools) -> Reading:
    """Packets per call of the busiest of some nodes / the most that a call takes."""
    packets = np.where(among, vectors, 0.0)
    at = int(packets.argmax()) if len(packets) else 0
    if not packets.any() or not calls[at]:
        return _NO_INPUT
    return min(float(vectors[at] / calls[at]) / VPP_FRAME, 1.0)


def nodes_counted(state: NodeState | None) -> Sequence[NfNode] | Missing:
    """Nodes that ran since the last but one refresh, over all threads, most clocks first."""
    if state is None:
        return NODES_OFF
    delta = state.delta
    return delta if isinstance(delta, Missing) else DeferredRows(partial(_nodes, delta))


def _nodes(delta: VppNodes) -> tuple[NfNode, ...]:
    clocks, vectors, calls = (
        np.asarray(item, dtype=np.float64).sum(axis=0) for item in _counted(delta)
    )
    polls = _device_inputs(delta.names) | (calls > vectors)
    whole = float(clocks.sum())
    return tuple(
        NfNode(
            name=delta.names[at],
            clocks_ratio=quotient(float(clocks[at]), whole),
            clocks_per_packet=quotient(float(clocks[at]), float(vectors[at])),
            packets_per_call=quotient(float(vectors[at]), float(calls[at])),
            polls=bool(polls[at]),
        )
        for at in np.argsort(-clocks, kind="stable").tolist()
        if calls[at] > 0
    )


def busy_ratio(
    bounds: tuple[float, float] | Missing, packets_per_s: Reading, tsc_hz: Reading
) -> Reading:
    """Share of time (0..1) in which a thread worked on packets.

    Args:
        bounds: `clocks_per_packet`.
        packets_per_s: received.
        tsc_hz: the clock of `bounds`.

    Returns:
        The middle of the bounds if they are close; else SOURCE with a message that has both.
    """
    if isinstance(bounds, Missing):
        return bounds
    packets_per_clock = quotient(packets_per_s, tsc_hz)
    if isinstance(packets_per_clock, Missing):
        return packets_per_clock
    low, high = (min(clocks * packets_per_clock, 1.0) for clocks in bounds)
    if high - low <= _NEAR_ENOUGH:
        return (low + high) / 2
    return Missing(Reason.SOURCE, f"busy {low:.0%} to {high:.0%} (VPP can't separate empty polls)")


@lru_cache(maxsize=64)  # nodes of a graph stay
def _device_inputs(names: tuple[str, ...]) -> Bools:
    """bool (nodes,): those that poll a device."""
    is_input = np.isin(names, _DEVICE_INPUTS)
    is_input.flags.writeable = False
    return is_input


def _share(amount: Floats, whole: Floats) -> Floats:
    return np.minimum(np.divide(amount, whole, out=np.zeros_like(amount), where=whole > 0), 1.0)


def _with_names(nodes: VppNodes, names: tuple[str, ...]) -> VppNodes | None:
    """The same for `names` in this order, others as 0; None if one of its own is not among them."""
    if nodes.names == names:
        return nodes
    column_of = {name: index for index, name in enumerate(names)}
    if len(column_of) < len(names) or not column_of.keys() >= set(nodes.names):
        return None
    columns = [column_of[name] for name in nodes.names]
    wider = []
    for counts in _counted(nodes):
        table = np.zeros((len(counts), len(names)), dtype=np.uint64)
        table[:, columns] = counts
        wider.append(table)
    return VppNodes(names, *wider)


def _counted(nodes: VppNodes) -> tuple[Counts, Counts, Counts]:
    return nodes.clocks, nodes.vectors, nodes.calls


def _shape(nodes: VppNodes) -> tuple[int, ...]:
    return nodes.clocks.shape


# Node and name.
VppError: TypeAlias = tuple[str, str]

_WARMING = Missing(Reason.WARMING)
_MISMATCH = Missing(Reason.ERROR, "names and counts of its errors do not match")


@dataclass(frozen=True, slots=True)
class RatedErrors:
    """One VPP's error counters when last rated, of all threads together.

    `epoch`: of the directory they are of.
    """

    epoch: int
    rated: Rated[VppError]

    def rate(self, error: VppError) -> Reading:
        return rate_of(self.rated, error, _WARMING)


def rate_errors(before: RatedErrors | None, vpp: VppInstance) -> RatedErrors | None:
    """Fold one reading in; None without error counters.

    A counter that was left out before was 0 if the directory is the same, so its first packets
    have a rate.
    """
    counters = _counters(vpp.errors)
    if isinstance(counters, Missing) or isinstance(vpp.errors, Missing):
        return None
    known = None if before is None else before.rated
    if before is not None and known is not None and before.epoch == vpp.errors.epoch:
        known = replace(known, counters={**dict.fromkeys(counters, 0), **known.counters})
    return RatedErrors(vpp.errors.epoch, rate_counters(known, counters, vpp.read_at_ns))


def dropped_with_error(rated: RatedErrors | None) -> tuple[NfDrop, ...]:
    """The counters that are drops by `vpp_drops`."""
    if rated is None:
        return ()
    return tuple(
        NfDrop(node, name, rated.rate((node, name)))
        for node, name in rated.rated.counters
        if counts_vpp_drops(node, name)
    )


def error_drops_per_s(vpp: VppInstance, rated: RatedErrors | None) -> Reading:
    """All drops with an error; 0 where none of the known reasons ever counted."""
    if vpp.problem is not None:
        return vpp.problem
    if rated is None:
        known = _counters(vpp.errors)
        return known if isinstance(known, Missing) else _WARMING
    if rated.rated.interval_s is None:
        return next(iter(rated.rated.rates.values()), _WARMING)
    dropped = dropped_with_error(rated)
    return total(drop.packets_per_s for drop in dropped) if dropped else 0.0


def counters_of_nodes(
    vpp: VppInstance, rated: RatedErrors | None, state: NodeState | None, packets_per_s: Reading
) -> tuple[NfXstat, ...]:
    """Every error counter that ever counted, then packets, calls and clocks of every node.

    Args:
        vpp: with the counts.
        rated: rates of its errors.
        state: its nodes when last refreshed.
        packets_per_s: received by all its threads.
    """
    counters = {} if rated is None else rated.rated.counters
    errors = tuple(
        NfXstat(
            node,
            name,
            count,
            vpp.problem or (_WARMING if rated is None else rated.rate((node, name))),
            drops=counts_vpp_drops(node, name),
        )
        for (node, name), count in counters.items()
    )
    if vpp.nodes is None:
        return errors
    delta = vpp.problem or (_WARMING if state is None else state.delta)
    return errors + _of_nodes(vpp.nodes, delta, packets_per_s)


def _of_nodes(
    nodes: VppNodes, delta: VppNodes | Missing, packets_per_s: Reading
) -> tuple[NfXstat, ...]:
    """Rates by packet received: VPP does not report the time between its refreshes."""
    rates: Mapping[str, list[Reading]] = {}
    if not isinstance(delta, Missing):
        inputs = _device_inputs(delta.names)
        packets = float(np.asarray(delta.vectors, dtype=np.float64)[:, inputs].sum())
        by_packet = _NO_INPUT if packets <= 0 else quotient(packets_per_s, packets)
        columns = (counts.sum(axis=0).tolist() for counts in _counted(delta))
        rates = {
            node: [product(float(count), by_packet) for count in counts]
            for node, *counts in zip(delta.names, *columns, strict=True)
        }
    absent = [delta if isinstance(delta, Missing) else _WARMING] * len(_NODE_COUNTS)
    counted = (counts.sum(axis=0).tolist() for counts in _counted(nodes))
    return tuple(
        NfXstat(node, _NODE_COUNTS[at], counts[at], rates.get(node, absent)[at], estimate=True)
        for node, *counts in zip(nodes.names, *counted, strict=True)
        for at in (1, 2, 0)
    )


_NODE_COUNTS = ("clocks", "vectors", "calls")


def _counters(errors: VppErrors | Missing) -> Mapping[VppError, int] | Missing:
    """Counts by node and name, of all threads."""
    if isinstance(errors, Missing):
        return errors
    counts = errors.counts
    if counts.ndim != 2 or not len(errors.nodes) == len(errors.names) == counts.shape[1]:
        return _MISMATCH
    keys = zip(errors.nodes, errors.names, strict=True)
    return dict(zip(keys, counts.sum(axis=0).tolist(), strict=True))
