"""PerfSource on a kernel that gives trouble on demand."""

from __future__ import annotations

import errno
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Missing, Reason
from nftop.model.sample import CounterTable
from nftop.sources.base import RETRY_AFTER_NS, Source
from nftop.sources.perf import source as source_module
from nftop.sources.perf.group import open_group
from nftop.sources.perf.probe import survey
from nftop.sources.perf.source import PerfSource
from nftop.uarch.table import Encoding, parse
from tests.sources.perf_kernel import (
    CONTEXT_SWITCHES,
    CYCLES,
    INSTRUCTIONS,
    RATES,
    REF_CYCLES,
    STARTED_NS,
    TSC,
    Event,
    FakeKernel,
)
from tests.sources.trees import put

SECOND = 1_000_000_000
EVENTS = {
    "cycles": CYCLES,
    "instructions": INSTRUCTIONS,
    "ref_cycles": REF_CYCLES,
    "tsc": TSC,
    "context_switches": CONTEXT_SWITCHES,
}
SOFT = frozenset({TSC, CONTEXT_SWITCHES})


@dataclass
class Bench:
    """A source on a fake kernel."""

    fake: FakeKernel
    quiet: Collection[int] = ()
    wanted: Collection[int] | None = None
    source: PerfSource = field(init=False)

    def __post_init__(self) -> None:
        self.source = PerfSource(
            self.wanted,
            root=self.fake.root,
            quiet_cpus=self.quiet,
            kernel=self.fake.kernel,
            clock_ns=lambda: self.fake.now_ns,
        )

    def tick(self, duration_ns: int = SECOND) -> CounterTable:
        table = self.try_tick(duration_ns)
        assert isinstance(table, CounterTable), table
        return table

    def try_tick(self, duration_ns: int = SECOND) -> CounterTable | Missing:
        self.fake.pass_ns(duration_ns)
        table = self.source.read()
        if isinstance(table, CounterTable):
            must_hold(table)
        return table


def must_hold(table: CounterTable) -> None:
    """Every number is the event's own; every absent one is 0 and has a sentence."""
    assert table.events == tuple(EVENTS)
    shape = (len(table.cpus), len(table.events))
    assert table.values.shape == table.reasons.shape == shape
    assert table.values.dtype == np.uint64
    assert table.reasons.dtype == np.uint8
    assert table.cpus.tolist() == sorted(table.cpus.tolist())
    for column, event in enumerate(table.events):
        for row in range(len(table.cpus)):
            reason = Reason(int(table.reasons[row, column]))
            value = int(table.values[row, column])
            if reason is Reason.PRESENT:
                assert value == int(table.running_ns[row, 0]) * RATES[EVENTS[event]]
            else:
                assert value == 0
                assert table.details[event][reason]


def reasons(table: CounterTable, event: str) -> list[Reason]:
    return [Reason(int(code)) for code in table.reasons[:, table.events.index(event)]]


def message(table: CounterTable, event: str) -> str:
    return "; ".join(table.details[event].values())


def test_it_is_a_source_and_counts_everything_with_one_read_a_cpu(tmp_path: Path) -> None:
    fake = FakeKernel(tmp_path, cpus=3)
    bench = Bench(fake)
    source: Source = bench.source
    assert (source.name, source.inline) == ("perf", True)
    assert fake.opens == 0  # nothing before the first read
    first, second = bench.tick(), bench.tick()
    opens = fake.opens
    assert first.reasons.max() == Reason.PRESENT
    assert (second.enabled_ns - first.enabled_ns).tolist() == [[SECOND]] * 3
    assert fake.reads == [0, 1, 2] * 2
    assert bench.source.counter_reads == 6
    for _ in range(5):
        bench.tick()
    assert fake.opens == opens
    assert fake.reads == [0, 1, 2] * 7
    # A table given out does not change under its reader.
    assert first.enabled_ns.tolist() != second.enabled_ns.tolist()


def test_multiplexing_is_handed_over_not_corrected(tmp_path: Path) -> None:
    bench = Bench(FakeKernel(tmp_path, share=lambda cpu, group: 0.25 if cpu == 1 else 1.0))
    bench.tick()
    table = bench.tick()
    assert table.running_ns[1, 0] * 4 == table.enabled_ns[1, 0] == table.running_ns[0, 0]
    assert table.values[1, 0] * 4 == table.values[0, 0]


def test_an_event_the_host_lacks_leaves_the_rest(tmp_path: Path) -> None:
    fake = FakeKernel(tmp_path, known=SOFT | {CYCLES, INSTRUCTIONS})
    table = Bench(fake).tick()
    assert set(reasons(table, "ref_cycles")) == {Reason.HARDWARE}
    for event in ("cycles", "instructions", "tsc", "context_switches"):
        assert set(reasons(table, event)) == {Reason.PRESENT}
    assert len(fake.fds) == 4 * 4  # nothing of the survey stays open


def test_without_a_pmu_the_clock_still_counts(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    bench = Bench(FakeKernel(tmp_path, known=SOFT))
    table = bench.tick()
    assert message(table, "cycles") == snapshot
    assert set(reasons(table, "tsc")) == {Reason.PRESENT}
    (tmp_path / "sys/bus/event_source/devices/msr/type").unlink()
    table = Bench(FakeKernel(tmp_path / "other", known=SOFT)).tick()
    assert set(reasons(table, "tsc")) == {Reason.PRESENT}
    (tmp_path / "other/sys/bus/event_source/devices/msr/type").unlink()
    bench = Bench(bench.fake)
    table = bench.tick()
    assert set(reasons(table, "tsc")) == {Reason.HARDWARE}
    assert "no PMU msr" in message(table, "tsc")
    assert set(reasons(table, "context_switches")) == {Reason.PRESENT}


def test_a_group_that_does_not_fit_gives_way_to_a_smaller_one(tmp_path: Path) -> None:
    def two_counters(cpu: int, group: tuple[Event, ...], event: Event) -> int:
        hardware = {CYCLES, INSTRUCTIONS, REF_CYCLES}
        return errno.EINVAL if len(hardware & {*group, event}) > 2 else 0

    table = Bench(FakeKernel(tmp_path, refuse=two_counters)).tick()
    assert set(reasons(table, "instructions")) == {Reason.PRESENT}
    assert set(reasons(table, "ref_cycles")) == {Reason.HARDWARE}
    assert "too few counters" in message(table, "ref_cycles")


def test_a_group_that_never_runs_gives_way_where_it_does_not(tmp_path: Path) -> None:
    """The NMI watchdog holds a counter on housekeeping CPUs and none on nohz_full ones."""

    def share(cpu: int, group: tuple[Event, ...]) -> float:
        return 0.0 if cpu < 2 and len(set(group) - SOFT) > 2 else 1.0

    fake = FakeKernel(tmp_path, share=share)
    put(tmp_path, {"proc/sys/kernel/nmi_watchdog": "1"})
    bench = Bench(fake)
    bench.tick()
    stalled = bench.tick()
    assert set(reasons(stalled, "tsc")[:2]) == {Reason.WARMING}
    assert set(reasons(stalled, "tsc")[2:]) == {Reason.PRESENT}
    for _ in range(3):
        table = bench.tick()
        assert reasons(table, "ref_cycles") == [Reason.TAKEN] * 2 + [Reason.PRESENT] * 2
        assert set(reasons(table, "cycles")) == {Reason.PRESENT}
        assert "NMI watchdog" in message(table, "ref_cycles")
    assert len(fake.fds) == 2 * 4 + 2 * 5


def test_a_group_that_nothing_helps_reports_taken_and_is_tried_again(tmp_path: Path) -> None:
    fake = FakeKernel(tmp_path, cpus=2, eof=frozenset({1}))
    bench = Bench(fake)
    for _ in range(6):
        bench.tick()
    assert reasons(bench.tick(), "tsc") == [Reason.PRESENT, Reason.TAKEN]
    assert all(fd.cpu == 0 for fd in fake.fds.values())
    opens = fake.opens
    bench.tick(RETRY_AFTER_NS - 4 * SECOND)  # from the last attempt on, not from the first
    assert fake.opens == opens
    fake.eof = frozenset()
    bench.tick(RETRY_AFTER_NS)
    assert set(reasons(bench.tick(), "cycles")) == {Reason.PRESENT}


def test_a_short_wait_for_its_turn_is_no_stall(tmp_path: Path) -> None:
    shares = {"now": 0.0}
    bench = Bench(FakeKernel(tmp_path, share=lambda cpu, group: shares["now"]))
    bench.tick()
    for _ in range(4):
        assert set(reasons(bench.tick(10_000_000), "ref_cycles")) == {Reason.PRESENT}
    shares["now"] = 1.0
    assert set(reasons(bench.tick(), "ref_cycles")) == {Reason.PRESENT}
    shares["now"] = 0.0
    bench.tick(49_000_000)
    assert set(reasons(bench.tick(1_000_000), "ref_cycles")) == {Reason.WARMING}


def test_descriptors_that_run_out_half_way_leave_what_was_opened(tmp_path: Path) -> None:
    fake = FakeKernel(tmp_path, cpus=8, fd_limit=5 * 3 + 2)
    bench = Bench(fake)
    table = bench.tick()
    assert reasons(table, "cycles") == [Reason.PRESENT] * 3 + [Reason.ERROR] * 5
    assert "ulimit -n" in message(table, "cycles")
    assert len(fake.fds) == 15
    opens = fake.opens
    bench.tick()
    assert fake.opens == opens
    fake.fd_limit = 1000
    bench.tick(RETRY_AFTER_NS)
    assert set(reasons(bench.tick(), "cycles")) == {Reason.PRESENT}


def test_no_descriptors_at_all_is_not_blamed_on_an_event(tmp_path: Path) -> None:
    fake = FakeKernel(tmp_path, fd_limit=2)
    answer = Bench(fake).try_tick()
    assert isinstance(answer, Missing)
    assert answer.reason is Reason.ERROR
    assert "ulimit -n" in answer.detail
    assert fake.fds == {}


def test_a_missing_privilege_is_reported_before_missing_hardware(tmp_path: Path) -> None:
    requests: set[int] = set()

    def only_root(cpu: int, group: tuple[Event, ...], event: Event) -> int:
        requests.add(cpu)
        return errno.EACCES

    fake = FakeKernel(tmp_path, known=SOFT, refuse=only_root)
    put(tmp_path, {"proc/sys/kernel/perf_event_paranoid": "1"})
    bench = Bench(fake)
    answer = bench.try_tick()
    assert isinstance(answer, Missing)
    assert answer.reason is Reason.PERMISSION
    assert "it is 1" in answer.detail
    assert requests == {0}  # one CPU's answer is every CPU's
    (check,) = bench.source.check()
    assert (check.name, check.reason, check.fix) == ("perf", Reason.PERMISSION, "sudo nftop")
    # The privilege is given while nftop runs: it is noticed, but not asked for at every tick.
    fake.refuse = lambda cpu, group, event: 0
    assert isinstance(bench.try_tick(), Missing)
    assert set(reasons(bench.tick(RETRY_AFTER_NS), "tsc")) == {Reason.PRESENT}


def test_cpus_come_and_go(tmp_path: Path) -> None:
    fake = FakeKernel(tmp_path)
    bench = Bench(fake)
    bench.tick()
    fake.take_offline(2)
    fake.write_online()
    assert bench.tick().cpus.tolist() == [0, 1, 3]
    assert {fd.cpu for fd in fake.fds.values()} == {0, 1, 3}
    fake.online.add(2)
    fake.write_online()
    assert bench.tick().cpus.tolist() == [0, 1, 2, 3]
    table = bench.tick()
    assert set(reasons(table, "cycles")) == {Reason.PRESENT}
    assert table.enabled_ns[2, 0] == SECOND + STARTED_NS
    assert len(fake.fds) == 20


@pytest.mark.parametrize("known", [frozenset(EVENTS.values()), frozenset({CONTEXT_SWITCHES})])
def test_a_cpu_that_was_away_between_two_ticks_counts_again(
    tmp_path: Path, known: frozenset[Event]
) -> None:
    fake = FakeKernel(tmp_path, known=known)
    bench = Bench(fake)
    bench.tick()
    bench.tick()
    fake.take_offline(1)
    fake.online.add(1)
    away = bench.tick()
    assert reasons(away, "context_switches")[1] is Reason.RESET
    assert away.enabled_ns[1, 0] == 0
    back = bench.tick()
    assert set(reasons(back, "context_switches")) == {Reason.PRESENT}
    assert (back.enabled_ns[:, 0] - STARTED_NS).tolist() == [
        3 * SECOND,
        SECOND,
        3 * SECOND,
        3 * SECOND,
    ]


def test_a_cpu_that_goes_while_it_is_opened_is_no_row(tmp_path: Path) -> None:
    fake = FakeKernel(tmp_path)

    def vanish(cpu: int, group: tuple[Event, ...], event: Event) -> int:
        if cpu == 2:
            fake.take_offline(2)
            fake.write_online()
            return errno.ENODEV
        return 0

    fake.refuse = vanish
    assert Bench(fake).tick().cpus.tolist() == [0, 1, 3]


def test_a_cpu_that_goes_while_it_is_surveyed_is_not_believed(tmp_path: Path) -> None:
    fake = FakeKernel(tmp_path)

    def vanish(cpu: int, group: tuple[Event, ...], event: Event) -> int:
        if cpu == 0:
            fake.take_offline(0)
            fake.write_online()
            return errno.ENODEV
        return 0

    fake.refuse = vanish
    table = Bench(fake).tick()
    assert set(reasons(table, "cycles")) == {Reason.PRESENT}
    assert table.cpus.tolist() == [1, 2, 3]


def test_one_cpu_that_refuses_does_not_spoil_the_others(tmp_path: Path) -> None:
    def busy(cpu: int, group: tuple[Event, ...], event: Event) -> int:
        return errno.EBUSY if cpu == 3 and event not in SOFT else 0

    table = Bench(FakeKernel(tmp_path, refuse=busy)).tick()
    assert reasons(table, "cycles") == [Reason.PRESENT] * 3 + [Reason.TAKEN]
    assert "another program" in message(table, "cycles")
    assert set(reasons(table, "tsc")) == {Reason.PRESENT}


def test_a_read_that_fails_is_that_cpu_s_error_until_it_works_again(tmp_path: Path) -> None:
    fake = FakeKernel(tmp_path)
    bench = Bench(fake)
    bench.tick()
    fake.read_errno = {1: errno.EIO}
    table = bench.tick()
    assert reasons(table, "cycles")[:2] == [Reason.PRESENT, Reason.ERROR]
    assert "Input/output error" in message(table, "cycles")
    fake.read_errno = {}
    assert reasons(bench.tick(), "cycles")[1] is Reason.ERROR
    bench.tick(RETRY_AFTER_NS)
    assert set(reasons(bench.tick(), "cycles")) == {Reason.PRESENT}


def test_quiet_cpus_are_rows_that_nothing_is_opened_on(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    fake = FakeKernel(tmp_path, known=SOFT)
    touched: set[int] = set()

    def watch(cpu: int, group: tuple[Event, ...], event: Event) -> int:
        touched.add(cpu)
        return 0

    fake.refuse = watch
    table = Bench(fake, quiet={0, 2}).tick()
    assert table.cpus.tolist() == [0, 1, 2, 3]
    assert reasons(table, "tsc") == [Reason.SOURCE, Reason.PRESENT] * 2
    assert message(table, "tsc") == snapshot
    assert reasons(table, "cycles") == [Reason.SOURCE, Reason.HARDWARE] * 2
    assert len(table.details["cycles"]) == 2
    assert touched == set(fake.reads) == {1, 3}


def test_all_quiet_until_another_cpu_comes(tmp_path: Path) -> None:
    fake = FakeKernel(tmp_path, cpus=2)
    bench = Bench(fake, quiet={0, 1})
    assert set(reasons(bench.tick(), "tsc")) == {Reason.SOURCE}
    assert fake.opens == 0
    fake.online.add(2)
    fake.write_online()
    assert reasons(bench.tick(), "tsc") == [Reason.SOURCE] * 2 + [Reason.PRESENT]


def test_only_the_cpus_requested(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    bench = Bench(FakeKernel(tmp_path), wanted=[3, 1, 9])
    assert bench.tick().cpus.tolist() == [1, 3]
    answer = Bench(bench.fake, wanted=[9]).try_tick()
    assert isinstance(answer, Missing) and answer.reason is Reason.SOURCE
    assert answer.message == snapshot


@pytest.mark.parametrize("text", ["", "0-", "x", None])
def test_an_empty_online_file_is_a_reason(tmp_path: Path, text: str | None) -> None:
    fake = FakeKernel(tmp_path)
    online = tmp_path / "sys/devices/system/cpu/online"
    online.unlink() if text is None else online.write_text(text)
    bench = Bench(fake)
    answer = bench.try_tick()
    assert isinstance(answer, Missing)
    assert answer.detail
    assert fake.opens == 0
    (check,) = bench.source.check()
    assert check.text == answer.detail
    bench.source.close()


def test_closing_gives_everything_back_twice(tmp_path: Path) -> None:
    bench = Bench(FakeKernel(tmp_path))
    bench.tick()
    bench.source.close()
    bench.source.close()
    assert bench.fake.fds == {}
    answer = bench.source.read()
    assert isinstance(answer, Missing)
    assert "closed" in answer.detail
    assert bench.source.check()[0].reason is Reason.SOURCE


def test_doctor_hears_what_counts_what_does_not_and_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    fake = FakeKernel(
        tmp_path,
        known=SOFT | {CYCLES, INSTRUCTIONS},
        share=lambda cpu, group: 0.0 if cpu == 3 and INSTRUCTIONS in group else 1.0,
    )
    sleep = SimpleNamespace(sleep=lambda s: fake.pass_ns(int(s * SECOND)))
    monkeypatch.setattr(source_module, "time", sleep)
    checks = {check.name: check for check in Bench(fake, quiet={0}).source.check()}
    lacking = {"perf CPU 0", "perf ref_cycles", "perf instructions", "perf counters"}
    assert set(checks) == {"perf", "perf top-down", *lacking}
    assert "CPU 3" in checks["perf counters"].text
    assert checks["perf top-down"].text == snapshot
    assert checks["perf"].reason is Reason.PRESENT
    assert checks["perf"].text == snapshot
    assert checks["perf CPU 0"].text == snapshot
    assert checks["perf ref_cycles"].reason is Reason.HARDWARE
    assert not checks["perf ref_cycles"].fix  # it is no guest without a PMU
    assert checks["perf instructions"].reason is Reason.TAKEN
    assert checks["perf instructions"].text.endswith("(CPU 3)")
    assert checks["perf instructions"].fix


def test_a_group_opens_whole_or_not_at_all(tmp_path: Path) -> None:
    fake = FakeKernel(tmp_path, known=frozenset({CYCLES, TSC}))
    with pytest.raises(FileNotFoundError):
        open_group(fake.kernel, 0, [Encoding(*CYCLES), Encoding(*INSTRUCTIONS), Encoding(*TSC)])
    assert fake.fds == {}
    assert fake.opens == 2


LED_BY_SLOTS = """
name = "led"
title = "events that only count behind their own leader"
[events]
slots = { type = "raw", config = 0x400 }
retiring = { type = "raw", config = 0x8000 }
cycles = { type = "hardware", config = 0 }
switches = { type = "software", config = 3 }
[plans.p1]
events = ["cycles", "retiring"]
needs = ["cycles", "retiring"]
[plans.p2]
events = ["slots", "retiring", "cycles", "switches"]
needs = ["slots", "retiring"]
[plans.p3]
events = ["cycles", "switches"]
needs = ["cycles"]
"""


@pytest.mark.parametrize("has_slots", [True, False])
def test_a_plan_is_given_up_without_what_it_needs(tmp_path: Path, has_slots: bool) -> None:
    slots, retiring = (4, 0x400), (4, 0x8000)

    def behind_slots(cpu: int, group: tuple[Event, ...], event: Event) -> int:
        return errno.EINVAL if event == retiring and group[:1] != (slots,) else 0

    known = {retiring, CYCLES, CONTEXT_SWITCHES} | ({slots} if has_slots else set())
    fake = FakeKernel(tmp_path, known=frozenset(known), refuse=behind_slots)
    result = survey(fake.kernel, 0, parse(LED_BY_SLOTS), tmp_path)
    assert fake.fds == {}
    steps = {step.names: step.absent for step in result.steps}
    led, plain = ("slots", "retiring", "cycles", "switches"), ("cycles", "switches")
    assert list(steps) == ([led, plain] if has_slots else [plain])
    # What opened somewhere is not refused, it is only not in this group.
    assert steps[plain]["retiring"].reason is (Reason.SOURCE if has_slots else Reason.HARDWARE)


class Trouble:
    """What can happen to a CPU between two ticks."""

    OFF, ON, BLINK, STALL, RUN, EOF, NO_EOF, FAIL, WORK, LATE = range(10)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=3),
            st.sampled_from([SECOND // 100, SECOND, RETRY_AFTER_NS]),
        ),
        max_size=12,
    ),
    st.sampled_from([8, 17, 1000]),
    st.sets(st.integers(0, 3), max_size=2),
)
def test_whatever_happens_numbers_are_true_and_descriptors_kept_in_hand(
    story: list[tuple[list[tuple[int, int]], int]], fd_limit: int, quiet: set[int]
) -> None:
    with TemporaryDirectory() as folder:
        stalled: set[int] = set()
        fake = FakeKernel(
            Path(folder),
            fd_limit=fd_limit,
            share=lambda cpu, group: 0.0 if cpu in stalled and set(group) - SOFT else 0.5,
        )
        bench = Bench(fake, quiet=quiet)
        for troubles, duration_ns in story:
            reports = True
            for kind, cpu in troubles:
                reports &= kind != Trouble.LATE
                happen(fake, stalled, kind, cpu)
            if reports:
                fake.write_online()
            before = list(fake.reads)
            counted = bench.source.counter_reads
            table = bench.try_tick(duration_ns)
            read = fake.reads[len(before) :]
            assert len(read) == len(set(read)), "a CPU was read twice in a tick"
            assert bench.source.counter_reads - counted == len(read)
            assert not set(read) & quiet
            assert all(fd.members or fd.leader != n for n, fd in fake.fds.items() if not fd.frozen)
            if isinstance(table, Missing):
                assert table.detail
        # Once all is well again, everything counts.
        for cpu in range(4):
            for kind in (Trouble.ON, Trouble.RUN, Trouble.NO_EOF, Trouble.WORK):
                happen(fake, stalled, kind, cpu)
        fake.write_online()
        fake.fd_limit = 1000
        for _ in range(2):
            bench.tick(RETRY_AFTER_NS)
        expected = [Reason.SOURCE if cpu in quiet else Reason.PRESENT for cpu in range(4)]
        # A CPU that fell back to fewer events stays there, so not every event is back.
        assert reasons(bench.tick(RETRY_AFTER_NS), "context_switches") == expected
        bench.source.close()
        assert fake.fds == {}


def happen(fake: FakeKernel, stalled: set[int], kind: int, cpu: int) -> None:
    if kind in (Trouble.OFF, Trouble.BLINK) and len(fake.online) > 1:
        fake.take_offline(cpu)
    if kind in (Trouble.ON, Trouble.BLINK):
        fake.online.add(cpu)
    if kind in (Trouble.STALL, Trouble.RUN):
        (stalled.add if kind == Trouble.STALL else stalled.discard)(cpu)
    if kind in (Trouble.EOF, Trouble.NO_EOF):
        fake.eof = fake.eof | {cpu} if kind == Trouble.EOF else fake.eof - {cpu}
    if kind == Trouble.FAIL:
        fake.read_errno[cpu] = errno.EIO
    if kind == Trouble.WORK:
        fake.read_errno.pop(cpu, None)
