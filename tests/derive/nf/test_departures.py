"""A network function that ends is said to be gone, and only where its source says so."""

from __future__ import annotations

import math
from dataclasses import replace

from syrupy.assertion import SnapshotAssertion

from nftop.derive.findings.inputs import FindingInputs
from nftop.derive.findings.nf_rules import hung
from nftop.derive.fold import FoldState
from nftop.derive.nf.departures import GONE_FOR_S
from nftop.derive.nf.recent import RecentPoint, RecentRates
from nftop.model.frame import Frame
from nftop.model.incident import Severity
from nftop.model.missing import Missing, Reason
from nftop.model.sample import Sample, SourceReading
from tests.derive.scene import START, forwarding, tick
from tests.samples import S, app, fold, main_thread, port, thread


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


def test_while_its_source_reports_nothing_it_is_not_gone() -> None:
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


SILENT = Missing(Reason.STALE, "has not answered")


def late(second: int, *, runs: bool, why: Missing = SILENT) -> Sample:
    """Its last reading is of second 12; since then its worker runs, or stands still."""
    worker = thread(run_ns=(second if runs else 12) * S, voluntary=0 if runs else 1)
    return tick(second, forwarding(12, problem=why), workers=(main_thread(run_ns=0), worker))


def hangs(frame: Frame) -> list[str]:
    return [item.where for item in frame.findings if item.rule == "hung"]


def test_one_that_neither_answers_nor_runs_hangs_until_it_answers() -> None:
    stopped = [late(second, runs=False) for second in range(13, 53)]
    frames = session(*map(here, range(1, 13)), *stopped, *map(here, range(53, 60)))
    name = frames[0].nfs[0].name
    assert not any(hangs(frame) for frame in frames[:14])
    for frame in frames[18:52]:
        assert hangs(frame) == [f"nf {name}"]
        [incident] = frame.incidents
        assert (incident.kind, incident.severity) == ("hung", Severity.BAD)
        assert incident.culprit is not None and incident.culprit.pid == 100
    assert len({frame.incidents[0].id for frame in frames[18:52]}) == 1
    assert not hangs(frames[-1]) and not frames[-1].incidents


def test_without_known_threads_an_nf_hangs_if_it_had_packets() -> None:
    silent = session(*map(here, range(1, 13)), *(late(at, runs=False) for at in range(13, 20)))[-1]
    nf = replace(silent.nfs[0], threads=())
    frame = replace(silent, nfs=(nf,))
    point = RecentPoint(0, throughput=1e6, arriving=1e6, dropped=0.0, cpp=math.nan)
    for recent, value in (({nf.key: RecentRates((point,))}, 0.0), ({}, None)):
        measured = hung(FindingInputs(frame, {}, recent=recent)).values
        assert (float(measured.values[0]) if measured.present[0] else None) == value


def test_a_slow_main_thread_or_another_failure_is_no_hang() -> None:
    denied = Missing(Reason.PERMISSION, "closed")
    for runs, why in ((True, SILENT), (False, denied)):
        slow = [late(second, runs=runs, why=why) for second in range(13, 30)]
        assert not any(map(hangs, session(*map(here, range(1, 13)), *slow)))


def test_an_incident_stays_open_while_its_source_is_silent() -> None:
    def loses(second: int, at: int, problem: Missing | None = None) -> Sample:
        ports = (port(0, rx=10**7 * at, rx_missed=10**6 * at), port(1, tx=10**7 * at))
        return tick(second, app(at * S, *ports, problem=problem))

    silent = [loses(second, 12, SILENT) for second in range(13, 53)]
    frames = session(*(loses(second, second) for second in range(1, 13)), *silent)
    for frame in frames[12:]:
        assert {item.rule for item in frame.findings} == {"drops"}
        assert len(frame.incidents) == 1 and frame.incidents[0].id == frames[11].incidents[0].id
