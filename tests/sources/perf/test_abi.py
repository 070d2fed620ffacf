"""perf_event_attr against the sizes and offsets the kernel publishes, and its errors in words."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
from pathlib import Path

import pytest

from nftop.model.missing import Reason
from nftop.sources.perf import abi, problems
from nftop.sources.perf.abi import PerfEventAttr
from nftop.uarch.table import Encoding
from tests.sources.trees import put

# include/uapi/linux/perf_event.h: where each PERF_ATTR_SIZE_VERn ends, by the field it added last.
SIZES = {
    "config1": 64,  # VER0
    "config2": 72,  # VER1
    "branch_sample_type": 80,  # VER2
    "clockid": 96,  # VER3
    "sample_regs_intr": 104,  # VER4
    "reserved_2": 112,  # VER5
    "aux_action": 120,  # VER6
    "sig_data": 128,  # VER7
    "config3": 136,  # VER8
}
OFFSETS = {"type": 0, "size": 4, "config": 8, "sample_period": 16, "read_format": 32, "flags": 40}


def test_the_structure_is_laid_out_as_published() -> None:
    assert ctypes.sizeof(PerfEventAttr) == 136
    fields = {name: getattr(PerfEventAttr, name) for name, *_ in PerfEventAttr._fields_}
    assert {name: fields[name].offset + fields[name].size for name in SIZES} == SIZES
    assert {name: fields[name].offset for name in OFFSETS} == OFFSETS


def test_an_attribute_counts_and_does_nothing_else() -> None:
    leader = abi.attribute(Encoding(4, 1, 2, 3, 5), leader=True)
    reports = {name: getattr(leader, name) for name, *_ in PerfEventAttr._fields_}
    assert {name: value for name, value in reports.items() if value} == {
        "type": 4,
        "size": 136,
        "config": 1,
        "config1": 2,
        "config2": 3,
        "config3": 5,
        "read_format": 1 | 2 | 8,  # both times, and group
        "flags": 1,  # disabled: no freq, no inherit, no exclude bits
    }
    assert abi.attribute(Encoding(4, 1), leader=False).flags == 0


@pytest.mark.parametrize(("limit", "left"), [(100, False), (108, True), (-1, True)])
def test_counters_leave_descriptors_to_the_rest(
    limit: int, left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event opened is descriptor 40."""
    fds = iter([40])

    class Library:
        @staticmethod
        def syscall(*_: object) -> int:
            return next(fds)

    closed: list[int] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Library)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    monkeypatch.setattr(os, "close", closed.append)
    kernel = abi.host_kernel("x86_64")
    attr = abi.attribute(Encoding(1, 3), leader=True)
    if left:
        assert kernel.open_event(attr, 0, -1) == 40
        assert not closed
        return
    with pytest.raises(OSError, match="Too many open files"):
        kernel.open_event(attr, 0, -1)
    assert closed == [40]


def test_a_machine_without_a_known_number_is_distinguished() -> None:
    kernel = abi.host_kernel("vax")
    with pytest.raises(OSError, match="not implemented") as caught:
        kernel.open_event(abi.attribute(Encoding(1, 3), leader=True), 0, -1)
    assert problems.explain(caught.value.errno or 0).reason is Reason.HARDWARE


@pytest.mark.parametrize(
    ("code", "reason", "words"),
    [
        (errno.EACCES, Reason.PERMISSION, "perf_event_paranoid at 0 or below; it is 2"),
        (errno.EPERM, Reason.PERMISSION, "CAP_PERFMON"),
        (errno.ENOENT, Reason.HARDWARE, "no PMU"),
        (errno.EOPNOTSUPP, Reason.HARDWARE, "can't count"),
        (errno.ENODEV, Reason.HARDWARE, "lacks"),
        (errno.EINVAL, Reason.HARDWARE, "refuses"),
        (errno.EBUSY, Reason.TAKEN, "another program"),
        (errno.ENOSPC, Reason.TAKEN, "in use"),
        (errno.EMFILE, Reason.ERROR, "ulimit -n"),
        (errno.ESRCH, Reason.SOURCE, "ended"),
        (errno.EIO, Reason.ERROR, "Input/output error"),
        (0, Reason.ERROR, "Success"),
    ],
)
def test_every_errno_has_a_reason_and_a_sentence(
    tmp_path: Path, code: int, reason: Reason, words: str
) -> None:
    put(tmp_path, {"proc/sys/kernel/perf_event_paranoid": "2"})
    problem = problems.explain(code, tmp_path)
    assert problem.reason is reason
    assert words in problem.sentence
    assert "{" not in problem.sentence + problem.fix


def test_the_sentences_stand_without_proc(tmp_path: Path) -> None:
    assert "it is unknown" in problems.explain(errno.EACCES, tmp_path).sentence


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM])
def test_without_a_pmu_a_privilege_does_not_give_one(code: int, tmp_path: Path) -> None:
    without = problems.explain(code, tmp_path).sentence
    devices = tmp_path / "sys/bus/event_source/devices"
    for name in ("software", "msr"):
        (devices / name).mkdir(parents=True)
    assert problems.explain(code, tmp_path).sentence.startswith(f"{without}; ")
    (devices / "cpu_core").mkdir()
    assert problems.explain(code, tmp_path).sentence == without
    assert "another program" in problems.never_ran(tmp_path).sentence


def test_the_nmi_watchdog_is_named_where_it_runs(tmp_path: Path) -> None:
    put(tmp_path, {"proc/sys/kernel/nmi_watchdog": "1"})
    problem = problems.never_ran(tmp_path)
    assert "NMI watchdog" in problem.sentence
    assert "kernel.nmi_watchdog=0" in problem.fix


def test_open_files_are_raised_to_the_hard_limit() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[1]), before[1]))
        abi.raise_open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_refused_limit_is_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(which: int, limits: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda which: (64, 128))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    abi.raise_open_files()
