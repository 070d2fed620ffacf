from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Reason
from tests.sources.tuning.hosts import CPUS, checks, every_cpu, host, poller

SCALING = {
    "cpufreq/base_frequency": "2700000",
    "cpufreq/scaling_min_freq": "1000000",
    "cpufreq/scaling_max_freq": "4000000",
    "cpufreq/scaling_governor": "powersave",
    "cpufreq/scaling_driver": "intel_pstate",
}
CLOCK = "sys/devices/system/clocksource/clocksource0"


@pytest.mark.parametrize(
    ("path", "on", "off"), [("intel_pstate/no_turbo", "0", "1"), ("cpufreq/boost", "1", "0")]
)
def test_turbo_by_either_switch(
    tmp_path: Path, path: str, on: str, off: str, snapshot: SnapshotAssertion
) -> None:
    host(tmp_path, every_cpu(SCALING) | {f"{CPUS}/{path}": on})
    result = checks(tmp_path, poller(5))["turbo"]
    assert result.state == "tune"
    assert result.text == snapshot
    assert result.fix == f"echo {off} | sudo tee /{CPUS}/{path}"
    host(tmp_path, {f"{CPUS}/{path}": off})
    assert checks(tmp_path, poller(5))["turbo"].text == f"turbo is off (/{CPUS}/{path})"


def test_turbo_that_the_cores_that_poll_can_t_reach(tmp_path: Path) -> None:
    held = {f"{CPUS}/cpu5/cpufreq/scaling_max_freq": "2700000"}
    host(tmp_path, every_cpu(SCALING) | held | {f"{CPUS}/intel_pstate/no_turbo": "0"})
    assert checks(tmp_path, poller(5))["turbo"].state == "ok"
    assert checks(tmp_path, poller(5), poller(6))["turbo"].state == "tune"


def test_no_switch_for_turbo(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    result = checks(host(tmp_path))["turbo"]
    assert (result.reason, result.fix) == (Reason.HARDWARE, "")
    assert result.text == snapshot


def test_the_governor(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    performance = {f"{CPUS}/cpu5/cpufreq/scaling_governor": "performance"}
    host(tmp_path, every_cpu(SCALING) | performance)
    assert checks(tmp_path, poller(5))["governor"].state == "ok"
    result = checks(tmp_path, poller(5), poller(6))["governor"]
    assert result.text == snapshot
    assert (result.state, result.fix) == snapshot


def test_a_frequency_that_can_t_change_needs_no_governor(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    fixed = {"cpufreq/scaling_min_freq": "2700000", "cpufreq/scaling_max_freq": "2700000"}
    result = checks(host(tmp_path, every_cpu(SCALING | fixed)), poller(5))["governor"]
    assert result.state == "ok"
    assert result.text == snapshot


def test_a_guest_scales_nothing(tmp_path: Path) -> None:
    assert checks(host(tmp_path), poller(5))["governor"].reason is Reason.HARDWARE


@pytest.mark.parametrize(
    ("current", "available", "state", "fix"),
    [
        ("tsc", "tsc hpet", "ok", ""),
        ("hpet", "tsc hpet", "tune", f"echo tsc | sudo tee /{CLOCK}/current_clocksource"),
        ("hpet", "hpet acpi_pm", "tune", "sudo dmesg | grep -i tsc"),
    ],
)
def test_the_clock(tmp_path: Path, current: str, available: str, state: str, fix: str) -> None:
    files = {f"{CLOCK}/current_clocksource": current, f"{CLOCK}/available_clocksource": available}
    result = checks(host(tmp_path, files))["clock source"]
    assert (result.state, result.fix) == (state, fix)


def test_no_clock_named(tmp_path: Path) -> None:
    assert checks(host(tmp_path))["clock source"].reason is Reason.SOURCE
