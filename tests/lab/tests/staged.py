"""Running something on the stage, and why that can't be done here."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.lab.perf import seccomp

ROOT = Path(__file__).parents[3]
_LIMIT_S = 120


def missing() -> str:
    """What this machine lacks for a lab; empty if nothing."""
    wants = {
        "root": os.geteuid() == 0,
        "/dev/fuse": os.access("/dev/fuse", os.R_OK | os.W_OK),
        "mfusepy": importlib.util.find_spec("mfusepy") is not None,
        "fusermount3": shutil.which("fusermount3") is not None,
        "perf": shutil.which("perf") is not None,
    }
    lacking = [name for name, there in wants.items() if not there]
    return seccomp.unsupported() or (f"the lab needs {', '.join(lacking)}" if lacking else "")


def command(machine: str, *inside: str) -> list[str]:
    """The command line that runs `inside` on a stage."""
    stage = [sys.executable, "-m", "tests.lab.tests.stage", machine, "--", *inside]
    return ["unshare", "-m", "--propagation", "private", *stage]


def environment(**more: str) -> Mapping[str, str]:
    path = os.pathsep.join([str(ROOT), *sys.path])
    return {**os.environ, "PYTHONPATH": path, "LC_ALL": "C", **more}


def run(machine: str, *inside: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end; `more` goes into its environment."""
    return subprocess.run(
        command(machine, *inside),
        env=environment(**more),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
