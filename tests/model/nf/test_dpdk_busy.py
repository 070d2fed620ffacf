"""What is said of an application without busy cycles depends on what is known of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nftop.model.nf.dpdk_busy import busy_advice
from nftop.model.sample import DpdkApp

OPTION = "--record-core-cycles"
APP = DpdkApp(
    pid=1,
    start_ticks=1,
    name="dpdk-testpmd",
    prefix="rte",
    socket="/run/dpdk/rte/s",
    version="DPDK 24.11.4",
    problem=None,
    ports=(),
    lcores=(),
    lcores_told=True,
    eal_params=(),
    app_params=(),
    read_at_ns=0,
    took_ns=0,
)


@pytest.mark.parametrize("name", ["testpmd", "dpdk-testpmd"])
def test_the_option_is_advised_where_it_is_off_and_dpdk_has_it(name: str) -> None:
    assert OPTION in busy_advice(replace(APP, name=name)).fix
    assert OPTION in busy_advice(replace(APP, name=name, version="DPDK 23.03.0")).fix


def test_the_option_is_not_advised_where_it_is_on() -> None:
    assert busy_advice(replace(APP, app_params=("-i", OPTION))).fix == ""


@pytest.mark.parametrize("version", ["DPDK 22.11.4", "DPDK 17.11.0-rc1", "DPDK 23.02.0"])
@pytest.mark.parametrize("params", [(), (OPTION,)])
def test_an_old_dpdk_needs_another_dpdk(version: str, params: tuple[str, ...]) -> None:
    advice = busy_advice(replace(APP, version=version, app_params=params))
    assert OPTION not in advice.fix + advice.why
    assert version in advice.why and "23.03" in advice.fix


def test_testpmd_s_option_is_for_testpmd() -> None:
    for name in ("dpdk-l3fwd", "ovs-vswitchd", ""):
        advice = busy_advice(replace(APP, name=name))
        assert OPTION not in advice.fix + advice.why


def test_of_an_unknown_release_it_reports_from_which_on() -> None:
    for version in ("", "Vendor 1.2"):
        assert "23.03" in busy_advice(replace(APP, version=version)).fix
