"""Times and spans as text."""

from __future__ import annotations

import time
from datetime import UTC, timedelta, timezone, tzinfo

import pytest

from nftop.model.replay_position import Position
from nftop.model.time_forms import span_ns
from nftop.session.time_spec import moment_ns
from tests.samples import S

HERE = Position(at_ns=1_000_000 * S, first_ns=999_000 * S + 5, last_ns=1_200_000 * S, number=3)


@pytest.mark.parametrize(
    ("text", "at_ns"),
    [
        ("+30s", HERE.first_ns + 30 * S),
        ("-5m", HERE.last_ns - 300 * S),
        (" +1.5h ", HERE.first_ns + 5400 * S),
        ("start", HERE.first_ns),
        ("END", HERE.last_ns),
        # 999000 s are 11 days and 13:30:00.
        ("13:30:00", 999_000 * S),
        ("13:29:59", 999_000 * S + 86_399 * S),
        ("14:00Z", 999_000 * S + 1800 * S),
        ("1970-01-12T14:00:00Z", 999_000 * S + 1800 * S),
        ("1970-01-12 14:00:00", 999_000 * S + 1800 * S),
    ],
)
def test_times(text: str, at_ns: int) -> None:
    assert moment_ns(text, HERE) == at_ns


@pytest.mark.parametrize("text", ["", "x", "+", "25:00", "12:61", "12:00:99", "-5y", "+-3"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="HH:MM:SS"):
        moment_ns(text, HERE)


@pytest.mark.parametrize(
    ("text", "zone", "at_s"),
    [
        ("14:30:00", timezone(timedelta(hours=1)), 999_000),
        ("14:29:59", timezone(timedelta(hours=1)), 999_000 + 86_399),
        ("13:30:00Z", timezone(timedelta(hours=1)), 999_000),
        ("14:30:00+01:00", UTC, 999_000),
        ("00:30", timezone(timedelta(hours=11)), 999_000),
        ("02:30:00", timezone(timedelta(hours=-11)), 999_000),
        ("1970-01-12 15:00:00", timezone(timedelta(hours=1)), 999_000 + 1800),
    ],
)
def test_times_without_a_zone_are_in_the_one_shown(text: str, zone: tzinfo, at_s: int) -> None:
    assert moment_ns(text, HERE, zone) == at_s * S


def test_times_without_a_zone_are_local_where_that_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1")
        time.tzset()
        assert moment_ns("14:30:00", HERE, None) == 999_000 * S
        assert moment_ns("1970-01-12 15:00:00", HERE, None) == (999_000 + 1800) * S
    time.tzset()


def test_spans() -> None:
    assert [span_ns(name) for name in ("1", "2s", "1.5m", "1h", "1d")] == [
        S,
        2 * S,
        90 * S,
        3600 * S,
        86_400 * S,
    ]


@pytest.mark.parametrize(
    ("text", "at_s"), [("13:20", -600), ("13:29:59", -1), ("13:50", 1200), ("01:29", 43_140)]
)
def test_a_time_of_the_day_outside_of_a_recording_is_the_nearest_one(text: str, at_s: int) -> None:
    here = HERE._replace(last_ns=HERE.first_ns + 600 * S)
    assert moment_ns(text, here) == (999_000 + at_s) * S
