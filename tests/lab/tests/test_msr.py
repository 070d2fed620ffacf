"""RDT's registers: what they take, what they meter, and what resctrl makes of them."""

from __future__ import annotations

import errno
import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lab.msr import registers
from tests.lab.msr.registers import (
    COUNTER,
    EVTSEL,
    FIRST_LIMIT,
    FIRST_MASK,
    IIO_LLC_WAYS,
    L3_QOS_CFG,
    PQR_ASSOC,
    Registers,
    read,
    write,
)
from tests.lab.msr.tree import DeviceTree
from tests.lab.resctrl.state import Resctrl
from tests.lab.tests.hosts import RATE, ROOT, SCALE, SMALL, Clock, busy_host, lab, number


def fresh(clock: Clock | None = None, mounted: Resctrl | None = None) -> Registers:
    return registers.start(
        SMALL, busy_host(8), clock or Clock(), lambda: mounted, io_register=True, mba_config=False
    )


def metered(own: Registers, cpu: int, event: int, rmid: int) -> int:
    write(own, cpu, EVTSEL, rmid << 32 | event)
    return read(own, cpu, COUNTER) * SCALE


def test_they_start_as_after_a_boot() -> None:
    own = fresh()
    assert [read(own, 0, FIRST_MASK + n) for n in range(16)] == [0x7FF] * 16
    assert [read(own, 2, FIRST_LIMIT + n) for n in range(8)] == [0] * 8
    assert [read(own, cpu, PQR_ASSOC) for cpu in range(8)] == [0] * 8
    assert (read(own, 0, L3_QOS_CFG), read(own, 0, IIO_LLC_WAYS)) == (0, 0x600)


@pytest.mark.parametrize(
    ("register", "value"),
    [
        (FIRST_MASK, 0),
        (FIRST_MASK, 0x5),
        (FIRST_MASK + 1, 0x800),
        (FIRST_LIMIT, 91),
        (L3_QOS_CFG, 2),
        (PQR_ASSOC, 16 << 32),
        (PQR_ASSOC, 176),
        (PQR_ASSOC, 1 << 31),
        (COUNTER, 0),
        (FIRST_MASK + 16, 1),
        (FIRST_LIMIT + 8, 0),
        (0x123, 0),
    ],
)
def test_what_would_fault_is_an_error_and_changes_nothing(register: int, value: int) -> None:
    own, before = fresh(), fresh()
    assert number(lambda: write(own, 0, register, value)) == errno.EIO
    assert (own.masks, own.limits, own.pqr, own.apart) == (
        before.masks,
        before.limits,
        before.pqr,
        before.apart,
    )


def test_a_cache_has_its_own_masks_and_all_its_cpus_the_same() -> None:
    own = fresh()
    write(own, 0, FIRST_MASK + 3, 0xF0)
    write(own, 2, FIRST_LIMIT + 1, 55)
    assert [read(own, cpu, FIRST_MASK + 3) for cpu in (0, 1, 4, 2)] == [0xF0] * 3 + [0x7FF]
    assert [read(own, cpu, FIRST_LIMIT + 1) for cpu in (2, 7, 0)] == [50, 50, 0]
    write(own, 0, PQR_ASSOC, 3 << 32 | 9)
    assert [read(own, cpu, PQR_ASSOC) for cpu in (0, 4)] == [3 << 32 | 9, 0]


def test_an_rmid_counts_while_a_cpu_has_it_whichever_class_that_is_in() -> None:
    clock = Clock()
    own = fresh(clock)
    write(own, 1, PQR_ASSOC, 5)
    clock.forward(2)
    write(own, 1, PQR_ASSOC, 3 << 32 | 5)
    clock.forward(1)
    write(own, 1, PQR_ASSOC, 0)
    clock.forward(7)
    moved = 3 * 2 * RATE  # CPU 1 moves twice RATE a second
    assert metered(own, 0, 2, 5) == pytest.approx(moved, abs=2 * SCALE)
    assert metered(own, 0, 3, 5) == pytest.approx(0.75 * moved, abs=2 * SCALE)
    assert metered(own, 2, 2, 5) == 0  # the other cache's monitor


def test_a_class_fills_its_own_ways_only() -> None:
    clock = Clock()
    own = fresh(clock)
    write(own, 0, FIRST_MASK + 1, 0x7)
    for cpu in (0, 1, 4, 5):  # all beside the first cache
        write(own, cpu, PQR_ASSOC, 1 << 32 | 7)
    clock.forward(60)
    assert metered(own, 0, 1, 7) == pytest.approx(16 * (1 << 20) * 3 / 11, abs=SCALE)


def test_code_and_data_apart() -> None:
    clock = Clock()
    own = fresh(clock)
    write(own, 0, L3_QOS_CFG, 1)
    write(own, 0, FIRST_MASK + 2, 0x1)  # class 1's data
    write(own, 0, FIRST_MASK + 3, 0x6)  # and its code
    for cpu in (0, 1, 4, 5):
        write(own, cpu, PQR_ASSOC, 1 << 32 | 7)
    clock.forward(60)
    assert metered(own, 0, 1, 7) == pytest.approx(16 * (1 << 20) * 3 / 11, abs=SCALE)


@pytest.mark.parametrize("selected", [4, 1 | 176 << 32, 0xFF])
def test_a_monitor_that_is_absent_reports_error(selected: int) -> None:
    own = fresh()
    write(own, 0, EVTSEL, selected)
    assert read(own, 0, COUNTER) >> 63 == 1


def test_under_resctrl_they_show_what_it_has_set_and_take_nothing() -> None:
    host = lab("7.2")
    host.mkdir("/a")
    host.echo("L3:0=f0;1=3\nMB:1=30", "/a/schemata")
    host.echo("0-1", "/a/cpus_list")
    host.mkdir("/a/mon_groups/m")
    host.echo("1", "/a/mon_groups/m/cpus_list")
    own = fresh(host.clock, host.state)
    assert (read(own, 0, FIRST_MASK + 1), read(own, 2, FIRST_MASK + 1)) == (0xF0, 0x3)
    assert (read(own, 0, FIRST_LIMIT + 1), read(own, 2, FIRST_LIMIT + 1)) == (0, 70)
    group = host.state.groups["a"]
    assert read(own, 0, PQR_ASSOC) == group.closid << 32 | (group.rmid or 0)
    assert read(own, 1, PQR_ASSOC) == group.closid << 32 | (group.children["m"].rmid or 0)
    host.clock.forward(3)
    rmid = group.children["m"].rmid or 0
    printed = int(host.cat("/a/mon_groups/m/mon_data/mon_L3_00/mbm_total_bytes"))
    assert metered(own, 0, 2, rmid) == printed > 0
    for register in (PQR_ASSOC, FIRST_MASK, FIRST_LIMIT, L3_QOS_CFG):
        assert number(lambda register=register: write(own, 0, register, 1)) == errno.EIO  # type: ignore[misc]


def test_a_cpu_without_rdt_has_none_of_them() -> None:
    bare = replace(SMALL, allocation=None, bandwidth=None, monitoring=None)
    own = registers.start(
        bare, busy_host(8), Clock(), lambda: None, io_register=False, mba_config=True
    )
    for register in (PQR_ASSOC, EVTSEL, COUNTER, L3_QOS_CFG, FIRST_MASK, FIRST_LIMIT, IIO_LLC_WAYS):
        assert number(lambda register=register: read(own, 0, register)) == errno.EIO  # type: ignore[misc]


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 15), st.integers(0, 175), st.floats(0, 3)),
        max_size=12,
    )
)
def test_nothing_that_moved_is_lost_or_counted_twice(
    moves: list[tuple[int, int, int, float]],
) -> None:
    clock = Clock()
    own = fresh(clock)
    for cpu, clos, rmid, seconds in moves:
        write(own, cpu, PQR_ASSOC, clos << 32 | rmid)
        clock.forward(seconds)
    total = sum(metered(own, cpu, 2, rmid) for cpu in (0, 2) for rmid in range(176))
    moved = sum(range(1, 9)) * RATE * clock.now_ns / 1e9
    assert moved - 16 * SCALE * len(moves) - 16 * SCALE <= total <= moved + 1


class _Bank:
    """A register that holds what it is told."""

    def __init__(self) -> None:
        self.held: dict[tuple[int, int], int] = {}

    def read(self, cpu: int, number: int) -> int:
        return self.held.get((cpu, number), 0)

    def write(self, cpu: int, number: int, value: int) -> None:
        self.held[cpu, number] = value


def test_devices_are_read_and_written_by_the_number_of_the_register() -> None:
    bank = _Bank()
    tree = DeviceTree(bank, (), lambda: {0, 3})
    assert tree.names("/") == ("0", "3")
    assert tree.names("/3") == ("cpuid", "msr")
    assert number(lambda: tree.lookup("/1/msr")) == errno.ENOENT
    assert number(lambda: tree.lookup("/0/other")) == errno.ENOENT
    assert (tree.lookup("/3/msr").mode, tree.lookup("/3/cpuid").mode) == (0o600, 0o444)
    handle = tree.open("/3/msr", 2, ROOT)
    assert handle.write(struct.pack("<Q", 7), 0xC90) == 8
    assert handle.read(16, 0xC90) == struct.pack("<2Q", 7, 7)
    assert bank.held == {(3, 0xC90): 7}
    assert number(lambda: handle.read(4, 0xC90)) == errno.EINVAL
    assert number(lambda: handle.write(b"1234", 0xC90)) == errno.EINVAL
