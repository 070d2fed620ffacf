"""Baselines: values of the last ticks, kept at the operator's request, and comparison with them.

`keep` makes a baseline of the ticks folded so far. A recording holds the result
(`store/format/records`), so that a replay compares with the same numbers from the same tick on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from nftop.derive.compare.comparability import is_full
from nftop.derive.compare.metric import percent
from nftop.derive.compare.ranksum import deviation
from nftop.model.baseline import (
    LEAST_TICKS,
    LOAD_MOVED_RATIO,
    MOST_TICKS,
    NO_BASELINE,
    BaselineLevel,
    Baselines,
    CoreBaseline,
    NfBaseline,
)
from nftop.model.column import Block, Column, from_readings, missing
from nftop.model.frame import Clock, CpuTable, NfRow, base_clock
from nftop.model.ids import Cpu
from nftop.model.median import median
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.number_text import counted
from nftop.model.sample import SourceReading
from nftop.model.struct import dataclass, field, replace

# Metrics of a network function and of each of its CPUs; packets, the load, first.
KEPT = ("packets_per_s", "cpp", "busy_cpp", "ipp", "ipc", "llc_misses_per_packet")
# Counted in turns and held in between: the same number again is no new sample.
_HELD = ("llc_misses_per_packet",)
_CYCLES = ("cpp", "busy_cpp")
_MISSED = "missed_packets_per_s"

_NO_NF = Missing(Reason.UNDEFINED, "no network function polls on this CPU")
_NOT_THEN = Missing(Reason.SOURCE, "it was not there when the baseline was kept: b keeps another")
_NO_CPP = Missing(Reason.SOURCE, "the baseline has no CPP of it")


@dataclass(frozen=True, slots=True)
class BaselineNf:
    """Fields of an `NfRow` that a baseline uses; `readings`: of `KEPT`, then missed packets."""

    key: str
    name: str
    kind: str
    pid: int
    cpus: tuple[Cpu, ...]
    cpp_clock: Clock | None
    saturated: bool | None
    readings: tuple[Reading, ...]


@dataclass(frozen=True, slots=True, eq=False)
class BaselineTick:
    """Fields of one tick that a baseline uses; references to its rows would keep it all in memory.

    Attributes:
        row_of: row of each CPU in `columns` (of `KEPT`), `cpp_clock` and `saturated`.
        new: the sources with new readings.
    """

    wall_ns: int
    row_of: Mapping[int, int]
    columns: Block
    cpp_clock: tuple[Clock | None, ...]
    saturated: tuple[bool | None, ...]
    shared: Mapping[Cpu, Missing]
    nfs: tuple[BaselineNf, ...]
    new: frozenset[str]


@dataclass(frozen=True, slots=True)
class BaselineState:
    """State of the comparison.

    Attributes:
        kept: the baselines, or None.
        seen: the last `MOST_TICKS` ticks, oldest first.
        read_at_ns: by source, time of its reading in the last tick.
    """

    kept: Baselines | None = None
    seen: tuple[BaselineTick, ...] = ()
    read_at_ns: Mapping[str, int] = field(default_factory=dict)


def step_baselines(
    state: BaselineState,
    cpus: CpuTable,
    nfs: tuple[NfRow, ...],
    readings: Mapping[str, SourceReading[object]],
    wall_ns: int,
) -> tuple[BaselineState, CpuTable, tuple[NfRow, ...]]:
    """Fold one tick in; returns its rows with `cpp_vs_base`."""
    read_at_ns = {name: reading.read_at_ns for name, reading in readings.items()}
    new = frozenset(
        name for name, at_ns in read_at_ns.items() if state.read_at_ns.get(name) != at_ns
    )
    rows = tuple(
        BaselineNf(
            nf.key,
            nf.name,
            nf.kind,
            nf.pid,
            nf.cpus,
            nf.cpp_clock,
            nf.saturated,
            (*(_of_nf(nf, name) for name in KEPT), nf.readings[_MISSED]),
        )
        for nf in nfs
    )
    columns = Block.of({name: cpus.columns[name] for name in KEPT})
    slim = cpus.topology.row_of, columns, cpus.cpp_clock, cpus.saturated, cpus.shared
    seen = (*state.seen[1 - MOST_TICKS :], BaselineTick(wall_ns, *slim, rows, new))
    baselines = {nf.key: _baseline_of(state.kept, nf, nfs) for nf in nfs}
    compared = tuple(
        replace(nf, readings={**nf.readings, "cpp_vs_base": nf_vs_base(nf, baselines[nf.key])})
        for nf in nfs
    )
    versus = _column(state.kept, cpus, nfs, baselines)
    table = replace(cpus, columns=Block.of({**cpus.columns, "cpp_vs_base": versus}))
    return replace(state, seen=seen, read_at_ns=read_at_ns), table, compared


def is_early(state: BaselineState) -> bool:
    """Whether no network function has enough ticks yet, and later ones may change that."""
    nfs = state.seen[-1].nfs if state.seen else ()
    few = all(_kept(state.seen, nf).ticks < LEAST_TICKS for nf in nfs)
    return few and len(state.seen) < (MOST_TICKS if nfs else LEAST_TICKS)


def keep(state: BaselineState) -> Baselines:
    """A baseline of the ticks folded so far: medians over ticks with new readings.

    If no network function has enough ticks, the previous baseline stays.
    """
    nfs = state.seen[-1].nfs if state.seen else ()
    baselines = [_kept(state.seen, nf) for nf in nfs]
    too_few = all(item.ticks < LEAST_TICKS for item in baselines)
    if too_few and state.kept is not None and state.kept.nfs:
        return state.kept
    return Baselines(
        state.seen[-1].wall_ns if state.seen else 0,
        tuple(entry for entry in baselines if entry.ticks >= LEAST_TICKS),
        {item.key: item.ticks for item in baselines if item.ticks < LEAST_TICKS},
    )


def _kept(seen: Sequence[BaselineTick], nf: BaselineNf) -> NfBaseline:
    """Baseline of one network function, from the ticks since it last changed its CPUs."""
    sources = frozenset[str]().union(*(tick.new for tick in seen))
    ticks: list[tuple[BaselineTick, BaselineNf]] = []
    for tick in reversed(seen):
        row = next((item for item in tick.nfs if item.key == nf.key), None)
        # The kernel (no pid) has the CPUs that receive packets at the moment.
        if row is None or (row.pid and row.cpus != nf.cpus):
            break
        is_new = nf.kind in tick.new or nf.kind not in sources
        if is_new and not isinstance(row.readings[0], Missing):
            ticks.insert(0, (tick, row))
    rows = [row for _, row in ticks]
    numbers = {name: [row.readings[at] for row in rows] for at, name in enumerate((*KEPT, _MISSED))}
    return NfBaseline(
        key=nf.key,
        name=nf.name.encode("utf-8", "replace").decode(),
        kind=nf.kind,
        pid=nf.pid,
        levels=_levels(numbers, [row.cpp_clock for row in rows], nf.cpp_clock),
        clock=nf.cpp_clock,
        saturated=_full([row.saturated for row in rows]),
        ticks=len(ticks),
        cores=tuple(_core([tick for tick, _ in ticks], cpu) for cpu in nf.cpus),
    )


def _core(ticks: Sequence[BaselineTick], cpu: Cpu) -> CoreBaseline:
    known = [(tick, tick.row_of[cpu]) for tick in ticks if cpu in tick.row_of]
    clocks = [tick.cpp_clock[row] for tick, row in known]
    last = next((clock for clock in reversed(clocks) if clock is not None), None)
    numbers: dict[str, list[Reading]] = {
        name: [tick.columns[name][row] for tick, row in known] for name in KEPT
    }
    # A shared CPU's IPC is of all threads that ran on it.
    shared = [tick.shared.get(cpu) for tick, _ in known]
    numbers["ipc"] = [why or own for why, own in zip(shared, numbers["ipc"], strict=True)]
    return CoreBaseline(
        cpu=cpu,
        levels=_levels(numbers, clocks, last),
        clock=last,
        saturated=_full([tick.saturated[row] for tick, row in known]),
    )


def _levels(
    numbers: Mapping[str, Sequence[Reading]], clocks: Sequence[Clock | None], clock: Clock | None
) -> dict[str, BaselineLevel]:
    """Median, spread and count of each metric with enough values."""
    levels = {}
    for name, readings in numbers.items():
        values: list[float] = []
        for reading, counted_by in zip(readings, clocks, strict=True):
            if isinstance(reading, Missing) or (
                name in _CYCLES and base_clock(counted_by) != base_clock(clock)
            ):
                continue
            if name in _HELD and values and values[-1] == reading:
                continue
            values.append(reading)
        if len(values) >= LEAST_TICKS:
            of = np.array(values)
            levels[name] = BaselineLevel(median(of), deviation(of), len(values))
    return levels


def _full(states: Sequence[bool | None]) -> bool | None:
    """Whether cores were busy all the time, by `is_full`."""
    known = [float(item) for item in states if item is not None]
    return is_full(np.array(known), np.array([item is not None for item in states], np.float64))


def _of_nf(row: NfRow, name: str) -> Reading:
    if name == "packets_per_s":
        name = "rx_packets_per_s" if row.direction == "rx" else "tx_packets_per_s"
    return row.readings[name]


def baseline_of(kept: Baselines | None, nf: NfRow, nfs: Collection[NfRow]) -> NfBaseline | None:
    """Baseline of a network function: of its process, else of another of the same kind and name.

    The other must have ended, and both names must be unique.
    """
    baselines = _baseline_of(kept, nf, nfs)
    return None if isinstance(baselines, Missing) else baselines


def _baseline_of(kept: Baselines | None, nf: NfRow, nfs: Iterable[NfRow]) -> NfBaseline | Missing:
    if kept is None:
        return NO_BASELINE
    for item in kept.nfs:
        if item.key == nf.key:
            return item
    if nf.key in kept.short:
        ticks = kept.short[nf.key]
        return Missing(
            Reason.SOURCE,
            f"{counted(ticks, 'tick')} of it when the baseline was kept, and "
            f"{LEAST_TICKS} are needed: b keeps another",
        )
    others = list(nfs)
    namesakes = [entry for entry in others if (entry.kind, entry.name) == (nf.kind, nf.name)]
    known = [entry for entry in kept.nfs if (entry.kind, entry.name) == (nf.kind, nf.name)]
    gone = not any(element.key == one.key for one in known for element in others)
    return known[0] if len(namesakes) == len(known) == 1 and gone else _NOT_THEN


def nf_vs_base(nf: NfRow, base: NfBaseline | Missing) -> Reading:
    """CPP of a network function relative to its baseline."""
    if isinstance(base, Missing):
        return base
    now, then = _loads(nf, base.levels)
    return _change(nf.readings["cpp"], now, (nf.cpp_clock, nf.saturated), base, then)


def _loads(nf: NfRow, levels: Mapping[str, BaselineLevel]) -> tuple[Reading, float | None]:
    """Load now and then: packets received, plus drops of its NIC if both are known."""
    now, drops = _of_nf(nf, "packets_per_s"), nf.readings[_MISSED]
    then = _of_levels(levels, "packets_per_s")
    dropped = _of_levels(levels, _MISSED) if nf.direction == "rx" else None
    if isinstance(now, Missing) or isinstance(drops, Missing) or then is None or dropped is None:
        return now, then
    return now + drops, then + dropped


def _of_levels(levels: Mapping[str, BaselineLevel], name: str) -> float | None:
    return levels[name].median if name in levels else None


def _change(
    cpp: Reading,
    packets: Reading,
    now: tuple[Clock | None, bool | None],
    base: NfBaseline | CoreBaseline,
    load: float | None,
) -> Reading:
    """cpp / baseline - 1, or why they can't be compared; CPP of idle cores follows the load."""
    clock, saturated = now
    if isinstance(cpp, Missing):
        return cpp
    if "cpp" not in base.levels or not base.levels["cpp"].median:
        return _NO_CPP
    if base_clock(clock) != base_clock(base.clock):
        why = f"its cycles are of another clock ({clock}) than the baseline's ({base.clock})"
        return Missing(Reason.UNDEFINED, why)
    if not (saturated and base.saturated) and load and not isinstance(packets, Missing):
        moved = packets / load - 1
        if abs(moved) > LOAD_MOVED_RATIO:
            return Missing(
                Reason.UNDEFINED,
                f"the load moved {percent(moved)} from the baseline's {load / 1e6:.3g} Mpps, and "
                "CPP follows it: not both times were its cores busy all the time",
            )
    return cpp / base.levels["cpp"].median - 1


def _column(
    kept: Baselines | None,
    cpus: CpuTable,
    nfs: Iterable[NfRow],
    baselines: Mapping[str, NfBaseline | Missing],
) -> Column:
    """`cpp_vs_base` of every CPU on which a network function polls."""
    if kept is None:
        return missing(len(cpus), NO_BASELINE)
    readings: dict[int, Reading] = {}
    for nf in nfs:
        base = baselines[nf.key]
        cores = {} if isinstance(base, Missing) else {core.cpu: core for core in base.cores}
        for cpu in nf.cpus:
            row = cpus.topology.row_of.get(cpu)
            if row is not None and cpus.nf_pid[row] == nf.pid:
                why = base if isinstance(base, Missing) else _NOT_THEN
                core = cores.get(cpu)
                readings[row] = why if core is None else _core_vs_base(cpus, row, core)
    return from_readings(readings, len(cpus), _NO_NF)


def _core_vs_base(cpus: CpuTable, row: int, core: CoreBaseline) -> Reading:
    return _change(
        cpus.columns["cpp"][row],
        cpus.columns["packets_per_s"][row],
        (cpus.cpp_clock[row], cpus.saturated[row]),
        core,
        _of_levels(core.levels, "packets_per_s"),
    )
