"""What happened while a recording was made, as rows of tables."""

from __future__ import annotations

import json
from collections.abc import Iterable

from nftop.export.tables.fields import Columns, Field, fields_of, turned
from nftop.model.topology import Host
from nftop.store.format.records import BASELINE, Marker
from nftop.store.reading.scan import Loss

_RECORDED = (Field("time", "time"), Field("host", "text"), Field("simulated", "bool"))
EVENT = (*_RECORDED, *fields_of("text", "kind text detail"))
GAP = (
    *_RECORDED,
    *fields_of("int", "lost_ticks lost_bytes"),
    Field("why", "text"),
)


def table_of(marker: Marker) -> str:
    """Where a marker belongs: what was done to the host is apart from what was noted of it."""
    return "markers" if marker.kind in ("marker", "finding", BASELINE) else "actions"


def event_columns(host: Host, marker: Marker) -> Columns:
    """One row of `actions` or `markers`."""
    detail = json.dumps(marker.detail, default=str) if marker.detail else None
    row = (marker.wall_ns, host.name, host.simulated, marker.kind, marker.text, detail)
    return turned(EVENT, [row])


def gap_columns(host: Host, losses: Iterable[tuple[int, Loss]]) -> Columns:
    """Rows of `gaps`; `time` is that of the tick behind what is lost, at the end of that before."""
    own = (host.name, host.simulated)
    rows = [(wall_ns, *own, loss.ticks, loss.size, loss.why) for wall_ns, loss in losses]
    return turned(GAP, rows)
