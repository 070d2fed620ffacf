"""Changes of cache classes, noticed by whoever made them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nftop.derive.cache.changes import (
    MOST,
    TOGETHER_NS,
    ObservedClasses,
    groups_in,
    is_own_change,
    step_changes,
    together,
)
from nftop.derive.threads import ThreadRate
from nftop.model.change import Cell, Change, Noticed, OwnChange
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ROOT, IoOrigin, IoWays, L2Mask, Limits, ResctrlTable
from nftop.model.sample import SourceReading
from tests import samples
from tests.rdt import DOMAINS, WAYS, group, in_cache, table

S = 1_000_000_000
FIRST = table(
    groups=(group(ROOT, 0, (0, 3), in_cache(0, 0xFFF)), group("vpp", 1, (1, 2), in_cache(0, 0x0F0)))
)


def read(
    *tables: ResctrlTable | Missing, threads: Mapping[int, int] | None = None
) -> ObservedClasses:
    """After readings a second apart; `threads` are watched all the time, with their start."""
    state = ObservedClasses()
    for second, item in enumerate(tables, start=1):
        state = observe(state, item, second, threads or {})
    return state


def observe(
    state: ObservedClasses, one: ResctrlTable | Missing, second: int, threads: Mapping[int, int]
) -> ObservedClasses:
    watched = [thread(tid, start) for tid, start in threads.items()]
    return step_changes(state, SourceReading(one, second * S, 0), watched, second * S + 1)


def thread(tid: int, start: int) -> ThreadRate:
    row = samples.thread(
        pid=tid, tid=tid, start_ticks=start, comm="w", program="w", role="", role_index=None
    )
    return ThreadRate(row, 1.0, 0.0, polls=True)


def with_vpp(**changes: Any) -> ResctrlTable:
    root, vpp = FIRST.groups
    return replace(FIRST, groups=(root, replace(vpp, **changes)))


def result(*tables: ResctrlTable | Missing, **options: Any) -> list[Change]:
    return [change for item in read(*tables, **options).noticed for change in item.changes]


def schemata(name: str, number: int, old: str, new: str) -> Change:
    return Change(Cell("schemata", "vpp", name, number), old, new)


def test_a_mask_and_a_limit() -> None:
    after = with_vpp(caches=(in_cache(0, 0x3F0, mba=50),))
    assert result(FIRST, after) == [schemata("L3", 0, "f0", "3f0"), schemata("MB", 0, "100", "50")]
    assert result(FIRST, FIRST) == []
    [noticed] = read(FIRST, after).noticed
    assert (noticed.since_ns, noticed.at_ns, noticed.wall_ns) == (S, 2 * S, 2 * S + 1)


def test_code_and_second_level_caches() -> None:
    cdp = with_vpp(
        caches=(in_cache(0, 0x0F0, code=Cbm(0xF, 12)),), l2=(L2Mask(3, Cbm(1, 8), Cbm(2, 8)),)
    )
    after = with_vpp(
        caches=(in_cache(0, 0x0F0, code=Cbm(0x1F, 12)),), l2=(L2Mask(3, Cbm(3, 8), Cbm(4, 8)),)
    )
    assert result(cdp, after) == [
        schemata("L2CODE", 3, "2", "4"),
        schemata("L2DATA", 3, "1", "3"),
        schemata("L3CODE", 0, "f", "1f"),
    ]
    [alone] = result(with_vpp(l2=(L2Mask(3, Cbm(1, 8)),)), with_vpp(l2=(L2Mask(3, Cbm(3, 8)),)))
    assert alone == schemata("L2", 3, "1", "3")


def test_cpus_are_in_one_group_and_the_root_group_yields() -> None:
    root, vpp = FIRST.groups
    torn = replace(FIRST, groups=(replace(root, cpus=(Cpu(0), Cpu(2), Cpu(3))), vpp))
    assert result(FIRST, torn, FIRST) == [], "while a CPU moves two files may have it"
    lost = replace(FIRST, groups=(root, replace(vpp, cpus=(Cpu(1),))))
    moved = replace(lost, groups=(replace(root, cpus=(Cpu(0), Cpu(2), Cpu(3))), lost.groups[1]))
    assert result(FIRST, lost) == [], "or none"
    assert result(FIRST, lost, moved) == [Change(Cell("cpu", "", "", 2), "vpp", ROOT)]


def test_groups_come_and_go_with_all_that_is_theirs() -> None:
    more = replace(FIRST, groups=(*FIRST.groups, group("ovs", 2, (), in_cache(0, 0x300))))
    cell = Cell("group", "ovs")
    assert result(FIRST, more) == [Change(cell, None, "102")]
    assert result(more, FIRST) == [Change(cell, "102", None)]
    wider = replace(more.groups[2], inode=9, caches=(in_cache(0, 0x700),))
    anew = replace(more, groups=(*more.groups[:2], wider))
    assert result(more, anew)[0] == Change(cell, "102", "9")
    assert result(more, FIRST, anew)[-1] == Change(cell, None, "9"), "nothing of the first is kept"


def test_what_can_not_be_read_is_no_change_and_what_was_before_it_counts() -> None:
    why = Missing(Reason.ERROR, "schemata: EIO")
    lost = with_vpp(caches=(in_cache(0, 0, cbm=why, mba=why),))
    after = with_vpp(caches=(in_cache(0, 0x3F0),))
    assert result(FIRST, lost, FIRST) == []
    assert result(FIRST, lost, after) == [schemata("L3", 0, "f0", "3f0")]


def test_an_absence_is_compared_across_only_where_it_was_late() -> None:
    after = with_vpp(caches=(in_cache(0, 0x3F0),))
    late = read(FIRST, Missing(Reason.STALE), after)
    assert [(item.since_ns, item.at_ns) for item in late.noticed] == [(S, 3 * S)]
    assert result(FIRST, Missing(Reason.SOURCE, "not mounted"), after) == []
    known = read(FIRST, after)
    gone = observe(known, Missing(Reason.SOURCE), 3, {})
    assert gone.noticed == known.noticed, "what was noticed stays"
    assert step_changes(known, None, (), 0).noticed == known.noticed


def test_a_reading_is_compared_once() -> None:
    state = read(FIRST, with_vpp(caches=(in_cache(0, 0x3F0),)))
    assert observe(state, FIRST, 2, {}) is state


def test_threads_that_are_watched_or_go_from_group_to_group() -> None:
    in_vpp = with_vpp(tasks=(7, 8))
    task = Cell("task", "", "7@70")
    assert result(FIRST, in_vpp, threads={7: 70}) == [Change(task, ROOT, "vpp")]
    assert result(in_vpp, FIRST, threads={7: 70}) == [Change(task, "vpp", ROOT)]
    assert result(FIRST, in_vpp) == [], "they may have begun there"
    ovs = group("ovs", 2, (), in_cache(0, 0x300))
    both = replace(in_vpp, groups=(*in_vpp.groups, ovs))
    other = replace(both, groups=(*FIRST.groups, replace(ovs, tasks=(8,))))
    assert result(both, other) == [Change(Cell("task", "", "8"), "vpp", "ovs")]


def test_another_thread_of_the_same_number_has_not_moved() -> None:
    state = observe(ObservedClasses(), FIRST, 1, {7: 70})
    state = observe(state, with_vpp(tasks=(7,)), 2, {7: 99})
    assert state.noticed == ()


def test_the_last_are_remembered() -> None:
    masks = [with_vpp(caches=(in_cache(0, 0x0F0 if odd % 2 else 0x3F0),)) for odd in range(90)]
    noticed = read(*masks).noticed
    assert len(noticed) == MOST
    assert noticed[-1].at_ns == 90 * S


def test_what_follows_at_once_is_one_change() -> None:
    def at(since_s: float, at_s: float, new: str) -> Noticed:
        change = schemata("L3", 0, "f0", new)
        return Noticed(round(since_s * S), round(at_s * S), round(at_s), (change,))

    gap_s = TOGETHER_NS / S
    first, second, third = at(1, 2, "1"), at(2, 3, "2"), at(3 + gap_s + 1, 9, "3")
    joined, alone = together((first, second, third))
    assert (joined.since_ns, joined.at_ns, joined.wall_ns) == (S, 3 * S, 3)
    assert [change.new for change in joined.changes] == ["1", "2"]
    assert alone == third
    assert together(()) == ()


def test_which_groups_it_is_about() -> None:
    changes = (
        schemata("L3", 0, "f0", "3f0"),
        Change(Cell("cpu", "", "", 3), "/m", "ovs"),
        Change(Cell("task", "", "7@1"), "ovs/m", None),
    )
    assert groups_in(changes) == ("vpp", ROOT, "ovs")


def test_what_nftop_created_is_distinguished_from_what_others_did() -> None:
    cpu, created_class = Cell("cpu", "", "", 3), Cell("group", "nftop.x")
    ours = (
        schemata("L3", 0, "f0", "3f0"),
        Change(cpu, "/m", "vpp/m"),
        Change(created_class, None, ""),
        Change(Cell("schemata", "nftop.x", "L3", 0), None, "3"),
    )
    back = tuple(Change(our.cell, our.new, our.old) for our in ours)
    created = (OwnChange(ours, 100 * S, 101 * S), OwnChange(back, 160 * S, 161 * S))

    def is_ours(change: Change, since_s: int, at_s: int) -> bool:
        return is_own_change(change, Noticed(since_s * S, at_s * S, 0, (change,)), created)

    for written, at_s in ((ours, 100), (back, 160)):
        assert all(is_ours(item, at_s, at_s + 1) for item in written)
        assert all(is_ours(item, at_s - 90, at_s + 1) for item in written), "a late reading"
        assert not any(is_ours(entry, at_s + 9, at_s + 10) for entry in written), (
            "or somebody again"
        )
        assert not any(is_ours(element, at_s - 10, at_s - 9) for element in written)
    assert not any(is_ours(our, 160, 161) for our in ours), "nor the other way round"
    assert not any(is_ours(entry, 100, 101) for entry in back)
    for other in (
        schemata("L3", 0, "f0", "ff0"),
        schemata("L3", 1, "f0", "3f0"),
        schemata("L3", 0, "7f0", "3f0"),
        Change(cpu, ROOT, "ovs"),
        Change(Cell("group", "x"), None, "77"),
    ):
        assert not is_ours(other, 100, 101)
    assert is_ours(Change(cpu, ROOT, "vpp"), 100, 101)
    assert is_ours(Change(created_class, None, "77"), 100, 101), "its inode is not known before"
    assert is_ours(Change(Cell("schemata", "nftop.x", "L3", 0), "fff", "3"), 100, 101)
    assert not is_ours(Change(Cell("schemata", "nftop.x", "L3", 0), "fff", "7"), 100, 101)


def test_two_of_nftops_changes_between_two_readings_are_its_own_too() -> None:
    steps = [schemata("L3", 0, "f0", "1f0"), schemata("L3", 0, "1f0", "3f0")]
    created = [OwnChange((step,), at * S, at * S) for at, step in enumerate(steps, start=5)]
    both = schemata("L3", 0, "f0", "3f0")
    assert is_own_change(both, Noticed(4 * S, 7 * S, 0, (both,)), created)
    assert not is_own_change(both, Noticed(4 * S, 7 * S, 0, (both,)), created[1:])


def of_io(bits: int, origin: IoOrigin, io_alloc: bool | None = None) -> ResctrlTable:
    io = IoWays(Cbm(bits, WAYS), origin)
    domains = tuple(replace(domain, io=io) for domain in DOMAINS)
    return replace(FIRST, domains=domains, limits=Limits(io_alloc=io_alloc))


def test_ways_of_io_that_others_set_are_noticed() -> None:
    state = read(
        of_io(0xC00, "cpuid", io_alloc=False),
        of_io(0xFFF, "io_alloc", io_alloc=True),
        of_io(0x00F, "io_alloc", io_alloc=True),
        of_io(0xC00, "cpuid", io_alloc=False),
    )
    switch = Cell("io_alloc", "", "L3")
    masks = [Cell("io_cbm", "", "L3", l3) for l3 in (0, 1)]
    assert [item.changes for item in state.noticed] == [
        (Change(switch, "disabled", "enabled"),),
        tuple(Change(cell, "fff", "f") for cell in masks),
        (Change(switch, "enabled", "disabled"),),
    ]
    assert groups_in(state.noticed[1].changes) == ()


def test_a_register_that_an_operator_wrote_is_noticed() -> None:
    state = read(of_io(0xC00, "register"), of_io(0xF00, "register"))
    (noticed,) = state.noticed
    assert noticed.changes[0] == Change(Cell("io_cbm", "", "L3", 0), "c00", "f00")
    assert not is_own_change(noticed.changes[0], noticed, ())
