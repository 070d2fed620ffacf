"""Rows of the fleet screen: their harm, order and filter."""

from __future__ import annotations

from collections.abc import Sequence

from nftop.derive.fleet import cause_title
from nftop.model.fleet import FleetFrame, FleetHost, FleetIncident, FleetNf
from nftop.model.incident import Severity
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.rdt.rdt import class_name
from nftop.model.struct import dataclass
from nftop.render.cores.harm import SICK, harm_of

_DROPS = "drop_packets_per_s"
# Keys of columns with texts, which are sorted from A to Z.
NAMES = ("host", "nf", "class")


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One row.

    Attributes:
        nf: None for a host: it has no network function, no numbers, or open incidents that harm
            none of its network functions but itself.
        incidents: these, the worst first.
    """

    host: FleetHost
    nf: FleetNf | None
    harm: float
    incidents: tuple[FleetIncident, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        return (self.host.instance,) if self.nf is None else self.nf.key


@dataclass(frozen=True, slots=True)
class FleetOrder:
    """Order and filter; `sort` "" is by harm."""

    sort: str = ""
    inverted: bool = False
    filter: str = ""

    @property
    def descending(self) -> bool:
        return (self.sort not in NAMES) is not self.inverted


def fleet_rows(frame: FleetFrame, order: FleetOrder) -> list[FleetRow]:
    """Rows that match the filter, in order; equal ones by host and name."""
    with_nfs = {nf.host.instance for nf in frame.nfs}
    rows = [FleetRow(nf.host, nf, _harm(nf)) for nf in frame.nfs]
    own: dict[str, list[FleetIncident]] = {}
    for item in frame.incidents:
        if not item.victims and item.severity > Severity.INFO:
            own.setdefault(item.host.instance, []).append(item)
    rows += [
        _host_row(host, own.get(host.instance, ()))
        for host in frame.hosts
        if host.instance not in with_nfs or host.state != "up" or host.instance in own
    ]
    if wanted := order.filter.casefold():
        rows = [row for row in rows if wanted in _searched(row)]
    rows.sort(key=lambda row: row.key)
    if order.sort in NAMES:
        rows.sort(key=lambda row: name_of(row, order.sort), reverse=order.descending)
    elif not order.sort:
        rows.sort(key=lambda row: row.harm, reverse=order.descending)
    else:
        # What has no number is last in both orders.
        numbers = [(reading_of(row, order.sort), row) for row in rows]
        sign = -1.0 if order.descending else 1.0
        numbers.sort(key=lambda item: _rank(item[0], sign))
        rows = [row for _, row in numbers]
    return rows


def _host_row(host: FleetHost, incidents: Sequence[FleetIncident]) -> FleetRow:
    worst = incidents[0].severity if incidents else None
    if host.state != "up":
        worst = Severity.WARN if worst is None else max(worst, Severity.WARN)
    return FleetRow(
        host, None, harm_of(0.0, gone=host.state != "up", worst=worst), tuple(incidents)
    )


def _rank(reading: Reading, sign: float) -> tuple[bool, float]:
    absent = isinstance(reading, Missing)
    return absent, 0.0 if isinstance(reading, Missing) else sign * reading


def _harm(nf: FleetNf) -> float:
    drops = nf.readings[_DROPS]
    lost = 0.0 if isinstance(drops, Missing) else max(drops, 0.0)
    # A finding without an incident that harms makes a row sick.
    finding = SICK if nf.events and not nf.severity else 0.0
    return harm_of(lost, gone=nf.problem is not None, worst=nf.severity) + finding


def _searched(row: FleetRow) -> str:
    """Text that find and filter look into."""
    nf = row.nf
    events = " ".join(cause_title(item.kind) for item in row.incidents)
    group = "" if nf is None else nf.group and class_name(nf.group)
    own = events if nf is None else f"{nf.name} {nf.kind} {group} {' '.join(nf.events)}"
    return f"{row.host.name} {row.host.instance} {row.host.state} {own}".casefold()


def matches(row: FleetRow, search: str) -> bool:
    """Whether a row has this text in its host, network function, class or events."""
    return search.casefold() in _searched(row)


def name_of(row: FleetRow, key: str) -> str:
    if key == "host":
        return row.host.name
    nf = row.nf
    return "" if nf is None else nf.name if key == "nf" else nf.group and class_name(nf.group)


def reading_of(row: FleetRow, key: str) -> Reading:
    if key == "age":
        return row.host.age_s
    return Missing(Reason.UNDEFINED) if row.nf is None else row.nf.readings[key]
