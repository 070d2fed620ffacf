"""Coverage of top-down, by a clock that only this program moves.

`python -m tests.lab.tests.inside_coverage UARCH CPU` prints JSON: by name, what level 1 of that
CPU's core and both coverages are once every group has had its turn.
"""

from __future__ import annotations

import json
import sys

from tests.lab.tests.inside_trials import Ticks

TICKS = 10
SHOWN = (
    "frontend_bound",
    "bad_speculation",
    "backend_bound",
    "retiring",
    "coverage",
    "level_2_coverage",
)


def main(uarch: str, cpu: int) -> None:
    ticks = Ticks(cpu, uarch)
    rates = [ticks.tick()[1] for _ in range(TICKS)][-1]
    top_down = ticks.top_down(rates)
    ticks.source.close()
    print(json.dumps({name: top_down[name] for name in SHOWN}, default=str))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
