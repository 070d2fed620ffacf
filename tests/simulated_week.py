"""A week of three simulated hosts in recordings: the real simulator on a clock that is stepped.

`python -m tests.simulated_week FOLDER [SECONDS]`: samples so far apart, by default 600 s.

What happens is known, since every host plays `noisy`, whose tenant streams through its ways of the
cache all week: these ways are its own at first. On Wednesday at 14:00 somebody gives the tenant of
edge-2 the ways of the network functions, which drop packets from then on. On Friday at 06:00 new
masks are rolled out on all hosts: the tenant has two ways of its own, VPP one more than before.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nftop.cli.compose.accelerated import SteppedClock
from nftop.model.change import Cell
from nftop.model.sample import Sample, SourceReading
from nftop.sim.classes import SimulatedClasses
from nftop.sources.simulated import SimulatedHost, simulated_host
from nftop.store.format.records import Header
from nftop.store.recording.recorder import Recorder
from nftop.store.recording.sink import FileSink

MONDAY = datetime(2026, 6, 1, tzinfo=UTC)
WIDENED_AT = MONDAY + timedelta(days=2, hours=14)
ROLLED_OUT_AT = MONDAY + timedelta(days=4, hours=6)
DAYS = 7
HOSTS = ("edge-1", "edge-2", "edge-3")
_TENANT, _VPP = (Cell("schemata", group, "L3", 0) for group in ("tenant", "vpp"))
APART, OVER_ALL = {_TENANT: "e00"}, {_TENANT: "fe"}
ROLLED_OUT = {_TENANT: "c00", _VPP: "3e0"}
# Samples that may wait for the recorder, which loses those beyond 64.
_WAITING = 32


@dataclass(frozen=True)
class Weekly:
    """Masks by the time from which on they hold, after those of the beginning."""

    name: str
    changes: Mapping[datetime, Mapping[Cell, str]]


WEEK = (
    Weekly("edge-1", {ROLLED_OUT_AT: ROLLED_OUT}),
    Weekly("edge-2", {WIDENED_AT: OVER_ALL, ROLLED_OUT_AT: ROLLED_OUT}),
    Weekly("edge-3", {ROLLED_OUT_AT: ROLLED_OUT}),
)


def record_host(
    host: Weekly, path: Path, *, interval_s: int = 600, days: int = DAYS, cpus: int = 18
) -> int:
    """Record one host; the number of samples."""
    clock = SteppedClock()
    demo = simulated_host("noisy", cpus, clock_ns=clock.now_ns)
    _set(demo, APART)
    clock.advance(120.0)
    recorder = Recorder(_header(demo, host.name, interval_s))
    sink = FileSink(path)
    recorder.start(sink)
    left = dict(host.changes)
    count = days * 86_400 // interval_s
    for number in range(count):
        moment = MONDAY + timedelta(seconds=number * interval_s)
        for at in [at for at in left if at <= moment]:
            _set(demo, left.pop(at))
        now_ns = clock.now_ns()
        readings = {item.name: SourceReading(item.read(), now_ns, 0) for item in demo.sources}
        wall_ns = int(moment.timestamp()) * 10**9
        recorder.take(Sample(wall_ns, now_ns, interval_s * 10**9, readings))
        while sink.ticks < number - _WAITING:
            time.sleep(0.001)
        clock.advance(interval_s)
    result = recorder.close()
    assert result is not None and (result.ticks, result.lost) == (count, 0)
    return count


def record_week(folder: Path, *, interval_s: int = 600) -> list[Path]:
    """A recording of each host."""
    paths = [folder / f"{host.name}.nftop" for host in WEEK]
    for host, path in zip(WEEK, paths, strict=True):
        record_host(host, path, interval_s=interval_s)
    return paths


def _set(demo: SimulatedHost, cells: Mapping[Cell, str]) -> None:
    def make(classes: SimulatedClasses) -> SimulatedClasses:
        return replace(classes, state={**classes.state, **cells})

    demo.world.change(make)


def _header(demo: SimulatedHost, name: str, interval_s: int) -> Header:
    topology = demo.model.layout.topology
    return Header(
        int(MONDAY.timestamp()) * 10**9,
        replace(demo.host, name=name),
        topology,
        demo.uarch.name,
        any(info.siblings for info in topology.cpus),
        interval_s * 10**9,
    )


def main(folder: str, interval_s: str = "600") -> None:
    began_s = time.monotonic()
    for path in record_week(Path(folder), interval_s=int(interval_s)):
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    print(f"{time.monotonic() - began_s:.0f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
