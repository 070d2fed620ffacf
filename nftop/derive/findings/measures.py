"""What rules compare on CPUs, cores, network functions and the host: a small function each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import numpy as np

from nftop.derive.findings.inputs import Seen, numbers, taken
from nftop.derive.findings.rule import Key, Measured
from nftop.model.column import Column, column, from_readings, missing, where
from nftop.model.reading import Missing, Reading, Reason

_NICS_DROPS, _KERNELS_DROPS = "no descriptor free", "by NICs or for a full backlog"


def of_cpu(metric: str) -> Callable[[Seen], Measured]:
    """A metric of each CPU on which a network function polls."""

    def measure(seen: Seen) -> Measured:
        return Measured(_keys(seen.cpus), seen.of(metric), words={"nf": seen.nf_names})

    return measure


def of_core(metric: str) -> Callable[[Seen], Measured]:
    """A metric that a core's threads have the same, of each core with pollers, and its load."""

    def measure(seen: Seen) -> Measured:
        return _of_cores(seen, _own_counts(seen, seen.of(metric)))

    return measure


def core_ipc(seen: Seen) -> Measured:
    """Instructions per cycle of each core with pollers; its only thread's where it has but one."""
    whole, own = seen.of("core_ipc"), seen.of("ipc")
    alone = whole.reasons == Reason.UNDEFINED
    return _of_cores(seen, _own_counts(seen, where(alone, own, whole)))


def _own_counts(seen: Seen, of_rows: Column) -> Column:
    """A number of every row but where other threads were counted with the network function's."""
    if not seen.frame.cpus.shared:
        return of_rows
    shared = np.zeros(len(of_rows), np.bool_)
    infos = seen.frame.cpus.topology.cpus
    for places in seen.cores:
        cpus = (infos[int(seen.rows[place])].cpu for place in places)
        shared[list(places)] = any(cpu in seen.frame.cpus.shared for cpu in cpus)
    why = Missing(Reason.SOURCE, "other threads ran on this core too")
    return where(shared, missing(len(of_rows), why), of_rows)


def others_here(seen: Seen) -> Measured:
    """How many threads never sleep on a CPU beside that of its network function, and who."""
    others = [seen.crowd.get(row, ()) for row in seen.rows.tolist()]
    words = {"nf": seen.nf_names, "who": [", ".join(other) for other in others]}
    return Measured(_keys(seen.cpus), numbers([float(len(other)) for other in others]), words=words)


def foreign_sibling(seen: Seen) -> Measured:
    """The busiest hyper-thread sibling on which another program runs: its share of time not idle.

    The kernel's, since a poller that polls in vain takes slots all the same.
    """
    table = seen.frame.cpus
    siblings = table.topology.sibling_rows[seen.rows]
    pids = seen.pids
    others = (siblings >= 0) & (pids[siblings] != pids[seen.rows][:, None])
    ran = table.columns["cpu_time_ratio"]
    values = np.where(others, ran.values[siblings], -1.0)
    reasons = np.where(others, ran.reasons[siblings], 0)
    named, found = [], np.full(len(seen.rows), np.nan)
    worst = reasons.max(axis=1, initial=0).astype(np.uint8)
    worst[~others.any(axis=1)] = Reason.UNDEFINED
    for place in range(len(seen.rows)):
        at = int(np.nanargmax(values[place])) if worst[place] == 0 else -1
        named.append("" if at < 0 else str(table.topology.cpus[int(siblings[place, at])].cpu))
        if at >= 0:
            found[place] = values[place, at]
    words = {"nf": seen.nf_names, "sibling": named}
    return Measured(_keys(seen.cpus), Column(found, worst), words=words)


def empty_poll_ipc(seen: Seen) -> Measured:
    """As `core_ipc`, and the share of empty polls: all where no packets come, else as told."""
    found = core_ipc(seen)
    busy, packets = found.beside["busy"], found.beside["packets"]
    none = packets.present & (packets.values == 0)
    busy = where(none, numbers([0.0] * len(none)), busy)
    idle = Column(1.0 - busy.values, busy.reasons)
    return Measured(found.keys, found.values, {"busy": busy, "idle": idle}, found.words)


def low_priority(seen: Seen) -> Measured:
    """1 for cores that SST-BF made low-priority, 0 for high-priority ones, and base frequencies."""
    table = seen.frame.cpus
    rows = seen.rows[seen.first_of_core].tolist()
    kinds: dict[int, Reading] = {}
    for at, row in enumerate(rows):
        kind = table.settings[row].priority
        kinds[at] = kind if isinstance(kind, Missing) else float(kind == "low")
    base, infos = table.columns["base_frequency_hz"].values / 1e9, table.topology.cpus
    best: dict[int | None, float] = {}
    for info, ghz in zip(infos, base.tolist(), strict=True):
        best[info.package] = max(best.get(info.package, 0.0), ghz if ghz > 0 else 0.0)
    found = _of_cores(seen, missing(len(seen.rows), Missing(Reason.UNDEFINED)))
    beside = {
        **found.beside,
        "base_ghz": column(base[rows]),
        "best_ghz": numbers([best[infos[row].package] for row in rows]),
    }
    values = from_readings(kinds, len(rows), Missing(Reason.SOURCE))
    return Measured(found.keys, values, beside, found.words)


def drops(seen: Seen) -> Measured:
    """Packets per second that were dropped before a function had them, by function."""
    nfs = seen.frame.nfs
    values = {row: nf.readings["drop_packets_per_s"] for row, nf in enumerate(nfs)}
    return Measured(
        [Key(f"nf {nf.name}", nf.key) for nf in nfs],
        from_readings(values, len(nfs), Missing(Reason.SOURCE)),
        words={"why": [_KERNELS_DROPS if nf.kind == "kernel" else _NICS_DROPS for nf in nfs]},
    )


def left(seen: Seen) -> Measured:
    """1 for each function that was here a while ago; who it was, and the last it was told of."""
    return Measured(
        [Key(f"nf {item.name}", item.key) for item in seen.gone],
        numbers([1.0] * len(seen.gone)),
        words={
            "pid": [str(item.pid) for item in seen.gone],
            "until": [_clock(entry.until_ns) for entry in seen.gone],
        },
    )


def sources_apart(seen: Seen) -> Measured:
    """1 where perf and a sensor server have told different numbers in some readings, else 0."""
    said = seen.frame.apart
    server = seen.frame.sources.get("pcm")
    if server is None or server.reason is not Reason.PRESENT:
        return Measured([Key("host", None)], _one(Missing(Reason.SOURCE)), words={"said": [""]})
    return Measured([Key("host", None)], _one(float(said != "")), words={"said": [said]})


def _clock(wall_ns: int) -> str:
    """A time in UTC: `12:41:07Z`."""
    return datetime.fromtimestamp(wall_ns / 1e9, tz=UTC).strftime("%H:%M:%SZ")


def _of_cores(seen: Seen, of_rows: Column) -> Measured:
    busy, packets = seen.core_load
    return Measured(
        _keys(seen.core_names),
        taken(of_rows, seen.first_of_core),
        {"packets": packets, "busy": busy},
        {"nf": seen.core_nfs},
    )


def _keys(places: Sequence[tuple[str, object]]) -> list[Key]:
    return [Key(*item) for item in places]


def _one(reading: Reading) -> Column:
    return from_readings({0: reading}, 1, Missing(Reason.SOURCE))
