"""Cost per packet: the formula of CPP, busy CPP and IPP."""

from __future__ import annotations

from nftop.model.column import Column, ratio
from nftop.model.missing import Reading, quotient


def cost_per_packet(cost_per_s: Reading, packets_per_s: Reading) -> Reading:
    """CPP of cycles, busy CPP of cycles of work, IPP of instructions: each per packet."""
    return quotient(cost_per_s, packets_per_s)


def costs_per_packet(cost_per_s: Column, packets_per_s: Column) -> Column:
    """As `cost_per_packet`, of every CPU."""
    return ratio(cost_per_s, packets_per_s)
