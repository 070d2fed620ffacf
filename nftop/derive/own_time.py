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

from collections.abc import Sequence
from dataclasses import dataclass

from nftop.derive.nf import WHOLE_RATIO, NfCore
from nftop.model.frame import Clock
from nftop.model.reading import Missing, Reading, Reason

# /proc/stat counts ticks, which sample: a busy time that exceeds what the threads account for by
# less than this is not evidence of other threads. Three standard deviations of 250 samples.
_SAMPLING_RATIO = 0.1
_BY_RUN: dict[Clock, Clock] = {"core": "core_by_run", "tsc": "tsc_by_run", "nf": "nf_by_run"}
_NEVER_RAN = Missing(Reason.UNDEFINED, "its thread did not run in this interval")


@dataclass(frozen=True, slots=True)
class OwnTime:
    """Shares of an interval on one CPU, 0 to 1.

    Attributes:
        run: the threads were on the CPU; stolen time left out.
        awake: they were on the CPU or ready to run; `run` where the kernel keeps no wait time.
        unhalted: the CPU ran anything at all, at least `run`.
    """

    run: float
    awake: float
    unhalted: float

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


def own_time(cores: Sequence[NfCore], cpu_time: Reading, steal: Reading) -> OwnTime | None:
    """The time that threads which poll on one CPU had of it together; None where RUN is unknown.

    Args:
        cores: one per thread, all of the same CPU; may be empty.
        cpu_time: share of time that the CPU was not idle (/proc/stat), stolen time included.
        steal: share of time that the hypervisor ran something else.
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
    if not isinstance(cpu_time, Missing) and cpu_time - stolen > unhalted + _SAMPLING_RATIO:
        unhalted = cpu_time - stolen
    return OwnTime(run, min(awake, 1.0), min(unhalted, 1.0))


def own_cycles(cycles: Reading, clock: Clock | None, own: OwnTime | None) -> Reading:
    """Cycles per second of the threads, of those that `clock` counted on their CPU.

    All of them where RUN is unknown: an upper bound.
    """
    if own is None or clock is None or isinstance(cycles, Missing):
        return cycles
    return cycles * own.share_of(clock) if own.run > 0 else _NEVER_RAN


def own_clock(clock: Clock | None, own: OwnTime | None) -> Clock | None:
    """What `own_cycles` are counted by: `clock`, or its `_by_run` where only a share was taken."""
    if own is None or clock is None or own.share_of(clock) == 1.0:
        return clock
    return _BY_RUN[clock]
