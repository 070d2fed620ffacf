"""Rules of findings about cache classes: memory per packet and the noisy neighbour."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nftop.derive.cache.ways import ways_of
from nftop.derive.findings.inputs import FindingInputs, FindingKey, summed
from nftop.derive.findings.rule import LIMIT_AND_NF, RDT, STABLE, Measured, Only, Rule, register
from nftop.model.column import from_readings, ratio
from nftop.model.frame import GroupCacheRow, GroupRow
from nftop.model.ids import L3Domain, format_cpu_list
from nftop.model.metrics.probes import PAPER
from nftop.model.missing import Missing, Reading, Reason, number_or
from nftop.model.rdt.rdt import ROOT
from nftop.model.struct import dataclass
from nftop.model.subject import Subject

_UNSHARED = Missing(Reason.UNDEFINED, "no other class may fill its ways")
_MIXED = Missing(Reason.UNDEFINED, "other programs run in this class too")
# A CPU without a poller counts as busy from this share of its time on: the first for a noisy
# neighbour, the second for a class's traffic not to be its network functions' alone.
_BUSY_RATIO, QUIET_RATIO = 0.5, 0.05


def memory_per_packet(inputs: FindingInputs) -> Measured:
    """Memory traffic of a class by the packets of its pollers, where nothing else runs."""
    keys, rows, traffic, names = [], [], {}, []
    for index, (group, cache, positions) in enumerate(polled_classes(inputs)):
        keys.append(FindingKey(class_subject(group, cache), group.clos))
        rows.append(positions)
        names.append(_nfs(inputs, positions))
        mixed = _other_busy_cpus(inputs, group.name, cache.l3, QUIET_RATIO)
        traffic[index] = _MIXED if mixed else cache.readings["mbm_total_bytes_per_s"]
    packets = summed(inputs.packets, rows)
    moved = from_readings(traffic, len(keys), Missing(Reason.SOURCE))
    context = {"packets": packets, "traffic": moved}
    return Measured(keys, ratio(moved, packets), context, {"nf": names})


register(
    Rule(
        id="nf-memory",
        rank=90,
        title="memory traffic of a network function",
        metrics=("mbm_total_bytes_per_s",),
        scope="group",
        measure=memory_per_packet,
        limit=64.0,
        clear=48.0,
        form="{:.0f} bytes",
        text="moved {value} of memory for each packet",
        detail=LIMIT_AND_NF,
        source=f"{PAPER}, 4.4 and Table 6 (64-byte frames): close to 0 MB/s in most cases, 0.1 to "
        "1.3 bytes a packet; 31 bytes with VPP's IPv4 routing of 500,000 flows, for which no cause "
        "is given",
        own="a line of the cache for each packet, twice what the table's highest has",
        only=(
            Only("packets", 100_000.0, "it takes in 100,000 packets a second or more"),
            Only("traffic", 5e8, "its class moves 500 MB/s or more"),
        ),
        note="Measured per cache class, and only where nothing else runs in it. The paper has "
        "larger frames once: VPP's router with 1518 bytes moves 11.9 GB/s of memory (Figure 21), "
        "at a rate that it does not give.",
    )
)


def noisy_neighbour(inputs: FindingInputs) -> Measured:
    """The highest memory traffic of other users of the ways of a class in which an NF polls."""
    keys, traffic, messages, names = [], {}, [], []
    for index, (group, cache, positions) in enumerate(polled_classes(inputs)):
        others = sorted(
            neighbours(inputs, group, cache), key=lambda one: one.sort_traffic, reverse=True
        )
        keys.append(FindingKey(class_subject(group, cache), group.clos))
        traffic[index] = others[0].traffic if others else _UNSHARED
        messages.append(others[0].message if others else "")
        names.append(_nfs(inputs, positions))
    values = from_readings(traffic, len(keys), Missing(Reason.SOURCE))
    return Measured(keys, values, words={"nf": names, "neighbour": messages})


register(
    Rule(
        id="noisy-neighbour",
        rank=70,
        title="a noisy neighbour in the same cache ways",
        metrics=("mbm_total_bytes_per_s",),
        scope="group",
        measure=noisy_neighbour,
        limit=2e9,
        clear=1.5e9,
        form="{:.1f} GB/s",
        scale=1e-9,
        text="{value} of memory traffic by {neighbour}",
        detail=", {beyond} {limit} (beside {nf})",
        source=f"{RDT}, Tables 9, 14 and 19, with a memtester and without CAT against neither: "
        "64-byte packets per second unchanged in all three (within 0.002 %), 256 bytes 3.7 % and "
        "7.2 % less behind one virtual machine, 1024 and 1518 bytes 34 % and 31 % less behind two; "
        "no other loss",
        own="the source does not say how much its memtester moved; the streaming neighbours of "
        f"{STABLE} move 13 GB/s a core. At 2 GB/s a cache of 30 MB could be filled anew 60 times a "
        "second",
        note="A neighbour is a class whose ways overlap, or a busy CPU in the class on which no "
        "network function polls; the traffic is that of its whole class. Whether it costs anything "
        "depends on the cache that the network function needs. The source's text says that 64-byte "
        "packets lost just under 6 % to the memtester; Table 9 has that number (-5.8 %) in the "
        "column with CAT.",
    )
)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another user of a class's ways.

    Attributes:
        traffic: memory traffic of its whole class, bytes/s.
        group: its class. ways: how many they share. mask: those ways, bit 0 the first.
        cpus: where it runs in the class itself; empty for another class.
    """

    traffic: Reading
    group: str
    ways: int
    cpus: tuple[int, ...] = ()
    mask: int = 0

    @property
    def message(self) -> str:
        if self.cpus:
            return f"cpu {format_cpu_list(self.cpus)} in the same class"
        name = "default" if self.group == ROOT else self.group
        return f"class {name}, {self.ways} way{'s' if self.ways > 1 else ''} in common"

    @property
    def sort_traffic(self) -> float:
        """Memory traffic to sort by; -1 if it is unknown, so that it comes last."""
        return number_or(self.traffic, -1.0)


def neighbours(inputs: FindingInputs, group: GroupRow, cache: GroupCacheRow) -> Iterator[Neighbour]:
    """Others in the class itself, and classes that may fill some of the same ways."""
    mine = ways_of(cache)
    others = _other_busy_cpus(inputs, group.name, cache.l3, _BUSY_RATIO)
    if others:
        mask = 0 if mine is None else mine.bits
        traffic = cache.readings["mbm_total_bytes_per_s"]
        yield Neighbour(traffic, group.name, mask.bit_count(), tuple(others), mask)
    for other in inputs.frame.groups:
        for theirs in other.caches:
            if other.name == group.name or theirs.l3 != cache.l3:
                continue
            taken = ways_of(theirs)
            mask = 0 if mine is None or taken is None else mine.bits & taken.bits
            if mask:
                traffic = theirs.readings["mbm_total_bytes_per_s"]
                yield Neighbour(traffic, other.name, mask.bit_count(), mask=mask)


def polled_classes(inputs: FindingInputs) -> Iterator[tuple[GroupRow, GroupCacheRow, list[int]]]:
    """Classes in the caches behind which a network function polls in them, and where in `rows`."""
    positions: dict[tuple[str, L3Domain | None], list[int]] = {}
    for position in range(len(inputs.rows)):
        key = inputs.classes(position)
        if key is not None:
            positions.setdefault(key, []).append(position)
    for group in inputs.frame.groups:
        for cache in group.caches:
            if (group.name, cache.l3) in positions:
                yield group, cache, positions[group.name, cache.l3]


def _other_busy_cpus(
    inputs: FindingInputs, name: str, l3: L3Domain, busy_ratio: float
) -> list[int]:
    """CPUs of a class behind a cache that are so busy, and no network function polls there."""
    table = inputs.frame.cpus
    ran = table.columns["cpu_time_ratio"]
    busy = np.flatnonzero(ran.present & (ran.values > busy_ratio) & (inputs.pids < 0))
    cpus = []
    for row in busy.tolist():
        group, info = table.group[row], table.topology.cpus[row]
        if not isinstance(group, Missing) and group.name == name and info.l3 == l3:
            cpus.append(int(info.cpu))
    return cpus


def class_subject(group: GroupRow, cache: GroupCacheRow) -> Subject:
    """A class in a cache."""
    name = "default" if group.name == ROOT else group.name
    return Subject("class", f"{group.name} {cache.l3}", f"{name}, L3 {cache.l3}")


def _nfs(inputs: FindingInputs, positions: list[int]) -> str:
    return ", ".join(dict.fromkeys(inputs.nf_names[position] for position in positions))
