"""What holds for every test: how long one takes says nothing of what it tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Started in the background or by nohup they are ignored, and so they would be in what tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Hypothesis fails an example that takes longer than 200 ms, as any does that the machine stops in.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# Thousands of child processes import nftop; without cached bytecode each compiles 500 modules.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# As nftop has it: a pool of threads that numpy starts spins, here and in thousands of programs.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


_TESTS = Path(__file__).parent
# Files whose tests take seconds each.
_SLOW = ("docs", "lab", "real", "session", "ui/test_terminal.py", "ui/test_clicks.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `matrix` are for `make matrix` only.

    Slow files come first in each worker, and each has its share of them.

    Workers begin with equal runs of the list. In the order of their names all files of the lab
    were one worker's, which was busy for minutes when the others had nothing left.
    """
    if os.environ.get("NFTOP_MATRIX") != "1":
        spared = [item for item in items if item.get_closest_marker("matrix") is not None]
        config.hook.pytest_deselected(items=spared)
        items[:] = [item for item in items if item.get_closest_marker("matrix") is None]
    for path in {item.path for item in items if item.get_closest_marker("alone") is not None}:
        # Else the second half would not collect it.
        assert "mark.alone" in path.read_text(encoding="utf-8"), path
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    slow = [path for path in files if any(map(path.relative_to(_TESTS).is_relative_to, _SLOW))]
    rest = [item for path, tests in files.items() if path not in slow for item in tests]
    dealt: list[pytest.Item] = []
    for worker in range(workers):
        dealt += [item for path in slow[worker::workers] for item in files[path]]
        room = len(items) * (worker + 1) // workers - len(dealt)
        room = max(0, room) if worker < workers - 1 else len(rest)
        dealt += rest[:room]
        rest = rest[room:]
    items[:] = dealt


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m alone`, skip files without that mark."""
    if config.getoption("markexpr") != "alone" or not collection_path.match("test_*.py"):
        return None
    return True if "mark.alone" not in collection_path.read_text(encoding="utf-8") else None


def pytest_collection_finish() -> None:
    """The 350,000 objects of the tests themselves are garbage never: a collection skips them.

    Others are collected after every 20,000 new ones instead of 700: a sixth of the CPU time of a
    test of the screen was collections.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 5, 5)
