"""The listings of the papers nftop comes from: every error found, every fix offered, nothing done.

`c23-*.cfg`: appendix C.2.3 of Intel's paper on RDT and OVS-DPDK, for a CPU of 20 ways and 12 cores;
`talk.sh`: the commands of the second talk, for 11 ways and 80 CPUs. Both as printed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.control.profile.pqos_config import parse
from nftop.control.profile.profile import mended
from nftop.control.profile.validate import Fitted, fit
from nftop.control.rdt_limits import LimitRule, MaskRule, Rules
from nftop.model.change import Cell, MoveCpus, SetSchemata, State
from nftop.model.ids import format_cpu_list
from nftop.model.rdt.rdt import ROOT

DATA = Path(__file__).parents[2] / "data/profiles"
OVERLAPPING_1 = {0: 0xFFFF0, 1: 0x00F00, 2: 0x000F0, 3: 0x0000F}
ISOLATED_1 = {0: 0xFF000, 1: 0x00F00, 2: 0x000F0, 3: 0x0000F}
OVERLAPPING_2 = {0: 0xFFFF0, 1: 0x000C0, 2: 0x00030, 3: 0x0000F}
ISOLATED_2 = {0: 0xFFF00, 1: 0x000C0, 2: 0x00030, 3: 0x0000F}
HYPERVISOR = {0: 0xFFFF0, 1: 0xFF000, 2: 0x00FF0, 3: 0x0000F}
WIDE, NARROW = ("1-3", "5-7", "8-10", "0,4,11"), ("1-3", "4-6", "7-9", "0,10-11")


def host(ways: int, cpus: int, *, groups: int = 4) -> tuple[State, Rules]:
    """One socket as pqos leaves it: COS1 and on beside the root group."""
    full = f"{(1 << ways) - 1:x}"
    names = [ROOT, *(f"COS{number}" for number in range(1, groups))]
    state: dict[Cell, str] = {Cell("cpu", "", number=cpu): ROOT for cpu in range(cpus)}
    for name in names:
        if name != ROOT:
            state[Cell("group", name)] = "7"
        state[Cell("mode", name)] = "shareable"
        state[Cell("schemata", name, "L3", 0)] = full
        state[Cell("schemata", name, "MB", 0)] = "100"
    rules = Rules({"L3": MaskRule(ways)}, LimitRule(10, 10, 100), closids=16)
    return state, rules


def fitted(text: str, state: State, rules: Rules) -> Fitted:
    return fit(parse(text), state, rules)


@pytest.mark.parametrize(
    ("name", "digits", "too_wide", "masks", "cpus"),
    [
        # Lines with `1lc` for `llc`, and masks of more than 20 ways; then what Table 3 has.
        ("overlapping-1", 5, {"0xfffff0": "0xffff0"}, OVERLAPPING_1, WIDE),
        ("isolated-1", 5, {}, ISOLATED_1, NARROW),
        ("overlapping-2", 5, {"0xfffff0": "0xffff0"}, OVERLAPPING_2, NARROW),
        ("isolated-2", 5, {"0xffff00": "0xfff00"}, ISOLATED_2, NARROW),
        ("noisy-hypervisor", 5, {"0xfffff0": "0xffff0"}, HYPERVISOR, WIDE),
        # The listing goes on over a page: its last two lines are printed right.
        ("noisy-vm", 3, {"0xfffff0": "0xffff0"}, OVERLAPPING_2, NARROW),
        ("noisy-vm-vm", 0, {"0xfffff0": "0xffff0"}, OVERLAPPING_2, NARROW),
    ],
)
def test_every_error_of_the_rdt_paper_is_detected_and_its_fix_offered(
    name: str, digits: int, too_wide: dict[str, str], masks: dict[int, int], cpus: tuple[str, ...]
) -> None:
    text = (DATA / f"c23-{name}.cfg").read_text()
    state, rules = host(20, 12)
    result = fitted(text, state, rules)

    slips = [problem for problem in result.problems if "1lc" in problem.text]
    wide = [problem for problem in result.problems if "20 ways" in problem.text]
    assert len(slips) == digits
    assert sum(len(slip.edits) for slip in slips) == text.count("1lc")
    lines = text.splitlines()
    assert {
        lines[edit.span.line - 1][edit.span.start : edit.span.end]: edit.new
        for item in wide
        for edit in item.edits
        if edit.span is not None
    } == too_wide
    assert len(result.problems) == len(slips) + len(wide)
    assert result.problems  # no listing is without an error
    assert result.actions == ()  # and none is mended unasked

    good = fitted(mended(text, result.problems), state, rules)
    assert good.problems == ()
    groups = {ROOT if number == 0 else f"COS{number}": bits for number, bits in masks.items()}
    assert {
        action.group: action.values for action in good.actions if isinstance(action, SetSchemata)
    } == {group: ((0, bits),) for group, bits in groups.items()}
    assert {
        action.group: format_cpu_list(action.cpus)
        for action in good.actions
        if isinstance(action, MoveCpus)
    } == dict(zip(groups, cpus, strict=True))


def test_a_single_fix_leaves_the_others_to_be_confirmed() -> None:
    text = (DATA / "c23-overlapping-1.cfg").read_text()
    state, rules = host(20, 12)
    problems = fitted(text, state, rules).problems
    wide = [problem for problem in problems if "20 ways" in problem.text]
    left = fitted(mended(text, wide), state, rules)
    assert [(problem.line, problem.text) for problem in left.problems] == [
        (item.line, item.text) for item in problems if item not in wide
    ]
    assert left.actions == ()


def test_the_second_talks_commands() -> None:
    text = (DATA / "talk.sh").read_text()
    state, rules = host(11, 80)
    result = fitted(text, state, rules)
    # `pgos` for `pqos`, as it was read off a slide.
    assert [(problem.line, len(problem.edits)) for problem in result.problems] == [
        (1, 1),
        (3, 1),
        (5, 1),
    ]
    assert result.actions == ()

    good = fitted(mended(text, result.problems), state, rules)
    assert good.problems == ()
    values = {
        (action.group, action.resource): action.values[0][1]
        for action in good.actions
        if isinstance(action, SetSchemata)
    }
    assert values == {
        (ROOT, "L3"): 0x7FF,
        ("COS1", "L3"): 0x7F0,
        ("COS2", "L3"): 0x3,
        ("COS3", "L3"): 0xC,
        (ROOT, "MB"): 100,
        ("COS1", "MB"): 100,
        ("COS2", "MB"): 10,
        ("COS3", "MB"): 10,
    }
    cpus = {
        action.group: format_cpu_list(action.cpus)
        for action in good.actions
        if isinstance(action, MoveCpus)
    }
    assert cpus == {
        ROOT: "0-19,40-59",
        "COS1": "21-24,26-32,36,61-64,66-72,76",
        "COS2": "25,34,38-39,65,74,78-79",
        "COS3": "20,33,35,37,60,73,75,77",
    }


def test_a_class_without_a_group_is_offered_one_of_nftops_own(snapshot: SnapshotAssertion) -> None:
    text = "alloc-class-set: llc:0=0xff;llc:1=0xf00\nalloc-assoc-set: llc:1=2\n"
    state, rules = host(12, 4, groups=1)
    result = fitted(text, state, rules)
    (problem,) = result.problems
    assert problem.text == snapshot
    good = fitted(mended(text, [problem]), state, rules)
    assert good.problems == ()
    assert {action.group for action in good.actions} == {ROOT, "nftop.cos1"}


def test_what_is_requested_a_class_without_a_group_is_judged_too() -> None:
    text = (
        "alloc-class-set: llc:1=0xff000\nalloc-class-set: llc:2=0x505\nalloc-assoc-set: llc:1=2,9\n"
    )
    state, rules = host(12, 4, groups=1)
    result = fitted(text, state, rules)
    message = [(problem.line, problem.text) for problem in result.problems]
    assert [line for line, _ in message] == [1, 1, 2, 2, 3]
    for line, component in (
        (1, "mask 0xff000: the cache has 12 ways"),
        (2, "side by side"),
        (3, "CPU 9 is not there"),
    ):
        assert any(at == line and component in item for at, item in message), message
    assert result.actions == ()
    # All that can be offered is offered at once.
    left = fitted(mended(text, result.problems), state, rules).problems
    assert all("side by side" in item.text or "0xff000" in item.text for item in left)
