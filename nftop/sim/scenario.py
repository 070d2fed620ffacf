"""Scenarios of the simulated host, in TOML: tasks and events."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib import resources
from typing import Any, TypeVar

from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ROOT
from nftop.model.struct import dataclass, field
from nftop.sim import processor as processors
from nftop.sim import workloads
from nftop.sim.processor import Processor

_NUMBER = (int, float)


@dataclass(frozen=True, slots=True)
class TomlTable:
    """A TOML table with its path for messages of ValueError."""

    where: str
    values: Mapping[str, Any]

    def known(self, allowed: set[str]) -> None:
        for key in self.values.keys() - allowed:
            raise ValueError(f"{self.where}: {key!r} is not known here")

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if not isinstance(value, str) or not value:
            raise ValueError(f"{self.where}: {key} must be a text")
        return value

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, _NUMBER) or not low <= value <= high:
            raise ValueError(f"{self.where}: {key} must be a number from {low:g} to {high:g}")
        return float(value)

    def whole(self, key: str, low: int, high: int) -> int:
        value = self.number(key, low, high)
        if value != int(value):
            raise ValueError(f"{self.where}: {key} must be a whole number")
        return int(value)

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        value = self.text(key)
        if value not in allowed:
            raise ValueError(f"{self.where}: {key} must be one of {', '.join(allowed)}")
        return value

    def rows(self, key: str) -> list[tuple[int, Any]]:
        value = self.values.get(key, [])
        if not isinstance(value, list):
            raise ValueError(f"{self.where}: {key} must be written as [[{key}]]")
        return list(enumerate(value))

    def row_table(self, key: str, index: int, value: Any) -> TomlTable:
        if not isinstance(value, dict):
            raise ValueError(f"{self.where}: {key} must be written as [[{key}]]")
        return TomlTable(f"{self.where}, {key} {value.get('name', index + 1)}", value)

    def table(self, key: str) -> TomlTable | None:
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise ValueError(f"{self.where}: {key} must be a table")
        return TomlTable(f"{self.where}, {key}", value)


# Kinds of task; a vm does not report packets.
KINDS = ("testpmd", "l3fwd", "vpp", "ovs", "vm")
# Xeon Gold 6152: ways of its last-level cache and classes of its cache allocation.
L3_WAYS, CLASSES = 11, 16
_FILES = resources.files(__package__) / "scenarios"


@dataclass(frozen=True, slots=True)
class Stolen:
    """A share (0..1) of one thread's CPU that something else takes.

    `by`: a program with a single thread, which never sleeps; "" for an unwatched one. If it
    `sleeps` it is no poller: only the process facts of its CPU have it.
    """

    thread: int
    share: float
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
        sibling_of: of a `vm`: an earlier task, on whose CPUs' hyper-thread siblings it runs.
    """

    name: str
    kind: str
    workload: str
    package: int
    threads: int
    ht: bool = False
    load: float = 1.0
    load_swing: float = 0.0
    stolen: Stolen | None = None
    sibling_of: str = ""


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
class ScenarioStep:
    """Changes by task from `at_s` on.

    Attributes:
        load: as `Task.load`.
        slowed: factors on the cycles per packet.
        stolen: as `Stolen.share`, of tasks that have one.
        times: by quantity (`workloads.QUANTITIES`) a factor on its CPUs' counts.
        server: factor on memory reads of the sensor server; None: unchanged.
    """

    at_s: float
    load: Mapping[str, float] = field(default_factory=dict)
    slowed: Mapping[str, float] = field(default_factory=dict)
    stolen: Mapping[str, float] = field(default_factory=dict)
    times: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    server: float | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario. Saturated rates vary by the share `swing` in `period_s`.

    `groups` begin with the root group. Memory channels have traffic in proportion to
    `channel_weights`, default 1.
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


def names() -> tuple[str, ...]:
    names = (entry.name for entry in _FILES.iterdir())
    return tuple(sorted(name[:-5] for name in names if name.endswith(".toml")))


def load(name: str) -> Scenario:
    """The scenario called `name`, or ValueError."""
    if name not in names():
        raise ValueError(f"no scenario is called {name!r}; there are {', '.join(names())}")
    return parse(name, (_FILES / f"{name}.toml").read_text(encoding="utf-8"))


def parse(name: str, text: str) -> Scenario:
    """A scenario from its TOML text.

    `base` names a scenario to start from: tasks and groups of the same names replace its own,
    others are appended.

    Raises:
        ValueError: with the invalid value and the reason.
    """
    raw = TomlTable(f"scenario {name}", tomllib.loads(text))
    raw.known({field_.name for field_ in fields(Scenario)} - {"name"} | {"base"})
    base = _base(raw)
    tasks = tuple(_task(raw.row_table("tasks", index, task)) for index, task in raw.rows("tasks"))
    if len({task.name for task in tasks}) < len(tasks):
        raise ValueError(f"{raw.where}: two tasks have the same name")
    tasks = tasks if base is None else _replaced(base.tasks, tasks)
    if not tasks:
        raise ValueError(f"{raw.where}: it has no tasks")
    _check_sibling_tasks(raw.where, tasks)
    steps = tuple(
        _step(raw.row_table("steps", index, step), tasks) for index, step in raw.rows("steps")
    )
    times = [0.0, *(step.at_s for step in steps)]
    if any(later <= earlier for earlier, later in itertools.pairwise(times)):
        raise ValueError(f"{raw.where}: steps must come one after the other, after 0 s")
    known = [task.name for task in tasks]
    groups = tuple(
        _group(raw.row_table("groups", i, item), known) for i, item in raw.rows("groups")
    )
    if len({group.name for group in groups}) < len(groups):
        raise ValueError(f"{raw.where}: two groups have the same name")
    groups = groups if base is None else _replaced(base.groups, groups)
    period_s, swing = (None, None) if base is None else (base.period_s, base.swing)
    return Scenario(
        name=name,
        title=raw.text("title"),
        assumes=" ".join(raw.text("assumes").split()),
        period_s=raw.number("period_s", 1.0, 3600.0, period_s),
        swing=raw.number("swing", 0.0, 0.1, swing),
        tasks=tasks,
        steps=steps,
        groups=_with_root(raw.where, list(groups)),
        channel_weights=_weights(raw),
        processor=_processor(raw),
    )


def _base(raw: TomlTable) -> Scenario | None:
    return load(raw.text("base")) if "base" in raw.values else None


T = TypeVar("T", Task, ScenarioGroup)


def _replaced(base: Sequence[T], own: Sequence[T]) -> tuple[T, ...]:
    """The base's items with our own of the same names in place, new ones appended."""
    ours: dict[str, T] = {item.name: item for item in own}
    kept: list[T] = [ours.pop(item.name, item) for item in base]
    return tuple(kept + list(ours.values()))


def _check_sibling_tasks(where: str, tasks: Sequence[Task]) -> None:
    before: set[str] = set()
    for task in tasks:
        if task.sibling_of and (task.kind != "vm" or task.sibling_of not in before):
            raise ValueError(f"{where}, tasks {task.name}: sibling_of is a vm's, and names a task "
                             "before it")  # fmt: skip
        before.add(task.name)


def _task(raw: TomlTable) -> Task:
    raw.known({field_.name for field_ in fields(Task)})
    kind = raw.choice("kind", KINDS)
    special = {"vm": ("memtester",), "vpp": workloads.names_of_vpp()}
    allowed = special.get(kind) or workloads.names()
    threads = raw.whole("threads", 1, 512)
    ht = raw.values.get("ht", False)
    if not isinstance(ht, bool):
        raise ValueError(f"{raw.where}: ht must be true or false")
    if ht and kind == "vm":
        raise ValueError(f"{raw.where}: a vm has no hyper-threading numbers")
    load_share = raw.number("load", 0.0, 1.0, 1.0)
    swing = raw.number("load_swing", 0.0, 1.0, 0.0)
    if load_share * (1 + swing) > 1 and swing:
        raise ValueError(f"{raw.where}: load swings beyond what it can take")
    stolen = raw.table("stolen")
    return Task(
        name=raw.text("name"),
        kind=kind,
        workload=raw.choice("workload", allowed),
        package=raw.whole("package", 0, 1),
        threads=threads,
        ht=ht,
        load=load_share,
        load_swing=swing,
        stolen=None if stolen is None else _stolen(stolen, threads),
        sibling_of=raw.text("sibling_of") if "sibling_of" in raw.values else "",
    )


def _stolen(raw: TomlTable, threads: int) -> Stolen:
    raw.known({field_.name for field_ in fields(Stolen)})
    return Stolen(
        raw.whole("thread", 0, threads - 1),
        raw.number("share", 0.0, 0.9),
        raw.text("by") if "by" in raw.values else "",
        raw.values.get("sleeps") is True,
    )


def _step(raw: TomlTable, tasks: Sequence[Task]) -> ScenarioStep:
    raw.known({field_.name for field_ in fields(ScenarioStep)})
    names = [task.name for task in tasks]
    robbed = [task.name for task in tasks if task.stolen is not None]
    return ScenarioStep(
        at_s=raw.number("at_s", 0.001, 1e6),
        load=_by_task(raw, "load", names, 0.0, 1.0),
        slowed=_by_task(raw, "slowed", names, 1.0, 10.0),
        stolen=_by_task(raw, "stolen", robbed, 0.0, 0.9),
        times=_times(raw, names),
        server=raw.number("server", 0.1, 10.0) if "server" in raw.values else None,
    )


def _times(raw: TomlTable, tasks: list[str]) -> Mapping[str, Mapping[str, float]]:
    inner = raw.table("times")
    if inner is None:
        return {}
    inner.known(set(tasks))
    factors_by_task = {}
    for name in inner.values:
        factors = inner.table(name)
        if factors is None:
            continue
        factors.known(set(workloads.QUANTITIES))
        factors_by_task[name] = {
            value: factors.number(value, 0.0, 1000.0) for value in factors.values
        }
    return factors_by_task


def _processor(raw: TomlTable) -> Processor:
    if "processor" not in raw.values:
        return processors.load()
    return processors.load(raw.choice("processor", processors.names()))


def _weights(raw: TomlTable) -> tuple[int, ...]:
    weights = raw.values.get("channel_weights", [])
    if not isinstance(weights, list) or not all(type(n) is int and 0 < n < 100 for n in weights):
        raise ValueError(f"{raw.where}: channel_weights must be a list of whole numbers below 100")
    return tuple(weights)


def _group(raw: TomlTable, tasks: list[str]) -> ScenarioGroup:
    raw.known({field_.name for field_ in fields(ScenarioGroup)})
    name, is_root = raw.text("name"), raw.values.get("name") == ROOT
    members = raw.values.get("tasks", [])
    if not isinstance(members, list) or not all(member in tasks for member in members):
        raise ValueError(f"{raw.where}: tasks must be a list of {', '.join(tasks)}")
    if is_root and members:
        raise ValueError(f"{raw.where}: the root group has what no other has")
    return ScenarioGroup(
        name=name,
        clos=raw.whole("clos", 0, 0) if is_root else raw.whole("clos", 1, CLASSES - 1),
        tasks=tuple(members),
        ways=_masks(raw),
        mba_percent=int(raw.number("mba_percent", 10, 100, 100)),
    )


def _masks(raw: TomlTable) -> tuple[Cbm, ...]:
    ways = raw.values.get("ways")
    bits_listed: list[Any] = ways if isinstance(ways, list) else [ways]
    valid = [type(bits) is int and 0 < bits < 1 << L3_WAYS for bits in bits_listed]
    masks = tuple(Cbm(bits, L3_WAYS) for bits in bits_listed) if all(valid) else ()
    if not masks or not all(mask.contiguous for mask in masks):
        raise ValueError(f"{raw.where}: ways must be masks of neighbours of {L3_WAYS} ways")
    return masks


def _with_root(where: str, groups: list[ScenarioGroup]) -> tuple[ScenarioGroup, ...]:
    """The groups with the root group first, by default with all ways."""
    if not any(group.name == ROOT for group in groups):
        groups = [ScenarioGroup(ROOT, 0, (), (Cbm((1 << L3_WAYS) - 1, L3_WAYS),), 100), *groups]
    for what, item in (
        ("name", [group.name for group in groups]),
        ("clos", [group.clos for group in groups]),
        ("task", [task for group in groups for task in group.tasks]),
    ):
        if len(set(item)) < len(item):
            raise ValueError(f"{where}: two groups have the same {what}")
    return tuple(sorted(groups, key=lambda group: group.clos))


def _by_task(
    raw: TomlTable, key: str, tasks: list[str], low: float, high: float
) -> Mapping[str, float]:
    inner = raw.table(key)
    if inner is None:
        return {}
    inner.known(set(tasks))
    return {name: inner.number(name, low, high) for name in inner.values}
