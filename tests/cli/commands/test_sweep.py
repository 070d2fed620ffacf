"""`nftop cat sweep` on the simulated host: what it shows, what it does, how it ends."""

from __future__ import annotations

import argparse
import json
import signal
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.cli.main import build_parser, run
from tests.command import called

DEMO = "demo --scenario noisy --cpus 24 cat sweep --group tenant".split()
QUICK = ["--measure", "10", "--seed", "3"]


def parse(line: str) -> argparse.Namespace:
    return build_parser().parse_args(["cat", "sweep", "--group", "tenant", *line.split()])


@pytest.mark.parametrize(
    ("line", "widths"), [("", None), ("--ways 1-8", (1, 8)), ("--ways 3", (3, 3))]
)
def test_widths(line: str, widths: tuple[int, int] | None) -> None:
    assert parse(line).ways == widths


@pytest.mark.parametrize(
    "line",
    [
        "--ways 8-1", "--ways 0-3", "--ways x", "--ways 1-65", "--watch ,", "--rounds 1",
        "--tolerance 0", "--most-drops -1", "--l3 x", "--measure 0", "--yes --dry-run",
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(line: str) -> None:
    with pytest.raises(SystemExit) as end:
        parse(line)
    assert end.value.code == 2


def test_names_of_network_functions() -> None:
    assert parse("--watch vpp,ovs").watch == ("vpp", "ovs")


def test_a_dry_run_shows_every_mask_and_writes_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*DEMO, "--ways", "9-12", "--seed", "3", "--dry-run"]) == 0
    text = capsys.readouterr().out
    for mask in ("3fe00", "7fe00", "ffe00", "fff00", "000fe"):
        assert mask in text
    assert "ended" not in text
    assert "SIMULATED" in text


def test_the_processor_of_the_demo_is_the_one_that_was_chosen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = "demo --host gold-6252n --scenario noisy cat sweep --group tenant".split()
    assert run([*words, "--ways", "9-12", "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert "00e  restored" in text  # its masks have 11 ways
    assert "  9 ways" in text and "  12 ways" not in text


def test_a_plan_is_no_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*DEMO, "--dry-run", "--json"]) == 2
    assert capsys.readouterr().out == ""


def test_a_sweep_ends_with_all_as_before_and_the_best_mask(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([*DEMO, "--ways", "10-12", "--watch", "vpp", *QUICK, "--yes", "--json"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert result["schema"] == "nftop.experiment/1"
    assert result["simulated"] is True
    assert (result["ended"], result["outcome"]) == ("clear", "reverted")
    assert result["code"] is None
    assert result["settings"][result["recommended"]]["masks"] == {"0": "ffe00"}
    assert [item["effect"] for item in result["curve"]] == ["nothing", "nothing", "costs"]
    last = max(visit["round"] for visit in result["visits"])
    assert len(result["visits"]) == 1 + 3 * last
    assert last in (2, 3)  # twelve ways cost just above the limit
    [watched] = result["watch"]
    assert watched["name"] == "vpp"
    cpp = result["curve"][2]["nfs"][watched["key"]]["cpp"]
    assert cpp["value"] > 212
    assert 0 < cpp["half"] < 1
    assert result["decided"] is True
    assert result["left_out"] == []
    assert result["limits"]["cpp_ratio"] == 0.25
    assert result["limits"]["drop_packets_per_s"] > 0
    assert result["settings"][1]["io"] == {"0": "c0000"}
    assert {visit["settling"] for visit in result["visits"]} == {"still"}
    assert "ffe00" in err  # the plan, which is no result


def test_the_recommendation_is_a_command_that_can_be_given(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert run([*DEMO, "--ways", "11-12", "--watch", "vpp", *QUICK, "--yes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 120
    last = lines[-1]
    words = last.removeprefix("  $ nftop ").split()
    assert words == [*DEMO[:5], "cat", "set", "--group", "tenant", "--l3", "0=ffe00"]
    options = build_parser(demo=True).parse_args(words[1:])
    assert options.l3 == [(0, 0xFFE00)]
    assert (options.scenario, options.simulated_cpus) == ("noisy", 24)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "--group tenant"),
        ("--group default --ways 2-3", "--group default --ways 2-3"),
        ("--watch vpp,ovs --l3 0 --l3 1", "--group tenant --watch vpp,ovs --l3 0 --l3 1"),
        (
            "--rounds 3 --measure 12.5 --tolerance 1 --most-drops 1500000 --most-cpp 10",
            "--most-drops 1500000 --most-cpp 10",
        ),
    ],
)
def test_the_history_has_a_command_that_runs_the_same_sweep(line: str, words: str) -> None:
    from nftop.cli.commands.sweep import _command

    command = _command(parse(line), "nftop", 77)
    assert command.startswith("nftop cat sweep ")
    assert words in command
    again = parse(command.removeprefix("nftop cat sweep "))
    assert vars(again) == vars(parse(f"{line} --seed 77"))


def test_a_limit_on_harm_is_an_early_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*DEMO, "--ways", "12-14", *QUICK, "--yes", "--most-drops", "1"]) == 1
    text = capsys.readouterr().out
    assert "HARM LIMIT" in text
    assert "reverted" in text


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--ways", "3"], 1),
        (["--watch", "nobody"], 1),
        (["--ways", "1-2"], 2),  # there is no terminal to confirm it
    ],
)
def test_what_can_not_be_done_ends_with_a_code(words: list[str], code: int) -> None:
    assert run([*DEMO, *words]) == code


def test_frames_that_are_too_slow_for_the_guard_are_a_usage_error() -> None:
    words = [*DEMO, "--dry-run"]
    assert run([words[0], "-d", "10", *words[1:]]) == 2


def test_a_recorded_sweep_is_compared_by_rounds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    file = tmp_path / "sweep.nftop"
    words = [*DEMO, "--ways", "11-12", *QUICK]
    assert run([*words, "--yes", "-o", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    table = [line for line in lines if "ffe00" in line]
    assert run([*words, "--yes", "-o", str(file)]) == 2  # it exists
    capsys.readouterr()
    assert run(["compare", str(file)]) == 0
    text = capsys.readouterr().out
    rows = [line for line in text.splitlines() if "ffe00" in line]
    assert rows and set(rows) <= set(table)
    assert "(clear), reverted" in text
    assert run(["compare", str(file), "--json"]) == 2


@pytest.mark.parametrize("columns", ["80", "120"])
def test_no_line_of_a_plan_is_wider_than_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert run([*DEMO, "--ways", "10-22", *QUICK, "--rounds", "2", "--most-drops", "1"]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= int(columns)


def test_ctrl_c_restores_and_reports_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    from nftop.cli.commands import sweep

    show = sweep._Report.show

    def interrupted(self: sweep._Report, state: object) -> None:
        if getattr(state, "phase", "") == "settling":
            signal.raise_signal(signal.SIGINT)
        show(self, state)  # type: ignore[arg-type]

    monkeypatch.setattr(sweep._Report, "show", interrupted)
    assert run([*DEMO, "--ways", "10-12", *QUICK, "--yes"]) == 128 + signal.SIGINT
    text = capsys.readouterr().out
    sentence = " ".join(text[text.index("ended: stopped by Ctrl-C") :].split())
    assert sentence.index("reverted") < sentence.index("known so far")
    assert sentence == snapshot


def test_a_sweep_that_was_not_confirmed_leaves_no_recording(tmp_path: Path) -> None:
    file = tmp_path / "sweep.nftop"
    done = called(*DEMO, "--ways", "10-12", "-o", str(file))
    assert done.returncode != 0 and "12 ways" in done.stdout
    assert not file.exists()
