"""Keeping nftop itself off the polling cores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.ids import Core, Cpu, Package, format_cpu_list
from nftop.model.sample import CounterUse
from nftop.model.topology import CpuInfo, Topology
from nftop.sources.runtime.affinity import Affinity, choose_cpus
from nftop.sources.runtime.self_usage import OwnSource

HALF = 4


def host(
    isolated: frozenset[int] = frozenset(), nohz_full: frozenset[int] = frozenset()
) -> Topology:
    """Four cores of two threads: CPU n and n + 4 are siblings."""
    return Topology(
        tuple(
            CpuInfo(
                cpu=Cpu(cpu),
                online=True,
                core=Core(cpu % HALF),
                package=Package(0),
                die=0,
                l3=None,
                node=0,
                siblings=(Cpu((cpu + HALF) % (2 * HALF)),),
                isolated=cpu in isolated,
                nohz_full=cpu in nohz_full,
            )
            for cpu in range(2 * HALF)
        )
    )


ALL = range(8)


@pytest.mark.parametrize(
    ("usable", "polling", "isolated", "expected", "warning"),
    [
        (ALL, (), (), (0, 1, 2, 3, 4, 5, 6, 7), ""),
        (ALL, (1,), (), (0, 2, 3, 4, 6, 7), ""),
        (ALL, (1,), (2, 3, 6, 7), (0, 4), ""),
        ((1, 2, 6), (1,), (2, 6), (2, 6), "nftop runs on CPU 2,6, isolated or nohz_full"),
        (ALL, (0, 1, 2, 3), (), (4, 5, 6, 7), "nftop runs on CPU 4-7, hyper-thread siblings"),
        ((1, 5), (1,), (5,), (5,), "siblings of polling CPUs and isolated"),
        ((1, 5), (1, 5), (), (1, 5), "nftop runs on CPU 1,5, all polled"),
        ((2, 3), (1, 99), (), (2, 3), ""),  # a CPU the topology does not know
    ],
)
def test_choice(
    usable: tuple[int, ...],
    polling: tuple[int, ...],
    isolated: tuple[int, ...],
    expected: tuple[int, ...],
    warning: str,
) -> None:
    cpus, message = choose_cpus(usable, polling, host(isolated=frozenset(isolated)))
    assert cpus == expected
    assert warning in message
    assert bool(warning) == bool(message)


CPUS = st.frozensets(st.integers(0, 7))


@given(usable=CPUS.filter(bool), polling=CPUS, isolated=CPUS, nohz_full=CPUS)
def test_the_best_available_source_is_chosen(
    usable: frozenset[int],
    polling: frozenset[int],
    isolated: frozenset[int],
    nohz_full: frozenset[int],
) -> None:
    topology = host(isolated, nohz_full)
    chosen, warning = choose_cpus(usable, polling, topology)
    cores = topology.with_siblings(polling)
    assert chosen
    assert usable.issuperset(chosen)
    if not usable <= polling:
        assert polling.isdisjoint(chosen)
    if not usable <= cores:
        assert cores.isdisjoint(chosen)
    quiet = isolated | nohz_full
    if not usable <= cores | quiet:
        assert quiet.isdisjoint(chosen)
        assert not warning
    else:
        assert warning


MOVE = """
import json, os, sys, threading
from nftop.sources.runtime.affinity import Affinity
from nftop.sources.runtime.self_usage import OwnSource
from nftop.sources.host.topology import read_topology

stop = threading.Event()
threads = [threading.Thread(target=stop.wait) for _ in range(3)]
for thread in threads:
    thread.start()

def affinities():
    return sorted(
        {tuple(sorted(os.sched_getaffinity(int(tid)))) for tid in os.listdir("/proc/self/task")}
    )

affinity = Affinity()
out = [affinities()]
for polling in json.loads(sys.argv[1]):
    warning = affinity.keep_off(polling, read_topology())
    out.append([warning, affinities()])
out.append(OwnSource((), affinity).read().affinity)
stop.set()
print(json.dumps(out))
"""


@pytest.mark.real
@pytest.mark.alone
def test_every_thread_moves_and_comes_back() -> None:
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        pytest.skip("needs two CPUs")
    last, rest = usable[-1], usable[:-1]
    steps = [[last], [last], [], usable]
    result = subprocess.run(
        [sys.executable, "-c", MOVE, json.dumps(steps)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    start, off, again, back, nowhere, affinity = json.loads(result.stdout)
    assert start == [usable]
    (moved,) = off[1]  # all four threads alike
    assert set(moved) <= set(rest)
    assert off[0] == "" or len(rest) == 1
    assert again == off
    assert back == ["", [usable]]
    assert nowhere[1] == [usable]
    assert "all polled" in nowhere[0]
    assert affinity == usable


@dataclass
class Counter:
    """A source that counts."""

    name: str
    counter_reads: int
    counter_interrupts: int


def test_own_use_grows_with_work_and_names_every_source_that_counts() -> None:
    perf, uncore = Counter("perf", 3, 7), Counter("uncore", 20, 1)
    source = OwnSource((perf, uncore), Affinity())
    before = source.read()
    sum(i * i for i in range(200_000))
    perf.counter_reads, uncore.counter_interrupts = 5, 4
    after = source.read()
    assert after.cpu_ns > before.cpu_ns
    assert before.counters == {"perf": CounterUse(3, 7), "uncore": CounterUse(20, 1)}
    assert after.counters == {"perf": CounterUse(5, 7), "uncore": CounterUse(20, 4)}
    assert set(after.affinity) == os.sched_getaffinity(0)
    assert format_cpu_list(map(Cpu, os.sched_getaffinity(0))) in source.check()[0].text


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """Where this thread, the only one, may run: at each time, the last is now; CPUs 0 to 3."""
    moved = [{0, 1, 2, 3}]

    def move(tid: int, cpus: frozenset[int]) -> None:
        if 3 in cpus and len(cpus) == 1:
            raise OSError(22, "Invalid argument")
        moved.append(set(cpus))

    monkeypatch.setattr(os, "sched_getaffinity", lambda tid: moved[-1])
    monkeypatch.setattr(os, "sched_setaffinity", move)
    return moved


def test_a_thread_stays_next_to_what_it_reads_and_comes_back(moves: list[set[int]]) -> None:
    with Affinity().staying_on({1, 2, 7}):
        assert moves[-1] == {1, 2}
    assert moves == [{0, 1, 2, 3}, {1, 2}, {0, 1, 2, 3}]
    with pytest.raises(ValueError, match="x"), Affinity().staying_on({1}):
        raise ValueError("x")
    assert moves[-1] == {0, 1, 2, 3}


@pytest.mark.parametrize("cpus", [{7}, {0, 1, 2, 3, 4}, {3}, set()])
def test_a_thread_that_can_not_or_need_not_move_stays(
    moves: list[set[int]], cpus: set[int]
) -> None:
    """Not on its CPUs, already there, or gone offline under it."""
    with Affinity().staying_on(cpus):
        pass
    assert moves == [{0, 1, 2, 3}]


def test_a_move_of_everybody_meanwhile_is_not_undone(moves: list[set[int]]) -> None:
    affinity = Affinity()
    with affinity.staying_on({1}):
        affinity.keep_off({1}, host())
        moved_to = moves[-1]
        assert 1 not in moved_to
    assert moves[-1] == moved_to
