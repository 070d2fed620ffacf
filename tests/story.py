"""A host whose cache classes are changed while it forwards: its frames, a second apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nftop.derive.cache.changes import ObservedClasses, step_changes
from nftop.derive.cache.table import CacheState, step_cache
from nftop.derive.compare.verdict import Verdict, VerdictSection, verdict_of
from nftop.model.frame import Frame, NfRow
from nftop.model.ids import Cpu
from nftop.model.missing import Missing
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ROOT, ResctrlTable
from nftop.model.sample import SourceReading
from nftop.store.history.rings import TickHistory
from tests.frames import SECOND_NS, START_NS, frame
from tests.rdt import MIB, table

# Both network functions have a core beside the cache that is changed.
_POLLED_FOR = (None, "fwd", "fwd", None, None, "vpp", None, None)
_CPUS = {ROOT: (Cpu(0), Cpu(3), Cpu(4), Cpu(6), Cpu(7)), "vpp": (Cpu(1), Cpu(2)), "ovs": (Cpu(5),)}
# What a network function shows at a tick, beside what `frames.frame` has; by its name.
Shown = Callable[[int], Mapping[str, Mapping[str, float]]]

# What is judged; what is not draws no noise, so that a new metric changes no story.
_NOISY = ("rx_packets_per_s", "tx_packets_per_s", "drop_packets_per_s", "cpp", "busy_cpp", "ipp")


@dataclass
class Story:
    """Attributes.

    changed_at: the tick whose reading shows VPP's mask as 3f0 instead of 0f0.
    settle_s: the time constant with which its occupancy follows.
    shown: what the network functions show.
    full: which of them say that their cores are busy all the time.
    noise: of occupancy and rates, as a share.
    tables: changes every table, by its tick.
    """

    changed_at: int = 60
    settle_s: float = 3.0
    shown: Shown = lambda _: {}
    full: frozenset[str] = frozenset({"fwd"})
    noise: float = 0.01
    seed: int = 1
    tables: Callable[[int, ResctrlTable], ResctrlTable] = lambda _, item: item
    history: TickHistory = field(default_factory=TickHistory)

    def frames(self, ticks: int) -> Iterator[Frame]:
        """Frames from tick 1 on; each is in the history when it is given."""
        random = np.random.default_rng(self.seed)
        cache, changes, total = CacheState(), ObservedClasses(), 0
        for tick in range(1, ticks + 1):
            base = frame(8, tick, packages=2)
            total += int(1e9 * (1 + random.normal() * self.noise))
            now = self.tables(tick, self._table(tick, total, random))
            reading = SourceReading(now, base.monotonic_ns - SECOND_NS // 20, 0)
            cache, classes = step_cache(cache, reading, base.topology)
            changes = step_changes(changes, reading, (), base.wall_ns)
            shown = self.shown(tick)
            created = replace(
                base,
                nfs=tuple(self._nf(nf, shown.get(nf.name, {}), random) for nf in base.nfs),
                cpus=replace(base.cpus, group=classes.of_cpus, nf=_POLLED_FOR),
                groups=classes.groups,
                domains=classes.domains,
                limits=classes.limits,
                noticed=changes.noticed,
            )
            self.history.append(created)
            yield created

    def last(self, ticks: int) -> Frame:
        """The frame of a tick."""
        return list(self.frames(ticks))[-1]

    def verdict(self, ticks: int) -> Verdict:
        """On the change, as it is at a tick."""
        window = self.history.window(self.last(ticks))
        return verdict_of(window, START_NS + self.changed_at * SECOND_NS, ("vpp",))

    def _table(self, tick: int, total: int, random: np.random.Generator) -> ResctrlTable:
        since_s = tick - self.changed_at
        grown = 8 * (1 - np.exp(-since_s / self.settle_s)) if since_s >= 0 else 0.0
        used = int((15.8 + grown) * MIB * (1 + random.normal() * self.noise / 4))
        plain = table(total)
        bits = 0x3F0 if since_s >= 0 else 0x0F0
        groups = []
        for group in plain.groups:
            first, *others = group.caches
            if group.name == "vpp":
                values = {**first.values, "llc_occupancy": used}
                first = replace(first, cbm=Cbm(bits, 12), values=values)
            groups.append(replace(group, cpus=_CPUS[group.name], caches=(first, *others)))
        return replace(plain, groups=tuple(groups))

    def _nf(self, nf: NfRow, shown: Mapping[str, float], random: np.random.Generator) -> NfRow:
        readings = {**nf.readings, **shown}
        cpus = (Cpu(5),) if nf.name == "vpp" else nf.cpus
        noisy = {
            name: reading * (1 + random.normal() * self.noise)
            if name in _NOISY and not isinstance(reading, Missing)
            else reading
            for name, reading in readings.items()
        }
        return replace(nf, cpus=cpus, saturated=nf.name in self.full, readings=noisy)


def component(verdict: Verdict, name: str, kind: str = "nf") -> VerdictSection:
    """What became of one of its parts."""
    return next(item for item in verdict.sections if (item.kind, item.name) == (kind, name))


def word(verdict: Verdict, name: str, metric: str, kind: str = "nf") -> str:
    """The word of a row, and why."""
    rows = component(verdict, name, kind).rows
    row = next(item for item in rows if item.metric.id == metric)
    return f"{row.word}: {row.why}".removesuffix(": ")


CHEAPER, SAME = 0.85, 1.0


def cost(ratio: float, changed_at: int = 60, **after: float) -> Callable[..., Any]:
    """Of `fwd`: all it costs a packet is `ratio` of what it was, and `after` is added to that."""

    def shown(tick: int) -> Mapping[str, Mapping[str, float]]:
        by = ratio if tick >= changed_at else 1.0
        now = {"cpp": 376.0 * by, "busy_cpp": 281.5 * by}
        return {"fwd": {**now, **(after if tick >= changed_at else {})}}

    return shown
