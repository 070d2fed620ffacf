from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.derive.nf.dpdk_queues import config_queues, enabled_lcores


@pytest.mark.parametrize(
    ("params", "lcores"),
    [
        (["app", "-l", "0-1"], {0, 1}),
        (["app", "-l0,3"], {0, 3}),
        (["app", "-c", "0x5"], {0, 2}),
        (["app", "-c", "f0"], {4, 5, 6, 7}),
        (["app", "--lcores=1,2@(5-7),(3-5)@(0,2)"], {1, 2, 3, 4, 5}),
        (["app", "--lcores", "0@3,1@4"], {0, 1}),
        (["app", "--lcores", "(0,6)"], {0, 6}),
        (["app", "--no-huge", "-m", "512"], set()),
        (["app", "-l", "x"], set()),
        (["app", "-c", "lcores"], set()),
        (["app", "-l"], set()),
        ([], set()),
    ],
)
def test_enabled_lcores(params: list[str], lcores: set[int]) -> None:
    assert enabled_lcores(params) == lcores


def test_config_of_l3fwd() -> None:
    queues = {(0, 0): 1, (1, 0): 1}
    assert config_queues(["-P", "-p", "0x3", "--config=(0,0,1),(1,0,1)"]) == queues
    assert config_queues(["--config", "(0,0,1),(1,0,1)"]) == queues
    assert config_queues(["-p", "0x3"]) == {}
    assert config_queues(["--config=file.cfg"]) == {}


@given(st.lists(st.text(max_size=12), max_size=6))
def test_no_command_line_raises(params: list[str]) -> None:
    enabled_lcores([*params, "-l", *params, "--lcores", *params, "-c", *params])
    config_queues([*params, "--config", *params])
