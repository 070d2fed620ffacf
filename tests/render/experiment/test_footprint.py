"""The table of a footprint, and what its plan says."""

from __future__ import annotations

import math

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.control.resctrl.footprint import FootprintRequest
from nftop.model.footprint import UNREQUESTED, CacheUse, Footprint, FootprintRow, FootprintSubject
from nftop.model.ids import L3Domain
from nftop.model.missing import Missing, Reason
from nftop.model.struct import replace
from nftop.render.experiment.footprint import footprint_plan_text, footprint_text, row_text
from tests.control.resctrl.test_footprint import planned

MIB, L3 = 1 << 20, L3Domain(0)
VPP = FootprintSubject("1", "vpp", L3, "vpp", "class", (), 0)
USE = CacheUse(0x1E0, 0xE0, 11 * MIB, 4.6 * MIB, 4.7 * MIB, 1.69e9, 1.7e9, 38.2e6, 31, still=True)
OWN = replace(
    USE,
    bits=0x7FFE0,
    shared=0,
    capacity_bytes=38.5 * MIB,
    typical_bytes=17 * MIB,
    most_bytes=17.6 * MIB,
    typical_bytes_per_s=2e7,
)
ROWS = (
    FootprintRow(VPP, USE, OWN),
    FootprintRow(
        replace(VPP, name="a-very-long-name/testpmd", own=Missing(Reason.UNDEFINED, "shared")),
        replace(USE, typical_bytes_per_s=math.nan, still=False),
        None,
    ),
    FootprintRow(replace(VPP, name="ovs", counter=Missing(Reason.TAKEN, "no RMID")), None, None),
)
TABLE = Footprint(ROWS, {L3: 2.75 * MIB}, 1)


@pytest.mark.parametrize("width", [80, 120])
def test_the_table(width: int, snapshot: SnapshotAssertion) -> None:
    lines = footprint_text(TABLE, width)
    assert lines == snapshot
    assert max(map(len, lines)) <= width


def test_without_own_ways_it_has_no_columns_for_them(snapshot: SnapshotAssertion) -> None:
    row = FootprintRow(replace(VPP, own=UNREQUESTED), OWN, None)
    lines = footprint_text(Footprint((row,), {L3: 2.75 * MIB}), 80)
    assert "own" not in lines[0]
    assert lines == snapshot


def test_ways_that_are_needed() -> None:
    assert TABLE.ways(ROWS[0]) == 7
    assert TABLE.ways(ROWS[2]) is None
    assert Footprint(ROWS, {L3: 2.75 * MIB}, min_bits=9).ways(ROWS[0]) == 9
    assert "needs 7 ways" in row_text(TABLE, ROWS[0])
    assert "needs >=2 ways" in row_text(TABLE, ROWS[1])


def test_the_plan(snapshot: SnapshotAssertion) -> None:
    assert footprint_plan_text(planned(FootprintRequest(own=True)), {"L3": 20}) == snapshot
    assert footprint_plan_text(planned(FootprintRequest(watch=("vpp",))), {"L3": 20}) == snapshot


def test_a_new_monitor_counts_at_least_so_much() -> None:
    alone = replace(ROWS[0], subject=replace(VPP, counter="new monitor"))
    assert not ROWS[0].at_least
    assert alone.at_least
    assert "needs >=7 ways" in row_text(TABLE, alone)
