"""A test of the lab is skipped where something is missing, unless it is CI that runs it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.lab.tests.labs import LONGEST_S, ROOT


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
@pytest.mark.parametrize("name", ["test_pqos", "test_perf_tool"])
def test_ci_skips_nothing(name: str, ci: str, code: int) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "CI"}
    environment["PATH"] = "/nowhere"  # where there are neither fusermount3, pqos nor perf
    if ci:
        environment["CI"] = ci
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "--no-cov", "-q", "-p", "no:cacheprovider"),
            f"tests/lab/tests/{name}.py",
        ],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    last = done.stdout.splitlines()[-1]
    assert done.returncode == code, done.stdout
    assert "passed" not in last
    assert ("error" in last, "skipped" in last) == (bool(ci), not ci)
