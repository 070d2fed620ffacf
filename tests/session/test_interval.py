"""Intervals of recordings: how they are named, and what is read of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nftop.session.interval import Cut, NamedInterval, named, opened, ticks
from nftop.session.reader import NoMomentError, NoRecordingError
from nftop.store.format.records import Marker
from tests.recordings import Taken, same, taken
from tests.samples import S

TICKS = 26


@pytest.fixture(scope="module")
def session() -> Taken:
    return taken(TICKS, cpus=2, marks=(9, 20), frame=8)


@pytest.fixture(scope="module")
def stored(session: Taken, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("interval") / "a@b.nftop"
    file.write_bytes(session.data)
    return file


@contextmanager
def cut_of(file: Path | str, start: str = "", end: str = "") -> Iterator[Cut]:
    cut = opened(NamedInterval(str(file), start, end))
    try:
        yield cut
    finally:
        cut.data.close()


def numbers(file: Path, start: str = "", end: str = "") -> list[int]:
    with cut_of(file, start, end) as cut:
        return [shown.number for shown in ticks(cut)]


def test_how_an_interval_is_named(stored: Path) -> None:
    file = str(stored)
    assert named(file) == NamedInterval(file)
    assert named(f"{file}@03:00,03:10") == NamedInterval(file, "03:00", "03:10")
    assert named(f"{file}@+30s") == NamedInterval(file, "+30s")
    assert named(f"{file}@,-5m") == NamedInterval(file, "", "-5m")
    assert named(f"{file}@load@night, end") == NamedInterval(file, "load@night", "end")
    # Where no such file is, the sentence is to be about what most likely was meant.
    assert named("none@1,2") == NamedInterval("none", "1", "2")
    assert named("none") == NamedInterval("none")
    assert named("@") == NamedInterval("@") and named("") == NamedInterval("")


def test_all_of_it_is_what_was_seen(session: Taken, stored: Path) -> None:
    with cut_of(stored) as cut:
        shown = list(ticks(cut))
        assert (cut.losses, cut.damaged) == ([], False)
    assert len(shown) == TICKS
    assert all(same(ours.frame, theirs) for ours, theirs in zip(shown, session.frames, strict=True))


def test_times_and_markers(session: Taken, stored: Path) -> None:
    def clock(tick: int, form: str) -> str:
        return f"{datetime.fromtimestamp(session.samples[tick].wall_ns / 1e9, UTC):{form}}"

    assert numbers(stored, "+5s", "+9s") == [5, 6, 7, 8, 9]
    assert numbers(stored, "-3s") == [22, 23, 24, 25]
    assert numbers(stored, clock(12, "%H:%M:%S"), clock(14, "%H:%M:%S")) == [12, 13, 14]
    assert numbers(stored, clock(22, "%Y-%m-%dT%H:%M:%SZ")) == [22, 23, 24, 25]
    assert numbers(stored, "mark 9", "mark 20") == list(range(9, 20))
    assert numbers(stored, "mark 20", "end") == list(range(20, TICKS))


def test_an_interval_is_of_what_was_recorded(session: Taken, stored: Path) -> None:
    first, last = session.samples[0].wall_ns, session.samples[-1].wall_ns
    before, inside, after = (
        f"{datetime.fromtimestamp(ns / 1e9, UTC):%H:%M:%S}"
        for ns in (first - 30 * S, first + 5 * S, last + 60 * S)
    )
    with cut_of(stored, before, after) as cut:
        assert (cut.from_ns, cut.to_ns) == (first, last)
    with pytest.raises(NoMomentError, match="ends before it begins"):
        opened(NamedInterval(str(stored), "+9s", inside))


def test_a_later_interval_is_folded_from_what_came_before(session: Taken, stored: Path) -> None:
    with cut_of(stored, "+22s") as cut:
        first = next(ticks(cut))
    assert first.frame.interval_s == 1.0
    assert first.frame.nfs[0].readings == session.frames[22].nfs[0].readings


def test_markers_come_before_the_tick_behind_them(stored: Path) -> None:
    seen: list[Marker] = []
    with cut_of(stored, "+5s", "+15s") as cut:
        for shown in ticks(cut, seen.append):
            assert len(seen) == (shown.number >= 9)
    assert [marker.text for marker in seen] == ["mark 9"]


@pytest.mark.parametrize(
    ("start", "end", "printed"),
    [
        ("+9s", "+5s", "its interval ends before it begins"),
        ("+9s", "+9s", "its interval ends before it begins"),
        ("+5m", "", "the recording ends at "),
        ("+5m", "", ", before +5m"),
        ("+1h", "+2h", "nothing was recorded in that interval"),
        ("noon", "", "'noon' is no time: "),
        ("mark", "", "or the name of one of its markers"),
    ],
)
def test_what_is_no_interval_of_it(stored: Path, start: str, end: str, printed: str) -> None:
    with pytest.raises(NoMomentError, match=re.escape(printed)):
        opened(NamedInterval(str(stored), start, end))


def test_markers_of_one_name_can_not_be_distinguished(session: Taken, tmp_path: Path) -> None:
    file = tmp_path / "twice.nftop"
    file.write_bytes(session.data + session.data)
    with pytest.raises(NoMomentError, match="2 markers are called 'mark 9'"):
        opened(NamedInterval(str(file), "mark 9"))


def test_what_is_no_recording(tmp_path: Path) -> None:
    for data, printed in ((b"", "it is empty"), (b"text" * 99, "it is no recording of nftop's")):
        file = tmp_path / "x"
        file.write_bytes(data)
        with pytest.raises(NoRecordingError, match=printed):
            opened(NamedInterval(str(file)))
    with pytest.raises(OSError, match="it is a folder"):
        opened(NamedInterval(str(tmp_path)))
    with pytest.raises(OSError, match="it is no file"):
        opened(NamedInterval("/dev/null"))


def test_a_loss_is_reported_at_its_time(session: Taken, tmp_path: Path) -> None:
    cut_off = tmp_path / "cut.nftop"
    cut_off.write_bytes(session.data[: session.ends[-1] - 3])
    with cut_of(cut_off) as cut:
        assert len(list(ticks(cut))) == TICKS - 1
        ((at_ns, loss),) = cut.losses
        assert (loss.ticks, at_ns, cut.damaged) == (1, session.samples[-2].wall_ns, False)
    spoilt = bytearray(session.data)
    spoilt[session.ends[12] - 5] ^= 8
    bad = tmp_path / "bad.nftop"
    bad.write_bytes(spoilt)
    with cut_of(bad) as cut:
        read = [shown.number for shown in ticks(cut)]
        ((at_ns, loss),) = cut.losses
    assert loss.ticks == TICKS - len(read) and cut.damaged
    behind = next(
        number for number, before in zip(read[1:], read, strict=False) if number - before > 1
    )
    assert at_ns == session.samples[behind].wall_ns
    # An interval that ends inside the damage lacks its last ticks; one that ends before it none.
    first = read[behind_at - 1] if (behind_at := read.index(behind)) else 0
    for end, lacks in ((behind - 1, True), (first + 1, True), (first, False)):
        with cut_of(bad, "", f"+{end}s") as cut:
            assert [shown.number for shown in ticks(cut)] == read[:behind_at]
            assert cut.damaged is lacks and len(cut.losses) == lacks
            assert all(at_ns <= cut.to_ns for at_ns, _ in cut.losses)
    # Behind the damage nothing is missing.
    with cut_of(bad, "+20s") as cut:
        assert len(list(ticks(cut))) == TICKS - 20
        assert cut.losses == []
