"""The queues, ports and graph nodes of a network function, as far as it tells."""

from __future__ import annotations

from nftop.model.frame import NfRow
from nftop.model.metrics.metric import Unit
from nftop.model.nf.parts import NfNode, NfPort, NfQueue
from nftop.model.reading import Reason
from nftop.render.base.line import Line, Span
from nftop.render.nfs.cells import Column, Shape, number_cell, table_of, text_cell

_MPPS = Unit.PACKETS_PER_S


def queue_lines(nf: NfRow, width: int) -> list[Line]:
    """Each receive queue: who polls it, what came, how much of its thread's time went into it."""

    def row(queue: NfQueue) -> list[Span]:
        state = "" if queue.enabled else " off"
        cpu = Reason.SOURCE.mark if queue.cpu is None else str(queue.cpu)
        return [
            text_cell(queue.port, 24),
            text_cell(f"{queue.queue}{state}", 8, right=True),
            text_cell(cpu, 5, right=True),
            number_cell(queue.packets_per_s, _MPPS, 8),
            number_cell(queue.used_ratio, Unit.RATIO, 8),
        ]

    columns = [Column("QUEUES: PORT", 24, right=False), Column("QUEUE", 8), Column("CPU", 5),
               Column("Mpps", 8), Column("USED", 8)]  # fmt: skip
    parts = (("Mpps", lambda queue: queue.packets_per_s), ("USED", lambda queue: queue.used_ratio))
    return table_of(nf.queues, Shape("QUEUES", columns, row, parts), width)


def port_lines(nf: NfRow, width: int) -> list[Line]:
    """Each port or interface: packets in, out, missed by its NIC, dropped by the NF."""

    def row(port: NfPort) -> list[Span]:
        return [
            text_cell(port.name, 24),
            number_cell(port.rx_packets_per_s, _MPPS, 9),
            number_cell(port.tx_packets_per_s, _MPPS, 9),
            number_cell(port.missed_packets_per_s, Unit.PER_S, 9),
            number_cell(port.drop_packets_per_s, Unit.PER_S, 9),
        ]

    columns = [Column("PORTS", 24, right=False), Column("Mpps in", 9), Column("Mpps out", 9),
               Column("missed/s", 9), Column("drop/s", 9)]  # fmt: skip
    parts = (
        ("Mpps in", lambda port: port.rx_packets_per_s),
        ("Mpps out", lambda port: port.tx_packets_per_s),
        ("missed/s", lambda port: port.missed_packets_per_s),
        ("drop/s", lambda port: port.drop_packets_per_s),
    )
    return table_of(nf.ports, Shape("PORTS", columns, row, parts), width)


def node_lines(nf: NfRow, width: int) -> list[Line]:
    """Each graph node, the dearest first."""

    def row(node: NfNode) -> list[Span]:
        return [
            text_cell(node.name, 24),
            number_cell(node.clocks_ratio, Unit.RATIO, 8),
            number_cell(node.clocks_per_packet, Unit.CYCLES, 10),
            number_cell(node.packets_per_call, Unit.PER_PACKET, 10),
            text_cell(" polls" if node.polls else "", 7),
        ]

    columns = [Column("NODES", 24, right=False), Column("CLOCKS", 8), Column("TSC/pkt", 10),
               Column("pkt/call", 10), Column("", 7)]  # fmt: skip
    parts = (("TSC/pkt", lambda node: node.clocks_per_packet),)
    return table_of(nf.nodes, Shape("NODES", columns, row, parts), width)
