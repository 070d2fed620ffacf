"""Rules of findings about a package's uncore: DDIO, MMIO, UPI, PCIe and memory channels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nftop.derive.findings.inputs import FindingInputs, FindingKey, of_packages
from nftop.derive.findings.rule import SI, TALK, Measured, Only, Rule, register
from nftop.model.column import Column, from_readings, ratio, where
from nftop.model.frame import BoxTraffic, PackageRow
from nftop.model.metrics.probes import PAPER
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.subject import package_subject

_ON_DEMAND = "Sampled every few ticks, or counted while the Traffic screen is up, or for JSON."
# A sample is of a second or more, and is held until the next.
_SAMPLED_S = 3.0
_NO_CORES = Missing(Reason.UNDEFINED, "no network function polls on this package")
_ONE_CHANNEL = Missing(Reason.UNDEFINED, "fewer than two memory channels count anything")


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
    whole, partial = _writes(rows)
    missed = Column(1.0 - hits.values, hits.reasons)
    measured = _packages(inputs, missed, "pcie.ddio_hit_ratio")
    return _with(measured, writes=_plus(whole, partial))


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
    whole, partial = _writes(inputs.frame.packages)
    every = _plus(whole, partial)
    measured = _packages(inputs, ratio(partial, every), "pcie.rfo.total_per_s")
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
    homes = [infos[at[core[0]]].package for core in inputs.cores]
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
    return Measured(
        [FindingKey(package_subject(row.package), None) for row in rows],
        values,
        words={"about": about},
    )


def _with(measured: Measured, **context: Column) -> Measured:
    return Measured(measured.keys, measured.values, context, measured.words)
