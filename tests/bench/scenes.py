"""Frames of the simulated host to measure with: as it is, every value changing, or a few."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from nftop.derive.fold import FoldState, step
from nftop.model.column import Block, Column
from nftop.model.frame import CpuTable, Frame
from nftop.model.missing import Missing, Reading
from nftop.model.sample import Sample
from nftop.session.live import read_source
from nftop.sources.simulated import SimulatedHost, simulated_host
from tests.frames import WALL_NS

SECOND_NS = 1_000_000_000


@dataclass
class Clocked:
    """The simulated host on a clock that moves only when told."""

    cpus: int
    now_ns: int = 100 * SECOND_NS
    scenario: str = "default"
    processor: str = ""  # the scenario's

    def __post_init__(self) -> None:
        self.host: SimulatedHost = simulated_host(
            self.scenario, self.cpus, processor=self.processor, clock_ns=lambda: self.now_ns
        )
        topology = self.host.model.layout.topology
        self.state = FoldState(self.host.host, topology, self.host.uarch)

    def sample(self) -> Sample:
        """All its sources, a second later."""
        self.now_ns += SECOND_NS
        readings = {source.name: read_source(source) for source in self.host.sources}
        readings = {
            name: replace(reading, read_at_ns=self.now_ns) for name, reading in readings.items()
        }
        wall_ns = WALL_NS + self.now_ns
        return Sample(wall_ns, self.now_ns, SECOND_NS, readings)

    def fold(self, sample: Sample) -> Frame:
        """The frame of a sample."""
        self.state, frame = step(self.state, sample)
        return frame


def shaken(cpus: int, ticks: int, share: float = 1.0) -> list[Frame]:
    """Frames in which so many of the per-CPU values are not what they were a tick before.

    Every CPU has a poller, so that every row is one of the table's.
    """
    clocked = Clocked(cpus)
    frame = [clocked.fold(clocked.sample()) for _ in range(4)][-1]
    rng = np.random.default_rng(1)
    frames = []
    table = _crowded(frame.cpus)
    for tick in range(ticks):
        table = replace(
            table,
            columns=Block.of(
                {
                    name: _shaken(column, frame.cpus.columns[name], share, rng)
                    for name, column in table.columns.items()
                }
            ),
        )
        at = frame.monotonic_ns + tick * SECOND_NS
        wall_ns = frame.wall_ns + tick * SECOND_NS
        frames.append(
            replace(
                frame,
                cpus=table,
                nfs=tuple(
                    replace(nf, readings=_readings(nf.readings, share, rng)) for nf in frame.nfs
                ),
                packages=tuple(
                    replace(row, readings=_readings(row.readings, share, rng))
                    for row in frame.packages
                ),
                monotonic_ns=at,
                wall_ns=wall_ns,
            )
        )
    return frames


def _crowded(cpus: CpuTable) -> CpuTable:
    """Every CPU polls, and has the values of one that does."""
    polling = np.flatnonzero(cpus.columns["cpp"].present).tolist()
    rows = np.array([polling[row % len(polling)] for row in range(len(cpus))], np.intp)
    columns = {
        name: Column(column.values[rows], column.reasons[rows], {}, column.by_reason)
        for name, column in cpus.columns.items()
    }
    at = rows.tolist()
    return replace(
        cpus,
        columns=columns,
        thread=tuple(cpus.thread[row] for row in at),
        nf=tuple(cpus.nf[row] for row in at),
        nf_pid=tuple(cpus.nf_pid[row] for row in at),
        direction=tuple(cpus.direction[row] for row in at),
        cpp_clock=tuple(cpus.cpp_clock[row] for row in at),
        saturated=tuple(cpus.saturated[row] for row in at),
    )


def _shaken(now: Column, base: Column, share: float, rng: np.random.Generator) -> Column:
    chosen = (rng.random(len(now)) < share) & now.present
    usual = np.nanmean(base.values) if base.present.any() else 0.0
    new = np.where(chosen, usual * rng.uniform(0.5, 1.5, len(now)), now.values)
    return Column(new, now.reasons, now.details, now.by_reason)


def _readings(
    now: Mapping[str, Reading], share: float, rng: np.random.Generator
) -> Mapping[str, Reading]:
    return {
        name: reading
        if isinstance(reading, Missing) or rng.random() >= share
        else reading * rng.uniform(0.5, 1.5)
        for name, reading in now.items()
    }
