"""Counter groups that take turns: what is open, what runs when, and what a reading says of it."""

from __future__ import annotations

import errno
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.sample import CounterTable
from nftop.sources.base import RETRY_AFTER_NS, Turning
from nftop.sources.perf.cpu_groups import RETRY_MIN_NS
from nftop.sources.perf.source import PerfSource
from nftop.uarch.table import parse
from tests.sources import perf_kernel
from tests.sources.perf_kernel import CYCLES, INSTRUCTIONS, STARTED_NS, Event, FakeKernel
from tests.sources.trees import put

SECOND = 1_000_000_000
A, B, C, D = (4, 0xA), (4, 0xB), (4, 0xC), (4, 0xD)
RATES = {CYCLES: 3, INSTRUCTIONS: 5, A: 2, B: 7, C: 11, D: 13}
EVENTS = {"cycles": CYCLES, "instructions": INSTRUCTIONS, "a": A, "b": B, "c": C, "d": D}
# Two groups in turns, and two more for a core that somebody looks at.
TABLE = """
name = "x"
title = "x"
[events]
cycles = { type = "hardware", config = 0 }
instructions = { type = "hardware", config = 1 }
a = { type = "raw", config = 0xa }
b = { type = "raw", config = 0xb }
c = { type = "raw", config = 0xc }
d = { type = "raw", config = 0xd }
[plans.main]
events = ["cycles", "instructions"]
needs = ["cycles"]
turns = [["cycles", "a"], ["cycles", "b"]]
[plans.cycles]
events = ["cycles"]
needs = ["cycles"]
[focus]
third = ["cycles", "c"]
fourth = ["cycles", "d"]
"""
COLUMNS = ("cycles", "instructions", "cycles", "a", "cycles", "b")
FOCUS_COLUMNS = (*COLUMNS, "cycles", "c", "cycles", "d")


@pytest.fixture(autouse=True)
def rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_kernel, "RATES", RATES)


@dataclass
class Bench:
    """A source on a fake kernel whose CPUs n and n + 2 are one core."""

    fake: FakeKernel
    quiet: tuple[int, ...] = ()
    turns: bool = True
    source: PerfSource = field(init=False)
    before: dict[bool, CounterTable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.fake.known = frozenset(RATES)
        self.source = PerfSource(
            root=self.fake.root,
            kernel=self.fake.kernel,
            clock_ns=lambda: self.fake.now_ns,
            uarch=parse(TABLE),
            quiet_cpus=self.quiet,
            turns=self.turns,
            threads_of=lambda cpu: (Cpu(cpu % 2), Cpu(cpu % 2 + 2)),
        )

    def tick(self, *, turn: bool = True) -> CounterTable:
        """A second, its last tenth for whose turn it is; or a late one, without."""
        self.fake.pass_ns(9 * SECOND // 10)
        if turn and self.source.turning:
            self.source.turn()
            self.alone()
        self.fake.pass_ns(SECOND // 10)
        table = self.source.read()
        self.alone()
        assert isinstance(table, CounterTable), table
        for item in (table, table.focus):
            if item is not None:
                must_hold(self.before.get(item is table), item)
        self.before = {entry is table: entry for entry in (table, table.focus) if entry is not None}
        return table

    def alone(self) -> None:
        """Of each CPU at most one group runs: the kernel is not to let them take turns."""
        for cpu in range(self.fake.cpus):
            assert len(self.fake.running(cpu)) <= 1

    def main(self) -> None:
        """The group that runs is the one with the most to say."""
        for cpu in self.fake.online:
            for leader in self.fake.running(cpu):
                members = {self.fake.fds[fd].event for fd in self.fake.fds[leader].members}
                assert members <= {CYCLES, INSTRUCTIONS}


def must_hold(before: CounterTable | None, table: CounterTable) -> None:
    """Numbers grow by what their groups count while they run; absent ones are 0 and say why."""
    counted: dict[int, set[str]] = {}
    was = {} if before is None else {int(cpu): at for at, cpu in enumerate(before.cpus)}
    for row, column in np.argwhere(table.reasons == 0).tolist():
        counted.setdefault(row, set()).add(table.events[column])
        ran, value = int(table.running_ns[row, table.group[column]]), int(table.values[row, column])
        old = was.get(int(table.cpus[row]))
        if before is None or old is None:
            continue
        ran_before = int(before.running_ns[old, table.group[column]])
        if ran >= ran_before:  # else another group counts, from 0 on
            ran, value = ran - ran_before, value - int(before.values[old, column])
        assert value == ran * RATES[EVENTS[table.events[column]]]
    for row, column in np.argwhere(table.reasons > 0).tolist():
        assert table.values[row, column] == 0
        event = table.events[column]
        if event not in counted.get(row, ()):
            assert table.details[event][int(table.reasons[row, column])]
    assert (table.running_ns <= table.enabled_ns).all()


def reason(table: CounterTable, event: str, row: int = 0, group: int | None = None) -> Reason:
    """The best of the event's columns, or that of one group."""
    codes = [
        int(table.reasons[row, column])
        for column, name in enumerate(table.events)
        if name == event and group in (None, table.group[column])
    ]
    return Reason(min(codes))


def ran(before: CounterTable, after: CounterTable, *, row: int = 0) -> list[int]:
    """Milliseconds that each group ran between the tables."""
    return [round(float(item) / 1e6) for item in (after.running_ns[row] - before.running_ns[row])]


def test_multiplexing_is_reported_only_with_turns(tmp_path: Path) -> None:
    bench = Bench(FakeKernel(tmp_path))
    source: Turning = bench.source
    assert not source.turning  # nothing is open
    table = bench.tick()
    assert (source.turning, table.turns) == (True, 2)
    plain = Bench(FakeKernel(tmp_path / "plain"), turns=False)
    assert plain.tick().turns == 0
    assert not plain.source.turning


def test_the_main_group_runs_but_for_the_last_tenth(tmp_path: Path) -> None:
    bench = Bench(FakeKernel(tmp_path))
    tables = [bench.tick() for _ in range(5)]
    bench.main()
    assert tables[0].events == COLUMNS
    slices = [ran(*pair) for pair in pairwise(tables)]
    assert slices == [[900, 100, 0], [900, 0, 100], [900, 100, 0], [900, 0, 100]]
    # The time in which any of them was to run is all the time.
    for before, after in pairwise(tables):
        passed = (after.enabled_ns - before.enabled_ns).astype(np.int64)
        assert abs(passed - SECOND).max() <= STARTED_NS
    assert tables[-1].gaps == ""


def test_a_tick_costs_two_reads_and_four_interrupts_and_one_without_turns(tmp_path: Path) -> None:
    for turns, reads, interrupts in ((True, 2, 4), (False, 1, 1)):
        bench = Bench(FakeKernel(tmp_path / str(turns)), turns=turns)
        bench.tick()
        before = bench.source.counter_reads, bench.source.counter_interrupts
        switched, read = len(bench.fake.switches), len(bench.fake.reads)
        bench.tick()
        assert bench.source.counter_reads - before[0] == reads * 4
        assert bench.source.counter_interrupts - before[1] == interrupts * 4
        assert len(bench.fake.reads) - read == reads * 4
        assert len(bench.fake.switches) - switched == (16 if turns else 0)


def test_a_late_tick_skips_its_turn_and_loses_nothing(tmp_path: Path) -> None:
    bench = Bench(FakeKernel(tmp_path))
    first = bench.tick()
    late = bench.tick(turn=False)
    assert ran(first, late) == [1000, 0, 0]
    assert ran(late, bench.tick()) == [900, 100, 0]


def test_without_turns_columns_name_the_requested_metric(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    bench = Bench(FakeKernel(tmp_path), turns=False)
    bench.tick()
    table = bench.tick()
    assert table.events == COLUMNS
    assert reason(table, "a") is reason(table, "b") is Reason.SOURCE
    assert set(table.details["a"]) == {Reason.SOURCE}
    assert table.details["a"][Reason.SOURCE] == snapshot
    assert reason(table, "cycles", group=0) is reason(table, "instructions") is Reason.PRESENT
    assert table.gaps == ""  # it is what was asked for
    assert len(bench.fake.fds) == 4 * 2


def test_an_event_that_can_t_be_counted_leaves_its_turn_to_the_others(tmp_path: Path) -> None:
    fake = FakeKernel(tmp_path)
    bench = Bench(fake)
    fake.known = frozenset(RATES) - {B}
    bench.tick()
    table = bench.tick()
    assert table.turns == 1
    assert reason(table, "a") is Reason.PRESENT
    assert reason(table, "b") is Reason.HARDWARE
    assert "no b" in table.gaps and "no such event" in table.gaps
    assert len(fake.fds) == 4 * 4


@pytest.mark.parametrize("watchdog", [True, False])
def test_a_turn_that_never_runs_is_given_up_alone(
    tmp_path: Path, watchdog: bool, snapshot: SnapshotAssertion
) -> None:
    fake = FakeKernel(tmp_path, share=lambda cpu, group: float(cpu != 1 or A not in group))
    put(tmp_path, {"proc/sys/kernel/nmi_watchdog": str(int(watchdog))})
    bench = Bench(fake)
    tables = [bench.tick() for _ in range(6)]
    # Its first turn is in the second tick, and its tenth of it is long enough to tell.
    assert [reason(table, "a", row=1) for table in tables[:3]] == [
        Reason.PRESENT,
        Reason.TAKEN,
        Reason.TAKEN,
    ]
    message = tables[-1].details["a"][Reason.TAKEN]
    assert ("NMI watchdog" if watchdog else "another program") in message
    for row in range(4):
        assert {reason(tables[-1], name, row) for name in ("cycles", "instructions", "b")} == {
            Reason.PRESENT
        }
    assert reason(tables[-1], "a", row=0) is Reason.PRESENT
    assert tables[-1].gaps == snapshot
    # Its clock goes on as if it had been read: nothing steps back.
    for before, after in pairwise(tables):
        assert (after.enabled_ns >= before.enabled_ns + np.uint64(SECOND)).all()
    # The other one has all the turns of that CPU.
    assert ran(tables[-2], tables[-1], row=1)[2] == 100
    assert len(fake.fds) == 3 * 6 + 4


def test_a_main_group_that_never_runs_takes_the_next_step_s_turns(tmp_path: Path) -> None:
    fake = FakeKernel(tmp_path, share=lambda cpu, group: float(INSTRUCTIONS not in group))
    bench = Bench(fake)
    bench.tick(turn=False)
    assert reason(bench.tick(), "cycles") is Reason.WARMING
    table = bench.tick()
    assert reason(table, "instructions") is Reason.TAKEN
    assert reason(table, "cycles") is Reason.PRESENT
    assert reason(table, "a") is Reason.TAKEN  # the smaller plan has no turns
    assert not bench.source.turning
    assert len(fake.fds) == 4


def test_a_cpu_that_was_away_while_another_group_ran_counts_again(tmp_path: Path) -> None:
    bench = Bench(FakeKernel(tmp_path))
    bench.tick()
    bench.fake.pass_ns(9 * SECOND // 10)
    bench.source.turn()
    bench.fake.take_offline(1)
    bench.fake.online.add(1)
    bench.fake.pass_ns(SECOND // 10)
    table = bench.source.read()
    assert isinstance(table, CounterTable)
    assert reason(table, "cycles", row=1) is reason(table, "a", row=1) is Reason.RESET
    assert reason(table, "cycles") is Reason.PRESENT
    first, second = bench.tick(), bench.tick()
    assert sum(ran(first, second, row=1)) == 1000
    assert len(bench.fake.fds) == 4 * 6


def test_a_cpu_that_leaves_while_another_group_runs_is_followed(tmp_path: Path) -> None:
    bench = Bench(FakeKernel(tmp_path))
    bench.tick()
    bench.source.turn()
    bench.fake.take_offline(3)
    bench.fake.write_online()
    table = bench.source.read()
    assert isinstance(table, CounterTable)
    assert table.cpus.tolist() == [0, 1, 2]
    assert ran(table, bench.tick())[0] == 900
    bench.main()


def test_main_groups_come_first_when_descriptors_run_out(tmp_path: Path) -> None:
    fake = FakeKernel(tmp_path, fd_limit=4 * 2 + 5)
    bench = Bench(fake)
    bench.tick()
    table = bench.tick()
    for row in range(4):
        assert reason(table, "instructions", row) is Reason.PRESENT
    lacking = [row for row in range(4) if reason(table, "b", row) is Reason.ERROR]
    assert lacking
    assert "ulimit -n" in table.details["b"][Reason.ERROR]
    assert len(fake.fds) <= fake.fd_limit


def test_a_core_that_is_observed_is_counted_in_more_groups(tmp_path: Path) -> None:
    bench = Bench(FakeKernel(tmp_path))
    bench.tick()
    opened = len(bench.fake.fds)
    bench.source.focus(Cpu(3))
    first = bench.tick()
    assert first.focus is not None and first.focus.running_ns[:, 3:].tolist() == [[0, 0]] * 2
    assert (first.focus.values[:, 0] == first.values[[1, 3], 0]).all()
    assert len(bench.fake.fds) == opened + 2 * 4
    tables = [bench.tick() for _ in range(6)]
    focuses = [table.focus for table in tables]
    assert all(focus is not None and focus.cpus.tolist() == [1, 3] for focus in focuses)
    assert all(focus is not None and focus.events == FOCUS_COLUMNS for focus in focuses)
    pairs = [(a, b) for a, b in pairwise(focuses) if a and b]
    order = [ran(before, after).index(100) for before, after in pairs]
    # Everybody's turns and those of its own alternate, and the main group has the rest.
    assert sorted(order[:4]) == [1, 2, 3, 4]
    assert {order[0] > 2, order[1] > 2} == {True, False}
    assert order[4] == order[0]
    assert all(ran(before, after)[0] == 900 for before, after in pairs)
    assert focuses[0] is not None and focuses[0].turns == 4
    assert {table.turns for table in tables} == {2}  # nobody else's round is longer for it
    assert focuses[-1] is not None and focuses[-1].gaps == ""
    # Nobody else's has changed.
    assert ran(tables[0], tables[1]) in ([900, 100, 0], [900, 0, 100])
    bench.source.focus(None)
    assert bench.tick().focus is None
    assert len(bench.fake.fds) == opened
    after = bench.tick()
    assert after.focus is None
    assert (after.enabled_ns - tables[-1].enabled_ns >= 2 * SECOND).all()


def test_another_focus_closes_what_was_open(tmp_path: Path) -> None:
    bench = Bench(FakeKernel(tmp_path))
    bench.source.focus(Cpu(0))
    bench.tick()
    opened = len(bench.fake.fds)
    bench.source.focus(Cpu(1))
    focus = bench.tick().focus
    assert len(bench.fake.fds) == opened
    assert focus is not None and focus.cpus.tolist() == [1, 3]
    bench.source.close()
    assert bench.fake.fds == {}


def test_level_2_of_a_core_that_is_observed_is_counted_all_the_same(tmp_path: Path) -> None:
    bench = Bench(FakeKernel(tmp_path), turns=False)
    bench.source.focus(Cpu(0))
    bench.tick()
    turning = [bench.source.turning]
    table = [bench.tick() for _ in range(4)][-1]
    assert table.turns == 0
    assert reason(table, "a") is Reason.SOURCE
    assert table.focus is not None and reason(table.focus, "a") is Reason.PRESENT
    assert (table.focus.running_ns[0] > 0).all()
    bench.source.focus(None)
    bench.tick()
    assert [*turning, bench.source.turning] == [True, False]
    assert len(bench.fake.fds) == 4 * 2


def test_nothing_is_opened_on_a_quiet_cpu_that_is_observed(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    bench = Bench(FakeKernel(tmp_path), quiet=(1, 3))
    bench.source.focus(Cpu(1))
    bench.tick()
    focus = bench.tick().focus
    assert focus is not None and focus.cpus.tolist() == [1, 3]
    assert reason(focus, "c") is Reason.SOURCE
    assert set(focus.details["c"]) == {Reason.SOURCE}
    assert focus.details["c"][Reason.SOURCE] == snapshot
    assert not {1, 3} & {fd.cpu for fd in bench.fake.fds.values()}


def test_doctor_gives_every_turn_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    fake = FakeKernel(tmp_path, share=lambda cpu, group: float(B not in group))
    bench = Bench(fake)
    monkeypatch.setattr(time, "sleep", lambda s: fake.pass_ns(int(s * SECOND)))
    whole, lacking, _, free = bench.source.check()  # the third: it is no table of top-down
    assert whole.reason is Reason.PRESENT
    assert whole.text == snapshot
    assert (lacking.name, lacking.reason) == ("perf b", Reason.TAKEN)
    assert (free.name, free.reason) == ("perf counters", Reason.TAKEN)
    bench.source.close()
    assert fake.fds == {}
    only, _ = Bench(fake, turns=False).source.check()
    assert only.text == snapshot


@settings(max_examples=40)
@given(
    story=st.lists(
        st.tuples(
            st.sampled_from(
                [
                    "turn",
                    "late",
                    "off",
                    "on",
                    "blink",
                    "stall",
                    "run",
                    "focus",
                    "away",
                    "wait",
                    "try",
                ]
            ),
            st.integers(0, 3),
        ),
        max_size=25,
    ),
    fd_limit=st.sampled_from([14, 30, 1000]),
)
def test_whatever_happens_numbers_are_true_and_one_group_runs(
    story: list[tuple[str, int]], fd_limit: int
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(perf_kernel, "RATES", RATES)
        stalled: set[Event] = set()
        fake = FakeKernel(
            Path(folder),
            fd_limit=fd_limit,
            share=lambda cpu, group: float(not stalled & set(group)),
        )
        bench = Bench(fake)
        for what, cpu in story:
            if what == "focus":
                bench.source.focus(Cpu(cpu))
            elif what == "away":
                bench.source.focus(None)
            elif what in ("off", "blink") and len(fake.online) > 1:
                fake.take_offline(cpu)
            elif what == "stall":
                stalled.add((A, B, C, INSTRUCTIONS)[cpu])
            elif what == "run":
                stalled.clear()
            elif what == "wait":
                fake.pass_ns(RETRY_AFTER_NS)
            elif what == "try":
                fake.pass_ns(RETRY_MIN_NS)
            if what in ("on", "blink"):
                fake.online.add(cpu)
            fake.write_online()
            bench.tick(turn=what != "late")
        bench.source.close()
        assert fake.fds == {}


def test_a_turn_that_fails_is_no_exception(tmp_path: Path) -> None:
    fake = FakeKernel(tmp_path)
    bench = Bench(fake)
    bench.tick()
    fake.switch_errno = errno.EIO
    bench.source.turn()
    fake.pass_ns(SECOND)
    assert not isinstance(bench.source.read(), Missing)
    fake.switch_errno = 0
    assert reason(bench.tick(), "cycles") is Reason.PRESENT
