"""Descriptors run out while nftop runs: numbers that need one have a reason, and come back."""

from __future__ import annotations

import ast
import json
import os
import re
import resource
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

import nftop
from tests.command import NFTOP, PATIENCE_S
from tests.recordings import everything, ticks_of
from tests.ui.test_terminal import terminal
from tests.waiting import until

_LIMIT = (
    "import os, resource, sys; n = int(sys.argv[1]); "
    "resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)); os.execv(sys.argv[2], sys.argv[2:])"
)
# Every screen and page, an edit with its preview, an experiment: what a session may open late.
_ESC = "\x1b"
_WALK = (
    "2", "\r", "\r", "o", "w", _ESC, "M", _ESC, "3", "\r", _ESC, "v", "4", "5", "H", "6", "t", "Y",
    _ESC, "7", "1", "\t", _ESC, "x", _ESC, "F", _ESC, "?", _ESC, "\x1b[20~", _ESC, ":", _ESC, "s",
    _ESC, "c", _ESC, "/", "vpp\r", "y", "b", "R", "m", "[", "{", "}", "S", "10:00\r", "+", _ESC,
    "T", _ESC, "e", "+", "\r", "y", "U", _ESC,
)  # fmt: skip
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
        [*command, "--json"],
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    errors = done.stderr.decode()
    assert "Traceback" not in errors, errors
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode == 0:
        assert len(frames) == 2 and errors == ""
    else:
        assert len(errors.splitlines()) == 1, errors


def test_a_server_without_descriptors_folds_on() -> None:
    """It has none from its first frame on, so all that frames need is imported before."""
    command = [*NFTOP, "demo", "--cpus", "16", "-d", "0.1", "serve", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            url = server.stderr.readline().split()[-1]
            process = psutil.Process(server.pid)
            with exhausted(server.pid):
                began_s = process.cpu_times().user
                until(lambda: server.poll() is not None or process.cpu_times().user > began_s + 0.5)
            assert server.poll() is None, server.stderr.read()
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as page:
                assert b"nftop_nf_" in page.read()
        finally:
            server.terminate()
            assert server.stderr.read() == ""
    assert server.returncode == 0


def test_a_screen_without_descriptors_opens_every_page(tmp_path: Path) -> None:
    folders = {"XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    command = [*NFTOP, "demo", "--cpus", "16", "-d", "0.2"]
    with terminal("", (120, 40), command=command, environ=folders) as term:
        assert term.eventually(lambda: "dpdk-worker" in term.text)
        # After the first frame it imports what the pages need, which takes a fraction of this.
        times = psutil.Process(term.child.pid).cpu_times
        began_s = times().user
        assert term.eventually(lambda: times().user > began_s + 0.3)
        with exhausted(term.child.pid):
            for key in _WALK:
                # One after the other: what follows Esc at once is a key of its own to a terminal.
                pause = time.monotonic() + 0.3
                os.write(term.master, key.encode())
                assert term.eventually(lambda end=pause: time.monotonic() > end)  # type: ignore[misc]
            assert term.child.poll() is None, term.text
        os.write(term.master, b"\x03")
        assert term.end() == 0
    assert b"Traceback" not in term.raw


def test_a_screen_with_few_descriptors_goes_on_after_all_is_imported(tmp_path: Path) -> None:
    """Imports and reads after the first frame use reserved descriptors."""
    command = [sys.executable, "-c", _LIMIT, "24", *NFTOP, "-d", "0.2"]
    folders = {"XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    with terminal("", (120, 40), command=command, environ=folders) as term:
        clocks = set[str]()

        def goes_on() -> bool:
            clocks.update(re.findall(r"\d\d:\d\d:\d\dZ", term.text))
            return len(clocks) > 3

        assert term.eventually(goes_on) and term.child.poll() is None, term.text
        os.write(term.master, b"?")  # a page that is imported late
        assert term.eventually(lambda: "quit" in term.text and "LIVE" not in term.text), term.text
        os.write(term.master, b"\x03")
        assert term.end() == 0
    assert b"Traceback" not in term.raw


def test_nothing_of_numpy_is_imported_late() -> None:
    """`np.fft` is imported at first use, `np.ma` for a quantile: no descriptor may be left then."""
    late = {"core", "ctypeslib", "fft", "f2py", "ma", "polynomial", "random", "testing"}
    late |= {f"{nan}{name}" for nan in ("", "nan") for name in ("median", "percentile", "quantile")}
    uses = [
        f"{path}:{node.lineno}"
        for path in Path(nftop.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in {("np", name) for name in late}
    ]
    assert uses == []
