"""Where findings are looked for in a frame: CPUs on which a network function polls, their cores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from nftop.derive.findings.rule import Key, Measured
from nftop.derive.nf.departures import Gone
from nftop.model.column import Column, column, from_readings, missing, where
from nftop.model.frame import CacheClass, Frame, NfRow, PackageRow
from nftop.model.ids import L3Domain, format_cpu_list
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.metrics.metric import ESTIMATE_BELOW
from nftop.model.reading import Missing, Reading, Reason

Rows = NDArray[np.intp]
_ESTIMATE = Missing(Reason.TAKEN, "counted for too little of the time to be sure")
_NOBODY = -1


@dataclass(frozen=True)
class Seen:
    """A frame, as rules look at it. What several rules need is worked out once.

    Attributes:
        frame: of one tick, its findings aside.
        crowd: by row of its CPUs, who never sleeps there beside the function's own thread, as
            `crowd.others` words it (untrusted text); rows without any may be absent.
        gone: functions that were here a while ago.
    """

    frame: Frame
    crowd: Mapping[int, Sequence[str]]
    gone: Sequence[Gone] = ()

    @cached_property
    def rows(self) -> Rows:
        """intp (p,): rows of CPUs on which a network function polls."""
        return np.flatnonzero([nf is not None for nf in self.frame.cpus.nf])

    @cached_property
    def pids(self) -> NDArray[np.int64]:
        """int64 (n_cpu,): the process that polls on each CPU, -1 where no NF does."""
        pids = self.frame.cpus.nf_pid
        return np.array([_NOBODY if pid is None else pid for pid in pids], dtype=np.int64)

    @cached_property
    def cpus(self) -> Sequence[tuple[str, object]]:
        """Of each of `rows`, what it is called and who polls there."""
        infos, pids = self.frame.cpus.topology.cpus, self.frame.cpus.nf_pid
        return tuple((f"cpu {infos[row].cpu}", pids[row]) for row in self.rows.tolist())

    @cached_property
    def nf_names(self) -> Sequence[str]:
        """Of each of `rows`, whose it is."""
        names = self.frame.cpus.nf
        return tuple(names[row] or "" for row in self.rows.tolist())

    @cached_property
    def cores(self) -> tuple[tuple[int, ...], ...]:
        """Of each core with pollers, the places of its CPUs in `rows`."""
        infos = self.frame.cpus.topology.cpus
        found: dict[object, list[int]] = {}
        for place, row in enumerate(self.rows.tolist()):
            info = infos[row]
            # Where the kernel tells of no cores, each CPU is one.
            key = info.cpu if info.core is None else (info.package, info.l3, info.core)
            found.setdefault(key, []).append(place)
        return tuple(tuple(places) for places in found.values())

    @cached_property
    def first_of_core(self) -> Rows:
        """intp (c,): of each of `cores` the place of its first CPU in `rows`."""
        return np.array([places[0] for places in self.cores], dtype=np.intp)

    @cached_property
    def core_names(self) -> Sequence[tuple[str, object]]:
        """As `cpus`, of `cores`: `cpu 12,56`."""
        infos, pids = self.frame.cpus.topology.cpus, self.frame.cpus.nf_pid
        rows = self.rows.tolist()
        return tuple(
            (
                f"cpu {format_cpu_list([infos[rows[place]].cpu for place in places])}",
                tuple(pids[rows[place]] for place in places),
            )
            for places in self.cores
        )

    @cached_property
    def core_nfs(self) -> Sequence[str]:
        """Of each of `cores`, whose it is: of several all names."""
        names = self.nf_names
        return tuple(
            ", ".join(dict.fromkeys(names[place] for place in places)) for places in self.cores
        )

    @cached_property
    def core_load(self) -> tuple[Column, Column]:
        """Of each of `cores` how busy its busiest thread is, and its packets per second.

        A thread that does not tell leaves either unknown.
        """
        busy = self.of("busy_ratio")
        reasons = np.array(
            [max(busy.reasons[list(core)].tolist()) for core in self.cores], np.uint8
        )
        most = np.array([busy.values[list(core)].max() for core in self.cores], np.float64)
        whole = Column(np.where(reasons > 0, np.nan, most), reasons)
        return whole, summed(self.packets, self.cores)

    def all_cpus(self, metric: str) -> Column:
        """A metric of every CPU; an estimate is no number here."""
        table = self.frame.cpus.columns
        found, share = table[metric], cpu_metric(metric).coverage
        if share is None or share not in table:
            return found
        covered = table[share]
        unsure = covered.present & (covered.values < ESTIMATE_BELOW) & found.present
        return where(unsure, missing(len(found), _ESTIMATE), found) if unsure.any() else found

    def of(self, metric: str) -> Column:
        """A metric of `rows`, as `all_cpus` has it."""
        return taken(self.all_cpus(metric), self.rows)

    @cached_property
    def packets(self) -> Column:
        """Packets per second of each of `rows`; where only its NF's sum is known, an even share."""
        own = taken(self.frame.cpus.columns["packets_per_s"], self.rows)
        if own.present.all():
            return own
        shares = {nf.pid: _share(nf) for nf in self.frame.nfs}
        otherwise: dict[int, Reading] = {}
        for place, pid in enumerate(self.pids[self.rows].tolist()):
            share = shares.get(pid)
            if share is not None and not isinstance(share, Missing):
                otherwise[place] = share
        even = from_readings(otherwise, len(own), Missing(Reason.SOURCE))
        return where(own.present | ~even.present, own, even)

    def classes(self, place: int) -> tuple[str, L3Domain | None] | None:
        """The cache class of one of `rows` and its cache; None where that is unknown."""
        row = int(self.rows[place])
        group = self.frame.cpus.group[row]
        if not isinstance(group, CacheClass):
            return None
        return group.name, self.frame.cpus.topology.cpus[row].l3


def taken(source: Column, rows: Rows) -> Column:
    """Some rows of a column, without their sentences: a rule needs only the reasons."""
    return Column(source.values[rows], source.reasons[rows])


def of_packages(packages: Sequence[PackageRow], metric: str) -> Column:
    """A metric of each package; UNDEFINED where there is no such."""
    readings = {
        row: package.readings.get(metric, Missing(Reason.SOURCE))
        for row, package in enumerate(packages)
    }
    return from_readings(readings, len(packages), Missing(Reason.SOURCE))


def summed(parts: Column, groups: Sequence[Sequence[int]]) -> Column:
    """Sums over groups of rows; one row without a number leaves none, with its reason."""
    values = np.array([parts.values[list(rows)].sum() for rows in groups], dtype=np.float64)
    reasons = np.array(
        [max(parts.reasons[list(rows)].tolist(), default=0) for rows in groups], np.uint8
    )
    return Column(np.where(reasons > 0, np.nan, values), reasons)


def numbers(values: Sequence[float]) -> Column:
    """Numbers that are all there."""
    return column(np.array(values, dtype=np.float64))


def _share(nf: NfRow) -> Reading:
    name = "rx_packets_per_s" if nf.direction == "rx" else "tx_packets_per_s"
    total = nf.readings[name]
    return total if isinstance(total, Missing) or not nf.cpus else total / len(nf.cpus)


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
