"""One source can neither stop nor slow down another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.check import Check
from nftop.model.missing import Missing, Reason
from nftop.model.sample import SourceReading
from nftop.session.live import Sampler


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


def test_a_turn_that_raises_is_reported_by_the_next_reading_alone(
    snapshot: SnapshotAssertion,
) -> None:
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
    assert bad.message == snapshot
    assert readings["ok"].value == 0 and after == [1]
    assert sampler.sample(1.0, grace_s=0.0).readings["bad"].value == 0


def test_one_thread_reads_all_that_may_block_once_a_tick() -> None:
    threads: set[threading.Thread] = set()
    reads: list[str] = []

    def source(name: str) -> FakeSource:
        def read() -> int:
            threads.add(threading.current_thread())
            reads.append(name)
            return 1

        return FakeSource(name, read, inline=False)

    before = threading.active_count()
    names = [f"source{number}" for number in range(10)]
    sampler = Sampler([source(name) for name in names])
    try:
        for _ in range(3):
            sample = sampler.sample(1.0, grace_s=60.0)
            assert {item.value for item in sample.readings.values()} == {1}
        assert len(threads) == 1
        assert threading.active_count() == before + 1
        assert sorted(reads) == sorted(names * 3)
    finally:
        sampler.close()
    assert threading.active_count() == before


def test_a_hanging_source_has_a_thread_of_its_own_until_it_answers() -> None:
    release = threading.Event()
    before = threading.active_count()
    stuck = FakeSource("stuck", release.wait, inline=False)
    fine = [FakeSource(f"fine{number}", int, inline=False) for number in range(5)]
    sampler = Sampler([stuck, *fine])
    try:
        deadline = time.monotonic() + 60.0
        readings = sampler.sample(1.0, grace_s=0.1).readings
        while any(isinstance(readings[item.name].value, Missing) for item in fine):
            assert time.monotonic() < deadline
            readings = sampler.sample(1.0, grace_s=0.1).readings
        assert isinstance(readings["stuck"].value, Missing)
        assert threading.active_count() <= before + 2
        release.set()
        assert sampler.sample(1.0, grace_s=60.0).readings["stuck"].value is True
    finally:
        release.set()
        sampler.close()
    assert all(item.closed.wait(60.0) for item in (stuck, *fine))


def test_a_hanging_source_does_not_keep_others_from_being_closed() -> None:
    release = threading.Event()
    stuck = FakeSource("stuck", release.wait, inline=False)
    fine = FakeSource("fine", int, inline=False)
    sampler = Sampler([stuck, fine])
    sampler.sample(1.0, grace_s=0.05)
    sampler.close()
    try:
        assert fine.closed.wait(60.0) and not stuck.closed.is_set()
    finally:
        release.set()
    assert stuck.closed.wait(60.0)


def test_a_close_that_raises_stops_no_other() -> None:
    class Broken(FakeSource):
        def close(self) -> None:
            raise OSError(5, "Input/output error")

    fine = FakeSource("fine", int, inline=False)
    sampler = Sampler([Broken("broken", int, inline=False), fine])
    sampler.sample(1.0, grace_s=60.0)
    sampler.close()
    assert fine.closed.wait(60.0)


def test_readings_longer_than_a_tick_leave_no_source_behind() -> None:
    counts = [0] * 9

    def reading(index: int) -> Callable[[], int]:
        def read() -> int:
            time.sleep(0.017 if index == 0 else 0.014)
            counts[index] += 1
            return counts[index]

        return read

    sampler = Sampler([FakeSource(str(i), reading(i), inline=False) for i in range(9)])
    try:
        for _ in range(20):
            sampler.sample(0.1, grace_s=0.025)
            time.sleep(0.075)
        sampler._blocking.wait(60.0)
    finally:
        sampler.close()
    assert 2 * min(counts) + 2 >= max(counts)  # every second time at least


def test_without_a_thread_for_company_the_queue_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def refuse(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    release = threading.Event()
    sampler = Sampler(
        [
            FakeSource("hung", lambda: release.wait(60), inline=False),
            FakeSource("other", int, inline=False),
        ]
    )
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        sampler._blocking._slots[1].latest = SourceReading(0, 0, 10**9)  # it is read last
        readings = sampler.sample(1.0, grace_s=0.05).readings
        assert readings["other"].value == 0 and readings["other"].took_ns == 10**9
        release.set()
        sampler._blocking.wait(60.0)
        assert sampler._blocking.latest["other"].took_ns < 10**9
    sampler.close()


def test_every_source_is_closed_though_one_hangs_in_its_close() -> None:
    release = threading.Event()

    class Hangs(FakeSource):
        def close(self) -> None:
            release.wait(60)
            super().close()

    hung = Hangs("hung", int, inline=False)
    others = [FakeSource(str(i), int, inline=False) for i in range(3)]
    sampler = Sampler([hung, *others])
    sampler.sample(1.0, grace_s=60.0)
    sampler.close()
    assert [source.closed.is_set() for source in (hung, *others)] == [False, True, True, True]
    release.set()
    assert hung.closed.wait(60)
