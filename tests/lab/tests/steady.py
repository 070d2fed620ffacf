"""A scenario whose rates stay as they are, so that what is counted does not depend on when."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import numpy as np

from nftop.model.column import Floats
from nftop.sim import scenario
from nftop.sim.model import Model, model_of
from nftop.sim.workloads import INDEX

# The four of level 1 by nftop's names, in the order of `perf stat --topdown`.
LEVEL_1 = ("retiring", "bad_speculation", "frontend_bound", "backend_bound")
_SLOTS_PER_CYCLE = 4


def text() -> str:
    """The default scenario without its swings."""
    default = resources.files("nftop.sim") / "scenarios" / "default.toml"
    result = default.read_text(encoding="utf-8")
    return re.sub(r"(?m)^(swing|load_swing) = .*$", r"\1 = 0.0", result)


def written(folder: Path) -> str:
    """The path of a file with it, for `--scenario`."""
    file = folder / "steady.toml"
    file.write_text(text(), encoding="utf-8")
    return str(file)


def model(cpus: int, *, smt: bool = True) -> Model:
    return model_of(scenario.parse("steady", text()), cpus, smt=smt)


def rates(of: Model, name: str) -> Floats:
    """Of one quantity on every CPU, per second."""
    return np.asarray(of.steady[0][:, INDEX[name]])


def shares(of: Model, cpus: Sequence[int], *, clears_move: bool = False) -> Floats:
    """Level 1 of some cores, all threads of which are among the CPUs: LEVEL_1, 0..1.

    `clears_move`: as the vendor's formulas of Ice Lake have it, by which the slots that are lost to
    clears are not bad speculation but backend.
    """
    sums = {name: rates(of, name)[list(cpus)].sum() for name in INDEX}
    slots = _SLOTS_PER_CYCLE * sums["distributed_clocks"]
    retiring, frontend = sums["retire_slots"], sums["slots_not_delivered"]
    bad = sums["uops_issued"] - retiring + _SLOTS_PER_CYCLE * sums["recovery_cycles"]
    if clears_move:
        bad -= _SLOTS_PER_CYCLE * (sums["mispredicts"] + sums["machine_clears"])
    components = np.array([retiring, bad, frontend, slots - retiring - bad - frontend])
    return np.asarray(components / slots)
