"""nftop's counters while another program takes some and gives them back, by a clock of its own.

`python -m tests.lab.tests.inside_trials CPU` prints JSON: retiring of that CPU's core before and
after, in how many ticks of a second it went and came back, and what else was seen meanwhile.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field

from nftop.derive.cpu.counters import CounterRates, CounterState, step_counters
from nftop.derive.topdown.tma import ShareState, tma_columns
from nftop.model.column import ratio
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.sample import CounterTable, SourceReading
from nftop.sources.host.topology import read_topology
from nftop.sources.perf.source import PerfSource
from nftop.uarch import table
from tests.lab.tests.inside_uncore import CONTROL, S, now_ns, step


@dataclass
class Ticks:
    """A second each, the last tenth of it for whose turn it is."""

    cpu: int
    uarch_name: str = "SKX"
    state: CounterState = field(default_factory=CounterState)

    def __post_init__(self) -> None:
        self.uarch = table.load(self.uarch_name).with_smt(on=True)
        self.topology = read_topology()
        self.source = PerfSource(uarch=self.uarch, clock_ns=now_ns)

    def tick(self) -> tuple[CounterTable, CounterRates]:
        step(9 * S // 10)
        if self.source.turning:
            self.source.turn()
        step(S // 10)
        read = self.source.read()
        assert isinstance(read, CounterTable), read
        reading = SourceReading(read, now_ns(), 0)
        self.state, rates = step_counters(self.state, reading, self.topology)
        return read, rates

    def retiring(self, rates: CounterRates) -> Reading:
        return self.top_down(rates)["retiring"]

    def top_down(self, rates: CounterRates) -> dict[str, Reading]:
        """Every node and coverage of the CPU's core, by name without `tma.`."""
        _, columns = tma_columns(ShareState(), self.uarch, rates, self.topology)
        return {
            name.removeprefix("tma."): component[self.cpu] for name, component in columns.items()
        }

    def until(self, reason: Reason, *, within: int) -> tuple[int, Reading, int]:
        """Ticks until retiring has that reason, what it is then, and how many had no IPC."""
        lacking = 0
        shown: Reading = Missing(Reason.WARMING)
        for number in range(1, within + 1):
            _, rates = self.tick()
            ipc = ratio(rates.rate("instructions"), rates.core_cycles)[self.cpu]
            lacking += isinstance(ipc, Missing)
            shown = self.retiring(rates)
            if (shown.reason if isinstance(shown, Missing) else Reason.PRESENT) is reason:
                return number, shown, lacking
        raise AssertionError(f"retiring has never been {reason.name} in {within} s: {shown}")


def compete(text: str) -> None:
    (CONTROL / "competitor").write_text(text, encoding="ascii")


def main(cpu: int) -> None:
    ticks = Ticks(cpu)
    _, before, _ = ticks.until(Reason.PRESENT, within=6)
    compete("groups 1 4")
    shared = [ticks.tick() for _ in range(5)]
    assert all(not isinstance(ticks.retiring(rates), Missing) for _, rates in shared)
    compete("pinned 1")
    went, _, _ = ticks.until(Reason.TAKEN, within=6)
    compete("none")
    back, after, lacking = ticks.until(Reason.PRESENT, within=40)
    read = [ticks.tick()[0] for _ in range(4)][-1]
    result = {
        "before": before,
        "after": after,
        "went": went,
        "back": back,
        "lacking": lacking,
        "gaps": read.gaps,
        "turns": read.turns,
    }
    ticks.source.close()
    print(json.dumps(result))


if __name__ == "__main__":
    main(int(sys.argv[1]))
