"""A test of the lab is skipped where something is missing, unless the lab is required."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.lab.tests.labs import LONGEST_S, ROOT


@pytest.mark.parametrize(("lab", "code"), [("", 0), ("required", 1)])
def test_where_it_is_required_nothing_is_skipped(lab: str, code: int) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "NFTOP_LAB"}
    environment["PATH"] = "/nowhere"  # where there are neither fusermount3, pqos nor perf
    if lab:
        environment["NFTOP_LAB"] = lab
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "--no-cov", "-q", "-p", "no:cacheprovider"),
            *(f"tests/lab/tests/test_{name}.py" for name in ("pqos", "perf_tool")),
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
    assert ("error" in last, "skipped" in last) == (bool(lab), not lab)
