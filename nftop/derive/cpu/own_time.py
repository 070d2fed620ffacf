"""The share of a CPU's cycles that the threads of a network function took.

A poller that has its CPU for less than `WHOLE_RATIO` of the time shares the CPU's counts with
whatever runs there meanwhile. Per-thread counters would separate them, but the kernel reprograms
these at each context switch, on the polling core; so cycles are divided by time instead. That is
sound for cycles, which one CPU counts at nearly one rate whatever it runs, and it is not for
instructions, cache misses and top-down slots, which depend on what runs.

What a clock counts differs, and so does the time that a thread's share is taken of:

- `tsc` counts all time, also while the CPU is halted and while the hypervisor runs something else;
- `core` counts while the CPU is not halted (Intel SDM volume 3, CPU_CLK_UNHALTED.THREAD) and, in a
  guest, not while the hypervisor runs something else;
- `nf`, the network function's own sum of TSC differences, leaves out the thread's sleep and nothing
  else.

Run time is the kernel's sum_exec_runtime. With CONFIG_PARAVIRT_TIME_ACCOUNTING stolen time is left
out of it, otherwise it is contained; either way no thread ran for longer than 1 - steal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nftop.derive.nf.rates import WHOLE_RATIO, NfCore
from nftop.model.frame import BY_RUN, Clock
from nftop.model.reading import Missing, Reading, Reason

# The busy time of /proc/stat is sampled by the timer tick (except with VIRT_CPU_ACCOUNTING_GEN). It
# is evidence of other threads where it exceeds the threads' own time by so many standard deviations
# of that sampling: sqrt(u (1 - u) / n) for a busy share u of n ticks.
_DEVIATIONS = 3.0
_NEVER_RAN = Missing(Reason.UNDEFINED, "its thread did not run in this interval")


@dataclass(frozen=True, slots=True)
class OwnTime:
    """Shares of an interval on one CPU, 0 to 1.

    Attributes:
        run: the threads were on the CPU; stolen time left out.
        awake: they were on the CPU or ready to run; `run` where the kernel keeps no wait time.
        unhalted: the CPU ran anything at all, at least `run`.
        is_sampled: the kernel's busy time exceeds `run` by more than `WHOLE_RATIO` allows, but by
            no more than its sampling may err: that no other thread ran is an estimate.
    """

    run: float
    awake: float
    unhalted: float
    is_sampled: bool = False

    @property
    def has_all_counts(self) -> bool:
        """Whether events that the CPU counts while not halted are the threads' own."""
        return self.run >= WHOLE_RATIO * self.unhalted

    def share_of(self, clock: Clock) -> float:
        """The threads' share of the cycles that `clock` counts; 1 from `WHOLE_RATIO` on."""
        counted = {"tsc": 1.0, "nf": self.awake}.get(clock, self.unhalted)
        return 1.0 if self.run >= WHOLE_RATIO * counted else self.run / counted

    def shared(self, other: str) -> Missing | None:
        """Why instructions, misses and top-down are not the threads' own; None where they are.

        `other` names what else is known to run there, in words; "" where nothing is.
        """
        if self.has_all_counts:
            return None
        return Missing(
            Reason.SOURCE,
            f"{other or 'other threads ran'} on this CPU too, and its counts are of all that ran "
            f"there (RUN {self.run:.0%})",
        )


def own_time(
    cores: Sequence[NfCore], cpu_time: Reading, steal: Reading, ticks: Reading
) -> OwnTime | None:
    """The time that threads which poll on one CPU had of it together; None where RUN is unknown.

    Args:
        cores: one per thread, all of the same CPU; may be empty.
        cpu_time: share of time that the CPU was not idle (/proc/stat), stolen time included.
        steal: share of time that the hypervisor ran something else.
        ticks: number of USER_HZ ticks that `cpu_time` was sampled by; none without `cpu_time`.
    """
    runs = [core.run_ratio for core in cores]
    known = [run for run in runs if not isinstance(run, Missing)]
    if not runs or len(known) < len(runs):
        return None
    stolen = 0.0 if isinstance(steal, Missing) else steal
    run = min(sum(known), 1.0 - stolen)
    waits = [0.0 if isinstance(core.wait_ratio, Missing) else core.wait_ratio for core in cores]
    awake = max([run, *(own + wait for own, wait in zip(known, waits, strict=True))])
    # A thread that stays awake waits through stolen time, in which no core cycle is counted.
    unhalted = max(run, awake - stolen)
    is_sampled = False
    if not isinstance(cpu_time, Missing):
        busy = cpu_time - stolen
        if busy > unhalted + _sampling_error(unhalted, ticks):
            unhalted = busy
        else:
            is_sampled = busy > run / WHOLE_RATIO
    return OwnTime(run, min(awake, 1.0), min(unhalted, 1.0), is_sampled)


def _sampling_error(share: float, ticks: Reading) -> float:
    """How far a share of time may be exceeded by what so many ticks of /proc/stat count of it."""
    if isinstance(ticks, Missing) or ticks < 1:
        return 1.0
    share = min(max(share, 0.0), 1.0)
    # Beside the sampling, a count is of whole ticks at either end.
    return _DEVIATIONS * math.sqrt(share * (1.0 - share) / ticks) + 1.0 / ticks


def own_cycles(cycles: Reading, clock: Clock | None, own: OwnTime | None) -> Reading:
    """Cycles per second of the threads, of those that `clock` counted on their CPU.

    All of them where RUN is unknown: an upper bound.
    """
    if own is None or clock is None or isinstance(cycles, Missing):
        return cycles
    return cycles * own.share_of(clock) if own.run > 0 else _NEVER_RAN


def own_clock(clock: Clock | None, own: OwnTime | None) -> Clock | None:
    """What counts `own_cycles`: `clock`, or its `_by_run` if they are an estimate by run time."""
    if own is None or clock is None:
        return clock
    is_measured = own.share_of(clock) == 1.0 and not (clock == "core" and own.is_sampled)
    return clock if is_measured else BY_RUN[clock]
