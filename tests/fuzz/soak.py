"""Fuzz for some time and add to the counts of `counts.json`: `make soak SECONDS=600`.

Formats that are farthest from their goal come first, each for a turn. With atheris the search is
guided by the branches that an input takes; without it inputs are made of seeds at random.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from nftop import __version__
from tests.fuzz.registry import BY_NAME, FINDS, TARGETS, FuzzTarget
from tests.fuzz.worker import MOST_CPU_S, State, keep

COUNTS = Path(__file__).parent / "counts.json"
CORPUS = Path("build/fuzz")
TURN_S = 120.0
# Wall clock of one input; a worker ends one by its CPU time long before, unless C code hangs.
HUNG_S = 120.0


@dataclass(frozen=True, slots=True)
class Played:
    """What a worker did: inputs, confirmed finds, and how it died ("" if it did not)."""

    inputs: int
    finds: int
    death: str


def guided() -> bool:
    return find_spec("atheris") is not None


def play(
    target: FuzzTarget,
    *,
    inputs: int,
    seconds: float,
    seed: int,
    engine: str,
    finds: Path = FINDS,
    most_cpu_s: float = MOST_CPU_S,
    hung_s: float = HUNG_S,
) -> Played:
    """Run a worker until it has played so many inputs, or the time is up."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    before = _files(finds, target)
    with tempfile.TemporaryDirectory(dir=base) as folder:
        environ = {**os.environ, "TMPDIR": folder}
        state = State(Path(folder) / "state")
        command = [sys.executable, "-m", "tests.fuzz.worker", target.name]
        limits = ["--cpu-seconds", str(most_cpu_s)]
        way = [
            f"{folder}/state",
            "--engine",
            engine,
            "--inputs",
            str(inputs),
            "--seed",
            str(seed),
            "--corpus",
            str(CORPUS / target.name),
            "--finds",
            str(finds),
        ]
        log = subprocess.DEVNULL if engine == "atheris" else None
        worker = subprocess.Popen([*command, *way, *limits], env=environ, stderr=log)
        stopped = _watch(worker, state, time.monotonic() + seconds, hung_s)
        death = "" if stopped == "time" else stopped or _death(worker.wait())
        if death and state.since_ns:
            path = keep(target.name, state.data, finds)
            print(f"{path.relative_to(finds)}: {death}", flush=True)
        confirmed = 0
        for path in sorted(_files(finds, target) - before):
            again = [f"{folder}/again-{path.name}", "--confirm", str(path), "--finds", folder]
            if _is_find([*command, *again, *limits], environ, hung_s):
                confirmed += 1
            else:
                path.unlink()
                print(f"{path.relative_to(finds)}: not confirmed in a fresh process", flush=True)
        return Played(state.inputs, confirmed, death)


def _files(finds: Path, target: FuzzTarget) -> set[Path]:
    return set((finds / target.name).glob("*"))


def _is_find(command: Sequence[str], environ: dict[str, str], hung_s: float) -> bool:
    """Whether a process that plays this input alone fails; a fuzzer's own memory grows."""
    try:
        done = subprocess.run(
            command, env=environ, timeout=hung_s, check=False, capture_output=True
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def _watch(
    worker: subprocess.Popen[bytes], state: State, until_s: float, hung_s: float
) -> str | None:
    """Wait for a worker; why it was killed, None if it ended."""
    try:
        while worker.poll() is None:
            time.sleep(0.05)
            since_ns = state.since_ns
            if since_ns and time.monotonic_ns() - since_ns > hung_s * 1e9:
                return "hung"
            if time.monotonic() > until_s:
                return "time"
        return None
    finally:
        worker.kill()
        worker.wait()


def _death(code: int) -> str:
    if code < 0:
        return signal.Signals(-code).name
    return "" if code == 0 else f"exit {code}"


def read_counts(path: Path = COUNTS) -> dict[str, dict[str, int | str]]:
    return json.loads(path.read_text()) if path.exists() else {}


def add(target: FuzzTarget, inputs: int, path: Path = COUNTS) -> None:
    """Add to the counts of a format."""
    counts = read_counts(path)
    row = counts.setdefault(target.name, {"inputs": 0})
    row["inputs"] = int(row["inputs"]) + inputs
    row |= {"finds": len(target.finds()), "nftop": __version__}
    new = path.with_suffix(".new")
    new.write_text(json.dumps(dict(sorted(counts.items())), indent=2) + "\n")
    new.replace(path)


def due(targets: Sequence[FuzzTarget], counts: dict[str, dict[str, int | str]]) -> FuzzTarget:
    """The format that is farthest from its goal; once all have reached it, the least beyond it."""
    return min(
        targets, key=lambda item: int(counts.get(item.name, {"inputs": 0})["inputs"]) / item.goal
    )


def soak(targets: Sequence[FuzzTarget], seconds: float, engine: str) -> int:
    """Play for so long; returns the number of finds."""
    end_s, finds = time.monotonic() + seconds, 0
    while (left_s := end_s - time.monotonic()) > 1:
        target = due(targets, read_counts())
        missing = target.goal - int(read_counts().get(target.name, {"inputs": 0})["inputs"])
        played = play(
            target,
            inputs=missing if missing > 0 else target.goal,
            seconds=min(left_s, TURN_S),
            seed=random.randrange(1 << 31),
            engine=engine,
        )
        add(target, played.inputs)
        finds += played.finds
        print(
            f"{target.name}: {played.inputs} inputs, {played.finds} finds {played.death}",
            flush=True,
        )
        if played.death and not played.inputs:
            raise SystemExit(f"the worker of {target.name} does not start: {played.death}")
    return finds


def report() -> str:
    """The counts as text, a line per format."""
    counts = read_counts()
    lines = [f"{'format':14}{'kind':6}{'inputs':>10}{'goal':>10}{'finds':>7}  nftop"]
    for target in TARGETS:
        row = counts.get(target.name, {"inputs": 0, "finds": 0, "nftop": ""})
        lines.append(
            f"{target.name:14}{target.kind:6}{row['inputs']:>10}{target.goal:>10}"
            f"{row['finds']:>7}  {row['nftop']}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--formats", default=",".join(BY_NAME), help="comma-separated")
    parser.add_argument("--engine", choices=("plain", "atheris"), default=None)
    parser.add_argument("--report", action="store_true", help="only print the counts")
    options = parser.parse_args()
    if options.report:
        print(report())
        return 0
    os.nice(19)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the worker ends too
    engine = options.engine or ("atheris" if guided() else "plain")
    print(f"engine: {engine}", flush=True)
    targets = [BY_NAME[name] for name in options.formats.split(",")]
    finds = soak(targets, options.seconds, engine)
    print(report())
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
