"""What a recording costs, beside SQLite, JSON Lines and Parquet on the same stream of counters.

Counters of 256 simulated CPUs at 1 Hz, whose growth is made as uneven as real counters' is: the
model's own is so even that any store would look good.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from nftop.model.column import Floats
from nftop.model.sample import CounterTable, Counts, Sample
from nftop.store.format.encoder import Chunk, Encoder
from nftop.store.format.records import Tick
from nftop.store.format.zstd import FRAME_END, ZstdCompressor
from nftop.store.reading.bytes import FileBytes
from nftop.store.reading.scan import Scan
from nftop.store.reading.seek import last_before
from nftop.store.reading.seekpoint import packed
from nftop.store.recording.sink import FileSink
from tests.bench.report import Reached, median
from tests.bench.scenes import Clocked
from tests.recordings import header_of

CPUS, TICKS, DAY = 256, 180, 86_400
# Of what a counter grows by in a tick, one standard deviation: what a steady poller shows.
_UNEVEN = 0.001


@dataclass
class Store:
    """One way to keep them: `append` a tick, `close` and say which file; then `seek` a tick."""

    name: str
    append: Callable[[int, Sample], None]
    close: Callable[[], Path]
    seek: Callable[[int], object] | None = None
    costs_ms: list[float] = field(default_factory=list)
    took_ms: list[float] = field(default_factory=list)


def main() -> list[Reached]:
    """Print the tables."""
    samples = list(_uneven(TICKS))
    with tempfile.TemporaryDirectory() as folder:
        stores = [item for item in _stores(Path(folder)) if item is not None]
        for number, sample in enumerate(samples):
            for store in stores:  # by turns, so that all have the same noise
                began, cpu = time.perf_counter(), time.process_time()
                store.append(number, sample)
                store.costs_ms.append((time.process_time() - cpu) * 1e3)
                store.took_ms.append((time.perf_counter() - began) * 1e3)
        print(f"recording the counters of {CPUS} CPUs at 1 Hz, {TICKS} ticks")
        print(f"{'':<30}{'bytes/core':>11}{'CPU ms':>8}{'p50 ms':>8}{'p99 ms':>8}{'seek ms':>9}")
        rows = [_row(store) for store in stores]
        every = _everything(Path(folder))
        seek_ms = _seek_in_a_day(Path(folder), samples)
    print(f"{'nftop, every source':<30}{every[0]:>11.1f}{every[1]:>8.2f}")
    print(f"in a file of 24 hours: {seek_ms:.1f} ms to a tick half a minute behind a seek point")
    print()
    entropy = _entropy_bytes()
    print(f"entropy of that stream: {entropy:.1f} bytes per core and tick")
    print()
    (ours, ours_ms, ours_seek), (theirs, theirs_ms, theirs_seek) = rows[0], rows[1]
    return [
        Reached("recording: bytes by entropy", "<= 1.2", ours / entropy, 1.2),
        Reached("recording: bytes by SQLite's", "1/5", ours / theirs, 0.2),
        Reached("recording: CPU by SQLite's", "1/8", ours_ms / theirs_ms, 0.125),
        Reached("recording: seek by SQLite's", "1", ours_seek / theirs_seek, 1.0),
    ]


def _uneven(ticks: int) -> Iterator[Sample]:
    clocked, rng = Clocked(CPUS), np.random.default_rng(5)
    before, extra = None, None
    for _ in range(ticks):
        sample = clocked.sample()
        reading, table = sample.readings["perf"], _counters(sample)
        noise = np.abs(rng.normal(0, 1, table.values.shape)) * _deviation(table, before)
        extra = noise.astype(np.uint64) if extra is None else extra + noise.astype(np.uint64)
        before = table.values
        table = replace(table, values=table.values + extra)
        yield replace(sample, readings={**sample.readings, "perf": replace(reading, value=table)})


def _deviation(table: CounterTable, before: Counts | None) -> Floats:
    """Standard deviation of the noise before its sign is taken away, in counts."""
    grown = table.values.astype(np.float64) if before is None else table.values - before
    return np.asarray(_UNEVEN * np.minimum(grown, 1e10))


def _entropy_bytes() -> float:
    """Bytes per core and tick that the noise of the stream needs, whatever the code.

    A half-normal variable of scale s has log2(pi e s^2 / 2) / 2 bits as a whole number, if s is
    well above 1; below 1 it is taken for 0. What the model itself counts is taken as known.
    """
    clocked = Clocked(CPUS)
    before, bits = None, 0.0
    for _ in range(TICKS):
        table = _counters(clocked.sample())
        scale = _deviation(table, before)
        large = scale[scale >= 1]
        bits += float(np.log2(np.pi * np.e / 2 * large**2).sum()) / 2
        before = table.values
    return bits / 8 / TICKS / CPUS


def _counters(sample: Sample) -> CounterTable:
    table = sample.readings["perf"].value
    assert isinstance(table, CounterTable)
    return table


def _stores(folder: Path) -> Iterator[Store | None]:
    yield _nftop(folder)
    yield _sqlite(folder)
    yield _json_lines(folder)
    yield _parquet(folder)


def _nftop(folder: Path) -> Store:
    encoder = Encoder(header_of(Clocked(CPUS)))
    file = folder / "a.nftop"
    sink = FileSink(file)

    def append(number: int, sample: Sample) -> None:
        only = replace(sample, readings={"perf": sample.readings["perf"]})
        sink.write(encoder.tick(number, only))

    def close() -> Path:
        sink.finish()
        return file

    def seek(number: int) -> object:
        with _opened(file) as data:
            location = last_before(data, lambda point: point.number > number)
            assert location is not None
            return _tick(Scan(data, location.at), number - location.point.number)

    return Store("nftop", append, close, seek)


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[FileBytes]:
    data = FileBytes(os.open(file, os.O_RDONLY))
    try:
        yield data
    finally:
        data.close()


def _tick(scan: Scan, behind: int) -> object:
    """The tick so many behind the first."""
    while (result := scan.next()) is not None:
        if isinstance(result, Tick):
            if not behind:
                return result
            behind -= 1
    return None


def _sqlite(folder: Path) -> Store:
    file = folder / "a.sqlite"
    database = sqlite3.connect(file)
    database.execute("pragma journal_mode=wal")
    database.execute("pragma synchronous=normal")
    events = _events()
    names = ", ".join(f"e{at} integer" for at in range(len(events)))
    database.execute(
        f"create table ticks (tick integer, cpu integer, {names}, primary key (tick, cpu)) "
        "without rowid"
    )
    marks = ", ".join("?" * (len(events) + 2))

    def append(number: int, sample: Sample) -> None:
        table = _counters(sample)
        rows = zip(table.cpus.tolist(), table.values.astype(np.int64).tolist(), strict=True)
        database.executemany(
            f"insert into ticks values ({marks})", ((number, cpu, *row) for cpu, row in rows)
        )
        database.commit()

    def close() -> Path:
        database.execute("pragma wal_checkpoint(truncate)")
        return file

    def seek(number: int) -> object:
        fresh = sqlite3.connect(file)
        try:
            return fresh.execute("select * from ticks where tick = ?", (number,)).fetchall()
        finally:
            fresh.close()

    return Store("SQLite, a row per core", append, close, seek)


def _events() -> tuple[str, ...]:
    return _counters(Clocked(CPUS).sample()).events


def _json_lines(folder: Path) -> Store:
    file = folder / "a.jsonl.zst"
    out = file.open("wb", buffering=0)
    compressor = ZstdCompressor()

    def append(number: int, sample: Sample) -> None:
        table = _counters(sample)
        rows = zip(table.cpus.tolist(), table.values.tolist(), strict=True)
        line = {"tick": number, "cpus": dict(rows)}
        out.write(compressor.compress(json.dumps(line).encode() + b"\n", compressor.FLUSH_BLOCK))

    def close() -> Path:
        out.close()
        return file

    return Store("JSON Lines + zstd", append, close)


def _parquet(folder: Path) -> Store | None:
    try:
        pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        print("no pyarrow here, so no Parquet")
        return None
    file = folder / "a.parquet"
    waiting: list[Any] = []
    writer: list[Any] = []

    def append(number: int, sample: Sample) -> None:
        table = _counters(sample)
        columns = {"tick": np.full(len(table.cpus), number), "cpu": table.cpus}
        columns |= {f"e{at}": table.values[:, at] for at in range(len(table.events))}
        waiting.append(pa.table(columns))
        if len(waiting) == 60:
            whole = pa.concat_tables(waiting)
            if not writer:
                writer.append(parquet.ParquetWriter(file, whole.schema, compression="zstd"))
            writer[0].write_table(whole)
            waiting.clear()

    def close() -> Path:
        for item in writer:
            item.close()
        return file

    return Store("Parquet, 60-tick groups", append, close)


def _row(store: Store) -> tuple[float, float, float]:
    size = store.close().stat().st_size / TICKS / CPUS
    cost = median(store.costs_ms)
    took = sorted(store.took_ms)
    p50, p99 = took[len(took) // 2], took[int(len(took) * 0.99)]
    seeks = [_timed_ms(store.seek, at) for at in range(5, TICKS, 7)] if store.seek else []
    seek = median(seeks) if seeks else float("nan")
    shown = f"{seek:>9.2f}" if seeks else f"{'-':>9}"
    print(f"{store.name:<30}{size:>11.1f}{cost:>8.2f}{p50:>8.2f}{p99:>8.2f}{shown}")
    return size, cost, seek


def _timed_ms(do: Callable[[int], object], at: int) -> float:
    began = time.perf_counter()
    do(at)
    return (time.perf_counter() - began) * 1e3


def _everything(folder: Path) -> tuple[float, float]:
    """Bytes per core and CPU ms a tick with all that the simulated host's sources give."""
    encoder = Encoder(header_of(Clocked(CPUS)))
    sink = FileSink(folder / "all.nftop")
    costs = []
    for number, sample in enumerate(_uneven(TICKS)):
        began = time.process_time()
        sink.write(encoder.tick(number, sample))
        costs.append((time.process_time() - began) * 1e3)
    sink.finish()
    return sink.size / TICKS / CPUS, median(costs)


def _seek_in_a_day(folder: Path, samples: Sequence[Sample]) -> float:
    """ms to a tick of a file of 24 hours, whose every minute is the same but for its seek point."""
    encoder = Encoder(header_of(Clocked(CPUS)))
    chunks = [encoder.tick(number, sample) for number, sample in enumerate(samples[:60])]
    minute = b"".join(chunk.data for chunk in chunks)[len(packed(chunks[0].after)) :] + FRAME_END
    first: Chunk = chunks[0]
    file = folder / "day.nftop"
    with file.open("wb") as out:
        for at in range(DAY // 60):
            point = replace(first.after, number=at * 60, wall_ns=at * 60, end=False)
            out.write(packed(point) + minute)
    rng = np.random.default_rng(2)
    spent = []
    for number in (rng.integers(0, DAY // 60, 20) * 60 + 30).tolist():
        began = time.perf_counter()
        with _opened(file) as data:
            location = last_before(data, lambda point, number=number: point.number > number)  # type: ignore[misc]
            assert location is not None and location.point.number == number - 30
            _tick(Scan(data, location.at), 30)
        spent.append((time.perf_counter() - began) * 1e3)
    return median(spent)
