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
from tests.strace import Calls, traced

_CPUS = 8
_TICK_S = 0.5
_FEW, _MANY = 2, 6
_RAW, _SOFTWARE = 4, 1
_SOFTWARE_NAMES = {3: "context-switches"}


def counter_reads() -> list[Reached]:
    """A table: reads, ioctls and all system calls a core and tick, by machine."""
    why = requirements.missing()
    if why:
        return [Reached("the same on virtual Xeons", "1", None, why=why)]
    print(f"per core and tick, {_CPUS} CPUs of virtual Xeons, watchdog off: reads, ioctls, all")
    print(f"{'':<8}{'level 1':>21}{'levels 1 and 2':>21}{'perf stat, the same':>23}")
    most = 0.0
    for name in machine.names():
        rows = [nftop_calls(name, level) for level in (1, 2)]
        uarch = uarch_table.load(machine.load(name).uarch).with_smt(on=True)
        rows.append(_perf_calls(name, uarch))
        most = max(most, rows[0][0])
        print(
            f"{name:<8}"
            + "  ".join(f"{one:7.2f}{two:6.2f}{every:7.1f}" for one, two, every in rows)
        )
    print()
    return [Reached("reads per core and tick, level 1, any model", "1", most, 1.0)]


def nftop_calls(machine_name: str, level: int) -> tuple[float, float, float]:
    """Reads of counters, ioctls of counters and all calls of nftop, per core and tick."""
    command = [sys.executable, "-m", "nftop", "--batch", "--json", "-d", str(_TICK_S)]
    command += ["--tma-level", str(level), "-n"]
    few, many = (_in_lab(machine_name, [*command, str(ticks)]) for ticks in (_FEW, _MANY))
    return _between(few, many)


def _perf_calls(machine_name: str, uarch: Uarch) -> tuple[float, float, float]:
    """The same of `perf stat -a -A -I`, for the groups of nftop's plan."""
    groups = [",".join(_words(uarch.events[name]) for name in g) for g in uarch.plans[0].groups]
    command = ["perf", "stat", "-a", "-A", "-x,", "-I", str(int(_TICK_S * 1000))]
    command += [word for group in groups for word in ("-e", f"{{{group}}}")]
    few, many = (
        _in_lab(machine_name, [*command, "--interval-count", str(ticks)]) for ticks in (_FEW, _MANY)
    )
    return _between(few, many)


def _words(event: EventSpec) -> str:
    """The event as perf(1) takes it."""
    if not isinstance(event, Encoding):
        return str(event)
    if event.pmu_type == _SOFTWARE:
        return _SOFTWARE_NAMES[event.config]
    words = {"config": event.config, "config1": event.config1}
    return "cpu/" + ",".join(f"{name}={value:#x}" for name, value in words.items() if value) + "/"


def _in_lab(machine_name: str, command: Sequence[str]) -> Calls:
    lab = [sys.executable, "-m", "tests.lab", "--model", machine_name, "--cpus", str(_CPUS)]
    return traced(command, around=[*lab, "--watchdog", "off", "--"])


def _between(few: Calls, many: Calls) -> tuple[float, float, float]:
    cores_and_ticks = _CPUS * (_MANY - _FEW)
    return (
        (many.reads - few.reads) / cores_and_ticks,
        (many.controls - few.controls) / cores_and_ticks,
        (many.total - few.total) / cores_and_ticks,
    )
