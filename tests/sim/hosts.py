"""A simulated host whose clock the test holds, and its frames."""

from __future__ import annotations

from dataclasses import dataclass, field

from nftop.derive.fold import FoldState, step
from nftop.derive.incidents.lifecycle import culprit_focus
from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.model.sample import Sample, SourceReading
from nftop.session.live import is_sampled
from nftop.sim import scenario as scenarios
from nftop.sim.model import Model
from nftop.sim.uncore import OF_PACKAGE_INDEX, box_counts, box_factors, boxes
from nftop.sources.base import CulpritFocusing, Detailing
from nftop.sources.simulated import SimulatedHost, simulated_host
from nftop.uarch.table import PmuTerms

S = 1_000_000_000
BOOT_NS = 7_123_456_789_012  # the session's clock did not begin with the demo


def count_box(model: Model, event: PmuTerms, package: int, box: int, t_ns: int) -> int:
    """What a box of a package has counted, of the simulated host itself."""
    uarch = model.scenario.processor.uarch
    column = boxes(model, event.pmu, uarch).index(box)
    counts = box_counts(model, t_ns, event.pmu, uarch)[package, column]
    factors = box_factors(event, uarch)
    assert factors is not None
    return sum(factor * int(counts[OF_PACKAGE_INDEX[name]]) for name, factor in factors.items())


def span_s(name: str) -> tuple[int, int]:
    """When something begins in a scenario, and when it ends."""
    steps = scenarios.load(name).steps
    return int(steps[0].at_s), int(steps[-1].at_s)


@dataclass
class Frozen:
    """The clock stands still between ticks, so a rate has no error but the counts' own."""

    scenario: str = "default"
    cpus: int = 88
    now_ns: int = BOOT_NS
    traffic: bool | None = True  # all of it is looked at; None: as a live session samples it
    simulated: SimulatedHost = field(init=False)
    state: FoldState = field(init=False)
    ticks: int = 0
    culprits: tuple[tuple[Cpu, ...], ...] = ((), ())  # as a live session asks for them
    processor: str = ""

    def __post_init__(self) -> None:
        self.simulated = simulated_host(
            self.scenario, self.cpus, processor=self.processor, clock_ns=lambda: self.now_ns
        )
        for source in self.simulated.sources:
            if isinstance(source, Detailing):
                source.detail(wanted=self.traffic is True)
        self.state = FoldState(
            self.simulated.host, self.simulated.model.layout.topology, self.simulated.uarch
        )

    def tick(self, after_ns: int) -> Frame:
        """The frame `after_ns` later."""
        return self.fold(self.sample(after_ns))

    def sample(self, after_ns: int) -> Sample:
        """What its sources have `after_ns` later."""
        self.now_ns += after_ns
        self.ticks += 1
        for source in self.simulated.sources:
            if isinstance(source, Detailing) and self.traffic is None:
                source.detail(wanted=is_sampled(self.ticks))
            if isinstance(source, CulpritFocusing):
                source.focus_culprits(*self.culprits)
        readings = {
            source.name: SourceReading(source.read(), self.now_ns, 0)
            for source in self.simulated.sources
        }
        wall_ns = self.now_ns
        return Sample(wall_ns, self.now_ns, after_ns or S, readings)

    def fold(self, sample: Sample) -> Frame:
        self.state, frame = step(self.state, sample)
        self.culprits = culprit_focus(frame)
        return frame

    def cpus_of(self, task: str) -> tuple[int, ...]:
        """Where a task's threads run."""
        return next(p.cpus for p in self.simulated.model.layout.placed if p.name == task)


def value(frame: Frame, metric: str, cpu: int) -> float:
    """A number of the frame; no reason will do."""
    reading = frame.cpus.columns[metric][cpu]
    assert isinstance(reading, float), f"{metric} of CPU {cpu}: {reading}"
    return reading
