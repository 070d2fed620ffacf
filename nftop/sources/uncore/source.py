"""The source `uncore`: counters of packages, multiplexed by a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import numpy as np

from nftop.model.check import Check
from nftop.model.ids import format_cpu_list
from nftop.model.missing import Missing, Reason
from nftop.model.topology import Topology
from nftop.model.uncore import UncoreTable
from nftop.sources.perf.abi import Kernel, host_kernel
from nftop.sources.perf.problems import STOP_OTHER, CounterProblem
from nftop.sources.uncore.counters import UncoreCounters
from nftop.sources.uncore.open_counters import OpenBox, shares, turns_of
from nftop.uarch.sections import Uncore
from nftop.uarch.table import Uarch

_TAKEN = "{events}: a group never got onto the counters of {boxes} boxes; another program has them"


def uncore_checks(name: str, counters: UncoreCounters, table: UncoreTable) -> tuple[Check, ...]:
    """One check for each unit with boxes, and one for each missing item."""
    by_unit: dict[str, list[OpenBox]] = {}
    for opened in counters.boxes:
        by_unit.setdefault(opened.box.unit.name, []).append(opened)
    checks: list[Check] = []
    for unit, boxes in by_unit.items():
        if any(opened.counts for opened in boxes):
            checks.append(_unit(f"{name} {unit}", boxes, counters.switch_ns))
        checks += _absent(f"{name} {unit}", boxes)
        checks += _never_ran(f"{name} {unit}", boxes[0].box.unit, table)
    lacking: dict[tuple[str, CounterProblem], list[int]] = {}
    for (unit, package), problem in counters.lacking.items():
        lacking.setdefault((unit, problem), []).append(package)
    for (unit, problem), packages in lacking.items():
        where = f" (package {format_cpu_list(packages)})"
        checks.append(problem.check(f"{name} {unit}", where))
    return tuple(checks)


def _unit(name: str, boxes: list[OpenBox], switch_ns: int) -> Check:
    unit = boxes[0].box.unit
    counted = {event for opened in boxes for turn in opened.turns for event in turn.events}
    named = ["/".join(event for event in turn if event in counted) for turn in turns_of(unit)]
    parts = shares(unit, detailed=False)
    groups = {text: share for text, share in zip(named, parts, strict=False) if text}
    on_demand = ", ".join(text for text in named[len(parts) :] if text)
    cpus = sorted({opened.box.cpu for opened in boxes})
    per_package = [
        f"{sum(opened.box.package == package for opened in boxes)} boxes of package {package}"
        for package in sorted({opened.box.package for opened in boxes})
    ]
    listed, cost = ", ".join(groups), ""
    if len(groups) > 1:
        listed = "in turns " + ", ".join(f"{text} {share:.0%}" for text, share in groups.items())
        cost = f"; switching turns takes {switch_ns / 1e6:.1f} ms"
    if on_demand:
        listed += f", and {on_demand} only while on screen,"
    fds = sum(len(turn.fds) for opened in boxes for turn in opened.turns)
    text = (
        f"counts {listed} on {', '.join(per_package)} with {fds} descriptors, by interrupts of CPU "
        f"{format_cpu_list(cpus)}{cost}"
    )
    return Check(name, Reason.PRESENT, text)


def _absent(name: str, boxes: list[OpenBox]) -> Iterable[Check]:
    lacking: dict[tuple[str, CounterProblem], int] = {}
    for opened in boxes:
        for event, problem in opened.absent.items():
            lacking[event, problem] = lacking.get((event, problem), 0) + 1
    for (event, problem), number in lacking.items():
        where = "" if number == len(boxes) else f" ({number} of {len(boxes)} boxes)"
        yield problem.check(f"{name} {event}", where)


def _never_ran(name: str, unit: Uncore, table: UncoreTable) -> Iterable[Check]:
    idle = (table.reasons == 0) & (table.running_ns == 0)
    for turn in turns_of(unit):
        mine = idle & np.isin(table.event, [table.events.index(event) for event in turn])
        if mine.any():
            boxes = len(
                {(p, b) for p, b in zip(table.packages[mine], table.boxes[mine], strict=True)}
            )
            text = _TAKEN.format(events="/".join(turn), boxes=boxes)
            yield Check(f"{name} {turn[0]}", Reason.TAKEN, text, STOP_OTHER)


_CLOSED = CounterProblem(Reason.SOURCE, "the uncore source has been closed")
# `check` lets groups run so long, and turns so many rounds, before it says that one does not: on a
# busy host they are late.
_SETTLE_S, _ROUNDS = 0.05, 5


class UncoreSource:
    """Counts every box of every package; opens them at the first read.

    Turns change between two readings, in a thread that starts with the first one and runs on any
    CPU of the process. Setting or reading a box that is on interrupts the CPU that the kernel
    counts it on. Thread-safe.
    """

    name = "uncore"
    inline = False

    def __init__(
        self,
        uarch: Uarch,
        *,
        root: Path = Path("/"),
        quiet_cpus: Collection[int] = frozenset(),
        kernel: Kernel | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Packages with boxes counted on a quiet CPU are left out."""
        self._clock_ns = clock_ns
        self._counters = UncoreCounters(
            uarch, kernel=kernel or host_kernel(), clock_ns=clock_ns, root=root,
            quiet_cpus=quiet_cpus,
        )  # fmt: skip
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._failed: Missing | None = None
        self._closed = False

    def read(self) -> UncoreTable | Missing:
        """Counts of all boxes until now; Missing if none can be counted."""
        with self._changed:
            if self._closed:
                return _CLOSED.missing
            table: UncoreTable | Missing = self._counters.read()
            # The turn that failed is tried again from here on.
            table, self._failed = self._failed or table, None
            if self._thread is None and self._counters.due_ns is not None:
                # A daemon: a system call that hangs must not keep nftop from ending.
                self._thread = threading.Thread(
                    target=self._take_turns, name="nftop-uncore-turns", daemon=True
                )
                self._thread.start()
            self._changed.notify()
            return table

    def detail(self, *, wanted: bool) -> None:
        """As `Detailing`."""
        self._counters.detail(wanted=wanted)

    @property
    def counter_reads(self) -> int:
        return self._counters.costs.reads

    @property
    def counter_interrupts(self) -> int:
        return self._counters.costs.interrupts

    def on_pollers(self, cpus: Collection[int], _topology: Topology) -> None:
        """As `PollerAware`: readings warn if counting disturbs one of these CPUs."""
        self._counters.set_pollers(cpus)

    def check(self) -> tuple[Check, ...]:
        """Opens the boxes, lets every turn run, and reports what is counted where.

        From then on events on demand are counted too.
        """
        self.detail(wanted=True)
        table = self.read()
        for _ in range(_ROUNDS):
            if (
                isinstance(table, UncoreTable)
                and ((table.reasons == 0) & (table.running_ns == 0)).any()
            ):
                time.sleep(max(self._counters.round_ns / 1e9, _SETTLE_S))
                table = self.read()
        with self._changed:
            if isinstance(table, Missing):
                return ((self._counters.problem or _CLOSED).check(self.name),)
            return uncore_checks(self.name, self._counters, table)

    def close(self) -> None:
        """Close every counter; a later read is Missing. Safe to call twice."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout=1.0)
        with self._changed:
            self._counters.close()

    def _turn(self) -> None:
        """Change turns; the next reading reports a failure, until then nothing turns."""
        try:
            self._counters.turn()
        except Exception as error:  # noqa: BLE001 - the boundary of the thread
            what = f"taking turns failed: {type(error).__name__}: {error}"
            self._failed = Missing(Reason.ERROR, what)

    def _take_turns(self) -> None:
        with self._changed:
            while not self._closed:
                due_ns = None if self._failed else self._counters.due_ns
                now_ns = self._clock_ns()
                if due_ns is not None and now_ns >= due_ns:
                    self._turn()
                else:
                    # Woken by every reading, which may have changed the pace.
                    self._changed.wait(None if due_ns is None else (due_ns - now_ns) / 1e9)
