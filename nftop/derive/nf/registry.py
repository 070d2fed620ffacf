"""The sources that count packets, side by side: what each knows of its network functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from nftop.derive.absence import after_absence
from nftop.derive.nf.kinds.dpdk import step_dpdk
from nftop.derive.nf.kinds.ovs import step_ovs
from nftop.derive.nf.kinds.vpp import step_vpp
from nftop.derive.nf.rates import NfContext, NfRates, with_seen_cores, without_twins
from nftop.model.nf.ovs import OvsSwitch
from nftop.model.nf.vpp import VppInstance
from nftop.model.owner import rank
from nftop.model.reading import Missing
from nftop.model.sample import DpdkApp, SourceReading
from nftop.model.struct import dataclass, replace

P = TypeVar("P", DpdkApp, OvsSwitch, VppInstance)


def _late(processes: Sequence[P], why: Missing) -> tuple[P, ...]:
    """Processes as they were, of which nothing is current any more."""
    return tuple(replace(process, problem=process.problem or why) for process in processes)


@dataclass(frozen=True, slots=True)
class NfStage:
    """How a source that counts packets is rated.

    Attributes:
        rate: (its state or None, its table, what that is read beside) -> (its state, its NFs).
        late: (its last table, why there is none now) -> that table with this as the problem.
    """

    rate: Callable[..., tuple[Any, tuple[NfRates, ...]]]
    late: Callable[[Any, Missing], Any]


_STAGES: Mapping[str, NfStage] = MappingProxyType(
    {
        "dpdk": NfStage(step_dpdk, lambda old, why: replace(old, apps=_late(old.apps, why))),
        "ovs": NfStage(step_ovs, lambda old, why: replace(old, switches=_late(old.switches, why))),
        "vpp": NfStage(
            step_vpp, lambda old, why: replace(old, instances=_late(old.instances, why))
        ),
    }
)


@dataclass(frozen=True, slots=True)
class NfMemory:
    """Of one such source its last table and its stage's state."""

    table: Any
    state: Any


def step_nfs(
    before: Mapping[str, NfMemory], readings: Mapping[str, SourceReading[Any]], around: NfContext
) -> tuple[Mapping[str, NfMemory], tuple[NfRates, ...]]:
    """Fold one reading of each in: the NFs of all sources, each process once, privileged first.

    Those of a source that is late keep their rows and their cores, and have no values.
    """
    memories: dict[str, NfMemory] = {}
    rates: list[NfRates] = []
    for source, stage in _STAGES.items():
        reading, held = readings.get(source), before.get(source)
        if reading is None:
            continue
        now = table = reading.value
        if isinstance(now, Missing):
            held = after_absence(held, None, now)
            if held is None:
                continue
            table, now = held.table, stage.late(held.table, now)
        after, found = stage.rate(held.state if held is not None else None, now, around)
        memories[source] = NfMemory(table, after)
        rates += (with_seen_cores(nf, around.threads) for nf in found)
    rates.sort(key=lambda nf: rank(nf.owner))
    return memories, without_twins(rates)
