"""Scenarios of the simulated host, in TOML: tasks and events."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import Meta

from nftop.model.data_files import data_file, data_names
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ROOT
from nftop.model.struct import dataclass, field, replace
from nftop.sim import processor as processors
from nftop.sim import workloads
from nftop.sim.processor import Processor

# Kinds of task; a vm does not report packets.
TaskKind: TypeAlias = Literal["testpmd", "l3fwd", "vpp", "ovs", "vm"]
KINDS: tuple[str, ...] = get_args(TaskKind)
Cores: TypeAlias = Literal["usual", "high"]
_UNLIMITED_PERCENT = 100
# Most ways of a simulated processor's last-level cache, and classes of cache allocation.
_MOST_WAYS, _MOST_CLASSES = 20, 16
_FOLDER = "scenarios"

_Text: TypeAlias = Annotated[str, Meta(min_length=1)]
_Ratio: TypeAlias = Annotated[float, Meta(ge=0.0, le=1.0)]
_StolenShare: TypeAlias = Annotated[float, Meta(ge=0.0, le=0.9)]
_Mask: TypeAlias = Annotated[int, Meta(gt=0, lt=1 << _MOST_WAYS)]


@dataclass(frozen=True, slots=True)
class Stolen:
    """A share (0..1) of one thread's CPU that something else takes.

    `by`: a program with a single thread, which never sleeps; "" for an unwatched one. If it
    `sleeps` it is no poller: only the process facts of its CPU have it.
    """

    thread: Annotated[int, Meta(ge=0)]
    share: _StolenShare
    by: str = ""
    sleeps: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """One process with pinned threads.

    Attributes:
        name: unique; for DPDK applications also the EAL file prefix.
        kind: one of `KINDS`.
        workload: a name of `workloads.toml`.
        package: on which it runs, if the host has it.
        threads: on a host of 88 CPUs; other hosts in proportion.
        ht: two threads per physical core, with the paper's hyper-threading numbers.
        load: offered load / capacity; of a `vm` share of its time.
        load_swing: relative amplitude of `load`.
        stolen: what else runs on one of its CPUs.
        frame_bytes: size of its frames, whose requests of NICs are then as in Table 16 of the FD.io
            paper; None: 64 bytes, with the requests of its Table 7.
        errors: of a `vpp`: by `node/name` of an error counter, one packet of so many.
        sibling_of: of a `vm`: an earlier task, on whose CPUs' hyper-thread siblings it runs.
    """

    name: _Text
    kind: TaskKind
    workload: str
    package: Annotated[int, Meta(ge=0, le=1)]
    threads: Annotated[int, Meta(ge=1, le=512)]
    ht: bool = False
    load: _Ratio = 1.0
    load_swing: _Ratio = 0.0
    stolen: Stolen | None = None
    sibling_of: str = ""
    frame_bytes: Annotated[int, Meta(ge=64, le=9000)] | None = None
    errors: Mapping[str, Annotated[int, Meta(ge=2, le=1 << 40)]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScenarioGroup:
    """A resctrl control group: a cache class and the tasks whose CPUs are in it.

    Attributes:
        name: of its directory; `ROOT` for the root group, which has all other CPUs.
        clos: the hardware's class.
        ways: mask in the last-level cache of each package; a single one for all.
        mba_percent: limit on memory bandwidth, which only a vm reaches.
    """

    name: str
    clos: int
    tasks: tuple[str, ...]
    ways: tuple[Cbm, ...]
    mba_percent: int


@dataclass(frozen=True, slots=True)
class Lookups:
    """Shares (0..1) of OVS' packets that its tables answer; the rest are megaflow hits.

    Attributes:
        emc: hits of the exact match cache. upcalls: packets that no table answered.
        lost: packets of these that were dropped.
    """

    emc: _Ratio = 0.95
    upcalls: _Ratio = 1e-6
    lost: _Ratio = 0.0


@dataclass(frozen=True, slots=True)
class ScenarioStep:
    """Changes by task from `at_s` on.

    Attributes:
        load: as `Task.load`.
        slowed: factors on the cycles per packet.
        stolen: as `Stolen.share`, of tasks that have one.
        times: by quantity (`workloads.QUANTITIES`) a factor on its CPUs' counts.
        lookups: of OVS' flow tables; by default few packets make an upcall, and none is lost.
        server: factor on memory reads of the sensor server; None: unchanged.
    """

    at_s: Annotated[float, Meta(ge=0.001, le=1e6)]
    load: Mapping[str, _Ratio] = field(default_factory=dict)
    slowed: Mapping[str, Annotated[float, Meta(ge=1.0, le=10.0)]] = field(default_factory=dict)
    stolen: Mapping[str, _StolenShare] = field(default_factory=dict)
    times: Mapping[str, Mapping[str, Annotated[float, Meta(ge=0.0, le=1000.0)]]] = field(
        default_factory=dict
    )
    lookups: Mapping[str, Lookups] = field(default_factory=dict)
    server: Annotated[float, Meta(ge=0.1, le=10.0)] | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario. Saturated rates vary by the share `swing` in `period_s`.

    `own_processor`: name of the processor in its file. `loads_of`: whether a load of 1 is what a
    core handles at its initial frequency, or at the base frequency of high-priority cores. `groups`
    begin with the root group. Memory channels have traffic in proportion to `channel_weights`,
    default 1.
    """

    name: str
    title: str
    assumes: str
    period_s: float
    swing: float
    tasks: tuple[Task, ...]
    steps: tuple[ScenarioStep, ...]
    groups: tuple[ScenarioGroup, ...]
    channel_weights: tuple[int, ...] = ()
    processor: Processor = field(default_factory=processors.load)
    own_processor: str = processors.USUAL
    loads_of: Cores = "usual"

    @property
    def offered_hz(self) -> float:
        """Frequency at which a core just handles a load of 1."""
        processor = self.processor
        return float(processor.high_base_hz if self.loads_of == "high" else processor.start_hz[1])


@dataclass(frozen=True, slots=True)
class _GroupTable:
    """A group as in the file."""

    name: _Text
    clos: Annotated[int, Meta(ge=0, lt=_MOST_CLASSES)]
    ways: _Mask | Annotated[tuple[_Mask, ...], Meta(min_length=1)]
    tasks: tuple[str, ...] = ()
    mba_percent: Annotated[int, Meta(ge=10, le=100)] = _UNLIMITED_PERCENT


@dataclass(frozen=True, slots=True)
class _ScenarioFile:
    """A file; `base` names a scenario whose tasks, groups, period and swing it starts from."""

    title: _Text
    assumes: _Text
    base: str = ""
    period_s: Annotated[float, Meta(ge=1.0, le=3600.0)] | None = None
    swing: Annotated[float, Meta(ge=0.0, le=0.1)] | None = None
    tasks: tuple[Task, ...] = ()
    steps: tuple[ScenarioStep, ...] = ()
    groups: tuple[_GroupTable, ...] = ()
    channel_weights: tuple[Annotated[int, Meta(gt=0, lt=100)], ...] = ()
    processor: str = ""
    loads_of: Cores = "usual"


def names() -> tuple[str, ...]:
    files = data_names(__package__, _FOLDER)
    return tuple(sorted(name[:-5] for name in files if name.endswith(".toml")))


def load(name: str, host: str = "") -> Scenario:
    """The scenario called `name` on its own processor or that of `host`, or ValueError."""
    return parse(name, _text(name), host)


def _text(name: str) -> str:
    if name not in names():
        raise ValueError(f"no scenario is called {name!r}; there are {', '.join(names())}")
    return data_file(__package__, f"{_FOLDER}/{name}.toml").decode()


def parse(name: str, text: str, host: str = "") -> Scenario:
    """A scenario from its TOML text.

    `base` names a scenario to start from: tasks and groups of the same names replace its own,
    others are appended. `host` names a processor in place of the file's: see `_on`.

    Raises:
        ValueError: with the invalid value and the reason.
    """
    scenario = _parsed(name, text)
    if host and host not in processors.names():
        raise ValueError(f"no host is called {host!r}; there are {', '.join(processors.names())}")
    return _on(scenario, processors.load(host) if host else scenario.processor)


def _parsed(name: str, text: str) -> Scenario:
    """As in the file, with the workloads' general names."""
    try:
        return _converted(name, tomllib.loads(text))
    except ValueError as error:
        raise ValueError(f"scenario {name}: {error}") from None


def _on(scenario: Scenario, processor: Processor) -> Scenario:
    """The scenario on a processor, with what its tasks cost there.

    Masks keep their position in the cache: the boundaries between ways are scaled and rounded, so
    masks of several ways that are apart stay apart, and every mask keeps one way at least (two of
    one way may become the same). Limits on memory bandwidth are dropped where there is no MBA, as a
    kernel has no line for them.
    """
    has_mba = processor.limits.mba_least is not None
    return replace(
        scenario,
        processor=processor,
        tasks=tuple(
            replace(task, workload=processor.workloads.get(task.workload, task.workload))
            for task in scenario.tasks
        ),
        groups=tuple(
            replace(
                group,
                ways=tuple(_scaled(mask, processor.ways) for mask in group.ways),
                mba_percent=group.mba_percent if has_mba else _UNLIMITED_PERCENT,
            )
            for group in scenario.groups
        ),
    )


def _scaled(mask: Cbm, ways: int) -> Cbm:
    """A contiguous mask in a cache of another number of ways."""
    low, high = (mask.bits & -mask.bits).bit_length() - 1, mask.bits.bit_length()
    first, end = (round(edge * ways / mask.width) for edge in (low, high))
    first = min(first, ways - 1)
    return Cbm((1 << max(end, first + 1)) - (1 << first), ways)


def _converted(name: str, raw: Mapping[str, Any]) -> Scenario:
    file = msgspec.convert(raw, _ScenarioFile)
    _check_keys("", raw, msgspec.to_builtins(file))
    base = _parsed(file.base, _text(file.base)) if file.base else None
    tasks = file.tasks if base is None else _replaced(base.tasks, file.tasks)
    period_s = file.period_s if base is None or file.period_s is not None else base.period_s
    swing = file.swing if base is None or file.swing is not None else base.swing
    if file.processor and file.processor not in processors.names():
        raise ValueError(f"processor must be one of {', '.join(processors.names())}")
    if period_s is None or swing is None or not tasks:
        raise ValueError("without a base it needs period_s, swing and tasks")
    _unique("tasks", "name", (task.name for task in file.tasks))
    _check_tasks(tasks)
    _check_steps(file.steps, tasks)
    known = {task.name for task in tasks}
    _unique("groups", "name", (group.name for group in file.groups))
    processor = processors.load(file.processor or processors.USUAL)
    groups = tuple(_group(table, known, processor.ways) for table in file.groups)
    return Scenario(
        name=name,
        title=file.title,
        assumes=" ".join(file.assumes.split()),
        period_s=period_s,
        swing=swing,
        tasks=tasks,
        steps=file.steps,
        groups=_with_root(
            list(groups if base is None else _replaced(base.groups, groups)), processor.ways
        ),
        channel_weights=file.channel_weights,
        processor=processor,
        own_processor=processor.name,
        loads_of=file.loads_of,
    )


def _check_keys(where: str, raw: Any, known: Any) -> None:
    """ValueError for a key of a table that is not a field; `known` has all fields."""
    if isinstance(raw, Mapping) and isinstance(known, Mapping):
        for key, value in raw.items():
            if key not in known:
                raise ValueError(f"{where}{key!r} is unknown")
            _check_keys(f"{where}{key}.", value, known[key])
    elif isinstance(raw, list) and isinstance(known, list | tuple):
        for index, (value, entry) in enumerate(zip(raw, known, strict=True)):
            _check_keys(f"{where}{index}.", value, entry)


def _unique(tables: str, key: str, values: Iterable[object]) -> None:
    listed = list(values)
    if len(set(listed)) < len(listed):
        raise ValueError(f"{tables}: two have the same {key}")


T = TypeVar("T", Task, ScenarioGroup)


def _replaced(base: Sequence[T], own: Sequence[T]) -> tuple[T, ...]:
    """The base's items with our own of the same names in place, new ones appended."""
    ours: dict[str, T] = {item.name: item for item in own}
    kept: list[T] = [ours.pop(item.name, item) for item in base]
    return tuple(kept + list(ours.values()))


def _check_tasks(tasks: Sequence[Task]) -> None:
    special = {"vm": ("memtester",), "vpp": workloads.names_of_vpp()}
    before: set[str] = set()
    for task in tasks:
        allowed, swings = special.get(task.kind) or workloads.names(), task.load_swing > 0
        for holds, problem in (
            (task.workload in allowed, f"workload must be one of {', '.join(allowed)}"),
            (not (task.ht and task.kind == "vm"), "a vm has no hyper-threading numbers"),
            (
                not swings or task.load * (1 + task.load_swing) <= 1,
                "load_swing: the load exceeds 1",
            ),
            (
                not task.sibling_of or (task.kind == "vm" and task.sibling_of in before),
                "sibling_of is for a vm, and names an earlier task",
            ),
            (
                not task.errors
                or (task.kind == "vpp" and all("/" in name for name in task.errors)),
                "errors are a vpp's, by node/name",
            ),
            (
                task.stolen is None or task.stolen.thread < task.threads,
                "stolen.thread: there is no such thread",
            ),
        ):
            if not holds:
                raise ValueError(f"tasks.{task.name}: {problem}")
        before.add(task.name)


def _check_steps(steps: Sequence[ScenarioStep], tasks: Sequence[Task]) -> None:
    times = [0.0, *(step.at_s for step in steps)]
    if any(later <= earlier for earlier, later in itertools.pairwise(times)):
        raise ValueError("steps: at_s must increase from step to step")
    names = {task.name for task in tasks}
    stolen = {task.name for task in tasks if task.stolen is not None}
    switches = {task.name for task in tasks if task.kind == "ovs"}
    for step in steps:
        unknown = {*step.load, *step.slowed, *step.times} - names | step.stolen.keys() - stolen
        unknown |= step.lookups.keys() - switches
        for shares in step.lookups.values():
            if shares.emc + shares.upcalls > 1 or shares.lost > shares.upcalls:
                raise ValueError("steps: lookups exceed the packets, or the upcalls")
        for factors in step.times.values():
            unknown |= factors.keys() - set(workloads.QUANTITIES)
        if unknown:
            raise ValueError(f"steps: {', '.join(sorted(unknown))} is unknown")


def _group(table: _GroupTable, tasks: set[str], ways: int) -> ScenarioGroup:
    bits_listed = table.ways if isinstance(table.ways, tuple) else (table.ways,)
    if max(bits_listed) >> ways:
        raise ValueError(f"groups.{table.name}: there are {ways} ways")
    masks = tuple(Cbm(bits, ways) for bits in bits_listed)
    is_root = table.name == ROOT
    for holds, problem in (
        (all(mask.contiguous for mask in masks), f"ways must be adjacent, of {ways}"),
        (is_root == (table.clos == 0), "clos 0 is the root group's"),
        (not (is_root and table.tasks), "the root group has all other tasks"),
        (set(table.tasks) <= tasks, f"tasks must be of {', '.join(sorted(tasks))}"),
    ):
        if not holds:
            raise ValueError(f"groups.{table.name}: {problem}")
    return ScenarioGroup(table.name, table.clos, table.tasks, masks, table.mba_percent)


def _with_root(groups: list[ScenarioGroup], ways: int) -> tuple[ScenarioGroup, ...]:
    """The groups with the root group first, by default with all ways."""
    if not any(group.name == ROOT for group in groups):
        groups = [ScenarioGroup(ROOT, 0, (), (Cbm((1 << ways) - 1, ways),), 100), *groups]
    _unique("groups", "clos", (group.clos for group in groups))
    _unique("groups", "task", (task for group in groups for task in group.tasks))
    return tuple(sorted(groups, key=lambda group: group.clos))
