"""Both forms of a profile: what they take, what they say of the rest, that nothing is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.control.profile import formats, pqos_config
from nftop.control.profile.formats import toml_text
from nftop.control.profile.pqos_config import pqos_text
from nftop.control.profile.profile import (
    MOST_BYTES,
    MOST_LISTED,
    CpusStatement,
    ExportedProfile,
    LimitStatement,
    Listing,
    MaskStatement,
    TasksStatement,
    TextSpan,
    mended,
)
from nftop.control.profile.validate import export_profile, fit
from nftop.control.rdt_limits import LimitRule, MaskRule, Rules
from nftop.control.resctrl.plan import propose
from nftop.model.change import Cell, CreateGroup, MoveTasks, SetSchemata, State
from nftop.model.ids import Cpu
from nftop.model.rdt.rdt import EXCLUSIVE, ROOT
from tests.control.hosts import LabHost
from tests.control.worlds import hosts

NOWHERE = TextSpan(0, 0, 0)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("alloc-class-set: llc:1=0xf0", [MaskStatement(1, "L3", "", None, 0xF0, NOWHERE)]),
        ("ALLOC-CLASS-SET:LLC:1=240;", [MaskStatement(1, "L3", "", None, 240, NOWHERE)]),
        (
            "  alloc-class-set: llc@0,2-3:1c=0xf,2D=0xff ; l2@5:1=0x3  ",
            [
                MaskStatement(1, "L3", "CODE", (0, 2, 3), 0xF, NOWHERE),
                MaskStatement(2, "L3", "DATA", (0, 2, 3), 0xFF, NOWHERE),
                MaskStatement(1, "L2", "", (5,), 0x3, NOWHERE),
            ],
        ),
        (
            "alloc-class-set: mba:1=30;mba_max@1:2=5000",
            [
                LimitStatement(1, "percent", None, 30, NOWHERE),
                LimitStatement(2, "MBps", (1,), 5000, NOWHERE),
            ],
        ),
        ("alloc-assoc-set: cos:1=2-4,6;core:2=0x8", None),
        (
            "alloc-assoc-set: cos:1=2-4,6;core:2=8;pid:3=41,42",
            [
                CpusStatement(1, (Cpu(2), Cpu(3), Cpu(4), Cpu(6)), NOWHERE),
                CpusStatement(2, (Cpu(8),), NOWHERE),
                TasksStatement(3, (41, 42), NOWHERE),
            ],
        ),
        (
            "sudo ./pqos -I -e 'llc:1=0xf' --alloc-assoc=llc:1=3",
            [MaskStatement(1, "L3", "", None, 0xF, NOWHERE), CpusStatement(1, (Cpu(3),), NOWHERE)],
        ),
        ("# alloc-class-set: llc:1=0xf", []),
        ("   ", []),
    ],
)
def test_what_pqos_takes(line: str, expected: list[object] | None) -> None:
    listing = pqos_config.parse(line)
    if expected is None:
        assert [problem.fatal for problem in listing.problems] == [True]
        return
    assert [replace(statement, span=NOWHERE) for statement in listing.statements] == expected
    assert not any(problem.fatal for problem in listing.problems)


@pytest.mark.parametrize(
    ("line", "printed", "fixed"),
    [
        ("alloc-class-set: l1c:1=0xf", "'llc' is meant", "alloc-class-set: llc:1=0xf\n"),
        ("alloc-class-set: llc:1=f0", "0xf0 is meant", "alloc-class-set: llc:1=0xf0\n"),
        ("alloc-class-set: llc:1=0xzz", "is not CLASS=VALUE", None),
        ("alloc-class-set: llc:x=0xf", "is not CLASS=VALUE", None),
        ("alloc-class-set: llc=0xf", "is not TYPE:CLASS=VALUE", None),
        ("alloc-class-set: llc@x:1=0xf", "no list of sockets", None),
        ("alloc-class-set: l5:1=0xf", "no type of pqos here: 'l5'", None),
        ("alloc-class-set: llc:65536=0xf", "no CPU has so many classes", None),
        ("alloc-assoc-set: llc:123456=1", "is not CLASS=LIST", None),
        ("alloc-class-set:", "without anything to set", None),
        ("alloc-assoc-set: llc:1=9-", "is no list such as", None),
        ("alloc-assoc-set: llc:1", "is not CLASS=LIST", None),
        ("llc:1=0xf", "no command of pqos: 'llc'", None),
        ("reboot now", "no command of pqos: 'reboot now'", None),
        ('pqos -e "llc:1=0xf', "a quote is opened", None),
    ],
)
def test_what_it_does_not_take(line: str, printed: str, fixed: str | None) -> None:
    (problem,) = pqos_config.parse(line).problems
    assert problem.fatal
    assert printed in problem.text
    assert bool(problem.edits) == (fixed is not None)
    if fixed is not None:
        assert mended(line, [problem]) == fixed


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("reset-cat: l3cdp-on", "not run"),
        ("alloc-class-select: CFG0", "not run"),
        ("monitor-cores: llc:0-3", "passed over"),
        ("iface: msr", "passed over"),
        ("pqos -s", "passed over"),
        ("alloc-class-set: llc:1=10", "takes 10 as decimal: ways 0xa"),
        (f"alloc-assoc-set: llc:1={','.join(str(2 * n) for n in range(99))}", "cuts lines"),
    ],
)
def test_what_is_to_be_known_stops_nothing(line: str, printed: str) -> None:
    (problem,) = pqos_config.parse(line).problems
    assert not problem.fatal
    assert printed in problem.text


_WORDS = st.sampled_from(
    "alloc-class-set: alloc-assoc-set: llc l1c 1lc l2 mba pid : ; , = @ 0x 0xf f0 1 10 12345 c d "
    "- # \n pqos pgos -e -a \" ' \\ é".split(" ")
)


@settings(max_examples=300)
@given(st.lists(_WORDS, max_size=30).map("".join) | st.text(max_size=80))
def test_no_text_raises_and_mending_ends(text: str) -> None:
    state, rules = small()
    for _ in range(6):
        result = fit(pqos_config.parse(text), state, rules)
        assert not result.actions or not any(problem.fatal for problem in result.problems)
        if not any(problem.edits for problem in result.problems):
            break
        text = mended(text, result.problems)
    else:
        raise AssertionError(text)


@given(st.text(max_size=80))
def test_no_text_is_too_bad_for_toml(text: str) -> None:
    result = fit(formats.parse_toml_profile(text), *small())
    assert not result.actions or not any(problem.fatal for problem in result.problems)


def test_toml_is_not_repaired_at_an_unknown_position() -> None:
    text = """
schema = "nftop.profile/1"
[[class]]
group = "/"
cpus = '''
2-9'''
l3data = '''
cpus = "2-8"
'''
[class.l3]
0 = "7ff"
"""
    problems = fit(formats.parse_toml_profile(text), *small()).problems
    assert [(problem.line, problem.fatal) for problem in problems] == [(0, True)] * 3
    assert not any(problem.edits for problem in problems)


def test_toml_has_the_line_of_a_wrong_value_and_is_mended() -> None:
    text = """schema = "nftop.profile/1"
[[class]]
group = "nftop.a"
l3 = { 0 = "f", 1 = "7ff" } # both "7ff"
"cpus" = '2-9'
mba_percent = "50"
[[class]]
group = "nftop.b"
l3 = "7FF"
cpus = "9-"
"""
    state, rules = small()
    state = {**state, Cell("schemata", ROOT, "L3", 1): "ff", Cell("schemata", ROOT, "MB", 0): "100"}
    result = fit(formats.parse_toml_profile(text), state, rules)
    wrong = [(problem.line, bool(problem.edits)) for problem in result.problems]
    assert wrong == [(4, True), (5, True), (6, False), (9, True), (10, False)]
    assert "mba_percent" in result.problems[2].text and "cpus" in result.problems[4].text
    by_hand = text.replace('"50"', "50").replace("9-", "3")
    text = mended(by_hand, fit(formats.parse_toml_profile(by_hand), state, rules).problems)
    assert text.split("\n")[3:5] == [
        'l3 = { 0 = "f", 1 = "0xff" } # both "7ff"',
        "\"cpus\" = '2-3'",
    ]
    result = fit(formats.parse_toml_profile(text), state, rules)
    assert result.actions and not any(problem.fatal for problem in result.problems)


def small() -> tuple[State, Rules]:
    state = {Cell("cpu", "", number=cpu): ROOT for cpu in range(4)}
    state |= {Cell("schemata", ROOT, "L3", 0): "ff", Cell("mode", ROOT): "shareable"}
    return state, Rules({"L3": MaskRule(8)}, LimitRule(10, 10, 100), closids=4)


def _same(host: LabHost, listing: Listing) -> None:
    state = host.state()
    rules = replace(host.rules(), tasks=host.tasks([], []))
    result = fit(listing, state, rules)
    assert [problem for problem in result.problems if problem.fatal] == []
    proposal = propose(state, rules, result.actions)
    assert proposal.refusals == ()
    assert proposal.changes == ()


@settings(max_examples=60, deadline=None)
@given(hosts(exclusive=True))
def test_a_read_back_value_is_the_written_one(host: LabHost) -> None:
    profile = export_profile(host.state(), host.rules())
    for text, parse in (
        (pqos_text(profile), pqos_config.parse),
        (toml_text(profile), formats.parse_toml_profile),
    ):
        assert all(len(line) < 255 for line in text.splitlines())
        listing = parse(text)
        assert listing.problems == ()
        assert len(listing.statements) == len(profile.statements)
        _same(host, listing)


def test_masks_and_limits_of_many_domains_are_split_over_lines() -> None:
    domains = tuple(range(0, 400, 2))
    statements = (
        MaskStatement(1, "L2", "", domains, 0xF0, NOWHERE),
        MaskStatement(2, "L3", "CODE", domains, 0xFF, NOWHERE),
        LimitStatement(1, "MBps", domains, 5000, NOWHERE),
        CpusStatement(1, tuple(map(Cpu, domains)), NOWHERE),
    )
    text = pqos_text(ExportedProfile(statements, ("long " * 100,)))
    assert all(len(line) < 255 for line in text.splitlines())
    listing = pqos_config.parse(text)
    assert listing.problems == ()
    joined: dict[object, list[int]] = {}
    for item in listing.statements:
        if isinstance(item, CpusStatement):
            cpus = replace(item, cpus=tuple(map(Cpu, domains)), span=NOWHERE)
            joined.setdefault(cpus, []).extend(item.cpus)
        elif isinstance(item, MaskStatement | LimitStatement):
            whole = replace(item, domains=domains, span=NOWHERE)
            joined.setdefault(whole, []).extend(item.domains or ())
    assert joined == {key: list(domains) for key in statements}
    assert len(listing.statements) > 3 * len(statements)


def test_what_a_profile_does_not_hold_is_reported() -> None:
    state, rules = small()
    more = {
        **state,
        Cell("group", "vpp"): "8",
        Cell("mode", "vpp"): EXCLUSIVE,
        Cell("group", "a b"): "9",
        Cell("monitor", "vpp", "m"): "10",
    }
    notes = export_profile(more, replace(rules, tasks={"7@1": "vpp"})).notes
    assert len(notes) == 4
    for printed in ("exclusive", "no plain word", "monitoring", "threads"):
        assert any(printed in note for note in notes)


def classes(*names: str) -> tuple[State, Rules]:
    """Groups in this order, each with a mask of one way: its position."""
    state, rules = small()
    for number, name in enumerate(names):
        state = {
            **state,
            Cell("group", name): str(number + 20),
            Cell("mode", name): "shareable",
            Cell("schemata", name, "L3", 0): f"{1 << number:x}",
        }
    return state, rules


def test_classes_of_unknown_number_have_the_next_free_one_and_are_matched_again() -> None:
    text = pqos_text(export_profile(*classes("ovs", "COS1", "vpp")))
    assert "# nftop: COS 2 is group ovs\n# nftop: COS 3 is group vpp\n" in text
    assert "alloc-class-set: llc:3=0x4\n" in text
    assert pqos_config.parse(text).groups == {2: "ovs", 3: "vpp"}
    assert "do not use them with pqos --iface=msr" in text


def test_classes_have_the_numbers_of_the_hardware_for_pqos() -> None:
    state, rules = classes("vpp", "COS2", "ovs", "dpdk")
    numbers = {ROOT: 0, "vpp": 1, "COS2": 2, "ovs": 3, "dpdk": 7}
    text = pqos_text(export_profile(state, rules, numbers))
    assert pqos_config.parse(text).groups == {1: "vpp", 3: "ovs", 7: "dpdk"}
    masks = [line for line in text.splitlines() if line.startswith("alloc-class-set")]
    assert sorted(masks) == [
        f"alloc-class-set: llc:{number}={bits}"
        for number, bits in ((0, "0xff"), (1, "0x1"), (2, "0x2"), (3, "0x4"), (7, "0x8"))
    ]
    assert "--iface" not in text


@pytest.mark.parametrize("numbers", [{"COS2": 3}, {"COS2": 1, "vpp": 1}, {"vpp": 2}, {"vpp": 0}])
def test_an_ambiguous_number_is_refused(numbers: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="ambiguous"):
        pqos_text(export_profile(*classes("vpp", "COS2"), numbers))


@pytest.mark.parametrize(
    "listing",
    [
        pqos_config.parse("alloc-class-set: llc:1=0xf"),
        formats.parse_toml_profile(
            'schema = "nftop.profile/1"\n[[class]]\ngroup = "COS1"\nl3 = "f"\n'
        ),
    ],
)
def test_a_missing_group_is_named_by_the_number_of_the_hardware(listing: Listing) -> None:
    (problem,) = fit(listing, *classes("vpp"), {"vpp": 1}).problems
    assert "COS1 of the hardware is group vpp" in problem.text


def test_the_offered_group_of_a_class_is_the_one_that_has_its_number() -> None:
    text = "alloc-class-set: llc:1=0xf\nalloc-assoc-set: llc:1=2\n"
    state, rules = classes("vpp")
    (problem,) = fit(pqos_config.parse(text), state, rules, {"vpp": 1}).problems
    (edit,) = problem.edits
    assert edit.new == "# nftop: COS 1 is group vpp"
    fitted = fit(pqos_config.parse(f"{edit.new}\n{text}"), state, rules, {"vpp": 1})
    assert {action.group for action in fitted.actions} == {"vpp"} and not fitted.problems
    (problem,) = fit(pqos_config.parse(text), state, rules, {"vpp": 2}).problems
    assert [edit.new for edit in problem.edits] == ["# nftop: COS 1 is group nftop.cos1"]


def test_the_name_of_a_class_in_toml_is_replaced_by_the_group_that_has_its_number() -> None:
    text = """schema = "nftop.profile/1"\n[[class]]\n  group = 'COS1' # of pqos\nl3 = "f"\n"""
    state, rules = classes("vpp")
    (problem,) = fit(formats.parse_toml_profile(text), state, rules, {"vpp": 1}).problems
    fixed = mended(text, [problem])
    assert fixed == text.replace("'COS1'", '"vpp"')
    fitted = fit(formats.parse_toml_profile(fixed), state, rules, {"vpp": 1})
    assert {action.group for action in fitted.actions} == {"vpp"} and not fitted.problems
    # No group has that number, or the name is written twice: nothing is offered.
    twice = f"{text}[[class]]\ngroup = 'COS1'\ncpus = '1'\n"
    for written, numbers in ((text, {"vpp": 2}), (twice, {"vpp": 1})):
        (problem,) = fit(formats.parse_toml_profile(written), state, rules, numbers).problems
        assert not problem.edits


def test_toml_has_values_by_domain_and_makes_what_is_missing() -> None:
    state, rules = small()
    state = {**state, Cell("schemata", ROOT, "L3", 1): "ff", Cell("schemata", ROOT, "MB", 0): "100"}
    text = """
schema = "nftop.profile/1"
[[class]]
group = "nftop.batch"
l3 = { 1 = "3" }
mba_percent = 50
cpus = "2-3"
"""
    result = fit(formats.parse_toml_profile(text), state, rules)
    assert result.problems == ()
    assert list(result.actions[:3]) == [
        CreateGroup("nftop.batch"),
        SetSchemata("nftop.batch", "L3", ((1, 3),)),
        SetSchemata("nftop.batch", "MB", ((0, 50),)),
    ]


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("[[class", "no TOML"),
        ("[[class]]\ngroup = '/'", "its schema would be"),
        ("schema = 'nftop.profile/1'\nclas = 1", "nothing is known by the name 'clas'"),
        ("schema = 'nftop.profile/1'\nclass = 1", "a class is a table"),
        ("schema = 'nftop.profile/1'\n[[class]]\nl3 = 'f'", "names no group"),
        ("schema = 'nftop.profile/1'\n[[class]]\ngroup = '/'\nl3 = 15", "a text in hexadecimal"),
        ("schema = 'nftop.profile/1'\n[[class]]\ngroup = '/'\nl3 = { x = 'f' }", "no domain's"),
        ("schema = 'nftop.profile/1'\n[[class]]\ngroup = '/'\nl4 = 'f'", "by the name 'l4'"),
        ("schema = 'nftop.profile/1'\n[[class]]\ngroup = '/'\ncpus = 3", "cpus is a list"),
        ("schema = 'nftop.profile/1'\n[[class]]\ngroup = '/'\nmba_percent = true", "a number"),
    ],
)
def test_what_is_no_profile_of_nftops(text: str, printed: str) -> None:
    (problem,) = formats.parse_toml_profile(text).problems
    assert problem.fatal
    assert printed in problem.text


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("alloc-class-set: llc@7:0=0xf", "L3 has no domain 7; it has 0"),
        ("alloc-class-set: llc:0=0x0", "1 way at least"),
        ("alloc-class-set: llc:0=0x5", "side by side"),
        ("alloc-class-set: llc:0c=0xf", "CDP is off"),
        ("alloc-class-set: l2:0=0xf", "no L2 to allocate"),
        ("alloc-class-set: mba_max:0=500", "has them in percent"),
        ("alloc-class-set: mba:0=5", "between 10 and 100"),
        ("alloc-assoc-set: llc:0=3,9", "CPU 9 is not there, or offline; it can be left out"),
        ("# nftop: COS 1 is group vpp\nalloc-class-set: llc:1=0xf", "there is no group vpp"),
    ],
)
def test_what_a_host_does_not_take(line: str, printed: str) -> None:
    result = fit(pqos_config.parse(line), *small())
    (problem,) = result.problems
    assert printed in problem.text
    assert result.actions == ()


def test_the_later_of_two_statements_holds_and_threads_are_moved(
    snapshot: SnapshotAssertion,
) -> None:
    text = (
        "alloc-class-set: llc:0=0xf0;llc:0=0xf\nalloc-assoc-set: llc:0=1\n"
        "# nftop: COS 1 is group nftop.a\nalloc-assoc-set: llc:1=1;pid:1=41\n"
    )
    result = fit(pqos_config.parse(text), *small())
    assert [problem.text for problem in result.problems] == snapshot
    assert SetSchemata(ROOT, "L3", ((0, 0xF),)) in result.actions
    assert MoveTasks((41,), "nftop.a") in result.actions


_CLASS = '[[class]]\ngroup = "nftop.{}"\ncpus = "0-4095"\n'
_TOO_LONG = {
    "toml": f'schema = "{formats.SCHEMA}"\n' + "".join(map(_CLASS.format, range(40))),
    "pqos": "alloc-assoc-set: cos:1=0-4095\n" * 40,
    "domains": "alloc-class-set: llc@0-4095:" + ",".join(["1=0xf"] * 40),
    "domains of nothing": "alloc-class-set: llc@0-4095:;\n" * 40,
    "text": "#" * (MOST_BYTES + 1),
}


@pytest.mark.parametrize("name", list(_TOO_LONG))
def test_a_short_text_that_lists_much_is_not_a_profile(name: str) -> None:
    """A text of 1 MiB took minutes and gigabytes of memory."""
    parser = formats.PARSERS["toml" if name == "toml" else "pqos"]
    listing = parser(_TOO_LONG[name])
    (problem,) = listing.problems
    assert listing.statements == () and problem.fatal
    assert str(MOST_BYTES >> 10 if name == "text" else MOST_LISTED) in problem.text
