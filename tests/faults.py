"""Sources that are killed, hang, are slow, lie or restart, alone and in pairs: `make faults`.

The sources are those of the registry, with the payloads of the simulated host (and of this host,
of those that are not simulated), read by the sampler's own threads. Faults are injected for some
ticks; each tick must come, all other sources must be in it with their readings of that tick, and
the sources must be back once the fault is over.

    python -m tests.faults              every pair
    python -m tests.faults dpdk killed ovs hung
"""

from __future__ import annotations

import copy
import itertools
import json
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from nftop.derive.fold import FoldState, step
from nftop.export.json.frame import frame_json
from nftop.export.openmetrics.page import Tally, page
from nftop.export.openmetrics.writer import TextFormat
from nftop.model.check import Check
from nftop.model.frame import Frame
from nftop.model.missing import Missing, Reason
from nftop.model.sample import Sample, SourceReading
from nftop.model.sources import kinds
from nftop.render.pages.batch_text import frame_text
from nftop.session.live import Sampler
from nftop.sources.netdev.source import NetdevSource
from nftop.sources.runtime.affinity import Affinity
from nftop.sources.runtime.self_usage import OwnSource
from tests.bench.scenes import Clocked
from tests.frames import WALL_NS
from tests.hostile import changed

Fault: TypeAlias = Literal["killed", "hung", "slow", "lying", "restarted"]
FAULTS: tuple[Fault, ...] = get_args(Fault)
TICKS, FIRST, LAST = 7, 2, 3  # ticks of a run; those with the fault
SECOND_NS = 10**9
PATIENCE_S = 120.0
# Sources that are read in the sampler's own thread, since what they read can't block.
INLINE = frozenset({"perf", "kernel", "topology", "self"})
# Never beside resctrl.
ALONE = frozenset({"pqos"})
# It has every kind of counter that nftop reads.
_PROCESSOR = "gold-6230n"
_NO_NUMBER = re.compile(r"^.* -?(?:inf|nan)$", re.MULTILINE)
_COUNTER = re.compile(r"packets|cycles|bytes|misses|drops|errors|heartbeat|upcalls|batches")


@dataclass(slots=True)
class FaultySource:
    """A source with the payload of each tick; `fault` while it has one."""

    name: str
    inline: bool
    payloads: Sequence[Any]
    fault: Fault | None = None
    tick: int = 0
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def is_faulty(self) -> bool:
        return self.fault is not None and FIRST <= self.tick <= LAST

    def read(self) -> Any:
        tick = self.tick
        if self.fault == "restarted" and tick >= FIRST:
            return self.payloads[tick - FIRST]
        if not self.is_faulty:
            return self.payloads[tick]
        if self.fault == "killed":
            raise ConnectionResetError(104, "Connection reset by peer")
        if self.fault == "hung":
            self.released.wait()
        if self.fault == "slow":
            time.sleep(0.02)
        return self._corrupt(tick) if self.fault == "lying" else self.payloads[tick]

    def _corrupt(self, tick: int) -> Any:
        random = np.random.default_rng(tick)

        def corrupt(_record: str, name: str, value: Any) -> Any:
            if isinstance(value, np.ndarray) and value.dtype == np.uint64:
                return random.integers(0, 1 << 64, value.shape, np.uint64)
            if isinstance(value, np.ndarray) and value.dtype == np.float64:
                return random.choice([np.inf, -1.0, 1e308, np.nan, 0.0], value.shape)
            if type(value) is int and _COUNTER.search(name):
                return int(random.integers(0, 1 << 64, dtype=np.uint64))
            return value

        return changed(self.payloads[tick], corrupt)

    def check(self) -> tuple[Check, ...]:
        return ()

    def close(self) -> None:
        self.released.set()


@cache
def payloads() -> Mapping[str, tuple[Any, ...]]:
    """Of every source that nftop has, a payload for each tick."""
    clocked = Clocked(4, processor=_PROCESSOR)
    samples = [clocked.sample() for _ in range(TICKS)]
    result = {
        name: tuple(sample.readings[name].value for sample in samples)
        for name in samples[0].readings
    }
    netdev, own = NetdevSource(), OwnSource([], Affinity(), [])
    for source in (netdev, own):
        value = source.read()
        # Equal ones, but not the same: what is the same was read in an earlier tick.
        result[source.name] = tuple(copy.copy(value) for _ in range(TICKS))
    netdev.close()
    own.close()
    missing = {kind.id for kind in kinds()} - result.keys()
    assert missing == ALONE, missing
    return result


@cache
def _begin() -> FoldState:
    return Clocked(4, processor=_PROCESSOR).state


def combinations() -> Iterator[dict[str, Fault]]:
    """Every fault of every source, then every pair of faults of two sources."""
    singles = [(name, fault) for name in payloads() for fault in FAULTS if can_have(name, fault)]
    yield from ({name: fault} for name, fault in singles)
    for (one, fault), (other, second) in itertools.combinations(singles, 2):
        if one != other:
            yield {one: fault, other: second}


def can_have(name: str, fault: Fault) -> bool:
    """Files of the kernel's, which are read in the sampler's thread, neither hang nor are slow."""
    return name not in INLINE or fault not in ("hung", "slow")


def run(faults: Mapping[str, Fault]) -> list[Frame]:
    """Sample and fold with these faults; AssertionError: something else suffers from them."""
    sources = [
        FaultySource(name, name in INLINE, of_ticks, faults.get(name))
        for name, of_ticks in payloads().items()
    ]
    sampler, state = Sampler(sources), _begin()
    frames: list[Frame] = []
    known: dict[str, SourceReading[Any]] = {}
    try:
        for tick in range(TICKS):
            for source in sources:
                source.tick = tick
                if not source.is_faulty:
                    source.released.set()
                else:
                    source.released.clear()
            readings = _sampled(sampler, sources, known)
            now_ns = (100 + tick) * SECOND_NS
            for name, reading in readings.items():
                same = name in known and known[name].value is reading.value
                late = same and name not in INLINE
                at_ns = known[name].read_at_ns if late else now_ns
                known[name] = SourceReading(reading.value, at_ns, reading.took_ns)
            sample = Sample(WALL_NS + now_ns, now_ns, SECOND_NS, dict(known))
            state, frame = step(state, sample)
            frames.append(frame)
            _check_outputs(frame)
    finally:
        for source in sources:
            source.released.set()
        sampler.close()
    return frames


def _sampled(
    sampler: Sampler, sources: Sequence[FaultySource], known: Mapping[str, SourceReading[Any]]
) -> dict[str, SourceReading[Any]]:
    """A sample with this tick's reading of every source that does not hang."""
    readings = dict(sampler.sample(1.0, 0.0).readings)
    waiting = {
        source.name: source
        for source in sources
        if not source.inline and not (source.is_faulty and source.fault == "hung")
    }
    deadline_s = time.monotonic() + PATIENCE_S
    before = {name: reading.read_at_ns for name, reading in readings.items()}
    while waiting:
        latest = sampler._blocking.latest
        for name, source in list(waiting.items()):
            if _is_of(latest[name].value, source):
                readings[name] = latest[name]
                del waiting[name]
        assert time.monotonic() < deadline_s, (sorted(waiting), before)
        sampler._blocking.wait(0.005)
    return readings


def _is_of(value: Any, source: FaultySource) -> bool:
    """Whether a value is what the source gives in this tick."""
    if source.is_faulty and source.fault == "killed":
        return isinstance(value, Missing) and value.reason is Reason.ERROR
    if source.is_faulty and source.fault == "lying":
        return not isinstance(value, Missing) and value is not source.payloads[source.tick - 1]
    if source.fault == "restarted" and source.tick >= FIRST:
        return value is source.payloads[source.tick - FIRST]
    return value is source.payloads[source.tick]


def _check_outputs(frame: Frame) -> None:
    json.loads(frame_json(frame))
    assert frame_text(frame, 200, ascii_only=True, mode="LIVE")
    text = page(frame, Tally(), TextFormat.OPENMETRICS)
    assert not _NO_NUMBER.findall(text), _NO_NUMBER.findall(text)


def judge(faults: Mapping[str, Fault]) -> None:
    """Run and compare with a run without faults; AssertionError: more is lost than the fault."""
    frames, honest = run(faults), run_honest()
    assert len(frames) == TICKS
    for tick, (frame, other) in enumerate(zip(frames, honest, strict=True)):
        for name, item in frame.sources.items():
            fault = faults.get(name)
            if fault is None or not FIRST <= tick <= LAST:
                assert item.reason is other.sources[name].reason, (tick, name, item)
            elif fault == "killed":
                assert item.reason is Reason.ERROR, (tick, name, item)
            elif fault == "hung":
                assert item.age_s is not None and item.age_s >= tick - FIRST + 1, (name, item)


@cache
def run_honest() -> tuple[Frame, ...]:
    return tuple(run({}))


def main() -> int:
    words = sys.argv[1:]
    chosen: list[dict[str, Any]] = [dict(zip(words[::2], words[1::2], strict=True))]
    every = list(combinations()) if not words else chosen
    failed = 0
    for number, faults in enumerate(every, 1):
        try:
            judge(faults)
        except Exception as error:  # noqa: BLE001 - one that fails does not hide the others
            failed += 1
            print(f"{faults}: {type(error).__name__}: {error}", flush=True)
        if number % 100 == 0:
            print(f"{number} of {len(every)}, {failed} failed", flush=True)
    print(f"{len(every)} combinations of faults, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
