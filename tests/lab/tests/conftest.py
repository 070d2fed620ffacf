"""With NFTOP_LAB=required nothing that the lab needs may be missing: a skipped test fails.

It is for machines that are known to have it all; elsewhere a skip says what is missing.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

# What no distribution packages: the Python binding, and the library of the version it wants. And
# what takes minutes.
_SPARED = ("PyPI's pqos is missing", "there is no libpqos", "a lab of 512 CPUs")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure for every skip that is not spared."""
    report = yield
    if (
        os.environ.get("NFTOP_LAB") == "required"
        and report.skipped
        and isinstance(report.longrepr, tuple)
    ):
        why = report.longrepr[2].removeprefix("Skipped: ")
        if not why.startswith(_SPARED):
            report.outcome, report.longrepr = "failed", f"skipped, and the lab is required: {why}"
    return report
