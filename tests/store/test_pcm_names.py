"""A sensor server's columns in recordings: read by the names that these have, or had by then."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from nftop.model.column import Floats
from nftop.model.frame import Frame
from nftop.model.missing import Reason
from nftop.model.pcm import (
    FIRST_CPU_FIELDS,
    FIRST_LINK_FIELDS,
    FIRST_PACKAGE_FIELDS,
    FIRST_PCIE_EVENTS,
    PcmTable,
)
from nftop.store.format.codec import Codec
from nftop.store.format.column_bytes import ColumnReader, ColumnWriter
from nftop.store.format.schema import Fields, described
from tests.derive.pcm.test_fold import frames, growing, nudged, of_package, reason, table
from tests.recordings import same

NAMES = ("cpu_fields", "package_fields", "link_fields", "events")
TABLES = ("of_cpus", "of_packages", "of_links", "pcie")


def recorded(tables: Sequence[PcmTable], fields: Fields) -> list[PcmTable]:
    """These tables, written and read as a recording does whose header has these fields."""
    codec, shape = Codec({**described(), "PcmTable": fields}), ("record", "PcmTable")
    writer = ColumnWriter([])
    codec.write(shape, list(tables), writer)
    raw = [b"\xc0" if item is None else msgspec.msgpack.encode(item) for item in writer.out]
    result = codec.read(
        shape, len(tables), ColumnReader([msgspec.msgpack.decode(x) for x in raw], [])
    )
    assert all(isinstance(item, PcmTable) for item in result)
    return result


def in_another_order(one: PcmTable) -> PcmTable:
    """As an nftop would have taken it whose lists are the other way round, and one name longer."""

    def turned(values: Floats) -> Floats:
        return np.column_stack([np.full(len(values), 4e9), values[:, ::-1]])

    changes: dict[str, Any] = {name: turned(getattr(one, name)) for name in TABLES}
    changes |= {name: ("novelty", *reversed(getattr(one, name))) for name in NAMES}
    return replace(one, **changes)


def shown(frame: Frame) -> object:
    columns = {
        name: [column[row] for row in range(16)] for name, column in frame.cpus.columns.items()
    }
    return columns, [(row.readings, row.links) for row in frame.packages]


def documents() -> list[PcmTable]:
    return growing(1, 1e6, 8)


def test_another_order_of_columns_gives_the_same_frames() -> None:
    here = documents()
    present = recorded([in_another_order(item) for item in here], described()["PcmTable"])
    assert not same(present[0].of_packages, here[0].of_packages)
    assert shown(frames(present)[-1]) == shown(frames(here)[-1])
    assert (
        "novelty" in present[0].package_fields and np.isnan(present[0].of_cpu("unreported")).all()
    )


def test_recordings_without_names_have_the_first_ones() -> None:
    here = documents()
    fields = tuple(item for item in described()["PcmTable"] if item[0] not in NAMES)
    present = recorded(here, fields)
    assert same(present, here)
    assert shown(frames(present)[-1]) == shown(frames(here)[-1])
    # One that an older nftop wrote is of that nftop's columns: these lists never change.
    firsts = (FIRST_CPU_FIELDS, FIRST_PACKAGE_FIELDS, FIRST_LINK_FIELDS, FIRST_PCIE_EVENTS)
    assert [getattr(present[0], name) for name in NAMES] == list(firsts)
    assert [zlib.crc32(" ".join(first).encode()) for first in firsts] == [
        3114832250,
        1191987865,
        4050403540,
        1589339838,
    ]


def test_tables_of_other_columns_are_not_compared() -> None:
    one = table()
    assert one.same_layout(nudged(one, 1)) and not one.same_layout(in_another_order(one))
    mixed = frames([one, in_another_order(nudged(one, 1)), nudged(one, 2)])
    assert all(shown(item) for item in mixed)


def test_a_table_with_fewer_columns_than_names_lacks_the_last() -> None:
    one = table()
    changes: dict[str, Any] = {name: getattr(one, name)[:, :1] for name in TABLES}
    short = replace(one, **changes)
    (frame,) = frames([short])
    assert isinstance(of_package(frame, "memory.read_bytes_per_s"), float)
    assert reason(of_package(frame, "power_w")) is Reason.SOURCE
    assert reason(of_package(frame, "upi.outgoing_bytes_per_s")) is Reason.SOURCE
    assert reason(frame.cpus.columns["thermal_headroom_c"][0]) is Reason.SOURCE
