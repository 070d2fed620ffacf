"""The panel of cache classes, and the column of them in the table of CPUs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.frame import CacheClass, Frame
from nftop.model.ids import L3Domain
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ROOT, IoWays
from nftop.render.base.line import Tone, class_tone
from nftop.render.cache.table import cache_lines
from nftop.render.cores.columns import columns_for
from nftop.render.cores.detail import Trend, detail_lines
from nftop.render.cores.rows import CpuView
from nftop.render.cores.table import table_lines
from nftop.render.pages.batch_text import frame_text
from nftop.render.pages.help import help_lines, mark_sections, reference_sections
from tests.command import lines_with
from tests.frames import HOSTILE, REASONS, frame
from tests.rdt import DOMAINS, MIB, frame_of, group, in_cache, table, values
from tests.sim.hosts import Frozen, S

MOCK_UP = frame_of(table(0), table(1_234_000_000))


def texts(shown: Frame, width: int) -> list[str]:
    return [line.text for line in cache_lines(shown, width)]


@pytest.mark.parametrize("width", [80, 160])
def test_panel(width: int, snapshot: SnapshotAssertion) -> None:
    assert "\n".join(texts(MOCK_UP, width)) == snapshot


@pytest.mark.parametrize("width", [80, 160])
def test_panel_of_the_noisy_neighbour(width: int, snapshot: SnapshotAssertion) -> None:
    host = Frozen("noisy")
    host.tick(0)
    host.tick(119 * S)
    assert "\n".join(texts(host.tick(S), width)) == snapshot


def test_side_by_side_only_where_both_are_whole() -> None:
    headers = {width: texts(MOCK_UP, width)[0].count("CACHE") for width in (60, 80, 120, 124, 200)}
    assert headers == {60: 1, 80: 1, 120: 1, 124: 2, 200: 2}
    assert len(texts(MOCK_UP, 80)) == 2 * len(texts(MOCK_UP, 160))


@pytest.mark.parametrize("width", range(1, 240, 7))
def test_it_stays_within_its_width(width: int) -> None:
    names = (ROOT, *HOSTILE, "x" * 40)
    rows = tuple(
        group(name, at, (), in_cache(0, 0xFFF, 1 << 62), in_cache(1, 1))
        for at, name in enumerate(names)
    )
    wide = frame_of(table(groups=rows))
    for shown in (MOCK_UP, wide):
        lines = cache_lines(shown, width)
        assert all(line.width <= width for line in lines)


def row_of(shown: Frame, name: str) -> str:
    return next(text for text in texts(shown, 80) if f" {name} " in text)


@pytest.mark.parametrize(
    ("used_mib", "printed"), [(15.1, ""), (15.3, "full"), (16.5, "full"), (17.0, "over")]
)
def test_a_class_that_has_no_room_reports_it(used_mib: float, printed: str) -> None:
    one = table(groups=(group("vpp", 1, (), in_cache(0, 0xF0, int(used_mib * MIB))),))
    text = row_of(frame_of(one), "vpp")
    assert [word for word in ("full", "over") if word in text] == [printed] * bool(printed)


def test_every_way_that_two_may_fill_is_marked_for_both_with_code_and_data() -> None:
    first = group("a", 1, (), in_cache(0, 0x0F0, code=Cbm(0x00F, 12)))
    second = group("b", 2, (), in_cache(0, 0x300, code=Cbm(0x018, 12)))
    lines = texts(frame_of(table(groups=(first, second), domains=DOMAINS[:1])), 80)
    cells = [text[14:26] for text in lines[1:5]]
    assert cells == ["....###o....", "........o###", "..##........", ".......oo..."]


def test_a_class_alone_overlaps_nobody_and_no_class_is_no_panel() -> None:
    alone = frame_of(table(groups=(group(ROOT, 0, (), in_cache(0, 0xFFF)),)))
    assert "ii##########" in row_of(alone, "default")
    assert cache_lines(frame(8), 120) == []
    assert "CACHE" not in frame_text(frame(8), 120, True)
    assert "CACHE" in frame_text(MOCK_UP, 120, True)


def test_classes_that_are_not_in_use_are_counted(snapshot: SnapshotAssertion) -> None:
    """And overlap nobody: pqos makes all that there are, with every way."""
    why = Missing(Reason.UNDEFINED, "not limited")
    whole, free = in_cache(0, 0xFFF), in_cache(0, 0xFFF, mba=why)
    used = (
        group(ROOT, 0, (0,), in_cache(0, 0x00F)),
        group("cpus", 1, (1,), whole),
        replace(group("tasks", 2, (), whole), tasks=(7,)),
        group("ways", 3, (), in_cache(0, 0x0F0)),
        group("code", 4, (), in_cache(0, 0xFFF, code=Cbm(0xF, 12))),
        group("limit", 5, (), in_cache(0, 0xFFF, mba=90)),
        group("lines", 6, (), in_cache(0, 0xFFF, 1)),
    )
    both = frame_of(table(groups=(*used, group("a", 7, (), whole), group("b", 8, (), free))))
    lines = texts(both, 80)
    assert [text[6:14].strip() for text in lines if text.startswith("COS")] == [
        "default",
        *(item.name for item in used[1:]),
    ]
    assert lines[-2] == snapshot
    one = texts(frame_of(table(groups=(used[0], group("a", 7, (), whole)))), 80)
    assert one[1].startswith("COS0  default  ........####")
    assert "+ 1 class without CPUs" in one[2] and one[3].startswith("I/O")
    for reason, printed in ((Reason.STALE, "COS7  a"), (Reason.HARDWARE, "+ 1 class")):
        lost = in_cache(0, 1, cbm=Missing(reason), mba=why)
        lines = texts(frame_of(table(groups=(used[0], group("a", 7, (), lost)))), 80)
        assert lines[2].startswith(printed), "what is not known is not said to be unlimited"
    fast = texts(frame_of(table(groups=(group("x", 1, (), whole),), mba_unit="GBps/8")), 80)
    assert fast[1].startswith("COS1  x")


@pytest.mark.parametrize("reason", REASONS)
def test_an_absent_value_is_its_mark(reason: Reason) -> None:
    why = Missing(reason, "here is what to do")
    bare = in_cache(0, 1, cbm=why, mba=why, values=values(why, why, why))
    domains = tuple(replace(domain, ways=None, io=why) for domain in DOMAINS)
    shown = frame_of(table(groups=(group("vpp", None, (1,), bare),), domains=domains))
    lines = cache_lines(shown, 80)
    marks = "".join(span.text for span in lines[1].spans if span.tone is Tone.MISSING)
    assert "".join(marks.split()) == reason.mark * 4 and "COS -" in lines[1].text
    assert lines[2].text.split()[1] == reason.mark and why.detail in lines[2].text
    printed = f"MASK, CAP, USED, MBM, MBM.loc: {why.detail}"
    assert printed in frame_text(shown, 120, True)


def test_how_far_the_ways_of_io_are_known(snapshot: SnapshotAssertion) -> None:
    reports = IoWays(Cbm(0x003, 12), "register")
    shown = frame_of(table(domains=(replace(DOMAINS[0], l3=L3Domain(0), io=reports),), groups=()))
    assert cache_lines(shown, 80) == []
    both = (replace(DOMAINS[0], io=reports), DOMAINS[1])
    lines = [text for text in texts(frame_of(table(domains=both)), 80) if text.startswith("I/O")]
    assert "..........II" in lines[0]
    assert lines[0] == snapshot
    assert "II.........." in lines[1]
    assert lines[1] == snapshot


def test_the_column_is_present_where_a_class_is_known_and_wide_with_its_name() -> None:
    assert "group" not in [col.key for col in columns_for(200, frame(8).cpus)]
    assert "group" not in [col.key for col in columns_for(200)]
    narrow, wide = (table_lines(MOCK_UP.cpus, CpuView(), width) for width in (100, 160))
    for lines in (narrow, wide):
        at = lines[0].text.index("CLASS")
        assert [line.text[at:].split() for line in lines[1:4]] == [
            ["■", "vpp"],
            ["■", "vpp"],
            ["■", "ovs"],
        ]
    hues = [line.spans[-2].tone for line in wide[1:4]]
    assert hues == [class_tone(1), class_tone(1), class_tone(2)]


def test_a_class_of_unknown_number_goes_by_its_name_and_an_unknown_one_by_its_reason() -> None:
    why = Missing(Reason.UNDEFINED, "offline")
    cpus = frame_of(table(groups=(group("vpp", None, (1, 2)),))).cpus
    cpus = replace(cpus, group=(why, *cpus.group[1:]))
    lines = table_lines(cpus, CpuView(folded=False), 100)
    at = lines[0].text.index("CLASS")
    cells = {line.text[:5].strip(): line.text[at:].strip(" ■") for line in lines[1:]}
    assert (cells["0"], cells["1"], cells["2"]) == ("-", "vpp", "vpp")


def test_the_detail_of_a_cpu_names_its_class(snapshot: SnapshotAssertion) -> None:
    trend = Trend(cpu_metric("cpp"), np.zeros(20, np.float32), 60.0)
    text = "\n".join(line.text for line in detail_lines(MOCK_UP, 1, trend, 120, 12))
    assert "class vpp (COS1)" in text
    classes = (CacheClass("vm", None, of="task"),) * 8
    own = replace(MOCK_UP, cpus=replace(MOCK_UP.cpus, group=classes))
    text = "\n".join(line.text for line in detail_lines(own, 1, trend, 120, 12))
    assert lines_with(text, "class vm") == snapshot
    unknown = "\n".join(line.text for line in detail_lines(frame(8), 1, trend, 120, 12))
    assert "class" not in unknown


def test_rows_sort_by_class() -> None:
    lines = table_lines(MOCK_UP.cpus, CpuView(sort="group", folded=False), 160)
    at = lines[0].text.index("CLASS")
    pollers = [line.text[at:].strip(" ■") for line in lines[1:4]]
    assert pollers == ["vpp", "vpp", "ovs"]
    down = table_lines(MOCK_UP.cpus, CpuView(sort="group", inverted=True, folded=False), 160)
    assert down[1].text[at:].strip(" ■") == "ovs"


def test_help_reports_what_the_marks_are() -> None:
    whole = (*mark_sections(), *reference_sections())
    page = "\n".join(line.text for line in help_lines(whole, (), "", 100))
    assert "In the panel of cache classes" in page
    for mark in ("#", "o", "I", "full", "over"):
        assert f"\n{mark} " in page
    assert "\nUSED " in page
