"""Shares of time, and who polls: also where the kernel is late with a thread's time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.derive.threads import ThreadRate, ThreadState, step_threads
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.sample import SourceReading
from nftop.model.threads import ThreadRow
from tests.samples import S, thread, threads


def follow(rows: list[ThreadRow], nohz_full: tuple[int, ...] = ()) -> list[ThreadRate]:
    state, rates = ThreadState(), []
    for row in rows:
        reading = SourceReading(threads(row), row.read_at_ns, 1)
        state, result = step_threads(state, reading, frozenset(map(Cpu, nohz_full)))
        rates.append(result[0])
    return rates


def at(
    seconds: float, run_s: float, wait_s: float = 0.0, switches: int = 0, sleeps: int = 0
) -> ThreadRow:
    return thread(
        read_at_ns=int(seconds * S),
        run_ns=int(run_s * S),
        wait_ns=int(wait_s * S),
        involuntary=switches,
        voluntary=sleeps,
    )


def test_shares_of_the_time_between_two_reads_of_the_thread_itself() -> None:
    first, second = follow([at(1, 10, 5), at(3, 11, 5.5, sleeps=1)])
    assert isinstance(first.run_ratio, Missing) and first.polls is None
    assert second.run_ratio == pytest.approx(0.5)
    assert second.wait_ratio == pytest.approx(0.25)
    assert second.polls is True


def test_a_thread_that_goes_to_sleep_polls_no_more() -> None:
    rates = follow([at(0, 0), at(1, 1), at(2, 1, sleeps=1), at(3, 1, sleeps=1)])
    assert [rate.polls for rate in rates] == [None, True, False, False]
    assert [rate.run_ratio for rate in rates[1:]] == [1.0, 0.0, 0.0]


def test_a_load_near_the_threshold_does_not_flicker() -> None:
    run_s = [0.0, 0.45, 1.0, 1.4, 1.9, 2.3, 2.4]
    rates = follow([at(n, run, sleeps=n) for n, run in enumerate(run_s)])
    assert [rate.polls for rate in rates[1:]] == [False, True, True, True, True, False]


def test_a_poller_that_gets_no_cpu_at_all_waits_and_stays_a_poller() -> None:
    """The kernel books a wait when it ends: at first none, then more than the interval."""
    starved = [at(n, 2, wait_s=0.0, switches=1) for n in (3, 4, 5, 6, 7)]
    let_in = at(8, 2.1, wait_s=5.9, switches=2)
    rates = follow([at(0, 0), at(1, 1), at(2, 2), *starved, let_in])
    for rate in rates[3:-1]:
        assert (rate.run_ratio, rate.wait_ratio, rate.polls) == (0.0, 1.0, True)
    assert rates[-1].run_ratio == pytest.approx(0.1)
    assert rates[-1].wait_ratio == pytest.approx(0.9)


@pytest.mark.parametrize("interval_s", [0.1, 0.5, 0.7, 1.0])
def test_a_poller_on_a_nohz_full_cpu_is_one_at_every_tick(interval_s: float) -> None:
    """The kernel adds a second to its time once a second, and nothing in between."""
    ticks = [at(n * interval_s, int(n * interval_s + 1e-9)) for n in range(int(12 / interval_s))]
    rates = follow(ticks, nohz_full=(1,))
    known = rates[int(2.5 / interval_s) :]
    assert all(rate.polls for rate in known)
    assert all(rate.run_ratio == 1.0 for rate in known)
    assert all(rate.wait_ratio == 0.0 for rate in known)


def test_a_sleeper_on_a_nohz_full_cpu_does_not_poll() -> None:
    rates = follow([at(n, 5, switches=0) for n in range(8)], nohz_full=(1,))
    assert rates[-1].polls is False
    assert rates[-1].run_ratio == 0.0


def test_a_poller_that_is_switched_out_on_a_nohz_full_cpu_is_measured_again() -> None:
    steady = [at(n, n) for n in range(5)]
    left = [at(4 + n, 4 + n * 0.2, wait_s=n * 0.8, switches=n) for n in range(1, 6)]
    last = follow([*steady, *left], nohz_full=(1,))[-1]
    assert last.run_ratio == pytest.approx(0.2)
    assert last.wait_ratio == pytest.approx(0.8)
    assert last.polls is True


def test_without_schedstat_clock_ticks_report_a_poller() -> None:
    rows = [thread(read_at_ns=n * S, run_ns=n * S, wait_ns=None) for n in range(3)]
    last = follow(rows)[-1]
    assert last.run_ratio == 1.0 and last.polls is True
    assert isinstance(last.wait_ratio, Missing) and last.wait_ratio.reason is Reason.HARDWARE


@given(
    st.lists(
        st.tuples(st.integers(1, 10**10), st.integers(-(10**9), 10**10), st.integers(0, 10**10)),
        max_size=12,
    ),
    st.booleans(),
)
def test_no_history_gives_a_share_outside_0_to_1(
    steps: list[tuple[int, int, int]], late: bool
) -> None:
    now = run_ns = wait_ns = 10**10
    rows = []
    for passed, ran, waited in steps:
        now, run_ns, wait_ns = now + passed, max(run_ns + ran, 0), wait_ns + waited
        rows.append(thread(read_at_ns=now, run_ns=run_ns, wait_ns=wait_ns, voluntary=waited % 2))
    for rate in follow(rows, nohz_full=(1,) if late else ()):
        run, wait = rate.run_ratio, rate.wait_ratio
        assert isinstance(run, Missing) or 0.0 <= run <= 1.0
        assert isinstance(wait, Missing) or 0.0 <= wait <= 1.0
        if isinstance(run, float) and isinstance(wait, float):
            assert run + wait <= 1.0 + 1e-9
