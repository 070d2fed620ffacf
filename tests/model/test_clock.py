"""Times of day have their zone, in UTC and in the local one."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from nftop.model.clock import clock_of, clock_width, date_time_of, show_utc

NOON_NS = 1_795_435_267 * 10**9  # 2026-11-23T12:01:07Z


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """The local zone of a test, and UTC on screen again after it."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        show_utc(utc=False)
        yield
    time.tzset()
    show_utc(utc=True)


def test_utc_is_z() -> None:
    assert (clock_of(NOON_NS), date_time_of(NOON_NS)) == ("12:01:07Z", "2026-11-23 12:01:07Z")


@pytest.mark.parametrize(
    ("zone", "clock"),
    [
        ("UTC0", "12:01:07Z"),
        ("CET-1", "13:01:07+01:00"),
        ("IST-5:30", "17:31:07+05:30"),
        ("NST3:30", "08:31:07-03:30"),
    ],
    indirect=["zone"],
)
def test_the_local_zone_is_its_offset(zone: None, clock: str) -> None:
    assert clock_of(NOON_NS) == clock
    assert len(clock) < clock_width()
