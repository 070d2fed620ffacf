"""Programs in a lab, one after the other; what they assert is in `inside`."""

from __future__ import annotations

import sys

from tests.lab.tests import inside
from tests.lab.tests.events import CPUS
from tests.lab.tests.labs import enter, needs_lab

pytestmark = needs_lab
_ITEM = 'run=$1; shift; for each; do "$run" -m tests.lab.tests.inside $each || echo $each; done'


def test_programs_see_what_they_should() -> None:
    lab = ("--model", "skx-4", "--cpus", str(CPUS), "--")
    ran = enter(*lab, "sh", "-c", _ITEM, "sh", sys.executable, *inside.PROGRAMS)
    assert (ran.stdout, ran.stderr) == ("", "")
