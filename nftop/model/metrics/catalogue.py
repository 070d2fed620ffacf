"""The metric catalogue: definition, unit and reliability of every metric.

Screens, exports and `nftop explain` read these rows; there is no other table by metric. A CPU
metric of counter rates has its formula in its row (`compute`) and may be registered from outside
(`metric.register`); stages of the fold compute the others.
"""

from __future__ import annotations

from nftop.model.metrics.cpu import (
    COUNTED_CPU_METRICS,
    FREQUENCY_METRICS,
    SETTING_METRICS,
    SIBLING_METRICS,
)
from nftop.model.metrics.device import DEVICE_METRICS
from nftop.model.metrics.group import GROUP_METRICS
from nftop.model.metrics.metric import COVERAGE_METRICS, Metric, registered
from nftop.model.metrics.nf import NF_METRICS, VS_BASE
from nftop.model.metrics.nodes import NODE_METRICS
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.metrics.pcm import PCM_CPU_METRICS, PCM_PACKAGE_METRICS
from nftop.model.metrics.power import COUNTED_POWER_CPU_METRICS, COUNTED_POWER_PACKAGE_METRICS
from nftop.model.metrics.probes import CORE_METRICS
from nftop.model.metrics.saturation import SATURATION_CPU_METRICS, SATURATION_WORDS
from nftop.model.metrics.tma import TMA_METRICS

CPU_METRICS: tuple[Metric, ...] = (
    *COUNTED_CPU_METRICS,
    VS_BASE,
    *SIBLING_METRICS,
    *COVERAGE_METRICS,
    *TMA_METRICS,
    *PCM_CPU_METRICS,
    *COUNTED_POWER_CPU_METRICS,
    *FREQUENCY_METRICS,
    *SATURATION_CPU_METRICS,
    *registered(),
)

# What a package's row has, from whichever source.
ALL_PACKAGE_METRICS = PACKAGE_METRICS + COUNTED_POWER_PACKAGE_METRICS + PCM_PACKAGE_METRICS
METRICS: tuple[Metric, ...] = (
    CPU_METRICS + NF_METRICS + ALL_PACKAGE_METRICS + DEVICE_METRICS + GROUP_METRICS + CORE_METRICS
)
# With what is no number: a node of the tree of the core looked at, and words.
EXPLAINED: tuple[Metric, ...] = METRICS + NODE_METRICS + SETTING_METRICS + SATURATION_WORDS


def cpu_metric(metric_id: str) -> Metric:
    """A per-CPU metric of the catalogue.

    Raises:
        KeyError: there is no such metric.
    """
    return _BY_ID["cpu", metric_id]


_BY_ID = {(metric.scope, metric.id): metric for metric in METRICS}
