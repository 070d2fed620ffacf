"""What runs in a Debian sid, where the kernel's module is: `python -m tests.real.inside_sid NAME`.

Each raises where it sees something else. Standard library and numpy only, besides nftop.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nftop.model.column import column
from nftop.model.sample import CounterTable
from nftop.sources.perf.problems import CounterProblem
from nftop.sources.perf.source import PerfSource
from nftop.sources.pyperf.metrics import find_metrics
from nftop.sources.pyperf.module import load_module
from nftop.sources.pyperf.source import choose
from nftop.uarch.formula import compile_formula
from nftop.uarch.kernel_metrics import nodes
from nftop.uarch.table import load

_CLOCK = Path("/sys/fs/lab/live/ctl/clock")


def _read(source: Any) -> CounterTable:
    table = source.read()
    assert isinstance(table, CounterTable), table
    return table


def _all_switches() -> int:
    lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("ctxt "))


def _counts(table: CounterTable, event: str) -> NDArray[np.int64]:
    return table.values[:, table.events.index(event)].astype(np.int64)


def bracketed() -> None:
    """Counts between two reads lie between those of other counters read inside and around."""
    own = PerfSource()
    module = choose("python-perf", own, load(), quiet_cpus=()).source
    for item in (own, module):
        _read(item)
    readings = []
    for at in range(2):
        outer, total = _read(own), _all_switches()
        counted = _read(module)
        inner, inner_total = _read(own), _all_switches()
        readings.append((outer, total, counted, inner, inner_total))
        if at == 0:
            for _ in range(500):
                time.sleep(0.001)
    first, last = readings
    for event in ("context_switches", "tsc"):
        mine = _counts(last[2], event) - _counts(first[2], event)
        least = _counts(last[0], event) - _counts(first[3], event)
        most = _counts(last[3], event) - _counts(first[0], event)
        print(event, "least", least, "python-perf", mine, "most", most)
        assert (least > 0).all()
        assert (least <= mine).all()
        assert (mine <= most).all()
        if event == "context_switches":
            print("/proc/stat", last[1] - first[4], mine.sum(), last[4] - first[1])
            assert last[1] - first[4] <= mine.sum() <= last[4] - first[1]


def formulas() -> None:
    """nftop's reading of perf's formulas against evlist.compute_metric, on the same events."""
    module: Any = load_module()
    assert not isinstance(module, CounterProblem), module
    result = find_metrics(module)
    assert set(result.formulas) == set(nodes()), result.absent
    known = {row["MetricName"] for row in module.metrics()}
    names = {
        metric: next(name for name in spellings if name in known)
        for metric, spellings in nodes().items()
    }
    events = module.parse_metrics(",".join(names.values()))
    for event in events:
        event.read_format = 3
    events.open()
    events.enable()
    _CLOCK.write_text("freeze", encoding="ascii")  # so that all is read at one time
    for event in events:
        event.read(1, -1)  # both then tell of the time since
    _CLOCK.write_text("step 1", encoding="ascii")
    theirs = {metric: events.compute_metric(name, 1, -1) for metric, name in names.items()}
    counts = {}
    for event in events:
        shown = str(event).partition("/")[2].removesuffix("/)")
        requests = next(name for name, term in result.events.items() if f"/{shown}," in term)
        read = event.read(1, -1)
        counts[requests] = column(np.array([read.val / read.run]))
    events.close()
    for metric, text in result.formulas.items():
        ours = compile_formula(text)(counts, 1)[0]
        print(metric, ours, theirs[metric])
        assert isinstance(ours, float)
        assert (
            abs(ours - theirs[metric]) < 0.005
        )  # compute_metric leaves out the times of the counts


CHECKS: dict[str, Callable[[], None]] = {"bracketed": bracketed, "formulas": formulas}

if __name__ == "__main__":
    CHECKS[sys.argv[1]]()
