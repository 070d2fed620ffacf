"""Who counts: nftop's own groups, or the kernel's Python module."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from nftop.model.reading import Missing, Reason
from nftop.sources.base import Check
from nftop.sources.host.online import OnlineCpus
from nftop.sources.perf.problems import QUIET, Problem
from nftop.sources.perf.source import PerfSource
from nftop.sources.pyperf.groups import basic_events, fitting
from nftop.sources.pyperf.metrics import find_metrics, without_metrics
from nftop.sources.pyperf.module import PerfModule, load_module, unheard
from nftop.sources.pyperf.source import PythonPerfSource
from nftop.uarch.table import GENERIC, Uarch

WAYS = ("auto", "perf", "python-perf")
_NAME = "python-perf"
_UNUSED = Problem(
    Reason.HARDWARE,
    "it can count here, but the kernel has no top-down for this CPU: nftop's own groups give the "
    "rest with fewer reads",
)


class NoCounters:
    """The source `perf` where the way to count that was asked for is not there."""

    name = "perf"
    inline = True
    counter_reads = 0
    counter_interrupts = 0

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def read(self) -> Missing:
        """Why nothing is counted."""
        return self._problem.missing

    def check(self) -> tuple[Check, ...]:
        """The same with its fix."""
        problem = self._problem
        return (Check(self.name, problem.reason, problem.sentence, problem.fix),)

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The source that counts, and what `nftop doctor` has to say of the one that does not."""

    source: PerfSource | PythonPerfSource | NoCounters
    checks: tuple[Check, ...] = ()


def choose(
    way: str,
    own: PerfSource,
    uarch: Uarch,
    *,
    quiet_cpus: Collection[int],
    root: Path = Path("/"),
    module: PerfModule | Problem | None = None,
) -> Choice:
    """For `--pmu`, one of `WAYS`, `own` or the module's source; loaded only where it may be used.

    By itself nftop uses the module on CPUs that it has no table for, and only where the kernel
    has top-down for them: anything else its own groups give at one read a tick.
    """
    if way == "perf" or (way == "auto" and uarch.name != GENERIC):
        return Choice(own)
    try:
        with unheard():
            found = load_module(root) if module is None else module
            if not isinstance(found, Problem):
                return _by_module(way, found, own, quiet_cpus, root)
    except Exception as error:  # noqa: BLE001 - the boundary: a C module may raise anything
        said = f"the kernel's Python module perf failed: {type(error).__name__}: {error}"
        found = Problem(Reason.ERROR, said)
    if way == "python-perf":
        return Choice(NoCounters(found))
    return Choice(own, (Check(_NAME, found.reason, found.sentence, found.fix),))


def _by_module(
    way: str, found: PerfModule, own: PerfSource, quiet_cpus: Collection[int], root: Path
) -> Choice:
    """Who counts where the module is there; raises whatever the module does."""
    problem = _cycles_problem(found, quiet_cpus, root)
    # perf complains on standard error of formulas whose events it can't find: don't ask for them.
    metrics = find_metrics(found, root) if problem is None else without_metrics(problem)
    if way == "auto" and not metrics.formulas:
        why = problem or _UNUSED
        return Choice(own, (Check(_NAME, why.reason, why.sentence, why.fix),))
    return Choice(PythonPerfSource(found, metrics, root=root, quiet_cpus=quiet_cpus))


def _cycles_problem(module: PerfModule, quiet_cpus: Collection[int], root: Path) -> Problem | None:
    """Why cycles can't be counted here, tried on a CPU that may be disturbed; None if they can."""
    online = OnlineCpus(root)
    try:
        cpu = next((cpu for cpu in online.read() if cpu not in quiet_cpus), None)
    except (OSError, ValueError) as error:
        return Problem(Reason.ERROR, f"the list of online CPUs can't be read: {error}")
    finally:
        online.close()
    if cpu is None:
        return QUIET
    _, absent = fitting(module, (("cycles",),), basic_events(root), cpu)
    return absent.get("cycles")
