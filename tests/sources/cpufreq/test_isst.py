"""intel-speed-select's answers, in the layouts of its versions, and what is no answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Missing, Reason
from nftop.model.sst import SstState
from nftop.sources.cpufreq.isst import PROGRAM, ask_sst, read_sst
from nftop.sources.runtime import helper
from nftop.sources.runtime.helper import ProgramOutput, find, run

MHZ = 1_000_000
# The layouts follow format_and_print and print_package_info of isst-display.c; the numbers are
# those that Intel's guides show of a Xeon of the third generation.
BANNER = "Intel(R) Speed Select Technology\nExecuting on CPU model:106[0x6a]\n"
LEVEL = {
    "cpu-count": "48",
    "thermal-design-power-ratio": "22",
    "base-frequency(MHz)": "2200",
    "speed-select-turbo-freq": "unsupported",
    "speed-select-base-freq": "enabled",
    "speed-select-core-power": "enabled",
    "turbo-ratio-limits-sse": {"bucket-0": {"core-count": "8", "max-turbo-frequency(MHz)": "3400"}},
    "speed-select-base-freq-properties": {
        "high-priority-base-frequency(MHz)": "2400",
        "high-priority-cpu-mask": "00000000,000030cc,cc0c0330",
        "high-priority-cpu-list": "4,5,8,9,18,19",
        "low-priority-base-frequency(MHz)": "1800",
        "tjunction-temperature(C)": "105",
    },
}
LOCATIONS = ("package-0:die-0:cpu-0", "package-1:die-0:cpu-48")


def answers(
    info: str, level: str = "", assoc: str = "", *, requests: list[Sequence[str]] | None = None
) -> SstState | Missing:
    def ask(words: Sequence[str]) -> ProgramOutput:
        if requests is not None:
            requests.append(words)
        chosen = assoc if "get-assoc" in words else level if "info" not in words else info
        return ProgramOutput(0, BANNER, chosen)

    return ask_sst(range(96), ask)


def as_json(by_location: Mapping[str, object]) -> str:
    return json.dumps(by_location, indent=2)


def as_text(value: Mapping[str, object], depth: int = 0) -> str:
    lines = []
    for key, inner in value.items():
        heads = key.split(":") if key.startswith("package-") else [key]
        for at, head in enumerate(heads[:-1]):
            lines.append(f"{'  ' * (depth + at)} {head}")
        pad = "  " * (depth + len(heads) - 1)
        if isinstance(inner, Mapping):
            lines += [f"{pad} {heads[-1]}", as_text(inner, depth + len(heads))]
        else:
            lines.append(f"{pad} {heads[-1]}:{inner}")
    return "\n".join(lines)


def unclosed(text: str) -> str:
    """As the first versions wrote it: not a bracket where JSON wants one."""
    return text.replace("},", "").replace("}", "")


INFO = {location: {"perf-profile-level-0": LEVEL} for location in LOCATIONS}
ASSOC = {
    f"package-0:die-0:cpu-{cpu}": {"get-assoc": {"clos": str(number)}}
    for cpu, number in ((0, 3), (4, 0), (5, 0), (6, 9))
}


@pytest.mark.parametrize("form", [as_json, as_text, lambda value: unclosed(as_json(value))])
def test_all_layouts_report_the_same(form) -> None:  # type: ignore[no-untyped-def]
    state = answers(form(INFO), assoc=form(ASSOC))
    assert isinstance(state, SstState)
    first, second = state.packages
    assert (first.package, second.package, first.die, first.level) == (0, 1, 0, 0)
    assert (first.bf, first.bf_supported) == (True, True)
    assert (first.tf, first.tf_supported) == (False, False)
    assert (first.cp, first.cp_supported) == (True, True)
    assert first.bf_high == (4, 5, 8, 9, 18, 19)
    assert (first.bf_high_hz, first.bf_low_hz) == (2400 * MHZ, 1800 * MHZ)
    assert state.cp_class == {0: 3, 4: 0, 5: 0}, "there is no class 9"


def test_of_several_levels_the_one_in_use_counts() -> None:
    off = {**LEVEL, "speed-select-base-freq": "disabled"}
    info = {LOCATIONS[0]: {"perf-profile-level-0": LEVEL, "perf-profile-level-3": off}}
    current = as_json({LOCATIONS[0]: {"get-config-current_level": "3"}})
    state = answers(as_json(info), current)
    assert isinstance(state, SstState)
    (row,) = state.packages
    assert (row.level, row.bf, row.bf_supported) == (3, False, True)
    # Where it does not report which that is, nothing is guessed.
    assert isinstance(answers(as_json(info)), Missing)


def test_classes_are_requested_in_batches() -> None:
    requests: list[Sequence[str]] = []
    off = {**LEVEL, "speed-select-core-power": "disabled"}
    info = as_json({LOCATIONS[0]: {"perf-profile-level-0": off}})
    assert isinstance(answers(info, requests=requests), SstState)
    assert not any("get-assoc" in words for words in requests)
    requests.clear()
    answers(as_json(INFO), assoc=as_json(ASSOC), requests=requests)
    counts = [len(words[3].split(",")) for words in requests if "get-assoc" in words]
    assert counts == [64, 32]


def test_a_cascade_lake_n_of_the_first_version_gives_khz() -> None:
    properties = {
        "high-priority-base-frequency(MHz)": "2700000",
        "high-priority-cpu-list": "26,27,31",
        "low-priority-base-frequency(MHz)": "2100000",
    }
    level = {"speed-select-base-freq": "enabled", "speed-select-base-freq-properties": properties}
    state = answers(as_json({LOCATIONS[0]: {"perf-profile-level-0": level}}))
    assert isinstance(state, SstState)
    (row,) = state.packages
    assert (row.bf_high_hz, row.bf_low_hz) == (2700 * MHZ, 2100 * MHZ)
    assert (row.cp, row.cp_supported, row.tf) == (None, None, None)


@pytest.mark.parametrize(
    "printed",
    [
        "Intel speed select drivers are not loaded on this system.",
        "Must run as root",
        "",
        "{}",
        '{"package-0:die-0:cpu-0": {"perf-profile-level-0": ',
    ],
)
def test_what_is_no_answer_is_none_with_its_words(printed: str) -> None:
    state = answers(printed)
    assert isinstance(state, Missing) and state.reason is Reason.SOURCE
    assert PROGRAM in state.message


@given(st.text(alphabet='package-01:{}",\n level speed-select:enabled'), st.text())
def test_no_reply_can_raise(info: str, level: str) -> None:
    state = answers(info, level, info)
    assert isinstance(state, SstState | Missing)


def script(root: Path, text: str) -> Path:
    path = root / "usr/sbin" / PROGRAM
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_program_that_answers_as_it_does_on_standard_error(tmp_path: Path) -> None:
    script(tmp_path, f"cat >&2 <<'END'\n{as_json(INFO)}\nEND\necho {PROGRAM} talks")
    state = read_sst([0, 1], tmp_path)
    assert isinstance(state, SstState)
    assert [row.package for row in state.packages] == [0, 1]
    assert isinstance(read_sst([0], tmp_path / "elsewhere"), Missing)


def test_only_a_program_that_nobody_but_root_can_change_is_run(tmp_path: Path) -> None:
    path = script(tmp_path, "true")
    assert find(PROGRAM, tmp_path) == path
    path.chmod(0o777)
    assert find(PROGRAM, tmp_path) is None
    path.chmod(0o644)
    assert find(PROGRAM, tmp_path) is None


def test_a_program_that_hangs_is_ended(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    path = script(tmp_path, "echo first\nexec sleep 600")
    printed = run(path, (), 0.3)
    assert isinstance(printed, Missing)
    assert printed.message == snapshot


def test_a_program_that_leaves_a_child_with_its_pipes_is_no_trap(tmp_path: Path) -> None:
    path = script(tmp_path, "sleep 5 &\necho done")
    assert isinstance(run(path, (), 0.5), Missing)


def test_one_that_never_stops_talking_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(helper, "_MOST_BYTES", 10_000)
    printed = run(script(tmp_path, "exec yes"), (), 5.0)
    assert isinstance(printed, Missing), "it had to be ended"


def test_what_it_reports_and_how_it_ends(tmp_path: Path) -> None:
    printed = run(script(tmp_path, 'echo "$1 $HOME"\necho two >&2\nexit 3'), ("one",), 5.0)
    assert printed == ProgramOutput(3, "one \n", "two\n")
    gone = run(tmp_path / "nobody", (), 1.0)
    assert isinstance(gone, Missing) and "can't be started" in gone.message
