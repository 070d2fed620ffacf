"""Which group of each CPU runs when, and the reading of them.

`turn` stops the main group of a CPU and starts another; the next `read` reads both and starts the
main group again. It is never the kernel that lets them take turns: that would arm a timer of 4 ms
on every core. Each CPU's events are stopped by their leader alone, which takes one interrupt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

from nftop.sources.perf.abi import Kernel
from nftop.sources.perf.cpu_state import Costs, Row
from nftop.sources.perf.group import Group, GroupReader, GroupReadings


class Rotation:
    """The open groups of all CPUs; they stay the caller's."""

    def __init__(self, kernel: Kernel) -> None:
        self.costs = Costs()
        self._kernel = kernel
        self._rounds = 0
        self._turned: dict[Group, Group] = {}  # by main group, the one that runs in its place
        self._reader = GroupReader(kernel, ())
        self.install((), ())

    def install(self, rows: Sequence[Row], orders: Iterable[Sequence[Group]]) -> None:
        """From now on these rows' groups; of each row those that take turns, in their order."""
        each = [
            (index, part, group)
            for index, row in enumerate(rows)
            for part, group in enumerate(row.groups)
            if group is not None or part == 0
        ]
        groups = [group for *_, group in each]
        self._reader = GroupReader(self._kernel, groups, self._reader)
        self.cells = tuple((index, part) for index, part, _ in each)
        self._cell_of = {group: cell for cell, group in enumerate(groups) if group is not None}
        self._mains = [(row.group, self._cell_of[row.group]) for row in rows if row.group]
        pairs = zip(rows, orders, strict=True)
        self._orders = [(row.group, order) for row, order in pairs if row.group and order]
        self._turned = {
            main: group for main, group in self._turned.items() if main in self._cell_of
        }

    @property
    def turning(self) -> bool:
        """Some CPU has groups that take turns."""
        return bool(self._orders)

    def turns(self, cpus: Collection[int] | None = None) -> int:
        """Of how many groups each has its turn in as many ticks, on the CPU with the most."""
        return max(
            (len(order) for main, order in self._orders if cpus is None or main.cpu in cpus),
            default=0,
        )

    def turn(self) -> None:
        """Let the next group have its turn wherever there is one. Never raises: reads tell."""
        for main, order in self._orders:
            if main not in self._turned:
                group = order[self._rounds % len(order)]
                self._stop(main)
                self._begin(group)
                self._turned[main] = group
        self._rounds += 1

    def read(self) -> GroupReadings:
        """One read of each group that was to run since the last; `cells` says whose they are."""
        reader = self._reader
        for main, cell in self._mains:
            turned = self._turned.pop(main, None)
            if turned is None:
                reader.fetch(cell)
                self.costs.reads += 1
                self.costs.interrupts += 1
            else:
                # Stopped groups are read without an interrupt.
                self._stop(turned)
                reader.fetch(self._cell_of[turned], stopped=True)
                reader.fetch(cell, stopped=True)
                self._begin(main)
                self.costs.reads += 2
        return reader.finish()

    def latest(self) -> GroupReadings:
        """What was read last of each group, nothing of one that was opened since."""
        return self._reader.finish()

    def start(self, main: Group) -> None:
        """Let a main group run that was stopped until now."""
        self._begin(main)

    def leave(self, main: Group, group: Group) -> int:
        """The main group runs again if `group` did in its place: that one is to be closed.

        How long it had been enabled when it was read last, in ns.
        """
        if self._turned.get(main) is group:
            del self._turned[main]
            self._begin(main)
        return self._reader.enabled_ns(group)

    def _stop(self, group: Group) -> None:
        with suppress(OSError):  # it then goes on, or is found faulty when it is read
            self._kernel.disable(group.fds[0])
        self.costs.interrupts += 1

    def _begin(self, group: Group) -> None:
        with suppress(OSError):
            self._kernel.enable(group.fds[0])
        self.costs.interrupts += 1
