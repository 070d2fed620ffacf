"""Frequencies as a backend: actions to a proposal; common to the real and simulated ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from nftop.control.backend import KERNEL_ASSIGNED, Backend, HistoryReader, Refusals
from nftop.control.change_history import kept, unverified
from nftop.control.cpufreq.operations import CpufreqWrite, in_shell, writes
from nftop.control.cpufreq.policies import CpufreqFacts, Policy
from nftop.control.journal_damage import DamagedJournalError
from nftop.control.journal_entry import Entry
from nftop.model.change import (
    POLICY_KINDS,
    Action,
    Cell,
    Change,
    Kind,
    PinCpus,
    PinEvery,
    Proposal,
    ReasonCode,
    ReleaseCpus,
    State,
    difference,
)
from nftop.model.ids import Cpu, format_cpu_list, mhz_text
from nftop.model.struct import dataclass, field, replace

_LIMITS: tuple[Kind, ...] = ("min_khz", "max_khz")
_GOVERNOR = "powersave"
_NO_BASE = (
    "CPU {}: {} reports no base_frequency, so there is no guaranteed frequency to pin it to "
    "(intel_pstate with HWP reports it)"
)
_NO_NOMINAL = (
    "the nominal frequency (P1) is not known: base frequencies differ, and the CPU's name has none"
)
_ALIKE = (
    "base frequencies do not differ within a package: SST-BF is not on here, and no core is "
    "favoured by this"
)
_HYBRID = (
    "cores are of different kinds, whose base frequencies differ by that: this is not SST-BF, and "
    "no core is favoured by it"
)
_CLAMPED = (
    "a lower limit that is at the upper one, or an upper one below the hardware's, may be a higher "
    "request that the kernel has clamped, which can't be read: undo restores what is in effect now"
)


def before(history: Iterable[Entry], cells: Iterable[Cell], state: State) -> Mapping[Cell, str]:
    """Values of a policy's cells before the newest change of its limits that still stands.

    A change that restores the values before the previous one cancels that: two pins and two
    releases end with the first values. Later changes of governor or EPP only are undone with it.
    Without limits if no change of them stands; empty if no change stands, if one of these cells is
    not as its change left it, or if that change did not pin.
    """
    stacks = _in_effect(history, cells)
    values: dict[Cell, str] = {}
    while not any(cell.kind in _LIMITS for cell in values):
        newest = max((stack[-1][0] for stack in stacks.values() if stack), default=None)
        if newest is None:
            break
        last = [stack.pop()[1] for stack in stacks.values() if stack and stack[-1][0] == newest]
        now = {**state, **values}
        if any(now.get(item.cell) != item.new for item in last):
            return {}
        limits = {now.get(cell) for cell in stacks if cell.kind in _LIMITS}
        if len(limits) > 1 and any(entry.cell.kind in _LIMITS for entry in last):
            return {}  # it was a release, which another release does not revert
        values |= {item.cell: item.old for item in last if item.old is not None}
    return values


def _in_effect(
    history: Iterable[Entry], cells: Iterable[Cell]
) -> Mapping[Cell, list[tuple[int, Change]]]:
    """By cell the changes that stand with their numbers, the oldest first."""
    stacks = {cell: list[tuple[int, Change]]() for cell in cells}
    for entry in kept(history):
        for change in entry.changes:
            stack = stacks.get(change.cell)
            if stack is None:
                continue
            top = stack[-1][1] if stack else None
            if top is not None and top.old == change.new and top.new == change.old:
                stack.pop()
            else:
                if top is not None and top.new != change.old:
                    stack.clear()  # another program changed it between
                stack.append((entry.number, change))
    return stacks


@dataclass(slots=True)
class _Draft:
    facts: CpufreqFacts
    history: Sequence[Entry]
    base: State
    state: dict[Cell, str]
    touched: list[Policy] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)
    rounded: list[str] = field(default_factory=list)
    refusals: Refusals = field(default_factory=Refusals)
    warnings: list[str] = field(default_factory=list)

    def policies(self, cpus: Iterable[int]) -> list[Policy]:
        """Policies of these CPUs and their siblings; adds refusals."""
        requested = tuple(dict.fromkeys(cpus))
        every = self.facts.with_siblings(requested)
        by_cpu = {cpu: self.facts.of(cpu) for cpu in every}
        gone = [cpu for cpu, policy in by_cpu.items() if policy is None]
        if gone:
            why = self.facts.why_none or "it is not there, or offline"
            self.refusals.add(ReasonCode.CPU_ABSENT, f"CPU {format_cpu_list(gone)}: {why}")
            return []
        policies = list(dict.fromkeys(value for value in by_cpu.values() if value is not None))
        self._name_others(requested, every, policies)
        self.touched += policies
        return policies

    def limits(self, policy: Policy, low_khz: int, high_khz: int) -> None:
        for kind, wanted in zip(_LIMITS, (low_khz, high_khz), strict=True):
            cell, given = policy.cell(kind), policy.clamped(wanted)
            if given != wanted:
                self.rounded.append(
                    f"CPU {policy.name}: {mhz_text(wanted)} becomes {mhz_text(given)}, "
                    "the hardware's limit there"
                )
            if cell in self.state:
                self.state[cell] = str(given)

    def _name_others(
        self, requested: Sequence[int], every: Sequence[int], policies: Sequence[Policy]
    ) -> None:
        self.effects += siblings_text(set(every) - set(requested))
        for policy in policies:
            others = set(policy.cpus) - set(every)
            if others:
                own = format_cpu_list(set(policy.cpus) - others)
                self.effects.append(
                    f"CPU {format_cpu_list(others)} shares a frequency policy "
                    f"(policy{policy.number}) with CPU {own} and is changed with it"
                )


def siblings_text(cpus: Collection[int]) -> Iterator[str]:
    """Message on CPUs that are changed because they share cores with requested ones."""
    if cpus:
        verb = "is another thread" if len(cpus) == 1 else "are other threads"
        yield f"CPU {format_cpu_list(cpus)} {verb} of the same cores and changed with them"


def propose(
    state: State,
    facts: CpufreqFacts,
    history: Sequence[Entry],
    actions: Sequence[Action],
    commands: tuple[str, ...] = (),
) -> Proposal:
    """Changes that the actions, in their order, would make; writes nothing.

    The proposal's base has only the policies that change: changes of others are no conflict.
    """
    draft = _Draft(facts, history, state, dict(state))
    for action in actions:
        if not draft.refusals:
            _ACTS[type(action)](draft, action)
    own = {(item.number, item.name) for item in draft.touched}
    base = {cell: value for cell, value in state.items() if (cell.number, cell.name) in own}
    texts, rounded = (tuple(dict.fromkeys(row)) for row in (draft.effects, draft.rounded))
    if refusals := tuple(dict.fromkeys(draft.refusals)):
        return Proposal(base, (), texts, refusals=refusals, commands=commands)
    changes = difference(base, {cell: draft.state[cell] for cell in base})
    effects = (*rounded, *texts, *_may_be_clamped(draft, changes)) if changes else ()
    return Proposal(
        base,
        changes,
        effects,
        rounded=rounded,
        commands=commands,
        warnings=tuple(draft.warnings) if changes else (),
    )


def _pin(draft: _Draft, action: PinCpus) -> None:
    policies = draft.policies(action.cpus)
    for policy in policies:
        if policy.base_khz is None:
            draft.refusals.add(
                ReasonCode.FREQUENCY_UNREPORTED,
                _NO_BASE.format(policy.name, policy.driver or "its driver"),
            )
        else:
            draft.limits(policy, policy.base_khz, policy.base_khz)
    _note_low(draft, policies)


def _note_low(draft: _Draft, policies: Iterable[Policy]) -> None:
    kinds = draft.facts.priorities
    low: dict[tuple[int, int], list[int]] = {}
    for policy in policies:
        for cpu in policy.cpus:
            if kinds.get(Cpu(cpu)) == "low":
                bases = (policy.base_khz or 0, draft.facts.high_khz(cpu))
                low.setdefault(bases, []).append(cpu)
    for (base, high), cpus in low.items():
        draft.effects.append(
            f"CPU {format_cpu_list(cpus)}: low priority (SST-BF), guaranteed {mhz_text(base)}; "
            f"high-priority cores of the same package have {mhz_text(high)}"
        )


def _release(draft: _Draft, action: ReleaseCpus) -> None:
    open_again, pinned = [], []
    for policy in draft.policies(action.cpus):
        cells = [policy.cell(kind) for kind in POLICY_KINDS if policy.cell(kind) in draft.state]
        old = before(draft.history, cells, draft.state)
        draft.state.update(old)
        if any(cell.kind in _LIMITS for cell in old):
            low, high = (draft.state.get(policy.cell(kind)) for kind in _LIMITS)
            if low is not None and low == high and policy.least_khz < policy.most_khz:
                pinned.append(policy)
            continue
        was = {cell: draft.state[cell] for cell in cells}
        draft.limits(policy, policy.least_khz, policy.most_khz)
        if any(draft.state[cell] != value for cell, value in was.items()):
            open_again.append(policy)
    if open_again:
        spans = {f"{mhz_text(item.least_khz)} to {mhz_text(item.most_khz)}" for item in open_again}
        draft.effects.append(
            f"CPU {_cpus(open_again)}: the limits are not nftop's, or not as it left them, so they "
            f"become the hardware's ({', '.join(sorted(spans))})"
        )
    if pinned:
        draft.effects.append(
            f"CPU {_cpus(pinned)}: pinned before nftop's last change of the limits too, and so "
            "pinned still"
        )


def _cpus(policies: Iterable[Policy]) -> str:
    return format_cpu_list(cpu for policy in policies for cpu in policy.cpus)


def _pin_every(draft: _Draft, action: PinEvery) -> None:
    facts = draft.facts
    cpus = [cpu for policy in facts.policies for cpu in policy.cpus if cpu not in facts.offline]
    if not cpus:
        draft.refusals.add(
            ReasonCode.CPU_ABSENT, facts.why_none or "no CPU here has a frequency policy"
        )
        return
    policies = draft.policies(cpus)
    if facts.offline:
        draft.effects.append(f"CPU {format_cpu_list(facts.offline)}: offline, left as it is")
    if action.mode == "base":
        nominal = facts.nominal_khz
        if nominal is None:
            draft.refusals.add(ReasonCode.FREQUENCY_UNREPORTED, _NO_NOMINAL)
            return
        for policy in policies:
            draft.limits(policy, nominal, nominal)
        return
    without = [policy for policy in policies if policy.base_khz is None]
    if without:
        draft.refusals.add(
            ReasonCode.FREQUENCY_UNREPORTED,
            _NO_BASE.format(_cpus(without), without[0].driver or "its driver"),
        )
        return
    if not facts.priorities:
        draft.warnings.append(_HYBRID if facts.hybrid else _ALIKE)
    if facts.turbo is False:
        draft.warnings.append("turbo is off (no_turbo), and SST-BF needs it on")
    for policy in policies:
        _to_powersave(draft, policy)
        draft.limits(policy, policy.base_khz or 0, policy.base_khz or 0)


def _to_powersave(draft: _Draft, policy: Policy) -> None:
    governor, epp = policy.cell("governor"), policy.cell("epp")
    if draft.state.get(governor) in (None, _GOVERNOR):
        return
    if _GOVERNOR not in policy.governors:
        why = f"CPU {policy.name}: there is no governor {_GOVERNOR} here"
        draft.refusals.add(ReasonCode.GOVERNOR_ABSENT, why)
        return
    draft.state[governor] = _GOVERNOR
    if epp in draft.state:
        draft.state[epp] = KERNEL_ASSIGNED
        draft.effects.append(
            "EPP: with another governor the kernel sets it by itself; undo brings it back"
        )


def _may_be_clamped(draft: _Draft, changes: Iterable[Change]) -> tuple[str, ...]:
    """A limit of another source, such as a thermal one, hides a request; so does disabled turbo."""
    most = {(item.number, item.name): item.most_khz for item in draft.touched}
    for change in changes:
        if change.cell.kind != "max_khz" or change.old is None:
            continue
        pinned = draft.base.get(change.cell._replace(kind="min_khz")) == change.old
        below = int(change.old) < most[change.cell.number, change.cell.name]
        if pinned or below or draft.facts.turbo is False:
            return (_CLAMPED,)
    return ()


_ACTS: Mapping[type[Action], Callable[[_Draft, Any], None]] = {
    PinCpus: _pin,
    ReleaseCpus: _release,
    PinEvery: _pin_every,
}


class FrequencyBackend(Backend[CpufreqWrite], Protocol):
    def facts(self) -> CpufreqFacts:
        """Facts for a proposal. Raises OSError.

        To read base frequencies the kernel interrupts each CPU for some microseconds: only for a
        requested preview, never for monitoring.
        """

    def keepers(self) -> tuple[str, ...]:
        """Messages on other programs that may set frequencies."""

    def state(self) -> State:
        """State of every policy in use. Raises OSError."""

    @property
    def subject(self) -> str:
        return "the frequencies"

    @property
    def renewed(self) -> str:
        return "cpufreq has another driver since, which undid it"

    def became(self, changes: Sequence[Change], state: State) -> tuple[Change, ...]:
        """Limits may be clamped: by another's request, or since turbo was switched off."""
        return tuple(
            replace(change, new=state.get(change.cell, change.new))
            if change.cell.kind in _LIMITS
            else change
            for change in changes
        )

    def steps(self, state: State, changes: Iterable[Change]) -> tuple[CpufreqWrite, ...]:
        return writes(state, changes)

    def plan(
        self, actions: Sequence[Action], commands: tuple[str, ...], history: HistoryReader
    ) -> Proposal:
        facts, state = self.facts(), self.state()
        known, unknown = list[Entry](), list[str]()
        try:
            known += history()
        except (PermissionError, DamagedJournalError) as error:
            why = "the journal is root's" if isinstance(error, PermissionError) else error
            unknown = [f"what it was before nftop's changes is not known: {why}"]
        proposal = propose(state, facts, known, actions, commands)
        others = self.keepers() if proposal.changes else ()
        if any(isinstance(action, ReleaseCpus) for action in actions):
            cells = {change.cell for change in proposal.changes}
            used = [item for item in kept(known) if cells & {row.cell for row in item.changes}]
            others = (*unverified(used), *others)
        return replace(proposal, warnings=(*unknown, *proposal.warnings, *others))

    def checked_proposal(
        self, base: State, target: State, changes: Sequence[Change], commands: tuple[str, ...]
    ) -> Proposal:
        del target
        seen = state_of_policies(base, [change.cell for change in changes])
        keepers = self.keepers() if changes else ()
        return Proposal(seen, tuple(changes), warnings=keepers, commands=commands)

    def shell(self, proposal: Proposal) -> tuple[str, ...]:
        planned = writes(proposal.base, proposal.changes)
        return (f"cd {self.where}", *in_shell(planned)) if planned else ()


def state_of_policies(state: State, like: Iterable[Cell]) -> State:
    own = {(cell.number, cell.name) for cell in like}
    return {cell: value for cell, value in state.items() if (cell.number, cell.name) in own}
