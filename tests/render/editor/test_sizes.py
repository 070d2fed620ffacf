"""The editor at every size, for hosts of many ways, classes and caches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nftop.control.backend import CLASSES
from nftop.control.rdt_limits import LimitRule, MaskRule, Rules
from nftop.control.resctrl import draft as drafts
from nftop.control.simulated import simulated_gates
from nftop.model.change import Cell, State
from nftop.model.frame import Frame
from nftop.model.ids import L3Domain
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.rdt import CacheDomain
from nftop.render.base.line import line
from nftop.render.base.text import ascii_only
from nftop.render.editor.page import editor_lines
from nftop.ui.editor_model import EditorModel
from tests.rdt import MIB
from tests.sim.hosts import Frozen, S
from tests.ui.gates import frame_at, open_gate

SIZES = [(40, 8), (80, 24), (120, 36), (200, 50), (400, 100)]
CDP = open_gate("7.2", "cdp").host


def state_of(ways: int, classes: int, caches: int) -> State:
    """Classes of two ways each, side by side as far as they fit; MBA in every cache."""
    cells: dict[Cell, str] = {}
    for at, name in enumerate(["/", *(f"tenant-{at:02}" for at in range(1, classes))]):
        cells[Cell("mode", name)] = "exclusive" if at == 1 else "shareable"
        if at:
            cells[Cell("group", name)] = str(at)
        for l3 in range(caches):
            cells[Cell("schemata", name, "L3", l3)] = f"{3 << at % (ways - 1):x}"
            cells[Cell("schemata", name, "MB", l3)] = "100"
    for cpu in range(8):
        cells[Cell("cpu", "", number=cpu)] = "/" if cpu < 4 else "tenant-01"
    return cells


def host(ways: int, classes: int, caches: int) -> tuple[EditorModel, Frame]:
    state = state_of(ways, classes, caches)
    masks = {"L3": MaskRule(ways, 1, sparse=False, shareable=0)}
    rules = Rules(masks, LimitRule(10, 10, 100), io={0: (3 << ways - 2, "cpuid")})
    base = frame_at(open_gate().host.state())
    why = Missing(Reason.SOURCE, "no register here")
    domains = tuple(CacheDomain(L3Domain(l3), ways, 2 * ways * MIB, why) for l3 in range(caches))
    frame = replace(base, domains=domains, groups=())
    return EditorModel(state, rules, "/sys/fs/resctrl", "nftop", read_at_ns=0), frame


def cdp() -> tuple[EditorModel, Frame]:
    state = CDP.state()
    model = EditorModel(state, CDP.rules(), "/sys/fs/resctrl", "nftop", read_at_ns=0)
    return model, frame_at(state)


def drawn(model: EditorModel, frame: Frame, size: tuple[int, int], locked: str = "") -> list[str]:
    width, height = size
    editor = model.editor_state(frame, locked=locked)
    card = [line(f"verdict {at}") for at in range(30)]
    graph = [line("graph")] * 6
    lines = editor_lines(editor, frame, width, height, card=card, graph=lambda _: graph)
    assert len(lines) <= height
    assert max(item.width for item in lines) <= width
    return [item.text for item in lines]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("ways", [4, 11, 12, 16, 20])
@pytest.mark.parametrize(("classes", "caches"), [(2, 1), (5, 2), (16, 8)])
def test_the_selected_mask_and_way_are_on_every_screen(
    ways: int, classes: int, caches: int, size: tuple[int, int]
) -> None:
    model, frame = host(ways, classes, caches)
    model.see(frame)
    for _ in range(classes + 1):
        texts = drawn(model, frame, size)
        [row] = [text for text in texts if text.startswith("▸ ■ ")]
        name = "default" if model.selection.group == "/" else model.selection.group
        assert row[4:].startswith(name[:4]) and name[-2:] in row[4:].split()[0]
        mask = drafts.mask(model.draft, model.selection.group, "L3", 0)
        assert f" {mask:0{-(-ways // 4)}x}" in row, "the mask is whole"
        assert any("▲" in text or "▼" in text for text in texts), "the selected way has a column"
        model.acts["class"](1)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_drafts_mask_is_whole_too(size: tuple[int, int]) -> None:
    model, frame = host(20, 16, 8)
    model.see(frame)
    model.acts["class"](6)
    model.acts["grow"](1)
    [row] = [text for text in drawn(model, frame, size) if text.startswith("▸")]
    assert " 000e0" in row
    assert ("000c0 → " in row) == (size[0] > 40)


@pytest.mark.parametrize("culprit", [False, True])
def test_every_class_has_its_users_and_what_it_takes_now(culprit: bool) -> None:
    host = Frozen("noisy", cpus=80, traffic=None, processor="gold-6230n")
    frames = [host.tick(0), *(host.tick(S) for _ in range(75 if culprit else 2))]
    classes = simulated_gates(host.simulated.world).gates[CLASSES].host
    model = EditorModel(
        classes.state(), classes.rules(), "/sys/fs/resctrl", "nftop", read_at_ns=0, group="tenant"
    )
    model.see(frames[-1])
    texts = [
        item.text for item in editor_lines(model.editor_state(frames[-1]), frames[-1], 120, 36)
    ]
    rows = {text[4:].split()[0]: text for text in texts if text[2:4] == "■ "}
    assert "  GB/s  MBA CPUS" in next(text for text in texts if " CLASS" in text)
    assert rows.keys() == {"default", "vpp", "switch", "tenant"}
    assert "others" in rows["default"] and "ovs-vswitchd +1" in rows["switch"]
    assert ("vm neighbour" if culprit else "others") in rows["tenant"]
    assert ("53.0 100%" in rows["tenant"]) == culprit


@pytest.mark.parametrize("size", SIZES[1:], ids=lambda size: f"{size[0]}x{size[1]}")
def test_numbers_of_ways_are_above_their_column(size: tuple[int, int]) -> None:
    model, frame = host(20, 5, 2)
    model.see(frame)
    texts = drawn(model, frame, size)
    head = next(at for at, text in enumerate(texts) if " CLASS" in text)
    narrow = size[0] < 200  # narrow cells leave room for traffic and cost
    assert ("1 1 1 1 1 1 1 1 1 1" in texts[head - 1]) == narrow
    assert ("19 18 17" in texts[head]) == (not narrow)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_code_and_data_read_only_and_ascii(size: tuple[int, int]) -> None:
    model, frame = cdp()
    model.see(frame)
    model.acts["class"](1)
    model.acts["grow"](1)
    texts = drawn(model, frame, size, locked="read-only: no --rw")
    for text in texts:
        assert ascii_only(text).isascii() and len(ascii_only(text)) == len(text)
    if size[1] > 8:
        assert any("code" in text for text in texts)
        assert any("read-only" in text for text in texts)


def test_a_cache_that_went_offline_is_not_offered() -> None:
    model, frame = host(11, 3, 2)
    model.see(frame)
    model.acts["domain"](1)
    assert model.selection.domain == 1
    gone = {
        cell: value
        for cell, value in model.draft.base.items()
        if not (cell.kind == "schemata" and cell.number == 1)
    }
    model.reload(gone, model.draft.rules, 0)
    model.see(frame)
    assert model.selection.domain == 0
    assert drawn(model, frame, (80, 24))


@pytest.mark.parametrize("size", SIZES[1:], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("ways", [11, 20])
def test_a_class_names_its_network_function_whole_and_counts_the_others(
    ways: int, size: tuple[int, int]
) -> None:
    model, frame = host(ways, 5, 2)
    names = ("ovs-vswitchd", "north/l3fwd")
    cpus = replace(frame.cpus, nf=(None,) * 4 + names * 2)
    model.see(frame)
    texts = drawn(model, replace(frame, cpus=cpus), size)
    [row] = [text for text in texts if "■ tenant-01" in text]
    listed = f"{row} ".partition(names[0])[2]
    assert listed.startswith((" +1 ", f", {names[1]} ")), row


def test_twenty_ways_leave_room_for_traffic_and_cost() -> None:
    host = Frozen("noisy", traffic=None)
    frames = [host.tick(0), *(host.tick(S) for _ in range(75))]
    classes = simulated_gates(host.simulated.world).gates[CLASSES].host
    model = EditorModel(
        classes.state(), classes.rules(), "/sys/fs/resctrl", "nftop", read_at_ns=0, group="tenant"
    )
    model.see(frames[-1])
    assert model.editor_state(frames[-1]).rule.ways == 20
    texts = [
        item.text for item in editor_lines(model.editor_state(frames[-1]), frames[-1], 120, 36)
    ]
    [head] = [text for text in texts if " CLASS" in text]
    at = head.index(" GB/s ")
    assert " CPP" in head[at:]
    [row] = [text for text in texts if text.startswith("▸ ■ tenant")]
    assert row[at : at + 6].strip() == "48.0" and "vm neighbour" in row
