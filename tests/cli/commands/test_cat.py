"""The options of `nftop cat` as actions."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.cli.main import build_parser
from nftop.cli.parsers.cat import GoneError, UsageError
from nftop.cli.parsers.cat_actions import actions, command, missed
from nftop.model.change import (
    Action,
    CreateGroup,
    CreateMonitor,
    MoveCpus,
    MoveTasks,
    RemoveGroup,
    RemoveMonitor,
    SetIoWays,
    SetSchemata,
)
from nftop.model.ids import Cpu
from tests.control.hosts import lab_host


def parse(line: str) -> argparse.Namespace:
    return build_parser().parse_args(["cat", *line.split()])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "set --group vpp --l3 0=3f0 --l3 1=0xFF --mba 0=50 --mba 1=unlimited",
            [
                SetSchemata("vpp", "L3", ((0, 0x3F0), (1, 0xFF))),
                SetSchemata("vpp", "MB", ((0, 50), (1, 4294967290))),
            ],
        ),
        (
            "set --group / --l3code 0=1 --l3data 0=2 --l2 3=4 --l2code 3=5 --l2data 3=6",
            [
                SetSchemata("/", name, ((domain, bits),))
                for name, domain, bits in (
                    ("L3CODE", 0, 1),
                    ("L3DATA", 0, 2),
                    ("L2", 3, 4),
                    ("L2CODE", 3, 5),
                    ("L2DATA", 3, 6),
                )
            ],
        ),
        ("move --group default --cpus 2-3", [MoveCpus((Cpu(2), Cpu(3)), "/")]),
        (
            "create --group nftop.a --l3 0=3 --cpus 4",
            [
                CreateGroup("nftop.a"),
                SetSchemata("nftop.a", "L3", ((0, 3),)),
                MoveCpus((Cpu(4),), "nftop.a"),
            ],
        ),
        (
            "create --group vpp --monitor nftop.m --cpus 2",
            [CreateMonitor("vpp", "nftop.m", (Cpu(2),))],
        ),
        (
            "create --group vpp --monitor nftop.m --threads 4711,4712",
            [CreateMonitor("vpp", "nftop.m", (), (4711, 4712))],
        ),
        ("remove --group nftop.a", [RemoveGroup("nftop.a")]),
        ("remove --group vpp --monitor nftop.m", [RemoveMonitor("vpp", "nftop.m")]),
        ("io enable", [SetIoWays(enabled=True)]),
        ("io enable --l3 0=600 --l3 1=0x3", [SetIoWays(True, ((0, 0x600), (1, 3)))]),
        ("io set --l3 1=7", [SetIoWays(None, ((1, 7),))]),
        ("io disable", [SetIoWays(enabled=False)]),
    ],
)
def test_options_are_actions(line: str, expected: list[Action]) -> None:
    assert list(actions(parse(line))) == expected


@pytest.mark.parametrize(
    "line",
    [
        "set --group vpp --l3 0=3f0 --l3 1=ff --mba 0=50",
        "move --group default --cpus 2,3",
        "create --group nftop.a --l3 0=3 --cpus 4",
        "create --group vpp --threads 7,8 --monitor nftop.m",
        "remove --group vpp --monitor nftop.m",
    ],
)
def test_a_command_line_does_the_same_again(line: str) -> None:
    assert command(parse(line), "nftop") == f"nftop cat {line}"
    assert command(parse(f"{line} --dry-run"), "nftop") == f"nftop cat {line}"


def test_a_process_is_all_its_threads() -> None:
    [moved] = actions(parse(f"move --group a --tasks {os.getpid()}"))
    assert isinstance(moved, MoveTasks)
    assert set(moved.tids) == {int(entry.name) for entry in Path("/proc/self/task").iterdir()}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("set --group a", "nothing to set"),
        ("set --group a --l3 0=1 --l3 0=3", "given twice"),
        ("create --group a --monitor nftop.m --l3 0=1", "no masks of its own"),
        ("create --group nftop.a --threads 1", "of a monitoring group"),
        ("io set --l3 0=1 --l3 0=3", "given twice"),
    ],
)
def test_invalid_input_is_reported(line: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        actions(parse(line))


def test_a_process_that_is_absent_is_no_fault_of_the_command_line() -> None:
    with pytest.raises(GoneError, match="no process 4194305"):
        actions(parse("move --group a --tasks 4194305"))


def test_threads_that_came_since_a_move_are_counted(
    monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    host, options = lab_host(), parse("move --group vpp --tasks 100")
    host.lab.mkdir("/vpp")
    host.lab.echo("100", "/vpp/tasks")
    monkeypatch.setattr("nftop.cli.parsers.cat_actions.threads_of", lambda _: (100,))
    assert missed(options, host) == ""
    monkeypatch.setattr("nftop.cli.parsers.cat_actions.threads_of", lambda _: (100, 101, 200))
    assert missed(options, host) == snapshot


def test_the_command_of_ways_of_io_is_that_line() -> None:
    line = "io enable --l3 0=600 --l3 1=3"
    assert command(parse(line), "nftop") == f"nftop cat {line}"
    assert command(parse("io disable"), "nftop") == "nftop cat io disable"
