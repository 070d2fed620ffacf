"""The text of a comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from syrupy.assertion import SnapshotAssertion

from nftop.derive.compare.hosts import HostPair, LeftOut, compare_hosts
from nftop.derive.compare.intervals import Entity, Interval
from nftop.derive.compare.intervals_report import Comparison, EntityReport, comparison
from nftop.model.metrics.group import GROUP_METRICS
from nftop.render.base.text import cells
from nftop.render.pages.compare import comparison_text, hosts_text, interval_line
from tests.frames import HOSTILE


def of(item: Entity, **values: float) -> Interval:
    result = Interval()
    for _ in range(30):
        result._series(item).add(values)
    return result


def test_rows_are_aligned_and_units_reported(snapshot: SnapshotAssertion) -> None:
    item = Entity("class", "vpp", "L3 0")
    a = of(item, capacity_bytes=4 << 20, occupancy_bytes=1 << 20, mbm_total_bytes_per_s=0.0)
    b = of(item, capacity_bytes=8 << 20, occupancy_bytes=3 << 20, mbm_total_bytes_per_s=2e9)
    lines = comparison_text(comparison(a, b), ["a note"]).splitlines()
    assert lines[:3] == ["note: a note", "", "class vpp (L3 0)"]
    head, capacity, used, traffic = lines[3:7]
    for line in (capacity, used, traffic):
        assert len(line[: head.index("change") + 6].rstrip()) == head.index("change") + 6
    assert capacity.split() == ["CAP", "MiB", "4.0", "0", "30", "8.0", "0", "30", "+100.0%", "more"]
    assert used.split()[-2:] == ["+200.0%", "more"]
    # From nothing there is no share.
    assert traffic.split() == ["MBM", "GB/s", "0", "0", "30", "2.00", "0", "30", "-", "more"]
    assert lines[7] == snapshot
    assert all(cells(line) <= 100 for line in lines)


def test_a_class_with_nothing_in_it_takes_a_line(snapshot: SnapshotAssertion) -> None:
    item = Entity("class", "vpp", "L3 0")
    values = {metric.id: 0.0 for metric in GROUP_METRICS} | {"capacity_bytes": 4e6}
    text = comparison_text(comparison(of(item, **values), of(item, **values)), [])
    assert text == snapshot
    more = values | {"capacity_bytes": 8e6}
    text = comparison_text(comparison(of(item, **values), of(item, **more)), [])
    assert "CAP" in text


def test_names_and_reasons_that_nobody_chose(snapshot: SnapshotAssertion) -> None:
    for name in HOSTILE:
        item = Entity("nf", name, name)
        component = EntityReport(item, (), "inconclusive", name, (name,))
        shown = comparison_text(Comparison((component,), (item,), (item,)), [name])
        shown += interval_line("A", name, name, Interval(), simulated=True)
        assert not set(shown) & set("\x1b\u202e\x07\t\x9b\u200b\u05e9")
    assert comparison_text(Comparison((), (), ()), []) == snapshot


def test_hosts_and_entities_that_nobody_named() -> None:
    for name in HOSTILE:
        item = Entity("class", name, name)
        a, b = (of(item, occupancy_bytes=value) for value in (1e6, 2e6))
        pairs = [HostPair(f"{name} {at}", comparison(a, b)) for at in range(6)]
        left_out = [LeftOut(name, name, "overlap")]
        text = hosts_text(compare_hosts(pairs), left_out, {name: [name]}, [f"{name} 0"])
        assert not set(text) & set("\x1b\u202e\x07\t\x9b\u200b\u05e9")
        assert all(cells(line) <= 100 for line in text.splitlines())
        (row,) = [line for line in text.splitlines() if ".." in line]
        assert row.split()[:3] == ["USED", "MiB", "6"] and row.split()[5] == "+100.0%"


def hosts_of(item: Entity, sides: Sequence[tuple[Mapping[str, float], Mapping[str, float]]]) -> str:
    """The text of hosts with these numbers before and after."""
    pairs = [
        HostPair(f"edge-{at:03}.example.net", comparison(of(item, **a), of(item, **b)))
        for at, (a, b) in enumerate(sides)
    ]
    return hosts_text(compare_hosts(pairs), [], {}, [])


def test_the_heading_marks_simulated_hosts() -> None:
    item = Entity("class", "vpp", "L3 0")
    values = ({"occupancy_bytes": 1e6}, {"occupancy_bytes": 2e6})
    a, b = (of(item, **sides) for sides in values)
    one = comparison(a, b)
    pairs = [HostPair(f"edge-{at}", one) for at in range(3)]

    def head(count: int, simulated: Sequence[str]) -> str:
        text = hosts_text(compare_hosts(pairs[:count]), [], {}, simulated)
        return text.splitlines()[0]

    assert head(3, []) == "3 hosts  edge-0, edge-1, edge-2"
    assert head(3, ["edge-0", "edge-1", "edge-2"]) == "3 hosts  SIMULATED  edge-0, edge-1, edge-2"
    mixed = "3 hosts  2 SIMULATED  edge-0 (SIMULATED), edge-1, edge-2 (SIMULATED)"
    assert head(3, ["edge-0", "edge-2"]) == mixed
    assert head(1, ["edge-0"]) == "1 host  SIMULATED  edge-0"


def test_a_class_has_nothing_in_it_only_if_that_is_measured_on_every_host() -> None:
    item, nothing = Entity("class", "vpp", "L3 0"), "nothing in it, before and after"
    zero = {metric.id: 0.0 for metric in GROUP_METRICS} | {"capacity_bytes": 4e6}
    some = zero | {"mbm_total_bytes_per_s": 2e9}
    absent = dict.fromkeys(zero, math.nan)
    assert nothing in hosts_of(item, [(zero, zero)] * 7)
    # No number is no zero, and a median of 0 over hosts is no zero of each.
    assert nothing not in hosts_of(item, [(absent, absent)] * 7)
    text = hosts_of(item, [(zero, zero)] * 5 + [(some, some)] * 2)
    assert nothing not in text and "  MBM " in text
    assert "nothing in it" not in comparison_text(
        comparison(of(item, **absent), of(item, **absent)), []
    )


def test_a_share_that_was_zero_is_beyond_every_percentage() -> None:
    item = Entity("nf", "vpp", "vpp")
    sides = [({"busy_ratio": at / 10}, {"busy_ratio": at / 10 + 0.03}) for at in range(7)]
    (row,) = [row for row in hosts_of(item, sides).splitlines() if ".." in row]
    assert row.endswith("+13.7%        +6.0% .. >x999  more")


def test_a_list_of_many_hosts_is_counted_and_keeps_its_reason(snapshot: SnapshotAssertion) -> None:
    item = Entity("class", "vpp", "L3 0")
    used, absent = {"occupancy_bytes": 1e6}, {"occupancy_bytes": math.nan}
    text = " ".join(hosts_of(item, [(used, used)] * 7 + [(used, absent)] * 200).split())
    assert text == snapshot
    # Reasons that all differ are not cut either.
    left_out = [LeftOut(f"edge-{at:03}.example.net", f"reason {at}", "overlap") for at in range(99)]
    lines = hosts_text(compare_hosts([]), left_out, {}, [])
    assert "edge-098.example.net (reason 98)" in " ".join(lines.split())


def test_a_word_of_doubt_has_its_reason_once(snapshot: SnapshotAssertion) -> None:
    item = Entity("nf", "vpp", "vpp")
    random = np.random.default_rng(1)
    sides = []
    for mpps in (1e6, 2e6):
        result = Interval()
        for _ in range(30):
            noise = 1 + 0.001 * random.standard_normal()
            result._series(item).add(
                {
                    "packets_per_s": mpps * noise,
                    "offered_packets_per_s": mpps * noise,
                    "cpp": 1e9 / mpps * noise,
                    "busy_cpp": np.nan,
                    "ipc": 2.0 * noise,
                    "saturated": 0.0,
                    "clock": 0.0,
                }
            )
        sides.append(result)
    text = comparison_text(comparison(sides[0], sides[1]), [])
    assert text == snapshot
