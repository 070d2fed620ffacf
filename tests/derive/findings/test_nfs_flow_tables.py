"""Findings about flow tables: a hit ratio that falls, and upcalls that are lost."""

from __future__ import annotations

import pytest

from nftop.derive.findings.registry import rule_called
from nftop.model.frame import Frame
from nftop.model.metrics.flow_tables import HITS_FELL_BY
from nftop.model.missing import Missing, Reason
from nftop.model.nf.ovs import OvsPmd
from nftop.model.sample import Sample
from tests.derive.nf_scene import ovs, working
from tests.derive.scene import START, reason
from tests.samples import fold

PPS = 1_000_000


def at(second: int, cached: float, lost: int = 0) -> OvsPmd:
    packets = second * PPS
    emc = int(cached * PPS)
    hits = {"phwol": 0, "simple": 0, "emc": emc, "smc": 0, "megaflow": packets - emc - 10 * second}
    return working(
        1,
        second,
        PPS,
        0.7,
        hits=hits,
        upcalls=10 * second,
        lost_upcalls=lost,
        tx_batches=packets // 8,
    )


def ticks(*ratios: float, lost_from: int = 1 << 30) -> list[Frame]:
    """One tick a second with this share of EMC hits; from then on 5 packets are lost a second."""
    samples: list[Sample] = []
    emc = 0.0
    for second, ratio in enumerate(ratios, start=1):
        emc += ratio
        samples.append(ovs(second, at(second, emc, 5 * max(second - lost_from, 0))))
    return fold(START, *samples)


def rules(frame: Frame) -> set[str]:
    return {item.rule for item in frame.findings}


def test_rates_of_flow_tables_of_the_switch_and_of_every_thread() -> None:
    (nf,) = ticks(0.9, 0.9, 0.9)[-1].nfs
    assert nf.readings["ovs.cache_hit_ratio"] == pytest.approx(0.9)
    assert nf.readings["ovs.emc_hits_per_s"] == pytest.approx(0.9 * PPS)
    assert nf.readings["ovs.megaflow_hits_per_s"] == pytest.approx(0.1 * PPS - 10)
    assert nf.readings["ovs.upcalls_per_s"] == pytest.approx(10)
    assert nf.readings["ovs.lost_upcalls_per_s"] == 0
    assert nf.readings["ovs.packets_per_batch"] == pytest.approx(8)
    assert not isinstance(nf.flow_tables, Missing) and not isinstance(nf.drops, Missing)
    assert [row.cpu for row in nf.flow_tables] == [1]
    assert nf.flow_tables[0].emc_hits_per_s == nf.readings["ovs.emc_hits_per_s"]
    assert [(drop.reason, drop.packets_per_s) for drop in nf.drops] == [("lost upcalls", 0)]


def test_a_switch_without_such_lines_gives_reasons() -> None:
    samples = [ovs(t, working(1, t, PPS, 0.7)) for t in (1, 2)]
    (nf,) = fold(START, *samples)[-1].nfs
    for name in ("cache_hit_ratio", "emc_hits_per_s", "packets_per_batch"):
        assert reason(nf.readings[f"ovs.{name}"]) is Reason.SOURCE


def test_a_hit_ratio_below_that_of_the_last_minutes_is_a_finding() -> None:
    frames = ticks(*[0.95] * 20, *[0.95 - 1.5 * HITS_FELL_BY] * 10)
    assert not any("flow-cache-hits" in rules(frame) for frame in frames[:22])
    assert "flow-cache-hits" in rules(frames[-1])


def test_a_small_fall_is_none_and_a_usual_low_ratio_is_none() -> None:
    frames = ticks(*[0.95] * 20, *[0.95 - 0.5 * HITS_FELL_BY] * 10)
    assert not any("flow-cache-hits" in rules(frame) for frame in frames)
    assert not any("flow-cache-hits" in rules(frame) for frame in ticks(*[0.1] * 30))


def test_lost_upcalls_are_drops_and_a_finding() -> None:
    frame = ticks(*[0.95] * 20, lost_from=5)[-1]
    (nf,) = frame.nfs
    assert nf.readings["ovs.lost_upcalls_per_s"] == pytest.approx(5)
    assert not isinstance(nf.drops, Missing)
    assert [drop.packets_per_s for drop in nf.drops] == [pytest.approx(5)]
    assert "lost-upcalls" in rules(frame)
    assert rule_called("lost-upcalls") is not None
