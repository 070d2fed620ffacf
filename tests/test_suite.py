"""The runner of the suite: what it counts, and that both halves run."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.suite import Totals, count, load
from tests.waiting import until

_TESTS = """
import pytest

def test_passes(): pass

@pytest.mark.skip
def test_is_skipped(): pass

def test_of_the_first_half(): assert {first}

@pytest.fixture
def broken():
    yield
    assert {cleanup}

@pytest.mark.alone
def test_of_the_second_half(broken): assert {second}
"""


@pytest.mark.parametrize(
    ("first", "second", "cleanup", "totals"),
    [
        (True, True, True, Totals(3, 0, 1)),
        (False, True, True, Totals(2, 1, 1)),
        (True, False, True, Totals(2, 1, 1)),
        (False, False, False, Totals(1, 2, 1)),
        (True, True, False, Totals(2, 1, 1)),
    ],
)
def test_both_halves_run_and_are_counted(
    tmp_path: Path, first: bool, second: bool, cleanup: bool, totals: Totals
) -> None:
    body = _TESTS.format(first=first, second=second, cleanup=cleanup)
    Path(tmp_path, "test_some.py").write_text(body)
    command = [sys.executable, "-m", "tests.suite", "--jobs", "1", "--", str(tmp_path)]
    ended = subprocess.run(
        [*command, "-p", "no:cacheprovider"], capture_output=True, text=True, check=False
    )
    assert ended.stdout.splitlines()[-1] == f"total: {totals}"
    assert ended.returncode == (1 if totals.failed else 0)


def test_what_can_not_be_collected_is_a_failure(tmp_path: Path) -> None:
    Path(tmp_path, "test_some.py").write_text("import nothing_of_that_name")
    command = [sys.executable, "-m", "tests.suite", "--jobs", "1", "--", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ", 0 failed" not in ended.stdout.splitlines()[-1]


def test_a_test_that_fails_and_fails_to_clean_up_counts_once() -> None:
    report = b"""<testsuites><testsuite><testcase classname="m" name="a"><failure/></testcase>
      <testcase classname="m" name="a"><error/></testcase><testcase classname="m" name="b"/>
      <testcase classname="m" name="c"><skipped/></testcase></testsuite></testsuites>"""
    assert count(report) == Totals(passed=1, failed=1, skipped=1)


def members(session: int) -> int:
    result = 0
    for pid in psutil.pids():
        with suppress(ProcessLookupError):
            result += os.getsid(pid) == session
    return result


def test_programs_of_a_load_share_a_session_and_end_with_it() -> None:
    with load(3) as session:
        until(lambda: members(session) == 3)
        assert session != os.getsid(0)
    until(lambda: members(session) == 0)
    with load(0) as session:
        assert session == 0
