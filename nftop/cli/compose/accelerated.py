"""The simulated host on a clock that is stepped: minutes of an experiment take seconds."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from nftop.model.clock import NS_PER_S
from nftop.model.struct import dataclass
from nftop.model.topology import Host, Topology
from nftop.session.accelerated import Accelerated, SteppedClock
from nftop.session.experiment import ExperimentHost
from nftop.uarch.table import Uarch

if TYPE_CHECKING:  # numpy comes with it
    from nftop.control.gate import HostGate
    from nftop.model.sample import Sample
    from nftop.sim.world import World


@dataclass(frozen=True, slots=True)
class SteppedHost:
    """What a recording's header says of the host, and the gates to it."""

    host: Host
    topology: Topology
    uarch: Uarch
    gate: HostGate


# The simulated neighbour has filled its ways so long after the scenario's last step.
_STEADY_S = 15.0


def accelerated_host(
    options: argparse.Namespace,
    *,
    like: World | None = None,
    pause_s: float = 0.0,
    taken: Callable[[SteppedHost], Callable[[Sample], None]] | None = None,
) -> ExperimentHost:
    """The simulated host of the command line, after the last step of its scenario.

    Args:
        options: of the command line.
        like: a simulated host whose classes and age it has; None: those of the scenario.
        pause_s: real time between frames.
        taken: of the host, what receives its samples.

    Raises ValueError: no such scenario, or a CPU that the host can't have.
    """
    from nftop.control.simulated import simulated_gates  # noqa: PLC0415 - numpy comes with it
    from nftop.derive.fold import FoldState  # noqa: PLC0415
    from nftop.sources.simulated import simulated_host  # noqa: PLC0415

    clock = SteppedClock()
    demo = simulated_host(
        options.scenario,
        options.simulated_cpus,
        processor=options.simulated_host,
        clock_ns=clock.now_ns,
    )
    moment = None if like is None else like.now()
    age_s = 0.0 if moment is None else moment.t_ns / NS_PER_S
    steps = demo.model.scenario.steps
    if steps:
        age_s = max(age_s, steps[-1].at_s + _STEADY_S)
    if moment is not None:
        demo.world.change(lambda _: moment.rdt.classes)
    clock.advance(age_s)
    start = FoldState(demo.host, demo.model.layout.topology, demo.uarch, options.queue_map)
    gate = simulated_gates(demo.world)
    feed = Accelerated(
        demo.sources,
        start,
        clock,
        interval_s=1.0 if like is not None else options.interval_s,
        pause_s=pause_s,
        wall_ns=time.time_ns(),
        on_sample=(lambda _: None)
        if taken is None
        else taken(SteppedHost(demo.host, demo.model.layout.topology, demo.uarch, gate)),
    )
    return ExperimentHost(
        feed.frames(), gate, feed.stop, clock.now_ns, accelerated=True, pace=feed.pace
    )
