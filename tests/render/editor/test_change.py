"""A proposal, and the classes, as text: safe, aligned, complete."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.control.journal_entry import Entry
from nftop.export.json.changes import change_json, classes_json
from nftop.model.change import Cell, Change, Proposal, ReasonCode, Refusal
from nftop.model.ids import Cpu, L3Domain
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import L2Mask, MonitoringGroup, ResctrlTable
from nftop.render.editor.change import classes, confirm_lines, drawn, limit, named, preview
from tests.rdt import table

CHANGES = (
    Change(Cell("group", "nftop.a"), None, ""),
    Change(Cell("monitor", "vpp", "nftop.m"), "7", None),
    Change(Cell("schemata", "vpp", "L3", 0), "f0", "3f0"),
    Change(Cell("schemata", "nftop.a", "L3", 0), None, "3"),
    Change(Cell("schemata", "vpp", "MB", 1), "100", "50"),
    Change(Cell("cpu", "", number=2), "/", "vpp"),
    Change(Cell("cpu", "", number=3), "/", "vpp"),
    Change(Cell("cpu", "", number=5), "vpp/nftop.m", "vpp"),
    *(Change(Cell("task", "", f"{tid}@1"), "/", "vpp") for tid in range(100, 112)),
)


def test_what_changes_is_drawn(snapshot: SnapshotAssertion) -> None:
    proposal = Proposal({}, CHANGES, ("an effect",), ("a warning",))
    assert preview(proposal, {"L3": 11}, "percent") == snapshot


def test_what_speaks_against_it_comes_first() -> None:
    refusal = Refusal(ReasonCode.GROUP_ABSENT, "no")
    proposal = Proposal({}, (), ("an effect",), refusals=(refusal,))
    assert preview(proposal, {}, "percent") == ["can't: no", "note: an effect"]


@given(st.text(min_size=1))
def test_names_never_reach_the_terminal_as_they_are(name: str) -> None:
    changes = (
        Change(Cell("group", name), None, ""),
        Change(Cell("schemata", name, "L3", 0), "1", "3"),
        Change(Cell("cpu", "", number=1), "/", name.replace("/", "")),
    )
    refusal = Refusal(ReasonCode.GROUP_NAME, name)
    proposal = Proposal({}, changes, (name,), (name,), (refusal,))
    for line in preview(proposal, {"L3": 4}, "percent"):
        assert line.isprintable()


def test_limits_have_their_unit() -> None:
    assert limit(50, "percent") == "50 %"
    assert limit(2000, "MBps") == "2000 MB/s"
    assert limit(0xFFFF_FFFF, "MBps") == limit(0xFFFF_FFFA, "MBps") == "no limit"
    assert limit(64, "GBps/8") == "64/8 GB/s"
    assert drawn(0b101, 4) == ".#.# 5"
    assert named("/m") == "default:m"


def odd() -> ResctrlTable:
    """With CDP, L2, a monitoring group, a hostile name, and I/O's ways unknown."""
    whole = table(0)
    first, second, *rest = whole.groups
    cdp = tuple(replace(cache, code=Cbm(3, 11), cbm=Cbm(0xC, 11)) for cache in second.caches)
    monitor = MonitoringGroup("m\x1b[2J", 9, None, (Cpu(1),), ())
    second = replace(
        second,
        name="a\x1b[2J",
        caches=cdp,
        l2=(L2Mask(4, Cbm(1, 8), Cbm(2, 8)),),
        monitors=(monitor,),
        mode="exclusive",
    )
    domains = tuple(replace(domain, io=Missing(Reason.SOURCE, "why")) for domain in whole.domains)
    return replace(whole, groups=(first, second, *rest), domains=domains)


def test_classes_are_shown_with_all_they_have() -> None:
    text = "\n".join(classes(odd()))
    assert all(line.isprintable() for line in text.splitlines())
    for word in (
        "ovs  (COS2)",
        "a?[2J",
        "exclusive",
        "L3CODE",
        "L3DATA",
        "L2CODE 4",
        "......#. 02",
        "metered as m?[2J: CPU 1",
        "I/O   L3 0  why",
    ):
        assert word in text, word
    assert "IIII" not in text
    assert "II" in "\n".join(classes(table(0)))


def test_classes_as_json() -> None:
    result = json.loads(classes_json(odd()))
    assert result["schema"] == "nftop.cat/1"
    group = result["groups"][1]
    assert group["name"] == "a\x1b[2J"
    assert group["l3"]["0"]["cbm"] == "00c"
    assert group["l3"]["0"]["code"] == "003"
    assert group["l2"] == {"4": {"cbm": "01", "code": "02"}}
    assert group["monitors"] == [{"name": "m\x1b[2J", "cpus": [1]}]
    assert result["domains"][0]["io"] is None
    assert result["domains"][0]["io_provenance"] == "why"
    assert L3Domain(0) in {item["l3"] for item in result["domains"]}


def test_a_change_as_json() -> None:
    entry = Entry(3, "now", "boot", "me", "nftop cat", CHANGES[:6], (1,), "kept")
    result = json.loads(change_json(entry))
    assert (result["number"], result["outcome"], result["undoes"]) == (3, "kept", [1])
    assert result["changes"][2] == {
        "kind": "schemata",
        "old": "f0",
        "new": "3f0",
        "group": "vpp",
        "resource": "L3",
        "domain": 0,
    }
    assert result["changes"][5] == {
        "kind": "cpu",
        "cpu": 2,
        "old": {"group": "/", "monitor": None},
        "new": {"group": "vpp", "monitor": None},
    }


def test_a_command_is_one_whatever_is_in_it_and_several_are_called_so(
    snapshot: SnapshotAssertion,
) -> None:
    one = "nftop cat import 'a; b.toml'"
    for commands in ((one,), (one, "nftop undo")):
        lines, _ = confirm_lines(
            Proposal({}, CHANGES, commands=commands),
            (),
            80,
            ways={"L3": 4},
            unit="percent",
            obstacle="",
            keep_within_s=60.0,
        )
        shown = [line.text.rstrip() for line in lines]
        assert [item for item in shown if item[:1] == "$"] == [f"$        {c}" for c in commands]
        assert shown == snapshot


def test_a_class_of_the_hardware_is_nobodys_whatever_it_is_called() -> None:
    group = replace(odd().groups[0], name="COS3", clos=3)
    for inode, lead, owner in (
        (103, "  (COS3, pqos's by its name", "pqos"),
        (3, "  (COS3", None),
    ):
        shown = ResctrlTable((replace(group, inode=inode),), ())
        assert classes(shown)[0].startswith(f"COS3{lead}")
        assert ("by its name" in "\n".join(classes(shown))) == (owner is not None)
        assert json.loads(classes_json(shown, simulated=False))["groups"][0]["owner"] == owner
