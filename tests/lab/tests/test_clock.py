from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.clock import Clock, command, nanoseconds

S = 1_000_000_000
ORDERS = st.sampled_from(["freeze", "run", "step 1.5", "wait"])


class Source:
    """A source of time that a test moves."""

    def __init__(self) -> None:
        self.at_ns = 5 * S

    def __call__(self) -> int:
        return self.at_ns


def test_a_replay_starts_at_the_requested_time_at_the_recorded_pace() -> None:
    source = Source()
    clock = Clock(at_ns=7, source_ns=source)
    source.at_ns += 3
    assert (clock.now_ns(), clock.running) == (10, True)


@given(st.lists(ORDERS))
def test_it_counts_the_time_it_ran_and_the_steps(orders: list[str]) -> None:
    source = Source()
    clock = Clock(source_ns=source)
    expected, running = 0, True
    for order in orders:
        if order == "wait":
            source.at_ns += S
            expected += S * running
        else:
            command(clock, f"{order}\n")
            running = {"freeze": False, "run": True}.get(order, running)
            expected += nanoseconds("1.5") * (order == "step 1.5")
        assert (clock.now_ns(), clock.running) == (expected, running)


@pytest.mark.parametrize(
    "order", ["", "stop", "step", "step -1", "step nan", "step inf", "step 1 2", "freeze now"]
)
def test_what_makes_no_sense_changes_nothing(order: str) -> None:
    clock = Clock(running=False)
    with pytest.raises(ValueError, match=r"."):
        command(clock, order)
    assert (clock.now_ns(), clock.running) == (0, False)


def test_it_never_goes_back() -> None:
    with pytest.raises(ValueError, match="goes back"):
        Clock().step(-1)
    with pytest.raises(ValueError, match="starts at 0"):
        Clock(at_ns=-1)
