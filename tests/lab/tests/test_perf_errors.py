"""What perf_event_open refuses, and with which errno."""

from __future__ import annotations

import errno

import pytest

from tests.lab.perf.tree import PerfTree
from tests.lab.tests.events import (
    CPUS,
    EXCLUDE_KERNEL,
    HARDWARE,
    OTHER,
    PINNED,
    RAW,
    SOFTWARE,
    SUPERVISOR,
    Lab,
    id_of,
)

MSR = 12


class TestErrors:
    """Arguments and privileges; the first three are a real kernel's answers, 6.1 and 7.2."""

    @pytest.mark.parametrize(
        ("pmu_type", "config", "how", "code"),
        [
            (99, 0, {}, errno.ENOENT),
            (RAW, 60, {"cpu": CPUS}, errno.EINVAL),
            (HARDWARE, 7, {}, errno.ENOENT),
            (HARDWARE, 10, {}, errno.EINVAL),
            (3, 0x07, {}, errno.EINVAL),
            (3, 0x10101, {}, errno.ENOENT),
            (3, 0x10002, {}, 0),
            (SOFTWARE, 12, {}, errno.ENOENT),
            (MSR, 3, {}, errno.EINVAL),
            (MSR, 0, {"bits": EXCLUDE_KERNEL}, errno.EINVAL),
            (RAW, 0x3C, {"period": 1000}, errno.EOPNOTSUPP),
            (RAW, 0x3C, {"cpu": -1}, errno.EINVAL),
            (RAW, 0x3C, {"flags": 16}, errno.EINVAL),
            (RAW, 0x3C, {"pid": 5}, errno.ESRCH),
            (RAW, 0x3C, {"pid": -2}, errno.ESRCH),
            (RAW, 0x3C, {"leader": 4711}, errno.EBADF),
            (RAW, 0x3C, {"form": 32}, errno.EINVAL),
            (RAW, 0x3C, {"cpu": 3}, errno.ENODEV),
        ],
    )
    def test_errno(self, pmu_type: int, config: int, how: dict[str, int], code: int) -> None:
        lab = Lab()
        lab.online.discard(3)
        assert lab.code(pmu_type, config, **how) == code

    @pytest.mark.parametrize(
        ("paranoid", "whole_cpu", "kernel_too", "code"),
        [
            (2, True, True, errno.EACCES),
            (1, True, False, errno.EACCES),
            (0, True, True, 0),
            (2, False, True, errno.EACCES),
            (2, False, False, 0),
            (1, False, True, 0),
        ],
    )
    def test_paranoid(self, paranoid: int, whole_cpu: bool, kernel_too: bool, code: int) -> None:
        lab = Lab(paranoid=paranoid, ran_ns={77: 0})
        how = {
            "privileged": False,
            "bits": 0 if kernel_too else EXCLUDE_KERNEL,
            **({} if whole_cpu else {"pid": 77, "cpu": -1}),
        }
        assert lab.code(RAW, 0x3C, **how) == code
        assert lab.code(RAW, 0x3C, **how | {"privileged": True}) == 0

    def test_another_users_task(self) -> None:
        lab = Lab(ran_ns={77: 0})
        how = {"pid": 77, "cpu": -1, "uid": OTHER, "bits": EXCLUDE_KERNEL, "privileged": False}
        assert lab.code(RAW, 0x3C, **how) == errno.EACCES

    def test_groups_are_of_one_cpu_and_one_level(self) -> None:
        lab = Lab()
        leader = lab.raw(0x3C)
        sibling = lab.raw(0xC0, leader=id_of(leader))
        assert lab.code(RAW, 0xC0, leader=id_of(sibling)) == errno.EINVAL
        assert lab.code(RAW, 0xC0, leader=id_of(leader), cpu=1) == errno.EINVAL
        assert lab.code(RAW, 0xC0, leader=id_of(leader), bits=PINNED) == errno.EINVAL

    def test_nothing_is_left_of_what_was_refused(self) -> None:
        lab = Lab()
        assert lab.code(RAW, 0x3C, cpu=CPUS)
        assert lab.tree.names("/") == []

    @pytest.mark.parametrize("change", ["mkdir", "rmdir", "rename"])
    def test_the_folder_is_not_to_be_changed(self, change: str) -> None:
        tree: PerfTree = Lab().tree
        arguments = {"mkdir": ("/x", 0o755), "rmdir": ("/x",), "rename": ("/x", "/y")}[change]
        with pytest.raises(OSError) as caught:
            getattr(tree, change)(*arguments, SUPERVISOR)
        assert caught.value.errno == errno.EPERM
