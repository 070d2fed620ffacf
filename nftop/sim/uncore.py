"""Counts of the simulated uncore boxes, and the table of source `uncore`.

Each box counts a share of its package's traffic: whole numbers that sum to it and never decrease.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nftop.model.data_files import data_file
from nftop.model.ids import Cpu, Package
from nftop.model.missing import Reason
from nftop.model.pci_device import PcieDevice
from nftop.model.pcie import PcieTable, RootPort
from nftop.model.sample import Counts
from nftop.model.struct import dataclass
from nftop.model.uncore import UNWANTED, UncoreTable
from nftop.sim.events import nth_share, share
from nftop.sim.model import Model
from nftop.sim.workloads import INDEX, QUANTITIES
from nftop.uarch.events import port_event
from nftop.uarch.sections import Iio
from nftop.uarch.table import PmuTerms, Uarch

# Quantities of a package beyond the sum over its CPUs: lines over its links, and clock ticks of
# boxes and memory, which every box counts.
_LINKS, _CLOCKS = ("link_lines_sent", "link_lines_received"), ("uncore_clocks", "memory_clocks")
OF_PACKAGE: tuple[str, ...] = (*QUANTITIES, *_LINKS, *_CLOCKS)
OF_PACKAGE_INDEX: Mapping[str, int] = MappingProxyType({n: i for i, n in enumerate(OF_PACKAGE)})
LINE_BYTES = 64
# Ticks in ns of uncore clocks at 2.4 GHz.
_UNCORE_CLOCK = (12, 5)
# Mask of the root ports of a stack that an event counts.
_PORTS = "ch_mask"
# Network functions whose devices are behind port 0 of stacks, and those stacks, in turn.
_FORWARDERS = frozenset({"testpmd", "l3fwd", "ovs", "vpp"})
_STACKS = (1, 2, 3)
# Microarchitectures with the boxes of another.
_SAME_BOXES: Mapping[str, str] = MappingProxyType({"CLX": "SKX", "HSX": "BDX", "EMR": "SPR"})


@dataclass(frozen=True, slots=True)
class _Unit:
    """One PMU of a microarchitecture; `boxes` None: as many as cores."""

    boxes: int | None
    numbers: tuple[int, ...]
    weights: tuple[int, ...]
    memory: bool
    stacks: bool
    events: Mapping[frozenset[tuple[str, int]], Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class SimulatedPort:
    """Root port `number` of a stack, with devices whose traffic is that of `cpus`."""

    package: Package
    stack: int
    number: int
    devices: tuple[PcieDevice, ...]
    cpus: tuple[Cpu, ...]

    @property
    def bus(self) -> str:
        """The stack's root bus."""
        return f"0000:{(0x80 * self.package + 0x10 * self.stack) % 0x100:02x}"

    def address(self, first_device: int) -> str:
        return f"{self.bus}:{first_device + self.number:02x}.0"


def nic_bus(order: int) -> int:
    """Bus of the devices of the network function that is placed in this order; fictitious."""
    return 0x18 + order % 0x80


def simulated_ports(model: Model) -> tuple[SimulatedPort, ...]:
    """Root ports by address: port 0 of a stack has devices of network functions.

    Port 2 of the first such stack has the kernel's device, which is idle.
    """
    topology = model.layout.topology
    devices: dict[tuple[Package, int], list[PcieDevice]] = {}
    cpus: dict[tuple[Package, int], list[Cpu]] = {}
    placed_in: dict[Package, int] = {}
    for order, placed in enumerate(model.layout.placed):
        package = topology.cpus[placed.cpus[0]].package
        if placed.task.kind not in _FORWARDERS or package is None:
            continue
        stack = _STACKS[placed_in.setdefault(package, 0) % len(_STACKS)]
        placed_in[package] += 1
        address = f"0000:{nic_bus(order):02x}:00.0"
        devices.setdefault((package, stack), []).append(PcieDevice(address, "vfio-pci", ()))
        of_stack = (topology.cpus[cpu].package == package for cpu in placed.cpus)
        mine = [cpu for cpu, near in zip(placed.cpus, of_stack, strict=True) if near]
        cpus.setdefault((package, stack), []).extend(mine)
    ports = [
        SimulatedPort(*at, 0, tuple(listed), tuple(dict.fromkeys(cpus[at])))
        for at, listed in devices.items()
    ]
    kernel = PcieDevice("0000:12:00.0", "i40e", ("eno1",))
    ports.append(SimulatedPort(topology.packages[0], _STACKS[0], 2, (kernel,), ()))
    return tuple(sorted(ports, key=lambda port: port.address(0)))


def pcie_table(model: Model, t_ns: int, uarch: Uarch, iio: Iio) -> PcieTable:
    """Root ports and their counts at `t_ns`, the ports of a stack in exact turns."""
    ports = simulated_ports(model)
    of_box = box_counts(model, t_ns, iio.pmu, uarch.name)
    row_of = {package: row for row, package in enumerate(model.layout.topology.packages)}
    names = [port_event(event, number) for number in range(iio.ports) for event in iio.events]
    rows: list[tuple[int, int, int, int, int]] = []  # package, stack, event, count, time running
    for port in ports:
        turns = [item.number for item in ports if item.bus == port.bus]
        turn = turns.index(port.number)
        ran_ns = int(share(t_ns, len(turns))[turn])
        unit = iio.unit(port.package, port.stack, (port.number,))
        for name, event in unit.events.items():
            factors = box_factors(event, uarch.name) or {}
            counted = sum(
                factor * int(of_box[row_of[port.package], port.stack, OF_PACKAGE_INDEX[quantity]])
                for quantity, factor in factors.items()
            )
            whole = np.array([counted], np.uint64)
            count = int(nth_share(whole, turn, len(turns))[0])
            rows.append((port.package, port.stack, names.index(name), count, ran_ns))
    table = np.array(rows, np.uint64).reshape(-1, 5)
    counts = UncoreTable(
        events=tuple(names),
        packages=table[:, 0].astype(np.int32),
        boxes=table[:, 1].astype(np.int32),
        event=table[:, 2].astype(np.int32),
        values=table[:, 3],
        reasons=np.zeros(len(table), np.uint8),
        enabled_ns=np.full(len(table), t_ns, np.uint64),
        running_ns=table[:, 4],
    )
    shown = (
        RootPort(
            port.address(iio.first_device), port.package, port.stack, port.number, port.devices
        )
        for port in ports
    )
    return PcieTable(tuple(shown), counts)


def pmus(uarch: str) -> tuple[str, ...]:
    """The PMUs of a microarchitecture, by sysfs name without number.

    Raises:
        KeyError: unknown microarchitecture.
    """
    return tuple(_units(uarch))


def boxes(model: Model, pmu: str, uarch: str) -> tuple[int, ...]:
    """Numbers of a PMU's boxes, the same in each package; KeyError for an unknown PMU."""
    unit = _units(uarch)[pmu]
    cpus = model.layout.topology.cpus
    cores = {info.core: info.package for info in cpus}
    largest = max(list(cores.values()).count(package) for package in set(cores.values()))
    return unit.numbers or tuple(range(largest if unit.boxes is None else unit.boxes))


def box_factors(event: PmuTerms, uarch: str) -> Mapping[str, int] | None:
    """The quantities of `OF_PACKAGE` that an event counts, each with a factor.

    None: unknown event. KeyError: unknown microarchitecture.
    """
    unit = _units(uarch).get(event.pmu)
    if unit is None:
        return None
    terms = dict(_terms(event.terms))
    mask = terms.pop(_PORTS, 1) if unit.stacks else 1
    counted = unit.events.get(frozenset(terms.items()))
    return counted if counted is None or mask & 1 else {}


def package_counts(model: Model, t_ns: int) -> Counts:
    """Total of a package's boxes until `t_ns`: uint64 (packages, k), k as in `OF_PACKAGE`."""
    counts = model.counts(t_ns)
    cpus = model.layout.topology.cpus
    of = np.array([-1 if info.package is None else info.package for info in cpus])
    packages = model.layout.topology.packages
    total = np.zeros((len(packages), len(OF_PACKAGE)), dtype=np.uint64)
    for row, package in enumerate(packages):
        total[row, : len(QUANTITIES)] = counts[of == package].sum(axis=0)
    # Remote writes of a package's devices leave it, as does what others read here.
    writes, reads = (total[:, INDEX[name]] for name in ("remote_writes", "remote_reads"))
    if len(packages) > 1:
        total[:, OF_PACKAGE_INDEX["link_lines_sent"]] = writes + (reads.sum() - reads)
        total[:, OF_PACKAGE_INDEX["link_lines_received"]] = reads + (writes.sum() - writes)
    clocks = (_UNCORE_CLOCK, model.scenario.processor.memory_clock)
    for name, (ticks, ns) in zip(_CLOCKS, clocks, strict=True):
        total[:, OF_PACKAGE_INDEX[name]] = t_ns * ticks // ns
    return total


def box_counts(model: Model, t_ns: int, pmu: str, uarch: str) -> Counts:
    """Counts of each box until `t_ns`: uint64 (packages, boxes, k); k as in `OF_PACKAGE`."""
    total = package_counts(model, t_ns)
    if _units(uarch)[pmu].stacks:
        shares = _of_stacks(model, t_ns, total, len(boxes(model, pmu, uarch)))
    else:
        shares = weighted(total, box_weights(model, pmu, uarch))
    for name in _CLOCKS:
        shares[:, :, OF_PACKAGE_INDEX[name]] = total[:, None, OF_PACKAGE_INDEX[name]]
    return shares


def _of_stacks(model: Model, t_ns: int, total: Counts, stacks: int) -> Counts:
    """Counts of stacks: of the devices behind each; what is no device's is of the first stack."""
    counts = model.counts(t_ns)
    shares = np.zeros((len(total), stacks, len(OF_PACKAGE)), np.uint64)
    row_of = {package: row for row, package in enumerate(model.layout.topology.packages)}
    for port in simulated_ports(model):
        mine = counts[list(port.cpus)].sum(axis=0, dtype=np.uint64)
        shares[row_of[port.package], port.stack, : len(QUANTITIES)] += mine
    shares[:, 0] = total - shares.sum(axis=1)
    return shares


def box_weights(model: Model, pmu: str, uarch: str) -> tuple[int, ...]:
    """Relative traffic of the boxes of a PMU."""
    unit = _units(uarch)[pmu]
    weights = unit.weights or (1,) * len(boxes(model, pmu, uarch))
    unit_weights = iter(model.scenario.channel_weights) if unit.memory else iter(())
    return tuple(next(unit_weights, 1) if weight else 0 for weight in weights)


def weighted(totals: Counts, weights: Sequence[int]) -> Counts:
    """`totals` (m, k) split by whole weights, not all 0: uint64 (m, boxes, k)."""
    total = sum(weights)
    slots = (totals[:, None, :] + np.arange(total, dtype=np.uint64)[:, None]) // np.uint64(total)
    before = np.zeros((len(totals), total + 1, totals.shape[1]), dtype=np.uint64)
    np.cumsum(slots, axis=1, out=before[:, 1:])
    ends: NDArray[np.int64] = np.cumsum(np.array(weights, dtype=np.int64))
    shares: Counts = before[:, ends] - before[:, ends - np.array(weights, dtype=np.int64)]
    return shares


def _terms(text: str) -> frozenset[tuple[str, int]]:
    """An event's terms with their values: 1 for a term alone; zeros are dropped."""
    pairs = (term.partition("=") for term in text.split(",") if term)
    fields = ((name, int(value or "1", 0)) for name, _, value in pairs)
    return frozenset((name, value) for name, value in fields if value)


@functools.cache
def _units(uarch: str) -> Mapping[str, _Unit]:
    raw = tomllib.loads(data_file(__package__, "boxes.toml").decode())
    rows = raw[_SAME_BOXES.get(uarch, uarch)]
    bases = {pmu: raw[row["as"]][pmu] if "as" in row else {} for pmu, row in rows.items()}
    return {pmu: _unit({**bases[pmu], **row}) for pmu, row in rows.items()}


def _unit(row: Mapping[str, Any]) -> _Unit:
    return _Unit(
        boxes=None if row["boxes"] == "cores" else row["boxes"],
        numbers=tuple(row.get("numbers", ())),
        weights=tuple(row.get("weights", ())),
        memory=row.get("memory", False),
        stacks=row.get("stacks", False),
        events={
            _terms(terms): MappingProxyType({counted: 1} if isinstance(counted, str) else counted)
            for terms, counted in row["events"].items()
        },
    )


_UNKNOWN = "the simulated host has no such event"


def uncore_table(model: Model, t_ns: int, uarch: Uarch, *, detailed: bool) -> UncoreTable:
    """Every uncore event of `uarch` on every box, at `t_ns` since the model's start.

    Events on demand are left out unless `detailed`. All n turns of a unit share its time exactly:
    each has run and counted an n-th, to a nanosecond and a count; real turns last milliseconds.
    """
    packages = np.array(model.layout.topology.packages, dtype=np.int32)
    events: list[str] = []
    details: dict[str, dict[int, str]] = {}
    values: list[Counts] = []
    where: list[NDArray[np.int32]] = []  # package, box
    rows: list[tuple[int, int, int]] = []  # event, reason, time running
    for unit in uarch.uncore:
        of_box = box_counts(model, t_ns, unit.pmu, uarch.name)
        numbers = np.array(boxes(model, unit.pmu, uarch.name), dtype=np.int32)
        keys = np.stack([np.repeat(packages, len(numbers)), np.tile(numbers, len(packages))])
        turns = (*unit.turns, *unit.on_demand)
        for turn, names in enumerate(turns):
            ran_ns = int(share(t_ns, len(turns))[turn])
            for name in names:
                factors = box_factors(unit.events[name], uarch.name)
                reason = Reason.HARDWARE if factors is None else Reason.PRESENT
                details[name] = {int(reason): _UNKNOWN} if factors is None else {}
                total = np.zeros(of_box.shape[:2], dtype=np.uint64)
                for quantity, factor in (factors or {}).items():
                    total += np.uint64(factor) * of_box[:, :, OF_PACKAGE_INDEX[quantity]]
                values.append(nth_share(total.ravel(), turn, len(turns)))
                where.append(keys)
                rows += [(len(events), int(reason), ran_ns)] * keys.shape[1]
                events.append(name)
    table = np.array(rows, dtype=np.uint64).reshape(-1, 3)
    positions = np.concatenate([np.zeros((2, 0), np.int32), *where], axis=1).astype(np.int32)
    unwanted = () if detailed else [turn for unit in uarch.uncore for turn in unit.on_demand]
    hidden = {events.index(name) for turn in unwanted for name in turn}
    count, reasons = np.concatenate([np.zeros(0, np.uint64), *values]), table[:, 1].astype(np.uint8)
    off = np.isin(table[:, 0], list(hidden)) & (reasons == 0)
    count[off], reasons[off] = 0, Reason.SOURCE
    for item in hidden:
        details[events[item]].setdefault(int(Reason.SOURCE), UNWANTED)
    return UncoreTable(
        events=tuple(events),
        packages=positions[0],
        boxes=positions[1],
        event=table[:, 0].astype(np.int32),
        values=count,
        reasons=reasons,
        enabled_ns=np.full(len(table), t_ns, dtype=np.uint64),
        running_ns=table[:, 2],
        details=details,
        extras=frozenset(events[entry] for entry in hidden),
    )
