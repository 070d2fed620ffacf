"""Kinds of network functions with statistics; each module registers its fold.

Import a new module here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nftop.derive.nf.kinds import dpdk, ovs, vpp
from nftop.derive.nf.rates import (
    NfContext,
    NfRates,
    with_distinct_names,
    with_seen_cores,
    without_duplicates,
)
from nftop.derive.nf.registry import NF_FOLDS, NfMemory
from nftop.model.owner import rank
from nftop.model.sample import SourceReading

__all__ = ["dpdk", "ovs", "step_nfs", "vpp"]


def step_nfs(
    before: Mapping[str, NfMemory], readings: Mapping[str, SourceReading[Any]], context: NfContext
) -> tuple[Mapping[str, NfMemory], tuple[NfRates, ...]]:
    """Fold one reading of each source in; privileged network functions come first.

    Network functions of a late source keep their rows and cores, without values.
    """
    memories: dict[str, NfMemory] = {}
    rates: list[NfRates] = []
    for source, fold in NF_FOLDS.items():
        if source not in readings:
            continue
        memory, rated = fold(before.get(source), readings[source].value, context)
        if memory is not None:
            memories[source] = memory
        rates += (with_seen_cores(nf, context.threads) for nf in rated)
    rates.sort(key=lambda nf: rank(nf.owner))
    return memories, with_distinct_names(without_duplicates(rates))
