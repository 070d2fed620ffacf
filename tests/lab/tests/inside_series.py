"""Series of settings inside a lab, with real guards that are killed at random moments.

`python -m tests.lab.tests.inside_series KILLS [CDP]` prints JSON: how often a process was killed,
how often the tree was as before, how often `nftop recover` was needed, and what became of a foreign
writer's mask. Whom it kills, and after how many settings and milliseconds, is of a fixed seed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from nftop.control.backends import open_classes
from nftop.control.gate import BackendClassGate, open_gate
from nftop.control.gate_protocols import PendingSeries
from nftop.control.guard_client import recover
from nftop.control.journal import FileJournal
from nftop.control.resctrl.plan import propose
from nftop.control.series import CHECK_S
from nftop.model.change import (
    Action,
    Change,
    CreateMonitor,
    Proposal,
    SetIoWays,
    SetSchemata,
)
from nftop.model.ids import Cpu

TOP = Path("/sys/fs/resctrl")
NAMES = {"schemata", "cpus_list", "mode", "io_alloc"}
MASKS = (0x1, 0x3, 0x7, 0xF, 0x1F, 0x3F)


def tree() -> dict[str, str]:
    return {str(path): path.read_text() for path in sorted(TOP.rglob("*")) if path.name in NAMES}


def guards() -> list[int]:
    pids = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if command.endswith(b"nftop.control.guard_process\0"):
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                pids += [int(entry.name)] * (state != "Z")
        except OSError:
            pass
    return pids


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def begun(gate: BackendClassGate) -> PendingSeries:
    """A series of masks of `tenant` in both caches; where it can, of ways of I/O too.

    Every setting has a monitoring group of a CPU.
    """
    state, rules = gate.host.state(), gate.host.rules()
    lines = sorted(line for line in rules.masks if line.startswith("L3"))
    settings = list[tuple[Change, ...]]()
    for mask in MASKS:
        values = ((0, mask), (1, mask << 2))
        actions: list[Action] = [CreateMonitor("vpp", "nftop.s", (Cpu(2),))]
        actions += [SetSchemata("tenant", line, values) for line in lines]
        if rules.io_alloc is not None:
            actions.append(SetIoWays(enabled=True, values=values))
        settings.append(propose(state, rules, actions).changes)
    every = tuple(change for changes in settings for change in changes)
    proposal = Proposal(state, every, commands=("test",), identity=gate.host.identity)
    return gate.begin_series(proposal, settings)


def client() -> None:
    """Try settings until somebody ends this process."""
    series = begun(open_gate(open_classes()))
    assert series.receipt.outcome == "applied", series.receipt
    print("begun", flush=True)
    for number in range(100_000):
        receipt = series.try_setting(number % len(MASKS))
        if receipt.outcome != "applied":
            break
        print(number, flush=True)


def killed(random_: random.Random, before: dict[str, str]) -> bool:
    """Kill client, guard or both in the midst of a series; whether recovery was needed."""
    command = [sys.executable, "-m", "tests.lab.tests.inside_series", "client"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as nftop:
        assert nftop.stdout is not None
        for _ in range(1 + random_.randrange(len(MASKS))):
            assert nftop.stdout.readline()
        time.sleep(random_.random() * 0.02)
        victims = random_.choice(("client", "guard", "both"))
        pids = guards() if victims != "client" else []
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        if victims != "guard":
            nftop.kill()
        nftop.stdout.read()
        nftop.wait()
    wait(lambda: not guards())
    receipt = recover(FileJournal())
    assert tree() == before, (victims, receipt)
    return receipt is not None


def foreign(gate: BackendClassGate, path: str) -> list[object]:
    """Another program writes a mask of its own: it stays, and the series ends."""
    before = tree()
    series = begun(gate)
    first = series.try_setting(2).outcome
    file = TOP / path / "schemata"
    line = file.read_text().split()[-1].partition(":")[0]
    file.write_text(f"{line}:0=7c0\n")
    ended = series.settled(CHECK_S * 30)
    assert ended is not None
    wait(lambda: not guards())
    theirs = "0=7c0" in file.read_text()
    same = {key: text for key, text in tree().items() if key != str(file)}
    as_before = same == {key: text for key, text in before.items() if key != str(file)}
    return [first, ended.outcome, theirs, as_before, series.try_setting(1).outcome == ended.outcome]


def make_classes(*, cdp: bool) -> None:
    """Classes `vpp` and `tenant` with CPUs."""
    if cdp:
        subprocess.run(["umount", TOP], check=True)
        subprocess.run(["mount", "-t", "resctrl", "-o", "cdp", "resctrl", TOP], check=True)
    for name, cpus in (("vpp", "1-3"), ("tenant", "4-5")):
        TOP.joinpath(name).mkdir()
        (TOP / name / "cpus_list").write_text(f"{cpus}\n")


def main(kills: int, *, cdp: bool) -> None:
    make_classes(cdp=cdp)
    before, gate = tree(), open_gate(open_classes())
    # Whole, once; meanwhile nobody else can begin.
    series = begun(gate)
    whole: list[str] = [series.try_setting(number).outcome for number in (3, 0, 5)]
    busy = begun(gate).receipt.outcome
    whole += [busy, series.end().outcome, str(tree() == before)]
    random_ = random.Random(20)
    recovered = sum(killed(random_, before) for _ in range(kills))
    silent = begun(gate)
    silent.try_setting(1)
    last = silent.settled(120)
    quiet = [last is not None and last.outcome, tree() == before]
    strangers = [foreign(gate, path) for path in ("vpp", "tenant")]
    print(json.dumps([whole, kills, recovered, quiet, strangers]))


if __name__ == "__main__":
    if sys.argv[1] == "client":
        client()
    else:
        main(int(sys.argv[1]), cdp="cdp" in sys.argv[2:])
