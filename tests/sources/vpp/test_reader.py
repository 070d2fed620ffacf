"""The process that reads a segment: whatever becomes of it, a sentence and no more."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion
from vpp_papi import vpp_stats

from nftop.model.missing import Reason
from nftop.sources.nf_session.discovery import UnixSocket
from nftop.sources.runtime import helper
from nftop.sources.trust import ownership
from nftop.sources.vpp import segment as stats_segment
from nftop.sources.vpp import session
from nftop.sources.vpp.protocol import ErrorReading, NodeReading, Question, ReadAnswer, VppReading
from nftop.sources.vpp.reader import ReaderError, SegmentReader
from nftop.sources.vpp.segment import Segment as StatsSegment
from nftop.sources.vpp.segment import UnreadableError
from tests.peers.vpp_segment import Segment
from tests.waiting import until

REPORTED = VppReading(
    heartbeat=7,
    names=["eth0"],
    rx_packets=[[1], [2]],
    tx_packets=[[3], [4]],
    rx_misses=[[0], [0]],
    drops=[[0], [2**64 - 1]],
    rx_bytes=[[60], [120]],
    rx_no_buffers=[[0], [0]],
    rx_errors=[[0], [0]],
    tx_errors=[[0], [0]],
    loops_per_s=[1, 2],
    vector_rate=[],
    counts_nodes=True,
    nodes=NodeReading(["a"], [[1], [2]], [[1], [2]], [[1], [2]]),
    began_ns=5,
    ended_ns=6,
    errors=ErrorReading(3, ["ip4-input"], ["time_expired"], [[0], [2**64 - 1]]),
)


@pytest.fixture
def segment() -> Iterator[int]:
    created = Segment()
    yield created.fd
    created.memory.close()
    os.close(created.fd)


@pytest.fixture
def reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, segment: int
) -> Iterator[Callable[[str], SegmentReader]]:
    """A reader of a program that stands in for the worker."""
    with ExitStack() as stack:

        def created(program: str) -> SegmentReader:
            path = tmp_path / "stand_in.py"
            path.write_text(textwrap.dedent(program))
            before = "import sys; sys.path.insert(0, sys.argv[1]); "
            start = f"{before}import runpy; runpy.run_path({str(path)!r}, run_name='__main__')"
            monkeypatch.setattr(helper, "START", start)
            opened = SegmentReader(segment)
            stack.callback(opened.close)
            return opened

        yield created


def heard(reader: SegmentReader) -> VppReading:
    result: list[VppReading] = []

    def is_present() -> bool:
        reported = reader.hear()
        result.extend([] if reported is None else [reported])
        return bool(result)

    until(is_present)
    return result[0]


def failed(reader: SegmentReader) -> ReaderError:
    reader.ask(Question([0], None))
    with pytest.raises(ReaderError) as raised:
        heard(reader)
    return raised.value


def test_an_answer_comes_back_as_it_was(reader: Callable[[str], SegmentReader]) -> None:
    """In pieces, and with numbers as large as counters may be."""
    printed = msgspec.json.encode(ReadAnswer(REPORTED, cpu_ns=42)).decode()
    requested = reader(
        f"""
        import sys, time
        for line in sys.stdin:
            assert line == '{{"cpus":[1,3],"heartbeat":6}}\\n', line
            sys.stdout.write({printed[:50]!r})
            sys.stdout.flush()
            time.sleep(0.05)
            print({printed[50:]!r}, flush=True)
        """
    )
    for _ in range(2):
        assert requested.hear() is None
        requested.ask(Question([1, 3], 6))
        assert heard(requested) == REPORTED
        assert (requested.waiting, requested.cpu_ns) == (False, 42)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import os; os.abort()", "ended by SIGABRT"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGBUS)", "shorter than it was"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV"),
        ("import no_such_library", "No module named 'no_such_library'"),
        ("input(); print('nonsense', flush=True); input()", "sends invalid replies"),
        ("input(); print('{\"value\": {}}', flush=True); input()", "sends invalid replies"),
        ("input(); print('{\"reason\": 99}', flush=True); input()", "sends invalid replies"),
        ("input(); print('{}', flush=True); input()", "sends invalid replies"),
    ],
)
def test_what_goes_wrong_is_a_sentence(
    reader: Callable[[str], SegmentReader], program: str, words: str
) -> None:
    error = failed(reader(program))
    assert error.ended and error.why.reason is Reason.ERROR
    assert words in error.why.message


def test_what_the_segment_lacks_does_not_end_it(reader: Callable[[str], SegmentReader]) -> None:
    printed = msgspec.json.encode(ReadAnswer(None, int(Reason.STALE), "so it is")).decode()
    requested = reader(f"for _ in range(2): input(); print({printed!r}, flush=True)\ninput()")
    for _ in range(2):
        error = failed(requested)
        assert not error.ended
        assert (error.why.reason, error.why.message) == (Reason.STALE, "so it is")


def test_vpp_papi_that_spins_ends_by_itself(
    reader: Callable[[str], SegmentReader], snapshot: SnapshotAssertion
) -> None:
    """A change that begins between the look at it and the reading, and is never finished.

    Nobody needs to be there to end it: nftop may have been killed meanwhile.
    """
    error = failed(
        reader(
            """
            import mmap, sys
            from nftop.sources.vpp import segment, worker
            worker.CPU_S = 0.2
            begins = mmap.mmap(int(sys.argv[-1]), 0)
            def unlocked(stats):
                begins[24] = 1
            segment._wait_unlocked = unlocked
            worker.main()
            """
        )
    )
    assert error.ended
    assert error.why.message == snapshot


def test_it_runs_where_nftop_may(segment: int) -> None:
    here = sorted(os.sched_getaffinity(0))
    with closing(SegmentReader(segment)) as requested:
        requested.ask(Question(here[-1:], None))
        reported = heard(requested)
        pid = requested._helper.process.pid
        assert os.sched_getaffinity(pid) == set(here[-1:])
        requested.ask(Question(here, reported.heartbeat))
        assert heard(requested).nodes is None  # as of that heartbeat they are known
        assert os.sched_getaffinity(pid) == set(here)
    assert reported.nodes is not None and reported.rx_packets[1][2] == 537523


def test_it_ends_with_nftop(segment: int) -> None:
    requested = SegmentReader(segment)
    requested.ask(Question([], None))
    heard(requested)
    process = requested._helper.process
    requested._helper.channel.close()  # as when nftop is killed
    assert process.wait(120) == 0
    requested.close()


def test_a_helper_that_hangs_is_ended(
    reader: Callable[[str], SegmentReader], tmp_path: Path
) -> None:
    now_ns = 0
    requested = reader("import signal; signal.pause()")
    held = session.VppSession(
        UnixSocket((0, 0), str(tmp_path), "", ownership.of_socket(str(tmp_path), 0)),
        tmp_path,
        lambda: now_ns,
        lambda _: requested,
    )
    held._handle = os.open(tmp_path, os.O_RDONLY)
    for now_ns in (10**9, 60 * 10**9, 62 * 10**9):
        held.begin(set())
        vpp = held.sample()
        assert vpp is not None and vpp.problem is not None
        ended = now_ns == 62 * 10**9
        assert vpp.problem.reason is (Reason.ERROR if ended else Reason.WARMING)
    assert requested._helper.process.returncode is not None
    held.close()


def longest(stats: Any, offset: int) -> int:
    return int(vpp_stats.VEC_LEN_FMT.unpack_from(stats.statseg, offset - 8)[0])


def vector_of_another_release(vector: Any, stats: Any, pointer: int, form: str) -> None:
    vector.vec_start, vector.vec_len = pointer, longest(stats, pointer)


def string_of_another_release(stats: Any, pointer: int) -> str:
    return bytes(stats.statseg[pointer : pointer + longest(stats, pointer)]).decode()


@pytest.mark.parametrize(
    ("of", "name", "replaced"),
    [
        (vpp_stats.StatsVector, "__init__", vector_of_another_release),
        (vpp_stats, "get_string", string_of_another_release),
        (vpp_stats, "VEC_LEN_FMT", None),
    ],
)
def test_a_vpp_papi_without_limits_of_length_is_not_used(
    segment: int, monkeypatch: pytest.MonkeyPatch, of: Any, name: str, replaced: Any
) -> None:
    monkeypatch.setattr(of, name, replaced)
    with pytest.raises(UnreadableError) as refused:
        StatsSegment(segment).read(None)
    assert refused.value.reason is Reason.SOURCE


def test_the_limit_on_lengths_is_a_readings_and_not_the_process(
    segment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = StatsSegment(segment)
    for _ in range(2):  # the first reads the directory as well
        first.read(None)
    needed = stats_segment.MAX_ELEMENTS - first._stats.elements_left
    assert needed > 0
    monkeypatch.setattr(stats_segment, "MAX_ELEMENTS", needed)
    one, two = StatsSegment(segment), StatsSegment(segment)
    for _ in range(3):
        assert one.read(None).heartbeat == two.read(None).heartbeat
    monkeypatch.setattr(stats_segment, "MAX_ELEMENTS", needed - 1)
    with pytest.raises(UnreadableError) as refused:
        StatsSegment(segment).read(None)
    assert refused.value.reason is Reason.ERROR
