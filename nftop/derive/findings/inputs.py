"""Input of finding rules: a frame, CPUs on which a network function polls, their cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from nftop.derive.nf.departures import NfSighting
from nftop.derive.nf.recent import Recent
from nftop.model.column import Column, column, from_readings, missing, where
from nftop.model.frame import CacheClass, Frame, NfRow, PackageRow
from nftop.model.ids import L3Domain
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.metrics.metric import ESTIMATE_BELOW
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.rule_settings import NO_SETTINGS, RuleSettings
from nftop.model.struct import dataclass, field
from nftop.model.subject import Subject, cpu_subject

RowIndices = NDArray[np.intp]
_ESTIMATE = Missing(Reason.TAKEN, "counted for too little of the time to be sure")
_NOBODY = -1


@dataclass(frozen=True, slots=True)
class FindingKey:
    """Subject of a finding over ticks; with another owner (process) the rule starts over."""

    subject: Subject
    owner: object


@dataclass(frozen=True)
class FindingInputs:
    """A frame as input of rules; values that several rules need are computed once.

    Attributes:
        frame: of one tick, without findings.
        other_pollers: by row of its CPUs, descriptions of other threads that never sleep there
            (`Occupant.others`, untrusted text); rows without any may be absent.
        gone: functions that departed a while ago.
        recent: rates of the last minutes by `NfRow.key`. settings: the operator's, of rules.
    """

    frame: Frame
    other_pollers: Mapping[int, Sequence[str]]
    gone: Sequence[NfSighting] = ()
    recent: Recent = field(default_factory=dict)
    settings: RuleSettings = NO_SETTINGS

    @cached_property
    def rows(self) -> RowIndices:
        """intp (p,): rows of CPUs on which a network function polls."""
        return np.flatnonzero([nf is not None for nf in self.frame.cpus.nf])

    @cached_property
    def pids(self) -> NDArray[np.int64]:
        """int64 (n_cpu,): the process that polls on each CPU, -1 where no NF does."""
        pids = self.frame.cpus.nf_pid
        return np.array([_NOBODY if pid is None else pid for pid in pids], dtype=np.int64)

    @cached_property
    def cpu_keys(self) -> Sequence[FindingKey]:
        """For each of `rows` the CPU and the pid of the process that polls there."""
        infos, pids = self.frame.cpus.topology.cpus, self.frame.cpus.nf_pid
        return tuple(
            FindingKey(cpu_subject(infos[row].cpu), pids[row]) for row in self.rows.tolist()
        )

    @cached_property
    def nf_keys(self) -> Sequence[FindingKey]:
        """Of each network function of the frame."""
        return tuple(FindingKey(Subject("nf", nf.key, nf.name), nf.key) for nf in self.frame.nfs)

    @cached_property
    def nf_names(self) -> Sequence[str]:
        """For each of `rows` the name of its network function."""
        names = self.frame.cpus.nf
        return tuple(names[row] or "" for row in self.rows.tolist())

    @cached_property
    def cores(self) -> tuple[tuple[int, ...], ...]:
        """For each core with pollers the indices of its CPUs in `rows`."""
        infos = self.frame.cpus.topology.cpus
        result: dict[object, list[int]] = {}
        for index, row in enumerate(self.rows.tolist()):
            info = infos[row]
            # If the kernel reports no cores, each CPU is one.
            key = info.cpu if info.core is None else (info.package, info.l3, info.core)
            result.setdefault(key, []).append(index)
        return tuple(tuple(indices) for indices in result.values())

    @cached_property
    def on_shared_cores(self) -> NDArray[np.bool_]:
        """bool (p,): which of `rows` are of a core on which other threads ran too."""
        shared, infos = self.frame.cpus.shared, self.frame.cpus.topology.cpus
        own = np.array([infos[row].cpu in shared for row in self.rows.tolist()], np.bool_)
        some = np.bincount(self.core_of, own, len(self.cores)) > 0
        result: NDArray[np.bool_] = some[self.core_of]
        return result

    @cached_property
    def first_of_core(self) -> RowIndices:
        """intp (c,): for each of `cores` the index of its first CPU in `rows`."""
        return np.array([indices[0] for indices in self.cores], dtype=np.intp)

    @cached_property
    def core_of(self) -> RowIndices:
        """intp (p,): for each of `rows` the index of its core in `cores`."""
        result = np.zeros(len(self.rows), np.intp)
        for core, positions in enumerate(self.cores):
            result[list(positions)] = core
        return result

    @cached_property
    def core_keys(self) -> Sequence[FindingKey]:
        """As `cpu_keys`, of `cores`: `cpu 12,56`."""
        infos, pids = self.frame.cpus.topology.cpus, self.frame.cpus.nf_pid
        rows = self.rows.tolist()
        return tuple(
            FindingKey(
                cpu_subject(*(infos[rows[index]].cpu for index in indices)),
                tuple(pids[rows[index]] for index in indices),
            )
            for indices in self.cores
        )

    @cached_property
    def core_nfs(self) -> Sequence[str]:
        """For each of `cores` the names of its network functions."""
        names = self.nf_names
        return tuple(
            ", ".join(dict.fromkeys(names[index] for index in indices)) for indices in self.cores
        )

    @cached_property
    def core_load(self) -> tuple[Column, Column]:
        """For each of `cores` the busy ratio of its busiest thread, and its packets per second.

        Unknown if that of a thread is unknown.
        """
        busy = self.of("busy_ratio")
        reasons = self._greatest_reasons(busy)
        most = np.full(len(self.cores), -np.inf)
        with np.errstate(invalid="ignore"):
            np.maximum.at(most, self.core_of, busy.values)
        whole = Column(np.where(reasons > 0, np.nan, most), reasons)
        sums = np.bincount(self.core_of, self.packets.values, len(self.cores))
        reasons = self._greatest_reasons(self.packets)
        return whole, Column(np.where(reasons > 0, np.nan, sums), reasons)

    def _greatest_reasons(self, of_rows: Column) -> NDArray[np.uint8]:
        """uint8 (c,): of the reasons on a core one, PRESENT if none is missing."""
        reasons = np.zeros(len(self.cores), np.uint8)
        np.maximum.at(reasons, self.core_of, of_rows.reasons)
        return reasons

    def all_cpus(self, metric: str) -> Column:
        """A metric of every CPU; an estimate is no number here."""
        table = self.frame.cpus.columns
        values, share = table[metric], cpu_metric(metric).coverage
        if share is None or share not in table:
            return values
        covered = table[share]
        unsure = covered.present & (covered.values < ESTIMATE_BELOW) & values.present
        return where(unsure, missing(len(values), _ESTIMATE), values) if unsure.any() else values

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
        for index, pid in enumerate(self.pids[self.rows].tolist()):
            share = shares.get(pid)
            if share is not None and not isinstance(share, Missing):
                otherwise[index] = share
        even = from_readings(otherwise, len(own), Missing(Reason.SOURCE))
        return where(own.present | ~even.present, own, even)

    def classes(self, index: int) -> tuple[str, L3Domain | None] | None:
        """The cache class of one of `rows` and its cache; None where that is unknown."""
        row = int(self.rows[index])
        group = self.frame.cpus.group[row]
        if not isinstance(group, CacheClass):
            return None
        return group.name, self.frame.cpus.topology.cpus[row].l3


def taken(source: Column, rows: RowIndices) -> Column:
    """Some rows of a column, without their sentences: a rule needs only the reasons."""
    return Column(source.values[rows], source.reasons[rows])


def of_packages(packages: Sequence[PackageRow], metric: str) -> Column:
    """A metric of each package; UNDEFINED where there is no such."""
    readings = {
        row: package.readings.get(metric, Missing(Reason.SOURCE))
        for row, package in enumerate(packages)
    }
    return from_readings(readings, len(packages), Missing(Reason.SOURCE))


def summed(per_row: Column, groups: Sequence[Sequence[int]]) -> Column:
    """Sums over groups of rows; one row without a number leaves none, with its reason."""
    values = np.array([per_row.values[list(rows)].sum() for rows in groups], dtype=np.float64)
    reasons = np.array(
        [max(per_row.reasons[list(rows)].tolist(), default=0) for rows in groups], np.uint8
    )
    return Column(np.where(reasons > 0, np.nan, values), reasons)


def numbers(values: Sequence[float]) -> Column:
    """Numbers that are all there."""
    return column(np.array(values, dtype=np.float64))


def _share(nf: NfRow) -> Reading:
    name = "rx_packets_per_s" if nf.direction == "rx" else "tx_packets_per_s"
    total = nf.readings[name]
    return total if isinstance(total, Missing) or not nf.cpus else total / len(nf.cpus)
