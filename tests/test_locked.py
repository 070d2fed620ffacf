"""The list of versions that `make audit` gives to pip-audit: whole, or none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

LOCKED = Path(__file__).parents[1] / "packaging/locked.py"


def install(folder: Path, name: str, requires: Sequence[str]) -> None:
    """A package that consists of its metadata."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0"]
    lines += [f"Requires-Dist: {item}" for item in requires]
    (info / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")


def locked(folder: Path) -> subprocess.CompletedProcess[str]:
    own = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, str(LOCKED)]
    return subprocess.run(command, env=own, capture_output=True, text=True, check=False)


def test_direct_and_indirect_ones_and_those_of_extras_are_listed(tmp_path: Path) -> None:
    install(tmp_path, "nftop", ["aa", 'bb>=1; extra == "vpp"', 'tests; extra == "dev"'])
    install(tmp_path, "aa", ["cc", "Shared.Name", 'windows; sys_platform == "win32"'])
    install(tmp_path, "bb", ["cc[more]"])
    install(tmp_path, "cc", ['dd; extra == "more"', "aa"])
    for name in ("dd", "shared_name"):
        install(tmp_path, name, [])
    done = locked(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    names = ["aa", "bb", "cc", "dd", "shared-name"]
    assert done.stdout.splitlines() == [f"{name}==1.0" for name in names]


def test_those_of_another_python_are_listed_if_they_are_installed(tmp_path: Path) -> None:
    here = "{}.{}".format(*sys.version_info[:2])
    other = {f"3.{minor}" for minor in range(11, 15)} - {here}
    install(
        tmp_path,
        "nftop",
        [f"{name}; python_version == '{python}'" for python in other for name in ("aa", "gone")],
    )
    install(tmp_path, "aa", [])
    done = locked(tmp_path)
    assert (done.returncode, done.stdout) == (0, "aa==1.0\n")
    assert done.stderr.endswith(": gone\n")


def test_one_that_is_not_installed_is_named_and_nothing_is_listed(tmp_path: Path) -> None:
    install(tmp_path, "nftop", ["aa", 'gone-extra; extra == "pqos"'])
    install(tmp_path, "aa", ["gone-indirect"])
    done = locked(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "gone-extra, gone-indirect" in done.stderr
