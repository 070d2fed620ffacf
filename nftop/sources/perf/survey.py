"""Which events this host can count, and in which groups: found out once, on one CPU.

An open that succeeds proves that the kernel knows the event, not that the group will ever run;
that shows only after the first tick, so a survey gives every group that opens, best first.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nftop.model.reading import Reason
from nftop.sources.perf import pmu
from nftop.sources.perf.abi import Kernel, attribute
from nftop.sources.perf.problems import DOES_NOT_FIT, NOT_IN_GROUP, Problem, explain
from nftop.uarch.table import Encoding, EventSpec, Plan, Uarch

# Errors about nftop's own means: they say nothing about the event that met them.
OWN_LIMITS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


@dataclass(frozen=True, slots=True)
class Step:
    """A group that can be opened.

    Attributes:
        names, encodings: its events in the order they are opened.
        absent: why each of the table's other events is not in it.
    """

    names: tuple[str, ...]
    encodings: tuple[Encoding, ...]
    absent: Mapping[str, Problem]


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found.

    Attributes:
        events: every event of the table, the columns.
        steps: the groups that can be opened, best first, each different from the others.
        problem: why there is no step; None where there is one.
    """

    events: tuple[str, ...]
    steps: tuple[Step, ...]
    problem: Problem | None


def survey(kernel: Kernel, cpu: int, uarch: Uarch, root: Path = Path("/")) -> Survey:
    """Try the table's plans on `cpu`; every descriptor is closed again. Never raises."""
    events = uarch.counted
    encodings, problems = _resolve(uarch.events, events, root)
    steps: dict[tuple[str, ...], Step] = {}
    try:
        for plan in uarch.plans:
            names = _try(kernel, cpu, plan, encodings=encodings, problems=problems, root=root)
            if names and names not in steps:
                absent = {e: problems.get(e, NOT_IN_GROUP) for e in events if e not in names}
                steps[names] = Step(names, tuple(encodings[e] for e in names), absent)
    except OSError as error:
        return Survey(events, (), explain(error.errno or 0, root))
    problem = None if steps else _chief(problems[e] for e in events if e in problems)
    return Survey(events, tuple(steps.values()), problem)


def _resolve(
    specs: Mapping[str, EventSpec], names: Iterable[str], root: Path
) -> tuple[dict[str, Encoding], dict[str, Problem]]:
    encodings: dict[str, Encoding] = {}
    problems: dict[str, Problem] = {}
    for name in names:
        spec = specs[name]
        if isinstance(spec, Encoding):
            encodings[name] = spec
            continue
        try:
            encodings[name] = pmu.encode(pmu.read_pmu(spec.pmu, root), spec.terms)
        except FileNotFoundError:
            sentence = f"this kernel has no PMU {spec.pmu} (no {spec} in sysfs)"
            problems[name] = Problem(Reason.HARDWARE, sentence)
        except OSError as error:
            sentence = f"the PMU {spec.pmu} can't be read in sysfs: {error.strerror}"
            problems[name] = Problem(Reason.ERROR, sentence)
        except pmu.PmuError as error:
            problems[name] = Problem(Reason.HARDWARE, str(error))
    return encodings, problems


def _try(
    kernel: Kernel,
    cpu: int,
    plan: Plan,
    *,
    encodings: Mapping[str, Encoding],
    problems: dict[str, Problem],
    root: Path,
) -> tuple[str, ...]:
    """The events of the plan that opened as one group; none where the plan must be given up.

    Notes in `problems` why an event did not open; an event that a group before could not take may
    open in this one, so each is tried again.

    Raises:
        OSError: nftop's own limits.
    """
    names: list[str] = []
    with _descriptors(kernel) as fds:
        for name in plan.events:
            if name not in encodings:
                continue
            refusal = _open(kernel, cpu, encodings[name], fds)
            if not refusal:
                names.append(name)
                problems.pop(name, None)
            elif names and _opens_alone(kernel, cpu, encodings[name]):
                problems[name] = DOES_NOT_FIT
                return ()
            else:
                problems[name] = explain(refusal, root)
    return tuple(names) if plan.needs <= set(names) else ()


def _opens_alone(kernel: Kernel, cpu: int, encoding: Encoding) -> bool:
    with _descriptors(kernel) as fds:
        return _open(kernel, cpu, encoding, fds) == 0


def _open(kernel: Kernel, cpu: int, encoding: Encoding, fds: list[int]) -> int:
    """Open an event behind the leader in `fds` and append it; the errno, 0 when it opened."""
    try:
        attr = attribute(encoding, leader=not fds)
        fds.append(kernel.open_event(attr, cpu, fds[0] if fds else -1))
    except OSError as error:
        if error.errno in OWN_LIMITS:
            raise
        return error.errno or errno.EINVAL
    return 0


@contextmanager
def _descriptors(kernel: Kernel) -> Iterator[list[int]]:
    fds: list[int] = []
    try:
        yield fds
    finally:
        for fd in reversed(fds):
            kernel.close(fd)


def _chief(problems: Iterable[Problem]) -> Problem:
    """The one to tell where nothing can be counted: first of all what a privilege would cure."""
    ranked = sorted(problems, key=lambda problem: problem.reason is not Reason.PERMISSION)
    return ranked[0] if ranked else DOES_NOT_FIT
