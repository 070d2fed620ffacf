"""One source can neither stop nor slow down another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from nftop.model.reading import Missing, Reason
from nftop.model.sample import SourceReading
from nftop.session.sampler import Sampler
from nftop.sources.base import Check


class FakeSource:
    """Answers with what it is told to."""

    def __init__(self, name: str, read: Callable[[], Any], *, inline: bool) -> None:
        self.name = name
        self.inline = inline
        self._read = read
        self.closed = threading.Event()

    def read(self) -> Any:
        return self._read()

    def check(self) -> tuple[Check, ...]:
        return ()

    def close(self) -> None:
        self.closed.set()


@pytest.mark.parametrize("inline", [True, False])
def test_a_source_that_raises_is_an_error_with_its_words(inline: bool) -> None:
    def fail() -> None:
        raise ValueError("the sky fell")

    sampler = Sampler([FakeSource("bad", fail, inline=inline), FakeSource("ok", int, inline=True)])
    try:
        readings = sampler.sample(1.0, grace_s=60.0).readings
    finally:
        sampler.close()
    bad = readings["bad"].value
    assert isinstance(bad, Missing) and bad.reason is Reason.ERROR
    assert "the sky fell" in bad.message
    assert readings["ok"].value == 0


def test_a_slow_source_that_answers_in_time_is_in_the_same_sample() -> None:
    def slow() -> int:
        time.sleep(0.02)
        return 7

    sampler = Sampler([FakeSource("slow", slow, inline=False)])
    try:
        reading = sampler.sample(1.0, grace_s=60.0).readings["slow"]
    finally:
        sampler.close()
    assert reading.value == 7
    assert reading.took_ns >= 20_000_000


def test_a_source_that_hangs_keeps_its_last_reading_and_its_age() -> None:
    release, calls = threading.Event(), []

    def hang_the_second_time() -> int:
        calls.append(time.monotonic_ns())
        if len(calls) == 2:
            release.wait()
        return len(calls)

    slow = FakeSource("slow", hang_the_second_time, inline=False)
    fine = FakeSource("fine", lambda: 1, inline=False)
    sampler = Sampler([slow, fine])

    def newer_than(before: Mapping[str, SourceReading[Any]]) -> Mapping[str, SourceReading[Any]]:
        """The first sample that has another reading of the one that answers."""
        deadline = time.monotonic() + 60.0
        while time.monotonic() < deadline:
            readings = sampler.sample(1.0, grace_s=0.01).readings
            if readings["fine"].read_at_ns > before["fine"].read_at_ns:
                return readings
        raise AssertionError("the source that answers is not asked any more")

    try:
        first = sampler.sample(1.0, grace_s=60.0).readings
        second = newer_than(first)
        third = newer_than(second)
        assert [item["slow"].value for item in (first, second, third)] == [1, 1, 1]
        assert first["slow"].read_at_ns == third["slow"].read_at_ns
        assert len(calls) == 2  # one request under way, however often it is asked
        release.set()
        fourth = sampler.sample(1.0, grace_s=60.0).readings
        assert fourth["slow"].value == 3  # asked at this tick, not left over from another
    finally:
        release.set()
        sampler.close()
    assert slow.closed.wait(60.0) and fine.closed.wait(60.0)


def test_a_source_that_never_answered_is_warming() -> None:
    release = threading.Event()
    sampler = Sampler([FakeSource("stuck", release.wait, inline=False)])
    try:
        stuck = sampler.sample(1.0, grace_s=0.01).readings["stuck"]
    finally:
        release.set()
        sampler.close()
    assert isinstance(stuck.value, Missing) and stuck.value.reason is Reason.WARMING


def test_a_turn_that_raises_is_told_by_the_next_reading_alone() -> None:
    class Turned(FakeSource):
        turning = True

        def turn(self) -> None:
            raise RuntimeError("the wheel is off")

    after: list[int] = []

    class Other(Turned):
        def turn(self) -> None:
            after.append(1)

    sampler = Sampler([Turned("bad", int, inline=True), Other("ok", int, inline=True)])
    assert sampler.turning
    sampler.turn()
    readings = sampler.sample(1.0, grace_s=0.0).readings
    bad = readings["bad"].value
    assert isinstance(bad, Missing) and bad.reason is Reason.ERROR
    assert "RuntimeError: the wheel is off" in bad.message
    assert readings["ok"].value == 0 and after == [1]
    assert sampler.sample(1.0, grace_s=0.0).readings["bad"].value == 0
