"""Events of a task: they count while it runs, and what it did outlives it."""

from __future__ import annotations

import pytest

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
    assert sorted(words(each)[0] for each in rows) == [0] * (CPUS - 1) + [S]
