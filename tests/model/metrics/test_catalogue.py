from __future__ import annotations

from nftop.model.metrics.catalogue import EXPLAINED, METRICS, cpu_metric


def test_ids_and_labels_are_unique_within_a_scope() -> None:
    for scope in ("cpu", "nf", "core"):
        rows = [metric for metric in EXPLAINED if metric.scope == scope]
        assert len({metric.id for metric in rows}) == len(rows)
        assert len({metric.label for metric in rows}) == len(rows)
        priorities = [metric.priority for metric in rows if metric.priority is not None]
        assert len(set(priorities)) == len(priorities)


def test_every_metric_reports_what_it_means_and_where_it_comes_from() -> None:
    for metric in EXPLAINED:
        assert metric.meaning.endswith(".") and metric.formula and metric.origin
        assert len(metric.label) <= 8


def test_lookup_is_by_scope() -> None:
    assert cpu_metric("cpp").scope == "cpu"


def test_what_is_a_bound_or_of_a_clock_is_counted_and_reports_it() -> None:
    for metric in METRICS:
        assert metric.coverage or not (metric.bounded or metric.per_clock)
        assert ("upper bound" in metric.meaning) is metric.bounded


def test_coverages_are_metrics_of_a_cpu_that_rest_on_none() -> None:
    named = {metric.coverage for metric in METRICS} - {None}
    assert named == {
        "coverage",
        "llc_misses_coverage",
        "memory_loads_coverage",
        "tma.coverage",
        "tma.level_2_coverage",
    }
    for name in named:
        assert name is not None and cpu_metric(name).coverage is None
