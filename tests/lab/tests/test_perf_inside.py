"""Programs in labs of their own; what they assert is in `inside`."""

from __future__ import annotations

import sys

import pytest

from tests.lab.tests import inside
from tests.lab.tests.events import CPUS
from tests.lab.tests.labs import enter, needs_lab

pytestmark = needs_lab


@pytest.mark.parametrize("program", sorted(inside.PROGRAMS))
def test_it_sees_what_it_should(program: str) -> None:
    ran = enter(
        *("--model", "skx-4", "--cpus", str(CPUS), "--"),
        *(sys.executable, "-m", "tests.lab.tests.inside", program),
    )
    assert (ran.returncode, ran.stderr) == (0, "")
