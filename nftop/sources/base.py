"""Interfaces of a source."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol, runtime_checkable

from nftop.model.check import Check
from nftop.model.ids import Cpu
from nftop.model.missing import Missing
from nftop.model.topology import Topology

RETRY_AFTER_NS = 10_000_000_000  # until counters that could not be opened are tried again
SETTLE_S = 0.1  # for which `check` lets counter groups run before it reads them


def missing_check(name: str, why: Missing, fix: str = "") -> tuple[Check]:
    """The check of a source that gives no values."""
    return (Check(name, why.reason, why.message, fix),)


class Source(Protocol):
    """One interface of the host.

    `inline` sources are read in the sampler's thread and must not block; the others are read by a
    helper thread and may be late. `read` returns a payload of `model.sources`, or why there is
    none; an exception becomes `Reason.ERROR` and affects no other source.

    Arguments of many sources: `root` is the host's file system, `clock` or `clock_ns` returns
    CLOCK_MONOTONIC nanoseconds, `quiet_cpus` must not be disturbed, `topology` is the host's.
    """

    @property
    def name(self) -> str: ...

    @property
    def inline(self) -> bool: ...

    def read(self) -> Any | Missing:
        """One reading. Called at every tick; a source may refresh its values less often."""

    def check(self) -> tuple[Check, ...]:
        """What works, what does not, why, and the fix. May be slow; not called while live."""

    def close(self) -> None:
        """Close descriptors and connections. Safe to call twice."""


@runtime_checkable
class Counting(Protocol):
    """A source whose reads disturb the CPUs that it counts."""

    @property
    def name(self) -> str: ...

    @property
    def counter_reads(self) -> int:
        """Reads of counters so far. Safe from any thread."""

    @property
    def counter_interrupts(self) -> int:
        """Upper bound of the interrupts so far to read, start or stop counters."""


@runtime_checkable
class Helped(Protocol):
    """A source that reads through helper processes."""

    @property
    def helper_cpu_ns(self) -> int:
        """CPU time of the helpers so far. Safe from any thread."""


@runtime_checkable
class PollerAware(Protocol):
    """A source that takes into account on which CPUs network functions poll."""

    def on_pollers(self, cpus: Collection[int], topology: Topology, /) -> None:
        """The polling CPUs from now on. Must not wait."""


@runtime_checkable
class Refreshable(Protocol):
    """A source that reads some of its files seldom."""

    def soon(self) -> None:
        """Read everything anew with the next reading. Safe from any thread."""


@runtime_checkable
class Focusing(Protocol):
    """A source that can measure one core in more detail than all."""

    def focus(self, cpu: Cpu | None, node: str = "") -> None:
        """Measure this CPU's core in detail from the next reading on; None for no core.

        Of top-down also what is below `node`, if the CPU's table has groups for it.
        """


@runtime_checkable
class ProcessFocusing(Protocol):
    """A source that can describe the processes of one CPU."""

    def focus_processes(self, cpu: Cpu | None) -> None:
        """From its next reading on, describe the processes of this CPU; None: of no CPU."""


@runtime_checkable
class CulpritFocusing(Protocol):
    """A source that can describe what runs on the CPUs that open incidents are about."""

    def focus_culprits(self, cpus: Collection[Cpu], memory: Collection[Cpu]) -> None:
        """From its next reading on, describe the processes of `cpus`, with memory on `memory`."""


@runtime_checkable
class Detailing(Protocol):
    """A source with counters that run only while they are on screen."""

    def detail(self, *, wanted: bool) -> None:
        """Start or stop these counters with the next reading. Safe from any thread."""


@runtime_checkable
class CounterFocusing(Protocol):
    """A source with counters that are kept only while they are on screen."""

    def everything(self, *, wanted: bool) -> None:
        """From its next reading on, keep all counters, or only those that nftop knows."""


@runtime_checkable
class Turning(Protocol):
    """A source that counts one group for most of a tick and another in the rest of it."""

    @property
    def turning(self) -> bool:
        """Whether `turn` is to be called. If no source needs it, the sampler does not wake up."""

    def turn(self) -> None:
        """Count the other events until the next reading, which reports any failure.

        Called in the sampler's thread, for inline sources only.
        """
