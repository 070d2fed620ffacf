"""The doctor's report: marks, what comes first, and that it wraps."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.check import Check
from nftop.model.missing import Reason
from nftop.render.pages.doctor import doctor_lines, mark_of, next_step, summary

WORKS = Check("perf", Reason.PRESENT, "counts cycles on CPU 0-87, one read a tick each")
TUNE = Check("host turbo", Reason.PRESENT, "on", "echo 1 > no_turbo", "it varies", advised=False)
ABSENT = Check("dpdk", Reason.SOURCE, "no application is running", "start one")
DENIED = Check("perf cycles", Reason.PERMISSION, "perf_event_paranoid is 4", "setcap cap_perfmon")
EVERY = (WORKS, TUNE, ABSENT, DENIED)


@pytest.mark.parametrize(
    ("check", "mark"), [(WORKS, "✔"), (TUNE, "▲"), (ABSENT, "·"), (DENIED, "✘")]
)
def test_every_state_has_a_mark(check: Check, mark: str) -> None:
    assert mark_of(check)[0] == mark


@pytest.mark.parametrize("reason", [item for item in Reason if item is not Reason.PRESENT])
def test_nothing_that_is_missing_has_a_tick(reason: Reason) -> None:
    assert mark_of(Check("x", reason, ""))[0] in "✘·"


def test_a_fault_comes_before_a_setting_and_that_before_what_is_absent() -> None:
    assert next_step(EVERY) is DENIED
    assert next_step((WORKS, TUNE, ABSENT)) is TUNE
    assert next_step((WORKS, ABSENT)) is ABSENT
    assert next_step((WORKS,)) is None


def test_summary_counts_by_mark(snapshot: SnapshotAssertion) -> None:
    assert summary(EVERY) == snapshot
    assert summary((WORKS, WORKS)) == "2 work"


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_all_but_commands_wraps(width: int) -> None:
    """A part of a command, pasted, would be another command."""
    fix = "sudo sed -i 's/a  b/c/' /etc/x && " * 99 + "sudo update-grub"
    long = Check("long name " * 9, Reason.ERROR, "text " * 99, fix, why="it " * 99)
    lines = doctor_lines((*EVERY, long), "", width)
    fixes = [check.fix for check in (*EVERY, long) if check.fix]
    alone = [item.text.strip() for item in lines if item.text.strip() in fixes]
    assert alone == [DENIED.fix, *fixes]
    assert all(item.width <= width or item.text.strip() == fix for item in lines)


def test_report(snapshot: SnapshotAssertion) -> None:
    lines = doctor_lines(EVERY, "SIMULATED: nothing of this machine", 60)
    assert "\n".join(item.text.rstrip() for item in lines) == snapshot
