"""The ICX table counted by PerfSource: PERF_METRICS behind `slots`, or general counters."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from nftop.model.missing import Reason
from nftop.uarch import table
from tests.sources.emulated import counted, set_paces, topdown
from tests.sources.perf_kernel import Event, FakeKernel
from tests.sources.trees import PMUS, put

ICX = table.load("ICX")
SLOTS = (4, 0x400)
FIXED = {(4, 0xC0), (4, 0x3C), (4, 0x300), SLOTS}
METRICS = {
    "slots": "event=0x00,umask=0x4",
    "topdown-retiring": "event=0x00,umask=0x80",
    "topdown-bad-spec": "event=0x00,umask=0x81",
    "topdown-fe-bound": "event=0x00,umask=0x82",
    "topdown-be-bound": "event=0x00,umask=0x83",
}
# Counts per microsecond of one thread, which has half of its core's 12000 slots.
PER_US = {
    "cycles": 2400,
    "distributed_cycles": 1200,
    "ref_cycles": 2100,
    "instructions": 3000,
    "topdown_slots": 6000,
    "perf_metrics_frontend_bound": 600,
    "perf_metrics_bad_speculation": 300,
    "perf_metrics_backend_bound": 1500,
    "perf_metrics_retiring": 3600,
    "undelivered_slots": 600,
    "backend_bound_slots": 1500,
    "uops_retired_slots": 3600,
    "int_misc_uop_dropping": 60,
    "int_misc_clears_count": 6,
}
LEVEL_1 = {
    "frontend_bound": 0.09,
    "bad_speculation": 0.055,
    "backend_bound": 0.255,
    "retiring": 0.6,
}


def emulate(
    root: Path, monkeypatch: pytest.MonkeyPatch, *, metrics: bool, watchdog: bool, counters: int = 8
) -> FakeKernel:
    """A kernel with so many general counters, that takes topdown-* behind slots only."""
    bits = {"event": "0-7", "umask": "8-15", "edge": "18", "inv": "23", "cmask": "24-31"}
    texts = {"type": "4", **{f"format/{term}": f"config:{where}" for term, where in bits.items()}}
    texts |= {f"events/{name}": text for name, text in METRICS.items() if metrics}
    put(root / PMUS / "cpu", texts)

    def of_metrics(event: Event) -> bool:
        return event[1] & ~0xF00 == 0x8000

    def general(group: tuple[Event, ...]) -> int:
        raw = [event for event in group if event[0] == 4 and not of_metrics(event)]
        return sum(event not in FIXED for event in raw)

    def refuse(cpu: int, group: tuple[Event, ...], event: Event) -> int:
        behind = not of_metrics(event) or group[:1] == (SLOTS,)
        return 0 if behind and general((*group, event)) <= counters else errno.EINVAL

    def share(cpu: int, group: tuple[Event, ...]) -> float:
        return float(general(group) + (watchdog and (4, 0x3C) in group) <= counters)

    fake = FakeKernel(root, refuse=refuse, share=share)
    set_paces(fake, ICX, PER_US, monkeypatch)
    return fake


@pytest.mark.parametrize("watchdog", [False, True])
@pytest.mark.parametrize("smt", [True, False])
@pytest.mark.parametrize("metrics", [True, False])
def test_level_1_is_counted_with_and_without_the_register(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metrics: bool, smt: bool, watchdog: bool
) -> None:
    fake = emulate(tmp_path, monkeypatch, metrics=metrics, watchdog=watchdog)
    last, level_1 = topdown(fake, ICX, smt=smt, levels=1)
    assert level_1 == pytest.approx(LEVEL_1)
    leader = "topdown_slots" if metrics else "cycles"
    events = counted(last)
    assert events[0] == leader
    # What is but for hosts without the register is no gap of one with it.
    assert ("distributed_cycles" in events) is not metrics
    assert ("distributed_cycles" in last.gaps) is False
    assert "topdown_slots" not in last.gaps  # other events tell the same


def test_a_guest_with_four_counters_has_no_topdown_and_reports_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = emulate(tmp_path, monkeypatch, metrics=False, watchdog=False, counters=4)
    last, level_1 = topdown(fake, ICX, smt=True, levels=1)
    assert set(counted(last)) == {
        "cycles",
        "instructions",
        "ref_cycles",
        "context_switches",
        "llc_misses",
        "tsc",
    }
    reasons = {getattr(node, "reason", None) for node in level_1.values()}
    assert reasons == {Reason.HARDWARE}
    assert "topdown_slots" in last.gaps and "too few counters" in last.gaps
