"""The editor without its screen: whatever its keys and questions are given, the draft is legal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.control.profile.pqos_config import parse
from nftop.control.rdt_limits import Rules
from nftop.control.resctrl import draft as drafts
from nftop.control.resctrl.plan import propose
from nftop.model.change import IO_GROUP, Action, Cell, Proposal, State
from nftop.model.frame import SourceState
from nftop.model.missing import Reason
from nftop.render.editor.model import rows_of
from nftop.render.editor.page import editor_lines
from nftop.ui.editor_model import EditorModel
from nftop.ui.key_bindings import EDITOR
from tests.control.hosts import LabHost
from tests.ui.gates import frame_at, open_gate

# By CDP; "io" and "io cdp": with ways of I/O that are set.
OPENED: dict[bool | str, LabHost] = {
    False: open_gate().host,
    True: open_gate("7.2", "cdp").host,
    "io": open_gate(io_alloc=True).host,
    "io cdp": open_gate("7.2", "cdp", io_alloc=True).host,
}
STATES = {cdp: host.state() for cdp, host in OPENED.items()}
FRAMES = {cdp: frame_at(state) for cdp, state in STATES.items()}
PROFILES = {
    "quiet": parse(
        "# nftop: COS 1 is group vpp\n# nftop: COS 2 is group nftop.b\n"
        "alloc-class-set: llc:1=0x7f0;llc:2=12;mba:2=20\nalloc-assoc-set: llc:2=6-7\n"
    ),
    "wide": parse("alloc-class-set: llc:0=0xfffff0;l2:0=0x3\n"),
}
_KEYS = st.sampled_from([(key.action, key.by) for key in EDITOR])
_TEXTS = st.tuples(
    st.sampled_from(["cpus", "name", "limit", "profile"]),
    st.one_of(
        st.sampled_from(["1-2", "0-7", "a", "nftop.b", "50", "4294967295", "quiet", "wide"]),
        st.text(),
    ),
)


def new_model(*, cdp: bool | str = False) -> EditorModel:
    host = OPENED[cdp]
    return EditorModel(
        STATES[cdp],
        host.rules(),
        "/sys/fs/resctrl",
        "nftop",
        read_at_ns=0,
        group="vpp",
        profiles=PROFILES,
    )


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(list(OPENED)),
    st.lists(st.one_of(_KEYS, _TEXTS), max_size=25),
    st.integers(1, 130),
)
def test_no_sequence_of_keys_yields_an_illegal_draft_or_a_screen_that_does_not_fit(
    cdp: bool | str, pressed: list[tuple[str, int | str]], width: int
) -> None:
    model = new_model(cdp=cdp)
    frame = FRAMES[cdp]
    for action, given_to_it in pressed:
        model.see(frame)
        if isinstance(given_to_it, str):
            model.answers[action](given_to_it)
        elif action in model.acts:
            model.acts[action](given_to_it)
        draft = model.draft
        assert propose(draft.base, draft.rules, drafts.actions(draft)).refusals == ()
    model.see(frame)
    shown = model.editor_state(frame)
    rows = (*rows_of(shown, frame), shown.io_row)
    assert (model.selection.group, model.selection.line) in rows
    assert 0 <= model.selection.way < 11
    for height in (5, 23, 60):
        lines = editor_lines(shown, frame, width, height)
        assert len(lines) <= height
        assert all(line.width <= width for line in lines)


@pytest.mark.parametrize(
    ("action", "by"),
    [("toggle", 1), ("shift", 1), ("grow", 1), ("bandwidth", -1), ("alike", 1), ("remove", 1)],
)
def test_a_key_proposes_once(action: str, by: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = new_model()
    model.answers["name"]("a")  # a class that `remove` may remove
    plans: list[Proposal] = []

    def counted(
        state: State, rules: Rules, actions: Sequence[Action], commands: tuple[str, ...]
    ) -> Proposal:
        plans.append(propose(state, rules, actions, commands))
        return plans[-1]

    monkeypatch.setattr(drafts, "propose", counted)
    model.acts[action](by)
    model.see(FRAMES[False])
    model.editor_state(FRAMES[False])
    assert len(plans) == 1


def test_the_selected_class_is_shown_in_any_number_of_lines() -> None:
    model = new_model()
    for _ in range(9):
        model.acts["class"](1)
        model.see(FRAMES[False])
        for height in range(6, 30):
            shown = editor_lines(model.editor_state(FRAMES[False]), FRAMES[False], 80, height)
            texts = [line.text for line in shown]
            assert any(text.startswith("▸ ") for text in texts)


def test_a_class_that_somebody_removes_is_not_selected_any_more(
    snapshot: SnapshotAssertion,
) -> None:
    model = new_model()
    model.see(FRAMES[False])
    model.acts["shift"](1)
    without = {cell: value for cell, value in STATES[False].items() if cell.group != "vpp"}
    without |= {cell: "/" for cell, where in without.items() if where == "vpp"}
    model.reload(without, model.draft.rules, 0)
    model.see(frame_at(without))
    assert model.selection.group == "/"
    assert model.message == snapshot
    assert model.trouble == ()


def test_a_foreign_change_is_reported_from_the_first_reading_after_the_base(
    snapshot: SnapshotAssertion,
) -> None:
    """Also where none agreed with the base before: it was changed right behind it."""
    other = frame_at({**STATES[False], Cell("schemata", "vpp", "L3", 0): "3c0"})
    read_at_ns = other.monotonic_ns - 10**9
    model = new_model()
    model.reload(STATES[False], model.draft.rules, read_at_ns)
    for age_s, took_s, message in ((1.1, 0.0, False), (0.9, 0.4, False), (0.9, 0.1, True)):
        seen = SourceState(Reason.PRESENT, "", age_s, took_s)
        model.see(replace(other, sources={"resctrl": seen}))
        assert bool(model.trouble) == message
    stale = SourceState(Reason.STALE, "late", 0.0, 0.0)
    model.reload(STATES[False], model.draft.rules, read_at_ns)
    model.see(replace(other, sources={"resctrl": stale}))
    assert model.trouble == ()
    msr = SourceState(Reason.PRESENT, "", 0.9, 0.1)
    model.see(replace(other, sources={"resctrl": stale, "pqos": msr}))
    assert str(model.trouble) == snapshot


def test_a_profile_is_taken_into_the_draft_or_not_at_all(snapshot: SnapshotAssertion) -> None:
    model = new_model()
    model.answers["profile"]("wide")
    assert not model.draft.changed
    assert model.message == snapshot
    model.answers["profile"]("loud")
    assert model.message == snapshot

    for _ in range(2):  # a second time it is so already
        model.answers["profile"]("quiet")
        assert drafts.commands(drafts.actions(model.draft), "nftop") == (
            "nftop cat create --group nftop.b --l3 0=c --l3 1=c --mba 0=20 --mba 1=20 --cpus 6-7",
            "nftop cat set --group vpp --l3 0=7f0 --l3 1=7f0",
        )
        assert model.message == snapshot


def test_the_ways_of_io_are_a_row_that_keys_change(snapshot: SnapshotAssertion) -> None:
    model, frame = new_model(cdp="io"), FRAMES["io"]
    model.see(frame)
    for _ in range(9):
        model.acts["class"](-1)
    assert model.selection.group == IO_GROUP
    model.selection = replace(model.selection, way=10)
    model.acts["grow"](1)
    model.acts["shift"](-1)
    assert model.draft.target[Cell("io_cbm", "", "L3", 0)] == "380"
    assert model.draft.plan.commands == ("nftop cat io set --l3 0=380",)
    shown = model.editor_state(frame)
    assert shown.io[0][0] == 0x380
    text = "\n".join(line.text for line in editor_lines(shown, frame, 120, 40))
    assert "▸ □ I/O" in text
    assert "600 → 380" in text
    for action in ("bandwidth", "remove"):
        model.acts[action](1)
        assert model.message == snapshot
    model.acts["alike"](0)
    assert model.draft.target[Cell("io_cbm", "", "L3", 1)] == "380"
    model.acts["reset"](0)
    assert not model.draft.changed


def test_ways_of_io_that_are_not_set_are_no_row() -> None:
    model = new_model()
    model.see(FRAMES[False])
    assert model.editor_state(FRAMES[False]).io_row is None
    for _ in range(9):
        model.acts["class"](-1)
    assert model.selection.group != IO_GROUP
