"""A number that is not of its metric's first choice is explained with who told it."""

from __future__ import annotations

from dataclasses import replace

from nftop.model.frame import PackageRow
from nftop.model.ids import Package
from nftop.model.metrics.catalogue import METRICS, cpu_metric
from nftop.model.missing import Missing, Reason
from nftop.render.base.line import Line
from nftop.render.pages.help import explain_lines, explain_package_lines
from tests.frames import frame


def text(lines: list[Line]) -> str:
    return "\n".join(line.text for line in lines)


def test_of_a_cpu() -> None:
    base = frame(8)
    reports = replace(base, cpus=replace(base.cpus, origins={"ipc": ("pcm",) + (None,) * 7}))
    assert "from pcm" in text(explain_lines(reports, 0, cpu_metric("ipc"), 100))
    for other in (
        explain_lines(reports, 1, cpu_metric("ipc"), 100),
        explain_lines(reports, 0, cpu_metric("frequency_hz"), 100),
        explain_lines(base, 0, cpu_metric("ipc"), 100),
    ):
        assert "from pcm" not in text(other)


def test_of_a_package() -> None:
    power, dram = (
        next(metric for metric in METRICS if metric.id == name)
        for name in ("power_w", "dram_power_w")
    )
    row = PackageRow(
        Package(0),
        {"power_w": 144.2, "dram_power_w": Missing(Reason.SOURCE)},
        origins={"power_w": "pcm"},
    )
    reports = replace(frame(8), packages=(row,))
    shown = text(explain_package_lines(reports, [power], 100))
    assert "144 W; from pcm" in shown
    assert "; from " not in text(explain_package_lines(reports, [dram], 100))
