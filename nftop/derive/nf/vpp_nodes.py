"""How much of a VPP thread's time was work, as far as its graph nodes tell.

VPP counts the clocks of every node, but an input node's include polls that found nothing, so work
lies between two bounds: that of the other nodes, and that of all. Where it is known how many queues
the thread polls, the bounds are closer: a call brings a frame of each at most, so some calls must
have found packets, and an empty call is no dearer than those.

Clocks and packets are both of the nodes' own counters, which VPP refreshes at its own pace, so what
is kept of them is clocks per packet; times packets per second, that is clocks per second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nftop.model.column import Floats
from nftop.model.nf.parts import NfNode
from nftop.model.nf.vpp import VppNodes
from nftop.model.reading import Missing, Reading, Reason, quotient
from nftop.model.sample import Counts

# VPP's nodes of type INPUT that bring packets from outside, by its source code's
# VLIB_REGISTER_NODE. An unknown one shows by its calls without packets: other nodes have none.
_DEVICE_INPUTS = (
    "dpdk-input", "af-packet-input", "af_xdp-input", "avf-input", "memif-input", "netmap-input",
    "pg-input", "rdma-input", "tap-input", "vhost-user-input", "virtio-input", "vmxnet3-input",
)  # fmt: skip
# VLIB_FRAME_SIZE: as many packets as one call of a node works on.
_FRAME = 256
# The bounds are one number when they are no further apart; half of it is the error.
_NEAR_ENOUGH = 0.05

_OFF = Missing(
    Reason.SOURCE,
    "VPP counts nothing per node unless told to: 'per-node-counters on' in its statseg section",
)
_NO_INPUT = Missing(Reason.IDLE, "its input nodes brought no packets since VPP counted last")


@dataclass(frozen=True, slots=True, eq=False)
class NodeState:
    """One VPP's nodes when last refreshed.

    Attributes:
        heartbeat, nodes: as read then.
        delta: what they counted since the refresh before; why there is none.
    """

    heartbeat: int
    nodes: VppNodes
    delta: VppNodes | Missing


def step_nodes(
    before: NodeState | None, heartbeat: int, nodes: VppNodes | None
) -> NodeState | None:
    """Fold one reading in; between two of VPP's refreshes what was said last holds.

    A node that was not there before may have been left out, for it had never run.
    """
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
    """Least and most TSC cycles of work for each packet that the thread in `row` took in.

    Args:
        state: None where VPP keeps no counters per node.
        row: of the nodes' arrays.
        queues: from how many it receives; None where that is not known, and the bounds are wide.
    """
    if state is None:
        return _OFF
    if isinstance(state.delta, Missing):
        return state.delta
    clocks, vectors, calls = (
        np.asarray(item[row], dtype=np.float64) for item in _counted(state.delta)
    )
    device = np.isin(state.delta.names, _DEVICE_INPUTS)
    packets = float(vectors[device].sum())
    if packets <= 0:
        return _NO_INPUT
    polls = device | (calls > vectors)
    least = float(clocks[~polls & (vectors > 0)].sum())
    if queues:
        least += float((clocks * _share(vectors, calls * _FRAME * queues))[polls].sum())
    return least / packets, float(clocks.sum()) / packets


def nodes_counted(state: NodeState | None) -> tuple[NfNode, ...] | Missing:
    """Every node that ran since VPP's refresh before the last, over all threads, dearest first."""
    if state is None:
        return _OFF
    if isinstance(state.delta, Missing):
        return state.delta
    clocks, vectors, calls = (
        np.asarray(item, dtype=np.float64).sum(axis=0) for item in _counted(state.delta)
    )
    polls = np.isin(state.delta.names, _DEVICE_INPUTS) | (calls > vectors)
    whole = float(clocks.sum())
    return tuple(
        NfNode(
            name=state.delta.names[at],
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
        packets_per_s: what it receives.
        tsc_hz: the clock of `bounds`.

    Returns:
        The middle of the bounds where they are close to each other; otherwise SOURCE, with a
        sentence that tells both.
    """
    if isinstance(bounds, Missing):
        return bounds
    packets_per_clock = quotient(packets_per_s, tsc_hz)
    if isinstance(packets_per_clock, Missing):
        return packets_per_clock
    low, high = (min(clocks * packets_per_clock, 1.0) for clocks in bounds)
    if high - low <= _NEAR_ENOUGH:
        return (low + high) / 2
    return Missing(
        Reason.SOURCE,
        f"VPP books empty polls on its input nodes too: between {low:.0%} and {high:.0%} of its "
        "time was work",
    )


def _share(part: Floats, whole: Floats) -> Floats:
    """part / whole, at most 1; 0 of nothing."""
    return np.minimum(np.divide(part, whole, out=np.zeros_like(part), where=whole > 0), 1.0)


def _with_names(nodes: VppNodes, names: tuple[str, ...]) -> VppNodes | None:
    """The same in this order, others of these `names` with 0; None where one of it is missing."""
    if nodes.names == names:
        return nodes
    place = {name: index for index, name in enumerate(names)}
    if len(place) < len(names) or not place.keys() >= set(nodes.names):
        return None
    columns = [place[name] for name in nodes.names]
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
