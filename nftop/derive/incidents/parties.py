"""Parties of an incident: what runs on its CPUs and in its classes, the culprit among them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from nftop.derive.findings.cache_rules import QUIET_RATIO
from nftop.derive.incidents.victims import nf_party, packets_of
from nftop.derive.threads import ThreadRate
from nftop.model.frame import CacheClass, Finding, Frame, GroupCacheRow, GroupRow, NfRow
from nftop.model.ids import Cpu, L3Domain
from nftop.model.incident import CauseKind, Party, Severity
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.rdt import class_name
from nftop.model.sample import ProcessFacts
from nftop.model.struct import dataclass, field, replace
from nftop.model.threads import CpuUse

# Less than this share of a CPU disturbs no poller.
_LEAST_SHARE = 0.01
# A quarter of a class's memory traffic, and 500 MB/s, to another package.
_REMOTE_SHARE, _REMOTE_BYTES_PER_S = 0.25, 5e8
_REMOTE_MEMORY_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class _Runner:
    """A process on some CPUs, and its share of the time of each, 0..1."""

    pid: int
    name: str
    vm: str = ""
    shares: Mapping[Cpu, float] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Sum over the CPUs."""
        return sum(self.shares.values())

    @property
    def most(self) -> float:
        """Greatest share of one CPU."""
        return max(self.shares.values())

    def plus(self, cpu: Cpu, share: float) -> _Runner:
        return replace(self, shares={**self.shares, cpu: self.shares.get(cpu, 0.0) + share})


@dataclass(frozen=True, slots=True)
class CauseKey:
    """Identity of a cause over ticks."""

    kind: str
    subject: str


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause in one tick.

    Attributes:
        nfs: `NfRow.key` of its victims.
        findings: those that show it.
        effects: findings about its victims that it explains.
        takes_effects: whether it explains drops and costs of its victims.
        priced: those of `nfs` whose drops are its price.
        floor: severity without any effect.
        is_over: nothing shows it any more; `findings` are effects that have yet to clear.
        title, culprit, basis, likely, group, l3, watch, memory: as `Incident`.
    """

    key: CauseKey
    kind: CauseKind
    title: str
    culprit: Party | None
    nfs: tuple[str, ...]
    findings: tuple[Finding, ...]
    effects: tuple[Finding, ...] = ()
    takes_effects: bool = True
    priced: tuple[str, ...] = ()
    floor: Severity = Severity.WARN
    is_over: bool = False
    basis: str = ""
    likely: bool = False
    group: str = ""
    l3: L3Domain | None = None
    watch: tuple[Cpu, ...] = ()
    memory: tuple[Cpu, ...] = ()


@dataclass(frozen=True)
class Parties:
    """What runs on a host.

    Attributes:
        threads: watched threads. facts: of processes by pid.
        uses: what ran on CPUs of open incidents.
    """

    frame: Frame
    threads: Sequence[ThreadRate] = ()
    facts: Mapping[int, ProcessFacts] = field(default_factory=dict)
    uses: Sequence[CpuUse] = ()

    def is_unseen(self, pid: int) -> bool:
        """Whether no thread of a process polls or has the name of a poller, if all can be seen."""
        state = self.frame.sources.get("processes")
        seen = state is not None and state.reason is Reason.PRESENT and not state.late_s
        return seen and all(rate.thread.pid != pid for rate in self.threads)

    def of_nf(self, nf: NfRow) -> Party:
        """A network function, with its user and container if known."""
        return self._described(nf_party(nf))

    def intruder(self, nf: NfRow, cpus: Collection[Cpu]) -> tuple[Party | None, float, str]:
        """What else runs on CPUs of an NF, its greatest share of one, and how that is known."""
        runners = [item for item in self._runners(cpus) if item.pid != nf.pid]
        best = max(runners, key=lambda item: item.share, default=None)
        stolen, softirq = self._most("steal_ratio", cpus), self._most("softirq_ratio", cpus)
        if best is not None and best.most >= max(stolen, softirq, _LEAST_SHARE):
            return self._party(best, tuple(sorted(cpus))), best.most, "run time of its threads"
        if max(stolen, softirq) >= _LEAST_SHARE:
            name = "hypervisor (steal)" if stolen >= softirq else "kernel (network softirq)"
            return Party("host", name, cpus=tuple(sorted(cpus))), max(stolen, softirq), "/proc/stat"
        return None, 0.0, ""

    def running(self, cpus: Collection[Cpu]) -> tuple[Party | None, float, str]:
        """What runs on CPUs, how busy the busiest is, and how that is known."""
        best = max(self._runners(cpus), key=lambda item: item.share, default=None)
        busy = self._most("cpu_time_ratio", cpus)
        if best is None:
            return None, busy, ""
        return self._party(best, tuple(sorted(cpus))), busy, "run time of its threads"

    def of_class(self, name: str, l3: L3Domain, cpus: Collection[Cpu]) -> Party:
        """The busiest process of a cache class behind a cache, on some CPUs or all of its own."""
        table = self.frame.cpus
        busy = table.columns["cpu_time_ratio"]
        own = cpus or [
            info.cpu
            for row, (info, group) in enumerate(zip(table.topology.cpus, table.group, strict=True))
            if info.l3 == l3
            and isinstance(group, CacheClass)
            and group.name == name
            and busy.present[row]
            and busy.values[row] > QUIET_RATIO
        ]
        group = class_name(name)
        here = [nf for nf in self.frame.nfs if not set(nf.cpus).isdisjoint(own)]
        best = max(self._runners(own), key=lambda item: item.share, default=None)
        if best is None and not here:
            return Party("class", group, cpus=tuple(sorted(own)), group=group)
        if best is None:
            return replace(self.of_nf(here[0]), group=group)
        return replace(self._party(best, tuple(best.shares)), group=group)

    def siblings(self, cpus: Iterable[Cpu]) -> tuple[Cpu, ...]:
        """Hyper-thread siblings of CPUs that are not among them."""
        infos, rows = self.frame.topology.cpus, self.frame.topology.row_of
        own = set(cpus)
        here = (infos[rows[cpu]] for cpu in own if cpu in rows)
        return tuple(sorted({other for info in here for other in info.siblings} - own))

    def remote_memory(self, nf: NfRow) -> float | None:
        """Share of an NF's memory that is not on the nodes of its CPUs; None if unknown."""
        facts = self.facts.get(nf.pid)
        if facts is None or not facts.node_bytes:
            return None
        infos, rows = self.frame.topology.cpus, self.frame.topology.row_of
        nodes = {infos[rows[cpu]].node for cpu in nf.cpus if cpu in rows}
        total = sum(size for _, size in facts.node_bytes)
        return sum(size for node, size in facts.node_bytes if node not in nodes) / max(total, 1)

    def remote_user(self, nfs: Sequence[NfRow]) -> tuple[Party | None, str, str]:
        """The user of another socket's memory, what it does, and how that is known.

        By the pages of these NFs, else by its class's traffic.
        """
        shares = []
        for nf in nfs:
            share = self.remote_memory(nf)
            if share is not None and share > _REMOTE_MEMORY_SHARE:
                shares.append((share * packets_of(nf), share, nf))
        if shares:
            _, share, nf = max(shares, key=lambda item: item[0])
            text = f"had {share:.0%} of its memory on another socket"
            return self.of_nf(nf), text, "pages by NUMA node"
        best: tuple[float, GroupRow, GroupCacheRow] | None = None
        for group in self.frame.groups:
            for cache in group.caches:
                total, local = (
                    cache.readings[f"mbm_{kind}_bytes_per_s"] for kind in ("total", "local")
                )
                if isinstance(total, Missing) or isinstance(local, Missing) or total <= 0:
                    continue
                remote = total - local
                enough = remote > _REMOTE_BYTES_PER_S and remote / total > _REMOTE_SHARE
                if enough and (best is None or remote > best[0]):
                    best = remote, group, cache
        if best is None:
            return None, "", ""
        remote, group, cache = best
        party = self.of_class(group.name, cache.l3, ())
        return party, f"{remote / 1e9:.1f} GB/s to another socket's memory", "traffic of its class"

    def _runners(self, cpus: Collection[Cpu]) -> list[_Runner]:
        """Processes on these CPUs, with all their threads there together."""
        shares: dict[int, _Runner] = {}
        for rate in self.threads:
            thread = rate.thread
            cpu = rate.cpu if rate.cpu is not None else thread.last_cpu
            if cpu not in cpus or isinstance(rate.run_ratio, Missing):
                continue
            known = shares.get(thread.pid) or _Runner(thread.pid, thread.program, thread.vm)
            shares[thread.pid] = known.plus(cpu, rate.run_ratio)
        watched = set(shares)
        for use in self.uses:
            if use.cpu in cpus and use.over_ns > 0 and use.pid not in watched:
                known = shares.get(use.pid) or _Runner(use.pid, use.name)
                shares[use.pid] = known.plus(use.cpu, use.run_ns / use.over_ns)
        return [item for item in shares.values() if item.share >= _LEAST_SHARE]

    def _party(self, runner: _Runner, cpus: tuple[Cpu, ...]) -> Party:
        nf = next((item for item in self.frame.nfs if item.pid == runner.pid), None)
        if nf is not None:
            return replace(self.of_nf(nf), cpus=cpus)
        party = Party(
            "process",
            runner.name,
            cpus=tuple(sorted(set(cpus))),
            pid=runner.pid,
            container=runner.vm,
            group=self._class_of(cpus),
        )
        return self._described(party)

    def _described(self, party: Party) -> Party:
        facts = None if party.pid is None else self.facts.get(party.pid)
        if facts is None:
            return party
        return replace(party, user=facts.user, container=party.container or facts.container)

    def _class_of(self, cpus: Collection[Cpu]) -> str:
        """The class of CPUs if they have one."""
        table = self.frame.cpus
        rows = (table.topology.row_of[cpu] for cpu in cpus if cpu in table.topology.row_of)
        names = {g.name for row in rows if isinstance(g := table.group[row], CacheClass)}
        return class_name(next(iter(names))) if len(names) == 1 else ""

    def _most(self, metric: str, cpus: Iterable[Cpu]) -> float:
        return max(self.values(metric, cpus), default=0.0)

    def values(self, metric: str, cpus: Iterable[Cpu]) -> Iterator[float]:
        """A metric of these CPUs, where it is known."""
        column, rows = self.frame.cpus.columns[metric], self.frame.cpus.topology.row_of
        for cpu in cpus:
            reading = column[rows[cpu]] if cpu in rows else None
            if isinstance(reading, float):
                yield reading
