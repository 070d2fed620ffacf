"""What doctor says of frequencies: driver and limits, base frequencies, SST, who else sets them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from nftop.model.ids import format_cpu_list
from nftop.model.reading import Missing, Reason
from nftop.model.sst import CpufreqTable, CpuFrequency, SstPackage, SstState
from nftop.sources.base import Check

_NAME = "cpufreq"
_GHZ = 1e9


def report(table: CpufreqTable | Missing) -> tuple[Check, ...]:
    """A line for each thing that there is to say."""
    if isinstance(table, Missing):
        return (Check(_NAME, table.reason, table.message),)
    return (_driver(table), _base(table), _sst(table.sst), *_keepers(table))


def _driver(table: CpufreqTable) -> Check:
    drivers = _counted(row.driver or "a driver without a name" for row in table.cpus)
    governors = _counted(row.governor or "no governor" for row in table.cpus)
    text = f"{drivers} on CPU {format_cpu_list(row.cpu for row in table.cpus)}; {governors}"
    if table.pstate is not None and table.pstate.turbo is not None:
        text += f"; turbo {'on' if table.pstate.turbo else 'off'}"
    pinned = [row.cpu for row in table.cpus if row.min_hz is not None and row.min_hz == row.max_hz]
    if pinned:
        text += f"; pinned to one frequency: CPU {format_cpu_list(pinned)}"
    if table.without:
        text += f"; CPU {format_cpu_list(table.without)} has none"
    if table.notes:
        return Check(_NAME, Reason.ERROR, f"{text}; {'; '.join(table.notes)}")
    return Check(_NAME, Reason.PRESENT, text)


def _base(table: CpufreqTable) -> Check:
    name = f"{_NAME} base"
    known = [row for row in table.cpus if row.base_hz is not None]
    if not known:
        hint = "intel_pstate tells it where the CPU has HWP and firmware leaves it on"
        return Check(name, Reason.HARDWARE, f"no base frequencies: {hint}")
    return Check(name, Reason.PRESENT, "; ".join(_by_frequency(known)))


def _by_frequency(rows: Sequence[CpuFrequency]) -> Iterator[str]:
    frequencies = sorted({row.base_hz or 0 for row in rows}, reverse=True)
    for hz in frequencies:
        cpus = format_cpu_list(row.cpu for row in rows if row.base_hz == hz)
        yield f"{hz / _GHZ:.1f} GHz on CPU {cpus}"


def _sst(state: SstState | Missing) -> Check:
    name = f"{_NAME} SST"
    if isinstance(state, Missing):
        return Check(name, state.reason, state.message)
    return Check(name, Reason.PRESENT, "; ".join(map(_package, state.packages)))


def _package(row: SstPackage) -> str:
    words = {True: "on", False: "off", None: "not told"}
    parts = [
        f"{label} {'not supported' if supported is False else words[state]}"
        for label, state, supported in (
            ("BF", row.bf, row.bf_supported),
            ("TF", row.tf, row.tf_supported),
            ("CP", row.cp, row.cp_supported),
        )
    ]
    level = "" if row.level is None else f" at level {row.level}"
    return f"package {row.package}{level}: {', '.join(parts)}"


def _keepers(table: CpufreqTable) -> Iterator[Check]:
    for keeper in table.keepers:
        pid = "" if keeper.pid is None else f" (pid {keeper.pid})"
        yield Check(
            f"{_NAME} {keeper.name}",
            Reason.TAKEN,
            f"{keeper.seen}{pid}: it may set frequencies and governors, and undo what nftop sets",
        )


def _counted(names: Iterable[str]) -> str:
    counts = Counter(names)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{name} ({count})" for name, count in counts.most_common())
