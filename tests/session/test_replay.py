"""What was recorded is seen again: the very frames, at any pace, from any place."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from unittest import mock

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.control.backend import CLASSES
from nftop.control.resctrl.thread_monitors import monitor_name, propose_monitor
from nftop.control.simulated import simulated_gates
from nftop.derive import fold
from nftop.derive.cpu_filter import only_cpus
from nftop.derive.fold import FoldState
from nftop.export.batch import TEXT_WIDTH, run_batch
from nftop.export.csv import frame_csv
from nftop.export.json.frame import frame_json
from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.model.missing import Missing
from nftop.model.recording_loss import RecordingLoss
from nftop.model.replay_position import Position
from nftop.model.sample import Sample
from nftop.render.base.text import ascii_only
from nftop.render.pages.batch_text import monitor_text
from nftop.session.feed import Player
from nftop.session.reader import NoMomentError, NoRecordingError
from nftop.store.format.encoder import Chunk, Encoder
from tests.bench.scenes import Clocked
from tests.recordings import Taken, header_of, joined, same, taken
from tests.samples import S
from tests.session.replays import TICKS, Clock, all_of, number, replaying, session
from tests.store.reading.test_scan import Bytes


def test_frames_replayed_are_the_frames_seen_live() -> None:
    whole = taken(TICKS, cpus=4, marks=(30, 31, 85), frame=25)  # of every source
    seen, again = whole.frames, all_of(whole.data)
    assert len(again) == TICKS
    for live, replayed in zip(seen, again, strict=True):
        assert same(live, replayed)
        assert frame_json(live) == frame_json(replayed)
    assert frame_csv(seen[50]) == frame_csv(again[50])


def test_devices_replayed_are_those_seen_live() -> None:
    whole = taken(4, cpus=16, scenario="sst-bf")  # Cascade Lake
    for live, replayed in zip(whole.frames, all_of(whole.data), strict=True):
        assert [row.port for row in replayed.devices] == [row.port for row in live.devices]
        assert frame_json(live) == frame_json(replayed)
    wrote = [row.readings["dma_write_bytes_per_s"] for row in whole.frames[-1].devices]
    assert len(wrote) > 2
    assert not any(isinstance(number, Missing) for number in wrote)


def test_power_replayed_is_what_was_seen_live() -> None:
    names = ("power_w", "energy_j", "throttles_per_s", "c6_ratio")
    whole = taken(8, cpus=16, sources=("perf", "power", "topology"))
    again = all_of(whole.data)
    for live, replayed in zip(whole.frames, again, strict=True):
        for name in names[:3]:
            own = [row.readings[name] for row in live.packages]
            assert [row.readings[name] for row in replayed.packages] == own
        assert same(live.cpus.columns["c6_ratio"], replayed.cpus.columns["c6_ratio"])
        assert live.cpus.sampled_s == replayed.cpus.sampled_s
    last = [again[-1].packages[0].readings[name] for name in names[:2]]
    assert all(isinstance(number, float) and number > 0 for number in last)
    assert again[-1].cpus.columns["c6_ratio"].present.any()


def test_monitors_replayed_are_those_seen_live() -> None:
    """Groups of threads that are made, and taken away again, while it is recorded."""
    clocked = Clocked(16)
    gate = simulated_gates(clocked.host.world).gates[CLASSES]
    assert gate is not None
    encoder, frames, chunks = Encoder(header_of(clocked)), list[Frame](), list[Chunk]()
    for tick in range(12):
        sample = clocked.sample()
        chunks.append(encoder.tick(tick, sample))
        frames.append(clocked.fold(sample))
        if tick in (3, 8):  # M on VPP, twice
            vpp = next(nf for nf in frames[-1].nfs if nf.kind == "vpp")
            threads = [(item.tid, item.cpu) for item in vpp.threads if item.tid is not None]
            proposal, _ = propose_monitor(gate, monitor_name(vpp.name, vpp.pid), threads)
            assert gate.apply(proposal, keep_within_s=None).receipt.outcome == "kept"
    again = io.StringIO()
    data = Taken(header_of(clocked), (), tuple(chunks), clocked.state).data
    feed = replaying(data, paced=False, stays=False, follow=False)
    run_batch(feed, again, form="monitors", count=None)
    live = [
        "".join(f"{ascii_only(item.text).rstrip()}\n" for item in monitor_text(frame, TEXT_WIDTH))
        for frame in frames[1:]
    ]
    assert again.getvalue() == "".join(live)
    # And there is something to be seen: the thread's own cache and traffic, and the group's.
    vpp = next(nf for nf in frames[7].nfs if nf.kind == "vpp")
    assert not any(isinstance(item.occupancy_bytes, Missing) for item in vpp.threads)
    assert [text.count("\ngroup ") for text in live[1:]].count(1) == 5
    assert live[-1].count("\ngroup ") == 0


def test_the_cpus_that_were_shown_are_those_of_the_replay() -> None:
    few = taken(3, cpus=4)
    header = replace(few.header, cpus=(Cpu(1), Cpu(3)))
    encoder = Encoder(header)
    data = b"".join(encoder.tick(at, sample).data for at, sample in enumerate(few.samples))
    again = all_of(data)
    cpus = frozenset(header.cpus or ())
    assert all(same(only_cpus(a, cpus), b) for a, b in zip(few.frames, again, strict=True))


def test_a_loss_in_the_middle_is_reported_and_the_rest_is_present() -> None:
    whole = session()
    lost: list[RecordingLoss] = []
    spoilt = bytearray(whole.data)
    spoilt[whole.ends[40]] ^= 0xFF
    frames = all_of(bytes(spoilt), on_loss=lost.append)
    assert len(frames) < TICKS
    (loss,) = lost
    assert loss.ticks == TICKS - len(frames) and loss.size_bytes
    numbers = [frame.wall_ns for frame in frames]
    assert numbers == sorted(numbers)


def test_a_jump_shows_what_was_seen_but_for_what_rests_on_more_than_it_folds() -> None:
    whole = session()
    for at in (0, 1, 24, 26, 60, 99):
        feed = replaying(paced=False)
        frames = feed.frames()
        next(frames)
        feed.seek(whole.samples[at].wall_ns)
        frame = next(frames)
        assert frame.wall_ns == whole.samples[at].wall_ns and number(feed) == at
        here = feed.position
        assert here is not None
        assert here.warmed is None if at < 25 + 10 else 10 <= (here.warmed or 0) < 36
        assert same(frame.cpus.columns["ipc"], whole.frames[at].cpus.columns["ipc"])
        assert [nf.name for nf in frame.nfs] == [nf.name for nf in whole.frames[at].nfs]
        frames.close()


def test_beyond_both_ends_nothing_was_recorded_and_one_stays(snapshot: SnapshotAssertion) -> None:
    whole = session()
    feed = replaying(paced=False)
    frames = feed.frames()
    next(frames)
    next(frames)
    for beyond_ns in (10**20, whole.samples[-1].wall_ns + 3 * S, whole.samples[0].wall_ns - 3 * S):
        feed.seek(beyond_ns)
        next(frames)
        position = feed.position
        assert position is not None and position.number == 1
        assert position.remark == snapshot
        assert "; the recording is " in position.remark
    for end, present in ((-1, TICKS - 1), (0, 0)):
        feed.seek(whole.samples[end].wall_ns)
        next(frames)
        assert number(feed) == present
    for at in ("+500s", "-500s", "2000-01-01T00:00:00Z"):
        with pytest.raises(NoMomentError, match="nothing was recorded at"):
            next(replaying(at=at).frames())


def test_a_time_is_that_of_the_tick_next_to_it() -> None:
    wall_ns = session().samples[40].wall_ns
    feed = replaying(paced=False)
    frames = feed.frames()
    next(frames)
    for by_ns, present in ((-S // 4, 40), (S // 4, 40), (-S * 3 // 4, 39)):
        feed.seek(wall_ns + by_ns)
        next(frames)
        assert number(feed) == present


def test_steps_back_are_the_frames_that_were_present() -> None:
    whole = session()
    feed = replaying(paced=False)
    frames = feed.frames()
    seen = [next(frames) for _ in range(60)]
    for back in range(1, 6):
        feed.step(-1)
        assert next(frames) is seen[-1 - back]
    feed.step(2)
    assert next(frames) is seen[-4]
    feed.step(-56)
    assert next(frames) is seen[0] and number(feed) == 0
    feed.step(-1)  # nothing is before it
    assert next(frames) is seen[0]
    feed.seek(whole.samples[90].wall_ns)
    next(frames)
    for at in range(89, 60, -1):  # what a jump folded, and then what it did not
        feed.step(-1)
        assert next(frames).wall_ns == whole.samples[at].wall_ns
    feed.pause()
    next(frames)
    assert next(frames).wall_ns == whole.samples[62].wall_ns


def test_where_time_goes_back_another_session_begins(snapshot: SnapshotAssertion) -> None:
    whole = session()
    few = joined(whole.chunks[:20])
    reports: list[RecordingLoss] = []
    again = all_of(few + few, on_loss=reports.append)
    count = len(again) // 2
    assert [at for at, item in enumerate(again) if item.interval_s is None] == [0, count]
    assert all(item.interval_s > 0 for item in again if item.interval_s is not None)
    # The second is what the first was, but for what is said of it.
    assert [frame_json(replace(entry, lost=())) for entry in again[count:]] == [
        frame_json(entry) for entry in again[:count]
    ]
    (lost,) = again[count].lost
    assert lost.ticks is None
    assert lost.why == snapshot
    (loss,) = reports
    assert not loss.damage and loss.sentence == lost.why
    assert [at for at, element in enumerate(again) if element.lost] == [count]


def test_another_recording_behind_one_is_another_session(snapshot: SnapshotAssertion) -> None:
    other = taken(5, cpus=2, began_ns=7, after_s=500)
    again = all_of(session().data + other.data)
    assert again[TICKS].interval_s is None
    (lost,) = again[TICKS].lost
    assert lost.why == snapshot


def test_what_is_lost_is_in_the_next_frame_s_json() -> None:
    whole = session()
    spoilt = bytearray(whole.data)
    spoilt[whole.ends[40]] ^= 0xFF
    out = io.StringIO()
    feed = replaying(bytes(spoilt), paced=False, stays=False, follow=False)
    run_batch(feed, out, form="json", count=None)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    (behind,) = (line for line in lines if line["lost"])
    missing = TICKS - 1 - len(lines)
    (lost,) = behind["lost"]
    assert lost["ticks"] == missing and lost["bytes"] > 0 and lost["why"]
    assert behind["interval_s"] == pytest.approx(missing + 1)
    # Where it is the frame that is not written, since it only primes, the first that is says it.
    out = io.StringIO()
    spoilt = bytearray(whole.data)
    spoilt[100] ^= 0xFF
    feed = replaying(bytes(spoilt), paced=False, stays=False, follow=False)
    run_batch(feed, out, form="json", count=1)
    assert json.loads(out.getvalue())["lost"]


def test_an_answer_goes_with_the_next_key() -> None:
    feed = replaying(paced=False)
    frames = feed.frames()
    next(frames)
    feed.to_marker(-1)
    next(frames)
    assert feed.position is not None and feed.position.remark == "no earlier event"
    feed.step(1)
    next(frames)
    assert feed.position.remark == ""


def test_it_runs_at_the_pace_it_was_recorded_at_or_another() -> None:
    clock = Clock()
    feed = replaying(clock=clock)
    frames = feed.frames()
    for _ in range(3):
        next(frames)
    assert clock.waits == pytest.approx([1.0, 1.0])
    feed.faster(2)
    next(frames)  # what is on screen, since what is said of it is different
    next(frames)
    assert clock.waits[2:] == pytest.approx([0.25])
    feed.set_interval(2.0)
    next(frames)
    next(frames)
    assert clock.waits[3:] == pytest.approx([2.0])
    assert feed.interval_s == 1.0
    feed.faster(-50)
    next(frames)
    assert feed.position is not None and feed.position.speed == 1 / 16


def test_it_stands_still_until_reported() -> None:
    clock = Clock()
    feed = replaying(clock=clock)
    frames = feed.frames()
    next(frames)
    feed.pause()
    next(frames)
    waits = 0

    def later() -> None:
        nonlocal waits
        waits += 1
        if waits == 50:
            feed.pause()

    clock.at_wait = later
    next(frames)
    assert waits >= 50 and number(feed) == 0
    next(frames)
    assert number(feed) == 1


def test_a_pause_in_the_recording_is_not_waited_for() -> None:
    whole = session()
    chunks = [chunk for chunk in whole.chunks if not 2 <= chunk.after.number - 1 < 75]
    clock = Clock()
    frames = replaying(joined(chunks), clock=clock).frames()
    for _ in range(4):
        next(frames)
    assert max(clock.waits) <= 3.0


def test_the_end_of_a_growing_recording_is_waited_for_and_then_followed() -> None:
    whole = session()
    data = Bytes(whole.data[: whole.ends[4]])
    data.grows = True
    clock = Clock()
    feed = replaying(data, clock=clock)
    frames = feed.frames()
    reports: list[Position | None] = []

    def grow() -> None:
        reports.append(feed.position)
        if len(reports) == 8:
            data.data = whole.data[: whole.ends[7]]

    clock.at_wait = grow
    seen = [next(frames) for _ in range(5)]
    assert number(feed) == 4
    # It comes again, since what is said of it is different.
    assert next(frames) is seen[-1]
    assert feed.position is not None and feed.position.waiting
    next(frames)
    assert number(feed) == 5
    last = reports[-1]
    assert last is not None and last.waiting and not last.ended
    before = len(clock.waits)
    next(frames)
    next(frames)  # what is there already is shown at once
    assert number(feed) == 7 and len(clock.waits) == before


def test_a_file_that_grows_no_more_reports_it_on_the_frame_that_is_shown() -> None:
    whole = session()
    data = Bytes(whole.data[: whole.ends[4]])
    data.grows = True
    frames = (feed := replaying(data)).frames()
    seen = [next(frames) for _ in range(5)]
    assert next(frames) is seen[-1]  # nothing more for now
    assert feed.position is not None and not feed.position.remark
    assert next(frames) is seen[-1]  # nor for long
    assert "was not finished" in feed.position.remark


def test_a_loss_up_to_the_end_is_reported_at_the_end() -> None:
    whole = taken(8, cpus=2, frame=60)
    spoilt = bytearray(whole.data)
    spoilt[whole.ends[4] + 20] ^= 0xFF
    lost: list[RecordingLoss] = []
    feed = replaying(bytes(spoilt), stays=True, on_loss=lost.append)
    frames = feed.frames()
    while feed.position is None or not feed.position.ended:
        next(frames)
    assert number(feed) < 7
    (loss,) = lost
    assert feed.position.remark == loss.sentence


def test_a_batch_has_its_last_frame_once() -> None:
    whole = session()
    again = all_of(whole.data[: whole.ends[4]])
    assert len({frame.wall_ns for frame in again}) == len(again) == 5


def test_at_the_end_one_can_go_back() -> None:
    clock = Clock()
    feed = replaying(clock=clock, at="end")
    frames = feed.frames()
    next(frames)
    next(frames)
    assert number(feed) == TICKS - 1
    here: list[Position | None] = []

    def back() -> None:
        here.append(feed.position)
        feed.step(-1)

    clock.at_wait = back
    next(frames)
    assert feed.position is not None and feed.position.ended
    next(frames)
    assert here[0] is not None and here[0].ended
    assert number(feed) == TICKS - 2


def test_where_it_begins_is_primed_by_the_tick_before() -> None:
    whole = session()
    for at, first in (("+50s", 50), ("-9s", 90), (_clock_of(whole.samples[70].wall_ns), 70)):
        again = all_of(whole.data, at=at)
        assert again[0].wall_ns == whole.samples[first - 1].wall_ns
        assert again[1].wall_ns == whole.samples[first].wall_ns
        assert same(again[-1].cpus.columns["ipc"], whole.frames[-1].cpus.columns["ipc"])


def _clock_of(wall_ns: int) -> str:
    seconds = wall_ns // S % 86_400
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def test_every_frame_folded_goes_into_the_history_once() -> None:
    past: list[Frame] = []
    feed = replaying(paced=False, on_frame=past.append)
    frames = feed.frames()
    for _ in range(3):
        next(frames)
    feed.step(-1)
    next(frames)
    feed.step(1)
    next(frames)
    assert len(past) == 3
    feed.seek(session().samples[80].wall_ns)
    next(frames)
    times = [frame.wall_ns for frame in past[3:]]
    assert times == [sample.wall_ns for sample in session().samples[50:81]]


@pytest.mark.parametrize(
    ("data", "printed"), [(b"", "it is empty"), (b"root:x:0:0", "no recording of nftop's")]
)
def test_what_is_no_recording_is_refused(data: bytes, printed: str) -> None:
    with pytest.raises(NoRecordingError, match=printed):
        next(replaying(data).frames())


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(NoMomentError, match="HH:MM:SS"):
        next(replaying(at="yesterday").frames())


def test_the_writer_ends_on_request() -> None:
    clock = Clock()
    feed = replaying(clock=clock)
    assert isinstance(feed, Player)
    frames: Generator[Frame, None, None] = feed.frames()
    next(frames)
    clock.at_wait = feed.stop
    assert list(_rest(frames)) == []


def _rest(frames: Iterator[Frame]) -> Iterator[Frame]:
    yield from frames


def test_a_tick_with_invalid_numbers_is_a_loss_and_the_next_is_shown(
    snapshot: SnapshotAssertion,
) -> None:
    whole = session()
    encoder = Encoder(whole.header)
    data = joined([encoder.tick(at, sample) for at, sample in enumerate(whole.samples[:10])])
    reports: list[RecordingLoss] = []
    with mock.patch("nftop.session.reader.step", side_effect=failing_at(whole.samples[5].wall_ns)):
        frames = all_of(data, on_loss=reports.append)
    assert len(frames) == 9
    (loss,) = reports
    assert loss.damage
    assert loss.sentence == snapshot


def failing_at(wall_ns: int) -> Callable[[FoldState, Sample], tuple[FoldState, Frame]]:
    def folded(state: FoldState, sample: Sample) -> tuple[FoldState, Frame]:
        if sample.wall_ns == wall_ns:
            raise IndexError("no such row")
        return fold.step(state, sample)

    return folded


def test_what_is_no_recording_is_known_as_none() -> None:
    feed = replaying(b"x" * 500)
    with pytest.raises(NoRecordingError):
        next(feed.frames())
    assert feed.is_none
