"""Metrics of devices, power and latency: in the demo, every output, a replay and `explain`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import pytest

from nftop.derive.fold import FoldState
from nftop.export.json.frame import frame_json
from nftop.export.openmetrics import writer
from nftop.model.frame import Frame
from nftop.model.metrics.device import DEVICE_METRICS
from nftop.model.metrics.metric import Metric
from nftop.model.metrics.nf import LATENCY_METRICS
from nftop.model.metrics.power import COUNTED_POWER_CPU_METRICS, COUNTED_POWER_PACKAGE_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.pcie import PcieTable
from nftop.model.topology import Host
from nftop.model.uncore import NO_COUNTS
from nftop.render.pages.explain import explain_metric
from tests.derive.package.test_devices import PORT
from tests.export.openmetrics.test_page import read_page
from tests.frames import topology
from tests.recordings import taken
from tests.samples import S, app, fold, port, sample, table
from tests.session.replays import all_of

METRICS = (
    *DEVICE_METRICS, *COUNTED_POWER_PACKAGE_METRICS, *COUNTED_POWER_CPU_METRICS, *LATENCY_METRICS,
)  # fmt: skip
FAMILIES = {
    "device": writer.OF_DEVICES, "package": writer.OF_PACKAGES, "cpu": writer.OF_CPUS,
    "nf": writer.OF_NFS,
}  # fmt: skip
READINGS: Mapping[str, Callable[[Frame, str], list[Reading]]] = {
    "device": lambda frame, name: [row.readings[name] for row in frame.devices],
    "package": lambda frame, name: [row.readings[name] for row in frame.packages],
    "cpu": lambda frame, name: [frame.cpus.columns[name][row] for row in range(len(frame.cpus))],
    "nf": lambda frame, name: [row.readings[name] for row in frame.nfs],
}
# A metric without a number on every CPU there is, by its reason.
NEVER = {"dma_miss_per_s": Reason.HARDWARE}


@lru_cache(maxsize=2)
def session(scenario: str) -> tuple[Frame, Frame]:
    """The last frame of a host of the demo, and of its recording."""
    whole = taken(8, cpus=44, scenario=scenario)
    return whole.frames[-1], all_of(whole.data)[-1]


def by_id(metric: Metric) -> str:
    return f"{metric.scope}-{metric.id}"


@pytest.mark.parametrize("metric", METRICS, ids=by_id)
def test_a_metric_is_the_same_everywhere(metric: Metric) -> None:
    # The first is a Cascade Lake, which has stacks; the other has a testpmd.
    live, replayed = session("default" if metric.scope == "nf" else "sst-bf")
    values = READINGS[metric.scope](live, metric.id)
    assert READINGS[metric.scope](replayed, metric.id) == values
    numbers = [item for item in values if not isinstance(item, Missing)]
    absent = [item for item in values if isinstance(item, Missing)]
    assert bool(numbers) == (metric.id not in NEVER), "the demo has it"
    assert all(item.message for item in absent)

    rows: list[dict[str, Any]] = json.loads(frame_json(replayed))[f"{metric.scope}s"]
    assert [row[metric.id] for row in rows if row[metric.id] is not None] == numbers
    reasons = [row["missing"][metric.id] for row in rows if row[metric.id] is None]
    assert reasons == [item.reason.key for item in absent]

    family = FAMILIES[metric.scope][metric.id]
    page = read_page(replayed)
    exported = page[family.sample].samples.values() if family.sample in page else ()
    assert sorted(exported) == pytest.approx(sorted(item * family.factor for item in numbers))

    page_of_x = explain_metric(metric.id)
    for text in (metric.meaning, metric.formula, metric.origin):
        assert " ".join(text.split()) in " ".join(page_of_x.split())


@pytest.mark.parametrize("metric", METRICS, ids=by_id)
def test_without_its_source_a_metric_has_a_reason(metric: Metric) -> None:
    state = FoldState(Host("edge-07", "a test's", "SKX"), topology(8, packages=2))
    # A root port that was counted, and an application without its latency.
    frames = fold(
        state,
        sample(S, iio=PcieTable((PORT,), NO_COUNTS), dpdk=table(app(S, port()))),
        sample(2 * S, iio=Missing(Reason.STALE, "late"), dpdk=table(app(S, port()))),
    )
    values = READINGS[metric.scope](frames[-1], metric.id)
    assert values
    for value in values:
        assert isinstance(value, Missing) and value.message
