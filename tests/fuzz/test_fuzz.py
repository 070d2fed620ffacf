"""Every format: seeds are read, finds stay mended, some hundred new inputs find nothing."""

from __future__ import annotations

import hashlib
import json
import random
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

import nftop
from tests.fuzz import registry, soak
from tests.fuzz.mutation import MAX_BYTES, Mutator, smaller
from tests.fuzz.registry import BY_NAME, TARGETS, FuzzTarget, resolved
from tests.fuzz.worker import signature

# New inputs of a format, so that each takes a few seconds of CPU time.
INPUTS = 400
PATIENCE_S = 300.0
EVERY = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@EVERY
def test_a_seed_is_accepted(target: FuzzTarget) -> None:
    """What is made of refused inputs would test refusals only."""
    loaded = target.load()
    assert len(set(loaded.seeds)) >= 3
    for seed in loaded.seeds:
        assert 0 < len(seed) <= MAX_BYTES
        loaded.call(seed)


@EVERY
def test_a_find_stays_mended(target: FuzzTarget) -> None:
    loaded = target.load()
    for path in target.finds():
        loaded.play(path.read_bytes())


@pytest.fixture(scope="module")
def seed() -> int:
    """Of nftop's own source: every change brings new inputs, and a find is found again."""
    digest = hashlib.sha256()
    for path in sorted(Path(nftop.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:4]) >> 1


@EVERY
def test_new_inputs_find_nothing(target: FuzzTarget, tmp_path: Path, seed: int) -> None:
    """`make soak` has another seed each time; a find is to be kept and mended."""
    played = soak.play(
        target, inputs=INPUTS, seconds=PATIENCE_S, seed=seed, engine="plain", finds=tmp_path
    )
    finds = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.glob("*/*")}
    assert not played.finds, (seed, finds)
    assert (played.inputs, played.death) == (INPUTS, "")


@EVERY
def test_a_row_names_functions_and_refusals_of_nftop(target: FuzzTarget) -> None:
    for name in (*target.entry, *target.refusals):
        assert callable(resolved(name))
    assert target.goal == {"byte": 1_000_000, "text": 100_000}[target.kind]


def test_folders_of_finds_and_counts_are_of_formats() -> None:
    assert {path.name for path in registry.FINDS.iterdir() if path.is_dir()} <= BY_NAME.keys()
    counts = soak.read_counts()
    assert counts.keys() <= BY_NAME.keys()
    for name, row in counts.items():
        assert int(row["inputs"]) > 0
        assert row["finds"] == len(BY_NAME[name].finds())
        assert re.fullmatch(r"[0-9.]+", str(row["nftop"]))


# The machinery, on a format that does what its input says.
MODULE = """
import os, signal
WORDS = ()
def seeds():
    return [b"fine"]
def play(data):
    if data[:1] == b"k":
        os.kill(os.getpid(), signal.SIGKILL)
    if data[:1] == b"h":
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        while True:
            pass
    if data[:1] == b"m":
        bytearray(2 << 30)
    if data[:1] == b"l":
        while True:
            pass
    if data[:1] == b"r":
        raise ValueError("refused")
    if data[:1] == b"x":
        raise KeyError("undocumented")
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FuzzTarget:
    """A target of which the workers play `toy` with one seed, and no other input."""
    return FuzzTarget("toy", "text", ("builtins.len",), ("builtins.ValueError",))


def toy_worker(folder: Path, seed: bytes) -> Path:
    """A folder with `tests.fuzz.formats.toy`-like code that the worker imports first."""
    source = MODULE.replace('b"fine"', repr(seed))
    (folder / "sitecustomize.py").write_text(
        "import sys, types\n"
        f"source = {source!r}\n"
        "module = types.ModuleType('tests.fuzz.formats.toy')\n"
        "exec(source, module.__dict__)\n"
        "sys.modules[module.__name__] = module\n"
        "import tests.fuzz.registry as registry\n"
        "toy = registry.FuzzTarget('toy', 'text', (), ('builtins.ValueError',))\n"
        "registry.BY_NAME['toy'] = toy\n"
        "import tests.fuzz.mutation as mutation\n"
        "mutation.Mutator.next = lambda self: self.seeds[0]\n"
        "module.real, module.calls = module.play, 0\n"
        "def play(data):\n"
        "    module.calls += 1\n"
        "    if module.calls > 1:\n"
        "        module.real(data)\n"
        "module.play = play\n"
    )
    return folder


@pytest.mark.parametrize(
    ("seed", "finds", "death"),
    [
        (b"fine", 0, ""), (b"r", 0, ""), (b"x", 1, ""), (b"l", 1, ""), (b"m", 1, ""),
        (b"k", 1, "SIGKILL"), (b"h", 1, "hung"),
    ],
)  # fmt: skip
def test_an_input_that_exceeds_a_limit_or_raises_is_kept(
    toy: FuzzTarget,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: bytes,
    finds: int,
    death: str,
) -> None:
    """An exception, too much CPU time or memory, a process that dies or hangs; no refusal."""
    monkeypatch.setenv("PYTHONPATH", f"{toy_worker(tmp_path, seed)}:{Path(__file__).parents[2]}")
    kept = tmp_path / "finds"
    played = soak.play(
        toy,
        inputs=3,
        seconds=PATIENCE_S,
        seed=1,
        engine="plain",
        finds=kept,
        most_cpu_s=0.2,
        hung_s=3.0 if death == "hung" else 60.0,
    )
    assert (played.finds, played.death) == (finds, death)
    assert played.inputs == (0 if death else 3)
    assert [path.read_bytes() for path in kept.glob("toy/*")] == [seed] * finds


def test_inputs_are_equal_for_the_same_random_numbers() -> None:
    def inputs(seed: int) -> list[bytes]:
        mutator = Mutator([b"a 1 b 22", b"other"], [b"word"], random.Random(seed))
        return [mutator.next() for _ in range(200)]

    assert inputs(1) == inputs(1) != inputs(2)
    assert len(set(inputs(1))) > 150
    assert any(b"word" in item for item in inputs(1))


def test_a_find_is_shortened_while_it_stays_the_same() -> None:
    assert smaller(b"a" * 1000 + b"xyz" + b"b" * 1000, lambda data: b"xyz" in data) == b"xyz"
    assert smaller(b"abc", lambda data: data == b"abc") == b"abc"


def test_finds_of_one_cause_have_one_signature() -> None:
    names = []
    for text in ("a", "b"):
        try:
            int(text)
        except ValueError as error:
            names.append(signature(error))
    assert names == ["ValueError in test_fuzz.py:test_finds_of_one_cause_have_one_signature"] * 2


def test_counts_add_up_and_the_farthest_from_its_goal_is_next(tmp_path: Path) -> None:
    path, (first, second) = tmp_path / "counts.json", TARGETS[:2]
    soak.add(first, 500, path)
    soak.add(first, 500, path)
    soak.add(second, 300, path)
    counts = soak.read_counts(path)
    assert counts[first.name]["inputs"] == 1000
    assert soak.due((first, second), counts) is second
    text = replace(second, kind="text")
    assert soak.due((first, text), counts) is first
    assert json.loads(path.read_text()) == counts
