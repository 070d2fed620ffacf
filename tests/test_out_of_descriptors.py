"""Descriptors run out while nftop runs: numbers that need one have a reason, and come back."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.command import NFTOP, PATIENCE_S
from tests.recordings import everything, ticks_of
from tests.waiting import until

_LIMIT = (
    "import os, resource, sys; n = int(sys.argv[1]); "
    "resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)); os.execv(sys.argv[2], sys.argv[2:])"
)
# Frames that are read before, while and after there are none left.
_FRAMES = 8


@contextmanager
def exhausted(pid: int) -> Iterator[None]:
    """The process can open nothing more inside."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def states(frame: dict[str, Any]) -> dict[str, str]:
    return {name: item["state"] for name, item in frame["sources"].items()}


def test_live_frames_come_on_and_sources_are_back() -> None:
    command = [*NFTOP, "--batch", "-n", "100000", "-d", "0.1", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as nftop:
        assert nftop.stdout is not None and nftop.stderr is not None
        try:
            frames = [json.loads(nftop.stdout.readline()) for _ in range(_FRAMES)]
            known = states(frames[-1])
            with exhausted(nftop.pid):
                during = [json.loads(nftop.stdout.readline()) for _ in range(3 * _FRAMES)]
            for frame in during[_FRAMES:]:
                for cpu in frame["cpus"]:
                    # What is not there has a reason.
                    assert cpu["busy_ratio"] is not None or cpu["missing"]["busy_ratio"]
            back: dict[str, str] = {}

            def is_back() -> bool:
                assert nftop.stdout is not None
                back.update(states(json.loads(nftop.stdout.readline())))
                return all(back[name] == state for name, state in known.items() if state == "ok")

            until(is_back)
        finally:
            nftop.terminate()
            nftop.stdout.read()
            errors = nftop.stderr.read().decode()
    assert errors == ""


def test_a_recording_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "edge.nftop"
    command = [*NFTOP, "record", "-o", str(path), "-d", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as nftop:
        try:
            until(lambda: path.exists() and len(ticks_of(everything(path)[0])) > _FRAMES)
            with exhausted(nftop.pid):
                count = len(ticks_of(everything(path)[0]))
                until(lambda: len(ticks_of(everything(path)[0])) > count + _FRAMES)
        finally:
            nftop.terminate()
            _, errors = nftop.communicate(timeout=PATIENCE_S)
    assert b"Traceback" not in errors
    items, ended, rest = everything(path)
    assert ended and rest is None
    numbers = [item.number for item in ticks_of(items)]
    assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("limit", [*range(7, 32, 3), 40, 64])
def test_a_start_with_few_descriptors_is_whole_or_one_line(limit: int, tmp_path: Path) -> None:
    """Never a traceback, and never a frame that is not JSON."""
    command = [sys.executable, "-c", _LIMIT, str(limit), *NFTOP, "--batch", "-n", "2", "-d", "0.1"]
    done = subprocess.run(
        [*command, "--json"], capture_output=True, timeout=PATIENCE_S, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )  # fmt: skip
    errors = done.stderr.decode()
    assert "Traceback" not in errors, errors
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode == 0:
        assert len(frames) == 2 and errors == ""
    else:
        assert len(errors.splitlines()) == 1, errors
