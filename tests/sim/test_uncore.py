"""The model's traffic, counted box by box in turns, comes out of the pipeline as it went in."""

from __future__ import annotations

import numpy as np
import pytest

from nftop.model.reading import Missing, Reason
from nftop.sim.events import boxes
from nftop.sim.uncore import uncore_table
from nftop.sim.workloads import INDEX
from tests.sim.hosts import Frozen, S, count_uncore

PERIOD = 20 * S
LINE_BYTES = 64


@pytest.mark.parametrize("cpus", [2, 88])
def test_rates_are_the_models(cpus: int) -> None:
    host = Frozen(cpus=cpus)
    host.tick(host.simulated.model.starts_ns[-1])
    # So long that the counts' own cut-off fractions, one a box, weigh nothing.
    packages = host.tick(10_000_000 * PERIOD).packages
    cpus_of = host.simulated.model.layout.topology.cpus
    for row in packages:
        mine = [info.cpu for info in cpus_of if info.package == row.package]
        per_s = host.simulated.model.steady[-1][mine].sum(axis=0)
        rate = {name: float(per_s[INDEX[name]]) for name in INDEX}
        expected = {
            "memory.read_bytes_per_s": LINE_BYTES * rate["cas_reads"],
            "memory.write_bytes_per_s": LINE_BYTES * rate["cas_writes"],
        }
        total = {}
        for opcode in ("itom", "rfo", "pcirdcur"):
            hit, miss = rate[f"{opcode}_hit"], rate[f"{opcode}_miss"]
            total[opcode] = hit + miss
            expected |= {
                f"pcie.{opcode}.hit_per_s": hit,
                f"pcie.{opcode}.miss_per_s": miss,
                f"pcie.{opcode}.total_per_s": total[opcode],
            }
        expected["pcie.read_bytes_per_s"] = LINE_BYTES * total["pcirdcur"]
        expected["pcie.write_bytes_per_s"] = LINE_BYTES * (total["itom"] + total["rfo"])
        written = total["itom"] + total["rfo"]
        expected["pcie.ddio_hit_ratio"] = (rate["itom_hit"] + rate["rfo_hit"]) / written
        assert {name: row.readings[name] for name in expected} == pytest.approx(expected, rel=1e-9)
        # Memory's counters have the hardware to themselves; the three opcodes take turns.
        assert row.estimates == {name for name in expected if name.startswith("pcie.")}


def test_turns_share_the_time_and_the_counts() -> None:
    simulated = Frozen().simulated
    t_ns = 7 * S + 1
    table = uncore_table(simulated.model, t_ns, simulated.uarch)
    assert table.gaps == ""
    events = {
        name: unit.events[name]
        for unit in simulated.uarch.uncore
        for turn in unit.turns
        for name in turn
    }
    assert set(table.events) == set(events)
    for index, name in enumerate(table.events):
        turns = 3 if events[name].pmu == "uncore_cha" else 1
        for package in (0, 1):
            mine = (table.event == index) & (table.packages == package)
            assert mine.sum() == boxes(simulated.model, events[name].pmu, package)
            for box, value in enumerate(table.values[mine].tolist()):
                whole = count_uncore(simulated.model, events[name], package, box, t_ns)
                assert 0 <= value - whole // turns <= 1
            assert np.abs(table.running_ns[mine].astype(float) * turns - t_ns).max() <= turns
    assert (table.enabled_ns == t_ns).all()


def test_the_first_tick_warms_up() -> None:
    for row in Frozen().tick(0).packages:
        for name in ("memory.read_bytes_per_s", "pcie.write_bytes_per_s", "pcie.ddio_hit_ratio"):
            reading = row.readings[name]
            assert isinstance(reading, Missing) and reading.reason is Reason.WARMING
        assert not row.estimates
