"""Changes of every kind inside a lab, while nftop, its guard or both are killed at random moments.

`python -m tests.lab.tests.inside_kills HOST KILLS SEED` prints JSON: by kind of change how often
something was killed, how often that left a change in the journal, and how often it was kept.
A real guard makes each change. After it the host is as before or wholly changed, as the journal
says; where recovery is killed as well, the next one completes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nftop.control.gate import HostGate, open_host_gate
from nftop.control.guard_client import recover
from nftop.control.journal import FileJournal
from nftop.control.profile.formats import parse
from nftop.control.profile.validate import fit
from nftop.model.change import (
    Action,
    CreateGroup,
    CreateMonitor,
    MoveCpus,
    MoveTasks,
    PinCpus,
    PinEvery,
    Proposal,
    ReleaseCpus,
    RemoveGroup,
    SetCpClass,
    SetIoWays,
    SetSchemata,
    SwitchBf,
)
from nftop.model.ids import Cpu
from nftop.sources.host.topology import read_topology
from tests.isst.tool import Domain, Tool, install, load
from tests.isst.tool import State as ToolState
from tests.lab.tests.inside_series import guards, wait

_RESCTRL, _CPUFREQ = Path("/sys/fs/resctrl"), Path("/sys/devices/system/cpu/cpufreq")
_FILES = {"schemata", "cpus_list", "mode", "io_alloc", "io_alloc_cbm", "tasks", "scaling_governor",
          "energy_performance_preference", "scaling_min_freq", "scaling_max_freq"}  # fmt: skip
_PROFILE = """
schema = "nftop.profile/1"
[[class]]
group = "vpp"
l3 = "3f0"
cpus = "1-2"
[[class]]
group = "nftop.batch"
l3 = "3"
cpus = "6-7"
"""
# A guard is killed while it recovers, in one of so many cases.
_AGAIN = 3
_KEEP_S = 600.0


@dataclass
class Host:
    """The lab: what its files say, and the changes that can be made there."""

    tool: Path | None = None
    sleeper: int = 0

    def tree(self) -> dict[str, str]:
        """All that a change may change; of the root group no threads, which come and go."""
        paths = [*_RESCTRL.rglob("*"), *_CPUFREQ.rglob("*")]
        result = {}
        for path in sorted(paths):
            if path.name in _FILES and not (path.name == "tasks" and path.parent == _RESCTRL):
                try:
                    result[str(path)] = path.read_text()
                except OSError as error:
                    result[str(path)] = str(error.errno)
        if self.tool is not None:
            state = load(self.tool).state
            result["sst"] = repr(
                ([item.bf for item in state.domains], sorted(state.classes.items()))
            )
        return result


def class_kinds(host: Host) -> dict[str, Sequence[Action]]:
    return {
        "masks": [
            SetSchemata("vpp", "L3", ((0, 0xF), (1, 0x3F))),
            SetSchemata("tenant", "L3", ((0, 0xF0),)),
            SetSchemata("/", "MB", ((1, 40),)),
        ],
        "CPUs": [MoveCpus((Cpu(1), Cpu(0)), "tenant"), MoveCpus((Cpu(4),), "vpp")],
        "threads": [MoveTasks((host.sleeper,), "vpp")],
        "a new group": [
            CreateGroup("nftop.batch"),
            SetSchemata("nftop.batch", "L3", ((0, 3),)),
            MoveCpus((Cpu(1), Cpu(6)), "nftop.batch"),
            CreateMonitor("nftop.batch", "nftop.x", (Cpu(6),)),
            MoveTasks((host.sleeper,), "nftop.batch"),
        ],
        "a removed group": [RemoveGroup("nftop.old")],
        "monitors": [CreateMonitor("vpp", "nftop.y", (Cpu(1), Cpu(2)))],
        "ways of I/O": [SetIoWays(True, ((0, 0x600), (1, 0x600)))],
    }


FREQUENCY_KINDS: dict[str, Sequence[Action]] = {
    "pinned CPUs": [PinCpus((Cpu(1), Cpu(2)))],
    "pinned by SST-BF": [PinEvery("bf")],
    "released CPUs": [ReleaseCpus((Cpu(1), Cpu(2), Cpu(3)))],
}
SST_KINDS: dict[str, Sequence[Action]] = {
    "SST-BF": [SwitchBf(True)],
    "SST-CP": [SetCpClass((Cpu(0), Cpu(1)), 1)],
}


def make_classes() -> Host:
    """Classes `vpp` and `tenant` with CPUs, and a thread of nobody's."""
    for name, cpus in (("vpp", "1-3"), ("tenant", "4-5"), ("nftop.old", "8")):
        (_RESCTRL / name).mkdir()
        (_RESCTRL / name / "cpus_list").write_text(f"{cpus}\n")
    return Host(sleeper=subprocess.Popen(["sleep", "100000"]).pid)


def make_frequencies() -> Host:
    (_CPUFREQ / "policy3/scaling_min_freq").write_text("1200000")
    return Host()


def make_sst() -> Host:
    """A host where the tests have an intel-speed-select."""
    mount = ["mount", "-t", "tmpfs", "-o", "mode=755", "none", "/usr/local/sbin"]
    subprocess.run(mount, check=True)
    cpus = read_topology(Path("/")).cpus
    packages = sorted({info.package for info in cpus if info.package is not None})
    own = {item: [int(info.cpu) for info in cpus if info.package == item] for item in packages}
    first_siblings = {
        int(info.cpu): min([int(info.cpu), *map(int, info.siblings)]) for info in cpus
    }
    domains = [Domain(int(item), own[item], own[item][1:2]) for item in packages]
    tool = Tool(ToolState(domains, dict.fromkeys(set(first_siblings.values()), 3)), first_siblings)
    return Host(tool=install(Path("/"), tool, "usr/local/sbin"))


HOSTS: dict[str, tuple[Callable[[], Host], Callable[[Host], dict[str, Sequence[Action]]]]] = {
    "classes": (make_classes, class_kinds),
    "frequencies": (make_frequencies, lambda _: FREQUENCY_KINDS),
    "sst": (make_sst, lambda _: SST_KINDS),
}


def opened() -> HostGate:
    gate, absent = open_host_gate()
    assert gate is not None, absent
    return gate


def planned(
    gate: HostGate, kind: str, actions: Sequence[Action]
) -> tuple[Proposal, tuple[int, ...]]:
    """The proposal of a kind of change, and the numbers of the changes that it undoes."""
    if kind == "undo":
        undo = gate.propose_undo()
        assert undo is not None
        return undo
    if kind == "a profile":
        fitted = fit(parse("profile.toml", _PROFILE), gate.host.state(), gate.host.rules())
        actions = fitted.actions
    proposal = gate.propose(actions, ("test",))
    assert proposal.changes and not proposal.refusals, (kind, proposal.refusals)
    return proposal, ()


def session(kind: str, actions: Sequence[Action], ends: str, report: Callable[[str], None]) -> str:
    """Apply a change, then keep or revert it; reports each stage. Returns the outcome."""
    gate = opened()
    proposal, undoes = planned(gate, kind, actions)
    report("planned")
    pending = gate.apply(proposal, keep_within_s=_KEEP_S, undoes=undoes)
    assert pending.receipt.outcome == "applied", pending.receipt
    report("applied")
    receipt = pending.keep() if ends == "keep" else pending.revert()
    report("ended")
    return receipt.outcome


def forked(work: Callable[[Callable[[str], None]], object]) -> tuple[int, int]:
    """A child that does something and then waits; its pid, and a pipe with its reports."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid:
        os.close(theirs)
        return pid, ours
    try:
        os.close(ours)
        work(lambda text: void(os.write(theirs, f"{text}\n".encode())))
        time.sleep(10_000)
    except BaseException as error:  # noqa: BLE001 - the parent hears of it
        os.write(theirs, f"failed: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(0)


def void(_: object) -> None:
    """Nothing is returned."""


@dataclass
class Killer:
    """Kills at random moments of a session's stages, as long as these take."""

    random: random.Random
    # Seconds of each stage in a session that nobody disturbed.
    stages_s: dict[str, float]

    def strike(self, kind: str, actions: Sequence[Action]) -> str:
        """One session that is cut off; who was killed."""
        ends = self.random.choice(("keep", "revert"))
        victims = self.random.choice(("client", "guard", "both"))
        pid, pipe = forked(lambda report: session(kind, actions, ends, report))
        with os.fdopen(pipe) as reports:
            stage = self.random.choice(("planned", "applied"))
            for line in reports:
                assert not line.startswith("failed"), (kind, line)
                if line.strip() == stage:
                    break
            time.sleep(self.random.random() * 1.2 * self.stages_s[stage])
            self.kill(pid, victims)
        wait(lambda: not guards())
        return victims

    def kill(self, pid: int, victims: str) -> None:
        pids = guards() if victims != "client" else []
        if victims != "guard":
            os.kill(pid, signal.SIGKILL)
        for guard in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(guard, signal.SIGKILL)
        if victims == "guard":  # it hears of that, and has nothing more to do
            os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)

    def recover(self) -> str:
        """Recover as often as it takes: some recoveries are killed too. The outcome, or ""."""
        if FileJournal().pending() is not None and self.random.randrange(_AGAIN) == 0:
            pid, pipe = forked(lambda _report: recover(FileJournal()))
            time.sleep(self.random.random() * self.stages_s["planned"])
            self.kill(pid, self.random.choice(("client", "guard", "both")))
            os.close(pipe)
            wait(lambda: not guards())
        if FileJournal().pending() is None:
            return ""
        receipt = recover(FileJournal())
        assert receipt is not None
        assert FileJournal().pending() is None
        return receipt.outcome


def whole(kind: str, actions: Sequence[Action], ends: str) -> tuple[str, dict[str, float]]:
    """A session that nobody disturbs: its outcome, and seconds of its stages."""
    times: dict[str, float] = {}

    def note(text: str) -> None:
        times[text] = time.monotonic()

    outcome = session(kind, actions, ends, note)
    wait(lambda: not guards())
    return outcome, {
        "planned": times["applied"] - times["planned"],
        "applied": times["ended"] - times["applied"],
    }


def undone() -> None:
    outcome, _ = whole("undo", (), "keep")
    assert outcome == "kept"


def main(name: str, kills: int, seed: int) -> None:
    make, kinds_of = HOSTS[name]
    host = make()
    kinds = dict(kinds_of(host))
    if name == "classes":
        kinds["a profile"] = ()
    kinds["undo"] = ()
    undoable = next(iter(kinds.items()))
    before, chance = host.tree(), random.Random(seed)
    goals: dict[str, dict[str, str]] = {}
    killers: dict[str, Killer] = {}
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    for kind, actions in kinds.items():
        if kind == "undo":
            whole(*undoable, "keep")
        outcome, stages_s = whole(kind, actions, "keep")
        assert outcome == "kept", (kind, outcome)
        goals[kind], killers[kind] = host.tree(), Killer(chance, stages_s)
        assert (goals[kind] == before) == (kind == "undo"), kind
        if kind != "undo":
            undone()
        assert host.tree() == before, kind
    for number in range(kills):
        kind = list(kinds)[number % len(kinds)]
        if kind == "undo":
            whole(*undoable, "keep")
        start, entries = host.tree(), len(FileJournal().history())
        victims = killers[kind].strike(kind, kinds[kind])
        recovered = killers[kind].recover()
        tail = [entry.outcome for entry in FileJournal().history()[entries:]]
        kept = tail == ["kept"]
        assert tail in ([], ["reverted"], ["kept"]), (kind, victims, tail)
        assert host.tree() == (goals[kind] if kept else start), (kind, victims, tail, recovered)
        counts[kind].update({"kills": 1, "recovered": bool(recovered), "kept": kept})
        if kept != (kind == "undo"):  # a change of the host is still there
            undone()
        assert host.tree() == before, (kind, victims, tail)
    print(json.dumps(counts))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
