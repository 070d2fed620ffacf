"""The editor's lines: every cell, check and note, from states and frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.control.resctrl import draft as drafts
from nftop.control.resctrl.draft import Draft
from nftop.derive.cache.ways import shares_of
from nftop.model.change import Cell, Change, Receipt, State
from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.rdt import MbaUnit
from nftop.render.base.line import Tone, line
from nftop.render.cache.class_cells import group_name
from nftop.render.cache.way_cells import HATCH
from nftop.render.editor.change import confirm_lines
from nftop.render.editor.model import EditorState, LineRule, MaskRow, MaskSelection, shares_at
from nftop.render.editor.page import (
    AGAINST,
    DOUBT,
    GOOD,
    diff_lines,
    draft_lines,
    editor_lines,
    where_text,
)
from nftop.render.frame.changes import PendingFacts, outcome_lines, outcome_text, unkept_lines
from nftop.ui.editor_model import EditorModel
from tests.command import lines_with
from tests.frames import HOSTILE, SETTING
from tests.rdt import MIB
from tests.ui.gates import WAYS, frame_at, open_gate

HOST = open_gate().host
STATE, RULES = HOST.state(), HOST.rules()
FRAME = frame_at(STATE)


_MASKS = st.sampled_from(["1", "f", "f0", "180", "600", "7ff"])


def board(draft: Draft, selection: MaskSelection | None = None, **more: object) -> EditorState:
    plain = EditorState(
        draft.base,
        draft.target,
        draft.plan,
        {
            name: LineRule(rule.ways, rule.min_bits, rule.sparse)
            for name, rule in draft.rules.masks.items()
        },
        selection or MaskSelection("vpp", "L3", 0, 7),
        io=draft.rules.io,
        where="/sys/fs/resctrl",
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def begun(changes: Mapping[str, str] | None = None, **modes: str) -> Draft:
    """The host with other masks in L3 0, and groups of other modes."""
    wanted = {
        cell: (changes or {}).get(cell.group, value)
        if (cell.name, cell.number) == ("L3", 0)
        else modes.get(cell.group, value)
        if cell.kind == "mode"
        else value
        for cell, value in STATE.items()
    }
    return drafts.begin(wanted, RULES, "nftop")


def text(shown: EditorState, frame: Frame = FRAME, width: int = 100, height: int = 40) -> str:
    return "\n".join(
        editor_line.text.rstrip() for editor_line in editor_lines(shown, frame, width, height)
    )


def ways(drawn: str, name: str) -> str:
    """Cells of a class's ways; `/`: shared."""
    lines = drawn.split("\n")
    at = next(item for item in lines if "CLASS " in item).index("10")
    row = next(item for item in lines if f"■ {name} " in item)
    cells = [row[at + 3 * way : at + 3 * way + 3] for way in range(WAYS)]
    return "".join("/" if HATCH in cell else cell[1].replace("·", ".") for cell in cells)


@pytest.mark.parametrize(
    ("masks", "modes", "drawn"),
    [
        ({"vpp": "70", "ovs": "180"}, {}, "....vvv...."),
        ({"vpp": "70", "ovs": "180"}, {"vpp": "exclusive"}, "....VVV...."),
        ({"vpp": "f0", "ovs": "180"}, {}, ".../vvv...."),
        ({"vpp": "600", "ovs": "180"}, {}, "//........."),
        ({"vpp": "600", "ovs": "300"}, {}, "//........."),
        # Nobody is in this class, so nobody has its ways.
        ({"vpp": "f", "/": "10", "nftop.batch": "20"}, {}, ".......vvvv"),
    ],
)
def test_a_way_is_drawn_by_the_classes_that_may_fill_it(
    masks: dict[str, str], modes: dict[str, str], drawn: str
) -> None:
    assert ways(text(board(begun(masks, **modes))), "vpp") == drawn


def checks(shown: EditorState, width: int = 140) -> dict[str, list[str]]:
    """Texts of the checks by their glyph."""
    by_glyph: dict[str, list[str]] = {}
    lines = draft_lines(shown, FRAME, width)
    for glyph, tone in (GOOD, DOUBT, AGAINST):
        spans = [
            (spans[at + 1].text.strip().split("   ")[0])
            for spans in (item.spans for item in lines)
            for at in range(len(spans) - 1)
            if spans[at][:2] == (glyph, tone)
        ]
        by_glyph[glyph.strip()] = spans
    return by_glyph


def test_a_cpu_that_is_moved_loses_the_ways_of_its_old_class(snapshot: SnapshotAssertion) -> None:
    nfs = {info.cpu: nf for info, nf in zip(FRAME.topology.cpus, FRAME.cpus.nf, strict=True)}
    cpu = next(cpu for cpu, nf in nfs.items() if nf and STATE[Cell("cpu", "", number=cpu)] == "vpp")
    draft, why = drafts.move(begun({"vpp": "70", "/": "3", "ovs": "180"}), "/", [cpu])
    assert not why
    assert checks(board(draft))["✘"] == [f"{nfs[cpu]} loses ways 4-6"]
    same, _ = drafts.move(begun({"vpp": "70", "/": "7f", "ovs": "180"}), "/", [cpu])
    assert checks(board(same))["✔"] == snapshot


def test_the_answer_of_a_sweep_is_a_check_of_the_selected_mask() -> None:
    text = "a sweep in this session found 3 ways (L3 0 7)"
    shown = board(drafts.begin(STATE, RULES, "nftop"), swept=text)
    assert any(text in item.text for item in draft_lines(shown, FRAME, 120))


def test_checks_of_shape_devices_overlaps_and_losses(snapshot: SnapshotAssertion) -> None:
    result = checks(board(begun({"vpp": "600", "ovs": "180"})))
    assert result["▲"] == snapshot
    assert result["✔"] == ["side by side", "no overlap"] and result["✘"] == []
    assert "private 0 of 2.9 MiB" in text(board(begun({"vpp": "600", "ovs": "180"})))
    draft, _ = drafts.grow(begun({"vpp": "70", "ovs": "180"}), "vpp", "L3", (0,), 10)
    result = checks(board(draft))
    assert result["▲"] == snapshot
    assert result["✘"] == []
    assert result["✔"] == snapshot
    assert "private 4.4 of 5.8 MiB" in text(board(draft))
    rules = replace(RULES, masks={"L3": replace(RULES.masks["L3"], sparse=True)})
    gap, _ = drafts.toggle(drafts.begin(STATE, rules, "nftop"), "vpp", "L3", (0,), 5)
    assert checks(board(gap))["✔"] == snapshot
    assert any("loses way" in item for item in checks(board(gap))["✘"]), "an NF is in class vpp"
    many = dict.fromkeys(("vpp", "ovs", "/", "nftop.batch"), "70")
    assert sum(item.startswith("shares") for item in checks(board(begun(many)))["▲"]) == 3
    less, _ = drafts.shrink(begun({"vpp": "1f0", "ovs": "180"}), "vpp", "L3", (0,), 10)
    assert checks(board(less))["▲"] == snapshot


@settings(max_examples=15, deadline=None)
@given(
    st.fixed_dictionaries(dict.fromkeys(("/", "vpp", "ovs", "nftop.batch"), _MASKS)),
    st.booleans(),
    st.booleans(),
)
def test_editor_and_cache_screen_agree_on_the_owner_of_a_way(
    masks: dict[str, str], empty: bool, drained: bool
) -> None:
    """`empty`: nobody is in the class of nftop's own; `drained`: nor has any class lines."""
    state = {
        cell: "/"
        if empty and value == "nftop.batch"
        else masks[cell.group]
        if cell.kind == "schemata" and cell.name == "L3"
        else value
        for cell, value in STATE.items()
    }
    frame = frame_at(state)
    if drained:
        frame = replace(
            frame,
            groups=tuple(
                replace(
                    item,
                    caches=tuple(
                        replace(cache, readings={**cache.readings, "occupancy_bytes": 0.0})
                        for cache in item.caches
                    ),
                )
                for item in frame.groups
            ),
        )
    model = EditorModel(state, RULES, "/sys/fs/resctrl", "nftop", read_at_ns=0)
    for group in masks:
        shares = shares_at(model.editor_state(frame), MaskRow(group, "L3"))
        assert shares == shares_of(frame.groups, frame.domains[0])[group]
        drawn = ways(text(model.editor_state(frame), frame, 110), group_name(group))
        shared = shares.shared.bits | shares.io.bits
        assert [cell == "/" for cell in drawn] == [
            bool(shared >> way & 1) for way in reversed(range(WAYS))
        ]


def test_what_is_not_known_reports_why(snapshot: SnapshotAssertion) -> None:
    why = Missing(Reason.SOURCE, "no register here")
    domains = tuple(replace(domain, io=why, size_bytes=None) for domain in FRAME.domains)
    groups = tuple(
        replace(
            group,
            clos=None,
            caches=tuple(
                replace(cache, readings=dict.fromkeys(cache.readings, why))
                for cache in group.caches
            ),
        )
        for group in FRAME.groups
    )
    message = text(board(begun(), io={}), replace(FRAME, domains=domains, groups=groups), 140)
    assert lines_with(message, "I/O ways") == snapshot
    assert "[s]/[s]" in message and " COS" not in message
    assert "private 3 of 4 ways" in message
    without = replace(FRAME, groups=(), domains=())
    assert "[w]/[s]" in text(board(begun(), io={}), without)


def test_a_class_that_holds_more_than_its_ways_is_draining(snapshot: SnapshotAssertion) -> None:
    groups = tuple(
        replace(
            group,
            caches=tuple(
                replace(cache, readings={**cache.readings, "occupancy_bytes": 9.0 * MIB})
                for cache in group.caches
            ),
        )
        if group.name == "vpp"
        else group
        for group in FRAME.groups
    )
    message = text(board(begun()), replace(FRAME, groups=groups))
    assert lines_with(message, "draining") == snapshot


def test_classes_that_come_and_go(snapshot: SnapshotAssertion) -> None:
    draft = drafts.remove(drafts.create(begun(), "new")[0], "nftop.batch")[0]
    message = text(board(draft, MaskSelection("nftop.batch", "L3", 0, 3)), width=140)
    assert "new 00f" in next(item for item in message.split("\n") if "■ nftop.new " in item)
    assert "00f gone" in next(item for item in message.split("\n") if "▸ ■ nftop.batch " in item)
    assert ways(message, "nftop.batch") == ".......----"
    assert lines_with(message, "nftop.batch") == snapshot


@pytest.mark.parametrize(
    ("unit", "shown"), [("percent", "100% → 90%"), ("MBps", "100MB/s → 90MB/s")]
)
def test_limits_are_in_the_units_of_the_host(unit: MbaUnit, shown: str) -> None:
    draft, _ = drafts.step_limit(begun(), "vpp", (0,), -1)
    assert shown in text(board(draft, unit=unit), width=140)


def test_cores_of_two_kinds_are_distinguished() -> None:
    two = tuple(
        replace(SETTING, priority="high" if info.cpu in (1, 3) else "low")
        for info in FRAME.topology.cpus
    )
    frame = replace(FRAME, cpus=replace(FRAME.cpus, settings=two))
    message = text(board(drafts.move(begun(), "vpp", (Cpu(0),))[0]), frame)
    assert "0-1 H/L" in message, "of its CPUs those in this cache"
    assert " 4-5 L" in message
    assert "elsewhere" in message, "OVS is on CPU 3, which has another cache"


def test_a_packet_costs_what_the_class_spent_on_all_of_them() -> None:
    cpus = {cell: "vpp" for cell in STATE if cell.kind == "cpu"}
    together = board(begun(), MaskSelection("/", "L3", 1, 0))
    together = replace(together, target={**together.target, **cpus})
    reports = {"cpp": 400.0, "rx_packets_per_s": 10e6}
    shown = replace(
        FRAME, nfs=tuple(replace(nf, readings={**nf.readings, **reports}) for nf in FRAME.nfs)
    )
    # One of fwd's cores is beside this cache, and is half busy with 0.012 Mpps at 233 000.
    assert "fwd, vpp <679" in " ".join(text(together, shown, width=160).split())


def test_trouble_and_the_lock_stand_where_they_are_seen() -> None:
    trouble, locked = "somebody is at it", "read-only: use --rw"
    message = text(board(begun(), trouble=(trouble,), locked=locked))
    assert f"! {trouble}" in message and locked in message
    waiting = board(begun(), waits="waits until change 1 is kept", locked="read-only")
    assert "waits until change 1" in text(waiting) and "read-only" not in text(waiting)
    assert where_text(board(begun(), MaskSelection("/", "L3", 1, 3))) == "default L3 1 way 3"


def test_names_of_others_are_escaped() -> None:
    state: dict[object, str] = dict(STATE)  # type: ignore[arg-type]
    for at, name in enumerate(HOSTILE):
        for cell, value in STATE.items():
            if cell.group == "vpp":
                state[cell._replace(group=f"{at}{name}")] = value
    draft = drafts.begin(_state(state), RULES, "nftop")
    shown = board(draft, MaskSelection(f"0{HOSTILE[0]}", "L3", 0, 1))
    for editor_line in (*editor_lines(shown, FRAME, 90, 40), *diff_lines(shown, FRAME, (), 90)):
        assert editor_line.text.isprintable()
        assert editor_line.width <= 90


def test_the_card_has_what_the_classes_leave() -> None:
    card = [line(f"card {at}") for at in range(30)]
    shown = board(begun())
    for height in (12, 20, 24, 60):
        lines = [
            editor_line.text for editor_line in editor_lines(shown, FRAME, 80, height, card=card)
        ]
        assert len(lines) <= height
        assert sum(f" {name} " in item for item in lines for name in ("vpp", "ovs")) >= 2
        assert ("card 29" in lines) == (height == 60)


def test_what_stands_above_every_screen(snapshot: SnapshotAssertion) -> None:
    change = Change(Cell("schemata", "vpp", "L3", 0), "f0", "1f0")
    facts = PendingFacts(3, (change, change), 30, 60.0)
    for width in (40, 80, 120, 200):
        lines = unkept_lines(facts, width, 36)
        assert [item.width for item in lines] == [width] * 3
        assert {item.fill for item in lines} == {Tone.PENDING}
        assert lines[1].text.startswith(" CHANGE 3 ") and "NOT KEPT" in lines[1].text
        assert "30 s" in lines[1].text
        assert lines[1].text == snapshot
        assert lines[1].text.count("█") == lines[1].text.count("░") == (10 if width > 80 else 0)
    assert unkept_lines(facts, 120, 36)[1].text == snapshot
    padded = unkept_lines(replace(facts, ways={"L3": 20}), 120, 36)[1].text
    assert padded == snapshot
    one = replace(facts, changes=(change,), ways={"L3": 20})
    assert " 000f0 → 001f0 " in unkept_lines(one, 80, 36)[1].text, "whole in 80 columns"
    assert len(unkept_lines(facts, 80, 12)) == 1
    assert " CHANGE NOT KEPT" in unkept_lines(replace(facts, number=None), 80, 12)[0].text
    long = unkept_lines(replace(facts, left_s=287, within_s=300.0), 120, 36)[1].text
    assert long == snapshot
    late = unkept_lines(replace(facts, left_s=0), 80, 12)[0].text
    assert late == snapshot
    kept = Receipt("kept", ("`nftop undo` takes it back",))
    assert outcome_lines(kept, 80) == []
    assert outcome_text(kept) == f"kept: {kept.sentences[0]}"
    bad = outcome_lines(Receipt("overwritten", ("the mode of \x1b[2Jx was changed",) * 20), 60)
    assert bad[0].text.startswith(" OVERWRITTEN ") and len(bad) == 3
    assert all(item.text.isprintable() and item.width <= 60 for item in bad)


def _state(cells: Mapping[object, str]) -> State:
    return cells  # type: ignore[return-value]


def test_warnings_stay_on_a_low_screen() -> None:
    draft, _ = drafts.copy_first(begun({"vpp": "1f0"}), "vpp", "L3", (0, 1))
    message = tuple(f"effect {count}" for count in range(40))
    plan = replace(draft.plan, effects=message, warnings=("ovs loses it all",), unmet=("a half",))
    shown = board(replace(draft, plan=plan))
    for height in (16, 20, 24, 70):
        drawn = text(shown, height=height)
        assert f"✘ not done: {plan.unmet[0]}" in drawn
        assert drawn.count(plan.warnings[0]) == 1, height


def test_the_preview_begins_with_what_speaks_against_it() -> None:
    draft, _ = drafts.copy_first(begun({"vpp": "1f0"}), "vpp", "L3", (0, 1))
    plan = replace(draft.plan, effects=("so",), warnings=("w " * 75,), unmet=("half",))
    lines, warned = confirm_lines(
        plan, ("echo",), 80, ways={"L3": 11}, unit="percent", obstacle="", keep_within_s=60
    )
    texts = [item.text for item in lines]
    assert texts[0] == "✘ not done: half" and texts[1].startswith("▲ warning: w w")
    assert warned == texts.index("") and warned > 2
    assert any("vpp L3 1" in item for item in texts[warned:])
    assert "note     so" in texts[warned:]
