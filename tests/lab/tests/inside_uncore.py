"""nftop's own counters outside the cores, in a lab whose clock only this program moves.

`python -m tests.lab.tests.inside_uncore UARCH` prints JSON: the rows of packages over one second,
when that began, and the raw counts of memory and links from opening them until its end.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nftop.derive.package.relative import PackageLoad, per_packet, utilisation
from nftop.derive.package.table import PackageState, step_packages
from nftop.model.frame import BoxTraffic, PackageRow
from nftop.model.ids import Package
from nftop.model.missing import Missing, Reading
from nftop.model.sample import SourceReading
from nftop.model.topology import Topology
from nftop.model.uncore import UncoreTable
from nftop.sim.workloads import INDEX
from nftop.sources.host.topology import read_topology
from nftop.sources.perf.abi import host_kernel
from nftop.sources.uncore.counters import UncoreCounters
from nftop.uarch import table
from tests.lab.tests.events import model

CONTROL = Path("/sys/fs/lab/live/ctl")
S = 1_000_000_000
TICKS = 3  # the first opens, the second shows the pace, and the last two are a second apart


def now_ns() -> int:
    return int((CONTROL / "now").read_text(encoding="ascii"))


def step(duration_ns: int) -> None:
    (CONTROL / "clock").write_text(f"step {duration_ns / S:.9f}", encoding="ascii")


def tick(counters: UncoreCounters, until_ns: int) -> UncoreTable:
    """A reading at that time; turns change when they are due."""
    while (at_ns := now_ns()) < until_ns:
        step(min(counters.due_ns or until_ns, until_ns) - at_ns)
        counters.turn()
    read = counters.read()
    assert isinstance(read, UncoreTable), read
    assert read.gaps == "", read.gaps
    return read


def packets_of(package: Package, topology: Topology, from_ns: int, until_ns: int) -> float:
    """Packets per second of a package's pollers, of the model itself."""
    cpus = [info.cpu for info in topology.cpus if info.package == package]
    before, after = (model().counts(at)[cpus, INDEX["packets"]].sum() for at in (from_ns, until_ns))
    return float(int(after) - int(before)) * S / (until_ns - from_ns)


def main(uarch: str) -> None:
    known = table.load(uarch)
    counters = UncoreCounters(known, kernel=host_kernel(), clock_ns=now_ns)
    counters.detail(wanted=True)
    began_ns = now_ns()
    state, rows = PackageState(), tuple[PackageRow, ...]()
    reads: list[UncoreTable] = []
    topology = read_topology()
    for second in range(TICKS + 1):
        reads.append(tick(counters, began_ns + second * S))
        reading = SourceReading(reads[-1], now_ns(), 0)
        state, rows = step_packages(state, reading, known, topology)
    from_ns, until_ns = began_ns + (TICKS - 1) * S, now_ns()
    packets = {row.package: packets_of(row.package, topology, from_ns, until_ns) for row in rows}
    rows = tuple(per_packet(row, PackageLoad(packets[row.package])) for row in rows)
    rows = tuple(utilisation(row, topology, uarch) for row in rows)
    last = reads[-1]
    whole = {
        event: int(last.values[last.event == index].sum())
        for index, event in enumerate(last.events)
    }
    print(
        json.dumps(
            {
                "from_ns": from_ns,
                "until_ns": until_ns,
                "whole": whole,
                "packages": [
                    {
                        "readings": {name: plain(item) for name, item in row.readings.items()},
                        "channels": boxes(row.channels),
                        "links": boxes(row.links),
                    }
                    for row in rows
                ],
            }
        )
    )
    counters.close()


def plain(reading: Reading) -> float | str:
    return reading.reason.key if isinstance(reading, Missing) else reading


def boxes(entry: tuple[BoxTraffic, ...]) -> Mapping[int, Any]:
    return {box.number: [plain(box.in_bytes_per_s), plain(box.out_bytes_per_s)] for box in entry}


if __name__ == "__main__":
    main(sys.argv[1])
