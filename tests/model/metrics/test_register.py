"""A CPU metric that is registered from outside: on screen, in every export, recorded, replayed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nftop.model.metrics.cpu import SIBLING_METRICS
from nftop.model.metrics.metric import register

TOY = """
import sys
from nftop.model.column import ratio
from nftop.model.metrics.metric import Metric, Unit, register

register(Metric(
    id="toy_per_cycle", label="TOY", unit=Unit.PER_CYCLE, scope="cpu", meaning="A toy.",
    formula="instructions / reference cycles", origin="a test", priority=1.5,
    compute=lambda counted: ratio(counted.rate("instructions"), counted.rate("ref_cycles")),
))
"""
COMMAND = (
    TOY
    + """
from nftop.cli.main import run

sys.exit(run(sys.argv[1:]))
"""
)
EXPOSITION = (
    TOY
    + """
from nftop.export.openmetrics.page import Tally, page
from nftop.export.openmetrics.writer import TextFormat
from tests.recordings import taken

sys.stdout.write(page(taken(3, cpus=4).frames[-1], Tally(), TextFormat.TEXT))
"""
)


def run(script: str, *arguments: str, home: Path) -> str:
    environment = os.environ | {"HOME": str(home), "XDG_DATA_HOME": str(home), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(lines: str) -> list[float]:
    """Values of the last frame's CPUs that are numbers."""
    cpus = json.loads(lines.splitlines()[-1])["cpus"]
    return [cpu["toy_per_cycle"] for cpu in cpus if isinstance(cpu["toy_per_cycle"], float)]


def test_registered_metric_is_shown_exported_recorded_and_replayed(tmp_path: Path) -> None:
    fast = ("--cpus", "4", "-d", "0.1")
    screen = run(COMMAND, "demo", *fast, "-n", "2", "--ascii", home=tmp_path)
    assert "TOY" in screen
    assert numbers(run(COMMAND, "demo", *fast, "-n", "3", "--json", home=tmp_path))
    assert "toy_per_cycle" in run(COMMAND, "demo", *fast, "-n", "1", "--csv", home=tmp_path)
    assert "A toy." in run(COMMAND, "explain", "toy_per_cycle", home=tmp_path)
    assert "nftop_cpu_toy" in run(EXPOSITION, home=tmp_path)
    file = tmp_path / "toy.nftop"
    run(COMMAND, "demo", *fast, "record", "-o", str(file), "--duration", "1", home=tmp_path)
    assert numbers(run(COMMAND, "replay", str(file), "--batch", "--json", home=tmp_path))


def test_metric_of_another_scope_is_refused() -> None:
    with pytest.raises(ValueError, match="sibling_busy_ratio"):
        register(SIBLING_METRICS[0])
