"""`nftop sst` on the simulated host: what it shows, plans and says."""

from __future__ import annotations

import json

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.command import called


def reports(*arguments: str) -> tuple[int, str]:
    done = called("demo", "--scenario", "sst-bf", "--cpus", "16", "sst", *arguments)
    return done.returncode, done.stdout + done.stderr


def test_show_as_json_has_every_core() -> None:
    code, text = reports("show", "--json")
    result = json.loads(text)
    assert (code, result["schema"], result["simulated"]) == (0, "nftop.sst/1", True)
    assert {item["sst_priority"] for item in result["cpus"]} == {"high", "low"}
    one = result["cpus"][1]
    assert (one["base_frequency_hz"], one["pinned"]) == (2_700_000_000, False)
    assert one["siblings"] == [9]


def test_show_names_priority_and_limits(snapshot: SnapshotAssertion) -> None:
    code, text = reports("show")
    assert code == 0
    assert text == snapshot
    assert "1    9        high      2700      2300  2300  800-3900" in text


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (("pin", "--cpus", "1", "--dry-run"), "CPU 1,9 max  2300 MHz -> 2700 MHz"),
        (("pin", "--all", "--dry-run"), "low priority (SST-BF)"),
        (("apply", "--mode", "bf", "--yes"), "kept"),
        (("release", "--cpus", "1", "--dry-run"), "800 MHz to 3900 MHz"),
        (("apply", "--mode", "base", "--yes"), "nothing to change"),
    ],
)
def test_what_is_planned(arguments: tuple[str, ...], printed: str) -> None:
    code, text = reports(*arguments)
    assert code == 0
    assert printed in text


@pytest.mark.parametrize(
    ("arguments", "code", "printed"),
    [
        (("pin", "--group", "nobody", "--yes"), 1, "there is no group nobody"),
        (("pin", "--nf", "nobody", "--yes"), 1, "there is no network function nobody"),
        (("pin", "--cpus", "99", "--yes"), 1, "CPU 99: it is not there"),
        (("pin", "--cpus", "1"), 2, "without a terminal a change needs --yes"),
        (("pin",), 2, "one of the arguments"),
        (("apply",), 2, "--mode"),
        (("bf", "on", "--yes"), 1, "no simulated host can switch SST-BF"),
        (("bf", "on", "--package", "-1"), 2, "--package"),
        (("cp", "--cpus", "1", "--class", "4"), 2, "--class"),
        (("cp", "--class", "1"), 2, "--cpus"),
    ],
)
def test_what_can_not_be(arguments: tuple[str, ...], code: int, printed: str) -> None:
    result, text = reports(*arguments)
    assert (result, printed in text) == (code, True), text


def test_the_cpus_of_a_network_function() -> None:
    code, text = reports("pin", "--nf", "ovs-vswitchd", "--dry-run")
    assert code == 0
    assert "CPU 1" in text
