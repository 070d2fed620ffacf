"""Traffic of root ports with network devices, by source `iio`, and the NFs that use these."""

from __future__ import annotations

import re
from collections.abc import Mapping

from nftop.derive.absence import after_absence
from nftop.derive.fold_stage import FoldStage, TopologyChange
from nftop.derive.package.table import BoxRates, box_rates
from nftop.model.frame import DeviceRow, NfRow
from nftop.model.metrics.device import DEVICE_EVENTS, DEVICE_METRICS, NO_MISSES
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.pcie import UNIT_BYTES, PcieTable, RootPort
from nftop.model.sample import SourceReading
from nftop.model.struct import dataclass, replace
from nftop.uarch.events import port_event

_NOT_COUNTED = Missing(Reason.SOURCE, "no box of its stack is counted")
_SENTENCES: Mapping[Reason, str] = {
    Reason.RESET: "its counter restarted",
    Reason.TAKEN: "its counter group does not get onto the hardware; another program has it",
    Reason.WARMING: "needs one more turn on the counters",
}
# Default names of VPP's interfaces end with bus, slot and function, in hexadecimal.
_VPP_NAME = re.compile(r"[A-Za-z]*?([0-9a-f]{1,2})/([0-9a-f]{1,2})/([0-7])")


@dataclass(frozen=True, slots=True)
class DeviceState:
    """State of the last table, and the rows made of it."""

    table: PcieTable | None = None
    rates: BoxRates | None = None
    read_at_ns: int = 0
    rows: tuple[DeviceRow, ...] = ()


def step_devices(
    state: DeviceState, reading: SourceReading[PcieTable] | None
) -> tuple[DeviceState, tuple[DeviceRow, ...]]:
    """Fold one reading in: a row for every root port, in the order of the table."""
    if reading is None:
        return DeviceState(), ()
    table = reading.value
    if isinstance(table, Missing):
        return after_absence(state, DeviceState(), table), _absent(state, table)
    if state.table is None or reading.read_at_ns != state.read_at_ns:
        counts = None if state.table is None else state.table.counts
        rates = box_rates(counts, state.rates, table.counts)
        rows = {
            (int(package), int(stack), table.counts.events[event]): row
            for row, (package, stack, event) in enumerate(
                zip(table.counts.packages, table.counts.boxes, table.counts.event, strict=True)
            )
        }
        devices = tuple(_row(port, table, rates, rows) for port in table.ports)
        state = DeviceState(table, rates, reading.read_at_ns, devices)
    return state, state.rows


def with_users(rows: tuple[DeviceRow, ...], nfs: tuple[NfRow, ...]) -> tuple[DeviceRow, ...]:
    """The rows with the NFs that have one of their devices as a port."""
    users = _users(nfs)
    return tuple(
        replace(
            row,
            nfs=tuple(
                dict.fromkeys(
                    name
                    for item in row.port.devices
                    for known in (item.address, *item.interfaces)
                    for name in users.get(known, ())
                )
            ),
        )
        for row in rows
    )


def _row(
    port: RootPort, table: PcieTable, rates: BoxRates, rows: Mapping[tuple[int, int, str], int]
) -> DeviceRow:
    readings: dict[str, Reading] = {item.id: NO_MISSES for item in DEVICE_METRICS}
    estimates = set()
    for metric, event in DEVICE_EVENTS.items():
        name = port_event(event, port.number)
        row = rows.get((port.package, port.stack, name))
        if port.problem is not None:
            readings[metric] = port.problem
        elif row is None:
            readings[metric] = _lacking(port, table, name)
        elif reason := Reason(int(rates.why[row])):
            known = table.counts.details.get(name, {}).get(int(reason))
            readings[metric] = Missing(reason, known or _SENTENCES.get(reason, ""))
        else:
            readings[metric] = float(rates.per_s[row]) * UNIT_BYTES
            if rates.partly[row]:
                estimates.add(metric)
    return DeviceRow(port, (), readings, frozenset(estimates))


def _lacking(port: RootPort, table: PcieTable, event: str) -> Missing:
    """Why no box of the stack has an event: the row of the box -1 of its package."""
    counts = table.counts
    if event in counts.events:
        mine = (counts.packages == port.package) & (counts.event == counts.events.index(event))
        for code in counts.reasons[mine & (counts.boxes < 0)].tolist():
            return Missing(Reason(code), counts.details.get(event, {}).get(code, ""))
    return _NOT_COUNTED


def _absent(state: DeviceState, why: Missing) -> tuple[DeviceRow, ...]:
    """The rows of before, without numbers."""
    readings: dict[str, Reading] = {
        item.id: why if item.id in DEVICE_EVENTS else NO_MISSES for item in DEVICE_METRICS
    }
    return tuple(DeviceRow(row.port, (), readings) for row in state.rows)


def _users(nfs: tuple[NfRow, ...]) -> Mapping[str, list[str]]:
    """Names of NFs by the address or interface of a device that they have as a port."""
    users: dict[str, list[str]] = {}
    for nf in nfs:
        if isinstance(nf.ports, Missing):
            continue
        for port in nf.ports:
            match = _VPP_NAME.fullmatch(port.name)
            address = port.name.rpartition(" ")[2]  # DPDK's have a number before it
            if match is not None:
                bus, slot, function = (int(text, 16) for text in match.groups())
                address = f"0000:{bus:02x}:{slot:02x}.{function}"
            users.setdefault(address, []).append(nf.name)
    return users


DEVICES: FoldStage[DeviceState, tuple[DeviceRow, ...]] = FoldStage(
    "devices",
    DeviceState,
    lambda state, tick: step_devices(state, tick.sample.readings.get("iio")),
    reset_on=TopologyChange.PACKAGES,
)
