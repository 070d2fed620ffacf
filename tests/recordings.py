"""Recordings to test with, of the simulated host on a clock that moves when it is told to."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nftop.derive.fold import FoldState, step
from nftop.model.frame import Frame
from nftop.model.recording_loss import RecordingLoss
from nftop.model.sample import Sample
from nftop.store.format.encoder import Chunk, Encoder
from nftop.store.format.records import Header, Marker, Tick
from nftop.store.format.zstd import FRAME_END
from nftop.store.reading.bytes import FileBytes
from nftop.store.reading.scan import Scan, ScanItem
from nftop.store.reading.seekpoint import packed
from tests.bench.scenes import Clocked


@dataclass(frozen=True)
class Taken:
    """A session: samples, the frames that were seen, and the recording in chunks."""

    header: Header
    samples: tuple[Sample, ...]
    chunks: tuple[Chunk, ...]
    state: FoldState  # before the first sample
    seen: tuple[Frame, ...] = ()  # where they are not those of `state` and the samples

    @cached_property
    def frames(self) -> tuple[Frame, ...]:
        """Folded when first wanted: most tests need the recording only."""
        assert len(self.seen) in (0, len(self.samples))
        state, frames = self.state, list(self.seen)
        for sample in self.samples[len(frames) :]:
            state, frame = step(state, sample)
            frames.append(frame)
        return tuple(frames)

    @property
    def data(self) -> bytes:
        """The recording, finished."""
        return joined(self.chunks) + FRAME_END + packed(self.chunks[-1].after)

    @property
    def ends(self) -> list[int]:
        """Where each chunk ends in `data`."""
        return [len(joined(self.chunks[:count])) for count in range(1, len(self.chunks) + 1)]


def joined(chunks: Sequence[Chunk]) -> bytes:
    """As a sink writes them."""
    encoded = [
        (FRAME_END if chunk.starts and at else b"") + chunk.data for at, chunk in enumerate(chunks)
    ]
    return b"".join(encoded)


def header_of(clocked: Clocked, began_ns: int = 1) -> Header:
    host = clocked.host
    topology = host.model.layout.topology
    smt = any(info.siblings for info in topology.cpus)
    return Header(began_ns, host.host, topology, host.uarch.name, smt, 1_000_000_000)


def taken(
    ticks: int,
    cpus: int = 8,
    marks: Sequence[int] = (),
    began_ns: int = 1,
    frame: int = 60,
    scenario: str = "default",
    after_s: int = 0,
    sources: Collection[str] = (),
) -> Taken:
    """So many seconds of the simulated host; with a marker before each tick of `marks`.

    A zstd frame has `frame` ticks. The host has run for `after_s` before. With `sources` only
    theirs are recorded, which takes less time to read and to fold.
    """
    clocked = Clocked(cpus, scenario=scenario)
    clocked.now_ns += after_s * 1_000_000_000
    header = header_of(clocked, began_ns)
    encoder = Encoder(header)
    samples, chunks = list[Sample](), list[Chunk]()
    for number in range(ticks):
        sample = clocked.sample()
        if sources:
            kept = {name: item for name, item in sample.readings.items() if name in sources}
            sample = replace(sample, readings=kept)
        if number % frame == 0:
            encoder.restart()
        if number in marks:
            note = Marker("marker", sample.wall_ns - 1, sample.monotonic_ns - 1, f"mark {number}")
            chunks.append(encoder.note(note, note.wall_ns, note.monotonic_ns))
        chunks.append(encoder.tick(number, sample))
        samples.append(sample)
    return Taken(header, tuple(samples), tuple(chunks), clocked.state)


def everything(path: Path) -> tuple[list[ScanItem], bool, RecordingLoss | None]:
    """All that is found in a file, whether it has its end, and what is wrong with that."""
    handle = os.open(path, os.O_RDONLY)
    try:
        scan = Scan(FileBytes(handle))
        return list(_result(scan)), scan.ended, scan.tail_loss()
    finally:
        os.close(handle)


def _result(scan: Scan) -> Iterator[ScanItem]:
    while (result := scan.next()) is not None:
        yield result


def ticks_of(result: Sequence[ScanItem]) -> list[Tick]:
    return [item for item in result if isinstance(item, Tick)]


# Of these equal values are the same, unlike floats; most values are of them.
_PLAIN = frozenset({int, str, bytes, bool, type(None)})


def same(ours: Any, theirs: Any) -> bool:
    """Whether two values are the same to the bit and the type, NaNs and the order of maps too."""
    kind: type[Any] = type(ours)
    if kind is not type(theirs):
        maps = isinstance(ours, Mapping) and isinstance(theirs, Mapping)
        return _same_maps(ours, theirs) if maps else False
    if kind in _PLAIN:
        return bool(ours == theirs)
    if isinstance(ours, np.ndarray):
        alike = ours.dtype == theirs.dtype and ours.shape == theirs.shape
        return bool(alike and ours.tobytes() == theirs.tobytes())
    if is_dataclass(ours):
        names = ours.__dataclass_fields__  # a third of the time of fields()
        return all(same(getattr(ours, name), getattr(theirs, name)) for name in names)
    if isinstance(ours, Mapping):
        return _same_maps(ours, theirs)
    if isinstance(ours, tuple | list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, float):
        return bool(ours.hex() == theirs.hex())
    return bool(ours == theirs)


def _same_maps(ours: Any, theirs: Any) -> bool:
    return list(ours) == list(theirs) and all(same(ours[key], theirs[key]) for key in ours)
