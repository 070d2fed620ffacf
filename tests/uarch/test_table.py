"""The tables' loader, and what the generic table promises."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nftop.uarch import table
from nftop.uarch.table import Encoding, PmuTerms

GOOD = """
name = "x"
title = "an x"
[events]
a = { type = "raw", config = 0x3c, config1 = 7 }
b = { pmu = "msr", terms = "tsc" }
[[plans]]
events = ["b", "a"]
needs = ["a"]
[[plans]]
events = ["a"]
needs = []
"""


def test_the_generic_table_holds_the_kernel_s_numbers() -> None:
    generic = table.load()
    # include/uapi/linux/perf_event.h: PERF_TYPE_HARDWARE 0, _SOFTWARE 1; COUNT_HW_CPU_CYCLES 0,
    # _INSTRUCTIONS 1, _REF_CPU_CYCLES 9; COUNT_SW_CONTEXT_SWITCHES 3.
    assert generic.events == {
        "cycles": Encoding(0, 0),
        "instructions": Encoding(0, 1),
        "ref_cycles": Encoding(0, 9),
        "tsc": PmuTerms("msr", "tsc"),
        "context_switches": Encoding(1, 3),
    }
    assert generic.counted == ("cycles", "instructions", "ref_cycles", "tsc", "context_switches")
    assert generic.plans[0].events == generic.counted
    # Falling back must end at something that every kernel counts.
    assert generic.plans[-1].events == ("context_switches",)


def test_every_table_there_is_loads_under_its_own_name() -> None:
    assert "generic" in table.names()
    assert [table.load(name).name for name in table.names()] == list(table.names())


def test_a_table_is_read_as_written() -> None:
    parsed = table.parse(GOOD)
    assert parsed.events == {"a": Encoding(4, 0x3C, 7), "b": PmuTerms("msr", "tsc")}
    assert [(plan.events, plan.needs) for plan in parsed.plans] == [
        (("b", "a"), frozenset({"a"})),
        (("a",), frozenset()),
    ]
    assert parsed.counted == ("b", "a")
    assert str(parsed.events["b"]) == "msr/tsc/"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('title = "an x"', "", "lacks 'title'"),
        ('type = "raw"', 'type = "rew"', "event a"),
        ('type = "raw"', 'type = "raw", umask = 1', "event a"),
        ("config1 = 7", "config1 = -7", "event a"),
        ("config1 = 7", "config1 = true", "event a"),
        ("config1 = 7", f"config1 = {2**64}", "event a"),
        ('terms = "tsc"', 'terms = "tsc", config = 1', "event b"),
        ('events = ["b", "a"]', 'events = ["b", "a", "c"]', "unknown event: c"),
        ('events = ["b", "a"]', 'events = ["a", "a"]', "twice"),
        ('needs = ["a"]', 'needs = ["d"]', "unknown event: d"),
        ('events = ["a"]\nneeds = []', 'events = ["a"]\nneeds = ["b"]', "does not count"),
        ('events = ["a"]\nneeds = []', "events = []\nneeds = []", "empty"),
    ],
)
def test_a_broken_table_says_what_is_wrong(old: str, new: str, says: str) -> None:
    assert old in GOOD
    with pytest.raises(ValueError, match=says):
        table.parse(GOOD.replace(old, new))


@pytest.mark.parametrize("name", ["nothing", "../generic", "generic.toml", ""])
def test_an_unknown_name_is_a_key_error_and_never_a_path(name: str) -> None:
    with pytest.raises(KeyError, match="there are"):
        table.load(name)


def test_importing_reads_nothing_of_the_host() -> None:
    code = (
        "import sys\n"
        "import tomllib, importlib.resources, typing, dataclasses\n"
        "opened = []\n"
        "def hook(event, args):\n"
        "    if event in ('open', 'os.listdir', 'ctypes.dlopen', 'socket.__new__'):\n"
        "        opened.append(str(args[0]))\n"
        "sys.addaudithook(hook)\n"
        "import nftop.uarch.table\n"
        "print([name for name in opened if '.py' not in name and 'nftop' not in name])\n"
        "print('numpy' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["[]", "False"]
