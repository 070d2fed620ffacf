"""What a source is, and what it tells `nftop doctor`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol, runtime_checkable

from nftop.model.ids import Cpu
from nftop.model.reading import Missing, Reason
from nftop.model.struct import dataclass
from nftop.model.topology import Topology

# What counters could not be opened for may be cured meanwhile: perf_event_paranoid lowered, another
# program ended. They are tried again after this long.
RETRY_AFTER_NS = 10_000_000_000
# `check` lets counter groups run this long before it says that they do.
SETTLE_S = 0.1


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `nftop doctor`.

    Attributes:
        name: what was looked at (`perf`, `perf cycles`, `dpdk nfa`).
        reason: PRESENT when it works.
        text: what was found, or why not, in one sentence.
        fix: what to do about it, as a command where there is one; "" when nothing need be done.
        why: why it matters, and who says so; "" where that goes without saying.
        advised: False where it works, but is not set as `why` has it.
    """

    name: str
    reason: Reason
    text: str
    fix: str = ""
    why: str = ""
    advised: bool = True

    @property
    def state(self) -> str:
        """`ok`, `tune` where it is not as advised, or the reason's word."""
        return "tune" if self.reason is Reason.PRESENT and not self.advised else self.reason.key


class Source(Protocol):
    """One interface of the host.

    `inline` sources are read in the sampler's own thread and must neither block nor wait; the
    others get a thread each and may be late. `read` returns the payload named in `model/sample`,
    or why there is none; any exception it raises is turned into `Reason.ERROR` by the session and
    touches no other source.
    """

    @property
    def name(self) -> str: ...

    @property
    def inline(self) -> bool: ...

    def read(self) -> Any | Missing:
        """One reading now. Called at every tick; a source that is slower keeps its own pace."""

    def check(self) -> tuple[Check, ...]:
        """What works, what does not, why, and the fix. May be slow; never called while live."""

    def close(self) -> None:
        """Give back descriptors and connections. Safe to call twice."""


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
        """How often a CPU was interrupted so far to read, start or stop a counter, at most."""


@runtime_checkable
class Helped(Protocol):
    """A source that has processes of its own read for it."""

    @property
    def helper_cpu_ns(self) -> int:
        """CPU time they have used so far. Safe from any thread."""


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
    """A source that can tell more of one core than of all of them."""

    def focus(self, cpu: Cpu | None) -> None:
        """From its next reading on, tell more of this CPU's core; with None of no core."""


@runtime_checkable
class ProcessFocusing(Protocol):
    """A source that can describe the processes of one CPU."""

    def focus_processes(self, cpu: Cpu | None) -> None:
        """From its next reading on, describe the processes of this CPU; None: of no CPU."""


@runtime_checkable
class Detailing(Protocol):
    """A source that counts some of what it can only while somebody looks at it."""

    def detail(self, *, wanted: bool) -> None:
        """From its next reading on count that too, or no longer. Safe from any thread."""


@runtime_checkable
class Turning(Protocol):
    """A source that counts one thing for most of a tick and another in what is left of it.

    It is told when that last part begins. Only sources read inline are, in the same thread.
    """

    @property
    def turning(self) -> bool:
        """It wants to be told before the next reading. Where no source does, nobody wakes up."""

    def turn(self) -> None:
        """Count the other thing until the next reading. What it can't do, that reading says."""
