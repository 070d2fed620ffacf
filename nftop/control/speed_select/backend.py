"""SST through intel-speed-select as a part of the host: its state, its lock, the only calls."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_IWGRP, S_IWOTH

from nftop.control.backend import AbsentError, History, Part, RefusedError
from nftop.control.cpufreq.cpufreq import Cpufreq
from nftop.control.file_lock import own_lock
from nftop.control.journal import DEFAULT as JOURNAL
from nftop.control.resctrl.resctrl import boot_id
from nftop.control.revert_plan import differing
from nftop.control.rules import Rules
from nftop.control.speed_select.operations import Call, calls
from nftop.control.speed_select.plan import describe_effects, propose
from nftop.control.speed_select.state import Place, Told, bf_cell, bf_state, class_cell
from nftop.model.change import Action, Cell, Change, Proposal, State
from nftop.model.reading import Missing
from nftop.sources.cpufreq.files import read_keepers
from nftop.sources.cpufreq.isst import (
    LIMIT_S,
    PROGRAM,
    Ask,
    Domains,
    ask_classes,
    ask_domains,
    refusal,
)
from nftop.sources.host.topology import read_topology
from nftop.sources.runtime.helper import FOLDERS, find, run

ISST = "isst"
_LOCK = "isst.lock"
# What is set may take a moment to be told; a call takes longer than that by itself.
_SETTLE_S = 2.0
_PAUSE_S = 0.05
NOT_SIMULATED = (
    "the simulated host is a Cascade Lake, whose firmware switches SST-BF, and it has no SST-CP"
)
_ABSENT = (
    f"{PROGRAM} is not installed where only root can have put it "
    f"({', '.join(f'/{folder}' for folder in FOLDERS)}): SST-BF and SST-CP classes can't be set"
)


@dataclass(frozen=True, slots=True)
class SpeedSelect(Part[Call]):
    """`ask` runs the tool; `root` is /, or a test's; `folder` is the journal's, with its lock."""

    ask: Ask
    root: Path = Path("/")
    folder: Path = JOURNAL
    limit_s: float = field(default=_SETTLE_S)

    @property
    def identity(self) -> str:
        return f"{boot_id(self.root)} {ISST}"

    @property
    def where(self) -> str:
        return PROGRAM

    @property
    def subject(self) -> str:
        return "SST-BF and SST-CP classes"

    @property
    def renewed(self) -> str:
        return "the tool tells of another host since, which undid it"

    def told(self) -> Told:
        """What a proposal needs. Raises OSError where the tool does not answer.

        The kernel interrupts each CPU for some microseconds to tell its base frequency: for a
        preview that somebody asked for.
        """
        domains = self._domains()
        places = {
            int(info.cpu): Place(
                -1 if info.package is None else int(info.package),
                0 if info.die is None else info.die,
                tuple(map(int, info.siblings)),
            )
            for info in read_topology(self.root).cpus
            if info.online
        }
        base, pinned, turbo = dict[int, int](), dict[int, int](), None
        with contextlib.suppress(OSError):  # without cpufreq the tool's own numbers are left
            kernel = Cpufreq(self.root)
            facts, state = kernel.facts(), kernel.state()
            turbo = facts.turbo
            for policy in facts.policies:
                low, high = (state.get(policy.cell(kind)) for kind in ("min_khz", "max_khz"))
                if policy.base_khz is not None:
                    base |= dict.fromkeys(policy.cpus, policy.base_khz)
                if low is not None and low == high:
                    pinned |= dict.fromkeys(policy.cpus, int(low))
        return Told(domains.model, domains.rows, places, base, pinned, turbo)

    def keepers(self) -> tuple[str, ...]:
        """Who else may set what is set here, sentences."""
        return tuple(f"{keeper.name} may set SST here too ({keeper.seen})"
                     for keeper in read_keepers(self.root))  # fmt: skip

    def classes(self, cpus: Iterable[int]) -> State:
        """SST-CP classes of CPUs, as far as they are told. Raises OSError."""
        some = sorted(set(cpus))
        found = ask_classes(some, self.ask) if some else {}
        if isinstance(found, Missing):
            raise OSError(found.message)
        return {class_cell(cpu): f"{found[cpu]:d}" for cpu in some if cpu in found}

    def read(self, like: Iterable[Cell]) -> State:
        cells = set(like)
        found: dict[Cell, str] = {}
        if any(cell.kind == "bf" for cell in cells):
            own = bf_state(self._domains().rows)
            found |= {cell: value for cell, value in own.items() if cell in cells}
        classes = self.classes(cell.number for cell in cells if cell.kind == "cp_class")
        return {**found, **classes}

    def read_back(self, foreseen: State) -> State:
        deadline = time.monotonic() + self.limit_s
        found = self.read(foreseen)
        while differing(foreseen, found) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
            found = self.read(foreseen)
        return found

    def became(self, changes: Sequence[Change], found: State) -> tuple[Change, ...]:  # noqa: ARG002 - nothing is clamped
        return tuple(changes)

    def reach(self, changes: Iterable[Change]) -> State:
        return self.read([change.cell for change in changes])

    def inside(self, groups: Collection[str]) -> Mapping[str, str]:  # noqa: ARG002 - it has none
        return {}

    def rules(self) -> Rules:
        return Rules()

    def steps(self, state: State, changes: Iterable[Change]) -> tuple[Call, ...]:
        return calls(state, changes)

    def forbidden(self, state: State, changes: Iterable[Change]) -> Iterator[str]:  # noqa: ARG002 - known when it is planned
        return iter(())

    def plan(
        self, actions: Sequence[Action], commands: tuple[str, ...], history: History
    ) -> Proposal:
        del history
        return propose(self.told(), self.classes, actions, commands, self.keepers)

    def judged(
        self, base: State, target: State, changes: Sequence[Change], commands: tuple[str, ...]
    ) -> Proposal:
        del target
        seen = {change.cell: base[change.cell] for change in changes if change.cell in base}
        if not changes:
            return Proposal(seen, (), commands=commands)
        effects, warnings = describe_effects(self.told(), changes)
        return Proposal(
            seen, tuple(changes), effects, (*warnings, *self.keepers()), commands=commands
        )

    def shell(self, proposal: Proposal) -> tuple[str, ...]:
        return tuple(call.shell for call in calls(proposal.base, proposal.changes))

    def do(self, step: Call) -> None:
        if not step.is_sound:
            raise RefusedError(f"{PROGRAM} is not called with {step.value!r}")
        said = self.ask(step.words(self._address(step.cells[0]) if step.is_bf else None))
        if isinstance(said, Missing):
            raise RefusedError(f"{said.message}: how far it came is not known, so it is read back")
        why = refusal(said)
        if why:
            raise RefusedError(f"{step.shell}: {why}")

    def lock(self, limit_s: float) -> contextlib.AbstractContextManager[None]:
        """nftop's own, beside the journal: the tool has none."""
        return own_lock(self.folder, _LOCK, limit_s)

    def _address(self, cell: Cell) -> int:
        """A CPU by which the tool finds the power domain now, at the level that was shown."""
        try:
            rows = self._domains().rows
        except OSError as error:
            raise RefusedError(str(error)) from None
        found = [row.cpu for row in rows if bf_cell(row) == cell and row.cpu is not None]
        if not found:
            raise RefusedError("the power domain is at another level of SST-PP now, or gone")
        return found[0]

    def _domains(self) -> Domains:
        found = ask_domains(self.ask)
        if isinstance(found, Missing):
            raise OSError(found.message)
        return found


def open_isst(root: Path = Path("/"), folder: Path = JOURNAL) -> SpeedSelect:
    """SST of this host; the tool is not run yet. Raises AbsentError."""
    program = find(PROGRAM, root)
    if program is None:
        raise AbsentError(_ABSENT)
    try:
        own = program.resolve().parent.stat()
    except OSError as error:
        raise AbsentError(f"{program}: {error.strerror}") from None
    if own.st_uid != 0 or own.st_mode & (S_IWGRP | S_IWOTH):
        raise AbsentError(f"{program}: others than root may write to its folder, so it is not run")
    return SpeedSelect(lambda words: run(program, words, LIMIT_S), root, folder)
