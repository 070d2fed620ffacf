"""Memory, PCIe, MMIO and links by nftop in the lab, against the model and beside `perf stat`."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from nftop.model.column import Column, column
from nftop.sim.uncore import OF_PACKAGE_INDEX, box_counts, box_factors, package_counts
from nftop.sim.workloads import INDEX
from nftop.sources.uncore.open_counters import shares
from nftop.uarch import table
from nftop.uarch.sections import Uncore
from nftop.uarch.table import Uarch
from nftop.uarch.topdown import evaluate_traffic
from tests.lab.tests.events import CPUS, S, model
from tests.lab.tests.labs import LONGEST_S, enter, needs_lab, running

pytestmark = needs_lab
MACHINES = {"bdx": "BDX", "skx-4": "SKX", "icx": "ICX", "spr": "SPR"}
ALONE = ("cas_read", "cas_write", "link_data_sent")


def counted(unit: Uncore, event: str, uarch: str, from_ns: int, until_ns: int) -> Any:
    """What the model counts of an event: int64 (packages, boxes)."""
    factors = box_factors(unit.events[event], uarch)
    assert factors is not None, event
    before, after = (box_counts(model(), at, unit.pmu, uarch) for at in (from_ns, until_ns))
    grown = (after - before).astype(np.int64)
    of_box = np.zeros(grown.shape[:2], np.int64)
    return of_box + sum(
        factor * grown[:, :, OF_PACKAGE_INDEX[key]] for key, factor in factors.items()
    )


def expected(known: Uarch, from_ns: int, until_ns: int) -> Mapping[str, Column]:
    """By the table's formulas, of the model's own counts of the packages."""
    return evaluate_traffic(
        known,
        {
            event: column(
                counted(unit, event, known.name, from_ns, until_ns).sum(axis=1)
                * (S / (until_ns - from_ns))
            )
            for unit in known.uncore
            for event in unit.events
        },
    )


# Of the model, by metric: quantities of a package, and how much of its unit one of them is.
PER_PACKET: Mapping[str, tuple[tuple[str, ...], float]] = {
    "pcie_reads": (("pcirdcur_hit", "pcirdcur_miss"), 1),
    "mmio_writes": (("mmio_writes",), 1),
    "memory_read_bytes": (("cas_reads",), 64),
    "memory_write_bytes": (("cas_writes",), 64),
    "memory_bytes": (("cas_reads", "cas_writes"), 64),
    "upi_received_bytes": (("link_lines_received",), 64),
    "upi_sent_bytes": (("link_lines_sent",), 64),
    "pcie_partial_writes": (
        ("rfo_hit", "rfo_miss", "itomcachenear_hit", "itomcachenear_miss"), 1
    ),
    "pcie_writes": (
        ("itom_hit", "itom_miss", "rfo_hit", "rfo_miss", "itomcachenear_hit", "itomcachenear_miss"),
        1,
    ),
}  # fmt: skip
# Channels, transfers per second of memory, links, bytes per second of each in a direction.
PEAKS = {
    "BDX": (4, 2.4e9, 2, 19.2e9),
    "SKX": (6, 2.666e9, 3, 20.8e9),
    "ICX": (8, 3.2e9, 3, 22.4e9),
    "SPR": (8, 4.8e9, 4, 48e9),
}
# What the tables of these CPUs do not count of a device's writes.
NOT_COUNTED = {"ICX": "rfo", "SPR": "rfo"}


def of_packets(known: Uarch, name: str, row: int, from_ns: int, until_ns: int) -> float:
    """Of a metric for each packet, by the model's counts of a package alone."""
    before, after = (
        package_counts(model(), at)[row].astype(np.int64) for at in (from_ns, until_ns)
    )
    names, unit = PER_PACKET[name]
    if name == "pcie_writes":
        names = tuple(n for n in names if not n.startswith(NOT_COUNTED.get(known.name, "-")))
    moved = sum(int(after[OF_PACKAGE_INDEX[n]] - before[OF_PACKAGE_INDEX[n]]) for n in names)
    packets = after[OF_PACKAGE_INDEX["packets"]] - before[OF_PACKAGE_INDEX["packets"]]
    return unit * moved / float(packets)


def lost_at_most_per_s(known: Uarch, name: str) -> float:
    """What the ends of slices cut off of a rate: a count a box and event, scaled as that is."""
    if "ratio" in name:
        return 1e-3
    least = min(share for unit in known.uncore for share in shares(unit, detailed=True))
    return CPUS / least * (64 if "bytes" in name else 1)


@pytest.mark.parametrize("machine", MACHINES)
def test_rates_are_the_model_s_and_perf_agrees(machine: str) -> None:
    known = table.load(MACHINES[machine])
    lab = ("--model", machine, "--cpus", str(CPUS), "--no-resctrl", "--freeze", "60")
    run = (sys.executable, "-m", "tests.lab.tests.inside_uncore", known.name)
    units = {event: unit for unit in known.uncore for event in unit.events if event in ALONE}
    requested = [
        f"{unit.events[event].pmu}/{unit.events[event].terms}/" for event, unit in units.items()
    ]
    perf = ("env", "LC_ALL=C", "perf", "stat", "-a", *(w for e in requested for w in ("-e", e)))
    adjacent = perf if shutil.which("perf") else ()
    done = enter(*lab, "--", *adjacent, *run)
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    from_ns, until_ns = reported["from_ns"], reported["until_ns"]
    assert until_ns - from_ns == S
    wanted = expected(known, from_ns, until_ns)
    for row, package in enumerate(reported["packages"]):
        for name, item in wanted.items():
            got = package["readings"][name]
            near = pytest.approx(item[row], rel=1e-3, abs=lost_at_most_per_s(known, name))
            assert got == near, (row, name)
        for name in PER_PACKET:
            got = package["readings"][f"per_packet.{name}"]
            truth = of_packets(known, name, row, from_ns, until_ns)
            assert got == pytest.approx(truth, rel=1e-3), (row, name)
        readings = package["readings"]
        channels, transfers, links, link_bytes_per_s = PEAKS[known.name]
        moved = sum(
            float(wanted[f"memory.{name}_bytes_per_s"].values[row]) for name in ("read", "write")
        )
        share = moved / (channels * transfers * 8)
        assert readings["utilisation.memory_ratio"] == pytest.approx(share, rel=1e-3)
        for end in ("received", "sent"):
            rate = float(wanted[f"upi.{end}_bytes_per_s"].values[row])
            got = f"utilisation.upi_{end}_ratio"
            share = rate / (links * link_bytes_per_s)
            assert readings[got] == pytest.approx(share, rel=1e-3)
        assert readings["utilisation.pcie_read_ratio"] == "source"  # the lab has no PCI devices
        # These have their counters to themselves, and are exact but for a count's end.
        for name in ("memory.read_bytes_per_s", "upi.sent_bytes_per_s"):
            near = pytest.approx(wanted[name][row], rel=1e-6, abs=64 * 12)
            assert package["readings"][name] == near
        for event, ends in (("cas_read", "channels"), ("link_data_sent", "links")):
            of_box = counted(units[event], event, known.name, from_ns, until_ns)[row]
            assert len(package[ends]) == len(of_box)
            flits = {"link_data_sent": 8 if known.name == "BDX" else 64 / 9}.get(event, 64)
            way = 0 if event == "cas_read" else 1
            got = [box[way] for box in package[ends].values()]
            assert got == pytest.approx((flits * of_box).tolist(), abs=2 * 64)
    if adjacent:
        by_perf = re.findall(r"^ +([0-9,]+) +(uncore_\w+/\S+/)", done.stderr, re.MULTILINE)
        sums = {event: int(value.replace(",", "")) for value, event in by_perf}
        assert {event: sums[entry] for event, entry in zip(units, requested, strict=True)} == {
            event: pytest.approx(reported["whole"][event], abs=2 * 12) for event in units
        }


def counted_by_turns(frame: Mapping[str, Any]) -> bool:
    """Whether both packages have a number that needs more than one group of counters.

    On a busy machine a group may stay on for a whole tick, whose number is no estimate.
    """
    return all(
        row["pcie"]["ddio_hit_ratio"] is not None and "pcie.itom.hit_per_s" in row["estimates"]
        for row in frame["packages"]
    )


def test_the_command_shows_packages_and_doctor_where_they_are_counted() -> None:
    lab = ("--model", "icx", "--cpus", str(CPUS), "--")
    # However long a busy machine takes: until a frame has what is counted by turns.
    run = "-m nftop --batch -n 1000 -d 1 --json".split()
    until_s = time.monotonic() + LONGEST_S
    with running(*lab, sys.executable, *run) as host:
        while not counted_by_turns(frame := json.loads(host.hear())):
            assert time.monotonic() < until_s, frame["sources"]["uncore"]
    # An answer may come after its tick there; nothing else is to be missing.
    late = r"(no answer in time: its numbers are up to [\d.]+ s old)?"
    assert re.fullmatch(late, frame["sources"]["uncore"]["detail"])
    # The clock runs, and the load swings by less than that around its mean.
    about = model().steady[-1]
    for package in (0, 1):
        mine = [cpu["cpu"] for cpu in frame["cpus"] if cpu["package"] == package]
        row = frame["packages"][package]
        reads = 64 * about[mine, INDEX["cas_reads"]].sum()
        assert row["memory"]["read_bytes_per_s"] == pytest.approx(reads, rel=0.05)
        hits = about[mine, INDEX["itom_hit"]].sum()
        assert row["pcie"]["itom"]["hit_per_s"] == pytest.approx(hits, rel=0.05)
        whole = sum(value["read_bytes_per_s"] for value in row["memory"]["channels"].values())
        assert row["memory"]["read_bytes_per_s"] == pytest.approx(whole, rel=1e-9)
    done = enter(*lab, sys.executable, "-m", "nftop", "doctor", "--json")
    checks = {load["name"]: load for load in json.loads(done.stdout)["checks"]}
    for unit in ("cha", "imc", "upi"):
        assert checks[f"uncore {unit}"]["state"] == "ok"
        assert f"by interrupts of CPU 0,{CPUS // 4}" in checks[f"uncore {unit}"]["text"]
