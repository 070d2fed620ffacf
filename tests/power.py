"""Frames of hosts that a sensor server tells of, real documents and simulated ones."""

from __future__ import annotations

from functools import lru_cache

from nftop.derive.fold import FoldState
from nftop.model.frame import Frame
from nftop.model.missing import Missing, Reason
from nftop.sources.pcm.source import topology_of
from tests.derive.pcm.test_fold import NAMES, nudged, table
from tests.samples import HOST, S, fold, sample
from tests.sim.hosts import Frozen

NO_SERVER = Missing(Reason.SOURCE, "no pcm-sensor-server listens at 127.0.0.1:9738")


@lru_cache(maxsize=4)
def captured(name: str = NAMES[0], seconds: int = 3) -> tuple[Frame, ...]:
    """Frames of a captured document, told again each second."""
    one = table(name)
    answers = (sample(at * S, pcm=nudged(one, at)) for at in range(1, seconds + 1))
    return tuple(fold(FoldState(HOST, topology_of(one)), *answers))


def serverless() -> Frame:
    """The same host where no server runs."""
    return fold(FoldState(HOST, topology_of(table())), sample(S, pcm=NO_SERVER))[0]


@lru_cache(maxsize=1)
def two_kinds() -> tuple[Frame, ...]:
    """A host with SST-BF, whose pollers are partly on its low-priority cores."""
    host = Frozen("sst-bf", 80)
    return tuple(host.tick(S) for _ in range(3))


@lru_cache(maxsize=1)
def simulated(seconds: int = 70) -> tuple[Frame, ...]:
    """The demo's first frames."""
    host = Frozen("noisy")
    return tuple(host.tick(S) for _ in range(seconds))
