"""Frequencies brought to rows: numbers, kinds of cores, and why they are absent."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.derive.cpu.frequencies import FrequencyState, step_frequencies
from nftop.derive.placement import Misplaced, misplaced
from nftop.model.column import column
from nftop.model.frame import Frame
from nftop.model.ids import Cpu, Package
from nftop.model.missing import Missing, Reason
from nftop.model.sample import SourceReading
from nftop.model.sst import CpufreqTable, CpuFrequency, SstPackage, SstState, priorities
from nftop.model.topology import Topology
from tests.frames import frame, topology

MHZ = 1_000_000
NO_TOOL = Missing(Reason.SOURCE, "no tool")


def row(cpu: int, base_mhz: int | None = 2100) -> CpuFrequency:
    return CpuFrequency(
        cpu=Cpu(cpu),
        policy=cpu,
        together=(Cpu(cpu),),
        driver="intel_pstate",
        governor="powersave",
        governors=("performance", "powersave"),
        epp="power",
        epps=("power",),
        min_hz=800 * MHZ,
        max_hz=3900 * MHZ,
        hardware_min_hz=800 * MHZ,
        hardware_max_hz=3900 * MHZ,
        base_hz=None if base_mhz is None else base_mhz * MHZ,
    )


def table(*rows: CpuFrequency, sst: SstState | Missing = NO_TOOL) -> CpufreqTable:
    return CpufreqTable(
        cpus=rows,
        without=(),
        pstate=None,
        uncore=(),
        sst=sst,
        keepers=(),
        hybrid=False,
        base_read_at_ns=0,
    )


def stepped(reports: CpufreqTable | Missing | None, of: Topology | None = None) -> FrequencyState:
    reading = None if reports is None else SourceReading(reports, 0, 0)
    return step_frequencies(FrequencyState(), reading, of or topology(4))


def sst(cp: bool | None, supported: bool | None = True, **classes: int) -> SstState:
    package = SstPackage(Package(0), 0, 0, None, None, cp, None, None, supported, (), None, None)
    return SstState((package,), {int(cpu[1:]): clos for cpu, clos in classes.items()}, 0)


def test_numbers_and_words_of_every_cpu() -> None:
    state = stepped(table(row(0), row(1, 2700), row(2), row(3, 2700)))
    assert state.columns["base_frequency_hz"].values.tolist() == [2.1e9, 2.7e9, 2.1e9, 2.7e9]
    assert state.columns["max_frequency_hz"][0] == 3.9e9
    assert [setting.priority for setting in state.settings] == ["low", "high", "low", "high"]
    assert (state.settings[0].governor, state.settings[0].epp) == ("powersave", "power")


def test_cores_alike_are_of_no_kind() -> None:
    state = stepped(table(*map(row, range(4))))
    for setting in state.settings:
        assert isinstance(setting.priority, Missing)
        assert setting.priority.reason is Reason.UNDEFINED


def test_cores_of_a_hybrid_are_no_sst() -> None:
    reports = replace(table(row(0), row(1, 2700), row(2), row(3)), hybrid=True)
    for setting in stepped(reports).settings:
        assert isinstance(setting.priority, Missing)
        assert "two kinds" in setting.priority.message


@pytest.mark.parametrize(
    ("driver", "printed"),
    [("acpi-cpufreq", "intel_pstate with HWP does"), ("intel_pstate", "where the CPU has HWP")],
)
def test_no_base_frequency_has_its_reason(driver: str, printed: str) -> None:
    rows = [replace(row(cpu, None), driver=driver, epp=None) for cpu in range(4)]
    state = stepped(table(*rows))
    base = state.columns["base_frequency_hz"][0]
    assert isinstance(base, Missing) and base.reason is Reason.HARDWARE
    assert printed in base.message and driver in base.message
    assert state.settings[0].priority == base
    assert isinstance(state.settings[0].epp, Missing)
    assert state.columns["min_frequency_hz"][0] == 0.8e9


def test_cpus_without_a_policy_and_offline_ones_report_it() -> None:
    here = topology(4)
    off = replace(here, cpus=(*here.cpus[:3], replace(here.cpus[3], online=False)))
    state = stepped(table(row(0), row(1)), off)
    for cpu, printed in ((2, "this CPU has no cpufreq"), (3, "offline")):
        reading = state.columns["max_frequency_hz"][cpu]
        assert isinstance(reading, Missing) and reading.message == printed


def test_a_host_without_cpufreq_reports_why_everywhere() -> None:
    why = Missing(Reason.SOURCE, "no CPU has cpufreq here")
    state = stepped(why)
    assert state.columns["base_frequency_hz"][2] == why
    assert state.settings[2].governor == why
    assert stepped(None).settings[0].priority != why


def test_an_older_recording_s_topology_reports_base_frequencies() -> None:
    here = topology(4)
    two = tuple(
        replace(info, base_frequency_hz=2.7e9 if info.cpu == 1 else 2.1e9) for info in here.cpus
    )
    state = stepped(None, replace(here, cpus=two))
    assert state.columns["base_frequency_hz"][1] == 2.7e9
    assert [setting.priority for setting in state.settings] == ["low", "high", "low", "low"]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (sst(True), Reason.SOURCE),
        (sst(False), Reason.UNDEFINED),
        (sst(False, supported=False), Reason.HARDWARE),
    ],
)
def test_classes_of_power(state: SstState, reason: Reason) -> None:
    reports = stepped(table(row(0), row(1), sst=replace(state, cp_class={1: 3})))
    assert reports.settings[1].cp_class == 3
    other = reports.settings[0].cp_class
    assert isinstance(other, Missing) and other.reason is reason


def test_what_has_not_changed_is_not_recreated() -> None:
    here, reports = topology(4), table(row(0))
    first = step_frequencies(FrequencyState(), SourceReading(reports, 0, 0), here)
    again = step_frequencies(first, SourceReading(replace(reports), 1, 0), here)
    assert again is first
    assert step_frequencies(first, SourceReading(table(row(0, 2300)), 2, 0), here) is not first


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from([None, 2.1e9, 2.7e9])),
        max_size=12,
    )
)
def test_kinds_differ_within_a_package_only(hosts: list[tuple[int, float | None]]) -> None:
    base = [(Cpu(at), Package(package), hz) for at, (package, hz) in enumerate(hosts)]
    result = priorities(base)
    for package in (0, 1):
        known = {cpu: hz for cpu, of, hz in base if of == package and hz is not None}
        kinds = {cpu: result.get(cpu) for cpu in known}
        if len(set(known.values())) < 2:
            assert set(kinds.values()) <= {None}
        else:
            assert kinds == {cpu: "high" if hz == 2.7e9 else "low" for cpu, hz in known.items()}


def shown(*high: int) -> Frame:
    """Eight cores of one thread on two packages; pollers are on CPUs 1 to 3."""
    base = frame(16, packages=2)
    kinds = tuple(
        replace(setting, priority="high" if cpu in high else "low")
        for cpu, setting in enumerate(base.cpus.settings)
    )
    idle = column(base.cpus.columns["cpu_time_ratio"].values * 0)
    columns = {**base.cpus.columns, "cpu_time_ratio": idle}
    return replace(base, cpus=replace(base.cpus, settings=kinds, columns=columns))


def test_pollers_on_low_priority_cores_and_where_they_could_go() -> None:
    (result,) = misplaced(shown(1, 9, 0, 8, 5, 13))
    assert result == Misplaced(
        Package(0), {"fwd": (Cpu(2),), "vpp": (Cpu(3),)}, near=(Cpu(0),), far=(Cpu(5),)
    )


def test_a_core_with_a_polling_sibling_or_with_work_is_not_free() -> None:
    (result,) = misplaced(shown(1, 9, 10, 8))
    assert result.near == (8,), "10 is beside 2, and 9 beside 1"
    busy = shown(0, 8)
    columns = dict(busy.cpus.columns)
    columns["cpu_time_ratio"] = column(columns["cpu_time_ratio"].values + 0.5)
    (result,) = misplaced(replace(busy, cpus=replace(busy.cpus, columns=columns)))
    assert (result.near, result.far) == ((), ())


def test_a_core_of_which_a_thread_is_not_known_is_not_free() -> None:
    requests = shown(0, 8)
    (result,) = misplaced(requests)
    assert result.near == (0,)
    values = requests.cpus.columns["cpu_time_ratio"].values.copy()
    values[8] = float("nan")
    unknown = column(values, why=Missing(Reason.WARMING))
    columns = {**requests.cpus.columns, "cpu_time_ratio": unknown}
    (result,) = misplaced(replace(requests, cpus=replace(requests.cpus, columns=columns)))
    assert (result.near, result.far) == ((), ())


def test_nobody_is_misplaced_where_all_are_high_or_alike() -> None:
    assert misplaced(shown(*range(16))) == ()
    assert misplaced(frame(8)) == ()
