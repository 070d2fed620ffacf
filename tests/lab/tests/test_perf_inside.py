"""Programs on the stage, each in its own; what they assert is in `inside`."""

from __future__ import annotations

import sys

import pytest

from tests.lab.tests import inside, staged

pytestmark = pytest.mark.skipif(bool(staged.missing()), reason=staged.missing())


@pytest.mark.parametrize("program", sorted(inside.PROGRAMS))
def test_it_sees_what_it_should(program: str) -> None:
    ran = staged.run("skx-4", sys.executable, "-m", "tests.lab.tests.inside", program)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -9 $$"], 128 + 9),
        (["/nonesuch"], 127),
        (["/proc/self/status"], 126),
    ],
)
def test_exit_codes_are_a_shells(command: list[str], code: int) -> None:
    assert staged.run("skx-4", *command).returncode == code
