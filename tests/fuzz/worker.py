"""Plays inputs of one format in a process with limits of memory and of CPU time per input.

    python -m tests.fuzz.worker FORMAT STATE --engine plain --inputs 1000 --seed 7

STATE is a file that the parent reads while this runs: what is played now stays in it when the
process dies of it.
"""

from __future__ import annotations

import argparse
import hashlib
import mmap
import os
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from tests.fuzz.mutation import MAX_BYTES, Mutator, smaller
from tests.fuzz.registry import BY_NAME, FINDS, LoadedTarget

# CPU time of one input: a hundred times what the slowest honest one takes.
MOST_CPU_S = 5.0
# Address space beyond what the process has when it begins to play.
MOST_BYTES = 1 << 30
# Different finds after which a worker gives up: mend these first.
MANY_FINDS = 10
_INPUTS, _FINDS, _SINCE, _LENGTH = range(4)  # words of the state, then the input
_HEAD_BYTES = 4 * 8


class OvertimeError(BaseException):
    """An input took more than MOST_CPU_S."""


class State:
    """What a worker does, in memory that outlives it: inputs so far, since when, the input."""

    def __init__(self, path: Path) -> None:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(handle, _HEAD_BYTES + MAX_BYTES)
        memory = memoryview(mmap.mmap(handle, _HEAD_BYTES + MAX_BYTES))
        os.close(handle)
        # Words are written whole, so that the parent never reads half of one.
        self._words = memory[:_HEAD_BYTES].cast("Q")
        self._bytes = memory[_HEAD_BYTES:]

    def begin(self, data: bytes) -> None:
        self._bytes[: len(data)] = data
        self._words[_LENGTH] = len(data)
        self._words[_SINCE] = time.monotonic_ns()

    def end(self, new: int, finds: int) -> None:
        """The input is over; `new` is added to the inputs."""
        self._words[_INPUTS] += new
        self._words[_FINDS] = finds
        self._words[_SINCE] = 0

    @property
    def inputs(self) -> int:
        return self._words[_INPUTS]

    @property
    def finds(self) -> int:
        return self._words[_FINDS]

    @property
    def since_ns(self) -> int:
        """CLOCK_MONOTONIC when the present input began; 0 between two."""
        return self._words[_SINCE]

    @property
    def data(self) -> bytes:
        """The present input."""
        return bytes(self._bytes[: self._words[_LENGTH]])


def keep(name: str, data: bytes, folder: Path = FINDS) -> Path:
    """Write a find to its file."""
    path = folder / name / hashlib.sha256(data).hexdigest()[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def signature(error: BaseException) -> str:
    """Equal for finds of one cause: class, and the innermost function of nftop."""
    calls = traceback.extract_tb(error.__traceback__)
    ours = [call for call in calls if "/nftop/" in call.filename and "/tests/" not in call.filename]
    last = (ours or calls)[-1]
    return f"{type(error).__name__} in {Path(last.filename).name}:{last.name}"


class Player:
    """Plays inputs and keeps finds, one for each signature."""

    def __init__(self, loaded: LoadedTarget, state: State, folder: Path, most_cpu_s: float) -> None:
        self._loaded = loaded
        self._most_cpu_s = most_cpu_s
        self._state = state
        self._folder = folder
        self.signatures: set[str] = set()
        signal.signal(signal.SIGPROF, self._overtime)

    def play(self, data: bytes, *, counts: bool = True) -> None:
        """Play one input; `counts`: as a new one."""
        data = data[:MAX_BYTES]
        error = self._error(data)
        if error is not None and (name := signature(error)) not in self.signatures:
            self.signatures.add(name)
            tries = 5 if isinstance(error, OvertimeError) else 300
            short = smaller(data, lambda item: self._signature(item) == name, tries)
            path = keep(self._loaded.target.name, short, self._folder)
            print(f"{path.relative_to(self._folder)}: {name}: {str(error)[:200]!r}", flush=True)
        self._state.end(counts, len(self.signatures))

    def _signature(self, data: bytes) -> str:
        error = self._error(data)
        return "" if error is None else signature(error)

    def _error(self, data: bytes) -> BaseException | None:
        self._state.begin(data)
        try:
            signal.setitimer(signal.ITIMER_PROF, self._most_cpu_s)
            try:
                self._loaded.play(data)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - this is what is looked for
            return error
        return None

    def _overtime(self, _signal: int, _frame: FrameType | None) -> None:
        raise OvertimeError


def limit_memory() -> None:
    """Let this process have MOST_BYTES more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def play_plain(loaded: LoadedTarget, player: Player, inputs: int, seed: int) -> None:
    """So many inputs made by `Mutator`."""
    mutator = Mutator(loaded.seeds, loaded.words, random.Random(seed))
    for _ in range(inputs):
        player.play(mutator.next())
        if len(player.signatures) >= MANY_FINDS:
            return


def play_guided(
    load: Callable[[], LoadedTarget],
    player_of: Callable[[LoadedTarget], Player],
    options: argparse.Namespace,
) -> None:
    """Inputs of libFuzzer, by atheris, which sees the branches of Python code. Does not return."""
    import atheris

    with atheris.instrument_imports(include=list(BY_NAME[options.format].packages)):
        loaded = load()
    player = player_of(loaded)
    corpus: Path = options.corpus
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in loaded.seeds:
        (corpus / hashlib.sha256(seed).hexdigest()[:20]).write_bytes(seed)
    words = corpus.with_suffix(".dict")
    escaped = ("".join(f"\\x{byte:02x}" for byte in word) for word in loaded.words if word)
    words.write_text("".join(f'"{word}"\n' for word in escaped))

    known = len(list(corpus.iterdir())) + 1  # played first, and counted before

    def one(data: bytes) -> None:
        nonlocal known
        player.play(data, counts=known <= 0)
        known -= 1
        if len(player.signatures) >= MANY_FINDS:
            os._exit(0)

    atheris.Setup(
        [
            sys.argv[0],
            f"-runs={options.inputs + len(list(corpus.iterdir())) + 1}",
            f"-seed={options.seed % (1 << 32) or 1}",
            f"-max_len={MAX_BYTES}",
            f"-dict={words}",
            "-timeout=600",
            "-rss_limit_mb=0",
            "-verbosity=0",
            "-print_final_stats=0",
            str(corpus),
        ],
        one,
    )
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.worker")
    parser.add_argument("format", choices=sorted(BY_NAME))
    parser.add_argument("state", type=Path)
    parser.add_argument("--engine", choices=("plain", "atheris"), default="plain")
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, default=Path("build/fuzz/corpus"))
    parser.add_argument("--confirm", type=Path, help="play this file only; exit code 1: a find")
    parser.add_argument("--cpu-seconds", type=float, default=MOST_CPU_S)
    parser.add_argument("--finds", type=Path, default=FINDS)
    options = parser.parse_args()
    state, target = State(options.state), BY_NAME[options.format]
    warnings.simplefilter("error")  # a warning of numpy would be text on the operator's screen

    def player_of(loaded: LoadedTarget) -> Player:
        for seed in loaded.seeds:
            loaded.play(seed)  # imports what nftop imports late
        limit_memory()
        return Player(loaded, state, options.finds, options.cpu_seconds)

    if options.confirm is not None:
        player_of(target.load()).play(options.confirm.read_bytes())
        return 1 if state.finds else 0
    if options.engine == "atheris":
        play_guided(target.load, player_of, options)
    else:
        loaded = target.load()
        play_plain(loaded, player_of(loaded), options.inputs, options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
