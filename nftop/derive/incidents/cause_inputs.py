"""One frame and its findings, indexed by network function, CPU, class and rule."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from nftop.derive.findings.cache_rules import class_subject, polled_classes
from nftop.derive.findings.inputs import FindingInputs
from nftop.derive.incidents.parties import Parties
from nftop.derive.incidents.victims import packets_of
from nftop.derive.nf.recent import RecentRates
from nftop.model.frame import Finding, NfRow
from nftop.model.ids import Cpu, Package
from nftop.model.struct import dataclass
from nftop.model.subject import Subject


@dataclass(frozen=True)
class CauseInputs:
    """A frame with its findings, and what explains them."""

    tick: FindingInputs
    parties: Parties

    @cached_property
    def nfs(self) -> Mapping[str, NfRow]:
        return {nf.key: nf for nf in self.tick.frame.nfs}

    @cached_property
    def by_rule(self) -> Mapping[str, tuple[Finding, ...]]:
        result: dict[str, tuple[Finding, ...]] = {}
        for item in self.tick.frame.findings:
            result[item.rule] = (*result.get(item.rule, ()), item)
        return result

    @cached_property
    def of_cpu(self) -> Mapping[Cpu, str]:
        """Key of the NF that polls on a CPU."""
        return {cpu: nf.key for nf in self.tick.frame.nfs for cpu in nf.cpus}

    @cached_property
    def of_class(self) -> Mapping[Subject, tuple[str, ...]]:
        """Keys of the NFs that poll in a class behind a cache."""
        result: dict[Subject, tuple[str, ...]] = {}
        for group, cache, positions in polled_classes(self.tick):
            rows = self.tick.rows[positions].tolist()
            infos = self.tick.frame.cpus.topology.cpus
            keys = (self.of_cpu.get(infos[row].cpu) for row in rows)
            result[class_subject(group, cache)] = tuple(dict.fromkeys(filter(None, keys)))
        return result

    def by_nf(self, *rules: str) -> Mapping[str, list[Finding]]:
        """Findings of rules by the key of the NF that they are about."""
        result: dict[str, list[Finding]] = {}
        for finding in (item for rule in rules for item in self.by_rule.get(rule, ())):
            for key in self.keys_of(finding):
                result.setdefault(key, []).append(finding)
        return result

    def keys_of(self, finding: Finding) -> tuple[str, ...]:
        """Keys of the NFs that a finding is about."""
        subject = finding.subject
        if subject.kind == "nf":
            return (subject.key,) if subject.key in self.nfs else ()
        if subject.package is not None:
            return tuple(nf.key for nf in self.on_package(subject.package))
        if subject.kind == "class":
            return self.of_class.get(subject, ())
        cpus = (cpu for cpu in subject.cpus if cpu in self.of_cpu)
        return tuple(dict.fromkeys(self.of_cpu[cpu] for cpu in cpus))

    def on_package(self, package: Package) -> tuple[NfRow, ...]:
        """NFs that poll on a package, those with most packets first."""
        rows = self.tick.frame.topology.row_of
        infos = self.tick.frame.topology.cpus
        here = [
            nf
            for nf in self.tick.frame.nfs
            if any(cpu in rows and infos[rows[cpu]].package == package for cpu in nf.cpus)
        ]
        return tuple(sorted(here, key=packets_of, reverse=True))

    def recent(self, key: str) -> RecentRates:
        return self.tick.recent.get(key, RecentRates())
