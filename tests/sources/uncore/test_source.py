"""The source of the counters outside the cores: its thread, its end, and what doctor says."""

from __future__ import annotations

import errno
import threading
import time
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.check import Check
from nftop.model.missing import Missing, Reason
from nftop.model.uncore import UncoreTable
from nftop.session.live import Sampler
from nftop.sources.base import Source
from nftop.sources.uncore.source import UncoreSource, uncore_checks
from nftop.uarch import table
from tests.samples import topology
from tests.sources.uncore.bench import SECOND, Bench
from tests.sources.uncore.kernel import FakeUncore
from tests.waiting import until

SKX, ICX = table.load("SKX"), table.load("ICX")


def turning() -> list[threading.Thread]:
    return [item for item in threading.enumerate() if item.name == "nftop-uncore-turns"]


def test_turns_change_between_readings_and_end_with_the_source(tmp_path: Path) -> None:
    fake = FakeUncore(tmp_path, SKX)
    source = UncoreSource(SKX, root=tmp_path, kernel=fake.kernel)
    plain: Source = source
    assert (plain.name, plain.inline) == ("uncore", False)
    assert fake.opens == 0 and not turning()
    assert isinstance(source.read(), UncoreTable)
    (thread,) = turning()
    before = fake.switches
    until(lambda: fake.switches > before + 50)
    source.close()
    assert not thread.is_alive() and not fake.fds
    source.close()
    read = source.read()
    assert isinstance(read, Missing) and "closed" in read.message


def test_a_turn_that_fails_is_reported_by_the_next_reading_and_tried_again(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    fake = FakeUncore(tmp_path, SKX)
    source = UncoreSource(SKX, root=tmp_path, kernel=fake.kernel)
    assert isinstance(source.read(), UncoreTable)
    (thread,) = turning()
    broken = threading.Event()
    turn = source._counters.turn

    def breaks() -> None:
        broken.set()
        raise ZeroDivisionError("the wheel is off")

    source._counters.turn = breaks  # type: ignore[method-assign]
    assert broken.wait(60.0)
    with source._changed:  # the thread has done with it
        source._counters.turn = turn  # type: ignore[method-assign]
    why = source.read()
    assert isinstance(why, Missing) and why.reason is Reason.ERROR
    assert why.message == snapshot
    assert isinstance(source.read(), UncoreTable)
    before = fake.switches
    until(lambda: fake.switches > before + 50)
    source.close()
    assert not thread.is_alive()


def test_a_long_slice_is_no_reason_to_wait_for_the_end(tmp_path: Path) -> None:
    fake = FakeUncore(tmp_path, SKX)
    source = UncoreSource(SKX, root=tmp_path, kernel=fake.kernel, clock_ns=lambda: fake.now_ns)
    source.read()
    fake.now_ns += 3600 * SECOND
    source.read()  # the pace is an hour now, and by this clock no slice is ever over
    (thread,) = turning()
    source.close()
    assert not thread.is_alive()


def test_nothing_that_takes_turns_needs_no_thread(tmp_path: Path) -> None:
    fake = FakeUncore(tmp_path, SKX, boxes={"imc": 2, "upi": 2})
    source = UncoreSource(SKX, root=tmp_path, kernel=fake.kernel)
    assert isinstance(source.read(), UncoreTable)
    assert not turning()
    source.close()


def test_the_session_reads_it_in_a_thread_and_closes_it(tmp_path: Path) -> None:
    fake = FakeUncore(tmp_path, ICX)
    source = UncoreSource(ICX, root=tmp_path, kernel=fake.kernel)
    sampler = Sampler([source])
    try:
        until(lambda: isinstance(sampler.sample(1.0, 1.0).readings["uncore"].value, UncoreTable))
    finally:
        sampler.close()
    until(lambda: not fake.fds)
    assert not turning()


def test_pollers_are_reported_with_the_next_reading(tmp_path: Path) -> None:
    fake = FakeUncore(tmp_path, SKX)
    source = UncoreSource(SKX, root=tmp_path, kernel=fake.kernel)
    source.on_pollers([2], topology())
    read = source.read()
    source.close()
    assert isinstance(read, UncoreTable) and "CPU 2 polls" in read.warning


def test_doctor_counts_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    fake = FakeUncore(tmp_path, SKX, boxes={"imc": 2, "upi": 2})
    source = UncoreSource(SKX, root=tmp_path, kernel=fake.kernel)
    monkeypatch.setattr(time, "sleep", lambda _: fake.pass_ns(SECOND))
    links, memory, boxes = source.check()
    source.close()
    assert (memory.name, memory.reason) == ("uncore imc", Reason.PRESENT)
    assert memory.text == snapshot
    assert (links.name, links.reason) == ("uncore upi", Reason.PRESENT)
    assert (boxes.name, boxes.reason) == ("uncore cha", Reason.HARDWARE)
    assert "no PMU uncore_cha_0" in boxes.text and "package 0-1" in boxes.text


def test_doctor_without_the_privilege_reports_the_fix(tmp_path: Path) -> None:
    fake = FakeUncore(tmp_path, SKX, refuse=lambda pmu, package: errno.EACCES)
    source = UncoreSource(SKX, root=tmp_path, kernel=fake.kernel)
    (check,) = source.check()
    source.close()
    assert check.reason is Reason.PERMISSION and check.fix == "sudo nftop"


def checks(bench: Bench) -> dict[str, Check]:
    bench.tick()
    result = uncore_checks("uncore", bench.counters, bench.tick())
    assert len({check.name for check in result}) == len(result)
    return {check.name: check for check in result}


def test_doctor_reports_which_turn_has_how_much_of_the_time(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    result = checks(Bench(FakeUncore(tmp_path, ICX)))
    assert {check.reason for check in result.values()} == {Reason.PRESENT}
    text = result["uncore cha"].text
    assert text == snapshot
    slow = FakeUncore(tmp_path / "slow", ICX, switch_takes_ns=1_000_000)
    assert "takes 6.0 ms" in checks(Bench(slow))["uncore cha"].text


def test_doctor_reports_what_an_older_kernel_can_t(tmp_path: Path) -> None:
    result = checks(Bench(FakeUncore(tmp_path, ICX, umask_8_bits=True)))
    assert "uncore cha" not in result
    assert result["uncore cha itom_hit"].reason is Reason.HARDWARE
    assert result["uncore imc"].reason is Reason.PRESENT


def test_doctor_reports_that_another_program_has_the_counters(tmp_path: Path) -> None:
    fake = FakeUncore(tmp_path, SKX, share=lambda pmu: 0.0 if pmu == "uncore_imc_1" else 1.0)
    result = checks(Bench(fake))
    taken = result["uncore imc cas_read"]
    assert taken.reason is Reason.TAKEN and taken.fix
    assert "2 boxes" in taken.text
