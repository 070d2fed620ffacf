"""What holds of resctrl whatever is done to it, in whatever order."""

from __future__ import annotations

import errno
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nftop.model.column import Bools, Floats
from tests.lab.resctrl import ledger, numbers, profile
from tests.lab.resctrl.ledger import Host
from tests.lab.resctrl.state import Resctrl, controls, everything, path_of
from tests.lab.tests.hosts import SMALL, Lab, few, lab

_RMIDS, _CLASSES = 6, 4
_NAMES = st.sampled_from(["a", "b", "c", "d"])
_CONTROL = st.sampled_from(["", "/a", "/b", "/c", "/d"])
_GROUP = st.one_of(
    _CONTROL, st.builds("{}/mon_groups/{}".format, _CONTROL, st.sampled_from(["m", "n"]))
)
_VALUE = st.one_of(
    st.builds("{:x}".format, st.integers(0, 0x1000)),
    st.builds(
        lambda ways, low: f"{((1 << ways) - 1) << low:x}", st.integers(1, 6), st.integers(0, 7)
    ),
)
_LINE = st.one_of(
    st.builds("{}:{}={}".format, st.sampled_from(["L3", "L3CODE"]), st.integers(0, 2), _VALUE),
    st.builds("{}:0={};1={}".format, st.sampled_from(["L3", "L3DATA"]), _VALUE, _VALUE),
    st.builds("MB:{}={}".format, st.integers(0, 2), st.integers(0, 110)),
)


def snapshot(state: Resctrl) -> Mapping[str, tuple[object, ...]]:
    """What operators can change, by group's path."""
    return {
        path_of(group): (
            group.closid,
            group.rmid,
            frozenset(group.cpus),
            group.mode,
            tuple((name, tuple(own.items())) for name, own in group.values.items()),
            frozenset(pid for pid, member in state.members.items() if member.group is group),
        )
        for group in everything(state)
    }


class Operators(RuleBasedStateMachine):
    """Several operators at once, some of whom know what they do."""

    host: Lab
    cdp: bool

    @initialize(kernel=st.sampled_from(profile.kernels()), cdp=st.booleans())
    def mount(self, kernel: str, cdp: bool) -> None:
        self.cdp = cdp
        self.host = lab(kernel, few(_RMIDS, _CLASSES), ["cdp"] if cdp else [])

    def attempt(self, operation: str, *arguments: str) -> None:
        """Do it; if it is refused, nothing may be different."""
        before = snapshot(self.host.state)
        try:
            getattr(self.host, operation)(*arguments)
        except OSError as error:
            assert error.errno
            assert snapshot(self.host.state) == before
            assert self.host.status

    @rule(
        parent=st.sampled_from(["", "/mon_groups", "/a/mon_groups", "/b/mon_groups"]), name=_NAMES
    )
    def make(self, parent: str, name: str) -> None:
        self.attempt("mkdir", f"{parent}/{name}")

    @rule(group=_GROUP)
    def remove(self, group: str) -> None:
        self.attempt("rmdir", group or "/")

    @rule(old=_GROUP, new=_GROUP)
    def move(self, old: str, new: str) -> None:
        self.attempt("rename", old or "/", new or "/x")

    @rule(group=_CONTROL, lines=st.lists(_LINE, min_size=1, max_size=3))
    def allocate(self, group: str, lines: list[str]) -> None:
        self.attempt("echo", "\n".join(lines), f"{group}/schemata")

    @rule(group=_GROUP, cpus=st.sets(st.integers(0, 8)))
    def assign(self, group: str, cpus: set[int]) -> None:
        self.attempt("echo", numbers.list_text(cpus), f"{group}/cpus_list")

    @rule(group=_GROUP, pid=st.sampled_from(["100", "101", "200", "0", "7"]))
    def move_task(self, group: str, pid: str) -> None:
        self.attempt("echo", pid, f"{group}/tasks")

    @rule(group=_CONTROL, mode=st.sampled_from(["shareable", "exclusive", "pseudo-locksetup"]))
    def set_mode(self, group: str, mode: str) -> None:
        self.attempt("echo", mode, f"{group}/mode")

    @rule(seconds=st.floats(0.0, 30.0))
    def wait(self, seconds: float) -> None:
        self.host.clock.forward(seconds)

    @invariant()
    def every_cpu_has_one_class_and_at_most_one_monitoring_group(self) -> None:
        groups = list(controls(self.host.state))
        assert sorted(cpu for group in groups for cpu in group.cpus) == sorted(SMALL.online)
        for group in groups:
            below = [cpu for child in group.children.values() for cpu in child.cpus]
            assert len(set(below)) == len(below)
            assert set(below) <= group.cpus

    @invariant()
    def every_mask_is_one_that_the_hardware_takes(self) -> None:
        for group in controls(self.host.state):
            for name, values in group.values.items():
                for value in values.values():
                    if name == "MB":
                        assert value in range(10, 101, 10)
                    else:
                        assert "0" not in f"{value:b}".rstrip("0")
                        assert 0 < value <= 0x7FF

    @invariant()
    def exclusive_ways_are_nobody_else_s(self) -> None:
        groups = list(controls(self.host.state))
        for own in (group for group in groups if group.mode == "exclusive"):
            for name in (name for name in own.values if name != "MB"):
                for domain, mask in own.values[name].items():
                    assert not mask & 0x600
                    for other in (group for group in groups if group is not own):
                        for peer in (peer for peer in other.values if peer != "MB"):
                            assert not mask & other.values[peer][domain]

    @invariant()
    def no_rmid_is_lost_or_used_twice(self) -> None:
        pool = self.host.state.pool
        assert pool is not None
        used = [group.rmid for group in everything(self.host.state) if group.rmid is not None]
        assert sorted([*used, *pool.free, *pool.limbo]) == list(range(_RMIDS))

    @invariant()
    def no_class_is_used_twice(self) -> None:
        classes = [group.closid for group in controls(self.host.state)]
        assert len(set(classes)) == len(classes)
        assert max(classes) < _CLASSES

    @invariant()
    def every_task_is_in_one_control_group(self) -> None:
        names = [path_of(group).rstrip("/") for group in controls(self.host.state)]
        pids = [pid for name in names for pid in self.host.cat(f"{name}/tasks").split()]
        assert sorted(pids) == ["100", "101", "200"]

    @invariant()
    def a_cache_holds_no_more_than_it_has(self) -> None:
        book = self.host.state.ledger
        assert book is not None
        held = ledger.held_bytes(book, self.host.clock())
        assert (held >= -1e-6).all()
        # What was left when a mask shrank is still there while others already fill its place.
        assert (held <= 16 * 2**20 * (1 + 1e-9)).all()

    @invariant()
    def the_ledger_knows_every_cpu_s_rmid(self) -> None:
        book = self.host.state.ledger
        assert book is not None
        for group in controls(self.host.state):
            for cpu in group.cpus:
                children = [child for child in group.children.values() if cpu in child.cpus]
                assert book.rmid_of[cpu] == (children[0] if children else group).rmid


TestOperators = Operators.TestCase
TestOperators.settings = settings(
    max_examples=60, stateful_step_count=40, suppress_health_check=list(HealthCheck)
)


@given(st.lists(st.tuples(st.sets(st.integers(0, 7)), st.integers(0, 10**10)), max_size=6))
def test_what_all_groups_moved_is_what_the_cpus_moved(moves: list[tuple[set[int], int]]) -> None:
    host = lab("7.2")
    host.mkdir("/a")
    book = host.state.ledger
    assert book is not None
    for cpus, wait_ns in moves:
        host.echo(numbers.list_text(cpus), "/a/cpus_list")
        host.clock.now_ns += wait_ns
    moved = ledger.moved_bytes(book, host.clock()).sum(axis=0)
    traffic = book.host.traffic(host.clock())
    expected = [traffic[book.column_of == column].sum(axis=0) for column in range(2)]
    np.testing.assert_allclose(moved, expected, rtol=1e-12, atol=1e-3)


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=5), st.integers(1, 0x7FF))
def test_reading_occupancy_does_not_change_it(waits_ns: list[int], seed: int) -> None:
    book = lab("7.2", at_s=5.0).state.ledger
    assert book is not None
    generator = np.random.default_rng(seed)
    ways = ledger.all_ways(book)
    ways[0] = generator.random(ways.shape[1:]) < 0.5
    ledger.change(book, 5 * 10**9, generator.integers(0, 3, 8), ways)
    end_ns = 5 * 10**9 + sum(waits_ns)
    once = ledger.held_bytes(book, end_ns)
    for index in range(len(waits_ns)):
        at_ns = 5 * 10**9 + sum(waits_ns[: index + 1])
        ledger.change(book, at_ns, book.rmid_of, book.ways)
    np.testing.assert_allclose(ledger.held_bytes(book, end_ns), once, rtol=1e-9, atol=1e-3)


def test_occupancy_follows_what_runs_while_nobody_changes_anything() -> None:
    def fill(at_ns: int, cpus: Sequence[Sequence[int]], ways: Bools, way_bytes: float) -> Floats:
        return np.full(len(cpus), 2e6 if at_ns < 10 * 10**9 else 1e6)

    host = Host((0, 10 * 10**9), 2.0, lambda _: np.zeros((8, 2)), fill)
    book = ledger.start(SMALL, host, 0)
    np.testing.assert_allclose(ledger.held_bytes(book, 10 * 10**9)[0], 2e6)
    np.testing.assert_allclose(ledger.held_bytes(book, 14 * 10**9)[0], 1e6 * (1.0 + math.exp(-2.0)))


@given(st.sets(st.integers(0, 199)), st.integers(200, 300))
def test_sets_of_cpus_are_read_as_they_are_printed(cpus: set[int], possible: int) -> None:
    assert numbers.cpu_list(numbers.list_text(cpus) + "\n", possible) == cpus
    assert numbers.cpu_mask(numbers.mask_text(cpus, possible) + "\n", possible) == cpus


@given(st.text("0123456789,-:/N alxf\t", max_size=12))
def test_no_list_of_cpus_breaks_the_parser(text: str) -> None:
    for parse in (numbers.cpu_list, numbers.cpu_mask):
        try:
            assert parse(text, 16) <= set(range(16))
        except OSError as error:
            assert error.errno


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("all", {*range(8)}), ("5-N", {5, 6, 7}), ("0-7:1/4", {0, 4}), (" 1 , 3\n9", {1, 3})],
)
def test_lists_of_cpus_that_the_kernel_takes(text: str, cpus: set[int]) -> None:
    assert numbers.cpu_list(text, 8) == cpus


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("02,", {1}),
        ("1,,00000002 ", {1, 32}),
        ("\n", set()),
        ("2g", errno.EINVAL),
        ("g00000001", errno.EINVAL),
        ("000000001", errno.EOVERFLOW),
        ("0,0,0", errno.EOVERFLOW),
        ("100,0", errno.EOVERFLOW),
    ],
)
def test_masks_of_cpus_are_read_as_the_kernel_does(text: str, cpus: set[int] | int) -> None:
    try:
        assert numbers.cpu_mask(text, 40) == cpus
    except OSError as error:
        assert error.errno == cpus


@given(st.integers(-(2**31), 2**31 - 1))
def test_numbers_are_read_in_the_base_they_are_written_in(number: int) -> None:
    sign = "-" if number < 0 else ""
    assert numbers.signed(f"{number}\n") == number
    assert numbers.signed(f"{sign}0x{abs(number):X}") == number
    assert numbers.signed(f"{sign}0{abs(number):o}") == number
    assert numbers.signed(f"{2**31 + abs(number)}") is None


@given(st.text("0123456789abcdefxX+- \n", max_size=6))
def test_numbers_are_what_the_kernel_takes_for_one(text: str) -> None:
    for base in (10, 16):
        mine = numbers.unsigned(text, base)
        stripped = text.removesuffix("\n").removeprefix("+")
        digits = stripped[2:] if base == 16 and stripped[:2].lower() == "0x" else stripped
        plain = digits.isalnum() and "x" not in digits.lower()
        try:
            expected = int(digits, base) if plain else None
        except ValueError:
            expected = None
        assert mine == expected
