"""What the simulated sources hand over is what the real ones would."""

from __future__ import annotations

import numpy as np
import pytest

from nftop.model.reading import Reason
from nftop.model.sample import CounterTable
from nftop.sim import payloads, scenario
from nftop.sim.events import count
from nftop.sim.model import Model, model_of
from nftop.sources.simulated import simulated_host
from nftop.sources.thread_roles import role_of
from nftop.uarch import table
from tests.sim.hosts import S


@pytest.fixture(scope="module")
def model() -> Model:
    return model_of(scenario.load("default"), 88)


def test_thread_names_tell_their_roles(model: Model) -> None:
    rows = payloads.thread_table(model, S, S).threads
    assert len({row.tid for row in rows}) == len(rows)
    for row in rows:
        role = role_of(row.comm)
        # A DPDK main thread is known by its process, not its name.
        if row.role != "dpdk_main":
            assert (role.name, role.index) == (row.role, row.role_index)
        else:
            assert row.tid == row.pid
        assert len(row.comm.encode()) <= 15
        assert row.allowed == (row.last_cpu,)


def test_cpu_times_sum_to_the_time(model: Model) -> None:
    times = payloads.cpu_times(model, 1234 * S + 5_000_000)
    assert (times.ticks.sum(axis=1) == 123_400).all()


def test_an_event_the_host_lacks_has_a_reason(model: Model) -> None:
    uarch = table.parse(
        'name = "x"\ntitle = "x"\n[events]\na = { type = "raw", config = 0x3c }\n'
        'b = { type = "raw", config = 0xffff }\n[[plans]]\nevents = ["a", "b"]\nneeds = []\n'
    )
    counted = payloads.counter_table(model, S, uarch)
    assert (counted.reasons[:, 1] == Reason.HARDWARE).all()
    assert not counted.reasons[:, 0].any()
    assert counted.gaps == "no b: the simulated host has no such event"


def test_quiet_cpus_are_not_counted() -> None:
    host = simulated_host(not_counted=lambda _: {3, 5})
    counted = next(source for source in host.sources if source.name == "perf").read()
    assert isinstance(counted, CounterTable)
    quiet = np.flatnonzero(counted.reasons.any(axis=1))
    assert quiet.tolist() == [3, 5]
    assert not counted.values[quiet].any()
    assert "left out by --quiet-cpus" in counted.gaps


def test_counter_groups_share_the_time_and_the_counts(model: Model) -> None:
    uarch = simulated_host().uarch
    t_ns = 7 * S + 1
    counted = payloads.counter_table(model, t_ns, uarch)
    groups = uarch.plans[0].groups
    assert len(groups) == 4
    assert counted.events == tuple(event for group in groups for event in group)
    assert (counted.enabled_ns == t_ns).all()
    assert (counted.running_ns.sum(axis=1) == t_ns).all()
    assert np.ptp(counted.running_ns) == 1
    for event in set(counted.events):
        columns = [index for index, name in enumerate(counted.events) if name == event]
        seen = counted.values[:, columns]
        spec = uarch.events[event]
        for cpu in (0, 1, 45):
            whole = count(model, spec, cpu, t_ns)
            if len(columns) == 4:
                assert int(seen[cpu].sum()) == whole
            else:
                assert 0 <= int(seen[cpu, 0]) - whole // 4 <= 1
            assert np.ptp(seen[cpu]) <= 1


def test_every_check_says_simulated() -> None:
    checks = [check for source in simulated_host().sources for check in source.check()]
    assert len(checks) == 9
    assert all(check.text.startswith("SIMULATED: ") for check in checks)
