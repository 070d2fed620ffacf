"""Every kind of change, with real guards: whoever is killed and when, nothing is left half done.

`NFTOP_KILLS=1000` kills so often (`make kills`).
"""

from __future__ import annotations

import json
import os
import random
import sys

import pytest

from tests.lab.tests.labs import enter, needs_lab

pytestmark = needs_lab
KILLS = int(os.environ.get("NFTOP_KILLS", "24"))
_KILL_S = 30.0  # at most, on a busy machine
# Options of the lab, and the share of the kills there.
LABS = {
    "classes": (("--model", "spr", "--io-alloc", "--kernel", "7.2", "--cpus", "16"), 0.6),
    "frequencies": (("--model", "clx-n", "--cpus", "8"), 0.25),
    "sst": (("--model", "icx", "--cpus", "8"), 0.15),
}


@pytest.mark.parametrize("name", LABS)
def test_a_change_is_whole_or_absent_after_any_kill(name: str) -> None:
    options, share = LABS[name]
    kills, seed = max(1, round(KILLS * share)), random.SystemRandom().randrange(1 << 31)
    run = (sys.executable, "-m", "tests.lab.tests.inside_kills", name, str(kills), str(seed))
    done = enter(*options, "--", *run, timeout_s=300 + kills * _KILL_S)
    assert done.returncode == 0, (seed, done.stderr)
    counts = json.loads(done.stdout)
    print(f"{name}, seed {seed}: {counts}")
    assert sum(row["kills"] for row in counts.values()) == kills
    assert all(row["recovered"] + row["kept"] <= 2 * row["kills"] for row in counts.values())
