"""What a frame tells of classes against a state: only what both know can be different."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nftop.control.resctrl.draft import drifted, frame_state
from nftop.model.change import Cell
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import L2Mask
from tests.frames import frame
from tests.ui.gates import frame_at, open_gate


@pytest.mark.parametrize("options", [(), ("cdp",)])
def test_a_frame_of_a_state_agrees_with_it(options: tuple[str, ...]) -> None:
    state = open_gate("7.2", *options).host.state()
    shown = frame_at(state)
    assert drifted(state, shown) == ()
    comparable = {cell for cell in state if cell.kind in ("group", "schemata", "cpu")}
    assert frame_state(shown).keys() == comparable


def test_every_kind_of_change_is_seen() -> None:
    host = open_gate().host
    before = host.state()
    for write, path in (
        ("L3:0=3", "/vpp/schemata"),
        ("MB:1=50", "/ovs/schemata"),
        ("1-2,5", "/vpp/cpus_list"),
    ):
        host.lab.echo(write, path)
    host.lab.rmdir("/nftop.batch")
    host.lab.mkdir("/theirs")
    seen = {
        change.cell: (change.old, change.new) for change in drifted(before, frame_at(host.state()))
    }
    assert seen[Cell("schemata", "vpp", "L3", 0)] == ("f0", "3")
    assert seen[Cell("schemata", "ovs", "MB", 1)] == ("100", "50")
    assert seen[Cell("cpu", "", number=5)] == ("/", "vpp")
    assert seen[Cell("group", "nftop.batch")] == ("", None)
    assert seen[Cell("group", "theirs")] == (None, "")
    assert len(seen) == 6, "CPU 7 is in the root group now"


def test_what_a_frame_does_not_report_is_not_different() -> None:
    state = open_gate().host.state()
    assert drifted(state, frame(8)) == ()
    why = Missing(Reason.STALE, "too old")
    shown = frame_at(state)
    groups = tuple(
        replace(group, caches=tuple(replace(cache, cbm=why, mba=why) for cache in group.caches))
        for group in shown.groups
    )
    assert drifted(state, replace(shown, groups=groups)) == ()


def test_second_level_caches_are_compared() -> None:
    lines = (("vpp", "L2DATA"), ("vpp", "L2CODE"), ("ovs", "L2"))
    second = {Cell("schemata", group, name, 3): "f" for group, name in lines}
    state = {**open_gate().host.state(), **second}
    shown = frame_at({cell: value for cell, value in state.items() if cell.name[:2] != "L2"})
    l2 = {"vpp": L2Mask(3, Cbm(0xF, 8), Cbm(0x3, 8)), "ovs": L2Mask(3, Cbm(0x1, 8))}
    groups = tuple(
        replace(group, l2=(l2[group.name],)) if group.name in l2 else group
        for group in shown.groups
    )
    changes = drifted(state, replace(shown, groups=groups))
    assert {(change.cell.group, change.cell.name, change.new) for change in changes} == {
        ("vpp", "L2CODE", "3"),
        ("ovs", "L2", "1"),
    }
