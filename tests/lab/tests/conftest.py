"""Where CI is set nothing that the lab needs may be missing: a test that is skipped fails there."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

# What no distribution packages: the Python binding, and the library of the version it wants.
_SPARED = ("PyPI's pqos is missing", "there is no libpqos")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure for every skip that is not spared."""
    report = yield
    if "CI" in os.environ and report.skipped and isinstance(report.longrepr, tuple):
        why = report.longrepr[2].removeprefix("Skipped: ")
        if not why.startswith(_SPARED):
            report.outcome, report.longrepr = "failed", f"skipped, which CI does not take: {why}"
    return report
