"""Reading all sources once per tick, without letting one hold up another."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from nftop.model.reading import Missing, Reason
from nftop.model.sample import Sample, SourceReading
from nftop.model.struct import replace
from nftop.sources.base import Source, Turning


def read_source(source: Source) -> SourceReading[Any]:
    """One reading with its time. Whatever the source raises becomes an ERROR reading."""
    started_ns = time.monotonic_ns()
    try:
        value = source.read()
    except Exception as error:  # noqa: BLE001 - the boundary: no source may stop another
        value = _error(source, error)
    took_ns = time.monotonic_ns() - started_ns
    return SourceReading(value, started_ns + took_ns // 2, took_ns)


def _error(source: Source, error: Exception) -> Missing:
    return Missing(Reason.ERROR, f"{source.name}: {type(error).__name__}: {error}")


class Worker:
    """A slow source in its own thread, with a one-slot mailbox.

    `kick` asks for a reading; while one is under way a kick changes nothing. `latest` is what it
    gave last, whenever that was.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._wanted = threading.Event()
        self._done = threading.Event()
        self._stopped = False
        self._latest: SourceReading[Any] | None = None
        self._born_ns = time.monotonic_ns()
        # A daemon: a source stuck in the kernel must not keep nftop from ending.
        self._thread = threading.Thread(target=self._run, name=f"nftop-{source.name}", daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        return self._source.name

    def kick(self) -> None:
        """Ask for a reading now."""
        self._done.clear()
        self._wanted.set()

    def wait(self, timeout_s: float) -> None:
        """Wait for the reading last asked for, no longer than told."""
        self._done.wait(max(timeout_s, 0.0))

    @property
    def latest(self) -> SourceReading[Any]:
        """Its last reading; WARMING, as old as the worker, where it never gave one."""
        # One reference is read once: the thread may replace it meanwhile.
        latest = self._latest
        if latest is not None:
            return latest
        return SourceReading(Missing(Reason.WARMING, "it has not answered yet"), self._born_ns, 0)

    def stop(self) -> None:
        """End the thread after its present reading and close the source there."""
        self._stopped = True
        self._wanted.set()
        self._thread.join(timeout=1.0)

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._stopped:
                break
            self._latest = read_source(self._source)
            # A kick that came during the reading is waiting for the next one.
            if not self._wanted.is_set():
                self._done.set()
        self._source.close()


class Sampler:
    """Takes a `Sample` from a set of sources.

    Slow sources are asked first, fast ones are read here meanwhile, and the slow ones that answer
    within the grace time are in the same sample; the others' last reading goes in with its age.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._inline = [source for source in sources if source.inline]
        self._workers = [Worker(source) for source in sources if not source.inline]
        self._failed: dict[str, Missing] = {}

    @property
    def turning(self) -> bool:
        """Some source wants `turn` before the next sample."""
        return any(isinstance(source, Turning) and source.turning for source in self._inline)

    def turn(self) -> None:
        """Tell the sources that the last part of the tick begins.

        What one raises, its next reading says.
        """
        for source in self._inline:
            if isinstance(source, Turning) and source.turning:
                try:
                    source.turn()
                except Exception as error:  # noqa: BLE001 - the boundary, as in `read_source`
                    self._failed[source.name] = _error(source, error)

    def sample(self, interval_s: float, grace_s: float) -> Sample:
        """One sample; returns at most `grace_s` after the fast sources were read.

        `interval_s` is the pace, which the sample carries.
        """
        monotonic_ns, wall_ns = time.monotonic_ns(), time.time_ns()
        for worker in self._workers:
            worker.kick()
        readings = {source.name: read_source(source) for source in self._inline}
        for name, why in self._failed.items():
            readings[name] = replace(readings[name], value=why)
        self._failed.clear()
        until_ns = time.monotonic_ns() + int(grace_s * 1e9)
        for worker in self._workers:
            worker.wait((until_ns - time.monotonic_ns()) / 1e9)
            readings[worker.name] = worker.latest
        return Sample(wall_ns, monotonic_ns, int(interval_s * 1e9), readings)

    def close(self) -> None:
        """Close every source."""
        for source in self._inline:
            source.close()
        for worker in self._workers:
            worker.stop()
