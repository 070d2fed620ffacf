"""Hosts of a fleet: pages that `nftop serve` exports, and what a Prometheus makes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

import msgspec

from nftop.export.fleet.queries import fleet_queries
from nftop.export.openmetrics.page import Tally, page
from nftop.export.openmetrics.writer import TextFormat
from nftop.model.fleet import FleetLabels, FleetSample, FleetSeries
from nftop.model.frame import Frame
from nftop.model.struct import replace
from tests.export.prometheus import read
from tests.sim.hosts import Frozen, S, span_s

WALL_S = 1_795_000_000.0  # of every frame
_SELECTOR = re.compile(r'(\w+)\{job="([^"]*)"\}')


@lru_cache(maxsize=16)
def host_frame(name: str, scenario: str = "healthy", into_s: int = 15) -> Frame:
    """A frame of a simulated host of this name, so many seconds into its scenario's event."""
    host = Frozen(scenario, traffic=None)
    begin_s = 10 if scenario in ("healthy", "default") else span_s(scenario)[0]
    host.tick(0)
    host.tick((begin_s - 5) * S)
    frame = [host.tick(S) for _ in range(5 + into_s)][-1]
    shift_ns = int(WALL_S * 1e9) - frame.wall_ns
    incidents = tuple(replace(item, since_ns=item.since_ns + shift_ns) for item in frame.incidents)
    return replace(
        frame,
        host=replace(frame.host, name=name),
        wall_ns=frame.wall_ns + shift_ns,
        incidents=incidents,
    )


def page_of(frame: Frame) -> str:
    """What a target of this frame answers."""
    return page(frame, Tally(), TextFormat.TEXT, "nf")


def three_hosts() -> dict[str, str]:
    """Pages by instance: packets lost, a noisy neighbour, a healthy host."""
    return {
        "edge-07:9739": page_of(host_frame("edge-07", "noisy", 20)),
        "edge-08:9739": page_of(host_frame("edge-08", "slow")),
        "core-1:9739": page_of(host_frame("core-1")),
    }


@lru_cache(maxsize=4096)
def series_of(text: str) -> tuple[tuple[str, dict[str, str], float], ...]:
    """Name, labels and value of every sample of a page."""
    families = read(text, openmetrics=False)
    return tuple(
        (name, dict(labels), value)
        for name, family in families.items()
        for labels, value in family.samples.items()
    )


def answer(
    query: str, pages: Mapping[str, str | None], job: str = "nftop"
) -> Iterator[tuple[dict[str, str], float]]:
    """Series of an instant query of the fleet screen; a page that is None is a failed scrape."""
    parsed = _SELECTOR.findall(query)
    assert parsed, query
    if any(of != job for _, of in parsed):
        return
    # Every part compares with the time of `up`.
    names = {name for name, _ in parsed} - {"up"} or {"up"}
    for instance, text in pages.items():
        target = {"instance": instance, "job": job}
        if "up" in names:
            yield {"__name__": "up", **target}, float(text is not None)
        for name, labels, value in () if text is None else series_of(text):
            if name in names:
                yield {"__name__": name, **target, **labels}, value


def sample_of(
    pages: Mapping[str, str | None], *, monotonic_ns: int = 0, evaluated_s: float = WALL_S + 3.0
) -> FleetSample:
    """The sample that the source would read of these hosts."""
    series: dict[str, list[FleetSeries]] = {}
    for query in fleet_queries("nftop"):
        for labels, value in answer(query.text, pages):
            key, factor = query.keys[labels["__name__"]]
            row = FleetSeries(msgspec.convert(labels, FleetLabels), value * factor)
            series.setdefault(key, []).append(row)
    return FleetSample(
        wall_ns=int(evaluated_s * 1e9),
        monotonic_ns=monotonic_ns,
        evaluated_s=evaluated_s,
        took_s=0.1,
        size_bytes=1000,
        series={key: tuple(rows) for key, rows in series.items()},
    )
