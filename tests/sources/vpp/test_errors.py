"""VPP's error counters, from the captured segments, as VPPs since 20.09 lay them out."""

from __future__ import annotations

import pytest

from nftop.model.missing import Missing, Reason
from nftop.model.nf.vpp import VppErrors
from nftop.model.sample_bounds import VPP_ERRORS
from nftop.sources.vpp import segment as stats_segment
from nftop.sources.vpp.protocol import ErrorReading
from nftop.sources.vpp.reader import errors_of
from nftop.sources.vpp.segment import Segment as StatsSegment
from tests.peers.vpp_segment import COMMANDS, Segment, Vpp

FIRST = {
    ("af-packet-input", "timed out block"): [0, 10261],
    ("af-packet-input", "total received block"): [0, 10264],
    ("ethernet-input", "no error"): [0, 38],
}
CHECKSUM = ("ip4-input", "bad_checksum")


class Bench:
    """The captured segment, changed by the peer's commands, and its reader in this process."""

    def __init__(self) -> None:
        self.vpp = object.__new__(Vpp)  # serves nobody
        self.vpp.segment = Segment()
        self.reader = StatsSegment(self.vpp.segment.fd)

    def do(self, command: str) -> None:
        COMMANDS[command](self.vpp)

    def errors(self) -> ErrorReading:
        errors = self.reader.read(None).errors
        assert isinstance(errors, ErrorReading)
        return errors

    def counts(self) -> dict[tuple[str, str], list[int]]:
        return counts_of(self.errors())


def counts_of(errors: ErrorReading) -> dict[tuple[str, str], list[int]]:
    keys = list(zip(errors.nodes, errors.names, strict=True))
    return {key: [row[at] for row in errors.counts] for at, key in enumerate(keys)}


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("layout", ["hello", "older"], ids=["since 22.06", "20.09 to 22.02"])
def test_errors_that_ever_counted_are_those_of_the_capture(bench: Bench, layout: str) -> None:
    """Of 3000; the drops of its interfaces, 19 and 19, are what ethernet-input calls no error."""
    bench.do(layout)
    assert bench.counts() == FIRST
    bench.do("drop")
    assert bench.counts() == {**FIRST, CHECKSUM: [7, 100]}
    reading = bench.reader.read(None)
    assert reading.names == ["local0", "loop0", "host-h4a1", "host-h4b1"]
    assert reading.rx_packets[1][2] == 537523 and reading.heartbeat == 238
    assert sum(map(sum, reading.drops)) == 38


def test_a_capture_s_second_moment(bench: Bench) -> None:
    bench.errors()
    bench.do("second")
    assert bench.counts()["af-packet-input", "timed out block"] == [0, 12268]


def test_a_directory_that_moves_is_resolved_again(bench: Bench) -> None:
    before = bench.errors()
    bench.do("drop")
    bench.do("move")
    after = bench.errors()
    assert counts_of(after) == {**FIRST, CHECKSUM: [7, 100]}
    assert after.epoch > before.epoch


def test_without_them_the_rest_is_read(bench: Bench) -> None:
    bench.do("no errors")
    reading = bench.reader.read(None)
    assert isinstance(reading.errors, str) and "no error counters" in reading.errors
    assert reading.rx_packets[1][2] == 537523
    missing = errors_of(reading.errors, 2)
    assert isinstance(missing, Missing) and missing.reason is Reason.SOURCE


def test_beyond_its_vector_an_error_has_counted_nothing(bench: Bench) -> None:
    bench.do("far errors")
    assert bench.errors() == ErrorReading(bench.errors().epoch, [], [], [[], []])


def test_a_vector_outside_of_the_segment_costs_the_errors_and_nothing_else(bench: Bench) -> None:
    bench.do("wild errors")
    reading = bench.reader.read(None)
    assert isinstance(reading.errors, str) and "invalid" in reading.errors
    assert reading.rx_packets[1][2] == 537523


def test_all_at_once_are_within_the_bound(bench: Bench) -> None:
    bench.do("all errors")
    assert len(bench.errors().names) == 3000 < VPP_ERRORS


def test_more_than_a_recording_holds_are_not_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stats_segment, "VPP_ERRORS", 2)
    reading = bench.reader.read(None)
    assert isinstance(reading.errors, str) and "3 error counters" in reading.errors
    assert reading.rx_packets[1][2] == 537523


@pytest.mark.parametrize(
    ("path", "node", "name"),
    [
        ("/err/ip4-input/time_expired", "ip4-input", "time_expired"),
        ("/err/llc-input/unknown llc ssap/dsap", "llc-input", "unknown llc ssap/dsap"),
        ("/err/Gig3/0/0-tx/Tx packet drops", "Gig3/0/0-tx", "Tx packet drops"),
        ("/err/Gig3/a/0.100-output/interface is down", "Gig3/a/0.100-output", "interface is down"),
        ("/err/memif0/1-tx/no_free_slots", "memif0/1-tx", "no_free_slots"),
        ("/err/x/0/y", "x", "0/y"),
    ],
)
def test_the_name_of_a_node_may_have_slashes(path: str, node: str, name: str) -> None:
    match = stats_segment._ERROR_PATH.fullmatch(path)
    assert match is not None and match.groups() == (node, name)


def test_names_and_counts_that_do_not_fit_are_no_reading() -> None:
    good = ErrorReading(1, ["a"], ["x"], [[1], [2]])
    table = errors_of(good, 2)
    assert isinstance(table, VppErrors) and table.counts.tolist() == [[1], [2]]
    for broken in (
        ErrorReading(1, ["a", "b"], ["x"], [[1], [2]]),
        ErrorReading(1, ["a"], ["x"], [[1, 2], [3, 4]]),
        ErrorReading(1, ["a"], ["x"], [[1]]),
        ErrorReading(1, ["a"], ["x"], [[1], [-1]]),
    ):
        with pytest.raises(ValueError, match=r"names|range|bounds"):
            errors_of(broken, 2)
