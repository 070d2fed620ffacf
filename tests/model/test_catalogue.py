from __future__ import annotations

from nftop.model.catalogue import METRICS, cpu_metric, nf_metric


def test_ids_and_labels_are_unique_within_a_scope() -> None:
    for scope in ("cpu", "nf"):
        rows = [metric for metric in METRICS if metric.scope == scope]
        assert len({metric.id for metric in rows}) == len(rows)
        assert len({metric.label for metric in rows}) == len(rows)
        priorities = [metric.priority for metric in rows if metric.priority is not None]
        assert len(set(priorities)) == len(priorities)


def test_every_metric_says_what_it_means_and_where_it_comes_from() -> None:
    for metric in METRICS:
        assert metric.meaning.endswith(".") and metric.formula and metric.origin
        assert len(metric.label) <= 8


def test_look_up_is_by_scope() -> None:
    assert cpu_metric("cpp").scope == "cpu"
    assert nf_metric("cpp").scope == "nf"
