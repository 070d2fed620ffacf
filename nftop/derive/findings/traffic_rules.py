"""Rules of findings about packages and cache classes, each next to its measure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from nftop.derive.cache.ways import ways_of
from nftop.derive.findings.inputs import FindingInputs, FindingKey, of_packages, summed
from nftop.derive.findings.rule import (
    LIMIT_AND_NF,
    RDT,
    SI,
    STABLE,
    TALK,
    Measured,
    Only,
    Rule,
    register,
)
from nftop.model.column import Column, from_readings, ratio, where
from nftop.model.frame import BoxTraffic, GroupCacheRow, GroupRow, PackageRow
from nftop.model.ids import L3Domain, format_cpu_list
from nftop.model.metrics.probes import PAPER
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.rdt.rdt import ROOT
from nftop.model.struct import dataclass

_ON_DEMAND = "Sampled every few ticks, or counted while the Traffic screen is up, or for JSON."
# A sample is of a second or more, and is held until the next.
_SAMPLED_S = 3.0
_NO_CORES = Missing(Reason.UNDEFINED, "no network function polls on this package")
_UNSHARED = Missing(Reason.UNDEFINED, "no other class may fill its ways")
_MIXED = Missing(Reason.UNDEFINED, "other programs run in this class too")
_ONE_CHANNEL = Missing(Reason.UNDEFINED, "fewer than two memory channels count anything")
# From these shares of its time on a CPU without a poller is taken to work: to count as somebody
# noisy, and for a class's traffic not to be its network functions' alone.
_BUSY_RATIO, _QUIET_RATIO = 0.5, 0.05


def of_package(metric: str) -> Callable[[FindingInputs], Measured]:
    """A metric of each package."""

    def measure(inputs: FindingInputs) -> Measured:
        return _packages(inputs, of_packages(inputs.frame.packages, metric), metric)

    return measure


register(
    Rule(
        id="mmio-reads",
        rank=140,
        title="reads of devices' registers",
        metrics=("mmio.read_per_s",),
        scope="package",
        measure=of_package("mmio.read_per_s"),
        limit=1000.0,
        clear=700.0,
        form=SI,
        text="{about}{value} reads of device registers a second",
        source=f"{PAPER}, Table 17 (PRd): very low, a few hundreds; {TALK}: avoid MMIO reads",
        own="a few hundreds is no number; a thousand is more. Who asks a NIC for its statistics "
        "reads registers too, nftop among them",
        note=_ON_DEMAND,
        at_least_s=_SAMPLED_S,
    )
)


def ddio_misses(inputs: FindingInputs) -> Measured:
    """Share of devices' writes that did not find their line, and how many writes there are."""
    rows = inputs.frame.packages
    hits = of_packages(rows, "pcie.ddio_hit_ratio")
    whole, parts = _writes(rows)
    missed = Column(1.0 - hits.values, hits.reasons)
    measured = _packages(inputs, missed, "pcie.ddio_hit_ratio")
    return _with(measured, writes=_plus(whole, parts))


register(
    Rule(
        id="ddio-misses",
        rank=80,
        title="writes of devices that miss the cache",
        metrics=("pcie.ddio_hit_ratio",),
        scope="package",
        measure=ddio_misses,
        limit=0.05,
        clear=0.03,
        form="{:.1%}",
        text="{about}{value} of devices' writes missed the last-level cache",
        source=f"{PAPER}, Table 17: aim for a high ItoM hit count (Figure 23: 100 %); {TALK}: "
        "avoid DDIO miss",
        own="the sources have no number; the paper's l3fwd missed none at 29.8 Mpps, so 5 % is far "
        "from what it took for good",
        only=(Only("writes", 1e6, "devices write a million lines a second or more"),),
    )
)


def partial_writes(inputs: FindingInputs) -> Measured:
    """Share of devices' writes that are of parts of lines, and how many writes there are."""
    whole, parts = _writes(inputs.frame.packages)
    every = _plus(whole, parts)
    measured = _packages(inputs, ratio(parts, every), "pcie.rfo.total_per_s")
    return _with(measured, writes=every)


register(
    Rule(
        id="partial-writes",
        rank=150,
        title="devices that write parts of cache lines",
        metrics=("pcie.rfo.total_per_s", "pcie.itomcachenear.total_per_s", "pcie.itom.total_per_s"),
        scope="package",
        measure=partial_writes,
        limit=0.50,
        clear=0.47,
        text="{about}{value} of devices' writes were of parts of lines (RFO)",
        source=f"{PAPER}, Table 17 (RFO): minimize writes of parts of lines when possible; "
        f"{TALK}: reduce RFO",
        own="the sources have no number. With 64-byte frames the paper's l3fwd has 21 % (Figure "
        "24: 8.6 million of 41.6), and OVS at most 45 % (Table 7: 1.83 writes a packet, one of "
        "them the frame, the others of whole lines or of parts)",
        only=(Only("writes", 1e6, "devices write a million lines a second or more"),),
    )
)


def register_writes(inputs: FindingInputs) -> Measured:
    """Writes to devices' registers per second and core on which a network function polls."""
    rows = inputs.frame.packages
    infos, at = inputs.frame.cpus.topology.cpus, inputs.rows.tolist()
    homes = [infos[at[places[0]]].package for places in inputs.cores]
    cores: dict[int, Reading] = {
        row: float(homes.count(item.package)) or _NO_CORES for row, item in enumerate(rows)
    }
    counted = from_readings(cores, len(rows), _NO_CORES)
    writes = of_packages(rows, "mmio.write_per_s")
    per_core = where(counted.present, ratio(writes, counted), counted)
    return _with(_packages(inputs, per_core, "mmio.write_per_s"), cores=counted, writes=writes)


register(
    Rule(
        id="mmio-writes",
        rank=130,
        title="many writes to devices' registers",
        metrics=("mmio.write_per_s",),
        scope="package",
        measure=register_writes,
        limit=1e6,
        clear=0.9e6,
        form=SI,
        text="{about}{value} writes/s to device registers for each polling core",
        source=f"{PAPER}, Table 17 (WiL): below 1 M/s per core is a good target; {TALK}: batch "
        "MMIO writes",
        note=f"Per physical core on which a network function polls. testpmd and l3fwd at full load "
        f"have 1.1 million with bursts of 32. {_ON_DEMAND}",
        at_least_s=_SAMPLED_S,
        normal_for=("testpmd", "l3fwd"),
    )
)


def remote_share(inputs: FindingInputs) -> Measured:
    """What comes from other packages, by what memory and devices of the package move in all."""
    rows = inputs.frame.packages
    received = of_packages(rows, "upi.received_bytes_per_s")
    moved = of_packages(rows, "memory.read_bytes_per_s")
    for name in ("memory.write_bytes_per_s", "pcie.read_bytes_per_s", "pcie.write_bytes_per_s"):
        moved = _plus(moved, of_packages(rows, name))
    measured = _packages(inputs, ratio(received, moved), "upi.received_bytes_per_s")
    return _with(measured, received=received)


register(
    Rule(
        id="cross-socket",
        rank=100,
        title="traffic between sockets",
        metrics=("upi.received_bytes_per_s",),
        scope="package",
        measure=remote_share,
        limit=0.10,
        clear=0.07,
        text="{about}{value} of what its memory and devices moved came from other packages",
        source=f"{PAPER}, 9.2: close to zero for NUMA optimized applications; {TALK}: any of it "
        "hurts latency",
        own="the sources have no number. A tenth, since the kernel's and other programs' data "
        "cross the links too; requests and snoops are not in it (nftop explain "
        "upi.received_bytes_per_s)",
        only=(Only("received", 1e8, "100 MB/s or more come over its links"),),
    )
)


def highest_of(*metrics: str) -> Callable[[FindingInputs], Measured]:
    """The higher of two shares of each package; the other where one is absent."""

    def measure(inputs: FindingInputs) -> Measured:
        rows = inputs.frame.packages
        one, other = (of_packages(rows, metric) for metric in metrics)
        higher = Column(np.fmax(one.values, other.values), np.minimum(one.reasons, other.reasons))
        return _packages(inputs, higher, metrics[0])

    return measure


register(
    Rule(
        id="memory-bandwidth",
        rank=112,
        title="memory near its peak",
        metrics=("utilisation.memory_ratio",),
        scope="package",
        measure=of_package("utilisation.memory_ratio"),
        limit=0.80,
        clear=0.75,
        text="{about}{value} of its memory's peak bandwidth was taken",
        source=f"{PAPER}, 7.1: latency rises with the bandwidth that is used; of some 70 GB/s of "
        "an E5-2699 v4 17 % are ample headroom",
        own="the source has no number. Memory controllers reach 80 to 90 % of their peak at most",
        note="The peak: nftop explain utilisation.memory_ratio; memory_peak_gbs sets it.",
    )
)
register(
    Rule(
        id="upi-bandwidth",
        rank=114,
        title="links between packages near their peak",
        metrics=("utilisation.upi_received_ratio", "utilisation.upi_sent_ratio"),
        scope="package",
        measure=highest_of("utilisation.upi_received_ratio", "utilisation.upi_sent_ratio"),
        limit=0.60,
        clear=0.55,
        text="{about}{value} of its links' peak was taken by data in one direction",
        source=f"{PAPER}, 9.2: close to zero for NUMA optimized applications",
        own="the source has no number. Headers, requests, responses and snoops share the links "
        "and are not in it, so there is less left than the share says",
    )
)
register(
    Rule(
        id="pcie-bandwidth",
        rank=116,
        title="slots of NICs near their peak",
        metrics=("utilisation.pcie_write_ratio", "utilisation.pcie_read_ratio"),
        scope="package",
        measure=highest_of("utilisation.pcie_write_ratio", "utilisation.pcie_read_ratio"),
        limit=0.80,
        clear=0.75,
        text="{about}{value} of the bandwidth of its NICs' slots was taken in one direction",
        source=f"{PAPER}, 8.2: PCIe bandwidth by packets and descriptors; slots from sysfs "
        "current_link_speed and current_link_width",
        own="the source has no number. Headers of 20 to 26 bytes for each packet of at most 256 "
        "leave some 85 to 90 % of a slot for data",
    )
)


def uneven_channels(inputs: FindingInputs) -> Measured:
    """The busiest memory channel's traffic by the mean of those that count any.

    A channel that counts nothing has no memory behind it: kernels show every third box of an Ice
    Lake's controllers although there is none.
    """
    rows = inputs.frame.packages
    shares: dict[int, Reading] = {}
    totals: dict[int, Reading] = {}
    names = []
    for row, item in enumerate(rows):
        moved = [(box.number, _total(box)) for box in item.channels]
        absent = next((one for _, one in moved if isinstance(one, Missing)), None)
        used = [(one, number) for number, one in moved if not isinstance(one, Missing) and one > 0]
        known = absent is None and len(used) > 1
        whole = sum(one for one, _ in used)
        names.append(str(max(used)[1]) if known else "")
        shares[row] = max(used)[0] / (whole / len(used)) if known else absent or _ONE_CHANNEL
        totals[row] = absent or whole
    none = Missing(Reason.SOURCE)
    measured = _packages(inputs, from_readings(shares, len(rows), none), "memory.read_bytes_per_s")
    measured = _with(measured, traffic=from_readings(totals, len(rows), none))
    return Measured(
        measured.keys, measured.values, measured.context, {**measured.words, "channel": names}
    )


register(
    Rule(
        id="uneven-channels",
        rank=110,
        title="memory channels that are not used alike",
        metrics=("memory.read_bytes_per_s", "memory.write_bytes_per_s"),
        scope="package",
        measure=uneven_channels,
        limit=1.5,
        clear=1.3,
        form="{:.1f}",
        text="memory channel {channel} had {value} times the mean of the channels",
        source=f"{PAPER}, 10.2, 2.3: ensure that all channels are uniformly used",
        own="the source has no number. Lines are spread over the channels in turn, so that equal "
        "ones get equal shares; half as much again is far from that",
        only=(Only("traffic", 1e9, "they move 1 GB/s or more together"),),
        note="A channel that counts nothing has no memory behind it, and is left out.",
    )
)


def memory_per_packet(inputs: FindingInputs) -> Measured:
    """Memory traffic of a class by the packets of its pollers, where nothing else runs."""
    keys, parts, traffic, names = [], [], {}, []
    for index, (group, cache, places) in enumerate(polled_classes(inputs)):
        keys.append(FindingKey(class_text(group, cache), group.clos))
        parts.append(places)
        names.append(_nfs(inputs, places))
        mixed = _other_busy_cpus(inputs, group.name, cache.l3, _QUIET_RATIO)
        traffic[index] = _MIXED if mixed else cache.readings["mbm_total_bytes_per_s"]
    packets = summed(inputs.packets, parts)
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
    """The highest memory traffic of who may fill the ways of a class in which an NF polls."""
    keys, traffic, messages, names = [], {}, [], []
    for index, (group, cache, places) in enumerate(polled_classes(inputs)):
        others = sorted(
            neighbours(inputs, group, cache), key=lambda one: one.sort_traffic, reverse=True
        )
        keys.append(FindingKey(class_text(group, cache), group.clos))
        traffic[index] = others[0].traffic if others else _UNSHARED
        messages.append(others[0].message if others else "")
        names.append(_nfs(inputs, places))
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
        return -1.0 if isinstance(self.traffic, Missing) else self.traffic


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
    places: dict[tuple[str, L3Domain | None], list[int]] = {}
    for position in range(len(inputs.rows)):
        key = inputs.classes(position)
        if key is not None:
            places.setdefault(key, []).append(position)
    for group in inputs.frame.groups:
        for cache in group.caches:
            if (group.name, cache.l3) in places:
                yield group, cache, places[group.name, cache.l3]


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


def class_text(group: GroupRow, cache: GroupCacheRow) -> str:
    """How findings name a class in a cache."""
    return f"class {'default' if group.name == ROOT else group.name}, L3 {cache.l3}"


def _nfs(inputs: FindingInputs, places: list[int]) -> str:
    return ", ".join(dict.fromkeys(inputs.nf_names[position] for position in places))


def _writes(rows: tuple[PackageRow, ...]) -> tuple[Column, Column]:
    """Devices' writes of whole lines, and of parts: RFO, and ItoMCacheNear where there is such."""
    near = of_packages(rows, "pcie.itomcachenear.total_per_s")
    nothing = near.reasons == Reason.HARDWARE
    near = Column(np.where(nothing, 0.0, near.values), np.where(nothing, 0, near.reasons))
    whole = of_packages(rows, "pcie.itom.total_per_s")
    return whole, _plus(of_packages(rows, "pcie.rfo.total_per_s"), near)


def _plus(one: Column, other: Column) -> Column:
    reasons = np.where(one.reasons > 0, one.reasons, other.reasons).astype(np.uint8)
    return Column(np.where(reasons > 0, np.nan, one.values + other.values), reasons)


def _total(box: BoxTraffic) -> Reading:
    if isinstance(box.in_bytes_per_s, Missing):
        return box.in_bytes_per_s
    out_of = box.out_bytes_per_s
    return out_of if isinstance(out_of, Missing) else box.in_bytes_per_s + out_of


def _packages(inputs: FindingInputs, values: Column, metric: str) -> Measured:
    """Of each package, and whether the metric is an estimate there."""
    rows = inputs.frame.packages
    about = ["about " if metric in row.estimates else "" for row in rows]
    return Measured([FindingKey(f"package {row.package}", None) for row in rows], values,
                    words={"about": about})  # fmt: skip


def _with(measured: Measured, **context: Column) -> Measured:
    return Measured(measured.keys, measured.values, context, measured.words)
