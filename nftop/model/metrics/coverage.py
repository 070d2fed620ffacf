"""In which share of the interval something was counted: what other metrics rest on."""

from __future__ import annotations

from nftop.model.metrics.metric import ESTIMATE_BELOW, Metric, Unit

COVERAGE = "coverage"
LLC_COVERAGE = "llc_misses_coverage"
SHARE_OF_TIME = "sum over the groups that count it(delta(time running)) / delta(time enabled)"
TIMES = "perf_event_open(2), PERF_FORMAT_TOTAL_TIME_*"

ESTIMATE_SENTENCE = f"Below {ESTIMATE_BELOW:.0%} what rests on it is an estimate, shown with '~'."

COVERAGE_METRICS: tuple[Metric, ...] = (
    Metric(
        id=COVERAGE,
        label="COV",
        unit=Unit.RATIO,
        scope="cpu",
        meaning="Share of the interval in which cycles, instructions and clocks were counted, "
        f"in whichever counter group. {ESTIMATE_SENTENCE}",
        formula=SHARE_OF_TIME,
        origin=TIMES,
        good="high",
        priority=14,
    ),
    Metric(
        id=LLC_COVERAGE,
        label="MISS.cov",
        unit=Unit.RATIO,
        scope="cpu",
        meaning="Share of the interval in which last-level cache misses were counted. "
        f"{ESTIMATE_SENTENCE}",
        formula=SHARE_OF_TIME,
        origin=TIMES,
        good="high",
        optional=True,
    ),
)
