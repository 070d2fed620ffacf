"""A network function that ends is said to be gone, and only where its source says so."""

from __future__ import annotations

from dataclasses import replace

from syrupy.assertion import SnapshotAssertion

from nftop.derive.fold import FoldState
from nftop.derive.nf.departures import GONE_FOR_S
from nftop.model.frame import Frame
from nftop.model.missing import Missing, Reason
from nftop.model.sample import Sample, SourceReading
from tests.derive.scene import START, forwarding, tick
from tests.samples import S, fold


def texts(frame: Frame) -> list[tuple[str, str]]:
    return [(finding.where, finding.text) for finding in frame.findings if finding.rule == "gone"]


def here(second: int) -> Sample:
    return tick(second, forwarding(second))


def nobody(second: int) -> Sample:
    return tick(second, workers=())


def without(second: int, why: Reason) -> Sample:
    whole = nobody(second)
    at_ns = second * S
    return replace(
        whole, readings={**whole.readings, "dpdk": SourceReading(Missing(why), at_ns, 0)}
    )


def session(*samples: Sample, start: FoldState = START) -> list[Frame]:
    return fold(start, *samples)


def test_one_that_ends_is_reported_as_gone_for_a_while(snapshot: SnapshotAssertion) -> None:
    last = 10 + int(GONE_FOR_S)
    frames = session(*map(here, range(1, 11)), *map(nobody, range(11, last + 3)))
    assert not any(texts(frame) for frame in frames[:12]), "not after a tick or two"
    name = frames[0].nfs[0].name
    ((where, text),) = texts(frames[12])
    assert where == f"nf {name}"
    clock = frames[9].wall_ns // S % 86_400
    time = f"{clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}Z"
    assert "pid 100 " in text and time in text
    assert text.replace(time, "TIME") == snapshot
    assert texts(frames[last - 1]) == [(where, text)], "the same all the while"
    assert not texts(frames[-1])


def test_while_its_source_says_nothing_it_is_not_gone() -> None:
    for why in (Reason.STALE, Reason.ERROR, Reason.PERMISSION):
        late = [without(second, why) for second in range(4, 12)]
        frames = session(*map(here, (1, 2, 3)), *late, *map(here, (12, 13, 14, 15)))
        assert not any(texts(frame) for frame in frames), why
        ended = session(*map(here, (1, 2, 3)), *late, *map(nobody, (12, 13, 14, 15)))
        ((_, text),) = texts(ended[-1])
        second = (ended[2].wall_ns // S) % 60
        assert text.endswith(f":{second:02}Z"), "the last that was told of it"


def test_one_that_comes_again_is_not_gone() -> None:
    frames = session(*map(here, (1, 2)), *map(nobody, (3, 4, 5, 6)), *map(here, (7, 8)))
    assert texts(frames[-3])
    assert not texts(frames[-1])
