"""Reads of counters on virtual Xeons, nftop's and those of `perf stat` for the same events.

In the lab, since this machine may have no counters: strace counts what both ask of the kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from nftop.uarch import table as uarch_table
from nftop.uarch.table import Encoding, EventSpec, Uarch
from tests.bench.report import Reached
from tests.lab import machine, requirements
from tests.lab.tests.labs import enter
from tests.strace import Calls, traced

CPUS = 8
_TICK_S = 0.5
_TICKS = 4
_SOFTWARE, _LAST_TYPE = 1, 1 << 16
_SOFTWARE_NAMES = {3: "context-switches"}


def counter_reads() -> list[Reached]:
    """A table: reads and ioctls of a core's counters a tick, by machine."""
    what, why = "reads per core and tick, level 1, any model", requirements.missing()
    if why:
        return [Reached(what, "1", None, why=why)]
    print(f"per core and tick on virtual Xeons with {CPUS} CPUs: reads, ioctls")
    print(f"{'':<8}{'level 1':>13}{'levels 1 and 2':>17}{'perf stat, the same':>22}")
    most = 0.0
    for name in machine.names():
        # Opening the counters, and starting them, is not of a tick; nor is the read that follows.
        rows = [
            _between(nftop_calls(name, level, 1), nftop_calls(name, level, _TICKS + 1))
            for level in (1, 2)
        ]
        uarch = uarch_table.load(machine.load(name).uarch).with_smt(on=True)
        rows.append(_between(_perf_calls(name, uarch, 1), _perf_calls(name, uarch, _TICKS + 1)))
        most = max(most, rows[0][0])
        cells = (f"{reads:9.2f}{controls:8.2f}" for reads, controls in rows)
        print(f"{name:<8}" + "".join(cells))
    print()
    return [Reached(what, "1", most, 1.0)]


def nftop_calls(machine_name: str, level: int, frames: int) -> Calls:
    """What nftop asks of the counters of cores until it has written so many frames."""
    command = [sys.executable, "-m", "nftop", "--batch", "--json", "-d", str(_TICK_S)]
    return _in_lab(machine_name, [*command, "--tma-level", str(level), "-n", str(frames)])


def _perf_calls(machine_name: str, uarch: Uarch, intervals: int) -> Calls:
    """The same of `perf stat -a -A -I`, for the groups of nftop's plan."""
    groups = [",".join(_words(uarch.events[name]) for name in g) for g in uarch.plans[0].groups]
    command = ["perf", "stat", "-a", "-A", "-x,", "-I", str(int(_TICK_S * 1000))]
    command += [word for group in groups for word in ("-e", f"{{{group}}}")]
    return _in_lab(machine_name, [*command, "--interval-count", str(intervals)])


def _words(event: EventSpec) -> str:
    """The event as perf(1) takes it."""
    if not isinstance(event, Encoding):
        return str(event)
    if event.pmu_type == _SOFTWARE:
        return _SOFTWARE_NAMES[event.config]
    words = {"config": event.config, "config1": event.config1}
    return "cpu/" + ",".join(f"{name}={value:#x}" for name, value in words.items() if value) + "/"


def _in_lab(machine_name: str, command: Sequence[str]) -> Calls:
    lab = ("--model", machine_name, "--cpus", str(CPUS), "--watchdog", "off")

    def run(strace: Sequence[str]) -> None:
        enter(*lab, "--", *strace).check_returncode()

    # Those of memory, links and the like come behind the PMU `msr`.
    first = machine.load(machine_name).tables["perf"]["msr_type"] + 1
    outside = range(first, _LAST_TYPE)
    return traced(command, only=("read", "readv", "ioctl"), run=run, outside=outside)


def _between(few: Calls, many: Calls) -> tuple[float, float]:
    """Reads and ioctls per core and tick."""
    cores_and_ticks = CPUS * _TICKS
    return (
        (many.reads - few.reads) / cores_and_ticks,
        (many.controls - few.controls) / cores_and_ticks,
    )
