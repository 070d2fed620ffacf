"""Where there can be no lab its tests are skipped, and it itself ends, with a sentence."""

from __future__ import annotations

import ast
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab import namespace
from tests.lab.calls import seccomp
from tests.lab.requirements import missing
from tests.lab.tests.labs import LONGEST_S, ROOT, enter, needs_lab

# What of the lab's processes can't be had, and what is said then.
_WITHOUT: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "inside a lab": lambda patch: patch.setattr(namespace, "LAB", Path("/")),
    "x86-64 only, and this is riscv64": lambda patch: patch.setattr(
        platform, "machine", lambda: "riscv64"
    ),
    "seccomp": lambda patch: patch.setattr(seccomp, "_ACTIONS", Path("/nowhere")),
    "Linux 5.9": lambda patch: patch.setattr(platform, "release", lambda: "5.8.18-generic"),
    "run it as root": lambda patch: patch.setattr(os, "geteuid", lambda: 1000),
    "/dev/fuse": lambda patch: patch.setattr(os, "access", lambda *_: False),
    "pip install mfusepy": lambda patch: patch.setattr(importlib.util, "find_spec", lambda _: None),
    "apt-get install fuse3": lambda patch: patch.setattr(shutil, "which", lambda _: None),
}


@needs_lab
@pytest.mark.parametrize("words", _WITHOUT)
def test_what_is_missing_is_reported_with_what_helps(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _WITHOUT[words](monkeypatch)
    assert words in missing()
    assert "\n" not in missing()


def test_it_needs_no_more_python_than_nftop_and_mfusepy() -> None:
    used = set[str]()
    for path in (ROOT / "tests" / "lab").rglob("*.py"):
        if "tests" not in path.relative_to(ROOT / "tests").parts:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    used |= {name.name.partition(".")[0] for name in node.names}
                elif isinstance(node, ast.ImportFrom):
                    used.add((node.module or "").partition(".")[0])
    assert used - sys.stdlib_module_names == {"nftop", "numpy", "mfusepy", "tests"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop its privileges")
def test_without_root_it_reports_it_and_exits_125() -> None:
    # What it imports may lie where nobody else can read, so it is all used once before.
    code = (
        "import os, sys\n"
        "from tests.lab.__main__ import main, missing, parse\n"
        "sys.argv = ['lab', '--', 'true']\n"
        "missing(), parse(['--', 'true'])\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (125, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("nftop's lab: ")


@needs_lab
def test_a_lab_does_not_start_in_a_lab() -> None:
    lab = ("--cpus", "4", "--")
    done = enter(*lab, sys.executable, "-m", "tests.lab", *lab, "true")
    assert done.returncode == 125
    assert done.stderr == "nftop's lab: this is inside a lab, and there is no other in it\n"
