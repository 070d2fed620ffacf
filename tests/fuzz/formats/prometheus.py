"""Answers of a Prometheus to the fleet screen's queries, and what the screen makes of them.

An input is lines `STATUS BODY`, one for each query.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from nftop.derive.fleet import FleetState, step
from nftop.export.fleet.queries import fleet_queries
from nftop.model.bounded_toml import parse_toml
from nftop.model.fleet import FLEET_METRICS, FleetFrame, FleetSample
from nftop.model.missing import Missing
from nftop.model.terminal_text import safe_line
from nftop.render.base.line import Line
from nftop.render.fleet import (
    COLUMNS,
    FleetStatus,
    explain_fleet_lines,
    fleet_findings_lines,
    fleet_text,
    unmapped_lines,
)
from nftop.render.fleet_rows import FleetOrder, fleet_rows
from nftop.sources import prometheus
from nftop.sources.runtime.http_client import Address, HttpAnswer
from nftop.store.user.fleet_hosts import FleetHosts, parse_hosts
from tests.fleet import answer, three_hosts
from tests.peers.prometheus import vector

_QUERIES = fleet_queries("nftop")
_URL = prometheus.PrometheusUrl(Address("127.0.0.1", 9090))
_SERIES = 4  # of an answer in a seed
_ROWS = 6  # whose pages are drawn
WORDS = (
    b'"metric":', b'"value":', b'"resultType":', b'"vector"', b'"status":', b'"success"',
    b'"warnings":', b'"error":', b'"__name__":', b'"instance":', b'"nf":', b'"kind":', b'"pid":',
    b'"twin":', b'"cpus":', b'"victims":', b'"where":', b'"rule":', b'"muted":', b'"id":',
    b'"host":', b'"NaN"', b'"+Inf"', b'"1e308"', b'"-1e308"', b'"1_0"', b"1e999", b"null",
    b"\\u001b[2J", b"\\u202e", b"0-4294967295", b'"0-511"', b"503 ", b"302 ",
    b"\n", b"\\n", b"{}", b"\\ud800",
)  # fmt: skip


def _answers(series: int) -> Iterator[bytes]:
    for query in _QUERIES:
        rows = [
            {"metric": labels, "value": [1_795_000_003.0, repr(value)]}
            for labels, value in answer(query.text, three_hosts())
        ]
        yield b"200 " + vector([*rows[:series], *rows[-1:]])


def seeds() -> list[bytes]:
    refusal = b'503 {"status":"error","errorType":"timeout","error":"query timed out"}'
    warned = json.dumps(
        {
            "status": "success",
            "warnings": ["a", "b"],
            "data": {"resultType": "vector", "result": []},
        }
    ).encode()
    whole = list(_answers(_SERIES))
    return [
        b"\n".join(whole),
        b"\n".join(_answers(1)),
        b"\n".join([whole[0], b"200 " + warned, *whole[2:]]),
        b"\n".join([*whole[:2], refusal]),
        b"302 moved",
    ]


class _Session:
    """As `HttpSession`, with the answers of an input."""

    def __init__(self, data: bytes) -> None:
        self._lines = iter(data.split(b"\n"))

    def get(self, _path: str, _headers: object) -> HttpAnswer:
        status, _, body = next(self._lines, b"200 ").partition(b" ")
        location = body.decode("latin-1") if status == b"302" else ""
        number = int(status) if status.isdigit() and len(status) == 3 else 200
        return HttpAnswer(number, "application/json", body, location)

    def close(self) -> None:
        """Nothing is open."""


def play(data: bytes) -> None:
    """Read, fold twice, draw: lines have no character that controls a terminal."""
    session = _Session(data)
    with mock.patch.object(prometheus, "HttpSession", lambda *_, **__: session):
        sample = prometheus.PrometheusSource(_URL, _QUERIES).read()
    if isinstance(sample, Missing):
        assert safe_line(sample.message) == sample.message and len(sample.message) < 600
        return
    state, frame = step(FleetState(), sample)
    _check(frame, sample)
    _, frame = step(
        state, FleetSample(sample.wall_ns, sample.monotonic_ns + 10**9, 0.0, 0.0, 0, {})
    )
    _check(frame, sample)


def _check(frame: FleetFrame, sample: FleetSample) -> None:
    status = FleetStatus(_URL.shown, 10.0, frame.monotonic_ns)
    for width in (40, 120):
        lines = fleet_text(frame, status, width)
        _check_lines(lines, width)
    assert len({host.instance for host in frame.hosts}) == len(frame.hosts)
    rows = fleet_rows(frame, FleetOrder())
    assert len({row.key for row in rows if row.nf is not None}) == len(frame.nfs)
    for column in COLUMNS[2:10]:
        assert len(fleet_rows(frame, FleetOrder(column.key, filter="e"))) <= len(rows)
    for row in rows[:_ROWS]:
        _check_lines(explain_fleet_lines(frame, row, 80))
        added = FleetHosts(Path("config.toml")).lines_to_add(row.host.instance)
        _check_lines(unmapped_lines(row.host, "config.toml", added, (), 80))
        if 0 < len(row.host.instance) <= 500:
            _check_toml(added, row.host.instance)
    _check_lines(fleet_findings_lines(frame, 80))
    assert all(nf.readings.keys() == {*FLEET_METRICS} for nf in frame.nfs)
    assert len(frame.nfs) <= len(sample.series.get("nf", ()))


def _check_lines(lines: list[Line], width: int = 1 << 20) -> None:
    for line in lines:
        text = "".join(span.text for span in line.spans)
        assert safe_line(text) == text, text
        text.encode()
        assert line.width <= width


def _check_toml(lines: tuple[str, ...], instance: str) -> None:
    """The lines that are offered to be added name this target and nothing else."""
    table = parse_toml("\n".join(lines)).get("fleet", {})
    assert parse_hosts(table) == {instance: "HOST"}
