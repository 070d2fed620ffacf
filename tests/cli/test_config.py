"""The configuration files: what they may set, who wins, and what is said of wrong ones."""

from __future__ import annotations

import argparse
import errno
import json
import os
import tomllib
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.cli import config, main
from nftop.model import bounded_toml
from tests.command import nftop, wording


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The operator's own file; the host's is `host.toml` beside it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setattr(config, "HOST_FILE", tmp_path / "host.toml")
    (tmp_path / "nftop").mkdir()
    return tmp_path / "nftop/config.toml"


def parsed(*arguments: str) -> dict[str, object]:
    return vars(main._parse(list(arguments))[1])


def test_what_it_sets_is_as_on_the_command_line_which_wins(write: Path) -> None:
    write.write_text(
        'interval_s = 2\nquiet_cpus = "1-2"\nascii = true\nqueue_map = ["a:(0,0,1)"]\n'
    )
    result = parsed()
    assert (result["interval_s"], result["quiet_cpus"], result["ascii"]) == (2.0, (1, 2), True)
    assert result["queue_map"] == ["a:(0,0,1)"]
    result = parsed("-d", "0.5", "--queue-map", "a:(0,0,7)")
    assert (result["interval_s"], result["queue_map"]) == (0.5, ["a:(0,0,7)"])
    assert parsed("record", "-o", "x", "-d", "3")["interval_s"] == 3.0
    assert parsed("record", "-o", "x")["interval_s"] == 2.0


def test_the_operator_s_own_file_wins_over_the_host_s(write: Path) -> None:
    write.write_text("interval_s = 2\n")
    config.HOST_FILE.write_text('interval_s = 5\npmu = "perf"\n')
    assert (parsed()["interval_s"], parsed()["pmu"]) == (2.0, "perf")
    # The simulated host has no hardware to choose a counter of.
    assert parsed("demo")["interval_s"] == 2.0


def test_every_key_is_an_option_s_with_its_default(write: Path) -> None:
    plain = parsed()
    for key in config.KEYS:
        default = tomllib.loads(f"x = {key.default}")["x"]
        assert plain[key.name] in (default, None, ()), key.name
        assert type(default) in {"number": (int, float), "flag": (bool,), "texts": (list,)}.get(
            key.kind, (str,)
        )


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("interval_s = 0", "interval_s: between 0.1 and 3600 seconds"),
        ("interval_s = true", "interval_s is to be a number"),
        ('interval_s = "1"', "interval_s is to be a number"),
        ("tma_level = 3", "tma_level: invalid choice: 3"),
        ('pmu = "amd"', "pmu: invalid choice: 'amd'"),
        ('color = "--rw"', "color: invalid choice: '--rw'"),
        ('queue_map = ["a"]', "queue_map: 'a' is not PREFIX:(port,queue,lcore)"),
        ('queue_map = "a:(0,0,1)"', "queue_map is to be an array of texts"),
        ("rw = true", "there is no 'rw'"),
        ('pcm = "http://other"', "there is no 'pcm'"),
        ('"\\u001b[2J" = 1', "there is no '\\x1b[2J'"),
        ("interval_s =", "Invalid value"),
    ],
)
def test_what_is_wrong_is_reported_and_nothing_is_done(
    write: Path, capsys: pytest.CaptureFixture[str], text: str, printed: str
) -> None:
    write.write_text(text)
    with pytest.raises(SystemExit) as ended:
        main.run(["config", "--show"])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert printed in error and str(write) in error


def test_help_needs_no_configuration(write: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write.write_text("nonsense")
    with pytest.raises(SystemExit) as ended:
        main.run(["--help"])
    assert ended.value.code == 0
    assert "--queue-map" in capsys.readouterr().out


def test_shown_it_is_a_file_that_reports_the_same(write: Path) -> None:
    write.write_text('queue_map = ["a\\"b:(0,0,1)"]\ncpu_list = "0"\n')
    done = nftop("config", "--show")
    assert done.returncode == 0, done.stderr
    assert f"# {write}\n" in done.stdout and "/etc/nftop/config.toml" in done.stdout
    assert f'cpu_list = "0"  # {write}\n' in done.stdout
    assert "interval_s = 1.0  # default\n" in done.stdout
    write.write_text(done.stdout)
    assert tomllib.loads(nftop("config", "--show").stdout) == tomllib.loads(done.stdout)
    result = parsed()
    assert result["queue_map"] == ['a"b:(0,0,1)'] and result["cpu_list"] == (0,)


def test_a_pipe_at_its_path_is_not_waited_for(write: Path) -> None:
    os.mkfifo(write)
    done = nftop("config", "--show")
    assert done.returncode == 2 and "no plain file" in done.stderr


def test_it_reaches_the_frames(write: Path) -> None:
    write.write_text('cpu_list = "0"\ninterval_s = 0.2\nqueue_map = ["nobody:(0,0,0)"]\n')
    done = nftop("--batch", "-n", "1", "--json")
    frame = json.loads(done.stdout)
    assert [cpu["cpu"] for cpu in frame["cpus"]] == [0]
    assert "nobody" in frame["sources"]["dpdk"]["detail"]


def test_a_file_that_may_not_be_read_stops_nobody(
    write: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_path: Path, _most_bytes: int) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    write.write_text("interval_s = 2\n")
    monkeypatch.setattr(config, "read_text", refused)
    assert parsed()["interval_s"] == 1.0
    assert f"# {write}: Permission denied" in config.shown([], [write])


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("x = " + "[" * 30_000, 1, 21),
        ("\nx = " + "{a=" * 10_000, 2, 53),
        ("# [[[[[[[[[[[[[[[[[[[\n" + ".".join("a" * 20_000) + " = 1", 2, 32),
        ("interval_s = 1\n[" + " . ".join("a" * 10_000) + "]", 2, 64),
        ('x = "' + "[" * 20 + '"\ny = """\n' + "[" * 20 + '"""\nz = [[', 4, None),
        ("interval_s = 1\nascii = maybe", 2, 9),
    ],
)
def test_what_would_keep_the_parser_busy_is_refused_with_its_line_and_column(
    write: Path, capsys: pytest.CaptureFixture[str], text: str, line: int, column: int | None
) -> None:
    write.write_text(text)
    with pytest.raises(SystemExit) as ended:
        main.run(["config", "--show"])
    assert ended.value.code == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"(at line {line}, column {'' if column is None else column}" in error or (
        column is None and "end of document" in error
    )


def test_a_configuration_longer_than_256_kib_is_not_read(
    write: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write.write_text("interval_s = 2\n#" + "x" * (1 << 18))
    with pytest.raises(SystemExit) as ended:
        main.run(["config", "--show"])
    assert ended.value.code == 2 and "256 KiB" in capsys.readouterr().err
    write.write_text("interval_s = 2\n#" + "x" * ((1 << 18) - 16))
    assert parsed()["interval_s"] == 2.0


def test_the_deepest_and_the_longest_that_are_allowed_are_parsed() -> None:
    key = ".".join("abcdefghijklmnop")
    text = f"{key} = 1\nx = {'[' * 16}{']' * 16}\ny = '[' # [\nz = [{', '.join(['1.5'] * 99)}]"
    assert set(bounded_toml.parse_toml(text)) == {"a", "x", "y", "z"}


def test_a_number_of_too_many_digits_is_refused_in_words_of_the_file(
    write: Path, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    write.write_text(f"interval_s = {'9' * 5000}\n")
    with pytest.raises(SystemExit) as ended:
        main.run(["config", "--show"])
    assert ended.value.code == 2
    assert wording(capsys.readouterr().err.splitlines()[-1], write.parent) == snapshot


def test_settings_of_rules_reach_the_frames(write: Path) -> None:
    write.write_text(
        "[rules.low-ipc]\nmuted = true\n[rules.poller-waits]\nlimit = 0.5\n", encoding="utf-8"
    )
    done = nftop("demo", "--json", "-n", "12", "-d", "0.6", "--cpus", "44")
    findings = [item for row in done.stdout.splitlines() for item in json.loads(row)["findings"]]
    flags = {item["rule"]: item["muted"] for item in findings}
    assert flags["low-ipc"] is True and flags["drops"] is False
    assert "poller-waits" not in flags


@pytest.mark.parametrize(
    "text", ["[rules.low_ipc]\nmuted = true", "[rules.drops]\nlimit = 'x'", "rules = 1"]
)
def test_a_wrong_setting_of_a_rule_is_named_with_its_file(write: Path, text: str) -> None:
    write.write_text(text)
    for command in (("demo", "--batch", "-n", "1"), ("config", "--show")):
        done = nftop(*command)
        assert done.returncode == 2 and done.stdout == ""
        assert f"{write}: rules" in done.stderr


def test_the_demo_has_no_settings_that_were_created_on_screen(write: Path) -> None:
    write.with_name("rules.toml").write_text("[rules.low-ipc]\nmuted = true\n")
    done = nftop("demo", "--json", "-n", "12", "-d", "0.6", "--cpus", "44")
    findings = [item for row in done.stdout.splitlines() for item in json.loads(row)["findings"]]
    assert {item["muted"] for item in findings if item["rule"] == "low-ipc"} == {False}


def test_settings_of_rules_are_shown_with_the_others(write: Path) -> None:
    write.write_text('[rules.drops.nf."a b"]\nlimit = 5\n')
    write.with_name("rules.toml").write_text("[rules.drops]\nmuted = true\n")
    shown = tomllib.loads(nftop("config", "--show").stdout)
    assert shown["rules"] == {
        "drops": {"muted": True, "nf": {"a b": {"muted": False, "limit": 5.0}}}
    }


def test_chosen_columns_are_shown_with_their_file(
    write: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert config.show(argparse.Namespace(settings=[])) == 0
    assert "columns.toml" not in capsys.readouterr().out
    file = write.parent / "columns.toml"
    file.write_text('[columns]\nnfs = ["name", "cpp"]\n')
    assert config.show(argparse.Namespace(settings=[])) == 0
    shown = capsys.readouterr().out
    assert f"# {file}\n" in shown
    assert tomllib.loads(shown)["columns"] == {"nfs": ["name", "cpp"]}
