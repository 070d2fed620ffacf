"""A program in a fork sees what it sees in an interpreter of its own, and ends as it does there."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.lab.tests.labs import ROOT

_LOOK = """
import atexit, json, os, signal, sys, threading
atexit.register(lambda: print("the end"))
main = threading.main_thread()
threading.Thread(target=lambda: (main.join(), print("a thread"))).start()
handlers = [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
names = [__name__, sys.modules["__main__"].__dict__ is globals(), open("/proc/self/comm").read()]
print(json.dumps([sys.argv, names, handlers, os.listdir("/proc/self/fd"), sys.stdout.encoding]))
"""
# Runs each command, with a descriptor open that it is not to see.
_RUNS = """
import json, os, sys
from tests.lab.tests import warm
handle = os.open("/dev/null", os.O_RDONLY)
codes = [warm.run(command) for command in json.loads(sys.argv[1])]
print(json.dumps(codes))
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_sees_the_same() -> None:
    words = ("-c", _LOOK, "one", "two words")
    forked = run("-c", _RUNS, json.dumps([[sys.executable, *words]]))
    *lines, codes = forked.stdout.splitlines()
    assert (json.loads(codes), forked.stderr) == ([0], "")
    assert lines == run(*words).stdout.splitlines()
    assert lines[1:] == ["a thread", "the end"]


@pytest.mark.parametrize(
    "text",
    [
        "raise SystemExit(3)",
        "raise SystemExit('a sentence')",
        "raise SystemExit",
        "1 / 0",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    ],
)
def test_it_ends_the_same(text: str) -> None:
    forked = run("-c", _RUNS, json.dumps([[sys.executable, "-c", text], ["true"]]))
    alone = run("-c", text)
    assert json.loads(forked.stdout) == [alone.returncode, 0]
    assert forked.stderr.splitlines()[-1:] == alone.stderr.splitlines()[-1:]


def test_a_module_is_main() -> None:
    words = [sys.executable, "-m", "nftop", "--version"]
    forked = run("-c", _RUNS, json.dumps([words]))
    assert forked.stdout.splitlines() == [*run(*words[1:]).stdout.splitlines(), "[0]"]
    assert forked.stderr == ""
