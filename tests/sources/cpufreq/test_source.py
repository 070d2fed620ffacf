"""What the source reads of frequencies, and how often it reads what interrupts CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Missing, Reason
from nftop.model.sst import CpufreqTable, SstState, UncoreLimits
from nftop.sources.cpufreq import source as module
from nftop.sources.cpufreq.files import FrequencyFiles
from nftop.sources.cpufreq.source import CpufreqSource
from tests.sources.cpufreq.trees import CPU, captured, host, set_to
from tests.sources.trees import put

S = 1_000_000_000
MHZ = 1_000_000
NO_TOOL = Missing(Reason.SOURCE, "not here")


class Clocked:
    """A source whose clock stands still, and who was asked for SST."""

    def __init__(self, root: Path, quiet: Sequence[int] = ()) -> None:
        self.now_ns = 5 * S
        self.requested: list[tuple[int, ...]] = []
        self.sst: SstState | Missing = NO_TOOL
        self.source = CpufreqSource(
            root, quiet_cpus=quiet, ask_sst=self._ask, clock=lambda: self.now_ns
        )

    def _ask(self, cpus: Sequence[int]) -> SstState | Missing:
        self.requested.append(tuple(cpus))
        return self.sst

    def read(self, after_s: float = 0.0) -> CpufreqTable:
        self.now_ns += int(after_s * S)
        table = self.source.read()
        assert isinstance(table, CpufreqTable)
        return table


@pytest.fixture
def bases(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The CPUs whose base frequency is read, in order."""
    read: list[int] = []
    real = FrequencyFiles.base_hz

    def counting(self: FrequencyFiles, cpu: int) -> int | None:
        read.append(cpu)
        return real(self, cpu)  # type: ignore[arg-type]

    monkeypatch.setattr(FrequencyFiles, "base_hz", counting)
    return read


def test_what_a_policy_reports(tmp_path: Path) -> None:
    table = Clocked(host(tmp_path, base_khz={1: 2_700_000})).read()
    row = table.row_of[1]
    assert (row.policy, row.together, row.driver) == (1, (1,), "intel_pstate")
    assert (row.governor, row.governors) == ("powersave", ("performance", "powersave"))
    assert (row.min_hz, row.max_hz) == (800 * MHZ, 3900 * MHZ)
    assert (row.hardware_min_hz, row.hardware_max_hz) == (800 * MHZ, 3900 * MHZ)
    assert (row.base_hz, table.row_of[0].base_hz) == (2700 * MHZ, 2100 * MHZ)
    assert (row.epp, row.epps[0]) == ("balance_performance", "default")
    assert table.pstate is not None
    assert (table.pstate.status, table.pstate.turbo, table.pstate.min_percent) == (
        "active",
        True,
        None,
    )
    (mesh,) = table.uncore
    assert (mesh.package, mesh.min_hz, mesh.initial_min_hz) == (0, 1200 * MHZ, None)
    assert (table.without, table.notes, table.hybrid) == ((), (), False)


def test_the_same_object_as_long_as_nothing_changes(tmp_path: Path) -> None:
    clocked = Clocked(host(tmp_path))
    clocked.read()
    first = clocked.read(1)  # it knows of SST by now
    assert clocked.read(1) is first
    assert clocked.read(6) is first
    set_to(tmp_path, 2, scaling_max_freq="2300000")
    assert clocked.read(1) is first, "limits are read every few seconds"
    changed = clocked.read(6)
    assert changed.row_of[2].max_hz == 2300 * MHZ
    assert changed.row_of[1] == first.row_of[1]


def test_what_interrupts_a_cpu_is_read_once_and_when_its_limits_change(
    tmp_path: Path, bases: list[int]
) -> None:
    clocked = Clocked(host(tmp_path))
    clocked.read()
    assert bases == [0, 1, 2, 3]
    for _ in range(20):
        clocked.read(6)
    assert bases == [0, 1, 2, 3]
    set_to(tmp_path, 2, scaling_min_freq="2700000", base_frequency="2700000")
    assert clocked.read(6).row_of[2].base_hz == 2700 * MHZ
    assert bases == [0, 1, 2, 3, 2]
    clocked.read(601)
    assert bases[5:] == [0, 1, 2, 3]
    clocked.source.soon()
    clocked.read(0.1)
    assert bases[9:] == [0, 1, 2, 3]


def test_quiet_cpus_are_interrupted_at_the_start_only(tmp_path: Path, bases: list[int]) -> None:
    clocked = Clocked(host(tmp_path), quiet=(1, 2))
    clocked.read()
    clocked.read(601)
    clocked.source.soon()
    clocked.read(1)
    assert bases == [0, 1, 2, 3, 0, 3, 0, 3]


def test_the_preference_is_read_often_where_the_kernel_has_it_cached(tmp_path: Path) -> None:
    for release, seen in (("5.9.0", "balance_performance"), ("6.1.0-13-amd64", "power")):
        root = tmp_path / release
        clocked = Clocked(host(root, release=release))
        clocked.read()
        set_to(root, 0, energy_performance_preference="power")
        assert clocked.read(6).row_of[0].epp == seen


def test_cpus_that_come_and_go(tmp_path: Path) -> None:
    clocked = Clocked(host(tmp_path))
    clocked.read()
    put(tmp_path, {f"{CPU}/online": "0-2"})
    table = clocked.read(0.1)
    assert [row.cpu for row in table.cpus] == [0, 1, 2]
    assert table.without == ()
    put(tmp_path, {f"{CPU}/online": "0-3"})
    assert len(clocked.read(0.1).cpus) == 4


def test_a_policy_that_stops_answering_has_no_row(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    clocked = Clocked(host(tmp_path))
    clocked.read()
    for name in ("scaling_governor", "scaling_min_freq", "scaling_max_freq"):
        (tmp_path / CPU / "cpufreq/policy3" / name).unlink()
    table = clocked.read(6)
    assert (table.without, [row.cpu for row in table.cpus]) == ((3,), [0, 1, 2])
    assert table.gaps == snapshot


def test_sst_is_queried_after_the_rest_and_seldom(tmp_path: Path) -> None:
    clocked = Clocked(host(tmp_path))
    first = clocked.read()
    assert isinstance(first.sst, Missing) and first.sst.reason is Reason.WARMING
    assert clocked.requested == []
    assert clocked.read(1).sst is NO_TOOL
    for _ in range(10):
        clocked.read(6)
    assert clocked.requested == [(0, 1, 2, 3)]


@pytest.fixture
def meshes(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One item for each reading of the mesh's limits."""
    read: list[None] = []
    real = FrequencyFiles.uncore

    def counting(self: FrequencyFiles) -> tuple[UncoreLimits, ...]:
        read.append(None)
        return real(self)

    monkeypatch.setattr(FrequencyFiles, "uncore", counting)
    return read


def test_a_program_that_scales_a_core_all_the_time_costs_the_others_nothing(
    tmp_path: Path, bases: list[int], meshes: list[None]
) -> None:
    clocked = Clocked(host(tmp_path))
    started_at_ns = clocked.read().base_read_at_ns
    for second in range(180):
        set_to(tmp_path, 2, scaling_max_freq=str(2_000_000 + 100_000 * (second % 7)))
        table = clocked.read(1)
        assert table.base_read_at_ns == started_at_ns, "those of the others are as old as before"
    assert clocked.requested == [(0, 1, 2, 3)]
    assert bases[:4] == [0, 1, 2, 3]
    assert set(bases[4:]) == {2} and len(bases[4:]) <= 3
    assert len(meshes) <= 4
    clocked.read(420)
    assert bases[-4:] == [0, 1, 2, 3], "changes of one CPU don't put off what is due of all"


def test_quiet_cpus_that_are_scaled_cost_nothing_at_all(
    tmp_path: Path, bases: list[int], meshes: list[None]
) -> None:
    clocked = Clocked(host(tmp_path), quiet=(0, 1, 2, 3))
    sst = clocked.read().sst
    for second in range(180):
        set_to(tmp_path, 2, scaling_max_freq=str(2_000_000 + 100_000 * (second % 7)))
        sst = clocked.read(1).sst
    assert (bases, len(meshes), clocked.requested) == ([0, 1, 2, 3], 1, [])
    assert isinstance(sst, Missing) and "--quiet-cpus" in sst.message


def test_a_change_that_comes_soon_after_another_is_observed_later(
    tmp_path: Path, bases: list[int]
) -> None:
    clocked = Clocked(host(tmp_path))
    clocked.read()
    set_to(tmp_path, 2, scaling_min_freq="2700000", base_frequency="2700000")
    assert clocked.read(6).row_of[2].min_hz == 2700 * MHZ
    assert bases == [0, 1, 2, 3]
    assert clocked.read(60).row_of[2].base_hz == 2700 * MHZ
    assert bases == [0, 1, 2, 3, 2]


def test_sst_is_queried_again_when_nftop_changed_something_and_when_its_time_has_come(
    tmp_path: Path,
) -> None:
    clocked = Clocked(host(tmp_path), quiet=(1,))
    clocked.read()
    clocked.read(1)
    assert clocked.requested == [(0, 2, 3)]
    clocked.source.soon()
    clocked.read(1)
    clocked.read(1)
    assert len(clocked.requested) == 2
    for _ in range(5):  # CPUs that come and go are reason to ask, but not each time
        for online in ("0-2", "0-3"):
            put(tmp_path, {f"{CPU}/online": online})
            clocked.read(1)
    assert len(clocked.requested) == 2
    for _ in range(12):
        clocked.read(6)
    assert len(clocked.requested) == 3
    for _ in range(120):
        clocked.read(6)
    assert len(clocked.requested) == 4


def test_invalid_values_are_no_numbers(tmp_path: Path) -> None:
    host(tmp_path)
    set_to(tmp_path, 0, base_frequency="fast", scaling_max_freq="-1", scaling_governor="x" * 5000)
    set_to(tmp_path, 1, base_frequency="9" * 40, affected_cpus="one two")
    table = Clocked(tmp_path).read()
    row = table.row_of[0]
    assert (row.base_hz, row.max_hz) == (None, None)
    assert row.governor is not None and len(row.governor) <= 64
    assert table.row_of[1].together == (1,)
    assert any("base_frequency" in note for note in table.notes)


@pytest.mark.parametrize("online", ["0-3", "", None])
def test_a_host_without_cpufreq_reports_it(tmp_path: Path, online: str | None) -> None:
    if online is not None:
        put(tmp_path, {f"{CPU}/online": online})
    (tmp_path / CPU / "cpufreq").mkdir(parents=True)
    source = CpufreqSource(tmp_path, ask_sst=lambda _: NO_TOOL)
    table = source.read()
    assert isinstance(table, Missing)
    assert (table.reason, table.message) == (Reason.SOURCE, module.NO_CPUFREQ)
    (check,) = source.check()
    assert check.reason is Reason.SOURCE


def test_acpi_cpufreq_has_policies_of_several_cpus(tmp_path: Path) -> None:
    host(tmp_path)
    folder = tmp_path / CPU / "cpufreq"
    for cpu in (0, 1):
        for name in ("base_frequency", "energy_performance_preference"):
            (folder / f"policy{cpu}" / name).unlink()
        (folder / f"policy{cpu}/energy_performance_available_preferences").unlink()
        set_to(tmp_path, cpu, scaling_driver="acpi-cpufreq", affected_cpus=f"{cpu} {cpu + 2}")
        sibling = tmp_path / CPU / f"cpu{cpu + 2}/cpufreq"
        sibling.unlink()
        sibling.symlink_to(f"../cpufreq/policy{cpu}")
    table = Clocked(tmp_path).read()
    row = table.row_of[3]
    assert (row.policy, row.together, row.base_hz, row.epp) == (1, (1, 3), None, None)


def test_real_hosts(tmp_path: Path) -> None:
    server = Clocked(captured("sample2", tmp_path / "sample2")).read()
    assert len(server.cpus) == 112
    assert {row.base_hz for row in server.cpus} == {2700 * MHZ}
    assert {row.driver for row in server.cpus} == {"intel_pstate"}
    assert [(item.package, item.max_hz) for item in server.uncore] == [
        (0, 2400 * MHZ),
        (1, 2400 * MHZ),
    ]
    hybrid = Clocked(captured("sample1", tmp_path / "sample1")).read()
    assert hybrid.hybrid
    assert {row.base_hz for row in hybrid.cpus} == {1600 * MHZ, 1200 * MHZ}
    plain = Clocked(captured("4-socket-server-nosnc", tmp_path / "4")).read()
    assert {(row.base_hz, row.epp, row.governor) for row in plain.cpus} == {
        (None, None, "powersave")
    }


def test_doctor_lists_items_and_other_programs(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    host(tmp_path, base_khz={1: 2_700_000})
    set_to(tmp_path, 3, scaling_min_freq="2100000", scaling_max_freq="2100000")
    put(tmp_path, {"proc/812/comm": "tuned", "proc/900/comm": "bash"})
    wants = tmp_path / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    (wants / "cpupower.service").symlink_to("/nowhere")
    clocked = Clocked(tmp_path)
    checks = {check.name: check for check in clocked.source.check()}
    driver = checks["cpufreq"]
    assert driver.reason is Reason.PRESENT
    assert driver.text == snapshot
    assert checks["cpufreq base"].text == snapshot
    assert checks["cpufreq SST"].text == "not here"
    assert checks["cpufreq tuned"].text == snapshot
    assert checks["cpufreq cpupower"].text.startswith("cpupower.service is enabled: ")
    assert clocked.read(1).gaps == snapshot
    clocked.source.close()
