"""The selected CPU, with its history from the store."""

from __future__ import annotations

from nftop.model.frame import Frame
from nftop.render.base.spark import span_for
from nftop.render.cores.detail import Trend, detail_lines, graph_points, trend_metric
from nftop.store.history.history import History
from nftop.ui.widgets.lines import Lines


class Detail(Lines):
    """Lines of `render.detail`."""

    def show_row(
        self,
        frame: Frame,
        row: int,
        sort: str,
        history: History,
        *,
        interval_s: float,
        width: int,
        height: int,
    ) -> None:
        """Draw one row of `frame`, with its history up to that frame."""
        metric = trend_metric(frame.cpus, row, sort)
        points = graph_points(width)
        span_s = span_for(points, interval_s)
        cpu = frame.cpus.topology.cpus[row].cpu
        values = history.series(metric.id, cpu, points, span_s, until_ns=frame.monotonic_ns)
        self.show(detail_lines(frame, row, Trend(metric, values, span_s), width, height), height)
