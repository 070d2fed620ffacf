"""`nftop cat try` and `nftop sst try` on the simulated host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nftop.cli.main import run

DEMO = "demo --scenario noisy --cpus 24".split()
QUICK = ["--measure", "10", "--seed", "3", "--rounds", "4"]
PROFILE = """\
schema = "nftop.profile/1"

[[class]]
group = "tenant"
l3 = { 0 = "ffe00" }
"""


@pytest.fixture
def profile(tmp_path: Path) -> str:
    file = tmp_path / "quiet.toml"
    file.write_text(PROFILE)
    return str(file)


def words(text: str, name: str) -> set[str]:
    """Words of the lines of one network function."""
    return {line.split()[-1] for line in text.splitlines() if line.startswith(f"{name} ")}


def test_a_dry_run_shows_every_value_and_writes_none(
    capsys: pytest.CaptureFixture[str], profile: str
) -> None:
    assert run([*DEMO, "cat", "try", profile, "--against", "now", "--dry-run", *QUICK]) == 0
    text = capsys.readouterr().out
    assert "000fe -> " in text and "ffe00" in text
    assert "quiet" in text
    assert "4 rounds" in text
    assert "ended" not in text


def test_a_profile_against_now_by_network_function_class_and_socket(
    capsys: pytest.CaptureFixture[str], profile: str
) -> None:
    assert run([*DEMO, "cat", "try", profile, *QUICK, "--yes", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["kind"], result["ended"], result["outcome"]) == ("try", "rounds", "reverted")
    assert len(result["visits"]) == 1 + 2 * 4
    rows = result["differences"]
    assert {row["kind"] for row in rows} == {"nf", "class", "socket"}
    lost = next(row for row in rows if (row["name"], row["metric"]) == ("vpp", "lost_ratio"))
    assert lost["word"] == "better"
    assert lost["change"] == pytest.approx(-0.09, abs=0.01)
    assert 0 < lost["half"] < 0.005
    other = [row for row in rows if row["name"] == "loop/testpmd"]
    assert {row["word"] for row in other} <= {"same", "undecided"}


def test_a_recorded_trial_is_compared_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = str(tmp_path / "try.nftop")
    line = ["cat", "try", "--group", "tenant", "--l3", "0=ffe00", "--watch", "vpp"]
    assert run([*DEMO, *line, *QUICK, "--yes", "-o", file]) == 0
    text = capsys.readouterr().out
    assert "better" in words(text, "vpp")
    assert run(["compare", file]) == 0
    again = capsys.readouterr().out
    assert words(again, "vpp") == words(text, "vpp")


def test_limits_of_memory_bandwidth(capsys: pytest.CaptureFixture[str]) -> None:
    host = "demo --scenario noisy --cpus 24 --host gold-6252n".split()
    line = ["cat", "try", "--group", "tenant", "--mba", "0=30", "--watch", "vpp"]
    assert run([*host, *line, *QUICK, "--yes"]) == 0
    text = capsys.readouterr().out
    assert "better" in words(text, "vpp")
    row = next(line for line in text.splitlines() if line.startswith("class tenant"))
    assert row.split()[-1] == "less"  # the neighbour pays for it


def test_ways_of_io(capsys: pytest.CaptureFixture[str]) -> None:
    host = "demo --scenario noisy --cpus 24 --host gold-6252n".split()
    line = ["cat", "try", "--io", "--l3", "0=600", "--watch", "vpp"]
    assert run([*host, *line, *QUICK, "--yes", "--json"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert (result["of_io"], result["outcome"]) == (True, "reverted")
    hits = [row for row in result["differences"] if row["metric"] == "pcie.ddio_hit_ratio"]
    words = {row["name"]: row["word"] for row in hits}
    assert words == {"0": "less", "1": "same"}  # that of the other socket keeps its ways
    assert "600" in err and "assumption" in err


def test_pins_of_cores(capsys: pytest.CaptureFixture[str]) -> None:
    line = "demo --scenario sst-bf --cpus 24 sst try --cpus 1-4".split()
    assert run([*line, *QUICK, "--yes"]) == 0
    text = capsys.readouterr().out
    assert "PINNED" in text
    assert "reverted" in text


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("cat try", 2),
        ("cat try --group tenant", 1),  # it sets nothing
        ("cat try nothing.toml", 2),
        ("cat try --group tenant --l3 0=fe", 1),  # as it is
        ("cat try --group tenant --l3 0=1 --watch nobody", 1),
        ("cat try --group tenant --l3 0=1", 2),  # no terminal to confirm it
        ("cat try --io", 2),
        ("cat try --io --group tenant --l3 0=1", 2),
        ("cat try --io --l3 0=1 --mba 0=50", 2),
        ("cat try --io --l3 0=3", 1),  # this processor has no io_alloc
        ("sst try --cpus 1", 1),  # pinned already
    ],
)
def test_what_can_not_be_done_ends_with_a_code(line: str, code: int) -> None:
    assert run([*DEMO, *line.split()]) == code


def test_a_limit_on_harm_is_an_early_end(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["cat", "try", "--group", "tenant", "--l3", "0=fffff", *QUICK]
    assert run([*DEMO, *line, "--yes", "--most-cpp", "1", "--most-drops", "1"]) == 1
    text = capsys.readouterr().out
    assert "HARM LIMIT" in text
    assert "reverted" in text
