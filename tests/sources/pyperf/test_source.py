"""PythonPerfSource on a module that gives trouble on demand."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.fold import FoldState
from nftop.model.frame import Frame
from nftop.model.missing import Missing, Reason
from nftop.model.sample import CounterTable
from nftop.sources.base import RETRY_AFTER_NS, Source
from nftop.sources.perf.source import PerfSource
from nftop.sources.pyperf import source as source_module
from nftop.sources.pyperf.metrics import find_metrics
from nftop.sources.pyperf.source import PythonPerfSource, choose
from nftop.uarch.table import load
from tests.samples import HOST, fold, sample, topology
from tests.sources.pyperf.fake import RATES, SECOND, SOFTWARE, ZEN4_SHARES, FakePerf

CORE = frozenset(RATES) - SOFTWARE - {"ref-cycles"}
BASIC = {
    "cycles": "cycles",
    "instructions": "instructions",
    "ref_cycles": "msr/mperf",
    "tsc": "msr/tsc",
    "context_switches": "context-switches",
}


@dataclass
class Bench:
    """A source on a fake module."""

    fake: FakePerf
    quiet: Collection[int] = ()
    source: PythonPerfSource = field(init=False)

    def __post_init__(self) -> None:
        self.source = PythonPerfSource(
            self.fake,
            find_metrics(self.fake, self.fake.root),
            root=self.fake.root,
            quiet_cpus=self.quiet,
            clock_ns=lambda: self.fake.now_ns,
        )

    def tick(self, ns: int = SECOND) -> CounterTable:
        self.fake.now_ns += ns
        table = self.source.read()
        assert isinstance(table, CounterTable), table
        return table

    def why(self, ns: int = SECOND) -> Missing:
        self.fake.now_ns += ns
        missing = self.source.read()
        assert isinstance(missing, Missing), missing
        return missing

    def frames(self, *tables: CounterTable, cpus: int = 4) -> list[Frame]:
        start = FoldState(HOST, topology(cpus, smt=False))
        return fold(start, *(sample(at * SECOND, perf=table) for at, table in enumerate(tables)))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(FakePerf(tmp_path))


def rate(before: CounterTable, after: CounterTable, event: str, cpu: int) -> float:
    """Counts a ns of the event's own running time, per unit of the fake's rate."""
    column = after.events.index(event)
    old, new = (list(table.cpus).index(cpu) for table in (before, after))
    counts = int(after.values[new, column]) - int(before.values[old, column])
    ran = int(after.running_ns[new, column]) - int(before.running_ns[old, column])
    return counts / ran / (cpu + 1)


def test_it_is_a_source(bench: Bench) -> None:
    source: Source = bench.source
    assert (source.name, source.inline) == ("perf", True)


def test_every_event_of_every_cpu_is_counted_by_its_own_clock(bench: Bench) -> None:
    first, second = bench.tick(), bench.tick()
    assert first.cpus.tolist() == [0, 1, 2, 3]
    assert second.gaps == ""
    assert second.group.tolist() == list(range(len(second.events)))
    for event, name in BASIC.items():
        for cpu in range(4):
            assert rate(first, second, event, cpu) == pytest.approx(RATES[name])
    assert (second.reasons == Reason.PRESENT).all()


def test_what_perf_puts_in_another_order_keeps_its_name(tmp_path: Path) -> None:
    bench = Bench(FakePerf(tmp_path, reorder=True))
    first, second = bench.tick(), bench.tick()
    for event, name in BASIC.items():
        assert rate(first, second, event, 2) == pytest.approx(RATES[name])


@pytest.mark.parametrize("bare", [False, True])
def test_a_frame_has_ipc_frequency_and_the_kernel_s_top_down(tmp_path: Path, bare: bool) -> None:
    bench = Bench(FakePerf(tmp_path, bare=bare))
    frame = bench.frames(bench.tick(), bench.tick())[-1]
    columns = frame.cpus.columns
    for row in range(4):
        assert columns["ipc"][row] == pytest.approx(1.5)
        assert columns["frequency_hz"][row] == pytest.approx(30 / 20 * 25 * (row + 1) * 1e9)
        assert columns["coverage"][row] == 1.0
        assert columns["tma.coverage"][row] == 1.0
        for metric, share in ZEN4_SHARES.items():
            assert columns[metric][row] == pytest.approx(share)
    deeper = columns["tma.memory_bound"][0]
    assert isinstance(deeper, Missing)
    assert deeper.reason is Reason.SOURCE


def test_what_the_core_counts_is_one_group_and_cycles_are_counted_once(bench: Bench) -> None:
    bench.tick()
    on_cpu_0 = [name for name, cpu in bench.fake.opened if cpu == 1]
    assert sorted(on_cpu_0) == sorted({*CORE, *BASIC.values()})
    bench.fake.reads.clear()
    bench.tick()
    assert len(bench.fake.reads) == 4 * len(on_cpu_0)
    # All of a CPU in a row: its events are then of nearly the same moments.
    order = [cpu for _, cpu in bench.fake.reads]
    assert order == sorted(order)


def test_reads_are_counted(bench: Bench) -> None:
    bench.tick()
    bench.tick()
    assert bench.source.counter_reads == len(bench.fake.reads) > 0


def test_quiet_cpus_are_rows_without_numbers_and_nothing_is_opened_present(tmp_path: Path) -> None:
    bench = Bench(FakePerf(tmp_path), quiet=(0, 2))
    bench.tick()
    table = bench.tick()
    assert {cpu for _, cpu in bench.fake.opened} == {1, 3}
    assert table.cpus.tolist() == [0, 1, 2, 3]
    assert (table.reasons[[0, 2]] == Reason.SOURCE).all()
    assert (table.reasons[[1, 3]] == Reason.PRESENT).all()
    assert "--quiet-cpus" in table.gaps


def test_with_every_cpu_quiet_nothing_is_opened(tmp_path: Path) -> None:
    bench = Bench(FakePerf(tmp_path), quiet=range(4))
    assert (bench.tick().reasons == Reason.SOURCE).all()
    assert bench.fake.opened == []
    (check,) = bench.source.check()
    assert check.reason is Reason.SOURCE


def test_a_module_that_would_count_elsewhere_counts_nothing(tmp_path: Path) -> None:
    bench = Bench(FakePerf(tmp_path, knows_cpu_term=False), quiet=(0,))
    assert "other CPUs" in bench.why().message
    assert bench.fake.opened == []


def test_what_the_cpu_has_not_is_absent_with_a_reason_and_the_rest_counts(tmp_path: Path) -> None:
    def refuse(names: tuple[str, ...], cpu: int) -> int:
        return errno.EOPNOTSUPP if "instructions" in names else 0

    bench = Bench(FakePerf(tmp_path, refuse=refuse))
    first, second = bench.tick(), bench.tick()
    column = second.events.index("instructions")
    assert (second.reasons[:, column] == Reason.HARDWARE).all()
    assert "no instructions" in second.gaps
    assert rate(first, second, "cycles", 1) == pytest.approx(RATES["cycles"])
    frame = bench.frames(first, second)[-1]
    assert isinstance(frame.cpus.columns["ipc"][0], Missing)
    assert frame.cpus.columns["tma.retiring"][0] == pytest.approx(1 / 3)


def test_an_event_that_perf_does_not_know_is_absent(tmp_path: Path) -> None:
    bench = Bench(FakePerf(tmp_path, unknown=frozenset({"context-switches"})))
    table = bench.tick()
    assert table.reasons[0, table.events.index("context_switches")] == Reason.HARDWARE
    assert table.reasons[0, table.events.index("cycles")] == Reason.PRESENT


def test_a_host_without_a_pmu_still_counts_switches_and_the_tsc(tmp_path: Path) -> None:
    def refuse(names: tuple[str, ...], cpu: int) -> int:
        return 0 if set(names) <= SOFTWARE else errno.ENOENT

    bench = Bench(FakePerf(tmp_path, refuse=refuse, shown=None))
    first, second = bench.tick(), bench.tick()
    assert rate(first, second, "context_switches", 3) == pytest.approx(RATES["context-switches"])
    assert second.reasons[0, second.events.index("cycles")] == Reason.HARDWARE
    assert second.formulas == {}


def test_without_the_pmu_msr_reference_cycles_take_a_counter(tmp_path: Path) -> None:
    fake = FakePerf(tmp_path)
    for name in ("tsc", "mperf"):
        (tmp_path / "sys/bus/event_source/devices/msr/events" / name).unlink()
    bench = Bench(fake)
    first, second = bench.tick(), bench.tick()
    assert "tsc" not in second.events
    assert rate(first, second, "ref_cycles", 0) == pytest.approx(RATES["ref-cycles"])


def test_without_the_right_it_reports_it_and_tries_again_later(tmp_path: Path) -> None:
    fake = FakePerf(tmp_path, refuse=lambda names, cpu: errno.EACCES)
    bench = Bench(fake)
    assert bench.why().reason is Reason.PERMISSION
    fake.refuse = lambda names, cpu: 0
    assert bench.why().reason is Reason.PERMISSION
    assert bench.tick(RETRY_AFTER_NS).gaps == ""


def test_a_cpu_that_goes_offline_leaves_and_the_others_go_on(bench: Bench) -> None:
    tables = [bench.tick(), bench.tick()]
    bench.fake.online.remove(2)
    bench.fake.write_online()
    tables += [bench.tick(), bench.tick()]
    assert tables[-1].cpus.tolist() == [0, 1, 3]
    for before, after in pairwise(tables):
        assert rate(before, after, "cycles", 3) == pytest.approx(RATES["cycles"])
    frame = bench.frames(*tables)[-1]
    assert frame.cpus.columns["ipc"][3] == pytest.approx(1.5)
    offline = frame.cpus.columns["ipc"][2]
    assert isinstance(offline, Missing)
    assert offline.reason is Reason.UNDEFINED


def test_a_cpu_that_comes_online_is_counted(bench: Bench) -> None:
    bench.fake.online.remove(0)
    bench.fake.write_online()
    bench.tick()
    bench.fake.online.add(0)
    bench.fake.write_online()
    first, second = bench.tick(), bench.tick()
    assert second.cpus.tolist() == [0, 1, 2, 3]
    assert rate(first, second, "cycles", 0) == pytest.approx(RATES["cycles"])


def test_a_cpu_that_was_offline_between_two_ticks_starts_again(bench: Bench) -> None:
    tables = [bench.tick(), bench.tick()]
    bench.fake.bounce(1)
    tables.append(bench.tick())
    assert (tables[-1].reasons[1] == Reason.RESET).all()
    assert (tables[-1].reasons[[0, 2, 3]] == Reason.PRESENT).all()
    tables += [bench.tick(), bench.tick()]
    frames = bench.frames(*tables)
    lost = frames[2].cpus.columns["ipc"][1]
    assert isinstance(lost, Missing)
    assert lost.reason is Reason.RESET
    assert frames[3].cpus.columns["ipc"][1] == pytest.approx(1.5)
    tsc_hz = frames[3].cpus.columns["tsc_hz"][1]
    assert tsc_hz == pytest.approx(2 * 25e9)  # and not all that was counted before
    assert frames[4].cpus.columns["ipc"][1] == pytest.approx(1.5)


def test_a_group_that_never_runs_is_split(tmp_path: Path) -> None:
    # Six events want counters, the watchdog has left five.
    def share(names: tuple[str, ...], cpu: int) -> float:
        return 0.0 if len(names) > 5 else 0.5

    bench = Bench(FakePerf(tmp_path, share=share))
    bench.tick()
    bench.tick()
    first, second = bench.tick(), bench.tick()
    assert rate(first, second, "cycles", 1) == pytest.approx(RATES["cycles"])
    columns = bench.frames(first, second)[-1].cpus.columns
    assert columns["coverage"][1] == pytest.approx(0.5)
    assert columns["tma.coverage"][1] == pytest.approx(0.5)
    assert columns["tma.retiring"][1] == pytest.approx(1 / 3)
    assert columns["tsc_hz"][0] == pytest.approx(25e9)


def test_a_group_that_never_runs_counts_as_taken(tmp_path: Path) -> None:
    bench = Bench(FakePerf(tmp_path, share=lambda names, cpu: 0.0))
    tables = [bench.tick() for _ in range(6)]
    cycles = bench.frames(*tables)[-1].cpus.columns["ipc"][0]
    assert isinstance(cycles, Missing)
    assert cycles.reason is Reason.TAKEN


def test_the_online_file_s_trouble_is_a_reason(bench: Bench) -> None:
    (bench.fake.root / "sys/devices/system/cpu/online").write_text("x\n")
    assert bench.why().reason is Reason.ERROR


def test_everything_is_closed_and_nothing_read_afterwards(
    bench: Bench, snapshot: SnapshotAssertion
) -> None:
    bench.tick()
    bench.fake.online.remove(3)
    bench.fake.write_online()
    bench.tick()
    assert bench.fake.live == 3 * len(bench.source.read().events)  # type: ignore[union-attr]
    bench.source.close()
    bench.source.close()
    assert bench.fake.live == 0
    assert bench.why().message == snapshot


def test_tables_given_out_do_not_change(bench: Bench) -> None:
    table = bench.tick()
    values = table.values.copy()
    bench.tick()
    assert np.array_equal(table.values, values)


def test_doctor_names_what_is_counted_and_at_what_cost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    sleeping(monkeypatch, bench.fake)
    whole, topdown = bench.source.check()
    assert whole.reason is Reason.PRESENT
    assert whole.text.replace("backend_stalls/, cpu/de_src_op_disp.all/, ", "") == snapshot
    assert "frontend_bound, bad_speculation, backend_bound, retiring" in topdown.text


def test_doctor_lists_missing_items_and_programs_that_share_the_counters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    fake = FakePerf(
        tmp_path,
        share=lambda names, cpu: 0.0 if "cpu/ex_ret_ops" in names else 0.25,
        refuse=lambda names, cpu: errno.ENOENT if "msr/mperf" in names else 0,
        rows=(),
    )
    bench = Bench(fake)
    sleeping(monkeypatch, fake)
    checks = {check.name: check for check in bench.source.check()}
    assert checks["perf ref_cycles"].reason is Reason.HARDWARE
    assert checks["perf turns"].text == snapshot
    assert checks["perf top-down"].text == snapshot


def test_doctor_names_the_program_that_holds_the_counters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(FakePerf(tmp_path, share=lambda names, cpu: "cycles" not in names))
    sleeping(monkeypatch, bench.fake)
    checks = {check.name: check for check in bench.source.check()}
    assert checks["perf groups"].reason is Reason.TAKEN
    assert checks["perf groups"].text.startswith("cycles, instructions: ")


def test_doctor_s_whole_answer_where_nothing_can_be_counted(tmp_path: Path) -> None:
    bench = Bench(FakePerf(tmp_path, refuse=lambda names, cpu: errno.EACCES))
    (check,) = bench.source.check()
    assert check.reason is Reason.PERMISSION
    assert check.fix


def test_the_reason_for_no_top_down_is_in_the_frame(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    bench = Bench(FakePerf(tmp_path, rows=()))
    columns = bench.frames(bench.tick(), bench.tick())[-1].cpus.columns
    for metric in (*ZEN4_SHARES, "tma.coverage"):
        why = columns[metric][0]
        assert isinstance(why, Missing) and why.reason is Reason.HARDWARE
        assert why.message == snapshot
    assert columns["ipc"][0] == pytest.approx(1.5)


def sleeping(monkeypatch: pytest.MonkeyPatch, fake: FakePerf) -> None:
    """Let the source's sleep pass on the fake's clock."""

    def sleep(seconds: float) -> None:
        fake.now_ns += int(seconds * SECOND)

    monkeypatch.setattr(source_module, "time", SimpleNamespace(sleep=sleep))


def test_what_perf_complains_of_is_not_on_the_screen(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fake = FakePerf(tmp_path, complains=True)
    result = choose("python-perf", PerfSource(), load(), quiet_cpus=(), root=tmp_path, module=fake)
    result.source.read()
    fake.online.discard(3)
    fake.write_online()
    assert isinstance(result.source.read(), CounterTable)
    result.source.close()
    assert capfd.readouterr().err == ""
    os.write(2, b"of others")
    assert capfd.readouterr().err == "of others"
