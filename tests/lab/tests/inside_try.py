"""`nftop cat try` inside a lab: its gate, guard and journal, on frames of the simulated host.

`python -m tests.lab.tests.inside_try KILLS [CDP]` prints JSON, as `inside_series` does for series.
A lab has no network functions, so what is watched is the simulated host's `vpp`, on a stepped
clock; all that is written is the lab's resctrl.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO

from nftop.cli.commands import sweep
from nftop.cli.compose.accelerated import accelerated_host
from nftop.cli.main import build_parser, run
from nftop.control.backends import open_classes
from nftop.control.gate import open_gate
from nftop.control.guard_client import recover
from nftop.control.journal import FileJournal
from nftop.model.frame import Frame
from nftop.session.experiment import ExperimentHost
from tests.lab.tests.inside_series import TOP, guards, make_classes, tree, wait

VISITS = 7  # the baseline, and three rounds of two
QUICK = "--watch vpp --rounds 3 --measure 8 --seed 20 --yes".split()
MASKS = ["--{}={}={}".format(*item) for item in (("l3", 0, 3), ("l3", 1, 7))]
# Of a trial that settles at once: the first, the baseline, and the rounds.
_FRAMES = 92
_PAUSE_S = 0.02
LIMITS = ["--most-cpp", "1000", "--most-drops", "1e12"]


class Frames:
    """Frames of the simulated host, made once for all trials; without the lab's classes."""

    def __init__(self) -> None:
        options = build_parser(demo=True).parse_args("--scenario noisy --cpus 24 cat show".split())
        self._host = accelerated_host(options)
        self._ready = [(next(self._host.frames), self._host.now_ns()) for _ in range(_FRAMES)]
        self._now_ns = 0
        self._stopped = threading.Event()

    def host(self) -> ExperimentHost:
        """The host of one trial, with the lab's classes."""
        gate = open_gate(open_classes())
        return ExperimentHost(self._frames(), gate, self._stopped.set, lambda: self._now_ns)

    def _frames(self) -> Generator[Frame, None, None]:
        further = ((frame, self._host.now_ns()) for frame in self._host.frames)
        for frame, now_ns in chain(self._ready, further):
            if self._stopped.is_set():
                break
            self._now_ns = now_ns
            yield frame
            self._stopped.wait(_PAUSE_S)


@dataclass
class Trial:
    """A process in which `nftop cat try` runs, and what it prints."""

    pid: int
    stdout: IO[str]
    code: int | None = None

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code


@contextmanager
def trial(frames: Frames, words: list[str]) -> Iterator[Trial]:
    """`nftop cat try` with these words, in a process of its own."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            for fd in (1, 2):
                os.dup2(theirs, fd)
            os.close(ours)
            os.close(theirs)
            sweep._opened = lambda *_: frames.host()
            code = run(["cat", "try", *words, *QUICK, *LIMITS])
        except BaseException:  # noqa: BLE001 - the end of the process
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    os.close(theirs)
    with os.fdopen(ours) as stdout:
        nftop = Trial(pid, stdout)
        try:
            yield nftop
            nftop.wait()
        finally:
            if nftop.code is None:
                nftop.kill()
                nftop.wait()


def after_visits(nftop: Trial, count: int) -> None:
    """Return once so many visits, the baseline among them, are measured."""
    text = ""
    while count:
        line = nftop.stdout.readline()
        text += line
        assert line, text
        count -= line.startswith(("baseline ", "round "))


def ended(nftop: Trial) -> tuple[int, str]:
    """Exit code and the rest of what it prints."""
    text = nftop.stdout.read()
    code = nftop.wait()
    wait(lambda: not guards())
    return code, text


def killed(
    random_: random.Random, before: dict[str, str], frames: Frames, words: list[str]
) -> bool:
    """Kill nftop, guard or both in the midst of a trial; whether recovery was needed."""
    victims = random_.choice(("nftop", "guard", "both"))
    with trial(frames, words) as nftop:
        after_visits(nftop, random_.randrange(1, VISITS))
        time.sleep(random_.random() * 0.05)
        for pid in guards() if victims != "nftop" else []:
            os.kill(pid, signal.SIGKILL)
        if victims != "guard":
            nftop.kill()
        ended(nftop)
    receipt = recover(FileJournal())
    assert tree() == before, (victims, receipt)
    return receipt is not None


def masks(text: str) -> dict[tuple[str, int], int]:
    """Masks of a schemata file by line and cache; limits of bandwidth as if they were."""
    rows = (line.strip().partition(":") for line in text.splitlines())
    return {
        (name, int(l3)): int(bits, 16)
        for name, _, values in rows
        for l3, _, bits in (item.partition("=") for item in values.split(";"))
    }


def foreign(frames: Frames, words: list[str], file: Path) -> list[object]:
    """Another program writes a mask: the trial ends, his value stays, all else is as before."""
    before, text = tree(), file.read_text()
    line = text.split()[-1].partition(":")[0]
    with trial(frames, words) as nftop:
        after_visits(nftop, 3)
        file.write_text(f"{line}:0=7c0\n")
        code, _ = ended(nftop)
    kept = masks(file.read_text()) == masks(text) | {(line, 0): 0x7C0}
    rest = {key: value for key, value in tree().items() if key != str(file)}
    as_before = rest == {key: value for key, value in before.items() if key != str(file)}
    return [code, kept, as_before]


def main(kills: int, *, cdp: bool) -> None:
    make_classes(cdp=cdp)
    words = ["--group", "tenant", *MASKS]
    if cdp:
        both = [item.replace("l3", line) for line in ("l3code", "l3data") for item in MASKS]
        words = ["--group", "tenant", *both]
    io = (TOP / "info/L3/io_alloc").exists() or (TOP / "info/L3DATA/io_alloc").exists()
    wishes = [words, ["--io", "--l3=0=600"]] if io else [words]
    before, frames = tree(), Frames()
    whole = []
    for wish in wishes:
        with trial(frames, wish) as nftop:
            code, text = ended(nftop)
            whole.append([code, text.count("round "), tree() == before])
    with trial(frames, wishes[-1]) as nftop:
        after_visits(nftop, 3)
        nftop.kill(signal.SIGINT)
        stopped = [ended(nftop)[0], tree() == before]
    random_ = random.Random(20)
    recovered = sum(killed(random_, before, frames, random_.choice(wishes)) for _ in range(kills))
    strangers = [foreign(frames, words, TOP / name / "schemata") for name in ("vpp", "tenant")]
    print(json.dumps([whole, stopped, kills, recovered, strangers]))


if __name__ == "__main__":
    main(int(sys.argv[1]), cdp="cdp" in sys.argv[2:])
