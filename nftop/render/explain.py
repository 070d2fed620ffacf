"""What a metric means, in words: `nftop explain` and the `x` key."""

from __future__ import annotations

import textwrap

from nftop.model.catalogue import EXPLAINED
from nftop.model.catalogue_tma import TMA_METRICS
from nftop.model.metric import Metric
from nftop.render.columns import BAR

_SCOPES = {
    "cpu": "per CPU",
    "nf": "per network function",
    "package": "per package",
    "group": "per cache class and L3",
    "core": "of the core looked at",
}
_WIDTH = 78


def known_metrics() -> tuple[str, ...]:
    """Every metric id, once, in the catalogue's order."""
    return tuple(dict.fromkeys(metric.id for metric in EXPLAINED))


def metrics_called(name: str) -> tuple[str, ...]:
    """The ids of a metric as screen, tree or JSON call it, in any case; none if nothing is."""
    wanted = name.casefold()
    if wanted in ("tma", BAR.label.split()[0].casefold()):
        return tuple(metric.id for metric in TMA_METRICS)
    return tuple(
        dict.fromkeys(
            metric.id
            for metric in EXPLAINED
            if wanted in (metric.id, metric.id.removeprefix("tma."), metric.label.casefold())
        )
    )


def explain_metric(name: str) -> str:
    """All that the catalogue says about one id, in every scope that has it.

    Raises:
        KeyError: there is no such metric.
    """
    rows = [metric for metric in EXPLAINED if metric.id == name]
    if not rows:
        raise KeyError(name)
    return "\n\n".join(_explain(metric) for metric in rows)


def _explain(metric: Metric) -> str:
    better = {None: "", "high": ", higher is better", "low": ", lower is better"}[metric.good]
    head = f"{metric.id} ({metric.label}), {_SCOPES[metric.scope]}, {metric.unit.value}{better}"
    parts = (("", metric.meaning), ("formula: ", metric.formula), ("source: ", metric.origin))
    return "\n".join(
        [head]
        + [
            textwrap.fill(
                text, _WIDTH, initial_indent=f"  {label}", subsequent_indent="  " + " " * len(label)
            )
            for label, text in parts
        ]
    )
