"""Which processes and threads a scan reads, and how many of them in time."""

from __future__ import annotations

import shutil

import pytest

from nftop.sources.process import threads
from nftop.sources.process.source import ProcessSource
from tests.sources.process.fake_proc import FakeHost, S


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the threads' files that are opened."""
    names: list[str] = []
    real = threads._open

    def counted(path: str) -> int:
        names.append(path)
        return real(path)

    monkeypatch.setattr(threads, "_open", counted)
    return names


def test_ten_thousand_threads_that_come_and_go_do_not_make_numbers_old(
    host: FakeHost, opened: list[str]
) -> None:
    """Small scale: 200 threads, 20 a read. What a read costs is counted in files opened."""
    host.source = ProcessSource(host.root, threads_per_read=20, clock=lambda: host.now_ns)
    host.thread(50, 50, "vpp_wk_0", allowed="2", run_ns=0)

    def churn(tick: int) -> None:
        if tick:
            host.kill(200 + tick - 1)
        for number in range(200):
            host.thread(200 + tick, 10_000 * (tick + 1) + number, "worker")

    churn(0)
    host.read()
    complete = []
    for tick in range(1, 36):
        churn(tick)
        host.thread(50, 50, "vpp_wk_0", allowed="2", run_ns=tick * S)
        opened.clear()
        table = host.read(after_s=1.0)
        # Of a tenth of 201 threads stat and schedstat, and three files of the one that is watched.
        assert len(opened) <= 2 * 21 + 3
        (row,) = table.threads
        assert (row.run_ns, row.read_at_ns) == (tick * S, host.now_ns)
        complete.append(table.scanned_at_ns)
    assert len(set(complete)) >= 3  # passes come to their end all the same
    # A worker that starts is found by the next whole pass.
    host.thread(60, 60, "vpp_wk_1", allowed="3")
    results = [host.comms(after_s=1.0) for _ in range(25)]
    assert results[-1] == ["vpp_wk_0", "vpp_wk_1"]


def _several(host: FakeHost, count: int = 50) -> None:
    for tid in range(200, 200 + count):
        host.thread(200, tid, "worker")
    host.process(200, count, 100)
    host.read()
    host.read(after_s=1.0)  # compared with the first


def test_threads_of_a_quiet_process_are_not_read_again(host: FakeHost, opened: list[str]) -> None:
    _several(host)
    for _ in range(20):  # a hundred seconds
        opened.clear()
        host.read(after_s=5.0)
        assert [path for path in opened if "/200/task/" in path] == []


@pytest.mark.parametrize("change", ["runs", "thread more", "another thread"])
def test_threads_of_a_process_that_changes_are_read(
    host: FakeHost, opened: list[str], change: str
) -> None:
    _several(host)
    if change == "runs":
        host.process(200, 50, 100 + 30)  # 0.3 s
    elif change == "thread more":
        host.thread(200, 300, "vpp_wk_0", allowed="3")
        host.process(200, 51, 100)
    else:
        host.thread(200, 300, "vpp_wk_0", allowed="3")
        shutil.rmtree(host.root / "proc/200/task/249")
    opened.clear()
    names: list[str] = []
    # A change that neither the number of threads nor the CPU time shows: within 30 s and a pass.
    for _ in range(7 if change == "another thread" else 1):
        names = host.comms(after_s=5.0)
    assert f"{host.root}/proc/200/task/200/stat" in opened
    assert ("vpp_wk_0" in names) == (change != "runs")


def test_a_busy_process_with_very_many_threads_is_examined_now_and_then(
    host: FakeHost, opened: list[str]
) -> None:
    _several(host, 2000)
    scans = 0
    for tick in range(1, 19):  # 90 s
        host.process(200, 2000, 100 + 500 * tick)
        opened.clear()
        for _ in range(3):  # a pass is spread over these
            host.read(after_s=5 / 3)
        scans += f"{host.root}/proc/200/task/200/stat" in opened
    assert 3 <= scans <= 6


@pytest.mark.parametrize("interval_s", [0.5, 1.0, 5.0, 60.0])
def test_a_pass_over_many_threads_ends_in_time_at_any_interval(
    host: FakeHost, interval_s: float
) -> None:
    """Small scale: 300 threads, 5 a read: at 5 s a pass would take 300 s."""
    host.source = ProcessSource(host.root, threads_per_read=5, clock=lambda: host.now_ns)
    for number in range(300):
        host.thread(200, 200 + number, "worker")
    host.read()
    host.read(after_s=interval_s)  # the second pass begins
    began_ns = host.now_ns
    host.thread(60, 60, "vpp_wk_1", allowed="3")
    # One pass may be under way without it; before the next one there may be a pause of 5 s.
    while not host.comms(after_s=interval_s):
        assert host.now_ns - began_ns < (2 * 10 + 5 + 3 * interval_s) * S


def test_a_name_that_an_idle_process_took_is_seen(host: FakeHost) -> None:
    host.thread(60, 60, "python3")
    host.process(60, 1, 0, "python3")
    host.read()
    host.read(1)
    assert host.comms(40) == []
    host.process(60, 1, 0, "rte-worker-3")
    host.thread(60, 60, "rte-worker-3")
    assert host.comms(5) == ["rte-worker-3"]


def test_a_name_that_a_thread_of_an_idle_process_took_is_seen_in_time(host: FakeHost) -> None:
    host.thread(60, 60, "python3")
    host.thread(60, 61, "python3")
    host.process(60, 2, 0)
    host.read()
    host.read(1)
    host.thread(60, 61, "rte-worker-3")
    assert host.comms(40) == []
    assert "rte-worker-3" in host.comms(262)
