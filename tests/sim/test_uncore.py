"""The model's traffic, counted box by box in turns, comes out of the pipeline as it went in."""

from __future__ import annotations

import re

import numpy as np
import pytest

from nftop.model.metrics.package import COUNTED_PACKAGE_METRICS
from nftop.model.missing import Missing, Reason
from nftop.sim.uncore import boxes, uncore_table
from nftop.sim.workloads import INDEX
from tests.sim.hosts import Frozen, S, count_box

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
            # All parts of lines that devices write are RFOs on this CPU.
            with_it = ("rfo", "itomcachenear") if opcode == "rfo" else (opcode,)
            hit, miss = (sum(rate[f"{item}_{how}"] for item in with_it) for how in ("hit", "miss"))
            total[opcode] = hit + miss
            expected |= {
                f"pcie.{opcode}.hit_per_s": hit,
                f"pcie.{opcode}.miss_per_s": miss,
                f"pcie.{opcode}.total_per_s": total[opcode],
            }
        expected["pcie.read_bytes_per_s"] = LINE_BYTES * total["pcirdcur"]
        expected["pcie.write_bytes_per_s"] = LINE_BYTES * (total["itom"] + total["rfo"])
        hits = expected["pcie.itom.hit_per_s"] + expected["pcie.rfo.hit_per_s"]
        expected["pcie.ddio_hit_ratio"] = hits / (total["itom"] + total["rfo"])
        assert {name: row.readings[name] for name in expected} == pytest.approx(expected, rel=1e-9)
        # Memory's and the links' counters have the hardware to themselves; requests take turns.
        here = {name for name, reading in row.readings.items() if isinstance(reading, float)}
        # Of links the peak is one of the family; classes without network functions move memory too.
        by_turns = (
            "pcie.",
            "mmio.",
            "llc.",
            "per_packet.pcie",
            "per_packet.mmio",
            "per_packet.memory",
            "utilisation.pcie",
            "utilisation.upi",
        )
        assert row.estimates == {name for name in here if name.startswith(by_turns)}
        counted = {metric.id for metric in COUNTED_PACKAGE_METRICS}
        assert counted - here == {
            name for name in counted if re.search(r"itomcachenear|combined|pcie\.[cd]rd", name)
        }


def test_turns_share_the_time_and_the_counts() -> None:
    simulated = Frozen().simulated
    t_ns = 7 * S + 1
    table = uncore_table(simulated.model, t_ns, simulated.uarch, detailed=True)
    assert table.gaps == ""
    events = {
        name: unit.events[name]
        for unit in simulated.uarch.uncore
        for turn in (*unit.turns, *unit.on_demand)
        for name in turn
    }
    assert set(table.events) == set(events)
    for index, name in enumerate(table.events):
        turns = 7 if events[name].pmu == "uncore_cbox" else 1
        for package in (0, 1):
            mine = (table.event == index) & (table.packages == package)
            numbers = table.boxes[mine].tolist()
            assert tuple(numbers) == boxes(simulated.model, events[name].pmu, simulated.uarch.name)
            for box, value in zip(numbers, table.values[mine].tolist(), strict=True):
                whole = count_box(simulated.model, events[name], package, box, t_ns)
                assert 0 <= value - whole // turns <= 1
            assert np.abs(table.running_ns[mine].astype(float) * turns - t_ns).max() <= turns
    assert (table.enabled_ns == t_ns).all()


def test_a_box_without_a_reader_is_not_reported() -> None:
    frozen = Frozen(traffic=False)
    frozen.tick(0)
    frame = frozen.tick(S)
    assert frame.sources["uncore"].detail == "", "that is no gap"
    for row in frame.packages:
        assert isinstance(row.readings["pcie.itom.hit_per_s"], float)
        for name in ("mmio.read_per_s", "llc.drd.total_per_s"):
            why = row.readings[name]
            assert isinstance(why, Missing) and why.reason is Reason.SOURCE
            assert "Traffic screen" in why.message


def test_the_first_tick_warms_up() -> None:
    for row in Frozen().tick(0).packages:
        for name in ("memory.read_bytes_per_s", "pcie.write_bytes_per_s", "pcie.ddio_hit_ratio"):
            reading = row.readings[name]
            assert isinstance(reading, Missing) and reading.reason is Reason.WARMING
        assert not row.estimates
