"""The metrics of packages that a pcm-sensor-server gives, rows as in its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from nftop.derive.pcm.cpus import residency
from nftop.derive.pcm.values import Told, told, within
from nftop.model.column import Bools, Column, Floats, column, from_readings, missing
from nftop.model.frame import BoxTraffic
from nftop.model.pcm import column_of
from nftop.model.reading import Missing, Reading, Reason

_NO_LINKS = Missing(Reason.SOURCE, "the server tells of no links between packages")
_NOT_DATA_ALONE = Missing(
    Reason.SOURCE, "the server counts what goes out with all that is no data: see "
    "upi.outgoing_bytes_per_s",
)  # fmt: skip
_NO_EVENT = Missing(Reason.SOURCE, "the server counts no such requests on this CPU")
_NO_ENDS = Missing(Reason.SOURCE, "the server counts hits and misses together")
_INCOMING, _OUTGOING = "incoming_data_traffic", "outgoing_data_and_non_data_traffic"
_PACKAGE_STATES = {0: "c0_ratio", 2: "c2_ratio", 3: "c3_ratio", 6: "c6_ratio"}
_RATES = {
    "memory.read_bytes_per_s": "dram_reads",
    "memory.write_bytes_per_s": "dram_writes",
    "memory.persistent_read_bytes_per_s": "persistent_memory_reads",
    "memory.persistent_write_bytes_per_s": "persistent_memory_writes",
    "power_w": "package_joules_consumed",
    "dram_power_w": "dram_joules_consumed",
}
# Metrics by the requests that they add up, each with a factor; as in the uncore tables of
# `uarch`, not as the server's own "PCIe Read Bytes", which on SKX adds RFO, CRd and DRd to reads.
_REQUESTS: Mapping[str, tuple[float, tuple[str, ...]]] = {
    "pcie.pcirdcur.total_per_s": (1, ("pcirdcur",)),
    "pcie.itom.total_per_s": (1, ("itom",)),
    "pcie.itomcachenear.total_per_s": (1, ("itomcachenear",)),
    "pcie.rfo.total_per_s": (1, ("rfo",)),
    "pcie.crd.total_per_s": (1, ("crd",)),
    "pcie.drd.total_per_s": (1, ("drd",)),
    "mmio.read_per_s": (1, ("prd", "ucrdf")),
    "mmio.write_per_s": (1, ("wil",)),
    "mmio.combined_write_per_s": (1, ("wcil", "wcilf")),
    "pcie.read_bytes_per_s": (64, ("pcirdcur",)),
    "pcie.write_bytes_per_s": (64, ("itom", "itomcachenear", "rfo")),
}
PCIE_METRICS = frozenset(_REQUESTS)
# Metrics that perf counts too.
SHARED_PACKAGE_METRICS = PCIE_METRICS | {
    "memory.read_bytes_per_s",
    "memory.write_bytes_per_s",
    "upi.received_bytes_per_s",
}
_ENDS = tuple(
    f"pcie.{opcode}.{end}_per_s"
    for opcode in ("itom", "rfo", "pcirdcur", "itomcachenear", "crd", "drd")
    for end in ("hit", "miss")
)


def package_columns(this: Told, pcie: Column | Floats) -> dict[str, Column]:
    """By metric id of the catalogue, scope `package`: float64 (s,) and reasons.

    `pcie` is requests per second, float64 (s, len(table.events)), or why there are none.
    """
    table = this.table
    local = this.average(table.of_package("local_memory_request_ratio"), 0.01)
    sockets = len(table.sockets)
    return {
        **{name: _rate(this, field) for name, field in _RATES.items()},
        "memory.local_ratio": within(local, -0.05, 1.05),
        "uncore_frequency_hz": this.average(table.of_package("uncore_frequency_die_0")),
        "thermal_headroom_c": _least_headroom(this),
        **{name: residency(this, table.of_package, state) for state, name in
           _PACKAGE_STATES.items()},
        "upi.received_bytes_per_s": _over_links(this, _INCOMING),
        "upi.outgoing_bytes_per_s": _over_links(this, _OUTGOING),
        "upi.sent_bytes_per_s": missing(sockets, _NOT_DATA_ALONE),
        **_pcie(pcie, table.events, sockets),
    }  # fmt: skip


def links(this: Told) -> Mapping[int, tuple[BoxTraffic, ...]]:
    """By the server's number of a package its links, ascending."""
    incoming = this.rate(lambda table: table.of_link(_INCOMING))
    found: dict[int, list[BoxTraffic]] = {}
    for row, (socket, number) in enumerate(this.table.links.tolist()):
        found.setdefault(socket, []).append(BoxTraffic(number, incoming[row], _NOT_DATA_ALONE))
    return {socket: tuple(boxes) for socket, boxes in found.items()}


def _rate(this: Told, field: str) -> Column:
    return this.rate(lambda table: table.of_package(field))


def _over_links(this: Told, field: str) -> Column:
    """The sum over a package's links, if each has a number, else the reason of the first."""
    one = this.rate(lambda table: table.of_link(field))
    rows: list[Reading] = []
    for socket in this.table.sockets.tolist():
        mine = np.flatnonzero(this.table.links[:, 0] == socket)
        gone = mine[~one.present[mine]]
        if not len(mine):
            rows.append(_NO_LINKS)
        else:
            rows.append(one[int(gone[0])] if len(gone) else float(one.values[mine].sum()))
    return _column(rows)


def _least_headroom(this: Told) -> Column:
    """That of the hottest core; PCM has none of a package as a whole."""
    cores = told(this.table.of_cpu("thermal_headroom"))
    rows: list[Reading] = []
    for socket in this.table.sockets.tolist():
        mine = np.flatnonzero(this.table.packages == socket)
        values = cores.values[mine][cores.present[mine]]
        if len(values):
            rows.append(float(values.min()))
        else:
            rows.append(cores[int(mine[0])] if len(mine) else Missing(Reason.SOURCE))
    return _column(rows)


def _pcie(requests: Column | Floats, names: tuple[str, ...], sockets: int) -> dict[str, Column]:
    """The metrics of requests; of events that this CPU does not have, SOURCE."""
    absent = dict.fromkeys(_ENDS, missing(sockets, _NO_ENDS))
    if isinstance(requests, Column):
        return {**absent, **dict.fromkeys(_REQUESTS, requests)}
    found = {}
    for name, (factor, events) in _REQUESTS.items():
        parts = np.column_stack([column_of(requests, names, event) for event in events])
        none: Bools = np.all(np.isnan(parts), axis=1)
        total = factor * np.where(np.isnan(parts), 0.0, parts).sum(axis=1)
        found[name] = column(total, none, _NO_EVENT)
    return {**absent, **found}


def _column(readings: Sequence[Reading]) -> Column:
    return from_readings(dict(enumerate(readings)), len(readings), Missing(Reason.SOURCE))
