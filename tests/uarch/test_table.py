"""The tables' loader, and what the generic table promises."""

from __future__ import annotations

import pytest

from nftop.uarch import table
from nftop.uarch.table import Encoding, PmuTerms, whole
from tests.command import python

GOOD = """
name = "x"
title = "an x"
[events]
a = { type = "raw", config = 0x3c, config1 = 7 }
b = { pmu = "msr", terms = "tsc" }
[plans.p1]
events = ["b", "a"]
needs = ["a"]
[plans.p2]
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
    assert generic.main_events == (
        "cycles",
        "instructions",
        "ref_cycles",
        "tsc",
        "context_switches",
    )
    assert generic.plans[0].events == generic.main_events
    # Falling back must end at something that every kernel counts.
    assert generic.plans[-1].events == ("context_switches",)


def test_every_table_loads_under_its_own_name() -> None:
    assert "generic" in table.names()
    assert [table.load(name).name for name in table.names()] == list(table.names())


def test_a_table_is_read_as_written() -> None:
    parsed = table.parse(GOOD)
    assert parsed.events == {"a": Encoding(4, 0x3C, 7), "b": PmuTerms("msr", "tsc")}
    assert [(plan.events, plan.needs) for plan in parsed.plans] == [
        (("b", "a"), frozenset({"a"})),
        (("a",), frozenset()),
    ]
    assert parsed.main_events == ("b", "a")
    assert str(parsed.events["b"]) == "msr/tsc/"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "an x"', "", "lacks 'title'"),
        ('title = "an x"', 'title = "an x"\nextras = ["c"]', "extras names an unknown event: c"),
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
def test_a_broken_table_reports_what_is_wrong(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(ValueError, match=message):
        table.parse(GOOD.replace(old, new))


@pytest.mark.parametrize("name", ["nothing", "../generic", "generic.toml", ""])
def test_an_unknown_name_is_a_key_error_and_never_a_path(name: str) -> None:
    with pytest.raises(KeyError, match="there are"):
        table.load(name)


def test_importing_reads_nothing_of_the_host() -> None:
    code = (
        "import sys\n"
        "import tomllib, importlib.resources, typing, dataclasses, msgspec\n"
        "opened = []\n"
        "def hook(event, args):\n"
        "    if event in ('open', 'os.listdir', 'ctypes.dlopen', 'socket.__new__'):\n"
        "        opened.append(str(args[0]))\n"
        "sys.addaudithook(hook)\n"
        "import nftop.uarch.table\n"
        "print([name for name in opened if '.py' not in name and 'nftop' not in name])\n"
        "print('numpy' in sys.modules)\n"
    )
    assert python(code).stdout.split() == ["[]", "False"]


FULL = """
name = "y"
title = "a y"
[[cpuid]]
vendor = "V"
family = 6
model = 1
steppings = [2, 3]
[counters]
general_smt_on = 4
general_smt_off = 8
width_bits = 48
fixed = [["a"]]
[events]
a = { vendor = "A.ALL", type = "raw", event = 0x3c, umask = 0x01, cmask = 2, inv = 1, edge = 1 }
[sets]
all = ["a"]
[plans.p3]
smt = "on"
events = ["all"]
needs = ["a"]
turns = [["a"]]
[plans.p4]
smt = "off"
events = ["a"]
needs = []
[focus]
all = ["all"]
[probes]
twice = "2 * threads * a"
more = "twice + 1"
[topdown]
slots_per_cycle = 4
[topdown.equal]
slots = "a"
[topdown.terms.smt_on]
core = "a / threads"
[topdown.terms.smt_off]
core = "busiest_a"
[topdown.terms.both]
slots = "slots_per_cycle * core"
[topdown.nodes.part]
parent = "whole"
threshold = 0.25
unreliable = "smt"
formula = "whole / 2"
[topdown.nodes.whole]
also = "part"
formula = "a / slots"
[topdown.nodes.detail]
parent = "part"
of = "cycles"
formula = "part / 2"
[uncore.u]
pmu = "uncore_u"
counters = 2
turns = [["x"]]
on_demand = [["x", "z"]]
[uncore.u.events]
x = { terms = "event=0x1" }
z = { vendor = "U.Z", terms = "event=0x2" }
[traffic]
"u.bytes_per_s" = "64 * (x + z)"
"""


def test_a_full_table_is_read_as_written() -> None:
    parsed = table.parse(FULL)
    assert parsed.events == {"a": Encoding(4, 0x3C | 1 << 8 | 1 << 18 | 1 << 23 | 2 << 24)}
    assert parsed.vendor_names == {"a": "A.ALL", "z": "U.Z"}
    assert [(plan.smt, plan.turns) for plan in parsed.plans] == [(True, (("a",),)), (False, ())]
    assert parsed.main_events == ("a",)
    assert parsed.counters and parsed.counters.fixed == (frozenset({"a"}),)
    assert parsed.cpuid[0].covers("V", 6, 1, 3) and not parsed.cpuid[0].covers("V", 6, 1, 4)
    assert parsed.topdown
    assert parsed.topdown.terms_smt_on == {"core": "a / threads", "slots": "slots_per_cycle * core"}
    assert parsed.topdown.parent == {"part": "whole", "detail": "part"}
    assert parsed.topdown.level == {"whole": 1, "part": 2, "detail": 3}
    assert list(parsed.topdown.nodes) == ["whole", "part", "detail"], "each behind what it reads"
    assert parsed.focus_groups == (("a",),)
    assert parsed.probes == {"twice": "2 * threads * a", "more": "twice + 1"}
    assert parsed.topdown.threshold == {"part": 0.25}
    assert parsed.topdown.also == {"whole": "part"}
    assert parsed.topdown.equal == {"slots": "a"}
    assert parsed.topdown.of_cycles == {"detail"}
    assert parsed.topdown.unreliable_smt == {"part"}
    (unit,) = parsed.uncore
    assert (unit.turns, unit.on_demand) == ((("x",),), (("x", "z"),))
    assert unit.events == {
        "x": PmuTerms("uncore_u", "event=0x1"),
        "z": PmuTerms("uncore_u", "event=0x2"),
    }
    assert parsed.traffic == {"u.bytes_per_s": "64 * (x + z)"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("event = 0x3c,", "event = 0x3c, config = 1,", "event a: fields of a config"),
        ('type = "raw", event', 'type = "hardware", event', "event a: fields of a config"),
        ("umask = 0x01", "umask = 0x100", "event a: umask is not a number of 8 bits"),
        ("edge = 1", "edge = true", "event a: edge is not a number of 1 bits"),
        ('vendor = "A.ALL"', "vendor = 5", "event a: `vendor`"),
        ('all = ["a"]', 'all = ["b"]', "unknown event: b"),
        ('all = ["a"]', 'all = ["a", "a"]', "twice"),
        ('all = ["a"]', 'a = ["a"]', "a set has the name of an event"),
        ('smt = "on"', 'smt = "both"', "neither on nor off"),
        ('smt = "on"', 'smt = "off"', "no plan with hyper-threading"),
        ('turns = [["a"]]', 'turns = [["b"]]', "unknown event: b"),
        ('turns = [["a"]]', "turns = [[]]", "empty"),
        ("[2, 3]", "[2]", "not as its notation says"),
        ('fixed = [["a"]]', 'fixed = [["b"]]', "unknown event: b"),
        ("width_bits = 48", "", "lacks 'width_bits'"),
        ("a / threads", "a / ", "not a formula"),
        ("a / threads", "b / threads", "formula of core names an unknown event: b"),
        ("a / threads", "slots / threads", "formula of core names an unknown event: slots"),
        ("busiest_a", "busiest_b", "formula of core names"),
        ('"a / slots"', '"part / slots"', "formula of whole names"),
        ('"a / slots"', "5", "not as its notation says"),
        ('parent = "whole"', 'parent = "part"', "part is a part of 'part'"),
        ('parent = "whole"', 'parent = "detail"', "detail is a part of 'part'"),
        ('parent = "whole"', 'parent = "nowhere"', "part is a part of 'nowhere'"),
        ('"whole / 2"', '"detail / 2"', "formula of part names an unknown event: detail"),
        ("nodes.part]", "nodes.slots]", "name of something else"),
        ('all = ["all"]', 'all = ["x"]', "the focus group all names an unknown event: x"),
        ('all = ["all"]', 'all = ["all", "a"]', "the focus group all is empty or counts"),
        ('all = ["all"]', "all = []", "the focus group all is empty or counts"),
        ("2 * threads * a", "2 * threads * x", "formula of twice names an unknown event: x"),
        ("2 * threads * a", "threads * more", "formula of twice names an unknown event: more"),
        ('also = "part"', 'also = "detail"', "whole is notable also by 'detail'"),
        ('also = "part"', 'also = "nowhere"', "whole is notable also by 'nowhere'"),
        ('\nslots = "a"', '\nslots = "x"', "topdown.equal names an unknown event: x"),
        ('\nslots = "a"', '\npart = "a"', "topdown.equal names an unknown event: part"),
        ('of = "cycles"', 'of = "days"', "detail has a field"),
        ("threshold =", "treshold =", "part has a field"),
        ('[["x", "z"]]', '[["x"]]', "an event of u has no turn"),
        ('[["x", "z"]]', '[["x", "w"]]', "unknown event: w"),
        ("counters = 2", "counters = 1", "more than there are counters"),
        ('terms = "event=0x1"', 'pmu = "other", terms = "event=0x1"', "event x"),
        ("64 * (x + z)", "64 * (x + a)", "formula of u.bytes_per_s names"),
    ],
)
def test_a_broken_full_table_reports_what_is_wrong(old: str, new: str, message: str) -> None:
    assert old in FULL
    with pytest.raises(ValueError, match=message):
        table.parse(FULL.replace(old, new, 1))


def test_a_table_reports_only_in_what_it_differs() -> None:
    based = table.parse(
        """
base = "SKX"
without = ["topdown.nodes.divider", "topdown.nodes.light_operations.threshold"]
name = "z"
title = "a z"
[events]
cycles = { vendor = "ANOTHER.NAME" }
[sets]
memory = ["llc_misses"]
[topdown.nodes.core_bound]
formula = "max(0, backend_bound - memory_bound)"
"""
    )
    skx = table.load("SKX")
    assert (based.name, based.title) == ("z", "a z")
    assert based.cpuid == (), "a CPU is never inherited"
    assert based.events == skx.events
    assert based.vendor_names == {**skx.vendor_names, "cycles": "ANOTHER.NAME"}
    assert {turn for plan in based.plans for turn in plan.turns} >= {
        ("cycles", "instructions", "ref_cycles", "tsc", "context_switches", "llc_misses")
    }
    assert based.topdown and skx.topdown
    assert set(skx.topdown.nodes) - set(based.topdown.nodes) == {"divider"}
    assert based.topdown.nodes["core_bound"] == "max(0, backend_bound - memory_bound)"
    assert based.topdown.parent["core_bound"] == "backend_bound"
    assert set(skx.topdown.threshold) - set(based.topdown.threshold) == {
        "divider",
        "light_operations",
    }
    assert (based.uncore, based.traffic) == (skx.uncore, skx.traffic)
    assert (based.focus_groups, based.probes) == (skx.focus_groups, skx.probes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('base = "NONE"', "based on 'NONE', which there is not"),
        ('base = "SKX"\nwithout = ["topdown.nodes.nothing"]', "names what the base has not"),
        ('base = "SKX"\nwithout = ["title.x"]', "names what the base has not"),
        ('without = ["events"]', "for a table with a base"),
        ('base = "SKX"', "lacks 'name'"),
        ("base = 5", "which there is not"),
    ],
)
def test_a_table_based_on_nothing_reports_it(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        table.parse(text)


def test_bases_in_a_circle_are_an_error() -> None:
    raws = {"A": {"base": "B"}, "B": {"base": "A"}}
    with pytest.raises(ValueError, match="A is based on itself"):
        whole({"base": "A"}, raws.__getitem__)
