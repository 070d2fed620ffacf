"""Metrics of what the ports and graph nodes of a network function lose."""

from __future__ import annotations

from nftop.model.metrics.metric import Metric, Unit


def _loss(name: str, label: str, meaning: str, counter: str, of_vpp: str) -> Metric:
    return Metric(
        id=name,
        label=label,
        unit=Unit.PER_S,
        scope="nf",
        meaning=f"{meaning} Of all its ports; `drops` has each.",
        formula=f"delta({counter}) / delta(the NF's clock)",
        origin=f"DPDK ethdev xstats {counter}, OVS' ports' too; VPP {of_vpp}",
        good="low",
        bad_above=0.0,
    )


PORT_METRICS: tuple[Metric, ...] = (
    Metric(
        id="missed_packets_per_s",
        label="MISSED/s",
        unit=Unit.PER_S,
        scope="nf",
        meaning="Packets per second that were dropped before the NF received them: its NICs had no "
        "free descriptor left, and of the kernel's own forwarding a CPU's backlog was full.",
        formula="delta(rx_missed_errors) / delta(the NF's clock)",
        origin="DPDK ethdev xstats rx_missed_errors (imissed), OVS' ports' too; VPP /if/rx-miss; "
        "/proc/net/softnet_stat",
        good="low",
        bad_above=0.0,
    ),
    _loss(
        "rx_errors_per_s",
        "RX.err",
        "Received packets per second that its NICs dropped because they were invalid: checksum, "
        "length, or what else the driver counts so (ierrors).",
        "rx_errors",
        "/if/rx-error",
    ),
    _loss(
        "tx_errors_per_s",
        "TX.err",
        "Packets per second that its NICs or drivers could not send (oerrors).",
        "tx_errors",
        "/if/tx-error",
    ),
    _loss(
        "rx_nombuf_per_s",
        "NOMBUF",
        "Failures per second to get a buffer for a received packet: its memory pool is empty. "
        "The packets stay in the NIC, which drops what comes then.",
        "rx_mbuf_allocation_errors",
        "/if/rx-no-buf",
    ),
)
GRAPH_METRICS: tuple[Metric, ...] = (
    Metric(
        id="error_drops_per_s",
        label="ERR.drop",
        unit=Unit.PER_S,
        scope="nf",
        meaning="Packets per second that its graph nodes dropped with a reason, by policy too; "
        "`drops` has each by node and reason. VPP calls every counter of a node an error: what "
        "counts here are those that VPP documents as drops (severity error in its API files, or "
        "sent to error-drop in its source). Packets that leave the graph in other ways are in the "
        "drops of the interfaces only.",
        formula="sum(delta(/err/<node>/<name>)) / delta(the NF's clock), of counters that are "
        "drops",
        origin="VPP's stats segment /err/; nftop/model/nf/vpp_drops.py has the counters",
        good="low",
        bad_above=0.0,
    ),
)
# Packets that an NF was given and lost: `drop_packets_per_s` is their sum, where known.
DROP_COMPONENTS = ("missed_packets_per_s", "ovs.lost_upcalls_per_s")
# Losses that are not in `drop_packets_per_s`: what a policy or an invalid packet may cause, and
# failures to get a buffer, after which the NIC counts the packets as missed.
OTHER_LOSSES = ("error_drops_per_s", "rx_errors_per_s", "tx_errors_per_s", "rx_nombuf_per_s")
# Reason of a drop, its metric, and its field of `DpdkPort`.
PORT_LOSSES = (
    ("rx_missed_errors", "missed_packets_per_s", "rx_missed"),
    ("rx_errors", "rx_errors_per_s", "rx_errors"),
    ("tx_errors", "tx_errors_per_s", "tx_errors"),
    ("rx_nombuf", "rx_nombuf_per_s", "rx_nombuf"),
)
