"""`make release` runs what is too long for `make check`, and says what it did not run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests import release
from tests.house import ROOT
from tests.release import (
    FAILED,
    INCOMPLETE,
    PASSED,
    STEPS,
    ReleaseStep,
    StepResult,
    exit_code,
    run_step,
    skipped_tests,
)
from tests.waiting import until

MAKEFILE = (ROOT / "Makefile").read_text()
# Targets that are no test, or a part of `check`.
NO_STEPS = frozenset(
    "run live lab test stress coverage screenshots film docs wheel deb deb-release "
    "install uninstall test-packages test-prometheus clean release".split()
)


class Command(ReleaseStep):
    """A step that is a Python program."""

    __slots__ = ()

    @property
    def command(self) -> tuple[str, ...]:
        return (sys.executable, "-c", self.about)


def step(program: str, minutes: int = 1, **needs: object) -> ReleaseStep:
    return Command("a-step", program, minutes, **needs)  # type: ignore[arg-type]


def test_its_steps_are_every_long_target_of_the_makefile() -> None:
    phony = re.search(r"(?m)^\.PHONY: (.*)$", MAKEFILE)
    assert phony is not None
    assert {item.target for item in STEPS} == set(phony[1].split()) - NO_STEPS
    assert len({item.target for item in STEPS}) == len(STEPS)
    for item in STEPS:
        assert re.search(rf"(?m)^{item.target}:", MAKEFILE)
        for variable in item.variables:
            assert re.search(rf"(?m)^{variable.partition('=')[0]} \?=", MAKEFILE)


def test_a_step_passes_fails_or_is_skipped_with_the_reason(tmp_path: Path) -> None:
    passed = run_step(step("print('5 passed, 2 skipped in 3 s')"), tmp_path)
    assert (passed.state, passed.why, passed.skipped_tests) == ("passed", "", 2)
    assert "5 passed" in (tmp_path / "a-step.log").read_text()
    failed = run_step(step("raise SystemExit(7)"), tmp_path)
    assert failed.state == "failed" and "exit code 7" in failed.why
    skipped = run_step(step("raise SystemExit(7)", programs=("no-such-program",)), tmp_path)
    assert skipped == StepResult("a-step", "skipped", why="not installed: no-such-program")


def test_a_step_that_does_not_end_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "import os, time; os.fork(); os.write(1, b'%d\\n' % os.getpid()); time.sleep(600)"
    log = tmp_path / "a-step.log"

    class Forked(subprocess.Popen[bytes]):
        """Its time is over when both processes run."""

        def wait(self, timeout: float | None = None) -> int:
            if timeout is not None:
                until(lambda: log.read_text().count("\n") == 2)
                assert all(map(_runs, map(int, log.read_text().split())))
            return super().wait(timeout)

    monkeypatch.setattr(subprocess, "Popen", Forked)
    result = run_step(step(program, minutes=0), tmp_path)
    assert result.state == "failed" and "0 minutes" in result.why
    for pid in map(int, log.read_text().split()):
        until(lambda pid=pid: not _runs(pid))  # type: ignore[misc]


def _runs(pid: int) -> bool:
    """Whether a process exists that has not ended: not even as one that nothing waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_root_is_needed_where_a_step_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert step("", root=True).lacks() == "needs root"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert step("", root=True).lacks() == ""


def test_the_exit_code_reports_whether_all_ran() -> None:
    good = StepResult("a", "passed")
    assert exit_code([good, good]) == PASSED
    assert exit_code([good, replace(good, state="skipped")]) == INCOMPLETE
    assert exit_code([replace(good, skipped_tests=1)]) == INCOMPLETE
    assert (
        exit_code([good, replace(good, state="skipped"), replace(good, state="failed")]) == FAILED
    )


def test_skipped_tests_are_those_of_every_summary() -> None:
    assert skipped_tests("3 passed, 1 skipped in 1s\n...\n4 skipped, 2 deselected\n") == 5
    assert skipped_tests("3 passed in 1s") == 0


def test_the_report_has_every_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release, "FOLDER", tmp_path)
    monkeypatch.setattr(release, "run_step", lambda item: StepResult(item.target, "passed", 60.0))
    assert release.main(["--only", "faults,bench"]) == INCOMPLETE
    report = json.loads((tmp_path / "report.json").read_text())
    states = {item["target"]: item["state"] for item in report["steps"]}
    assert [name for name, state in states.items() if state == "passed"] == ["faults", "bench"]
    assert states.keys() == {item.target for item in STEPS}
    lines = capsys.readouterr().out.splitlines()
    assert (
        len(lines) == len(STEPS) and sum("not selected" in line for line in lines) == len(STEPS) - 2
    )
    assert release.main([]) == PASSED
    with pytest.raises(SystemExit):
        release.main(["--only", "nothing"])


def test_the_list_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release, "run_step", lambda _: pytest.fail("it ran"))
    assert release.main(["--list"]) == PASSED
    assert len(capsys.readouterr().out.splitlines()) == len(STEPS)
