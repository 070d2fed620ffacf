"""What perf is to count for top-down."""

from __future__ import annotations

import re
from functools import cache

import pytest

from nftop.derive.topdown.tma import tma_of_counts
from nftop.model.missing import Missing, Reason
from nftop.sources.counts.read import read_counts
from nftop.uarch.explain import PlannedGroup, groups_to_count, perf_group, takes_all_counters
from tests.uarch.vectors import UARCHES, loaded

CASES = [
    (uarch, smt) for uarch in UARCHES for smt in (True, False) if (uarch, smt) != ("SRF", True)
]


@cache
def grouped(uarch: str, *, smt: bool) -> tuple[tuple[PlannedGroup, ...], tuple[PlannedGroup, ...]]:
    """The groups of a table, computed once."""
    return groups_to_count(loaded(uarch), smt=smt)


@pytest.mark.parametrize(("uarch", "smt"), CASES)
def test_the_perf_command_counts_every_event_of_a_node(uarch: str, smt: bool) -> None:
    table = loaded(uarch)
    main, deep = grouped(uarch, smt=smt)
    rows = []
    for turn, group in enumerate((*main, *deep)):
        names = re.findall(r"name=([\w.]+)/|(?:^|[{,])([a-z-]+)(?=[,}])", perf_group(table, group))
        assert len(names) == len(group)
        rows += [f"1000;;{named or plain};{turn}00;50.00;;" for named, plain in names]
    counts = read_counts("\n".join(rows), table)
    assert counts.unknown == ()
    result = tma_of_counts(table, counts.events, smt=smt)
    for name, ratio in result.items():
        assert not isinstance(ratio, Missing) or ratio.reason is not Reason.SOURCE, name
    shallow = {event: 1.0 for group in main for event in group}
    assert table.topdown
    for name, ratio in tma_of_counts(table, shallow, smt=smt).items():
        lacks = isinstance(ratio, Missing) and ratio.reason is Reason.SOURCE
        assert not lacks or table.topdown.level[name] == 3


@pytest.mark.parametrize(("uarch", "smt"), CASES)
def test_a_group_fits_the_counters_and_has_a_clock(uarch: str, smt: bool) -> None:
    table = loaded(uarch)
    assert table.counters
    fixed = frozenset().union(*table.counters.fixed)
    room = table.counters.general_smt_on if smt else table.counters.general_smt_off
    main, deep = grouped(uarch, smt=smt)
    assert main
    for group in (*main, *deep):
        assert "cycles" in group and len(set(group)) == len(group)
        general = [e for e in group if e not in fixed and not e.startswith("perf_metrics")]
        assert len(general) <= room
        assert ("topdown_slots" in group) == (group[0] == "topdown_slots")


def test_where_the_watchdog_is_in_the_way() -> None:
    for uarch, smt, wanted in (("SKX", True, True), ("SKX", False, False), ("SPR", True, False)):
        main, deep = grouped(uarch, smt=smt)
        assert takes_all_counters(loaded(uarch), (*main, *deep), smt=smt) is wanted


def test_without_top_down_nothing_is_counted() -> None:
    assert groups_to_count(loaded("generic"), smt=True) == ((), ())
