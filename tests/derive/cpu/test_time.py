from __future__ import annotations

import pytest

from nftop.derive.cpu.time import CpuTimeState, online_rows, step_cpu_times
from nftop.model.missing import Missing, Reason
from nftop.model.sample import SourceReading
from tests.samples import S, cpu_times, topology

TWO = topology(2, smt=False)


def test_shares_of_the_interval() -> None:
    before = SourceReading(cpu_times({0: {"idle": 100}, 1: {"idle": 100}}), S, 1)
    after = SourceReading(
        cpu_times(
            {
                0: {"idle": 125, "user": 50, "softirq": 10, "irq": 5, "steal": 10},
                1: {"idle": 150, "iowait": 50},
            }
        ),
        2 * S,
        1,
    )
    state, columns = step_cpu_times(CpuTimeState(), before, TWO)
    warming = columns["cpu_time_ratio"][0]
    assert isinstance(warming, Missing) and warming.reason is Reason.WARMING
    _, columns = step_cpu_times(state, after, TWO)
    assert columns["cpu_time_ratio"][0] == pytest.approx(0.75)
    assert columns["softirq_ratio"][0] == pytest.approx(0.15)
    assert columns["steal_ratio"][0] == pytest.approx(0.10)
    assert columns["cpu_time_ratio"][1] == 0.0


def test_idle_may_step_back() -> None:
    state, _ = step_cpu_times(
        CpuTimeState(), SourceReading(cpu_times({0: {"idle": 100}}), S, 1), TWO
    )
    after = SourceReading(cpu_times({0: {"idle": 98, "user": 50}}), 2 * S, 1)
    _, columns = step_cpu_times(state, after, TWO)
    assert columns["cpu_time_ratio"][0] == 1.0


def test_a_cpu_that_is_not_listed_is_offline() -> None:
    reading = SourceReading(cpu_times({0: {"idle": 100}}), S, 1)
    _, columns = step_cpu_times(CpuTimeState(), reading, TWO)
    offline = columns["steal_ratio"][1]
    assert isinstance(offline, Missing) and "offline" in offline.message
    assert online_rows(reading, TWO) == (True, False)
    assert online_rows(None, TWO) == (True, True)
