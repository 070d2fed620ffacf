"""CPU time of a tick before it is drawn: taking the sample and deriving the frame."""

from __future__ import annotations

import time

from nftop.cli.compose.hosts import open_host
from nftop.session.live import Sampler
from tests.bench.report import Reached, median
from tests.bench.scenes import Clocked

_WARM, _TICKS = 5, 40


def main(drawn_ms: float | None) -> list[Reached]:
    """Print sample and derive, simulated and live; `drawn_ms` is what 512 CPUs cost to draw."""
    print("CPU ms a tick before drawing")
    print(f"{'':<22}{'sample':>8}{'derive':>8}")
    derived: dict[int, float] = {}
    for cpus in (64, 512):
        sample_ms, derive_ms = _simulated(cpus)
        derived[cpus] = sample_ms + derive_ms
        print(f"{f'simulated, {cpus} CPUs':<22}{sample_ms:>8.2f}{derive_ms:>8.2f}")
    cpus, sample_ms = _here()
    print(f"{f'this host, {cpus} CPUs':<22}{sample_ms:>8.2f}{'-':>8}")
    print()
    what = "512 simulated CPUs at 1 Hz, all of a tick"
    if drawn_ms is None:
        return [Reached(what, "< 1 % of a core", None, why="drawing was not measured")]
    return [Reached(what, "< 1 % of a core", (derived[512] + drawn_ms) / 10, 1.0, "%")]


def _simulated(cpus: int) -> tuple[float, float]:
    """CPU ms of reading the simulated sources, which is the model's arithmetic, and of a step."""
    clocked = Clocked(cpus)
    samples, steps = [], []
    for _ in range(_WARM + _TICKS):
        began = time.process_time()
        sample = clocked.sample()
        read = time.process_time()
        clocked.fold(sample)
        samples.append(read - began)
        steps.append(time.process_time() - read)
    return median(samples[_WARM:]) * 1e3, median(steps[_WARM:]) * 1e3


def _here() -> tuple[int, float]:
    """CPUs of this host, and CPU ms of one sample of all its sources, their threads included."""
    here = open_host()
    sampler = Sampler(here.sources)
    costs = []
    for _ in range(_WARM + _TICKS // 2):
        began = time.process_time()
        sampler.sample(1.0, 0.25)
        costs.append(time.process_time() - began)
    sampler.close()
    return len(here.topology.cpus), median(costs[_WARM:]) * 1e3
