"""A last-level cache that goes offline with its CPUs, and comes back, in a recording."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from nftop.model.rdt.rdt import ResctrlTable
from nftop.model.sample import CpuTimes, Sample
from nftop.model.topology import CpuInfo, Topology
from nftop.store.format.encoder import Encoder
from nftop.store.format.zstd import FRAME_END
from nftop.store.reading.seekpoint import packed
from tests.bench.scenes import Clocked
from tests.recordings import everything, header_of, joined, ticks_of

_GONE, _BACK, _TICKS, _CPUS = 5, 9, 14, 16


def without(sample: Sample, topology: Topology, l3: int) -> Sample:
    """The sample of a kernel that has taken this cache offline: its CPUs are hidden too."""
    gone = {info.cpu for info in topology.cpus if info.l3 == l3}
    cpus = tuple(
        CpuInfo(info.cpu, False, None, None, None, None, None) if info.cpu in gone else info
        for info in topology.cpus
    )
    caches = tuple(cache for cache in topology.l3 if cache.id != l3)
    table = sample.readings["resctrl"].value
    assert isinstance(table, ResctrlTable)
    groups = tuple(
        replace(
            group,
            cpus=tuple(cpu for cpu in group.cpus if cpu not in gone),
            caches=tuple(cache for cache in group.caches if cache.l3 != l3),
        )
        for group in table.groups
    )
    times = sample.readings["kernel"].value
    assert isinstance(times, CpuTimes)
    on = ~np.isin(times.cpus, sorted(gone))
    domains = tuple(domain for domain in table.domains if domain.l3 != l3)
    readings = {
        **sample.readings,
        "topology": replace(
            sample.readings["topology"], value=replace(topology, cpus=cpus, l3=caches)
        ),
        "kernel": replace(
            sample.readings["kernel"],
            value=replace(times, cpus=times.cpus[on], ticks=times.ticks[on]),
        ),
        "resctrl": replace(
            sample.readings["resctrl"], value=replace(table, groups=groups, domains=domains)
        ),
    }
    return replace(sample, readings=readings)


def test_only_the_caches_own_rows_miss(tmp_path: Path) -> None:
    clocked = Clocked(_CPUS)
    topology = clocked.host.model.layout.topology
    kept, gone = (cache.id for cache in topology.l3)
    encoder, chunks, frames = Encoder(header_of(clocked)), [], []
    encoder.restart()
    for number in range(_TICKS):
        sample = clocked.sample()
        if _GONE <= number < _BACK:
            sample = without(sample, topology, gone)
        chunks.append(encoder.tick(number, sample))
        frames.append(clocked.fold(sample))
    path = tmp_path / "l3.nftop"
    path.write_bytes(joined(chunks) + FRAME_END + packed(chunks[-1].after))
    ticks = ticks_of(everything(path)[0])
    assert [tick.number for tick in ticks] == list(range(_TICKS))
    replayed = Clocked(_CPUS)
    for number, (tick, frame) in enumerate(zip(ticks, frames, strict=True)):
        again = replayed.fold(tick.sample)
        ipc, softirq = (again.cpus.columns[name] for name in ("ipc", "softirq_ratio"))
        np.testing.assert_array_equal(ipc.values, frame.cpus.columns["ipc"].values)
        here = np.array([info.l3 == kept for info in topology.cpus])
        off = _GONE <= number < _BACK
        assert [domain.l3 for domain in again.domains] == [kept] + [gone] * (not off)
        rows = [[row.l3 for row in group.caches] for group in again.groups]
        assert rows == [[kept] + [gone] * (not off)] * len(again.groups)
        if number > 1:
            assert np.isfinite(softirq.values[here]).all() and np.isfinite(ipc.values[here]).all()
        assert np.array_equal(again.cpus.online, here | (not off))
        if off:
            assert np.isnan(softirq.values[~here]).all()
        elif number > _BACK + 1:
            assert np.isfinite(softirq.values).all()
