"""Perf events as files: what is read, what ioctl does, what is refused. No mount, no privileges."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.sim.events import count
from nftop.uarch.table import Encoding, PmuTerms
from tests.lab.tests import events
from tests.lab.tests.events import (
    DISABLE,
    DISABLED,
    ENABLE,
    GROUP,
    HARDWARE,
    ID,
    LOST,
    MS,
    POLLER,
    RAW,
    RESET,
    SOFTWARE,
    SUPERVISOR,
    TIMES,
    Lab,
    S,
    expected,
    id_of,
    words,
)
from tests.lab.tree import Tree

MSR = 12


def test_it_is_a_tree() -> None:
    tree: Tree = Lab().tree
    assert tree.lookup("/").folder
    with pytest.raises(OSError) as caught:
        tree.lookup("/x")
    assert caught.value.errno == errno.ENOENT


def test_files_are_present_while_they_are_open() -> None:
    lab = Lab()
    handle = lab.raw(0x3C)
    (name,) = lab.tree.names("/")
    assert not lab.tree.lookup(f"/{name}").folder
    with pytest.raises(OSError) as caught:
        lab.tree.open(f"/{name}", 2, SUPERVISOR)
    assert caught.value.errno == errno.EBUSY
    handle.close()
    assert lab.tree.names("/") == []


@pytest.mark.parametrize("config", [0x3C, 0xC0, 0x300, 0x20003C, 0x412E, 0x140014A3])
def test_a_count_is_the_models(config: int) -> None:
    lab = Lab(now_ns=3 * S)
    handle = lab.raw(config, cpu=POLLER)
    lab.now_ns = 5 * S
    value, enabled, running = words(handle)
    assert value == pytest.approx(expected(config, POLLER, 3 * S, 5 * S), abs=1)
    assert enabled == running == 2 * S


@given(times=st.lists(st.integers(0, 400 * MS), min_size=2, max_size=6))
def test_counts_do_not_depend_on_how_often_they_are_read(times: list[int]) -> None:
    lab = Lab()
    often, once = lab.raw(0xC0, cpu=POLLER), lab.raw(0xC0, cpu=POLLER)
    before = [0, 0, 0]
    for step in times:
        lab.now_ns += step
        now = words(often)
        assert all(new >= old for new, old in zip(now, before, strict=True))
        before = now
    assert words(once)[0] == words(often)[0]
    assert words(once)[1] >= sum(times)


def test_time_goes_by_between_two_reads_though_the_clock_stands() -> None:
    """As it does for every program on a kernel; nothing is counted in it."""
    lab = Lab()
    handle, off = lab.raw(0xC0), lab.raw(0xC0, bits=DISABLED)
    lab.now_ns = S
    count, *_ = first = words(handle)
    assert [words(handle) for _ in range(2)] == [[count, S + 1, S + 1], [count, S + 2, S + 2]]
    assert words(lab.raw(0xC0)) == [0, 1, 1]
    assert words(off) == words(off) == [0, 0, 0]
    lab.now_ns = 2 * S
    assert words(handle)[1:] == [2 * S, 2 * S]
    assert first[1:] == [S, S]
    words(handle)
    handle.ioctl(DISABLE, 0, None)
    assert words(handle)[1:] == [2 * S + 1, 2 * S + 1]


def test_the_time_of_a_task_that_does_not_run_stands() -> None:
    lab = Lab()
    lab.ran_ns[7] = 0
    handle = lab.raw(0xC0, pid=7, cpu=-1)
    assert words(handle) == words(handle) == [0, 0, 0]


def test_an_unknown_code_counts_is_never_seen_and_is_reported() -> None:
    lab = Lab()
    assert lab.tree.unknown == ""
    handle = lab.raw(0x1FF)
    lab.now_ns = S
    assert words(handle) == [0, S, S]
    lab.raw(0x1FF, cpu=POLLER, config1=0).close()
    lab.open(SOFTWARE, 2)
    lab.raw(0x10D3)  # what never happens is known to
    lab.raw(0x3C, config1=5)
    assert lab.code(RAW, 0x1B7, config1=0x10001) == 0
    assert lab.tree.unknown.splitlines() == [
        "cpu/config=0x1ff/ 2",
        "software/config=0x2/ 1",
        "cpu/config=0x1b7,config1=0x10001/ 1",
    ]


def test_a_response_of_the_uncore_is_reported_in_two_words() -> None:
    lab = Lab("bdx")
    local, remote = (
        lab.raw(0x1B7, config1=word, cpu=POLLER) for word in (0x604000001, 0x63BC00001)
    )
    lab.now_ns = 10 * S
    (near, *_), (far, *_) = words(local), words(remote)
    assert far > 0 and near == pytest.approx(49 * far, rel=1e-3)
    assert lab.tree.unknown == ""


def test_generic_software_and_msr_events() -> None:
    lab = Lab()
    rows = {
        "cycles": lab.open(HARDWARE, 0, cpu=POLLER),
        "task-clock": lab.open(SOFTWARE, 1, cpu=POLLER),
        "switches": lab.open(SOFTWARE, 3, cpu=POLLER),
        "faults": lab.open(SOFTWARE, 2, cpu=POLLER),
        "tsc": lab.open(MSR, 0, cpu=POLLER),
        "mperf": lab.open(MSR, 2, cpu=POLLER),
    }
    lab.now_ns = 10 * S
    value = {name: words(handle)[0] for name, handle in rows.items()}
    model = events.model()
    assert value["cycles"] == pytest.approx(expected(0x3C, POLLER, 0, 10 * S), abs=1)
    assert value["task-clock"] == 10 * S
    assert value["switches"] == count(model, Encoding(SOFTWARE, 3), POLLER, 10 * S)
    assert value["faults"] == 0
    assert value["tsc"] == count(model, PmuTerms("msr", "tsc"), POLLER, 10 * S)
    assert value["mperf"] == pytest.approx(expected(0x300, POLLER, 0, 10 * S), abs=1)


def test_read_formats() -> None:
    lab = Lab()
    leader = lab.raw(0x3C, form=TIMES | GROUP | ID | LOST)
    number = id_of(leader)
    other = lab.raw(0xC0, leader=number, form=ID)
    lab.now_ns = S
    cycles, instructions = expected(0x3C, 0, 0, S), expected(0xC0, 0, 0, S)
    whole = words(leader)
    assert whole[:3] == [2, S, S]
    assert whole[3:] == [
        pytest.approx(cycles, abs=1),
        number,
        0,
        pytest.approx(instructions, abs=1),
        id_of(other),
        0,
    ]
    assert words(other) == [pytest.approx(instructions, abs=1), id_of(other)]
    assert id_of(other) != number


def test_a_buffer_that_is_too_small_is_enospc() -> None:
    handle = Lab().group(0x3C, 0xC0)
    with pytest.raises(OSError) as caught:
        handle.read(8 * 5 - 1, 0)
    assert caught.value.errno == errno.ENOSPC
    assert len(handle.read(8 * 5, 777)) == 40  # wherever the file's position is


def test_enable_disable_and_reset() -> None:
    lab = Lab()
    handle = lab.raw(0x3C, bits=DISABLED)
    lab.now_ns = S
    assert words(handle) == [0, 0, 0]
    handle.ioctl(ENABLE, 0, None)
    lab.now_ns = 3 * S
    handle.ioctl(DISABLE, 0, None)
    lab.now_ns = 9 * S
    value, enabled, running = words(handle)
    assert (enabled, running) == (2 * S, 2 * S)
    assert value == pytest.approx(expected(0x3C, 0, S, 3 * S), abs=1)
    handle.ioctl(RESET, 0, None)
    assert words(handle) == [0, 2 * S, 2 * S]


def test_a_leader_switches_its_group_on() -> None:
    lab = Lab()
    leader = lab.group(0x3C, 0xC0, bits=DISABLED)
    lab.now_ns = S
    assert words(leader) == [2, 0, 0, 0, 0]
    leader.ioctl(ENABLE, 1, None)
    lab.now_ns = 2 * S
    assert words(leader)[1:3] == [S, S]
    assert min(words(leader)[3:]) > 0


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (0x2402, 22),
        (0x40082404, 22),
        (0x40082406, 22),
        (0x40042408, 22),
        (0x5401, 25),
        (0x24FF, 25),
    ],
)
def test_ioctls_that_are_refused(request_: int, code: int) -> None:
    with pytest.raises(OSError) as caught:
        Lab().raw(0x3C).ioctl(request_, 0, bytearray(8))
    assert caught.value.errno == code


def test_siblings_outlive_their_leader() -> None:
    lab = Lab()
    leader = lab.raw(0x3C)
    sibling = lab.raw(0xC0, leader=id_of(leader))
    lab.now_ns = S
    leader.close()
    lab.now_ns = 2 * S
    assert words(sibling)[1:] == [2 * S, 2 * S]
    assert words(sibling)[0] == pytest.approx(expected(0xC0, 0, 0, 2 * S), abs=1)


def test_events_of_a_cpu_that_goes_offline_stay_dead() -> None:
    lab = Lab()
    leader = lab.group(0x3C, 0xC0)
    lab.now_ns = S
    lab.online.discard(0)
    size, enabled, running, value = words(leader)  # its group has fallen apart
    assert (size, enabled, running) == (1, S, S)
    assert value == pytest.approx(expected(0x3C, 0, 0, S), abs=1)
    lab.online.add(0)
    lab.now_ns = 2 * S
    leader.ioctl(ENABLE, 1, None)
    again = lab.raw(0x3C)
    lab.now_ns = 3 * S
    assert words(leader) == [1, S, S, value]
    assert words(again)[1:] == [S, S]
    leader.close()
    again.close()


class TestIcelake:
    METRICS = (0x8000, 0x8100, 0x8200, 0x8300)

    def test_metrics_of_the_slots(self) -> None:
        lab = Lab("icx")
        leader = lab.group(0x400, *self.METRICS)
        lab.now_ns = S
        slots, *components = words(leader)[3:]
        assert sum(components) == pytest.approx(slots, abs=8)
        assert slots == pytest.approx(expected(0x400, 0, 0, S, "ICX"), abs=1)

    def test_slots_must_lead(self) -> None:
        lab = Lab("icx")
        cycles, slots = lab.raw(0x3C), lab.raw(0x400)
        assert lab.code(RAW, 0x8000) == errno.EINVAL
        assert lab.code(RAW, 0x8000, leader=id_of(cycles)) == errno.EINVAL
        assert lab.code(RAW, 0x8000, leader=id_of(slots)) == 0
        # What this CPU's metrics don't know is another event, as Linux 6.1 has it.
        assert lab.code(RAW, 0x8400) == 0

    def test_slots_take_no_filter(self) -> None:
        assert Lab("icx").code(RAW, 0x400 | 1 << 24) == errno.EINVAL

    def test_metrics_end_with_their_slots(self) -> None:
        lab = Lab("icx")
        slots = lab.raw(0x400)
        metric = lab.raw(0x8000, leader=id_of(slots))
        slots.close()
        assert metric.read(64, 0) == b""


def test_skylake_takes_those_codes_for_events() -> None:
    # Linux 6.1 on a Skylake model: both open.
    assert [Lab().code(RAW, config) for config in (0x400, 0x8000)] == [0, 0]
