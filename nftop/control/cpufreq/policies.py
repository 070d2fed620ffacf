"""Frequency policies as the kernel reports them, rows to show, and the choices of a core."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from nftop.model.change import (
    Cell,
    FrequencyAction,
    Kind,
    PinCpus,
    PinEvery,
    ReleaseCpus,
    SetCpClass,
    SstAction,
    State,
    SwitchBf,
)
from nftop.model.ids import Cpu, Package, format_cpu_list, mhz_text
from nftop.model.missing import Missing
from nftop.model.rdt.rdt import class_name
from nftop.model.sst import Priority, priorities
from nftop.model.struct import dataclass, field

if TYPE_CHECKING:  # the guard imports this module, and frames import numpy
    from nftop.model.frame import Frame


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy in use: of one CPU, or of several with a common frequency.

    Attributes:
        number: `policyN`.
        cpus: all of them, offline ones included (`related_cpus`).
        driver: as `scaling_driver` has it.
        governors: the available ones.
        least_khz, most_khz: the hardware's limits (`cpuinfo_*_freq`).
        base_khz: the guaranteed frequency (`base_frequency`); None if not reported.
    """

    number: int
    cpus: tuple[int, ...]
    driver: str
    governors: tuple[str, ...]
    least_khz: int
    most_khz: int
    base_khz: int | None

    @property
    def name(self) -> str:
        """Its CPUs as in its cells."""
        return format_cpu_list(self.cpus)

    def cell(self, kind: Kind) -> Cell:
        return Cell(kind, "", self.name, self.number)

    def clamped(self, khz: int) -> int:
        return max(self.least_khz, min(khz, self.most_khz))


@dataclass(frozen=True, slots=True)
class CpufreqFacts:
    """Facts of a host.

    Attributes:
        policies: those in use, ascending by number.
        offline: CPUs that are present and offline.
        siblings: by CPU the others of its core.
        nominal_khz: the marked frequency (P1); None if unknown.
        why_none: why there are no policies.
        turbo: whether turbo is allowed; None if unknown.
        packages: by CPU; None if unknown.
        hybrid: cores are of different kinds, whose base frequencies differ without SST-BF.
    """

    policies: tuple[Policy, ...]
    offline: frozenset[int] = frozenset()
    siblings: Mapping[int, frozenset[int]] = field(default_factory=dict)
    nominal_khz: int | None = None
    why_none: str = ""
    turbo: bool | None = None
    packages: Mapping[int, Package | None] = field(default_factory=dict)
    hybrid: bool = False

    @property
    def priorities(self) -> Mapping[Cpu, Priority]:
        """Priority of online CPUs with SST-BF; empty if it is off."""
        return {} if self.hybrid else priorities(self._bases())

    def high_khz(self, cpu: int) -> int:
        """Highest base frequency in a CPU's package; 0 if unknown."""
        package = self.packages.get(cpu)
        return max((khz or 0 for _, other, khz in self._bases() if other == package), default=0)

    def _bases(self) -> Iterator[tuple[Cpu, Package | None, int | None]]:
        for policy in self.policies:
            for cpu in policy.cpus:
                if cpu not in self.offline:
                    yield Cpu(cpu), self.packages.get(cpu), policy.base_khz

    def of(self, cpu: int) -> Policy | None:
        return next((policy for policy in self.policies if cpu in policy.cpus), None)

    def with_siblings(self, cpus: Collection[int]) -> tuple[int, ...]:
        """These CPUs and their online siblings."""
        both = {*cpus, *(sibling for cpu in cpus for sibling in self.siblings.get(cpu, ()))}
        return tuple(sorted(both - (self.offline - set(cpus))))


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """One online CPU; None: not reported by its driver.

    Attributes:
        siblings: the other threads of its core.
        priority: that of SST-BF; None if it is off.
        together: all CPUs of its frequency policy, if that has more than one.
        min_khz, max_khz: in effect; least_khz, most_khz: the hardware's.
        pinned: both limits are its base frequency.
    """

    cpu: int
    siblings: tuple[int, ...]
    together: tuple[int, ...]
    driver: str
    priority: Priority | None
    base_khz: int | None
    min_khz: int | None
    max_khz: int | None
    least_khz: int
    most_khz: int
    governor: str | None
    epp: str | None
    pinned: bool


def cores(facts: CpufreqFacts, state: State) -> tuple[CoreSettings, ...]:
    """A row for each online CPU that has a policy, ascending."""
    kinds = facts.priorities
    rows: list[CoreSettings] = []
    for policy in facts.policies:
        low, high = (state.get(policy.cell(kind)) for kind in ("min_khz", "max_khz"))
        base = policy.base_khz
        rows += [
            CoreSettings(
                cpu=cpu,
                siblings=tuple(sorted(facts.siblings.get(cpu, ()))),
                together=policy.cpus if len(policy.cpus) > 1 else (),
                driver=policy.driver,
                priority=kinds.get(Cpu(cpu)),
                base_khz=base,
                min_khz=None if low is None else int(low),
                max_khz=None if high is None else int(high),
                least_khz=policy.least_khz,
                most_khz=policy.most_khz,
                governor=state.get(policy.cell("governor")),
                epp=state.get(policy.cell("epp")),
                pinned=base is not None and low == high == str(base),
            )
            for cpu in policy.cpus
            if cpu not in facts.offline
        ]
    return tuple(sorted(rows, key=lambda row: row.cpu))


CP_CLASSES = range(4)


@dataclass(frozen=True, slots=True)
class FrequencyChoice:
    """One row of the frequency editor.

    Attributes:
        key: its id in a footer or test.
        text: what it does, with untrusted names.
        action: for the gate.
        command: the equivalent command line.
    """

    key: str
    text: str
    action: FrequencyAction | SstAction
    command: str


def choices(frame: Frame, row: int, program: str) -> tuple[FrequencyChoice, ...]:
    """Choices for a core, its NF, its class, and the host."""
    table = frame.cpus
    cpu = table.topology.cpus[row].cpu
    core = tuple(sorted(frame.topology.with_siblings((cpu,))))
    result = [
        *_both(
            "core",
            f"the core of CPU {format_cpu_list(core)}{_bases(frame, core)}",
            core,
            ["--cpus", format_cpu_list(core)],
            program,
        )
    ]
    pid = table.nf_pid[row]
    nfs = [item for item in frame.nfs if item.pid == pid and item.cpus]
    classed: list[tuple[str, Sequence[Cpu]]] = [(f"the core of CPU {format_cpu_list(core)}", core)]
    classed += [(f"NF {nf.name}: CPU {format_cpu_list(nf.cpus)}", nf.cpus) for nf in nfs]
    for nf in nfs:
        text = f"NF {nf.name}: CPU {format_cpu_list(nf.cpus)}{_bases(frame, nf.cpus)}"
        # By CPUs: several NFs may have one name.
        result += _both("nf", text, nf.cpus, ["--cpus", format_cpu_list(nf.cpus)], program)
    group = table.group[row]
    if not isinstance(group, Missing):
        members = [item.cpus for item in frame.groups if item.name == group.name]
        cpus = members[0] if members else ()
        if cpus:
            text = (
                f"class {class_name(group.name)}: CPU {format_cpu_list(cpus)}{_bases(frame, cpus)}"
            )
            result += _both("group", text, cpus, ["--group", class_name(group.name)], program)
    online = tuple(info.cpu for info in frame.topology.cpus)
    own = "every core to its own guaranteed frequency, governor powersave (sst_bf.py -s)"
    nominal = "all cores to the nominal frequency (sst_bf.py -m)"
    return (
        *result,
        FrequencyChoice("bf", own, PinEvery("bf"), f"{program} sst apply --mode bf"),
        FrequencyChoice("base", nominal, PinEvery("base"), f"{program} sst apply --mode base"),
        FrequencyChoice(
            "release-all", "release every core", ReleaseCpus(online), f"{program} sst release --all"
        ),
        *_speed_select(frame, row, classed, program),
    )


def _speed_select(
    frame: Frame, row: int, classed: Sequence[tuple[str, Sequence[Cpu]]], program: str
) -> Iterator[FrequencyChoice]:
    """SST-BF of the core's package and SST-CP classes, if intel-speed-select reports them."""
    frequencies = frame.frequencies
    if isinstance(frequencies, Missing) or isinstance(frequencies.sst, Missing):
        return
    package = frame.cpus.topology.cpus[row].package
    own = [item for item in frequencies.sst.packages if item.package == package]
    for on, word in ((True, "on"), (False, "off")):
        if own and all(item.can_switch_bf for item in own) and any(i.bf is not on for i in own):
            yield FrequencyChoice(
                f"sst-bf-{word}",
                f"SST-BF {word} for package {package}, with base frequencies of all its cores",
                SwitchBf(on, (own[0].package,)),
                f"{program} sst bf {word} --package {package}",
            )
    if own and all(entry.cp_supported for entry in own):
        for text, cpus in classed:
            for number in CP_CLASSES:
                yield FrequencyChoice(
                    f"class-{number}",
                    f"SST-CP class {number} for {text}",
                    SetCpClass(tuple(cpus), number),
                    f"{program} sst cp --cpus {format_cpu_list(cpus)} --class {number}",
                )


def _both(
    key: str, text: str, cpus: Sequence[Cpu], words: Sequence[str], program: str
) -> Iterator[FrequencyChoice]:
    options = shlex.join(words)
    pin, release = f"{program} sst pin {options}", f"{program} sst release {options}"
    yield FrequencyChoice(f"pin-{key}", f"pin {text}", PinCpus(tuple(cpus)), pin)
    without = text.partition(", guaranteed")[0]
    yield FrequencyChoice(f"release-{key}", f"release {without}", ReleaseCpus(tuple(cpus)), release)


def _bases(frame: Frame, cpus: Collection[Cpu]) -> str:
    """`, guaranteed 2700 MHz`; "" if unknown."""
    if isinstance(frame.frequencies, Missing):
        return ""
    rows = frame.frequencies.row_of
    known = {rows[cpu].base_hz for cpu in cpus if cpu in rows}
    bases = sorted(item for item in known if item is not None)
    return f", guaranteed {', '.join(mhz_text(hz // 1000) for hz in bases)}" if bases else ""
