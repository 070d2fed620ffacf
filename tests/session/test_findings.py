"""Findings are told as they begin, recorded, seen again, and gone to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from unittest import mock

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.findings.engine import begun
from nftop.derive.fold import FoldState
from nftop.export.json.frame import incident_object
from nftop.model.clock import clock_of
from nftop.model.frame import Finding, Frame
from nftop.model.incident import Severity
from nftop.model.missing import Missing, Reading
from nftop.model.sample import Sample
from nftop.render.incidents.line import incident_text_lines
from nftop.render.incidents.page import lost_text
from nftop.session.interval import NamedInterval, opened
from nftop.session.reader import START_NS, Tape
from nftop.session.replay import Replay
from nftop.session.report_data import ReportData, collect
from nftop.store.format.records import Marker
from nftop.store.history.flight import FlightRecorder
from nftop.store.recording.recorder import Recorder
from nftop.store.recording.sink import FileSink
from tests.bench.scenes import Clocked
from tests.command import called
from tests.frames import about
from tests.recordings import everything, header_of, joined, same, taken
from tests.samples import S
from tests.session.replays import Clock, all_of, replaying
from tests.session.test_live import FakeClock, live, take
from tests.store.reading.test_scan import Bytes

RESULT = Finding("low-ipc", "core_ipc", about("cpu 1"), "IPC 1.50", 5)


def test_a_live_session_reports_every_finding_as_it_begins() -> None:
    other = replace(RESULT, subject=about("cpu 2"))
    script = iter(
        [(), (RESULT,), (replace(RESULT, text="IPC 1.49"),), (RESULT, other), (), (RESULT,)]
    )
    ends: list[tuple[str, int]] = []

    def step(state: FoldState, sample: Sample) -> tuple[FoldState, Frame]:
        frame = frame_of()
        return state, replace(frame, wall_ns=sample.wall_ns, findings=next(script))

    feed = live(
        interval_s=1.0,
        clock=FakeClock(),
        on_finding=lambda item, wall_ns, _: ends.append((item.where, wall_ns)),
    )
    with mock.patch("nftop.session.live.step", side_effect=step):
        frames = take(feed.frames(), 6)
    walls = [frame.wall_ns for frame in frames]
    assert ends == [("cpu 1", walls[1]), ("cpu 2", walls[3]), ("cpu 1", walls[5])]


@lru_cache(maxsize=1)
def frame_of() -> Frame:
    clocked = Clocked(2)
    return clocked.fold(clocked.sample())


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Frame, ...]]:
    """What happens from 15 s to 50 s on the host of `shared`, in a file, and as it was seen."""
    clocked = Clocked(44, scenario="shared")
    clocked.now_ns += 15 * S
    file = tmp_path_factory.mktemp("found") / "a.nftop"
    recorder = Recorder(header_of(clocked))
    recorder.start(FileSink(file))
    frames: list[Frame] = []
    for _ in range(35):
        sample = clocked.sample()
        recorder.take(sample)
        frame = clocked.fold(sample)
        for finding in begun(frames[-1].findings if frames else (), frame.findings):
            recorder.record_finding(finding, frame.wall_ns, frame.monotonic_ns)
        frames.append(frame)
    recorder.close()
    return file, tuple(frames)


def test_a_replay_has_the_same_incidents(session: tuple[Path, tuple[Frame, ...]]) -> None:
    file, seen = session
    again = all_of(file.read_bytes())
    assert [frame.incidents for frame in again] == [frame.incidents for frame in seen]
    assert [frame.past_incidents for frame in again] == [frame.past_incidents for frame in seen]
    ids = {item.id for frame in seen for item in frame.incidents}
    assert len(ids) == 1
    culprit = next(item.culprit for frame in seen for item in frame.incidents)
    assert culprit is not None and (culprit.name, culprit.pid) == ("burnin", 7900)


def test_a_replay_shows_the_same_findings_at_the_same_ticks(
    session: tuple[Path, tuple[Frame, ...]],
) -> None:
    file, seen = session
    again = all_of(file.read_bytes())
    assert {finding.rule for frame in seen for finding in frame.findings} == {
        "poller-waits",
        "shared-cpu",
    }
    assert not seen[-1].findings
    assert [frame.findings for frame in again] == [frame.findings for frame in seen]
    assert all(same(live, replayed) for live, replayed in zip(seen, again, strict=True))


def test_a_recording_has_a_marker_where_every_begins(
    session: tuple[Path, tuple[Frame, ...]], snapshot: SnapshotAssertion
) -> None:
    file, seen = session
    result, _, _ = everything(file)
    markers = [item for item in result if isinstance(item, Marker)]
    first = {finding.rule: frame.wall_ns for frame in reversed(seen) for finding in frame.findings}
    assert {marker.detail["rule"]: marker.wall_ns for marker in markers} == first
    assert {marker.kind for marker in markers} == {"finding"}
    waits = next(item for item in markers if item.detail["rule"] == "poller-waits")
    assert waits.text == snapshot


def test_one_can_go_to_where_it_begins(session: tuple[Path, tuple[Frame, ...]]) -> None:
    file, seen = session
    feed = Replay(Bytes(file.read_bytes()), clock=Clock(), paced=False)
    frames: Iterator[Frame] = feed.frames()
    assert not next(frames).findings
    feed.to_marker(1)
    present = next(frames)
    assert present.findings and present.findings == next(f for f in seen if f.findings).findings
    assert feed.position is not None and "cpu 35: " in feed.position.remark


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, tuple[Frame, ...]]:
    """A neighbour that begins to stream at tick 61: with notes of findings, without, as seen."""
    clocked = Clocked(24, scenario="noisy")
    files = [tmp_path_factory.mktemp("noisy") / name for name in ("noted.nftop", "bare.nftop")]
    recorders = [Recorder(header_of(clocked)) for _ in files]
    for recorder, file in zip(recorders, files, strict=True):
        recorder.start(FileSink(file))
    frames: list[Frame] = []
    for _ in range(150):
        sample = clocked.sample()
        for recorder in recorders:
            recorder.take(sample)
        frame = clocked.fold(sample)
        for finding in begun(frames[-1].findings if frames else (), frame.findings):
            recorders[0].record_finding(finding, frame.wall_ns, frame.monotonic_ns)
        frames.append(frame)
    for recorder in recorders:
        recorder.close()
    return files[0], files[1], tuple(frames)


def begins(frame: Frame) -> tuple[dict[str, tuple[int, int]], dict[tuple[str, str], int]]:
    incidents = {item.id: (item.since_ns, item.began_ns) for item in frame.incidents}
    return incidents, {(item.rule, item.where): item.since_ns for item in frame.findings}


# The warm-up has the begin, or is within the incident.
@pytest.mark.parametrize("tick", [75, 90, 149])
def test_after_a_jump_incidents_begin_as_in_the_whole_recording(
    noisy: tuple[Path, Path, tuple[Frame, ...]], tick: int
) -> None:
    file, _, seen = noisy
    frame = Tape(Bytes(file.read_bytes())).go(seen[tick].wall_ns)[-1].frame
    assert begins(frame) == begins(seen[tick])
    assert len(frame.incidents) > 2 and not any(item.is_bound for item in frame.incidents)


def test_a_jump_on_screen_has_the_values_before_an_incident_that_just_began(
    noisy: tuple[Path, Path, tuple[Frame, ...]],
) -> None:
    """Deep within it they would take as many ticks as it has: there they are unknown."""
    file, _, seen = noisy
    for tick, is_known in ((80, True), (149, False)):
        feed = replaying(file.read_bytes(), paused=True)
        frames = feed.frames()
        feed.step(1)
        next(frames)
        feed.seek(seen[tick].wall_ns)
        frame = next(item for item in frames if item.wall_ns == seen[tick].wall_ns)
        (jumped,), (played,) = (
            [item for item in one.incidents if item.kind == "neighbour"]
            for one in (frame, seen[tick])
        )
        known = [not isinstance(item.before, Missing) for item in jumped.victims]
        assert known and set(known) == {is_known}
        assert (jumped.victims == played.victims) == is_known
        feed.stop()


def test_report_list_and_replay_have_one_begin_of_an_incident(
    noisy: tuple[Path, Path, tuple[Frame, ...]],
) -> None:
    file, _, seen = noisy
    last = seen[-1].incidents
    at = datetime.fromtimestamp(seen[140].wall_ns / 1e9, UTC)
    with closing((cut := opened(NamedInterval(str(file), f"{at:%H:%M:%S}"))).data):
        report = collect(cut)
    assert report is not None
    reported = {item.key: item.begin_ns for item in report.events if item.kind == "incident"}
    assert reported == {item.id: item.since_ns for item in last}
    replayed = called("replay", str(file), "--at", f"{at:%H:%M:%S}", "-n", "1", "--json").stdout
    shown = {item["id"]: item["since"][:19] for item in json.loads(replayed)["incidents"]}
    utc = {
        key: f"{datetime.fromtimestamp(ns // S, UTC):%Y-%m-%dT%H:%M:%S}"
        for key, ns in reported.items()
    }
    assert shown == utc
    listed = called("replay", str(file), "--list").stdout
    assert set(utc.values()) <= set(re.findall(r", since (\S+)Z$", listed, re.MULTILINE))


def test_a_report_that_begins_within_an_incident_counts_all_of_it(
    noisy: tuple[Path, Path, tuple[Frame, ...]],
) -> None:
    file, _, seen = noisy
    report = report_of(file, seen[140].wall_ns, seen[149].wall_ns)
    (incident,) = (item.incident for item in report.events if item.severity is Severity.BAD)
    (whole,) = (item for item in seen[149].incidents if item.severity is Severity.BAD)
    assert incident is not None and incident.dropped == whole.dropped
    assert not incident.is_dropped_bound
    assert incident.victims == whole.victims  # with their numbers from before it


def test_after_a_jump_within_an_incident_its_drops_are_a_lower_bound(
    noisy: tuple[Path, Path, tuple[Frame, ...]],
) -> None:
    file, _, seen = noisy
    tape = Tape(Bytes(file.read_bytes()))
    frame = tape.go(seen[148].wall_ns)[-1].frame
    (incident,) = (item for item in frame.incidents if item.severity is Severity.BAD)
    (whole,) = (item for item in seen[148].incidents if item.severity is Severity.BAD)
    assert (incident.since_ns, incident.id) == (whole.since_ns, whole.id)
    assert 0 < plain_number(incident.dropped) < plain_number(whole.dropped)
    assert seen[100].wall_ns < incident.counted_from_ns < seen[148].wall_ns
    shown = incident_object(incident)
    assert shown["dropped_is_bound"] and shown["dropped_since"] > shown["since"]
    assert not incident_object(whole)["dropped_is_bound"]
    text = lost_text(incident, "5")
    assert text.startswith("at least 5 ") and clock_of(incident.counted_from_ns) in text
    first = tape.go(seen[148].wall_ns, fold_ns=START_NS)[-1].frame
    assert same(first, seen[148])


def test_the_first_seconds_of_an_incident_are_in_a_report_of_them(
    noisy: tuple[Path, Path, tuple[Frame, ...]],
) -> None:
    file, _, seen = noisy
    (whole,) = (item for item in seen[149].incidents if item.severity is Severity.BAD)
    report = report_of(file, whole.since_ns, whole.since_ns + 2 * S)
    assert not any(item.severity is Severity.BAD for item in report.last.incidents)
    harm = [item.key for item in report.events if item.severity is Severity.BAD]
    assert harm == [whole.id]
    report = report_of(file, whole.since_ns - 20 * S, whole.since_ns - 2 * S)
    assert not any(item.severity is Severity.BAD for item in report.events)


def test_information_has_no_losses_of_its_neighbours(
    noisy: tuple[Path, Path, tuple[Frame, ...]],
) -> None:
    _, _, seen = noisy
    notes = [item for item in seen[149].incidents if item.severity is Severity.INFO]
    victims = [victim for item in notes for victim in item.victims]
    (harm,) = (item for item in seen[149].incidents if item.severity is Severity.BAD)
    lost = {item.party.key for item in harm.victims if plain_number(item.drops_per_s) > 0}
    assert lost & {victim.party.key for victim in victims}
    assert all(isinstance(victim.change, Missing) for victim in victims)
    drops = [victim.drops_per_s for victim in victims]
    assert all(isinstance(item, Missing) or item == 0 for item in drops)


def plain_number(value: Reading) -> float:
    assert not isinstance(value, Missing)
    return value


def report_of(file: Path, from_ns: int, to_ns: int) -> ReportData:
    start, end = (
        f"{datetime.fromtimestamp(ns / 1e9, UTC):%Y-%m-%dT%H:%M:%S.%fZ}" for ns in (from_ns, to_ns)
    )
    with closing((cut := opened(NamedInterval(str(file), start, end))).data):
        report = collect(cut)
    assert report is not None
    return report


def test_a_begin_before_the_warm_up_that_is_not_noted_is_a_bound(
    noisy: tuple[Path, Path, tuple[Frame, ...]],
) -> None:
    _, file, seen = noisy
    frame = Tape(Bytes(file.read_bytes())).go(seen[140].wall_ns)[-1].frame
    assert frame.findings and all(item.is_bound for item in frame.findings)
    assert frame.incidents and all(item.is_bound for item in frame.incidents)
    assert all(item.since_ns > seen[70].wall_ns for item in frame.incidents)
    text = "".join(item.text for item in incident_text_lines(frame, 400))
    assert text.count("since before ") == len(frame.incidents)


def test_markers_are_listed_from_a_file_and_a_pipe(
    session: tuple[Path, tuple[Frame, ...]], tmp_path: Path
) -> None:
    file, _ = session
    done = called("replay", str(file), "--list")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all(line[10] == "T" and "Z finding cpu 35: " in line for line in lines)
    cut = tmp_path / "cut.nftop"
    cut.write_bytes(file.read_bytes()[:-100])
    assert called("replay", str(cut), "--list").stdout == done.stdout
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    cut.write_bytes(damaged)
    done = called("replay", str(cut), "--list")
    assert done.returncode == 4 and "lost" in done.stderr
    done = called("replay", "/etc/passwd", "--list")
    assert done.returncode == 4 and "no recording" in done.stderr


def test_a_recording_kept_with_its_past_has_the_begins_of_the_session(tmp_path: Path) -> None:
    """Of half seconds the past has every other sample, so that it has a later first tick."""
    clocked, flight, file = Clocked(8), FlightRecorder(), tmp_path / "a.nftop"
    recorder = Recorder(header_of(clocked), flight=flight)
    frames: list[Frame] = []
    for number in range(24):
        clocked.now_ns -= S // 2  # `sample` is a second later
        state, sample = clocked.state, replace(clocked.sample(), interval_ns=S // 2)
        frames.append(clocked.fold(sample))
        recorder.take(sample, state)
        for finding in begun(frames[-2].findings if number else (), frames[-1].findings):
            recorder.record_finding(finding, sample.wall_ns, sample.monotonic_ns)
        if number == 20:
            recorder.start(FileSink(file))
    recorder.close()
    played = all_of(file.read_bytes())
    begins = [
        [(item.id, item.since_ns, item.is_bound) for item in frame.incidents]
        for frame in (frames[-1], played[-1])
    ]
    assert begins[0] and begins[1] == begins[0]


def test_what_the_first_tick_of_a_recording_meets_may_have_begun_before() -> None:
    whole = taken(20, frame=10)
    later = joined(whole.chunks[10:])
    for data, is_bound in ((whole.data, False), (later, True)):
        frame = all_of(data)[-1]
        assert {item.is_bound for item in frame.incidents} == {is_bound}
