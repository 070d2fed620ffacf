"""Ice Lake's codes over the same model: slots, and the parts that the metrics make of them."""

from __future__ import annotations

import numpy as np
import pytest

from nftop.sim import scenario
from nftop.sim.events import count, factors_of
from nftop.sim.model import model_of
from nftop.sim.workloads import INDEX
from nftop.uarch.table import Encoding

S = 1_000_000_000
MODEL = model_of(scenario.load("default"), 88)
METRICS = {"retiring": 0x8000, "bad": 0x8100, "frontend": 0x8200, "backend": 0x8300}


def icx(config: int, cpu: int, t_ns: int = 50 * S) -> int:
    return count(MODEL, Encoding(4, config), cpu, t_ns, "ICX")


@pytest.mark.parametrize("cpu", range(0, 88, 3))
def test_the_metrics_make_up_the_slots(cpu: int) -> None:
    factors = {name: icx(config, cpu) for name, config in METRICS.items()}
    assert sum(factors.values()) == pytest.approx(icx(0x400, cpu), abs=4)
    assert min(factors.values()) >= 0


def test_shares_of_slots_are_skylakes() -> None:
    # A poller alone on its core, on a pipeline of four slots and on one of five.
    cpu = next(item.cpus[0] for item in MODEL.layout.placed if item.task.kind == "vpp")
    skx = {config: count(MODEL, Encoding(4, config), cpu, 50 * S) for config in (0x19C, 0x2C2)}
    slots = 4 * count(MODEL, Encoding(4, 0x20003C), cpu, 50 * S)
    assert icx(0x8200, cpu) / icx(0x400, cpu) == pytest.approx(skx[0x19C] / slots, rel=1e-3)
    assert icx(0x8000, cpu) / icx(0x400, cpu) == pytest.approx(skx[0x2C2] / slots, rel=1e-3)


def test_distributed_clocks_of_both_threads_are_the_cores() -> None:
    rates = MODEL.steady[0]
    for info in MODEL.layout.topology.cpus:
        own = rates[[info.cpu, *info.siblings], INDEX["distributed_clocks"]]
        assert own.sum() == pytest.approx(rates[info.cpu, INDEX["core_clocks"]])


def test_cascade_lake_counts_as_skylake_and_icelake_does_not() -> None:
    only_skx = Encoding(4, 0x20003C)
    assert factors_of(only_skx, "CLX") == factors_of(only_skx, "SKX") == {"core_clocks": 1.0}
    assert factors_of(only_skx, "ICX") is None
    with pytest.raises(KeyError):
        factors_of(only_skx, "Z80")


def test_rows_of_a_few_cpus_are_the_same_as_of_all() -> None:
    np.testing.assert_array_equal(MODEL.exact(7 * S, [3, 9]), MODEL.exact(7 * S)[[3, 9]])
