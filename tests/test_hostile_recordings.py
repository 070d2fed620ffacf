"""Recordings made to harm whoever looks at them: memory, time, and what reaches a terminal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from rich.console import Console
from rich.style import Style

from nftop.model.missing import Missing
from nftop.model.recording_loss import RecordingLoss
from nftop.model.sample import Sample
from nftop.render.base.line import Line, Span, Tone
from nftop.session.reader import Tape
from nftop.session.replay import Replay
from nftop.store.format.encoder import Encoder
from nftop.store.format.records import DroppedTicks, Header, Marker, framed, header_body
from nftop.store.format.zstd import FRAME_END, ZstdCompressor
from nftop.store.history.rings import Ring, TickHistory
from nftop.store.reading.scan import Scan, add_loss
from nftop.store.reading.seekpoint import SeekPoint, packed
from nftop.ui.app import NftopApp
from nftop.ui.widgets.lines import Ink, LineStrip
from tests.forked import Forks
from tests.hostile import (
    ESCAPES,
    honest,
    recording,
    with_number,
    with_texts,
)
from tests.recordings import joined
from tests.store.reading.test_scan import Bytes, scanned
from tests.ui.feeds import StepFeed
from tests.ui.harness import Running
from tests.ui.test_recordings import Still, shows

MOST_MIB = 400
LONGEST_S = 180.0
# What a terminal obeys, hides or reorders a line by; a line feed is nftop's own.
UNSAFE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with closing(Forks()) as forks:
        yield forks


def commands(file: Path, folder: Path) -> Mapping[str, tuple[str, ...]]:
    """Everything that reads a recording and is no screen."""
    return {
        "text": ("replay", "--batch", str(file)),
        "json": ("replay", "--batch", "--json", str(file)),
        "csv": ("replay", "--batch", "--csv", str(file)),
        "list": ("replay", "--list", str(file)),
        "compare": ("compare", f"{file}@,+2s", f"{file}@+3s,"),
        "compare-json": ("compare", "--json", f"{file}@,+2s", f"{file}@+3s,"),
        "hosts": ("compare", "--before", f"{file}@,+2s", "--after", f"{file}@+3s,"),
        "export-csv": ("export", "--format", "csv", "-o", str(folder / "csv"), str(file)),
        "export-jsonl": ("export", "--format", "jsonl", "-o", str(folder / "jsonl"), str(file)),
        "report-html": ("report", "--format", "html", "-o", "-", str(file)),
        "report-md": ("report", "-o", "-", str(file)),
    }


# Numbers


def wide(sample: Sample) -> Sample:
    """The attack that was seen: 11 ways become a billion."""
    return with_number(sample, ("CacheDomain", "ways"), 10**9)


@pytest.mark.parametrize("command", ["text", "json", "compare", "export-csv"])
def test_a_billion_ways_take_no_memory_and_no_other_source(
    tmp_path: Path, forks: Forks, command: str
) -> None:
    about, samples = honest(6)
    file = tmp_path / "wide.nftop"
    file.write_bytes(recording(about, [*map(wide, samples)]))
    done = forks.run(*commands(file, tmp_path)[command], timeout_s=LONGEST_S)
    assert done.returncode == 0, done.stderr
    assert done.peak_kib < MOST_MIB << 10
    if command == "json":
        frame = json.loads(done.stdout.splitlines()[-1])
        states = {name: item["state"] for name, item in frame["sources"].items()}
        assert states.pop("resctrl") == "error" and "error" not in states.values()


FUZZ = """
import pathlib, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from tests.hostile import fold_all
print(fold_all())
print(pathlib.Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""


def test_a_hostile_number_in_any_field_is_folded_or_a_loss() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FUZZ],
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    assert done.returncode == 0, done.stderr
    fields, peak_kib = map(int, done.stdout.split())
    assert fields > 100 and peak_kib < MOST_MIB << 10


@pytest.mark.parametrize(
    "field",
    [
        ("CacheDomain", "ways"), ("CpuInfo", "cpu"), ("ResctrlGroup", "clos"),
        ("ThreadRow", "allowed"), ("DpdkPort", "rx_queues"), ("CounterTable", "group"),
        ("CpuTimes", "ticks_per_s"), ("CpuFrequency", "max_hz"),
    ],
    ids=".".join,
)  # fmt: skip
@pytest.mark.parametrize("number", [10**18, -5])
def test_what_no_hardware_has_makes_its_source_absent(field: tuple[str, str], number: int) -> None:
    about, (first, second, third) = honest()
    result, _ = scanned(recording(about, [first, with_number(second, field, number), third]))
    ticks = [item for item in result if not isinstance(item, Header)]
    assert len(ticks) == 3
    spoilt = [
        name
        for name, reading in ticks[1].sample.readings.items()  # type: ignore[union-attr]
        if isinstance(reading.value, Missing) and ".".join(field) in reading.value.detail
    ]
    assert spoilt


# Memory and time


def raw(first: bytes, bodies: Sequence[bytes], window_log: int | None = None) -> bytes:
    """A recording with these records, whatever they are."""
    compressor = ZstdCompressor()
    if window_log is not None:
        parameter = sys.modules[ZstdCompressor.__module__].CompressionParameter
        compressor = ZstdCompressor(options={parameter.window_log: window_log})
    point = SeekPoint(10**18, 10**9, 0, 0)
    data = packed(point)
    for body in (first, *bodies):
        data += compressor.compress(framed(body), ZstdCompressor.FLUSH_BLOCK)
    return data + FRAME_END + packed(replace(point, number=len(bodies), end=True))


def array(count: int, of: bytes) -> bytes:
    return b"\xdd" + count.to_bytes(4, "big") + of * count


def sample_body(number: int, readings: bytes) -> bytes:
    times = [number, 10**18 + number * 10**9, (number + 1) * 10**9, 10**9]
    return b"\x96\xa6sample" + b"".join(map(msgspec.msgpack.encode, times)) + readings


def header() -> bytes:
    return header_body(honest()[0])


def of_bodies(count: int, body: Callable[[], bytes]) -> Callable[[], bytes]:
    return lambda: raw(header(), [body()] * count)


def of_readings(written: bytes, of: bytes, count: int = (4 << 20) - 200) -> Callable[[], bytes]:
    return of_bodies(8, lambda: sample_body(0, written + array(count, of)))


def of_record(kind: bytes, count: int) -> Callable[[], bytes]:
    return of_bodies(8, lambda: b"\x92" + kind + array(count, b"\x90"))


def long_reasons() -> bytes:
    why = msgspec.msgpack.encode("\U0001f600" + "x" * (3 << 20))
    reading = b"\x81\xa4self\x94\x00\x00\x09" + why
    return raw(header(), [sample_body(at, reading) for at in range(100)])


def many_headers(pairs: int = 500) -> bytes:
    begun = honest()[0]
    bodies = [header_body(begun), header_body(replace(begun, began_ns=7))]
    return raw(bodies[0], bodies * pairs)


def doubling_shapes() -> bytes:
    """Of a field that nobody knows: records within records, twice each, without a column."""
    about, samples = honest()
    shapes: dict[str, Any] = dict(about.records)
    shapes["SelfUse"] = (*shapes["SelfUse"], ("more", ("record", "A0")))
    for at in range(60):
        inner = ("record", f"A{at + 1}")
        shapes[f"A{at}"] = (("a", inner), ("b", inner))
    shapes["A60"] = ()
    return recording(replace(about, records=shapes), samples)


SELF = b"\x81\xa4self\x94\x00\x00\xa7SelfUse"
GAP = msgspec.msgpack.encode(["gap", {"ticks": 1, "why": "x" * 100}])
BOMBS: Mapping[str, Callable[[], bytes]] = {
    "empty arrays as readings": of_readings(b"", b"\x90"),
    "empty arrays as columns": of_readings(SELF, b"\x90"),
    "empty arrays in a column": of_readings(SELF + b"\x91", b"\x90"),
    "texts in a column": of_readings(SELF + b"\x91", b"\xa1x", (2 << 20) - 200),
    "header": of_record(b"\xa6header", (2 << 20) - 200),
    "longer header": of_record(b"\xa6header", (4 << 20) - 200),
    "marker": of_record(b"\xa6marker", (2 << 20) - 200),
    "gap": of_record(b"\xa3gap", (2 << 20) - 200),
    "unknown": of_record(b"\xa7unknown", (2 << 20) - 200),
    "nested": of_bodies(8, lambda: b"\x92\xa6marker" + b"\x91" * (1 << 20)),
    "reasons": long_reasons,
    "gaps": of_bodies(20_000, lambda: GAP),
    "window": lambda: raw(header(), [GAP] * 10, window_log=27),
    "headers": many_headers,
    "shapes": doubling_shapes,
}


@pytest.mark.parametrize("name", list(BOMBS))
def test_a_small_file_takes_neither_memory_nor_time(
    tmp_path: Path, forks: Forks, name: str
) -> None:
    file, data = tmp_path / "bomb.nftop", BOMBS[name]()
    file.write_bytes(data)
    assert len(data) < 1 << 20
    done = forks.run(*commands(file, tmp_path)["json"], timeout_s=LONGEST_S)
    assert done.returncode in (0, 4), done.stderr
    assert done.peak_kib < MOST_MIB << 10


def test_eight_thousand_cpus_are_shown_in_bounded_memory(tmp_path: Path, forks: Forks) -> None:
    about, samples = honest(4)
    info = about.topology.cpus[0]
    cpus = tuple(
        replace(info, cpu=cpu, core=cpu, package=cpu % 4096, l3=cpu, siblings=())  # type: ignore[arg-type]
        for cpu in range(8192)
    )
    data = recording(replace(about, topology=replace(about.topology, cpus=cpus)), samples)
    file = tmp_path / "wide.nftop"
    file.write_bytes(data)
    done = forks.run("replay", "--batch", str(file), timeout_s=LONGEST_S)
    assert done.returncode in (0, 4), done.stderr
    assert done.peak_kib < MOST_MIB << 10


def test_a_stop_is_noticed_while_what_was_read_ahead_is_decoded() -> None:
    body = b"\x92\xa7unknown" + array(1 << 20, b"\x00")
    data = Bytes(raw(header(), [body] * 50))
    assert len(data.data) < 1 << 16  # one read
    scan = Scan(data)
    assert isinstance(scan.next(), Header)
    data.stop()
    with pytest.raises(InterruptedError):
        scan.next()


def test_frames_to_step_back_to_are_limited_by_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    about, samples = honest(12)
    data = recording(about, samples)

    def kept() -> list[int]:
        tape = Tape(Bytes(data), goes_back=True)
        while tape.forward() is not None:
            pass
        return [item.size_bytes for item in tape._kept]

    sizes = kept()
    assert len(sizes) == 12
    monkeypatch.setattr("nftop.session.reader._KEPT_BYTES", sum(sizes[-5:]))
    assert kept() == sizes[-5:]
    monkeypatch.setattr("nftop.session.reader._KEPT_BYTES", 0)
    assert len(kept()) == 2


def test_a_long_history_of_many_rows_is_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nftop.store.history.rings.MOST_BYTES", 4 * 40 * 64)
    ring = Ring(("cpp",), ticks=600)
    few, many = {0: 0}, {row: row for row in range(64)}
    for tick in range(100):
        rows = few if tick < 50 else many
        ring.append(tick * 10**9, 10**9, rows, np.full((1, len(rows)), float(tick)))
    track = ring.track(100 * 10**9)
    assert track.values.nbytes == 4 * 40 * 64
    assert track.times_ns.tolist() == [tick * 10**9 for tick in range(60, 100)]
    assert ring.series("cpp", 0, 40, 40.0)[-1] == 99.0


# Texts


def hostile_texts(ticks: int = 8, cpus: int = 2) -> bytes:
    """A recording in which every text from outside has `ESCAPES` in it."""
    about, samples = honest(ticks, cpus)
    host = replace(about.host, name=f"host{ESCAPES}", model=f"model{ESCAPES}")
    about = replace(about, host=host, command=(ESCAPES,), catalogue=((ESCAPES,) * 4,))
    encoder = Encoder(about)
    chunks = []
    for number, sample in enumerate(samples):
        times = sample.wall_ns, sample.monotonic_ns
        if number == 2:
            chunks.append(encoder.note(DroppedTicks(1, f"gap{ESCAPES}"), *times))
            continue
        if number == 4:
            for kind in ("marker", "action", "change", "finding"):
                marker = Marker(kind, *times, f"{kind}{ESCAPES}", {ESCAPES: ESCAPES})
                chunks.append(encoder.note(marker, *times))
        chunks.append(encoder.tick(number, with_texts(sample, ESCAPES)))
    return joined(chunks) + FRAME_END + packed(chunks[-1].after)


def unsafe_in(data: bytes) -> list[str]:
    return UNSAFE.findall(data.decode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("command", list(commands(Path(), Path())))
def test_no_text_of_a_recording_reaches_a_stream_as_it_is(
    tmp_path: Path, forks: Forks, command: str
) -> None:
    file = tmp_path / "texts.nftop"
    file.write_bytes(hostile_texts())
    assert unsafe_in(ESCAPES.encode())  # the pattern knows them
    done = forks.run(*commands(file, tmp_path)[command], timeout_s=LONGEST_S)
    assert done.returncode in (0, 4), done.stderr
    assert not unsafe_in(done.stdout) and not unsafe_in(done.stderr)
    written = [path for path in tmp_path.rglob("*") if path.suffix in (".csv", ".jsonl")]
    assert bool(written) == command.startswith("export")
    for item in written:
        assert not unsafe_in(item.read_bytes()), item.name
    if command == "json":  # lossless all the same
        assert json.loads(done.stdout.splitlines()[0])["host"]["name"] == f"host{ESCAPES}"


def test_a_name_of_a_file_reaches_no_stream_as_it_is(tmp_path: Path, forks: Forks) -> None:
    for command in commands(Path(f"no{ESCAPES}"), tmp_path).values():
        done = forks.run(*command, timeout_s=LONGEST_S)
        assert done.returncode and done.stderr
        assert not unsafe_in(done.stdout) and not unsafe_in(done.stderr)
    done = forks.run(f"--{ESCAPES}", timeout_s=LONGEST_S)
    assert not unsafe_in(done.stderr)


async def test_no_text_of_a_recording_reaches_the_screen_as_it_is() -> None:
    history = TickHistory()
    feed = Replay(Bytes(hostile_texts(12, 4)), clock=Still(), on_frame=history.append)
    app = NftopApp(feed, history)
    async with app.run_test(size=(160, 50)) as pilot:
        run = Running(app, pilot, StepFeed())
        await shows(run, "REPLAY")
        await run.press("space")
        for key in (
            "right",
            "right",
            "2",
            "enter",
            "escape",
            "3",
            "4",
            "6",
            "7",
            "F",
            "x",
            "1",
            "?",
        ):
            await run.press(key)
            strips = app.screen._compositor.render_strips()
            sent = "\n".join("".join(item.text for item in strip) for strip in strips)
            assert not UNSAFE.findall(sent), key


def test_a_span_that_nobody_escaped_is_created_so_where_it_is_sent() -> None:
    ink = Ink(lambda _: Style.null(), plain=False, to_edge=False)
    line = Line((Span(f"a{ESCAPES}", Tone.PLAIN),))
    assert not UNSAFE.findall(LineStrip(line, 80, ink).render(Console(color_system=None)))
    assert not UNSAFE.findall("".join(segment.text for segment in ink.segments(line, 80)))


def test_losses_without_a_tick_between_are_counted_and_not_kept() -> None:
    reports: list[RecordingLoss] = []
    tape = Tape(Bytes(many_headers(100)), on_loss=reports.append)
    assert tape.forward() is None
    assert len(reports) == 200 and len(tape._lost) == len(tape._remarks) == 64
    many: list[RecordingLoss] = []
    for ticks in range(100):
        add_loss(many, RecordingLoss(ticks, 2, "why"))
    assert (len(many), sum(item.ticks or 0 for item in many)) == (64, sum(range(100)))
    assert sum(item.size_bytes for item in many) == 200
