"""Recordings of findings: each begins before it, and their number and length are bounded."""

from __future__ import annotations

import errno
import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from unittest import mock

import pytest

from nftop.model.frame import Finding, Frame
from nftop.model.incident import Incident, Price, Severity
from nftop.model.struct import replace
from nftop.session.finding_recorder import MOST_AFTER, FindingRecorder, RecordingTrigger
from nftop.store.format.records import Marker
from nftop.store.history.flight import FlightRecorder
from nftop.store.recording import recorder as recorder_module
from nftop.store.recording.recorder import NO_ANSWER, Recorder, Recording
from nftop.store.recording.sink import FileSink, Sink
from tests.frames import about
from tests.recordings import Taken, everything, taken, ticks_of
from tests.waiting import until

S = 1_000_000_000
TICKS = 330


@pytest.fixture(scope="module")
def session() -> Taken:
    return taken(TICKS, cpus=2, scenario="healthy", sources=("processes",))


@dataclass
class Bench:
    """A session that is recorded on findings, into a folder."""

    folder: Path
    session: Taken
    rules: frozenset[str] = frozenset()
    after_s: int = 20
    ended: list[tuple[Recording, int, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.recorder = Recorder(self.session.header, flight=FlightRecorder())
        trigger = RecordingTrigger(self.rules, 30 * S, self.after_s * S)
        self.triggered = FindingRecorder(
            self.recorder, trigger, self.sink, lambda *report: self.ended.append(report)
        )

    def sink(self, wall_ns: int) -> Sink:
        return FileSink(self.folder / f"{wall_ns}.nftop")

    def run(self, harmful: dict[int, tuple[str, ...]], until_tick: int = TICKS) -> None:
        """Ticks with these open incidents that harm."""
        for number in range(until_tick):
            # The recorder has a thread of its own, and no pace is to be kept here.
            self.recorder.take(self.session.samples[number])
            until(lambda: self.recorder._waiting == 0)
            ids = harmful.get(number, ())
            frame = replace(self.session.frames[number], incidents=tuple(map(incident, ids)))
            self.triggered.on_frame(frame)
        self.triggered.close()

    def wall_ns(self, tick: int) -> int:
        return self.session.samples[tick].wall_ns


def incident(name: str, severity: Severity = Severity.BAD) -> Incident:
    return Incident(name, severity, "x", None, (), Price(), 1)


def test_three_incidents_leave_three_recordings_that_begin_before_them(
    tmp_path: Path, session: Taken
) -> None:
    bench = Bench(tmp_path, session)
    bench.run({100: ("a",), 200: ("b",), 201: ("b",), 300: ("c", "d")})
    assert [(count, goes_on) for _, count, goes_on in bench.ended] == [
        (1, False),
        (1, False),
        (2, False),
    ]
    files = sorted(tmp_path.iterdir())
    assert [int(file.stem) for file in files] == [bench.wall_ns(at) for at in (100, 200, 300)]
    for file, at in zip(files, (100, 200, 300), strict=True):
        items, ended, rest = everything(file)
        times = [tick.sample.wall_ns for tick in ticks_of(items)]
        assert ended and rest is None
        # Segments begin once a minute.
        assert bench.wall_ns(at - 90) < times[0] <= bench.wall_ns(at - 30)
        assert times[-1] == bench.wall_ns(min(at + 20, TICKS - 1))
        assert times == [bench.wall_ns(n) for n in range(at + 21) if bench.wall_ns(n) in times]
    assert bench.ended[0][0].before_s >= 30


def test_findings_meanwhile_prolong_it_up_to_a_limit(tmp_path: Path, session: Taken) -> None:
    bench = Bench(tmp_path, session, after_s=5)
    longest = MOST_AFTER * 5
    bench.run({number: (f"i{number}",) for number in range(70, 300)})
    full = bench.ended[:3]
    assert [goes_on for _, _, goes_on in full] == [True] * 3
    assert [count for _, count, _ in full] == [longest + 1] * 3
    # A flood of 230 incidents is four files.
    assert len(list(tmp_path.iterdir())) == bench.triggered.count == 4


def test_recordings_that_end_before_the_next_frame_are_all_reported(
    tmp_path: Path, session: Taken
) -> None:
    """The recorder's thread is held until the third recording was requested."""
    bench = Bench(tmp_path, session, after_s=1)
    go_on = Event()
    bench.recorder._jobs.put(partial(go_on.wait, 60))  # type: ignore[arg-type]
    for number in range(6):
        bench.recorder.take(session.samples[number])
        harmful = {0: ("a",), 2: ("b", "c"), 4: ("d",)}.get(number, ())
        incidents = tuple(map(incident, harmful))
        bench.triggered.on_frame(replace(session.frames[number], incidents=incidents))
    assert not bench.ended
    go_on.set()
    bench.triggered.close()
    assert [findings for _, findings, _ in bench.ended] == [1, 2, 1]
    names = [done.name for done, _, _ in bench.ended]
    assert names == sorted(map(str, tmp_path.iterdir())) and len(names) == 3
    assert [done.ticks > 0 for done, _, _ in bench.ended] == [True] * 3


def test_recordings_without_an_answer_of_the_disk_are_reported_under_their_own_names(
    tmp_path: Path, session: Taken
) -> None:
    """The first can't be ended, so that the second can't be begun."""
    bench = Bench(tmp_path, session, after_s=1)
    go_on, hangs = Event(), Event()

    def hang(_: FileSink) -> None:
        hangs.set()
        go_on.wait(60)

    patched = (
        mock.patch.object(FileSink, "finish", hang),
        mock.patch.object(recorder_module, "_WHOLE_S", 0.01),
    )
    with patched[0], patched[1]:
        for number in range(6):
            bench.recorder.take(session.samples[number])
            until(lambda: hangs.is_set() or bench.recorder._waiting == 0)
            incidents = tuple(map(incident, {0: ("a",), 4: ("b",)}.get(number, ())))
            bench.triggered.on_frame(replace(session.frames[number], incidents=incidents))
        until(hangs.is_set)
        bench.triggered.close()
        names = [done.name for done, _, _ in bench.ended]
        assert names == [str(tmp_path / f"{bench.wall_ns(at)}.nftop") for at in (0, 4)]
        assert [done.ticks > 0 for done, _, _ in bench.ended] == [True, False]
        assert all(done.problem == NO_ANSWER for done, _, _ in bench.ended)
        assert bench.triggered.incomplete == 2
        go_on.set()
        bench.recorder._thread.join()


def test_a_finding_after_a_recording_has_ended_early_begins_another(
    tmp_path: Path, session: Taken
) -> None:
    """Both findings are of one tick: no frame is between them."""
    folder = tmp_path / "missing"
    folder.touch()
    bench = Bench(folder, session, rules=frozenset({"drops"}))
    finding = Finding("drops", "drop_packets_per_s", about("nf vpp"), "1 packet", 1)
    sample = session.samples[0]
    bench.recorder.take(sample)
    bench.triggered.on_finding(finding, sample.wall_ns, sample.monotonic_ns)
    until(lambda: bench.triggered._unreported[0].ended is not None)
    folder.unlink()
    bench.triggered.on_finding(finding, sample.wall_ns, sample.monotonic_ns)
    bench.triggered.close()
    assert [(done.ticks, count) for done, count, _ in bench.ended] == [(0, 1), (1, 1)]


def test_information_and_muted_incidents_begin_none(tmp_path: Path, session: Taken) -> None:
    bench = Bench(tmp_path, session)
    frame: Frame = session.frames[0]
    for item in (incident("a", Severity.INFO), replace(incident("b"), muted=True)):
        bench.triggered.on_frame(replace(frame, incidents=(item,)))
    assert bench.triggered.count == 0
    bench.triggered.on_frame(replace(frame, incidents=(incident("a"),)))
    assert bench.triggered.count == 1  # the first harms by now
    bench.triggered.close()


def test_with_rules_only_their_findings_do(tmp_path: Path, session: Taken) -> None:
    bench = Bench(tmp_path, session, rules=frozenset({"drops"}))
    bench.recorder.take(session.samples[0])
    bench.triggered.on_frame(replace(session.frames[0], incidents=(incident("a"),)))
    finding = Finding("drops", "drop_packets_per_s", about("nf vpp"), "1 packet", 1)
    for item in (replace(finding, rule="low-ipc"), replace(finding, is_muted=True)):
        bench.triggered.on_finding(item, 2, 2)
    assert bench.triggered.count == 0
    bench.triggered.on_finding(finding, bench.wall_ns(0), session.samples[0].monotonic_ns)
    bench.triggered.close()
    [(done, count, _)] = bench.ended
    assert (done.ticks, count, bench.triggered.count) == (1, 1, 1)
    items, _, _ = everything(Path(done.name))
    markers = [item.detail["rule"] for item in items if isinstance(item, Marker)]
    assert markers[-1] == "drops"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small tmpfs")
def test_a_flood_of_findings_on_a_full_disk_keeps_the_recordings_of_before(
    tmp_path: Path, session: Taken
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"can't mount a tmpfs here: {mounted.stderr.decode().strip()}")
    try:
        first = Bench(disk, session)
        first.run({40: ("a",)}, 80)
        assert first.triggered.incomplete == 0
        (kept,) = disk.iterdir()
        before = kept.read_bytes()
        with suppress(OSError), (disk / "fill").open("wb", buffering=0) as fill:
            while True:
                fill.write(bytes(4096))
        flood = Bench(disk, session, after_s=2)
        flood.run({number: (f"f{number}",) for number in range(90, TICKS)})
        assert kept.read_bytes() == before
        assert {item.name for item in disk.iterdir()} == {kept.name, "fill"}
        # A new finding each second: they share recordings of twelve times `after`.
        assert flood.triggered.incomplete == flood.triggered.count == len(flood.ended) == 10
        assert sum(findings for _, findings, _ in flood.ended) == TICKS - 90
        for done, _, _ in flood.ended:
            assert (done.ticks, done.problem) == (0, os.strerror(errno.ENOSPC))
        (disk / "fill").unlink()
        again = Bench(disk, session)
        again.run({100: ("a",)}, 130)
        ((done, _, _),) = again.ended
        assert done.ticks and not done.lost and done.before_s >= 30
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_file_that_cannot_be_written_is_reported_and_the_next_finding_tries_again(
    tmp_path: Path, session: Taken
) -> None:
    folder = tmp_path / "missing"
    folder.touch()  # a file: nothing can be created in it
    bench = Bench(folder, session)
    bench.run({70: ("a",), 120: ("b",)}, 150)
    assert bench.triggered.count == len(bench.ended) == 2
    assert all(done.ticks == 0 and done.problem for done, _, _ in bench.ended)
