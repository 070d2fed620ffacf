"""The hardware's classes as a backend, by libpqos, for kernels without resctrl.

Class 0 is the root group, in which every CPU begins; class N is the group `COSN`, as pqos' own
groups of resctrl are called. Classes can't be created or removed, threads have none, and there is
no lock: libpqos holds one during a call. So another program's write between two of ours shows only
in what is read back.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from nftop.control.backend import AbsentError, LockedError, RefusedError, boot_id
from nftop.control.rdt_limits import LimitRule, MaskRule, Rules
from nftop.control.resctrl.backend import ClassBackend
from nftop.control.resctrl.operations import ResctrlStep
from nftop.model.change import Cell, Change, Proposal, State
from nftop.model.ids import format_cpu_list
from nftop.model.missing import Missing
from nftop.model.rdt.rdt import MB, ROOT, SHAREABLE, split_path
from nftop.model.struct import dataclass
from nftop.model.topology import Topology
from nftop.sources.host.topology import read_cpuid, read_topology
from nftop.sources.pqos.library import Library, UnusableError
from nftop.sources.pqos.protocol import MsrState, domains, group_name
from nftop.sources.pqos.source import Client, why_not

MSR_IDENTITY = "msr"
# `where` of classes that no file system shows.
MSR = "pqos --iface=msr"
# Masks and limits in the syntax of pqos -e: cache, class, value.
_PQOS = {"L3": "llc@{}:{}=0x{}", "L3DATA": "llc@{}:{}d=0x{}", "L3CODE": "llc@{}:{}c=0x{}"}
_PQOS_LIMIT = "mba@{}:{}={}"
# Haswell's masks have two ways at least, all later ones' one (Intel SDM volume 3, "Cache Allocation
# Technology": the E5 v3, family 6 model 63).
_HASWELL = ("GenuineIntel", 6, 63)


class HardwareReader(Protocol):
    def read_classes(self) -> MsrState:
        """Read everything. Raises OSError."""


@dataclass(frozen=True, slots=True)
class ClientReader:
    """Reads through the process that has libpqos, for views."""

    client: Client

    def read_classes(self) -> MsrState:
        answer = self.client.ask(())
        if isinstance(answer, Missing):
            raise OSError(errno.EIO, answer.message)
        return answer[0]


@dataclass(frozen=True, slots=True)
class LibraryAccess:
    """libpqos in this process, for the guard."""

    library: Library

    def read_classes(self) -> MsrState:
        try:
            return self.library.read_classes()
        except self.library.error as error:
            raise OSError(errno.EIO, f"libpqos: {error}") from None


@dataclass(frozen=True, slots=True)
class PqosHost(ClassBackend):
    """Classes of this host's CPUs. Only with `LibraryAccess` can it change them."""

    eyes: HardwareReader
    topology: Topology
    root: Path = Path("/")

    @property
    def identity(self) -> str:
        return f"{boot_id(self.root)} {MSR_IDENTITY}"

    @property
    def where(self) -> str:
        return MSR

    def state(self, threads: Iterable[Cell] = ()) -> State:  # noqa: ARG002 - they have no class
        reading = self.eyes.read_classes()
        state = {Cell("mode", group_name(clos)): SHAREABLE for clos in range(reading.classes)}
        state |= {Cell("group", group_name(clos)): str(clos) for clos in range(1, reading.classes)}
        for cpu, clos in reading.class_of.items():
            state[Cell("cpu", "", number=cpu)] = group_name(clos)
        for name, rows in _lines(reading).items():
            for cache, l3 in domains(reading, self.topology).items():
                for clos, value in enumerate(rows.get(cache, ())):
                    text = str(value) if name == MB else f"{value:x}"
                    state[Cell("schemata", group_name(clos), name, int(l3))] = text
        return state

    def tasks(
        self,
        groups: Collection[str],  # noqa: ARG002 - none has threads
        tids: Collection[int],
    ) -> Mapping[str, str]:
        if tids:
            raise OSError(
                errno.EOPNOTSUPP,
                "through MSRs only CPUs have a class, not threads: move CPUs, or mount resctrl",
            )
        return {}

    def rules(self) -> Rules:
        reading = self.eyes.read_classes()
        least = 2 if (read_cpuid(self.root) or ())[:3] == _HASWELL else 1
        rule = MaskRule(reading.ways, min_bits=least, shareable=reading.contention)
        caches = domains(reading, self.topology).values()
        return Rules(
            masks={name: rule for name in _lines(reading) if name != MB},
            limit=LimitRule(reading.least, reading.step, 100) if reading.least else None,
            closids=reading.classes,
            io={int(l3): (reading.contention, "cpuid") for l3 in caches} if reading.ways else {},
            siblings={info.cpu: frozenset(info.siblings) for info in self.topology.cpus},
        )

    def shell(self, proposal: Proposal) -> tuple[str, ...]:
        return pqos_commands(proposal.changes)

    def do(self, step: ResctrlStep) -> None:
        if not isinstance(self.eyes, LibraryAccess):
            raise RefusedError("only the guard changes classes")
        library = self.eyes.library
        if step.operation not in ("schemata", "cpus") or step.monitor:
            raise RefusedError("the hardware's classes can't be made or removed, nor metered so")
        try:
            if step.operation == "cpus":
                self._move(library, _clos(step.group), step.cpus)
            else:
                self._set(library, _clos(step.group), step.values)
        except library.error as error:
            raise RefusedError(f"libpqos refused to change {step.group}: {error}") from None

    @contextlib.contextmanager
    def lock(self, limit_s: float) -> Iterator[None]:  # noqa: ARG002 - it is there or not
        """Check that resctrl has not appeared; libpqos has no lock to hold. Raises LockedError."""
        refused = why_not(self.root)
        if refused is not None:
            raise LockedError(refused.message)
        yield

    def _move(self, library: Library, clos: int, cpus: Collection[int]) -> None:
        """Move CPUs as resctrl does: others of the class fall to class 0."""
        for cpu, now in self.eyes.read_classes().class_of.items():
            if (cpu in cpus) != (now == clos):
                library.classes.assoc_set(cpu, clos if cpu in cpus else 0)

    def _set(self, library: Library, clos: int, values: Mapping[Cell, str]) -> None:
        reading = library.read_classes()
        cache_of_line = {int(l3): cache for cache, l3 in domains(reading, self.topology).items()}
        masks: dict[int, dict[str, int]] = {}
        for cell, value in sorted(values.items()):
            cache = cache_of_line[cell.number]
            if cell.name == MB:
                row = library.limits.COS(clos, int(value))
                library.limits.set(library.mba_id(cache), [row])
            else:
                masks.setdefault(cache, {})[cell.name] = int(value, 16)
        for cache, lines in masks.items():
            row = _row(library, reading, clos, cache, lines)
            library.masks.set(library.cat_id(cache), [row])


def open_pqos(root: Path = Path("/"), *, writing: bool = False) -> PqosHost:
    """The classes of this host; `writing` is for the guard. Raises AbsentError.

    To read, libpqos' process starts with the first `look`, which may raise OSError.
    """
    refused = why_not(root)
    if refused is not None:
        raise AbsentError(refused.message)
    try:
        eyes: HardwareReader = LibraryAccess(Library()) if writing else ClientReader(Client())
    except UnusableError as error:
        raise AbsentError(str(error)) from None
    return PqosHost(eyes, read_topology(root), root)


def _lines(reading: MsrState) -> Mapping[str, Mapping[int, tuple[int, ...]]]:
    lines: dict[str, Mapping[int, tuple[int, ...]]] = {}
    if reading.has_cdp:
        lines |= {"L3DATA": reading.masks, "L3CODE": reading.codes}
    elif reading.ways:
        lines["L3"] = reading.masks
    if reading.least:
        lines[MB] = reading.limits
    return lines


def _clos(group: str) -> int:
    name = split_path(group)[0]
    return 0 if name == ROOT else int(name.removeprefix("COS"))


def _row(
    library: Library, reading: MsrState, clos: int, cache: int, lines: Mapping[str, int]
) -> Any:
    """A row for libpqos: with CDP both masks, even if only one changes."""
    if not reading.has_cdp:
        return library.masks.COS(clos, lines["L3"])
    data = lines.get("L3DATA", reading.masks[cache][clos])
    code = lines.get("L3CODE", reading.codes[cache][clos])
    return library.masks.COS(clos, code_mask=code, data_mask=data)


def pqos_commands(changes: Iterable[Change]) -> tuple[str, ...]:
    values: list[str] = []
    moved: dict[str, list[int]] = {}
    for cell, new in ((change.cell, change.new) for change in changes):
        if cell.kind == "schemata":
            form = _PQOS.get(cell.name, _PQOS_LIMIT)
            values.append(form.format(cell.number, _clos(cell.group), new))
        elif cell.kind == "cpu" and new is not None:
            moved.setdefault(new, []).append(cell.number)
    options = [f"-e '{';'.join(values)}'"] if values else []
    options += [f"-a 'llc:{_clos(to)}={format_cpu_list(ids)}'" for to, ids in sorted(moved.items())]
    return tuple(f"{MSR} {option}" for option in options)
