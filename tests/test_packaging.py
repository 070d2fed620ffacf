"""Scripts of packaging and `make install`: what they refuse."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.house import ROOT

PACKAGING = ROOT / "packaging"
CHECKS = sorted(path.name for path in PACKAGING.glob("check-*.sh") if "apt-get" in path.read_text())


def run(*command: str | Path, path: str = "/usr/bin:/bin") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, env={"PATH": path}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", [*CHECKS, "build-deb.sh"])
def test_what_changes_a_system_runs_in_a_debian_of_its_own_only(name: str, tmp_path: Path) -> None:
    assert len(CHECKS) == 3
    # Without a program to run, so that it is harmless if it is not refused: that is code 127.
    assert run("/bin/sh", PACKAGING / name, "prepare", path=str(tmp_path)).returncode == 2


@pytest.mark.parametrize("target", ["install", "uninstall"])
def test_a_prefix_with_a_space_is_refused_and_nothing_is_removed(
    target: str, tmp_path: Path
) -> None:
    prefix, other = tmp_path / "a b", tmp_path / "a"
    prefix.mkdir()
    other.mkdir()
    (prefix / ".nftop-installed").touch()
    (other / "kept").touch()
    folders = [f"{name}={tmp_path}/x" for name in ("BINDIR", "SHAREDIR")]
    assert run("make", target, f"PREFIX={prefix}", *folders, "PYTHON=false").returncode == 2
    assert {path.name for path in tmp_path.rglob("*")} == {"a b", "a", ".nftop-installed", "kept"}


def test_a_list_of_manual_pages_that_fails_ends_share(tmp_path: Path) -> None:
    program = tmp_path / "nftop"
    program.write_text('#!/bin/sh\n[ "$*" != "man --list" ] || exit 7\n')
    program.chmod(0o755)
    assert run(PACKAGING / "share.sh", program, tmp_path / "share").returncode == 7


def test_no_folder_that_root_runs_programs_of_is_where_everybody_may_write() -> None:
    defaults = dict(re.findall(r"(?m)^(\w+) \?= (\S+)", (ROOT / "Makefile").read_text()))
    assert {"NEWER", "NEWER_OVS", "SID"} <= defaults.keys()
    assert not [name for name, text in defaults.items() if re.match(r"/(var/)?tmp\b", text)]
