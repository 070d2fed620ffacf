"""The Cache screen's lines: ways and whose they are, classes, changes and verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.cache.changes import ObservedClasses, step_changes
from nftop.derive.compare.verdict import last_verdict
from nftop.derive.cpu_filter import only_cpus
from nftop.model.change import Cell, Change, Noticed, OwnChange
from nftop.model.frame import CacheClass, Frame, SourceState
from nftop.model.ids import Cpu, L3Domain
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import (
    ROOT,
    CacheDomain,
    IoWays,
    L2Mask,
    Limits,
    Metered,
    MonitoringGroup,
    ResctrlTable,
)
from nftop.model.sample import SourceReading
from nftop.render.base.line import Line
from nftop.render.cache.detail import Trends, budget_line, class_lines
from nftop.render.cache.page import page, upper
from nftop.render.frame.changes import author, texts
from tests.frames import HOSTILE, REASONS, SECOND_NS, frame
from tests.rdt import DOMAINS, MIB, SIZE, frame_of, group, in_cache, table, values
from tests.sources.resctrl.trees import captured, read, write
from tests.story import Story

WHY = Missing(Reason.ERROR, "here is what to do")
MOCK_UP = frame_of(table(0), table(2_000_000_000))


def flat(*_: object) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.full(20, 9 * MIB, np.float32)


def detail(shown: Frame, name: str, width: int = 120, created: tuple[OwnChange, ...] = ()) -> str:
    lines = class_lines(shown, (name, L3Domain(0)), width, Trends(flat, 1.0), created)
    return "\n".join(line.text for line in lines)


def rows(shown: Frame, width: int = 120, *, folded: bool = True) -> list[str]:
    result = upper(shown, width, (), folded=folded)
    return [line.text for line in (result.header, *result.lines)]


def row_of(shown: Frame, name: str, width: int = 120) -> str:
    return next(text for text in rows(shown, width) if f" {name} " in text)


def changed(*tables: ResctrlTable) -> Frame:
    """A frame that has noticed what these readings have different."""
    state = ObservedClasses()
    for second, item in enumerate(tables, start=1):
        reading = SourceReading(item, second * SECOND_NS, 0)
        state = step_changes(state, reading, (), second * SECOND_NS)
    return replace(frame_of(*tables), noticed=state.noticed)


# Ways


def test_every_way_names_its_owner_too(snapshot: SnapshotAssertion) -> None:
    domain = replace(DOMAINS[0], io=IoWays(Cbm(0x600, 12), "register"))
    groups = (
        group("a", 1, (1,), in_cache(0, 0x70F)),
        group("b", 2, (2,), in_cache(0, 0x407)),
        replace(group("c", 3, (3,), in_cache(0, 0x0F0)), mode="exclusive"),
    )
    shown = frame_of(table(groups=groups, domains=(domain,)))
    cells = {
        text.split()[2]: text.split()[3]
        for text in rows(shown)
        if text.startswith("COS") and "■" in text
    }
    assert cells == {"a": ".xi#....#ooo", "b": ".x.......ooo", "c": "....EEEE...."}
    [io] = [text for text in rows(shown) if text.startswith("I/O")]
    assert io.split()[1:3] == [".II.........", "600"]
    assert io == snapshot
    [free] = [text for text in rows(shown) if text.startswith("no class")]
    assert free.split()[2:4] == ["u...........", "800"] and "4.0 MiB unused" in free


@pytest.mark.parametrize(
    ("io", "printed"),
    [
        (IoWays(Cbm(0xC00, 12), "register"), "8.0 MiB, devices only"),
        (IoWays(Cbm(0x600, 12), "register"), "8.0 MiB, in part of devices"),
        (IoWays(Cbm(0x003, 12), "register"), "8.0 MiB unused"),
        (Missing(Reason.SOURCE, "no register tells"), "8.0 MiB"),
    ],
)
def test_ways_of_no_class_are_unused_where_no_device_has_them(
    io: IoWays | Missing, printed: str
) -> None:
    domain = replace(DOMAINS[0], io=io)
    groups = (group("a", 1, (1,), in_cache(0, 0x3FF)),)
    shown = frame_of(table(groups=groups, domains=(domain,)))
    [free] = [text for text in rows(shown) if text.startswith("no class")]
    assert free.split("c00")[1].strip() == printed


def test_the_size_of_a_way_has_digits_enough_to_be_multiplied() -> None:
    for ways, size, reports in ((12, 3 * MIB, "0.25"), (11, 16 * MIB, "1.45"), (12, 48 * MIB, "4")):
        domain = replace(DOMAINS[0], ways=ways, size_bytes=size)
        shown = frame_of(table(groups=(group("a", 1, (1,), in_cache(0, 1)),), domains=(domain,)))
        assert any(f"{ways} ways of {reports} MiB" in text for text in rows(shown))


def test_code_has_ways_of_its_own() -> None:
    split = in_cache(0, 0x0F0, code=Cbm(0x00F, 12))
    shown = frame_of(table(groups=(group("a", 1, (1,), split),), domains=DOMAINS[:1]))
    [data, code] = [text for text in rows(shown) if "####" in text]
    assert "■ a     ....####...." in data and "  code  ........####" in code
    assert " code    ........#### 00f, 16.0 MiB" in detail(shown, "a")


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_columns_are_placed_while_the_width_suffices(width: int) -> None:
    header, *_ = rows(MOCK_UP, width)
    widths = {
        "MiB USED/CAP": 80,
        "MB/s": 80,
        "LIMIT": 80,
        "NF, CPU": 80,
        "ALONE": 100,
        "OTHERS": 100,
        "local": 120,
        "CHANGED": 200,
        "OWNER": 200,
    }
    for title, least in widths.items():
        assert (title in header) == (width >= least), title
    assert max(map(len, rows(MOCK_UP, width))) <= width


def test_sizes_rates_and_running_programs() -> None:
    text = row_of(MOCK_UP, "vpp", 100)
    assert "15.8/16.0  full" in text and text.rstrip().endswith("fwd 1")
    alone, others = text.split("full")[1].split()[:2]
    assert (alone, others) == ("12.0", "4.0"), "three ways of its own, one with ovs"
    assert "CPU 0,4-5" in row_of(MOCK_UP, "default")


def test_cpus_of_a_class_are_named_though_a_cpu_list_hides_them() -> None:
    shown = frame_of(table(groups=(group(ROOT, 0, (0, 4, 5), in_cache(0, 0xF)),)))
    few = only_cpus(shown, {0})
    named = [row_of(item, "default").split()[-2:] for item in (shown, few)]
    assert named == [["CPU", "0,4-5"]] * 2


def test_classes_nobody_uses_are_folded_until_they_are_requested() -> None:
    groups = (
        *table().groups,
        *(group(f"COS{n}", n, (), in_cache(0, 0xFFF), in_cache(1, 0xFFF)) for n in range(3, 9)),
    )
    shown = frame_of(table(groups=groups))
    assert sum("+ 6 classes without CPUs" in text for text in rows(shown)) == 2
    assert not any(text.startswith("COS7") for text in rows(shown))
    assert sum(text.startswith("COS7") for text in rows(shown, folded=False)) == 2


def test_a_mask_that_shrank_drains_and_one_that_did_not_is_over(
    snapshot: SnapshotAssertion,
) -> None:
    def reading(bits: int, used: float) -> ResctrlTable:
        mine = in_cache(0, bits, int(used * MIB))
        return table(groups=(group("vpp", 1, (1,), mine),), domains=DOMAINS[:1])

    assert " drain " in row_of(changed(reading(0xF0, 15), reading(0x30, 15)), "vpp")
    assert " over " in row_of(changed(reading(0x30, 8), reading(0x30, 15)), "vpp")
    grown = changed(reading(0x30, 8), reading(0xF0, 8))
    assert " drain " not in row_of(grown, "vpp")
    assert detail(changed(reading(0xF0, 15), reading(0x30, 15)), "vpp") == snapshot


# Changes


ALL = in_cache(0, 0xFFF)
MOVED = changed(
    table(groups=(group(ROOT, 0, (0, 2), ALL), group("vpp", 1, (1,), in_cache(0, 0xF0)))),
    table(groups=(group(ROOT, 0, (0,), ALL), group("vpp", 1, (1, 2), in_cache(0, 0x3F0, mba=50)))),
)


def test_what_somebody_else_changed_is_marked_with_when() -> None:
    text = row_of(MOVED, "vpp", 200)
    assert " !3f0 " in text and "00:00:02Z" in text
    assert "!" not in row_of(MOVED, "default"), "its CPUs are no mask"
    printed = "changed 00:00:02Z by another program: vpp L3 0 0f0 → 3f0, vpp MB 0 100 → 50"
    assert printed in detail(MOVED, "vpp")
    assert "CPU 2 default → vpp" in detail(MOVED, ROOT)


def test_what_nftop_changed_is_distinguished_from_it(snapshot: SnapshotAssertion) -> None:
    [noticed] = MOVED.noticed
    created = (OwnChange(noticed.changes, noticed.since_ns, noticed.at_ns),)
    result = upper(MOVED, 200, created, folded=True)
    assert any(" *3f0 " in line.text for line in result.lines)
    assert detail(MOVED, "vpp", created=created) == snapshot
    first = replace(created[0], changes=noticed.changes[:1])
    assert author(noticed, [first]) == snapshot


def test_changes_in_few_words() -> None:
    changes = (
        Change(Cell("group", "x"), None, "1"),
        Change(Cell("group", "y"), "1", None),
        Change(Cell("group", "z"), "1", "2"),
        *(Change(Cell("cpu", "", "", cpu), ROOT, "x") for cpu in (2, 3, 4)),
        Change(Cell("task", "", "7@1"), "x", ROOT),
        Change(Cell("task", "", "8@1"), "y", ROOT),
        Change(Cell("task", "", "9"), "y", ROOT),
    )
    assert texts(changes, {}) == [
        "class x created",
        "class y removed",
        "class z replaced",
        "CPU 2-4 default → x",
        "thread 7 x → default",
        "2 threads y → default",
    ]


# The class under the cursor


def test_all_facts_of_a_class(snapshot: SnapshotAssertion) -> None:
    metered = Metered(L3Domain(0), values(3 * MIB, 0, 0), SECOND_NS)
    monitor = MonitoringGroup("pqos-7-0", 9, 5, (Cpu(1),), (metered,))
    vpp = replace(
        table(10).groups[2],
        rmid=4,
        tasks=(7, 8),
        mode="exclusive",
        monitors=(monitor,),
        l2=(L2Mask(0, Cbm(0xF, 8)), L2Mask(1, Cbm(0xF, 8)), L2Mask(5, Cbm(0x3, 8))),
    )
    shown = frame_of(table(10, groups=(*table(10).groups[:2], vpp)))
    cpus = replace(
        shown.cpus,
        group=(
            *shown.cpus.group[:1],
            CacheClass("ovs", 2, of="task"),
            *shown.cpus.group[2:4],
            CacheClass("vpp", 1, of="task"),
            *shown.cpus.group[5:],
        ),
    )
    text = detail(replace(shown, cpus=cpus), "vpp")
    assert text == snapshot
    for printed in (
        "used    15.8 of 16.0 MiB",
        "0-10.0 MiB, 5 min",
        "ways    ....####.... 0f0, 16.0 MiB",
        "whose   alone 12.0 MiB (ways 4-6); with ovs 4.0 MiB (way 7)",
        "limit   100 %",
        "L2      0-1: ....#### 0f",
        "L2      5: ......## 03",
        "threads 2 by themselves",
        "CPU     1",
        "CPU 1: what polls there is in ovs",
        "CPU 4: another class' CPU",
        "meters  pqos-7-0: RMID 5, pqos's by its name, CPU 1, used 3.0 MiB, MBM [w]",
    ):
        assert printed in text, printed


def test_a_class_that_is_gone_has_no_row() -> None:
    assert detail(MOCK_UP, "nobody") == ""
    assert class_lines(MOCK_UP, ("vpp", L3Domain(7)), 80, Trends(flat, 1.0), ()) == []


def test_chosen_columns_of_the_available_ones(snapshot: SnapshotAssertion) -> None:
    limits = Limits(16, 176, 2, sparse=True, cdp=True, mba_least=10, mba_step=10)
    text = budget_line(limits, MOCK_UP.groups, 120).text
    assert text == snapshot
    assert budget_line(Limits(), (), 120).text == "COS 0; RMID 0"


# Absence


@pytest.mark.parametrize("reason", REASONS)
def test_an_absent_value_is_its_mark_and_its_reason_is_below(reason: Reason) -> None:
    why = Missing(reason, "here is what to do")
    bare = in_cache(0, 1, cbm=why, mba=why, values=values(why, why, why))
    domains = tuple(replace(domain, io=why) for domain in DOMAINS)
    shown = frame_of(table(groups=(group("vpp", None, (1,), bare),), domains=domains))
    text = row_of(shown, "vpp", 200).removeprefix("COS -")
    assert text.split().count(reason.mark) == 6
    assert sum(why.message in row for row in rows(shown, 200)) >= 2
    assert detail(shown, "vpp").count(why.message) == 5


def test_without_classes_it_reports_why(snapshot: SnapshotAssertion) -> None:
    shown = frame(8)
    assert rows(shown)[1] == snapshot
    state = SourceState(Reason.SOURCE, "resctrl is not mounted: mount it", 0.1, 0.1)
    shown = replace(shown, sources={"resctrl": state})
    assert rows(shown)[1] == snapshot


@pytest.mark.parametrize(
    ("name", "options", "printed"),
    [
        ("full", "rw", "goresctrl."),
        ("l2l3mb", "rw", "default          L2 0-39"),
        ("l2cdp", "rw,cdpl2", ", code ####################"),
        ("nol3.mbps", "rw,mba_MBps", "the kernel offers no allocation of this cache"),
        ("nomb.cdp", "rw,cdp", "  code"),
    ],
)
def test_real_trees_are_drawn(name: str, options: str, printed: str, tmp_path: Path) -> None:
    result = read(write(tmp_path, captured(name), options))
    shown = frame_of(result, result)
    assert any(printed in text for text in rows(shown, 200))
    for width in (40, 80, 200):
        assert max(map(len, rows(shown, width))) <= width
        for item in shown.groups:
            assert detail(shown, item.name, width)


def many(classes: int, caches: int) -> Frame:
    masks = [1 << at % 11 | 1 << (at % 11 + 1) for at in range(classes)]
    groups = tuple(
        group(
            ROOT if not at else f"COS{at}",
            at,
            (at,),
            *(in_cache(l3, mask, MIB * at) for l3 in range(caches)),
        )
        for at, mask in enumerate(masks)
    )
    domains = tuple(
        CacheDomain(L3Domain(l3), 12, SIZE, DOMAINS[0].io, parts=(2 * l3, 2 * l3 + 1))
        for l3 in range(caches)
    )
    return frame_of(table(groups=groups, domains=domains))


def test_fifteen_classes_in_eight_caches() -> None:
    shown = many(15, 8)
    result = upper(shown, 200, (), folded=True)
    assert len({key for key in result.rows if key}) == 15 * 8
    assert sum("together (SNC)" in line.text for line in result.lines) == 8


@pytest.mark.parametrize("name", HOSTILE)
def test_long_foreign_names_do_not_shift_columns(name: str) -> None:
    odd = group(name, 1, (1,), in_cache(0, 0xF0, MIB), in_cache(1, 0xF0))
    shown = frame_of(table(groups=(odd,)))
    noticed = Noticed(0, SECOND_NS, SECOND_NS, (Change(Cell("group", name), None, "1"),))
    lines: Iterator[Line] = iter(
        upper(replace(shown, noticed=(noticed,)), 100, (), folded=True).lines
    )
    for line in (*lines, *class_lines(shown, (name, L3Domain(0)), 100, Trends(flat, 1.0), ())):
        assert line.width <= 100
        assert line.text.isprintable()
    assert all(text.isprintable() for text in texts(noticed.changes, {}))


# The page and the card


def test_the_table_keeps_half_and_what_is_below_it_has_the_rest() -> None:
    result = upper(MOCK_UP, 80, (), folded=True)
    below = [[Line()] * 20]
    half = page(MOCK_UP, result, 80, 20, below)
    assert (len(half.fixed), half.room, len(half.lower)) == (2, 9, 9)
    tall = page(MOCK_UP, result, 80, 60, below)
    assert (tall.room, len(tall.lower)) == (38, 20)
    low = page(MOCK_UP, result, 80, 8, below)
    assert (low.room, low.lower) == (6, ())
    assert page(frame(8), upper(frame(8), 80, (), folded=True), 80, 3, []).fixed == ()


def test_a_verdict_needs_a_change() -> None:
    story = Story()
    shown = replace(story.last(20), noticed=())
    assert last_verdict(story.history.window(shown)) is None
