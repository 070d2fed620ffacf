"""Who has the counters: what a group needs, how many are free, which processes hold events."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from nftop.model.missing import Reason
from nftop.sources.perf.probe import (
    GeneralCounters,
    Holder,
    count_general_counters,
    fits_with_watchdog,
    general_counters_needed,
    perf_event_holders,
)
from nftop.sources.perf.problems import never_ran
from nftop.uarch import table
from tests.sources import perf_kernel
from tests.sources.perf_kernel import Event, FakeKernel
from tests.sources.trees import put

BRANCHES = (0, 4)
ICX, SPR = table.load("ICX"), table.load("SPR")
SKX = table.load("SKX").with_smt(on=True)


@pytest.mark.parametrize(
    ("uarch", "plan", "needed", "with_watchdog"),
    [
        (ICX, 0, 6, 7),
        (ICX, 1, 2, 3),
        (SPR, 0, 4, 5),
        (SPR, 1, 1, 2),
        (SKX, 0, 4, 5),  # level 1 takes all four
        (SKX, 1, 4, 4),  # cycles by APERF
        (table.load("SRF"), 0, 7, 8),
        (table.load("SRF"), 1, 4, 5),
    ],
)
def test_general_counters_a_plan_needs(
    uarch: table.Uarch, plan: int, needed: int, with_watchdog: int
) -> None:
    events = uarch.plans[plan].events
    assert general_counters_needed(uarch, events, watchdog=False) == needed
    assert general_counters_needed(uarch, events, watchdog=True) == with_watchdog


def test_a_group_that_fits_next_to_the_watchdog_is_not_kept_off_by_it(tmp_path: Path) -> None:
    put(tmp_path, {"proc/sys/kernel/nmi_watchdog": "1"})
    for uarch, plan, fits in ((ICX, 0, True), (SKX, 0, False), (SKX, 1, True)):
        opened = [item.events for item in uarch.plans]
        assert fits_with_watchdog(uarch, uarch.plans[plan].events, opened) is fits
    blamed = never_ran(tmp_path, fits_with_watchdog=False)
    another = never_ran(tmp_path, fits_with_watchdog=True)
    assert blamed.reason is another.reason is Reason.TAKEN
    assert "nmi_watchdog=0" in blamed.fix
    assert "nmi_watchdog" not in another.fix, "that would not help"


def test_four_counters_next_to_the_watchdog_are_known_by_what_opened() -> None:
    """The siblings are offline, but the firmware left four: eight are opened nowhere."""
    skx = table.load("SKX").with_smt(on=False)
    eight, four = skx.plans[0].events, skx.plans[1].events
    assert fits_with_watchdog(skx, eight, [eight, four])
    assert not fits_with_watchdog(skx, four, [four])


@pytest.mark.parametrize("free", [0, 3, 8])
def test_free_counters_are_those_that_a_group_gets(
    free: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_cpu: int, group: tuple[Event, ...], _event: Event) -> int:
        return errno.EINVAL if len(group) == 8 else 0

    fake = FakeKernel(
        tmp_path,
        known=frozenset({BRANCHES}),
        refuse=refuse,
        share=lambda _cpu, group: float(len(group) <= free),
    )
    monkeypatch.setattr(perf_kernel, "RATES", {BRANCHES: 1})
    monkeypatch.setattr(time, "sleep", lambda s: fake.pass_ns(int(s * 1e9)))
    assert count_general_counters(fake.kernel, 0) == GeneralCounters(8, free)
    assert not fake.fds


def test_without_counters_no_groups_are_opened(tmp_path: Path) -> None:
    assert count_general_counters(FakeKernel(tmp_path).kernel, 0) is None


def test_holders_are_the_processes_with_perf_events(tmp_path: Path) -> None:
    for pid, comm, links in (
        (12, "pcm-sensor-serv", ["anon_inode:[perf_event]"] * 3),
        (7, "perf", ["anon_inode:[perf_event]", "/dev/null", "anon_inode:[eventfd]"]),
        (9, "bash", ["/dev/null", "socket:[1]"]),
    ):
        put(tmp_path / f"proc/{pid}", {"comm": comm, "fd/": ""})
        for number, link in enumerate(links):
            (tmp_path / f"proc/{pid}/fd/{number}").symlink_to(link)
    put(tmp_path, {"proc/13/comm": "gone", "proc/sys/kernel/nmi_watchdog": "1"})
    assert perf_event_holders(tmp_path) == (Holder(12, "pcm-sensor-serv", 3), Holder(7, "perf", 1))
    assert perf_event_holders(tmp_path / "nowhere") == ()


def test_a_descriptor_that_is_closed_meanwhile_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, {"proc/7/comm": "perf"})
    folder = tmp_path / "proc/7/fd"
    folder.mkdir()
    for number in range(8):
        (folder / str(number)).symlink_to("anon_inode:[perf_event]")
    readlink = os.readlink

    def closed(path: Path) -> str:
        if path.name == "3":
            raise FileNotFoundError(path)
        return readlink(path)

    monkeypatch.setattr(os, "readlink", closed)
    assert perf_event_holders(tmp_path) == (Holder(7, "perf", 7),)
