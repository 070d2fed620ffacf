"""Actions on the frequency of a selected core, as the screen offers them."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence

from nftop.model.change import (
    FrequencyAction,
    PinCpus,
    PinEvery,
    ReleaseCpus,
    SetCpClass,
    SstAction,
    SwitchBf,
)
from nftop.model.frame import CacheClass, Frame
from nftop.model.ids import Cpu, format_cpu_list, mhz_text
from nftop.model.missing import Missing
from nftop.model.rdt.rdt import class_name
from nftop.model.struct import dataclass

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
    result = [*_both("core", f"the core of CPU {format_cpu_list(core)}{_bases(frame, core)}",
                    core, ["--cpus", format_cpu_list(core)], program)]  # fmt: skip
    pid = table.nf_pid[row]
    nfs = [item for item in frame.nfs if item.pid == pid and item.cpus]
    classed: list[tuple[str, Sequence[Cpu]]] = [(f"the core of CPU {format_cpu_list(core)}", core)]
    classed += [(f"NF {nf.name}: CPU {format_cpu_list(nf.cpus)}", nf.cpus) for nf in nfs]
    for nf in nfs:
        text = f"NF {nf.name}: CPU {format_cpu_list(nf.cpus)}{_bases(frame, nf.cpus)}"
        # By CPUs: several NFs may have one name.
        result += _both("nf", text, nf.cpus, ["--cpus", format_cpu_list(nf.cpus)], program)
    group = table.group[row]
    if isinstance(group, CacheClass):
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
        FrequencyChoice("release-all", "release every core", ReleaseCpus(online),
                        f"{program} sst release --all"),
        *_speed_select(frame, row, classed, program),
    )  # fmt: skip


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
