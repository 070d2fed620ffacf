"""Words of what is set for frequencies: cells, facts, and lines above the Power screen's table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.column import missing
from nftop.model.frame import Frame, SourceState
from nftop.model.ids import Cpu, Package
from nftop.model.missing import Missing, Reason
from nftop.model.sst import (
    CpufreqTable,
    CpuSetting,
    Keeper,
    PstateDriver,
    SstPackage,
    SstState,
    UncoreLimits,
)
from nftop.render.cores.columns import columns_for
from nftop.render.power.settings import (
    fitted,
    governor_text,
    host_lines,
    placement_lines,
    setting_facts,
    span_text,
)
from tests.derive.cpu.test_frequencies import row, shown, table
from tests.frames import HOSTILE, SETTING, frame

MHZ = 1_000_000
NOT = Missing(Reason.SOURCE, "not told")


def message(of: Frame, width: int = 200) -> str:
    return "\n".join(line.text for line in host_lines(of, width))


def reported(**changes: object) -> Frame:
    base = table(row(0), row(1))
    return replace(frame(8), frequencies=replace(base, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("least", "most", "text"),
    [(0.8e9, 3.9e9, "0.8-3.9"), (2.3e9, 2.3e9, "2.3"), (2.25e9, 2.3e9, "2.25-2.3")],
)
def test_limits_have_the_digits_they_need(least: float, most: float, text: str) -> None:
    assert span_text(least, most) == text


def test_governor_and_preference_as_far_as_room_allows() -> None:
    assert governor_text(frame(2).cpus, 0) == "powersave/bal-perf"
    assert fitted("powersave/bal-perf", 12) == "powersave"
    assert fitted("powersave/bal-perf", 18) == "powersave/bal-perf"
    bare = replace(SETTING, epp=NOT)
    one = replace(frame(2), cpus=replace(frame(2).cpus, settings=(bare, bare)))
    assert governor_text(one.cpus, 0) == "powersave"


def test_facts_of_a_cpu_leave_out_what_is_not_known(snapshot: SnapshotAssertion) -> None:
    setting = CpuSetting("high", "acpi-cpufreq", "ondemand", NOT, 2, (Cpu(5),))
    assert setting_facts(setting, 2.7e9, 2.7e9, 2.7e9) == snapshot
    assert setting_facts(CpuSetting(NOT, NOT, NOT, NOT, NOT), NOT, NOT, NOT) == []


def test_host_line_has_driver_turbo_mesh_sst_and_other_programs(
    snapshot: SnapshotAssertion,
) -> None:
    mesh = tuple(UncoreLimits(Package(p), 0, 1200 * MHZ, 2400 * MHZ, None, None) for p in (0, 1))
    packages = tuple(
        SstPackage(Package(p), 0, 0, True, False, None, True, True, None, (), None, None)
        for p in (0, 1)
    )
    text = message(
        reported(
            pstate=PstateDriver("active", turbo=False, min_percent=20, max_percent=100),
            uncore=mesh,
            sst=SstState(packages, {}, 0),
            keepers=(Keeper("tuned", "process tuned", 8), Keeper("tuned", "again", 9)),
        )
    )
    assert text == snapshot
    apart = (mesh[0], replace(mesh[1], max_hz=2000 * MHZ))
    assert message(reported(uncore=apart)) == snapshot


def test_reason_for_no_numbers(snapshot: SnapshotAssertion) -> None:
    why = Missing(Reason.SOURCE, "no CPU has cpufreq here")
    assert message(replace(frame(2), frequencies=why)) == snapshot
    remote = replace(frame(2), frequencies=why, sources={})
    assert message(remote) == "", "a server of another host has no word for it"


def test_unreported_base_frequencies_have_their_reason_on_the_line() -> None:
    base = reported()
    none = Missing(Reason.HARDWARE, "acpi-cpufreq tells no base frequency")
    columns = {**base.cpus.columns, "base_frequency_hz": missing(8, none)}
    frame_without = replace(base, cpus=replace(base.cpus, columns=columns))
    assert none.message in message(frame_without)
    assert "base_frequency_hz" not in [
        col.key for col in columns_for(200, frame_without.cpus, "power")
    ]


def test_pollers_on_low_priority_cores_are_named_with_cores_near_first(
    snapshot: SnapshotAssertion,
) -> None:
    (line,) = placement_lines(shown(1, 9, 0, 8, 5, 13), 200)
    assert line.text == snapshot
    (line,) = placement_lines(shown(1, 9), 200)
    assert line.text == snapshot
    assert placement_lines(frame(8), 200) == []


def test_the_badge_has_a_column_with_two_kinds() -> None:
    for width in (80, 120, 200):
        assert "sst" in [col.key for col in columns_for(width, shown(1, 9).cpus)]
        assert "sst" not in [col.key for col in columns_for(width, frame(16).cpus)]


@pytest.mark.parametrize("word", HOSTILE)
def test_hostile_names_are_printable(word: str) -> None:
    rows = (replace(row(0), driver=word, governor=word),)
    keeper = Keeper("tuned", word, 1)
    base = reported(cpus=rows, keepers=(keeper,), sst=Missing(Reason.ERROR, word))
    hostile = replace(SETTING, governor=word, epp=word)
    base = replace(
        base,
        cpus=replace(base.cpus, settings=(hostile,) * 8, nf=(word,) * 8),
        sources={"cpufreq": SourceState(Reason.PRESENT, word, 0.0, 0.0)},
    )
    kinds = tuple(replace(hostile, priority="low") for _ in range(8))
    low = replace(base, cpus=replace(base.cpus, settings=kinds))
    lines = [*host_lines(base, 80), *placement_lines(low, 80)]
    assert all(line.text.isprintable() for line in lines)
    assert isinstance(base.frequencies, CpufreqTable)
