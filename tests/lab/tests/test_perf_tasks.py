"""Events of a task: they count while it runs, and what it did outlives it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from nftop.sim import workloads
from nftop.sim.events import factors_of
from nftop.sim.workloads import INDEX
from nftop.uarch.table import Encoding
from tests.lab.perf import tasks
from tests.lab.tests.events import CPUS, DISABLED, INHERIT, ON_EXEC, SOFTWARE, Lab, S, words


def test_a_task_is_counted_while_it_runs() -> None:
    lab = Lab(ran_ns={77: 5 * S})
    bits = DISABLED | ON_EXEC | INHERIT
    clock = lab.open(SOFTWARE, 1, pid=77, cpu=-1, bits=bits)
    cycles = lab.raw(0x3C, pid=77, cpu=-1, bits=bits)
    lab.now_ns, lab.ran_ns[77] = 90 * S, 7 * S
    assert words(clock) == [2 * S, 2 * S, 2 * S]
    assert words(cycles)[0] == pytest.approx(2 * 2.2e9)


def test_what_a_task_did_outlives_it() -> None:
    lab = Lab(ran_ns={77: 0})
    clock = lab.open(SOFTWARE, 1, pid=77, cpu=-1)
    lab.ran_ns[77] = S
    words(clock)
    del lab.ran_ns[77]
    assert words(clock) == [S, S, S]
    clock.close()


def test_its_cpu_is_one_of_the_labs() -> None:
    lab = Lab(ran_ns={77: 0})
    rows = [lab.open(SOFTWARE, 1, pid=77, cpu=cpu) for cpu in range(CPUS)]
    lab.ran_ns[77] = S
    assert sorted(words(row)[0] for row in rows) == [0] * (CPUS - 1) + [S]


def test_one_thread_checks_all_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    lives: list[Callable[[], None]] = []

    class Late:
        """A thread that takes its time to begin."""

        def __init__(self, target: Callable[[], None], *, daemon: bool) -> None:
            assert daemon
            self.target = target

        def start(self) -> None:
            lives.append(self.target)

    monkeypatch.setattr(threading, "Thread", Late)
    watch = tasks.Watch()
    clock = tasks.TaskClock(tasks.Tasks(lambda _: 0, lambda _: 0), 77)
    for _ in range(3):
        watch.follow(clock)
        watch.forget(clock)
    assert len(lives) == 1
    lives[0]()  # to its end: there is nothing to look at
    watch.follow(clock)
    assert len(lives) == 2


def raw(code: int) -> float:
    """What a task has counted of an event of Skylake's after three seconds."""
    counts, factors = tasks.exact(3 * S), factors_of(Encoding(4, code))
    assert factors is not None
    return float(sum(factor * counts[INDEX[name]] for name, factor in factors.items()))


def test_its_top_down_is_shares_of_a_whole() -> None:
    # As perf stat reckons of one task with SMT on: tools/perf/pmu-events/arch/x86/skylakex.
    slots = 4 * raw(0x3C) / 2 * (1 + raw(0x23C) / raw(0x13C))
    recovered = 4 * raw(0x20010D) / 2
    shares = {
        "retiring": raw(0x2C2) / slots,
        "frontend_bound": raw(0x19C) / slots,
        "bad_speculation": (raw(0x10E) - raw(0x2C2) + recovered) / slots,
    }
    shares["backend_bound"] = 1 - sum(shares.values())
    assert all(0 < share < 1 for share in shares.values()), shares
    # Its core is its own: the model's workload is what it does.
    wanted = workloads.load("system").slots["retiring"]
    assert shares["retiring"] == pytest.approx(wanted, abs=0.01)
