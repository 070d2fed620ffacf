"""Counters on the fake kernel, whose turns change when they are due, and what is made of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from nftop.derive.package.table import PackageState, step_packages
from nftop.model.frame import PackageRow
from nftop.model.missing import Missing, Reason
from nftop.model.sample import SourceReading
from nftop.model.uncore import UncoreTable
from nftop.sources.host.topology import read_topology
from nftop.sources.uncore.counters import UncoreCounters
from nftop.uarch import table
from tests.sources.uncore.kernel import FakeUncore

SECOND = 1_000_000_000
MODELS = [table.load(name) for name in ("BDX", "SKX", "ICX", "GNR")]
SKX, ICX = table.load("SKX"), table.load("ICX")


@dataclass
class Bench:
    """Counters on a fake kernel, whose turns change when they are due."""

    fake: FakeUncore
    quiet: Collection[int] = ()
    detailed: bool = True
    counters: UncoreCounters = field(init=False)

    def __post_init__(self) -> None:
        self.counters = UncoreCounters(
            self.fake.uarch,
            kernel=self.fake.kernel,
            clock_ns=lambda: self.fake.now_ns,
            root=self.fake.root,
            quiet_cpus=self.quiet,
        )
        self.counters.detail(wanted=self.detailed)

    def wait(self, duration_ns: int) -> None:
        until_ns = self.fake.now_ns + duration_ns
        while self.fake.now_ns < until_ns:
            due_ns = self.counters.due_ns
            self.fake.pass_ns(max(min(until_ns, due_ns or until_ns) - self.fake.now_ns, 0))
            self.counters.turn()

    def read(self, duration_ns: int = SECOND) -> UncoreTable | Missing:
        self.wait(duration_ns)
        return self.counters.read()

    def tick(self, duration_ns: int = SECOND) -> UncoreTable:
        read = self.read(duration_ns)
        assert isinstance(read, UncoreTable), read
        self.must_hold(read)
        return read

    def must_hold(self, read: UncoreTable) -> None:
        """Every number is the event's own; every absent one is 0 and has a sentence."""
        for row, event in enumerate(read.events[index] for index in read.event):
            reason = Reason(int(read.reasons[row]))
            box, package = int(read.boxes[row]), int(read.packages[row])
            if reason is Reason.PRESENT:
                per_ns = self.fake.expected(event, box, package)
                assert read.values[row] == read.running_ns[row] * per_ns, (event, box, package)
                assert read.running_ns[row] <= read.enabled_ns[row]
            else:
                assert not read.values[row]
                # Of what nobody looks at the clock goes on.
                assert event in read.extras or not (read.running_ns[row] or read.enabled_ns[row])
                assert read.details[event][reason]


def rates(fake: FakeUncore, *reads: UncoreTable | Missing) -> tuple[PackageRow, ...]:
    """What is made of the last of these readings, which follow each other."""
    return list(folded(fake, reads))[-1]


def folded(
    fake: FakeUncore, reads: Iterable[UncoreTable | Missing]
) -> Iterator[tuple[PackageRow, ...]]:
    """What is made of each reading."""
    state = PackageState()
    topology = read_topology(fake.root)
    for at, read in enumerate(reads, 1):
        state, rows = step_packages(
            state, SourceReading(read, at * SECOND, 0), fake.uarch, topology
        )
        yield rows


def reasons(read: UncoreTable, event: str, package: int) -> set[Reason]:
    mine = (read.event == read.events.index(event)) & (read.packages == package)
    return {Reason(int(code)) for code in read.reasons[mine]}
