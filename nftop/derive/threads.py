"""How much each watched thread runs, and how much it waits for a CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from nftop.model.ids import Cpu
from nftop.model.reading import Missing, Reading, Reason
from nftop.model.sample import SourceReading, ThreadRow, ThreadTable

# A thread polls when it runs, or is kept from running, more than this share of the time. A poller
# never sleeps, so it shows close to 1 even when two share a core; an ordinary thread shows less.
POLLING_RATIO = 0.5

# Roles that no thread of an ordinary program has; others are watched only because they spin.
NF_ROLES: Mapping[str, str] = MappingProxyType(
    {
        "dpdk_lcore": "dpdk",
        "dpdk_main": "dpdk",
        "ovs_pmd": "ovs",
        "vpp_main": "vpp",
        "vpp_worker": "vpp",
        "grout_worker": "grout",
    }
)


@dataclass(frozen=True, slots=True)
class ThreadRate:
    """One thread and its shares of the interval; see `model.catalogue` run_ratio, wait_ratio."""

    thread: ThreadRow
    run_ratio: Reading
    wait_ratio: Reading

    @property
    def polls(self) -> bool | None:
        """Whether it spins; None until two readings tell."""
        if isinstance(self.run_ratio, Missing) or isinstance(self.wait_ratio, Missing):
            return None
        return self.run_ratio + self.wait_ratio > POLLING_RATIO

    @property
    def cpu(self) -> Cpu | None:
        """The one CPU it is pinned to; None when it may move."""
        return self.thread.allowed[0] if len(self.thread.allowed) == 1 else None


@dataclass(frozen=True, slots=True)
class ThreadState:
    """The last reading that was rated, and the rates it gave."""

    read_at_ns: int = 0
    threads: Mapping[tuple[int, int], ThreadRow] = field(default_factory=dict)
    rates: tuple[ThreadRate, ...] = ()


def step_threads(
    state: ThreadState, reading: SourceReading[ThreadTable] | None
) -> tuple[ThreadState, tuple[ThreadRate, ...]]:
    """Fold one reading of the threads in. Threads that are gone leave at once."""
    if reading is None or isinstance(reading.value, Missing):
        return ThreadState(), ()
    if state.read_at_ns == reading.read_at_ns:
        return state, state.rates
    rates = tuple(
        _rate(state.threads.get((thread.tid, thread.start_ticks)), thread)
        for thread in reading.value.threads
    )
    known = {(thread.tid, thread.start_ticks): thread for thread in reading.value.threads}
    return ThreadState(reading.read_at_ns, known, rates), rates


def _rate(before: ThreadRow | None, after: ThreadRow) -> ThreadRate:
    if before is None or after.read_at_ns <= before.read_at_ns:
        why = Missing(Reason.WARMING)
        return ThreadRate(after, why, why)
    elapsed_ns = after.read_at_ns - before.read_at_ns
    return ThreadRate(
        after,
        _share(before.run_ns, after.run_ns, elapsed_ns),
        _share(before.wait_ns, after.wait_ns, elapsed_ns),
    )


def _share(before: int | None, after: int | None, elapsed_ns: int) -> Reading:
    if before is None or after is None:
        return Missing(Reason.HARDWARE, "this kernel keeps no schedstat")
    if after < before:
        return Missing(Reason.RESET)
    # The clock is read a little before the counter, so a spinning thread can come out a little
    # over its interval; more than all of the time is still all of it.
    return min((after - before) / elapsed_ns, 1.0)
