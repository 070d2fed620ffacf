"""What only a sensor server tells, in JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from nftop.derive.fold import FoldState
from nftop.export.json.frame import frame_json
from nftop.sources.pcm.document import parse_json, table_of
from nftop.sources.pcm.source import topology_of
from tests.peers.pcm_server import captures
from tests.samples import HOST, S, fold, sample


def test_accelerators_are_rates_by_their_own_names() -> None:
    one = table_of(parse_json(captures()["icx_2026-06_msr_persecond1.json"]), since_start=False)
    reports = replace(
        one,
        accelerators=(("dsa 0", (("in.bytes", 2e6), ("out", -1.0), ("odd", float("nan")))),),
    )
    (frame,) = fold(FoldState(HOST, topology_of(reports)), sample(S, pcm=reports))
    (row,) = json.loads(frame_json(frame))["accelerators"]
    assert row["name"] == "dsa 0"
    assert row["per_s"]["in_bytes"] == 2e6 / 1.000026
    assert row["per_s"]["out"] is row["per_s"]["odd"] is None
    assert row["missing"].keys() == {"per_s.out", "per_s.odd"}


def test_accelerators_of_totals_need_two_documents() -> None:
    one = table_of(parse_json(captures()["icx_2026-06_msr_root.json"]), since_start=True)
    start = replace(one, accelerators=(("dsa 0", (("in", 1e9),)),))
    later = replace(
        start,
        interval_us=one.interval_us + 2_000_000,
        of_cpus=np.nextafter(one.of_cpus, np.inf),
        accelerators=(("dsa 0", (("in", 1e9 + 8.0),)),),
    )
    samples = (sample(S, pcm=start), sample(3 * S, pcm=later))
    first, second = fold(FoldState(HOST, topology_of(one)), *samples)
    rows = [json.loads(frame_json(item))["accelerators"][0] for item in (first, second)]
    assert rows[0]["missing"] == {"per_s.in": "warming"}
    assert rows[1]["per_s"] == {"in": 4.0}


def test_a_package_names_the_source_of_its_numbers() -> None:
    one = table_of(parse_json(captures()["skx_2026-06_persecond1.json"]), since_start=False)
    (frame,) = fold(FoldState(HOST, topology_of(one)), sample(S, pcm=one))
    package = json.loads(frame_json(frame))["packages"][0]
    assert package["origins"]["power_w"] == package["origins"]["memory.read_bytes_per_s"] == "pcm"
    assert package["power_w"] > 100 and package["missing"]["pcie.ddio_hit_ratio"] == "source"
    assert package["upi"]["outgoing_bytes_per_s"] > package["upi"]["received_bytes_per_s"] > 0
    assert package["missing"]["upi.sent_bytes_per_s"] == "source"
