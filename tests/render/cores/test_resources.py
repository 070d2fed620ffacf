"""Map of cache ways and sockets: estimates are marked, a sum has all of its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.cache.ways import shares_of
from nftop.model.frame import Frame, PackageRow
from nftop.model.ids import L3Domain, Package
from nftop.model.incident import Severity
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.render.base.line import Tone
from nftop.render.cores.resources import (
    compact_lines,
    map_width,
    resource_lines,
    shared_text,
    socket_lines,
)
from tests.frames import frame
from tests.rdt import frame_of, group, in_cache, table
from tests.render.incidents.scenes import incident
from tests.sim.hosts import Frozen, S

READ, WRITE = "memory.read_bytes_per_s", "memory.write_bytes_per_s"


def sockets(values: Mapping[str, Reading], estimates: frozenset[str] = frozenset()) -> list[str]:
    readings: dict[str, Reading] = {item.id: Missing(Reason.SOURCE) for item in PACKAGE_METRICS}
    row = PackageRow(Package(0), {**readings, **values}, estimates)
    shown: Frame = replace(frame(8), packages=(row,))
    lines = socket_lines(shown, lambda *_: np.zeros(12, np.float32))
    return [item.text for item in lines]


def test_estimates_are_marked_after_the_digits() -> None:
    values = {READ: 40e9, WRITE: 10e9, "pcie.read_bytes_per_s": 11.6e9}
    exact = sockets(values)
    assert not any("~" in text for text in exact) and " 50.0 " in exact[1]
    shown = sockets(values, frozenset({WRITE}))
    assert " 50.0~" in shown[1] and "~" not in shown[2]
    assert [len(text) for text in shown] == [len(text) for text in exact]


def test_a_graph_is_of_the_same_sum_as_its_number() -> None:
    """Writes alone rise: a graph of the reads would be flat."""
    readings: dict[str, Reading] = {item.id: Missing(Reason.SOURCE) for item in PACKAGE_METRICS}
    values = {READ: 40e9, WRITE: 10e9}
    shown: Frame = replace(frame(8), packages=(PackageRow(Package(0), {**readings, **values}),))

    def past(metric: str, *_: object) -> np.ndarray:
        return np.linspace(0.0, 10e9, 12, dtype=np.float32) * (metric == WRITE)

    def flat(*_: object) -> np.ndarray:
        return np.zeros(12, np.float32)

    assert socket_lines(shown, past)[1].text != socket_lines(shown, flat)[1].text


def test_memory_without_its_writes_is_no_sum() -> None:
    shown = sockets({READ: 40e9, WRITE: Missing(Reason.TAKEN), "pcie.read_bytes_per_s": 1e9})
    assert Reason.TAKEN.mark in shown[1] and "40" not in shown[1]


def classes(**masks: int) -> Frame:
    """Classes with a CPU each and these ways of the first cache, after the root's."""
    rows = [
        group(name.replace("root", ""), clos, (clos,), in_cache(0, bits))
        for clos, (name, bits) in enumerate(masks.items())
    ]
    return frame_of(replace(table(), groups=tuple(rows)))


def test_every_way_counts_once_with_all_classes_that_may_fill_it(
    snapshot: SnapshotAssertion,
) -> None:
    shown = classes(root=0x800, vpp=0b0011, ovs=0b0111, tenant=0b1110)
    shares = shares_of(shown.groups, shown.domains[0])
    assert shared_text(shown.groups, shares) == snapshot
    alone = classes(root=0x800, vpp=0b0011)
    assert shared_text(alone.groups, shares_of(alone.groups, alone.domains[0])) == ""


def test_cells_of_ways_are_wider_as_long_as_no_cache_is_left_out() -> None:
    shown = classes(root=0x7FF, vpp=0x0FF)
    shown = replace(shown, domains=tuple(replace(item, ways=20) for item in shown.domains))
    assert len(shown.domains) == 2

    def heads(width: int) -> list[str]:
        """Header of each map, up to the ways' end."""
        lines = resource_lines(shown, width, 20, lambda *_: np.zeros(12, np.float32))
        return lines[0].text.split(" MiB used/cap")[:-1]

    narrow, wide = heads(map_width(shown.domains[0], 1)), heads(400)
    assert (len(narrow), len(wide)) == (1, 2)
    assert len(wide[0]) - len(narrow[0]) == 2 * 20


@pytest.mark.parametrize("processor", ["gold-6230n", ""])
def test_sockets_are_right_of_the_map_at_120_columns(processor: str) -> None:
    """Three cells a way of 11 ways, one a way of 20."""
    host = Frozen("noisy", cpus=80 if processor else 88, traffic=None, processor=processor)
    shown = [host.tick(0), host.tick(S)][-1]
    lines = resource_lines(shown, 120, 20, lambda *_: np.zeros(12, np.float32))
    assert [item.width for item in lines if item.width > 120] == []
    assert "MiB used/cap" in lines[0].text and "s1 GB/s peak" in lines[0].text
    assert lines[0].text.count("  9  8  7") == bool(processor)


def test_the_map_in_two_lines_shows_that_more_share_a_way() -> None:
    shown = classes(root=0x7FF, vpp=0x0FF, ovs=0x00F)
    owner, second = compact_lines(shown, shown.domains[0], 80)
    assert second.text.count("+") == 4 and "+" not in owner.text
    two = classes(root=0x7FF, vpp=0x0FF)
    assert "+" not in compact_lines(two, two.domains[0], 80)[1].text


def test_the_map_follows_masks_and_classes() -> None:
    def shares(**masks: int) -> bool:
        shown = classes(root=0x700, **masks)
        lines = resource_lines(shown, 120, 20, lambda *_: np.zeros(12, np.float32))
        return any(item.text.startswith(" \u2571 ") for item in lines)

    for _ in range(2):
        assert shares(vpp=0x0FF, ovs=0x00F)
        assert not shares(vpp=0x0F0, ovs=0x00F)
        assert shares(vpp=0x0FF, ovs=0x00F)
        assert not shares(vpp=0x0FF)


def test_one_class_that_shares_ways_with_several_is_the_subject() -> None:
    shown = classes(root=0x800, vpp=0b1110000, ovs=0b0001100, tenant=0b0111000)
    text = shared_text(shown.groups, shares_of(shown.groups, shown.domains[0]))
    assert text == "tenant shares 2 ways of vpp, 1 of ovs"


@pytest.mark.parametrize(
    ("changes", "tones"),
    [
        ({"severity": Severity.BAD}, {Tone.BAD}),
        ({"severity": Severity.WARN}, {Tone.WARN}),
        ({"severity": Severity.INFO}, {Tone.PLAIN}),
        ({"severity": Severity.BAD, "muted": True}, {Tone.PLAIN}),
    ],
)
def test_the_traffic_of_a_culprit_has_the_tone_of_its_incident(
    changes: dict[str, Any], tones: set[Tone]
) -> None:
    one = replace(incident(), group="vpp", l3=L3Domain(0), **changes)
    shown = replace(frame_of(table(), table(total=2_000_000_000)), incidents=(one,))
    for lines in (
        resource_lines(shown, 120, 30, lambda *_: np.zeros(12, np.float32)),
        compact_lines(shown, shown.domains[0], 100),
    ):
        for rate, wanted in (("4.00", tones), ("2.00", {Tone.PLAIN})):
            spans = [span for item in lines for span in item.spans if rate in span.text]
            assert {span.tone for span in spans} == wanted, rate


@pytest.mark.parametrize("width", [200, 220, 240, 260])
def test_maps_are_the_same_whichever_cache_is_the_worst_where_all_fit(width: int) -> None:
    host = Frozen("default", cpus=88, traffic=None)
    shown = [host.tick(0), host.tick(S)][-1]
    assert len([item for item in shown.domains if item.ways]) == 2
    every = [
        resource_lines(shown, width, 30, lambda *_: np.zeros(12, np.float32), worst)
        for worst in (None, L3Domain(0), L3Domain(1))
    ]
    assert every[0] == every[1] == every[2]
