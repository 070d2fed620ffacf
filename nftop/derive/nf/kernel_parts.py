"""The kernel's row as a network function: what it is made of, and what can't be told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nftop.derive.nf.cores import spread_of
from nftop.derive.nf.netdev import NetdevRates
from nftop.model.column import Column
from nftop.model.frame import NfRow
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.nf.parts import NfPort, NfThread
from nftop.model.reading import Missing, Reason
from nftop.model.topology import Topology

_OTHERS_TOO = Missing(
    Reason.UNDEFINED, "its CPUs run other programs too, and count for all of them together"
)
_NOT_BY_QUEUE = Missing(Reason.SOURCE, "the kernel counts packets by CPU, not by queue")
_NO_NODES = Missing(Reason.UNDEFINED, "the kernel has no graph nodes")
_NO_DROPS = Missing(Reason.SOURCE, "what the kernel drops is counted by CPU, not by interface")
_NO_THREAD = Missing(Reason.UNDEFINED, "interrupts are no thread")


def with_kernel_parts(
    row: NfRow, rates: NetdevRates, topology: Topology, times: Mapping[str, Column]
) -> NfRow:
    """The row with its CPUs, in place of threads, and its interfaces, in place of ports."""
    packets, share = rates.columns["kernel_packets_per_s"], times["softirq_ratio"]
    at = [topology.row_of[cpu] for cpu in row.cpus]
    readings = {metric.id: _OTHERS_TOO for metric in NF_METRICS} | dict(row.readings)
    return replace(
        row,
        readings={
            **readings,
            "imbalance_ratio": row.problem or spread_of([packets[item] for item in at]),
        },
        threads=tuple(
            NfThread(cpu, "interrupts", packets[item], share[item], _NO_THREAD)
            for cpu, item in zip(row.cpus, at, strict=True)
        ),
        ports=row.problem
        or tuple(
            NfPort(
                interface.name,
                interface.rx_packets_per_s,
                interface.tx_packets_per_s,
                interface.missed_per_s,
                _NO_DROPS,
            )
            for interface in rates.interfaces
        ),
        queues=_NOT_BY_QUEUE,
        nodes=_NO_NODES,
    )
