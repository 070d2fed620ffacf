"""Boxes on a kernel that gives trouble on demand."""

from __future__ import annotations

import errno
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.derive.packages import PackageState, step_packages
from nftop.model.frame import PackageRow
from nftop.model.reading import Missing, Reason
from nftop.model.sample import SourceReading
from nftop.model.uncore import UncoreTable
from nftop.sources.topology import read_topology
from nftop.sources.uncore.counters import RETRY_AFTER_NS, UncoreCounters
from nftop.sources.uncore.rota import (
    LONGEST_NS,
    SHORTEST_NS,
    SWITCHING_AT_MOST,
    round_of,
    shares,
    turns_of,
)
from nftop.uarch import table
from nftop.uarch.table import Uarch
from tests.sources.uncore_kernel import DEVICES, FakeUncore

SECOND = 1_000_000_000
MODELS = [table.load(name) for name in ("BDX", "SKX", "ICX", "GNR")]
SKX, ICX = table.load("SKX"), table.load("ICX")


@dataclass
class Bench:
    """Counters on a fake kernel, whose turns change when they are due."""

    fake: FakeUncore
    quiet: Collection[int] = ()
    counters: UncoreCounters = field(init=False)

    def __post_init__(self) -> None:
        self.counters = UncoreCounters(
            self.fake.uarch,
            kernel=self.fake.kernel,
            clock_ns=lambda: self.fake.now_ns,
            root=self.fake.root,
            quiet_cpus=self.quiet,
        )

    def wait(self, duration_ns: int) -> None:
        until_ns = self.fake.now_ns + duration_ns
        while self.fake.now_ns < until_ns:
            due_ns = self.counters.due_ns
            self.fake.pass_ns(max(min(until_ns, due_ns or until_ns) - self.fake.now_ns, 0))
            self.counters.turn()

    def read(self, duration_ns: int = SECOND) -> UncoreTable | Missing:
        self.wait(duration_ns)
        return self.counters.read()

    def tick(self, duration_ns: int = SECOND) -> UncoreTable:
        read = self.read(duration_ns)
        assert isinstance(read, UncoreTable), read
        self.must_hold(read)
        return read

    def must_hold(self, read: UncoreTable) -> None:
        """Every number is the event's own; every absent one is 0 and has a sentence."""
        for row, event in enumerate(read.events[index] for index in read.event):
            reason = Reason(int(read.reasons[row]))
            box, package = int(read.boxes[row]), int(read.packages[row])
            if reason is Reason.PRESENT:
                per_ns = self.fake.expected(event, box, package)
                assert read.values[row] == read.running_ns[row] * per_ns, (event, box, package)
                assert read.running_ns[row] <= read.enabled_ns[row]
            else:
                assert not (read.values[row] or read.running_ns[row] or read.enabled_ns[row])
                assert read.details[event][reason]


def rates(fake: FakeUncore, *reads: UncoreTable | Missing) -> tuple[PackageRow, ...]:
    state, rows = PackageState(), tuple[PackageRow, ...]()
    topology = read_topology(fake.root)
    for at, read in enumerate(reads, 1):
        state, rows = step_packages(
            state, SourceReading(read, at * SECOND, 0), fake.uarch, topology
        )
    return rows


def reasons(read: UncoreTable, event: str, package: int) -> set[Reason]:
    mine = (read.event == read.events.index(event)) & (read.packages == package)
    return {Reason(int(code)) for code in read.reasons[mine]}


@pytest.mark.parametrize("uarch", MODELS, ids=lambda uarch: uarch.name)
def test_every_event_is_counted_on_every_box_and_scaled_by_its_share(
    tmp_path: Path, uarch: Uarch
) -> None:
    bench = Bench(FakeUncore(tmp_path, uarch))
    assert bench.fake.opens == 0  # nothing before the first read
    bench.tick()
    bench.tick()
    before, after = bench.tick(), bench.tick()
    assert after.gaps == ""
    for unit in uarch.uncore:
        shared = dict(zip(turns_of(unit), shares(unit), strict=True))
        for turn, share in shared.items():
            for event in turn:
                mine = after.event == after.events.index(event)
                assert mine.sum() == 2 * bench.fake.boxes[unit.name]
                ran = (after.running_ns - before.running_ns)[mine]
                assert (ran / SECOND).tolist() == pytest.approx([share] * len(ran), rel=1e-6)
    for row in rates(bench.fake, before, after):
        package = int(row.package)
        writes = [e for unit in uarch.uncore for e in unit.events if e.startswith("cas_write")]
        assert row.readings["memory.write_bytes_per_s"] == pytest.approx(
            sum(64e9 * bench.fake.expected(e, box, package) for e in writes for box in (0, 1))
        )
        lost = [name for name, each in row.readings.items() if isinstance(each, Missing)]
        assert {row.readings[name].reason for name in lost} <= {Reason.HARDWARE}  # type: ignore[union-attr]
        assert {"pcie.itom.hit_per_s", "mmio.write_per_s"} <= row.estimates
        assert not any(name.startswith(("memory", "upi")) for name in row.estimates)
        assert len(row.channels) == len(row.links) == 2
    bench.counters.close()
    bench.counters.close()
    assert not bench.fake.fds


def test_lines_read_and_written_have_half_of_the_time_where_four_opcodes_fit() -> None:
    cha = next(unit for unit in ICX.uncore if unit.name == "cha")
    assert shares(cha)[0] == 0.5
    assert set(cha.turns[0]) == {"itom_hit", "itom_miss", "pcirdcur_hit", "pcirdcur_miss"}


@given(
    parts=st.lists(st.integers(1, 9), min_size=2, max_size=9),
    interval_ns=st.integers(0, 100 * SECOND),
)
def test_rounds_fill_the_interval_and_are_the_same_backwards(
    parts: list[int], interval_ns: int
) -> None:
    wanted = [part / sum(parts) for part in parts]
    slices = round_of(wanted, interval_ns)
    round_ns = sum(each.duration_ns for each in slices)
    assert slices == slices[::-1]
    assert min(each.duration_ns for each in slices) >= SHORTEST_NS - 1
    for turn, part in enumerate(wanted):
        mine = sum(each.duration_ns for each in slices if each.turn == turn)
        assert mine == pytest.approx(part * round_ns, rel=1e-6)
    if interval_ns * min(wanted) >= 2 * LONGEST_NS:
        assert max(each.duration_ns for each in slices) <= 2 * LONGEST_NS + 1
        assert interval_ns / round_ns == pytest.approx(round(interval_ns / round_ns), abs=1e-3)


def test_the_pace_is_learned_and_kept_through_a_late_tick(tmp_path: Path) -> None:
    bench = Bench(FakeUncore(tmp_path, SKX))
    bench.tick()
    assert bench.counters.round_ns == pytest.approx(32 * SHORTEST_NS)
    bench.tick()
    assert bench.counters.round_ns == pytest.approx(SECOND, rel=1e-6)
    bench.tick(SECOND * 11 // 10)
    assert bench.counters.round_ns == pytest.approx(SECOND, rel=1e-6)
    bench.tick(SECOND // 2)
    assert bench.counters.round_ns == pytest.approx(SECOND / 2, rel=1e-6)


@pytest.mark.parametrize("late_ns", [-SECOND // 10, 0, SECOND // 10])
def test_traffic_that_grows_steadily_looks_the_same_to_every_turn(
    tmp_path: Path, late_ns: int
) -> None:
    """Whole rounds go from reading to reading: all turns have the same mean moment."""
    bench = Bench(FakeUncore(tmp_path, SKX))
    bench.tick()
    bench.tick()
    moments: dict[int, list[tuple[int, int]]] = {}
    began_ns = bench.fake.now_ns
    until_ns = began_ns + SECOND + late_ns
    while bench.fake.now_ns < until_ns:
        due_ns = min(until_ns, bench.counters.due_ns or until_ns)
        (turn,) = {
            at
            for opened in bench.counters.boxes
            if opened.box.unit.name == "cha"
            for at, each in enumerate(opened.turns)
            if bench.fake.fds[each.fds[0]].on
        }
        middle = (bench.fake.now_ns + due_ns) // 2 - began_ns
        moments.setdefault(turn, []).append((due_ns - bench.fake.now_ns, middle))
        bench.wait(due_ns - bench.fake.now_ns)
    assert sorted(moments) == list(range(7))
    for turn, each in moments.items():
        mean = sum(length * at for length, at in each) / sum(length for length, _ in each)
        # The first turn alone has what is too much or too little.
        if turn:
            assert mean == pytest.approx(SECOND / 2, rel=1e-6)


def test_at_the_fastest_pace_every_metric_keeps_its_number(tmp_path: Path) -> None:
    bench = Bench(FakeUncore(tmp_path, SKX))
    reads = [bench.tick(SECOND // 10) for _ in range(30)]
    for row in rates(bench.fake, *reads):
        lost = {name for name, each in row.readings.items() if isinstance(each, Missing)}
        assert all("itomcachenear" in name or "llc" in name or "combined" in name for name in lost)


def test_where_turns_change_slowly_rounds_are_longer_and_no_number_is_lost(
    tmp_path: Path,
) -> None:
    """As on kernels that set all groups of a CPU anew for each that is switched on."""
    bench = Bench(FakeUncore(tmp_path, SKX, switch_takes_ns=2_000_000))
    reads = [bench.tick() for _ in range(20)]
    assert bench.counters.switch_ns == 6 * 2_000_000
    assert bench.counters.round_ns == pytest.approx(12 * 12_000_000 / SWITCHING_AT_MOST)
    seen = bench.fake.switches
    reads += [bench.tick() for _ in range(20)]
    took_ns = (bench.fake.switches - seen) / 2 * 2_000_000
    assert took_ns <= 1.1 * SWITCHING_AT_MOST * 20 * SECOND
    for row in rates(bench.fake, *reads):
        lost = {name for name, each in row.readings.items() if isinstance(each, Missing)}
        assert all("itomcachenear" in name or "llc" in name or "combined" in name for name in lost)


def test_multiplexing_with_another_program_is_handed_over_not_corrected(tmp_path: Path) -> None:
    fake = FakeUncore(tmp_path, SKX, share=lambda pmu: 0.25 if pmu == "uncore_imc_1" else 1.0)
    bench = Bench(fake)
    bench.tick()
    before, after = bench.tick(), bench.tick()
    imc_1 = (after.event == after.events.index("cas_read")) & (after.boxes == 1)
    assert (after.running_ns[imc_1] * 4 == after.enabled_ns[imc_1]).all()
    for row in rates(fake, before, after):
        assert "memory.read_bytes_per_s" in row.estimates
        exact = 64e9 * sum(fake.expected("cas_read", box, int(row.package)) for box in (0, 1))
        assert row.readings["memory.read_bytes_per_s"] == pytest.approx(exact)


def test_a_group_that_another_program_keeps_off_says_so(tmp_path: Path) -> None:
    fake = FakeUncore(tmp_path, SKX, share=lambda pmu: 0.0 if "imc" in pmu else 1.0)
    bench = Bench(fake)
    for row in rates(fake, *(bench.tick() for _ in range(4))):
        lost = row.readings["memory.read_bytes_per_s"]
        assert isinstance(lost, Missing) and lost.reason is Reason.TAKEN
        assert isinstance(row.readings["pcie.read_bytes_per_s"], float)


def test_one_box_without_a_number(tmp_path: Path) -> None:
    bench = Bench(FakeUncore(tmp_path, SKX, boxes={"imc": 1}, unnumbered=("imc",)))
    read = bench.tick()
    mine = read.event == read.events.index("cas_read")
    assert read.boxes[mine].tolist() == [0, 0]
    assert reasons(read, "itom_hit", 0) == {Reason.HARDWARE}
    assert "no PMU uncore_cha_0" in read.details["itom_hit"][Reason.HARDWARE]


def test_free_running_counters_are_no_boxes(tmp_path: Path) -> None:
    fake = FakeUncore(tmp_path, SKX)
    fake.put("uncore_imc_free_running_0", {"type": "99", "cpumask": "0,2"})
    read = Bench(fake).tick()
    assert (read.event == read.events.index("cas_read")).sum() == 4


def test_a_kernel_too_old_for_the_cpu_says_so(tmp_path: Path) -> None:
    """Its umask of 8 bits can't hold an opcode; memory needs none."""
    bench = Bench(FakeUncore(tmp_path, ICX, umask_8_bits=True))
    read = bench.tick()
    assert reasons(read, "itom_hit", 0) == {Reason.HARDWARE}
    assert "does not fit 8 bits" in read.details["itom_hit"][Reason.HARDWARE]
    assert reasons(read, "cas_read", 1) == {Reason.PRESENT}


@pytest.mark.parametrize(
    ("devices", "hint"),
    [((), "no counters outside the cores"), (("uncore_type_0_0",), "uncore_type_")],
)
def test_no_pmu_at_all_is_one_sentence(tmp_path: Path, devices: tuple[str, ...], hint: str) -> None:
    fake = FakeUncore(tmp_path, ICX, boxes={})
    (tmp_path / DEVICES).mkdir(parents=True)
    for name in devices:
        fake.put(name, {"type": "50", "cpumask": "0,2"})
    bench = Bench(fake)
    read = bench.read()
    assert isinstance(read, Missing) and read.reason is Reason.HARDWARE
    assert hint in read.sentence
    assert bench.counters.due_ns is None


def test_a_table_without_units_is_one_sentence_too(tmp_path: Path) -> None:
    read = Bench(FakeUncore(tmp_path, table.load())).read()
    assert isinstance(read, Missing) and read.reason is Reason.SOURCE


def test_one_package_needs_no_links(tmp_path: Path) -> None:
    fake = FakeUncore(tmp_path, SKX, boxes={"cha": 1, "imc": 1})
    for cpu in (2, 3):
        (tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id").write_text(
            "0\n"
        )
    fake.online -= {2, 3}
    fake.tell()
    read = Bench(fake).tick()
    assert read.gaps == ""
    assert set(read.packages) == {0}


def test_a_box_that_one_package_lacks_is_not_missed(tmp_path: Path) -> None:
    """The PMU of its number is there for the other package's sake."""

    def refuse(pmu: str, package: int) -> int:
        return errno.EINVAL if (pmu, package) == ("uncore_upi_1", 1) else 0

    bench = Bench(FakeUncore(tmp_path, SKX, refuse=refuse))
    bench.tick()
    before, after = bench.tick(), bench.tick()
    assert after.gaps == ""
    first, second = rates(bench.fake, before, after)
    assert [link.number for link in first.links] == [0, 1]
    assert [link.number for link in second.links] == [0]
    assert second.readings["upi.sent_bytes_per_s"] == second.links[0].out_bytes_per_s


def test_a_unit_that_is_refused_altogether_is(tmp_path: Path) -> None:
    fake = FakeUncore(
        tmp_path, SKX, refuse=lambda pmu, package: errno.EINVAL if "upi" in pmu else 0
    )
    read = Bench(fake).tick()
    assert reasons(read, "link_data_sent", 0) == {Reason.HARDWARE}
    assert "refuses every event" in read.details["link_data_sent"][Reason.HARDWARE]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (errno.EACCES, Reason.PERMISSION),
        (errno.EPERM, Reason.PERMISSION),
        (errno.ENOSYS, Reason.HARDWARE),
    ],
)
def test_without_the_privilege_it_is_asked_once_and_again_later(
    tmp_path: Path, code: int, reason: Reason
) -> None:
    allowed: list[bool] = []
    fake = FakeUncore(tmp_path, SKX, refuse=lambda pmu, package: 0 if allowed else code)
    bench = Bench(fake)
    read = bench.read()
    assert isinstance(read, Missing) and read.reason is reason
    assert fake.opens == 1
    assert bench.read() == read and fake.opens == 1
    allowed.append(True)
    assert bench.tick(RETRY_AFTER_NS).gaps == ""


def test_too_few_descriptors_keep_none(tmp_path: Path) -> None:
    """A sum of some boxes would be no sum, and others need descriptors too."""
    bench = Bench(FakeUncore(tmp_path, SKX, fd_limit=50))
    read = bench.read()
    assert isinstance(read, Missing) and read.reason is Reason.ERROR
    assert "ulimit -n" in read.sentence
    assert not bench.fake.fds
    bench.fake.fd_limit = 10_000
    assert bench.tick(RETRY_AFTER_NS).gaps == ""


def test_a_box_that_can_t_be_opened_takes_its_sums_with_it_and_is_tried_again(
    tmp_path: Path,
) -> None:
    codes = {"uncore_imc_1": errno.EBUSY}
    fake = FakeUncore(tmp_path, SKX, refuse=lambda pmu, package: codes.get(pmu, 0))
    bench = Bench(fake)
    bench.tick()
    row = rates(fake, bench.tick(), bench.tick())[0]
    lost = row.readings["memory.read_bytes_per_s"]
    assert isinstance(lost, Missing) and lost.reason is Reason.TAKEN
    assert isinstance(row.channels[0].in_bytes_per_s, float)
    assert isinstance(row.channels[1].in_bytes_per_s, Missing)
    codes.clear()
    assert bench.tick(RETRY_AFTER_NS).gaps == ""


def test_a_read_that_fails_is_told_and_the_box_opened_again_later(tmp_path: Path) -> None:
    bench = Bench(FakeUncore(tmp_path, SKX))
    bench.tick()
    bench.fake.read_errno["uncore_cha_2"] = errno.EIO
    for read in (bench.tick(), bench.tick()):
        assert Reason.ERROR in reasons(read, "itom_hit", 0)
        assert reasons(read, "cas_read", 0) == {Reason.PRESENT}
    bench.fake.read_errno.clear()
    assert bench.tick(RETRY_AFTER_NS).gaps == ""


def test_counting_goes_on_when_the_cpu_of_the_mask_goes_offline(tmp_path: Path) -> None:
    bench = Bench(FakeUncore(tmp_path, SKX))
    before, opens = bench.tick(), bench.fake.opens
    bench.fake.online.discard(2)
    bench.fake.tell()
    after = bench.tick()
    assert bench.fake.opens == opens and after.gaps == ""
    assert np.array_equal(before.boxes, after.boxes)
    assert {opened.box.cpu for opened in bench.counters.boxes} == {0, 3}


def test_a_package_that_goes_and_comes_back_is_followed(tmp_path: Path) -> None:
    bench = Bench(FakeUncore(tmp_path, SKX))
    whole = len(bench.tick().values)
    bench.fake.online -= {2, 3}
    bench.fake.tell()
    half = bench.tick()
    assert set(half.packages[half.reasons == 0]) == {0}
    assert all(bench.fake.fds[fd].cpu == 0 for fd in bench.fake.fds)
    bench.fake.online |= {2, 3}
    bench.fake.tell()
    read = bench.tick()
    assert len(read.values) == whole and read.gaps == ""


def test_events_that_left_their_group_are_a_restart(tmp_path: Path) -> None:
    """The kernel took them out before sysfs told of it."""
    bench = Bench(FakeUncore(tmp_path, SKX))
    bench.tick()
    for fd in bench.fake.fds.values():
        if fd.cpu == 2:
            fd.members.clear()
    read = bench.tick()
    assert reasons(read, "cas_read", 1) == {Reason.RESET}
    assert reasons(read, "cas_read", 0) == {Reason.PRESENT}
    assert bench.tick().gaps == ""


def test_a_quiet_cpu_s_package_is_left_alone(tmp_path: Path) -> None:
    bench = Bench(FakeUncore(tmp_path, SKX), quiet=[2])
    read = bench.tick()
    assert reasons(read, "cas_read", 1) == {Reason.SOURCE}
    assert "--quiet-cpus" in read.details["cas_read"][Reason.SOURCE]
    assert reasons(read, "cas_read", 0) == {Reason.PRESENT}
    assert {fd.cpu for fd in bench.fake.fds.values()} == {0}
    everywhere = Bench(FakeUncore(tmp_path / "other", SKX), quiet=[0, 2]).read()
    assert isinstance(everywhere, Missing) and everywhere.reason is Reason.SOURCE


def test_who_polls_on_the_cpu_that_counts_is_told(tmp_path: Path) -> None:
    bench = Bench(FakeUncore(tmp_path, SKX))
    bench.counters.told_pollers([1, 2, 3])
    assert "CPU 2 polls" in bench.tick().gaps
    bench.counters.told_pollers([1, 3])
    assert bench.tick().gaps == ""


def test_dies_of_one_package_are_added_up_or_left_out_together(tmp_path: Path) -> None:
    """Two dies in package 0: each has a box of every number, counted on a CPU of its own."""

    def two_dies(root: Path) -> FakeUncore:
        fake = FakeUncore(root, SKX)
        for cpu in range(4):
            folder = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
            (folder / "physical_package_id").write_text("0\n")
            (folder / "die_id").write_text(f"{cpu // 2}\n")
        return fake

    fake = two_dies(tmp_path)
    counters = Bench(fake).counters
    counters.read()
    fake.pass_ns(SECOND)
    before = counters.read()
    fake.pass_ns(SECOND)
    after = counters.read()
    (row,) = rates(fake, before, after)
    whole = 64e9 * sum(fake.expected("cas_read", box, die) for box in (0, 1) for die in (0, 1))
    assert row.readings["memory.read_bytes_per_s"] == pytest.approx(whole)
    assert [channel.number for channel in row.channels] == [0, 1]
    fake.online.discard(0)
    fake.tell()
    opens = fake.opens
    counters.read()
    assert fake.opens == opens
    quiet = Bench(two_dies(tmp_path / "quiet"), quiet=[2]).counters.read()
    assert isinstance(quiet, Missing) and "--quiet-cpus" in quiet.sentence
