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
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nftop.cli.commands import sweep
from nftop.cli.compose.accelerated import accelerated_host
from nftop.cli.main import build_parser, run
from nftop.control.backends import open_classes
from nftop.control.gate import open_gate
from nftop.control.guard_client import recover
from nftop.control.journal import FileJournal
from nftop.model.struct import replace
from tests.lab.tests.inside_series import TOP, guards, make_classes, tree, wait

VISITS = 7  # the baseline, and three rounds of two
QUICK = "--watch vpp --rounds 3 --measure 8 --seed 20 --yes".split()
MASKS = ["--{}={}={}".format(*item) for item in (("l3", 0, 3), ("l3", 1, 7))]
LIMITS = ["--most-cpp", "1000", "--most-drops", "1e12"]


def client(words: list[str]) -> int:
    """`nftop cat try` with these words; the frames are those of the simulated host."""
    options = build_parser(demo=True).parse_args("--scenario noisy --cpus 24 cat show".split())
    host = accelerated_host(options, pause_s=0.02)
    gate = open_gate(open_classes())
    real = replace(host, gate=gate, accelerated=False)
    sweep._opened = lambda *_: real
    return run(["cat", "try", *words, *QUICK, *LIMITS])


@contextmanager
def trial(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.lab.tests.inside_try", "client", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as nftop:
        yield nftop


def after_visits(nftop: subprocess.Popen[str], count: int) -> None:
    """Return once so many visits, the baseline among them, are measured."""
    assert nftop.stdout is not None
    text = ""
    while count:
        line = nftop.stdout.readline()
        text += line
        assert line, text
        count -= line.startswith(("baseline ", "round "))


def ended(nftop: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and the rest of what it prints."""
    assert nftop.stdout is not None
    text = nftop.stdout.read()
    code = nftop.wait()
    wait(lambda: not guards())
    return code, text


def killed(random_: random.Random, before: dict[str, str], words: list[str]) -> bool:
    """Kill nftop, guard or both in the midst of a trial; whether recovery was needed."""
    victims = random_.choice(("nftop", "guard", "both"))
    with trial(words) as nftop:
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


def foreign(words: list[str], file: Path) -> list[object]:
    """Another program writes a mask: the trial ends, his value stays, all else is as before."""
    before, text = tree(), file.read_text()
    line = text.split()[-1].partition(":")[0]
    with trial(words) as nftop:
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
    before = tree()
    whole = []
    for wish in wishes:
        with trial(wish) as nftop:
            code, text = ended(nftop)
            whole.append([code, text.count("round "), tree() == before])
    with trial(wishes[-1]) as nftop:
        after_visits(nftop, 3)
        nftop.send_signal(signal.SIGINT)
        stopped = [ended(nftop)[0], tree() == before]
    random_ = random.Random(20)
    recovered = sum(killed(random_, before, random_.choice(wishes)) for _ in range(kills))
    strangers = [foreign(words, TOP / name / "schemata") for name in ("vpp", "tenant")]
    print(json.dumps([whole, stopped, kills, recovered, strangers]))


if __name__ == "__main__":
    if sys.argv[1] == "client":
        sys.exit(client(sys.argv[2:]))
    main(int(sys.argv[1]), cdp="cdp" in sys.argv[2:])
