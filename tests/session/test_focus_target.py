"""`--focus`: which core is counted in detail, and why none is."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from nftop.model.frame import Focus, Frame
from nftop.model.ids import Cpu
from nftop.model.owner import UNPRIVILEGED, Owner
from nftop.model.struct import replace
from nftop.session.focus_target import FocusFrames, FocusTarget, named, target_of
from tests.frames import frame, topology

TICK = replace(frame(8), interval_s=1.0)


class Ticks:
    """A feed of given frames, which notes what is looked at."""

    def __init__(self, *frames: Frame) -> None:
        self.given, self.inspected = frames, list[Focus]()
        self.closed = False

    def set_focus(self, focus: Focus) -> None:
        self.inspected.append(focus)

    def frames(self) -> Generator[Frame, None, None]:
        try:
            yield from self.given
        finally:
            self.closed = True


def test_a_cpu_must_belong_to_the_measured_host() -> None:
    host = topology(4)
    assert target_of(None, host) is None
    assert target_of("3", host) == FocusTarget(cpu=Cpu(3))
    assert target_of("vpp", host) == FocusTarget(nf="vpp")
    for text, limits in (("4", {}), ("1", {"quiet": (1,)}), ("99999999999", {})):
        with pytest.raises(ValueError, match="--focus"):
            target_of(text, host, **limits)  # type: ignore[arg-type]
    apart = next(cpu for cpu in (1, 2, 3) if cpu not in host.with_siblings((0,)))
    with pytest.raises(ValueError, match="cpu-list"):
        target_of(str(apart), host, shown=(Cpu(0),))


def test_a_network_function_by_its_name_or_a_component_of_one() -> None:
    one, *_ = TICK.nfs
    north, south = replace(one, name="north/l3fwd"), replace(one, name="south/l3fwd")
    assert named((north, south), "south/l3fwd") is south
    assert named((north, south), "north") is north
    assert named((north, south), "l3fwd") is named((north, south), "dpdk") is None
    pmd = replace(one, name="loop/testpmd@3-4", kind="dpdk")
    for name in ("testpmd", "dpdk-testpmd", "loop", "dpdk", pmd.name):
        assert named((replace(north, kind="vpp"), pmd), name) is pmd
    users = replace(
        pmd, name="eve:x/l2fwd", owner=Owner(1000, "eve", privileged=False, reason=UNPRIVILEGED)
    )
    assert named((users,), users.name) is users
    assert [named((users,), name) for name in ("l2fwd", "x", "eve:x", "dpdk")] == [None] * 4


def test_the_core_of_a_network_function_is_its_busiest_and_stays() -> None:
    first = TICK
    nf = next(nf for nf in first.nfs if len(nf.cpus) > 1)
    target, busy = FocusTarget(nf=nf.name), first.cpus.columns["busy_ratio"].values
    core = target.core(first, None)
    assert core in nf.cpus
    rows = first.topology.row_of
    assert busy[rows[core]] == max(busy[rows[cpu]] for cpu in nf.cpus)
    other = next(cpu for cpu in nf.cpus if cpu != core)
    assert target.core(first, other) == other
    moved = replace(first, nfs=(replace(nf, cpus=(core,)),))
    assert target.core(moved, other) == core
    assert target.core(replace(first, nfs=()), core) is None


def test_frames_come_with_the_core_observed() -> None:
    ticks, reports = Ticks(*(TICK for _ in range(8))), list[str]()
    focus = Focus(traffic=True)
    frames = list(FocusFrames(ticks, FocusTarget(cpu=Cpu(2)), focus, reports.append).frames())  # type: ignore[arg-type]
    assert frames == list(ticks.given)
    assert ticks.inspected == [replace(focus, core=Cpu(2))]
    assert ticks.closed
    # These frames have no counts of a core.
    assert len(reports) == 1 and "CPU 2" in reports[0]


def test_an_unknown_name_is_reported_once() -> None:
    ticks, reports = Ticks(*(TICK for _ in range(4))), list[str]()
    list(FocusFrames(ticks, FocusTarget(nf="none"), Focus(), reports.append).frames())  # type: ignore[arg-type]
    assert ticks.inspected == [Focus()]
    assert len(reports) == 1
    assert all(nf.name in reports[0] for nf in ticks.given[0].nfs)


def test_a_name_that_never_appears_is_known_at_the_end_even_of_one_frame() -> None:
    begun = replace(TICK, interval_s=None)
    for ticks in ((begun,), (begun, TICK)):
        reports = list[str]()
        focused = FocusFrames(Ticks(*ticks), FocusTarget(nf="none"), Focus(), reports.append)  # type: ignore[arg-type]
        list(focused.frames())
        assert focused.is_absent() and focused.is_absent()
        assert len(reports) == 1 and TICK.nfs[0].name in reports[0]


def test_without_the_required_network_function_no_frame_is_given() -> None:
    """Known with the first frame that lists the others, before which nothing is written."""
    begun, empty = replace(TICK, interval_s=None), replace(TICK, interval_s=None, nfs=())
    name = TICK.nfs[0].name
    for wanted, ticks, count in (
        ("none", (begun, TICK), 0),
        ("none", (empty, TICK), 1),
        (name, (begun, TICK), 2),
        (name, (empty, TICK), 2),
    ):
        reports = list[str]()
        target, given = FocusTarget(nf=wanted), Ticks(*ticks)
        focused = FocusFrames(given, target, Focus(), reports.append, required=True)  # type: ignore[arg-type]
        assert len(list(focused.frames())) == count and given.closed
        assert focused.is_absent() == (wanted == "none") == bool(reports)


def test_a_name_that_appears_late_or_goes_is_not_absent() -> None:
    name, without = TICK.nfs[0].name, replace(TICK, nfs=())
    for ticks in ((without, TICK), (TICK, without)):
        focused = FocusFrames(Ticks(*ticks), FocusTarget(nf=name), Focus(), lambda _: None)  # type: ignore[arg-type]
        list(focused.frames())
        assert not focused.is_absent()
    focused = FocusFrames(Ticks(TICK), FocusTarget(cpu=Cpu(1)), Focus(), pytest.fail)  # type: ignore[arg-type]
    list(focused.frames())
    assert not focused.is_absent()


def test_without_a_target_only_the_rest_is_observed() -> None:
    ticks = Ticks(TICK)
    focused = FocusFrames(ticks, None, Focus(traffic=True), pytest.fail)  # type: ignore[arg-type]
    assert list(focused.frames()) == list(ticks.given)
    assert not focused.is_absent()
    assert ticks.inspected == [Focus(traffic=True)]
