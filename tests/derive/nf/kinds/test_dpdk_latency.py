"""Latency of a DPDK application, from its sample to screens, exports and recordings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nftop.export.json.frame import frame_json
from nftop.model.frame import Frame, NfRow
from nftop.model.metrics.nf import LATENCY_METRICS
from nftop.model.missing import Missing, Reason
from nftop.model.nf.components import NO_LATENCY
from nftop.model.sample import LATENCY_NOT_RECORDED, DpdkLatency
from nftop.render.nfs.detail import explain_nf_lines, joined, nf_detail
from tests.derive.nf.kinds.test_dpdk_losses import at
from tests.derive.nf_scene import PID
from tests.derive.scene import START
from tests.export.openmetrics.test_page import read_page, where
from tests.recordings import taken
from tests.samples import S, fold
from tests.session.replays import all_of

LATENCY = DpdkLatency(128, 40, 16833664, 26, read_at_ns=S // 2)
NAMES = [metric.id for metric in LATENCY_METRICS]


def frame(**changes: Any) -> Frame:
    return fold(START, at(1, **changes), at(2, **changes))[-1]


def readings(nf: NfRow) -> list[object]:
    return [nf.readings[name] for name in NAMES]


def test_its_four_numbers_have_their_age() -> None:
    (nf,) = frame(latency=LATENCY).nfs
    assert readings(nf) == [128.0, 40.0, 16833664.0, 26.0]
    assert nf.sampled_s == dict.fromkeys(NAMES, 1.5)


def test_ovs_has_that_of_its_dpdk_and_without_one_none() -> None:
    (nf,) = frame(ovs=True, pid=PID, latency=LATENCY).nfs
    assert (nf.kind, readings(nf)[0], nf.sampled_s[NAMES[0]]) == ("ovs", 128.0, 1.5)
    (alone,) = [nf for nf in frame(ovs=True, latency=LATENCY).nfs if nf.kind == "ovs"]
    assert readings(alone) == [NO_LATENCY] * 4


def test_without_a_number_it_has_a_reason_and_no_age() -> None:
    (old,) = frame().nfs
    assert readings(old) == [LATENCY_NOT_RECORDED] * 4
    gone = Missing(Reason.STALE, "has not answered")
    (nf,) = frame(latency=LATENCY, problem=gone).nfs
    assert readings(nf) == [gone] * 4
    assert old.sampled_s == nf.sampled_s == {}


def test_screens_and_exports_have_numbers_with_their_age() -> None:
    shown = frame(latency=LATENCY)
    (nf,) = shown.nfs
    (row,) = json.loads(frame_json(shown))["nfs"]
    assert [row[name] for name in NAMES] == [128.0, 40.0, 16833664.0, 26.0]
    assert row["sampled_s"][NAMES[0]] == 1.5
    written = read_page(shown)
    families = [written[f"nftop_nf_{name.removesuffix('_ns')}_seconds"] for name in NAMES]
    assert [where(item)[0][1] for item in families] == pytest.approx(
        [128e-9, 40e-9, 16833664e-9, 26e-9]
    )
    for lines in (
        explain_nf_lines(shown, nf, 100),
        joined(nf_detail(shown, nf, 100), spaced=False),
    ):
        words = " ".join(line.text for line in lines).replace(",", "").split()
        assert {"128", "26.0", "40.0", "16.8", "ms", "2"} <= set(words)


def test_a_recording_has_the_very_numbers_and_ages() -> None:
    live = taken(23, cpus=16, sources=("dpdk", "kernel", "processes", "topology"))
    seen = [_timed(item) for item in live.frames]
    assert [_timed(item) for item in all_of(live.data)] == seen
    assert len({rows[0][1] for rows in seen}) == 10
    assert all(isinstance(ns, float) for rows in seen for ns in rows[0][0])


def _timed(item: Frame) -> list[tuple[list[object], float]]:
    return [(readings(nf), nf.sampled_s[NAMES[0]]) for nf in item.nfs if nf.sampled_s]
