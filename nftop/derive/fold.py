"""The fold: one sample in, one frame out, by a loop over stages."""

from __future__ import annotations

from collections.abc import Mapping

from nftop.derive.cache.changes import CHANGES
from nftop.derive.cache.table import CACHE
from nftop.derive.compare.baseline import BaselineState
from nftop.derive.cpu.counters import COUNTERS
from nftop.derive.cpu.frequencies import FREQUENCIES
from nftop.derive.cpu.table import CPUS, CYCLES
from nftop.derive.cpu.time import CPU_TIMES
from nftop.derive.findings.engine import FINDINGS
from nftop.derive.fold_stage import AnyStage, FoldTick, TopologyChange
from nftop.derive.frame import BASELINES, FRAME, NF_ROWS, OWN_COST, RELATIVE
from nftop.derive.incidents.lifecycle import INCIDENTS
from nftop.derive.nf.netdev import NETDEV
from nftop.derive.nf.recent import RECENT
from nftop.derive.occupants import NFS, OTHER_POLLERS, OWN_TIMES, POLLERS
from nftop.derive.package.devices import DEVICES
from nftop.derive.package.power import POWER
from nftop.derive.package.table import PACKAGES
from nftop.derive.pcm.fold import SERVER
from nftop.derive.threads import THREADS
from nftop.derive.topdown.tma import FOCUS, TOPDOWN
from nftop.derive.usual import USUAL
from nftop.model.baseline import Baselines
from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.nf.queue_map import QueueMap
from nftop.model.rule_settings import NO_SETTINGS, RuleSettings
from nftop.model.sample import Sample
from nftop.model.struct import dataclass, field, replace
from nftop.model.topology import Host, Topology
from nftop.uarch.table import Uarch

# A reading older than this many ticks, and than a second, is STALE.
_STALE_TICKS = 2.5
_STALE_AT_LEAST_S = 1.0

# In the order in which they run: each reads outputs of those before it.
STAGES: list[AnyStage] = [
    COUNTERS,
    CPU_TIMES,
    NETDEV,
    THREADS,
    NFS,
    POLLERS,
    OTHER_POLLERS,
    OWN_TIMES,
    CYCLES,
    PACKAGES,
    POWER,
    CACHE,
    CHANGES,
    FOCUS,
    TOPDOWN,
    FREQUENCIES,
    CPUS,
    SERVER,
    NF_ROWS,
    DEVICES,
    RELATIVE,
    BASELINES,
    OWN_COST,
    FRAME,
    RECENT,
    FINDINGS,
    INCIDENTS,
    USUAL,
]


def register(stage: AnyStage, *, before: AnyStage = CPUS) -> None:
    """Add a stage, by default before the table of CPUs, so that its columns are in it.

    Raises:
        ValueError: a stage has its name.
    """
    if stage.name in {known.name for known in STAGES}:
        raise ValueError(f"two stages are called {stage.name}")
    STAGES.insert(STAGES.index(before), stage)


@dataclass(frozen=True, slots=True)
class FoldState:
    """State between ticks.

    Attributes:
        uarch: table of the CPU, or None.
        queue_map: the operator's.
        before: sample of the previous tick.
        stages: state of each stage, by name.
        rules: the operator's settings of rules.
    """

    host: Host
    topology: Topology
    uarch: Uarch | None = None
    queue_map: QueueMap = field(default_factory=dict)
    before: Sample | None = None
    stages: Mapping[str, object] = field(default_factory=dict)
    rules: RuleSettings = NO_SETTINGS

    @property
    def baseline(self) -> BaselineState:
        """The last ticks, and the baselines in use."""
        return BASELINES.state(self.stages)


def step(state: FoldState, sample: Sample) -> tuple[FoldState, Frame]:
    """Fold one sample in.

    Every rate uses the clock of its own source, so a late source does not affect other numbers. A
    reading that was already rated is not rated again.
    """
    fresh = _fresh(sample)
    topology, change = _topology(state.topology, fresh)
    tick = FoldTick(
        state.host, topology, state.uarch, state.queue_map, fresh, state.before, change, state.rules
    )
    stages = {stage.name: stage.advance(state.stages, tick) for stage in STAGES}
    after = replace(state, topology=topology, before=sample, stages=stages)
    incidents = tick.output(INCIDENTS)
    return after, replace(
        tick.output(FRAME),
        findings=tick.output(FINDINGS).findings,
        incidents=incidents.active,
        past_incidents=incidents.past,
        usual=tick.output(USUAL),
    )


def comparing(state: FoldState, kept: Baselines | None) -> FoldState:
    """The state that compares with these baselines, or with none, from the next sample on."""
    baseline = replace(state.baseline, kept=kept)
    return replace(state, stages={**state.stages, BASELINES.name: baseline})


def checkpoint(state: FoldState) -> FoldState:
    """The state as it is kept to fold on from it later: without the ticks that only `b` needs."""
    baseline = replace(state.baseline, seen=())
    return replace(state, stages={**state.stages, BASELINES.name: baseline})


def lasting(state: FoldState) -> FoldState:
    """What of the state a warm-up does not restore: findings, changes, what is compared with.

    It has no sample: ticks have to be folded before its rates are right.
    """
    names = {stage.name for stage in STAGES if stage.lasting}
    stages = {name: kept for name, kept in state.stages.items() if name in names}
    return replace(checkpoint(replace(state, stages=stages)), before=None)


def polling_cpus(frame: Frame) -> frozenset[Cpu]:
    """CPUs on which a network function polls; not those where only another program spins."""
    table = frame.cpus
    return frozenset(
        info.cpu for info, nf in zip(table.topology.cpus, table.nf, strict=True) if nf is not None
    )


def _topology(old: Topology, sample: Sample) -> tuple[Topology, TopologyChange | None]:
    """The newest topology and what has changed; CPUs keep their rows when they go offline."""
    reading = sample.readings.get("topology")
    if reading is None or isinstance(reading.value, Missing):
        return old, None
    new: Topology = reading.value
    if new is old or new == old:
        return old, None
    if [info.cpu for info in old.cpus] != [info.cpu for info in new.cpus]:
        return new, TopologyChange.ROWS
    same = old.packages == new.packages
    return new, TopologyChange.ENTRIES if same else TopologyChange.PACKAGES


def _fresh(sample: Sample) -> Sample:
    """The sample with STALE in place of readings that are too old."""
    longest_s = max(_STALE_TICKS * sample.interval_ns / 1e9, _STALE_AT_LEAST_S)
    readings = dict(sample.readings)
    for name, reading in sample.readings.items():
        age_s = (sample.monotonic_ns - reading.read_at_ns) / 1e9
        if age_s > longest_s:
            stale = Missing(Reason.STALE, f"has not answered for {age_s:.0f} s")
            readings[name] = replace(reading, value=stale)
    return replace(sample, readings=readings)
