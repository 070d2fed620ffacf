"""Metrics of what the ports of a network function lose."""

from __future__ import annotations

from nftop.model.metrics.metric import Metric, Unit


def _loss(name: str, label: str, meaning: str, counter: str) -> Metric:
    return Metric(
        id=name,
        label=label,
        unit=Unit.PER_S,
        scope="nf",
        meaning=f"{meaning} Of all its ports; `drops` has each.",
        formula=f"delta({counter}) / delta(the NF's clock)",
        origin=f"DPDK ethdev xstats {counter}, OVS' ports' too",
        good="low",
        bad_above=0.0,
    )


PORT_METRICS: tuple[Metric, ...] = (
    _loss(
        "rx_errors_per_s",
        "RX.err",
        "Received packets per second that its NICs dropped because they were invalid: checksum, "
        "length, or what else the driver counts so (ierrors).",
        "rx_errors",
    ),
    _loss(
        "tx_errors_per_s",
        "TX.err",
        "Packets per second that its NICs or drivers could not send (oerrors).",
        "tx_errors",
    ),
    _loss(
        "rx_nombuf_per_s",
        "NOMBUF",
        "Failures per second to get a buffer for a received packet: its memory pool is empty. "
        "The packets stay in the NIC, which drops what comes then.",
        "rx_mbuf_allocation_errors",
    ),
)
# Reason of a drop, its metric, and its field of `DpdkPort`.
PORT_LOSSES = (
    ("rx_missed_errors", "drop_packets_per_s", "rx_missed"),
    ("rx_errors", "rx_errors_per_s", "rx_errors"),
    ("tx_errors", "tx_errors_per_s", "tx_errors"),
    ("rx_nombuf", "rx_nombuf_per_s", "rx_nombuf"),
)
