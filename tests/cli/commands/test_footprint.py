"""`nftop cat footprint` on the simulated host: what it shows, records, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nftop.cli.main import run

DEMO = "demo --scenario noisy --cpus 24 cat footprint --watch vpp --measure 10".split()


def test_a_dry_run_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*DEMO, "--own", "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert "7ffe0" in text and "SIMULATED" in text
    assert "needs" not in text


def test_json_has_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*DEMO, "--own", "--yes", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["schema"], result["outcome"]) == ("nftop.footprint/1", "reverted")
    assert result["code"] is None
    [row] = result["rows"]
    assert (row["name"], row["counter"], row["own"]["cbm"]) == ("vpp", "class", "7ffe0")
    assert (row["needs_ways"], row["may_want_more"]) == (14, True)


def test_it_is_kept_with_the_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.nftop"
    assert run([*DEMO, "--own", "--yes", "-o", str(file)]) == 0
    capsys.readouterr()
    assert run(["replay", "--list", str(file)]) == 0
    kinds = [line.split()[1] for line in capsys.readouterr().out.splitlines()]
    # Own ways, what was before, the row.
    assert kinds == ["change"] * 4 + ["marker"]
    assert run(["replay", str(file), "--json", "-n", "1"]) == 0
    capsys.readouterr()
    assert run([*DEMO, "--yes", "-o", str(file)]) == 2, "no recording is written over"


@pytest.mark.parametrize(
    ("words", "code"), [(["--measure", "0"], 2), (["--watch", "nobody"], 1), (["--json"], 0)]
)
def test_exit_codes(words: list[str], code: int) -> None:
    try:
        assert run([*DEMO, *words]) == code
    except SystemExit as end:
        assert end.code == code
