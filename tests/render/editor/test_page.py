"""The editor's lines: every cell, check and note, from states and frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nftop.control.resctrl import draft as drafts
from nftop.control.resctrl.draft import Draft
from nftop.derive.cache.ways import shares_of
from nftop.model.change import Receipt, State
from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.model.rdt.rdt import MbaUnit
from nftop.model.reading import Missing, Reason
from nftop.render.base.line import line
from nftop.render.cache.table import cache_table
from nftop.render.editor.change import confirm_lines
from nftop.render.editor.model import EditorState, LineRule, MaskRow, MaskSelection, shares_at
from nftop.render.editor.page import diff_lines, editor_lines, where_text
from nftop.render.frame.changes import outcome_lines, outcome_text, unkept_lines
from nftop.ui.editor_model import EditorModel
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
        {name: LineRule(rule.ways, rule.min_bits, rule.sparse)
         for name, rule in draft.rules.masks.items()},
        selection or MaskSelection("vpp", "L3", 0, 7),
        io=draft.rules.io,
        where="/sys/fs/resctrl",
    )  # fmt: skip
    return replace(plain, **more)  # type: ignore[arg-type]


def begun(changes: Mapping[str, str] | None = None, **modes: str) -> Draft:
    """The host with other masks in L3 0, and groups of other modes."""
    wanted = {
        cell: (changes or {}).get(cell.group, value) if (cell.name, cell.number) == ("L3", 0)
        else modes.get(cell.group, value) if cell.kind == "mode" else value
        for cell, value in STATE.items()
    }  # fmt: skip
    return drafts.begin(wanted, RULES, "nftop")


def text(shown: EditorState, frame: Frame = FRAME, width: int = 100, height: int = 40) -> str:
    return "\n".join(
        editor_line.text.rstrip() for editor_line in editor_lines(shown, frame, width, height)
    )


def ways(drawn: str, name: str) -> str:
    row = next(word for word in drawn.split("\n") if f" {name} " in word)
    return next(word for word in row.split() if len(word) == WAYS and set(word) <= set(".#oEix+-"))


@pytest.mark.parametrize(
    ("masks", "modes", "drawn"),
    [
        ({"vpp": "70", "ovs": "180"}, {}, "....###...."),
        ({"vpp": "70", "ovs": "180"}, {"vpp": "exclusive"}, "....EEE...."),
        ({"vpp": "f0", "ovs": "180"}, {}, "...o###...."),
        ({"vpp": "600", "ovs": "180"}, {}, "ii........."),
        ({"vpp": "600", "ovs": "300"}, {}, "ix........."),
        # Nobody is in this class, so nobody has its ways.
        ({"vpp": "f", "/": "10", "nftop.batch": "20"}, {}, ".......####"),
    ],
)
def test_a_way_is_drawn_by_who_may_fill_it(
    masks: dict[str, str], modes: dict[str, str], drawn: str
) -> None:
    assert ways(text(board(begun(masks, **modes))), "vpp") == drawn


def test_checks_tell_of_devices_of_others_and_of_what_is_private() -> None:
    said = " ".join(text(board(begun({"vpp": "600", "ovs": "180"}))).split())
    assert "!! devices write into ways 9-10 too (cpuid)" in said
    assert "ok no overlap private 0 of 2.9 MiB" in said
    draft, _ = drafts.grow(begun({"vpp": "70", "ovs": "180"}), "vpp", "L3", (0,), 10)
    said = " ".join(text(board(draft)).split())
    assert "!! overlaps ovs on way 7 (ovs was alone in its ways)" in said
    assert "private 4.4 of 5.8 MiB" in said
    assert "ok avoids I/O ways" in said
    rules = replace(RULES, masks={"L3": replace(RULES.masks["L3"], sparse=True)})
    gap, _ = drafts.toggle(drafts.begin(STATE, rules, "nftop"), "vpp", "L3", (0,), 5)
    assert "ok gaps are allowed here" in text(board(gap))
    many = dict.fromkeys(("vpp", "ovs", "/", "nftop.batch"), "70")
    assert text(board(begun(many))).count("overlaps") == 3


@settings(max_examples=15, deadline=None)
@given(
    st.fixed_dictionaries(dict.fromkeys(("/", "vpp", "ovs", "nftop.batch"), _MASKS)),
    st.booleans(),
    st.booleans(),
)
def test_the_editor_and_the_cache_screen_agree_on_whose_a_way_is(
    masks: dict[str, str], empty: bool, drained: bool
) -> None:
    """`empty`: nobody is in the class of nftop's own; `drained`: nor has any class lines."""
    state = {
        cell: "/" if empty and value == "nftop.batch" else masks[cell.group]
        if cell.kind == "schemata" and cell.name == "L3" else value
        for cell, value in STATE.items()
    }  # fmt: skip
    frame = frame_at(state)
    if drained:
        frame = replace(frame, groups=tuple(
            replace(item, caches=tuple(
                replace(cache, readings={**cache.readings, "occupancy_bytes": 0.0})
                for cache in item.caches))
            for item in frame.groups
        ))  # fmt: skip
    desk = EditorModel(state, RULES, "/sys/fs/resctrl", "nftop", read_at_ns=0)
    drawn = text(desk.editor_state(frame), frame, 110)
    table = "\n".join(item.text for item in cache_table(frame, 160, (), folded=False).lines)
    for name in ("default", "vpp", "ovs", "nftop.batch"):
        assert ways(drawn, name) == ways(table, name)
    for group in masks:
        shares = shares_at(desk.editor_state(frame), MaskRow(group, "L3"))
        assert shares == shares_of(frame.groups, frame.domains[0])[group]


def test_what_is_not_known_says_why() -> None:
    why = Missing(Reason.SOURCE, "no register here")
    domains = tuple(replace(domain, io=why, size_bytes=None) for domain in FRAME.domains)
    groups = tuple(
        replace(group, clos=None, caches=tuple(
            replace(cache, readings=dict.fromkeys(cache.readings, why)) for cache in group.caches))
        for group in FRAME.groups
    )  # fmt: skip
    said = text(board(begun(), io={}), replace(FRAME, domains=domains, groups=groups))
    assert "I/O ways unknown: no register here" in said
    assert "[s]/[s]" in said and "COS -" in said
    assert "private 3 of 4 ways" in said
    without = replace(FRAME, groups=(), domains=())
    assert "[w]/[s]" in text(board(begun(), io={}), without)


def test_a_class_that_holds_more_than_its_ways_is_draining() -> None:
    groups = tuple(
        replace(group, caches=tuple(
            replace(cache, readings={**cache.readings, "occupancy_bytes": 9.0 * MIB})
            for cache in group.caches))
        if group.name == "vpp" else group
        for group in FRAME.groups
    )  # fmt: skip
    said = text(board(begun()), replace(FRAME, groups=groups))
    assert "draining: vpp holds 9.0 MiB, its ways are 5.8" in said


def test_classes_that_come_and_go() -> None:
    draft = drafts.remove(drafts.create(begun(), "new")[0], "nftop.batch")[0]
    said = text(board(draft, MaskSelection("nftop.batch", "L3", 0, 3)))
    assert "  new   nftop.new " in said
    assert "> gone  nftop.batch " in said
    assert ways(said, "nftop.batch") == ".......----"
    assert "nftop.batch is to be removed" in said
    assert "$ nftop cat remove --group nftop.batch" in said


@pytest.mark.parametrize(("unit", "shown"), [("percent", "100%->90%"), ("MBps", "100MB/s->90MB/s")])
def test_limits_are_in_the_units_of_the_host(unit: MbaUnit, shown: str) -> None:
    draft, _ = drafts.step_limit(begun(), "vpp", (0,), -1)
    assert shown in text(board(draft, unit=unit))


def test_cores_of_two_kinds_are_told_apart() -> None:
    two = tuple(
        replace(SETTING, priority="high" if info.cpu in (1, 3) else "low")
        for info in FRAME.topology.cpus
    )
    frame = replace(FRAME, cpus=replace(FRAME.cpus, settings=two))
    said = text(board(drafts.move(begun(), "vpp", (Cpu(0),))[0]), frame)
    assert "0-1 H/L" in said, "of its CPUs those in this cache"
    assert " 4-5 L" in said
    assert "elsewhere" in said, "OVS is on CPU 3, which has another cache"


def test_a_packet_costs_what_the_class_spent_on_all_of_them() -> None:
    cpus = {cell: "vpp" for cell in STATE if cell.kind == "cpu"}
    together = board(begun(), MaskSelection("/", "L3", 1, 0))
    together = replace(together, target={**together.target, **cpus})
    told = {"cpp": 400.0, "rx_packets_per_s": 10e6}
    shown = replace(FRAME, nfs=tuple(
        replace(nf, readings={**nf.readings, **told}) for nf in FRAME.nfs
    ))  # fmt: skip
    # One of fwd's cores is beside this cache, and is half busy with 0.012 Mpps at 233 000.
    assert "fwd, vpp <679" in " ".join(text(together, shown, width=160).split())


def test_trouble_and_the_lock_stand_where_they_are_seen() -> None:
    said = text(board(begun(), trouble=("somebody is at it",), locked="read-only: use --rw"))
    assert "! somebody is at it" in said and "SAFE   read-only: use --rw" in said
    assert where_text(board(begun(), MaskSelection("/", "L3", 1, 3))) == "default L3 1 way 3"


def test_names_of_others_are_made_printable() -> None:
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
        lines = [editor_line.text for editor_line in editor_lines(shown, FRAME, 80, height, card)]
        assert len(lines) <= height
        assert sum(f" {name} " in item for item in lines for name in ("vpp", "ovs")) >= 2
        assert ("card 29" in lines) == (height == 60)


def test_what_stands_above_every_screen() -> None:
    assert unkept_lines(3, 42, 80)[0].text == (
        " CHANGE 3 IS NOT KEPT: taken back in 42 s   K keep   u take back"
    )
    assert " CHANGE IS NOT KEPT" in unkept_lines(None, 1, 80)[0].text
    kept = Receipt("kept", ("`nftop undo` takes it back",))
    assert outcome_lines(kept, 80) == []
    assert outcome_text(kept) == "kept: `nftop undo` takes it back"
    bad = outcome_lines(Receipt("overwritten", ("the mode of \x1b[2Jx was changed",) * 20), 60)
    assert bad[0].text.startswith(" OVERWRITTEN ") and len(bad) == 3
    assert all(item.text.isprintable() and item.width <= 60 for item in bad)


def _state(cells: Mapping[object, str]) -> State:
    return cells  # type: ignore[return-value]


def test_what_warns_stays_however_few_lines_there_are() -> None:
    draft, _ = drafts.copy_first(begun({"vpp": "1f0"}), "vpp", "L3", (0, 1))
    said = tuple(f"effect {count}" for count in range(40))
    plan = replace(draft.plan, effects=said, warnings=("ovs loses it all",), unmet=("a half",))
    shown = board(replace(draft, plan=plan))
    for height in (16, 20, 24, 70):
        drawn = text(shown, height=height)
        assert "WARN   not done: a half" in drawn
        assert drawn.count("ovs loses it all") == 1, height


def test_the_preview_begins_with_what_speaks_against_it() -> None:
    draft, _ = drafts.copy_first(begun({"vpp": "1f0"}), "vpp", "L3", (0, 1))
    plan = replace(draft.plan, effects=("so",), warnings=("w " * 75,), unmet=("half",))
    lines, warned = confirm_lines(
        plan, ("echo",), 80, ways={"L3": 11}, unit="percent", obstacle="", keep_within_s=60
    )
    texts = [item.text for item in lines]
    assert texts[0] == "not done: half" and texts[1].startswith("warning: w w")
    assert warned == texts.index("") and warned > 2
    assert any(item.startswith("vpp L3 1") for item in texts[warned:])
    assert "note: so" in texts[warned:]
