"""The page that explains a network function's numbers."""

from __future__ import annotations

from nftop.model.baseline import LEAST_TICKS, LOAD_MOVED_RATIO, MOST_TICKS
from nftop.model.frame import Frame, NfRow
from nftop.model.metrics.metric import Metric
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.reading import Missing, Reading
from nftop.render.base import format as fmt
from nftop.render.base.line import Line, crop
from nftop.render.frame.header import badge_lines, time_of_day
from nftop.render.nfs.detail import joined, nf_detail
from nftop.render.nfs.table import MARKS
from nftop.render.pages.help import section, source_facts

_KEEPS = (
    f"keeps the medians of the last {MOST_TICKS} ticks, of {LEAST_TICKS} at least, of every NF "
    "and each of its cores; b again keeps others in their place"
)
_SILENT = (
    f"says nothing where the load moved by more than {LOAD_MOVED_RATIO:.0%}, but for cores "
    "that were busy all the time both times: there CPP is what a packet costs"
)
_BASELINE = (
    ("b", _KEEPS),
    ("B", "forgets them. They end with nftop; nftop --baseline NAME keeps them in a file"),
    ("vs.base", _SILENT),
    ("spread", "the median absolute deviation from the median"),
)


def _meaning(metric: Metric) -> str:
    return f"{metric.meaning} {metric.formula} [{metric.origin}]"


def _value(reading: Reading, metric: Metric) -> str:
    if isinstance(reading, Missing):
        return f"{reading.reason.mark} {reading.message}"
    return fmt.worded(reading, metric.unit)


def explain_nf_lines(frame: Frame, nf: NfRow, width: int) -> list[Line]:
    """Each metric with its value or why it has none, what it means and where it comes from."""
    facts = [
        (metric.label, f"{_value(nf.readings[metric.id], metric)}. {_meaning(metric)}")
        for metric in NF_METRICS
    ]
    return [
        *(crop(line, width) for line in badge_lines(frame.host)),
        *section(f"{nf.name} at {time_of_day(frame)}", facts, width),
        *section("Baselines", _BASELINE, width),
        *section("On the NFs screen", MARKS, width),
        *joined(nf_detail(frame, nf, width), apart=True),
        *section("Sources", source_facts(frame), width),
    ]
