"""`--focus` without a screen: text, JSON, a recording and its replay, the page for Prometheus."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nftop.model.metrics.probes import CORE_METRICS
from tests.command import called, nftop
from tests.uarch.vectors import loaded

FAST = ("demo", "--cpus", "88", "-d", "0.1")


def focus_of(line: str) -> dict[str, Any]:
    focus: dict[str, Any] = json.loads(line)["focus"]
    return focus


def check_tree(focus: dict[str, Any], cpus: list[int]) -> None:
    topdown = loaded("BDX").topdown
    assert topdown and focus["cpus"] == cpus
    nodes = {node["name"]: node for node in focus["tree"]}
    assert {name: node["level"] for name, node in nodes.items()} == dict(topdown.level)
    assert {node["level"] for node in focus["tree"]} == {1, 2, 3, 4}
    assert focus["probes"].keys() == {metric.id for metric in CORE_METRICS} | {"missing"}
    for name in ("icache_misses", "branch_resteers", "unknown_branches", "dram_bound"):
        assert 0 <= nodes[name]["ratio"] < 1
        assert 0 < nodes[name]["coverage"] < 0.1
    assert focus["probes"]["load_latency_cycles"] > 0


def test_json_of_a_cpu_and_of_a_network_function() -> None:
    done = called(*FAST, "-n", "4", "--json", "--focus", "2")
    assert (done.returncode, done.stderr) == (0, "")
    check_tree(focus_of(done.stdout.splitlines()[-1]), [2, 46])
    done = called(*FAST, "-n", "6", "--json", "--focus", "dpdk-testpmd")
    assert (done.returncode, done.stderr) == (0, "")
    check_tree(focus_of(done.stdout.splitlines()[-1]), [23, 67])
    assert focus_of(called(*FAST, "-n", "1", "--json").stdout) is None


def test_text_has_the_tree() -> None:
    done = called(*FAST, "-n", "3", "--focus", "2")
    assert done.returncode == 0
    assert re.search(r"^ +icache misses +[0-9.]+%", done.stdout, re.MULTILINE)
    assert re.search(r"^load latency ns +[0-9]", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--json", "--focus", "88"),
        ("--csv", "--focus", "2"),
        ("--json", "--focus", "2", "--cpu-list", "4-6"),
        ("--json", "--focus", "2", "--quiet-cpus", "2"),
    ],
)
def test_what_cannot_be_counted_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    done = called(*FAST, "-n", "1", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("nftop: --focus")


@pytest.mark.parametrize("frames", [1, 2])
def test_a_network_function_that_never_appears_fails_without_a_frame(frames: int) -> None:
    done = called(*FAST, "-n", f"{frames}", "--json", "--focus", "nothing")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and "vpp" in done.stderr
    assert done.stdout == ""


def test_a_recording_is_kept_even_so(tmp_path: Path) -> None:
    file = str(tmp_path / "core.nftop")
    done = nftop(*FAST, "record", "-o", file, "--duration", "1", "--focus", "nothing")
    assert done.returncode == 1 and "vpp" in done.stderr
    assert called("replay", file, "--json").returncode == 0


def test_a_recording_has_it_too(tmp_path: Path) -> None:
    file = str(tmp_path / "core.nftop")
    done = nftop(*FAST, "record", "-o", file, "--duration", "1", "--focus", "2")
    assert done.returncode == 0, done.stderr
    done = called("replay", file, "--json")
    check_tree(focus_of(done.stdout.splitlines()[-1]), [2, 46])
