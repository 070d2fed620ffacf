"""What `nftop doctor` says of resctrl, and the fixes it names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.check import Check
from nftop.model.missing import Reason
from tests.command import wording
from tests.shell import assert_command
from tests.sources.resctrl.trees import captured, group_files, plain, source, write
from tests.sources.trees import put
from tests.sources.tuning.hosts import DEBIAN


def checks(root: Path) -> dict[str, Check]:
    return {check.name: check for check in source(root).check()}


def test_what_is_mounted_and_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 4})
    files = plain() | group_files("COS1/") | group_files("vpp/mon_groups/a/")
    result = checks(write(tmp_path, files, "rw,relatime,cdp"))
    assert {check.reason for check in result.values()} == {Reason.PRESENT}
    assert result["resctrl"].text == snapshot
    assert result["resctrl L3"].text == snapshot
    assert result["resctrl MB"].text == snapshot
    assert result["resctrl monitors"].text == snapshot
    assert result["resctrl reads"].text == snapshot


def test_no_class_is_left(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    files = plain() | {"info/MB/num_closids": "2"}
    check = checks(write(tmp_path, files))["resctrl L3"]
    assert check.reason is Reason.TAKEN
    assert check.text == snapshot


def test_what_the_kernel_hides_of_the_cpu_can_be_had_by_a_boot_parameter(tmp_path: Path) -> None:
    files = {key: text for key, text in plain().items() if "L3" not in key}
    put(write(tmp_path, files), DEBIAN)
    result = checks(tmp_path)
    # All that the CPU has in each: a parameter replaces the one before.
    for name in ("L3", "monitors"):
        check = result[f"resctrl {name}"]
        assert check.reason is Reason.HARDWARE
        assert ' rdt=l3cat,mba,cmt,mbmtotal,mbmlocal"' in check.fix and "erratum" in check.why
        assert_command(check.fix)
    assert "resctrl reads" not in result


def test_what_the_cpu_has_not_has_no_fix(tmp_path: Path) -> None:
    root = write(tmp_path, captured("nol3.mbps"), "rw,mba_MBps")
    cpuinfo = root / "proc/cpuinfo"
    cpuinfo.write_text(cpuinfo.read_text().replace("cat_l3", ""))
    check = checks(root)["resctrl L3"]
    assert (check.reason, check.fix) == (Reason.HARDWARE, "")
    assert checks(root)["resctrl MB"].text == "limits in MBps"


def test_not_mounted(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    root = write(tmp_path, plain())
    (root / "proc/mounts").write_text("")
    [check] = source(root).check()
    assert (check.reason, check.fix) == (Reason.SOURCE, "mount -t resctrl resctrl /sys/fs/resctrl")
    assert check.text == snapshot
    (root / "proc/filesystems").write_text("nodev\tproc\n")
    [check] = source(root).check()
    assert check.reason is Reason.HARDWARE and "rdt=l3cat,mba,cmt,mbmtotal,mbmlocal" in check.text
    (root / "proc/cpuinfo").unlink()
    [check] = source(root).check()
    assert check.fix == ""


def test_what_could_not_be_read_is_a_finding(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    check = checks(write(tmp_path, plain() | {"info/L3/min_cbm_bits": "few"}))["resctrl"]
    assert check.reason is Reason.ERROR
    assert wording(check.text, tmp_path) == snapshot
