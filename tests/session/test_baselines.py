"""A baseline is an operator's word that a recording has: a replay compares as one did live."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from nftop.derive.compare.baseline import keep
from nftop.derive.fold import FoldState, comparing, step
from nftop.export.json.frame import frame_json
from nftop.model.baseline import LEAST_TICKS, Baselines, NfBaseline
from nftop.model.frame import Frame
from nftop.model.missing import Missing
from nftop.session.live import Live
from nftop.sources.simulated import simulated_host
from nftop.store.format.encoder import Encoder
from nftop.store.format.records import BASELINE, Header, Marker
from nftop.store.recording.recorder import Recorder
from nftop.store.recording.sink import FileSink
from nftop.store.user.baselines import plain
from tests.bench.scenes import Clocked
from tests.recordings import Taken, header_of, same, taken
from tests.session.replays import all_of, number, replaying

TICKS, KEPT_AT, AGAIN_AT, FORGOTTEN_AT = 60, 12, 33, 50


@lru_cache(maxsize=1)
def session() -> Taken:
    """Ticks of which some are first compared with a baseline, with another one, with none."""
    clocked = Clocked(4)
    header = header_of(clocked)
    encoder = Encoder(header)
    samples, frames, chunks = [], [], []
    for at in range(TICKS):
        sample = clocked.sample()
        if at % 10 == 0:
            encoder.restart()
        if at in (KEPT_AT, AGAIN_AT, FORGOTTEN_AT):
            kept = None if at == FORGOTTEN_AT else keep(clocked.state.baseline)
            clocked.state = comparing(clocked.state, kept)
            encoder.kept(kept)
            detail = {"baselines": plain(kept)}
            note = Marker(BASELINE, sample.wall_ns, sample.monotonic_ns, "baseline", detail)
            chunks.append(encoder.note(note, sample.wall_ns, sample.monotonic_ns))
        chunks.append(encoder.tick(at, sample))
        samples.append(sample)
        frames.append(clocked.fold(sample))
    return Taken(header, tuple(samples), tuple(chunks), clocked.state, tuple(frames))


def compared(frame: Frame) -> bool:
    return any(not isinstance(nf.readings["cpp_vs_base"], Missing) for nf in frame.nfs)


def test_replayed_frames_are_the_frames_seen_live_with_what_they_are_compared_with() -> None:
    whole = session()
    again = all_of(whole.data)
    assert len(again) == TICKS
    for live, replayed in zip(whole.frames, again, strict=True):
        assert same(live, replayed)
        assert frame_json(live) == frame_json(replayed)
    shown = [compared(item) for item in again]
    assert shown == [KEPT_AT <= at < FORGOTTEN_AT for at in range(TICKS)]
    kept = [again[at].baselines for at in (AGAIN_AT - 1, AGAIN_AT)]
    assert kept[0] is not None and kept[1] is not None and kept[0] != kept[1]


@pytest.mark.parametrize("at", [11, 12, 29, 33, 45, 55])
def test_a_jump_compares_with_what_was_kept_then(at: int) -> None:
    feed = replaying(session().data, paced=False)
    frames = feed.frames()
    next(frames)
    feed.seek(session().samples[at].wall_ns)
    shown = next(frames)
    assert number(feed) == at
    assert same(shown.baselines, session().frames[at].baselines)
    assert compared(shown) == compared(session().frames[at])


def test_a_viewer_may_compare_with_another_tick_and_with_the_recordings_again() -> None:
    feed = replaying(session().data, paced=False)
    frames = feed.frames()
    recorded = [next(frames) for _ in range(20)][-1].baselines
    feed.baseline(keep=True)
    own = next(frames).baselines
    assert recorded is not None and own is not None and own != recorded
    assert own.wall_ns == session().samples[19].wall_ns
    later = [next(frames) for _ in range(35)][-1].baselines
    assert later == own, "what the recording kept since then does not change it"
    feed.seek(session().samples[15].wall_ns)
    assert next(frames).baselines == own
    feed.baseline(keep=False)
    assert next(frames).baselines == recorded


def test_where_the_word_itself_is_lost_the_next_minute_heals_it() -> None:
    whole = session()
    spoilt = bytearray(whole.data)
    note_at = KEPT_AT  # chunks before it: a tick each
    spoilt[whole.ends[note_at] - 4] ^= 0xFF
    shown = {frame.wall_ns: frame for frame in all_of(bytes(spoilt))}
    for at in range(20, AGAIN_AT):
        assert same(shown[whole.samples[at].wall_ns].baselines, whole.frames[at].baselines)


def test_what_makes_no_sense_is_a_loss_and_no_end() -> None:
    few = taken(6, cpus=4)
    encoder = Encoder(few.header)
    chunks = [encoder.tick(0, few.samples[0])]
    bad = Marker(BASELINE, 1, 1, "odd", {"baselines": {"wall_ns": "noon"}})
    chunks.append(encoder.note(bad, 1, 1))
    chunks += [encoder.tick(at, sample) for at, sample in enumerate(few.samples[1:], 1)]
    lost: list[Any] = []
    frames = all_of(b"".join(chunk.data for chunk in chunks), on_loss=lost.append)
    assert frames and lost
    assert all(frame.baselines is None for frame in frames)


def test_a_header_without_reasons_is_of_an_older_version() -> None:
    header = taken(1, cpus=4).header
    assert header.baselines is None
    kept = Baselines(7, (NfBaseline("1:2", "fwd", "dpdk", 1, {}, ticks=9),))
    encoder = Encoder(replace(header, baselines=kept))
    data = encoder.tick(0, taken(1, cpus=4).samples[0]).data
    assert all_of(data)[0].baselines == kept


def test_live_frames_and_those_of_the_file_are_the_same(tmp_path: Path) -> None:
    host = simulated_host("default", 4)
    topology = host.model.layout.topology
    smt = any(info.siblings for info in topology.cpus)
    header = Header(1, host.host, topology, host.uarch.name, smt, 100_000_000)
    recorder = Recorder(header)
    feed = Live(
        host.sources,
        FoldState(host.host, topology, host.uarch),
        0.1,
        on_pollers=lambda _cpus, _topology: None,
        on_sample=recorder.take,
        on_baseline=recorder.kept,
    )
    recorder.start(FileSink(tmp_path / "a.nftop"))
    seen: list[Frame] = []
    for frame in feed.frames():
        seen.append(frame)
        if len(seen) == 9:
            feed.baseline(keep=True)
        if len(seen) == 15:
            feed.baseline(keep=False)
        if len(seen) == 18:
            feed.stop()
    done = recorder.close()
    assert done is not None and not done.problem and not done.lost
    again = all_of((tmp_path / "a.nftop").read_bytes())
    assert [item.baselines is not None for item in seen] == [9 <= at < 15 for at in range(18)]
    assert len(again) == len(seen)
    assert all(same(live, replayed) for live, replayed in zip(seen, again, strict=True))


def test_a_baseline_of_too_few_ticks_waits_for_enough() -> None:
    host = simulated_host("default", 4)
    topology = host.model.layout.topology
    kept: list[Baselines | None] = []
    feed = Live(
        host.sources,
        FoldState(host.host, topology, host.uarch),
        0.1,
        on_pollers=lambda _cpus, _topology: None,
        on_baseline=lambda item, _wall_ns, _monotonic_ns: kept.append(item),
    )
    at_once = []
    for at, _ in enumerate(feed.frames(), 1):
        at_once.append(len(kept))
        if at == 3:
            feed.baseline(keep=True)
        if at == 20:
            feed.stop()
    assert at_once[:4] == [0] * 4 and at_once[-1] == 1
    [one] = kept
    assert one is not None and min(item.ticks for item in one.nfs) >= LEAST_TICKS


def test_what_it_begins_with_is_compared_from_the_first_rates_on() -> None:
    clocked = Clocked(4)
    for _ in range(8):
        clocked.fold(clocked.sample())
    kept = keep(clocked.state.baseline)
    fresh = Clocked(4, now_ns=clocked.now_ns)
    state = comparing(fresh.state, kept)
    state, frame = step(state, fresh.sample())
    for _ in range(2):
        state, frame = step(state, fresh.sample())
    assert compared(frame) and frame.baselines == kept
