"""How the cost of a tick grows with the number of CPUs."""

from __future__ import annotations

import time

from tests.bench.drawing import screen_ticks
from tests.bench.report import Reached, median
from tests.bench.scenes import Clocked, shaken

_CPUS, _WARM, _TICKS, _SIZE = (2, 16, 64, 512), 5, 25, (120, 36)


def main() -> list[Reached]:
    """Print the table; it has no target of its own."""
    print(f"CPU ms a tick by CPUs; the screen is {_SIZE[0]}x{_SIZE[1]} with every value changing")
    print(f"{'CPUs':>6}{'NFs':>6}{'simulator':>11}{'derive':>8}{'draw':>7}")
    for cpus in _CPUS:
        clocked = Clocked(cpus)
        reads, folds, nfs = [], [], 0
        for _ in range(_WARM + _TICKS):
            began = time.process_time()
            sample = clocked.sample()
            read = time.process_time()
            nfs = len(clocked.fold(sample).nfs)
            reads.append(read - began)
            folds.append(time.process_time() - read)
        drawn = screen_ticks(shaken(cpus, 30), _SIZE).cpu_s
        costs = (median(reads[_WARM:]), median(folds[_WARM:]), drawn)
        print(
            f"{cpus:>6}{nfs:>6}"
            + "".join(f"{1e3 * s:>{w}.2f}" for s, w in zip(costs, (11, 8, 7), strict=True))
        )
    print()
    return []
