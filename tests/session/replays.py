"""Replays of one recorded session, at a clock that passes only in waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache

from nftop.model.frame import Frame
from nftop.session.replay import Replay
from tests.recordings import Taken, taken
from tests.samples import S
from tests.store.reading.test_scan import Bytes

TICKS = 100


@lru_cache(maxsize=1)
def session() -> Taken:
    sources = ("dpdk", "kernel", "perf", "processes", "topology")
    return taken(TICKS, cpus=4, marks=(30, 31, 85), frame=25, sources=sources)


class Clock:
    """Time that passes only in waits."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.waits: list[float] = []
        self.at_wait: Callable[[], None] = lambda: None

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wait(self, news: threading.Event, seconds: float) -> None:
        self.waits.append(seconds)
        self.at_wait()
        if not news.is_set():
            self.now_ns += int(seconds * S)


def replaying(data: bytes | Bytes | None = None, **options: object) -> Replay:
    if data is None:
        data = session().data
    source = data if isinstance(data, Bytes) else Bytes(data)
    return Replay(source, **{"clock": Clock(), **options})  # type: ignore[arg-type]


def all_of(data: bytes, **options: object) -> list[Frame]:
    """Without a screen, to the end."""
    return list(replaying(data, paced=False, stays=False, follow=False, **options).frames())


def number(feed: Replay) -> int:
    assert feed.position is not None
    return feed.position.number
