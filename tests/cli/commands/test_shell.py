"""Completion in real shells, manual pages in mandoc; both are made from the parsers."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.cli.command_tree import command_tree
from nftop.cli.commands.completion import SHELLS
from nftop.cli.commands.man import manual_page
from nftop.cli.main import build_parser
from nftop.cli.parsers.common import Parser
from nftop.derive.findings.registry import rule_called
from nftop.export.tables.tables import TABLES
from nftop.render.pages.explain import known_rules, metrics_called
from nftop.sim.scenario import load
from nftop.uarch.table import load as load_uarch
from tests.command import called

TREE = command_tree(build_parser(), build_parser(demo=True))
PAGES = {"-".join(command.path): command for command in (TREE, *TREE.commands)}
# A command line, and what is offered at its end among others, and what is not.
CASES = [
    ("", {"record", "cat", "demo", "--json"}, {"set"}),
    ("rec", {"record", "recover"}, {"replay"}),
    ("cat ", {"set", "sweep"}, {"record"}),
    ("--theme l", {"light"}, {"--theme", "dark"}),
    ("cat set --group cat --d", {"--dry-run"}, {"--json"}),  # `cat` is a value here
    ("demo cat s", {"set", "show", "sweep"}, {"sst"}),
    ("completion ", {"bash", "zsh", "fish"}, {"record"}),
    ("replay ", {"a file.nftop"}, {"record"}),
    ("export a.nftop --partition h", {"host,day"}, {"csv"}),
    ("export --format ", {"parquet", "csv"}, {"--partition"}),
    ("fleet ", {"dashboard", "alerts", "--prometheus"}, {"a file.nftop"}),
    ("cat try ", {"a file.nftop"}, {"set"}),
    ("report a.nftop -o ", {"a file.nftop"}, {"--format"}),
    ("demo --scenario n", {"noisy"}, {"default", "--scenario"}),
    ("demo --host ", {"gold-6230n", "e5-2699v4"}, {"noisy"}),
    ("record --on f", {"finding", "finding=drops"}, {"drops"}),
    ("export --table c", {"cpus", "changes"}, {"nfs"}),
    ("tma --uarch S", {"SKX", "SPR"}, {"ICX"}),
    ("explain noisy", {"noisy-neighbour"}, {"cpp"}),
]
# The end of a list with commas and what is offered for it, whole.
LISTS = [
    ("record --on finding=drops,poller-w", {"finding=drops,poller-waits"}),
    ("record --on finding=poller-w", {"finding=poller-waits"}),
    ("export --table cpus,nf", {"cpus,nfs"}),
]


def parsers(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ("nftop",)
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command with its parser; those of `demo` have one of their own."""
    assert isinstance(parser, Parser)
    parser.complete()
    yield " ".join(path), build_parser(demo=True) if path == ("nftop", "demo") else parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from parsers(below, (*path, name))


def visible_options(parser: argparse.ArgumentParser) -> set[str]:
    return {
        flag
        for action in parser._actions
        if action.help != argparse.SUPPRESS
        for flag in action.option_strings
    }


PARSERS = dict(parsers(build_parser()))


def script(shell: str, folder: Path) -> Path:
    path = folder / f"nftop.{shell}"
    path.write_text(SHELLS[shell](TREE))
    (folder / "a file.nftop").touch()
    return path


def offered(shell: str, folder: Path, line: str) -> set[str]:
    """What a real shell offers at the end of a line."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = script(shell, folder)
    words = ["nftop", *line.split(" ")]
    listed = " ".join(f"'{word}'" for word in words)
    split = listed.replace("=", "' '='  '").replace("  ", " ")  # as bash does
    commands = {
        "bash": f"source {path}; COMP_WORDS=({split}); COMP_CWORD={split.count(' ')}; _nftop; "
        'printf "%s\\n" "${COMPREPLY[@]}"',
        "zsh": "compdef() { :; }; _describe() { print -l -- ${(P)4%%:*}; }; "
        '_files() { print -l -- *; }; compadd() { print -l -- "${@[2,-1]}"; }; '
        f"source {path}; words=({listed}); CURRENT={len(words)}; _nftop",
        "fish": f"source {path}; complete -C 'nftop {line}'",
    }
    options = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run(
        [shell, *options, "-c", commands[shell]],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert not done.stderr
    lines = {text.split("\t")[0].replace("\\ ", " ") for text in done.stdout.splitlines()}
    if shell == "zsh":  # which leaves what begins so to _describe
        lines = {text for text in lines if text.startswith(words[-1])}
    return lines


@pytest.mark.parametrize(("line", "some", "none"), CASES)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_offers_what_may_come_next(
    shell: str, line: str, some: set[str], none: set[str], tmp_path: Path
) -> None:
    got = offered(shell, tmp_path, line)
    wanted = {word for word in some if not word.startswith("-") or shell != "fish"}
    assert got >= wanted
    assert not got & none


@pytest.mark.parametrize(("line", "offers"), LISTS)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_offers_what_follows_a_comma(
    shell: str, line: str, offers: set[str], tmp_path: Path
) -> None:
    got = offered(shell, tmp_path, line)
    # bash replaces only what is behind the last `=`.
    behind = {word.rpartition("=")[2] for word in offers}
    assert got == (behind if shell == "bash" else offers)


def test_values_of_options_are_those_that_commands_accept() -> None:
    """Every option whose values are a closed set offers it, and only what its command accepts."""
    of = {
        (" ".join(command.path), option.flags or (option.value,)): option
        for command in TREE.walk()
        for option in command.options
    }
    assert of["nftop record", ("--on",)].choices[0] == "finding"
    assert set(of["nftop record", ("--on",)].more) == set(known_rules())
    for name in of["nftop demo", ("--scenario",)].choices:
        assert load(name).name == name
    for name in of["nftop explain", ("METRIC",)].choices:
        assert metrics_called(name) or rule_called(name)
    for name in of["nftop tma", ("--uarch",)].choices:
        assert load_uarch(name).name == name
    assert set(of["nftop export", ("--table",)].choices) == set(TABLES)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_offers_every_option_of_every_command(shell: str, tmp_path: Path) -> None:
    """The scripts are made from `command_tree`; what is expected is read off the parsers."""
    assert {"nftop fleet", "nftop export", "nftop history", "nftop cat try"} <= PARSERS.keys()
    path = script(shell, tmp_path)
    prompts = {
        "bash": 'COMP_WORDS=({words} --); COMP_CWORD={count}; _nftop; echo "=" "${{COMPREPLY[@]}}"',
        "zsh": 'words=({words} --); CURRENT=$(({count} + 1)); echo "=" $(_nftop)',
        "fish": 'echo "=" (complete -C "{words} --" | string split -f1 \\t)',
    }[shell]
    stubs = (
        "compdef() { :; }; _describe() { print -l -- ${(P)4%%:*}; }; _files() { :; }; "
        if shell == "zsh"
        else ""
    )
    lines = (prompts.format(words=words, count=len(words.split())) for words in PARSERS)
    options = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run(
        [shell, *options, "-c", "\n".join([f"{stubs}source {path}", *lines])],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert not done.stderr
    answers = [text.split() for text in done.stdout.split("=")[1:]]
    for (words, parser), answer in zip(PARSERS.items(), answers, strict=True):
        wanted = {flag for flag in visible_options(parser) if flag.startswith("--")}
        assert {word for word in answer if word.startswith("--")} == wanted, words


@pytest.mark.parametrize("words", PARSERS)
def test_the_manual_has_every_option_of_every_command(words: str) -> None:
    """By the parsers, not by the data that the pages are made of."""
    _, *below = words.split()
    in_demo = below[:1] == ["demo"] and below[1:]  # its commands have pages of their own
    page = TREE if not below else PAGES[f"nftop-{below[0]}"]
    text = manual_page(page, TREE).replace(r"\-", "-")
    assert words in text or in_demo
    for flag in () if in_demo else visible_options(PARSERS[words]):
        assert rf"\fB{flag}\fR" in text, flag


@pytest.mark.parametrize("columns", ["40", "200"])
def test_a_manual_page_does_not_depend_on_the_terminal(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert command_tree(build_parser(), build_parser(demo=True)) == TREE


def test_the_commands_print_it() -> None:
    for shell in SHELLS:
        done = called("completion", shell)
        assert done.returncode == 0 and done.stdout == SHELLS[shell](TREE)
    assert called("man").stdout == manual_page(TREE, TREE)
    assert called("man", "--list").stdout.split() == list(PAGES)
    assert called("man", "no-such").returncode == 2


@pytest.mark.parametrize("name", PAGES)
def test_a_manual_page_has_no_warning_and_all_options(name: str, tmp_path: Path) -> None:
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed")
    page = tmp_path / f"{name}.1"
    page.write_text(manual_page(PAGES[name], TREE))
    lint = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", page],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    warnings = [line for line in lint.stdout.splitlines() if "missing date" not in line]
    assert not warnings and not lint.stderr
    ascii_text = subprocess.run(
        ["mandoc", "-T", "ascii", page], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    text = re.sub(r".\x08", "", ascii_text)
    alone = name in ("nftop", "nftop-demo")  # whose commands have pages of their own
    for command in (PAGES[name],) if alone else PAGES[name].walk():
        assert command is PAGES[name] or " ".join(command.path).upper() in text
        for option in command.options:
            for flag in option.flags:
                assert flag in text


def test_a_manual_page_is_about_its_command(snapshot: SnapshotAssertion) -> None:
    # `whatis` shows this line.
    for command in TREE.commands:
        lines = manual_page(command, TREE).splitlines()
        about = lines[lines.index(".SH NAME") + 1].partition(r" \- ")[2]
        assert about.replace(r"\-", "-") == command.text != ""
    name = manual_page(TREE, TREE).splitlines()[2]
    assert name == snapshot


def test_roff_finds_no_request_in_a_text() -> None:
    page = manual_page(TREE, TREE)
    known = {"TH", "SH", "SS", "TP", "PP", "nf", "fi"}
    assert set(re.findall(r"(?m)^\.(\w+)", page)) <= known
