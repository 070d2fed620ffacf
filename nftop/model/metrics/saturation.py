"""Metrics that show whether a core, or a network function, is saturated."""

from __future__ import annotations

from nftop.model.metrics.metric import Metric, Unit
from nftop.model.metrics.probes import PAPER
from nftop.model.struct import replace

# A core with this busy ratio is saturated: even at the highest load a few polls are empty. So is a
# VPP worker whose vectors are full by this share.
SATURATED_RATIO = 0.95
# A core that drops this share of the packets that arrive is saturated, and hit by no rare burst.
DROPPING_RATIO = 0.01
# Packets that one call of a VPP graph node takes at most: VLIB_FRAME_SIZE, src/vlib/node.h.
VPP_FRAME = 256

_VECTORS = Metric(
    id="vector_fill_ratio",
    label="VECTOR",
    unit=Unit.RATIO,
    scope="cpu",
    meaning=f"How full VPP's vectors are: 100 % is {VPP_FRAME} packets per call, the most that a "
    "call of a graph node takes. Full vectors, with hardly an empty poll between them, show a "
    "saturated worker.",
    formula=f"packets / calls / {VPP_FRAME} of the node that most packets pass, input nodes left "
    f"out; without counters per node: VPP's vector rate / {VPP_FRAME}",
    origin="VPP /sys/node/vectors and calls, else /sys/vector_rate_per_worker; VLIB_FRAME_SIZE",
)
_SATURATED_BY = Metric(
    id="saturated_by",
    label="SAT.by",
    unit=Unit.TEXT,
    scope="cpu",
    meaning="What shows that the core is saturated, so that CPP and IPP are exact, without '<'. "
    f"busy: the NF itself says that it worked for {SATURATED_RATIO:.0%} of the time or more. "
    "vectors: VPP's vectors are full. drops: NICs dropped more than "
    f"{DROPPING_RATIO:.0%} of the packets that arrived in its queues for want of descriptors. "
    "Where BUSY is known it decides: drops beside idle time are of bursts. Empty where the core "
    "is not saturated, where that is not known, and where it shares its CPU (RUN below 95 %).",
    formula=f"busy_ratio >= {SATURATED_RATIO:g}; vector_fill_ratio >= {SATURATED_RATIO:g} and "
    f"packets per poll of its input >= {SATURATED_RATIO:g} x {VPP_FRAME}; missed_packets_per_s > "
    f"{DROPPING_RATIO:g} x (packets_per_s + missed_packets_per_s)",
    origin="nftop's own definition, of the NF's counters",
)

_COST_EQUATIONS = (
    f"{PAPER}, equation 5 with the cost of work, as equations 1 and 2 of its sequel (Benchmarking "
    "Software Data Planes, Intel Xeon Skylake vs. Broadwell)"
)
_ROOM = Metric(
    id="room_ratio",
    label="ROOM",
    unit=Unit.RATIO,
    scope="cpu",
    meaning="How much more the core can take: the share of its time that is left. None is left "
    "where it drops packets or its vectors are full; unknown where the NF does not report its busy "
    "time.",
    formula="1 - busy_ratio of the NF; 0 where saturated_by has vectors or drops",
    origin="busy_ratio, saturated_by",
    good="high",
)
_ROOM_PACKETS = Metric(
    id="room_packets_per_s",
    label="ROOMpps",
    unit=Unit.PACKETS_PER_S,
    scope="cpu",
    meaning="How many packets per second the core could take in more than now, if a packet goes on "
    "to cost what it costs now. Longer vectors make packets cheaper as the load grows, so it may "
    "be more.",
    formula="clock / busy_cpp - packets_per_s = packets_per_s x (1 / busy_ratio - 1)",
    origin=_COST_EQUATIONS,
    good="high",
)

SATURATION_CPU_METRICS: tuple[Metric, ...] = (
    Metric(
        id="missed_packets_per_s",
        label="DROP/s",
        unit=Unit.PER_S,
        scope="cpu",
        meaning="Packets per second that NICs dropped because this core had left them no free "
        "descriptor. None where several cores poll a port whose driver counts its drops as one.",
        formula="delta(rx_missed_errors of ports that only it polls, else rx_qN_errors of its "
        "queues where those of all queues add up to rx_missed_errors) / delta(the NF's clock)",
        origin="DPDK ethdev xstats; VPP /if/rx-miss of interfaces that only it receives from",
        good="low",
        bad_above=0.0,
    ),
    _VECTORS,
    _ROOM,
    _ROOM_PACKETS,
)
SATURATION_NF_METRICS: tuple[Metric, ...] = (
    replace(
        _VECTORS,
        scope="nf",
        meaning=f"{_VECTORS.meaning} The fullest of its workers.",
        formula="max(vector_fill_ratio of its cores)",
    ),
    replace(
        _ROOM,
        scope="nf",
        meaning="How much more the network function can take: what is left of its busiest core, "
        "since more packets come to all its cores as they do now. None where a core drops packets "
        "or its vectors are full; unknown where one does not report its busy time.",
        formula="min(room_ratio of its cores)",
    ),
    replace(
        _ROOM_PACKETS,
        scope="nf",
        meaning="How many packets per second it could take in more than now, until its busiest "
        "core is full, if packets stay spread over its cores and go on to cost what they cost now.",
        formula="rx_packets_per_s (tx_packets_per_s where it only generates) x (1 / (1 - "
        "room_ratio) - 1)",
    ),
)
_WIRE = (
    "14.88 Mpps of 64-byte frames at 10 Gbit/s (paper, Table 16). Only of ports with a PCI "
    "address: the speed that virtual devices tell is of no link"
)
_LINK = (
    "DPDK /ethdev/link_status, xstats rx_good_bytes, OVS' ports too; /sys/class/net/*/speed; "
    "IEEE 802.3: a frame takes 20 bytes more on the wire"
)
LINE_METRICS: tuple[Metric, ...] = (
    Metric(
        id="line_packets_per_s",
        label="LINE",
        unit=Unit.PACKETS_PER_S,
        scope="nf",
        meaning="Packets per second that the links of its ports carry, of those ports that "
        f"receive, at the mean size of the frames they receive now: {_WIRE}.",
        formula="sum over its ports(link speed / (8 x (frame + 20))); frame = delta(rx bytes) / "
        "delta(rx packets) + 4, 64 at least",
        origin=_LINK,
    ),
    Metric(
        id="line_ratio",
        label="LINE%",
        unit=Unit.RATIO,
        scope="nf",
        meaning="Share of its line rate that arrives on the fullest of its ports, received or "
        "dropped by the NIC. At 100 % the link is the limit, not the cores: room is of no use.",
        formula="max over its ports((rx + missed packets per second) / its line rate)",
        origin=_LINK,
    ),
)
SATURATION_NF_METRICS += LINE_METRICS
# Words, of `CpuTable.saturated_by` and `NfRow.saturated_by`.
SATURATION_WORDS: tuple[Metric, ...] = (
    _SATURATED_BY,
    replace(
        _SATURATED_BY,
        scope="nf",
        meaning="What shows that all its cores are saturated, one or another of: busy, vectors, "
        "drops, as for CPUs.",
        formula="saturated_by of its cores, if all are saturated",
    ),
)
