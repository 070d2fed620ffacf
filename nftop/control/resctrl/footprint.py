"""The plan of a footprint: what counts each network function, and which masks it is given.

A pure function of a frame, a state and rules; nothing is written. A line in the cache counts for
the monitor (RMID) that filled it, so that a new monitoring group counts nothing of what stays
there. Where a class has nothing but one network function, the counters of the class are used, and
no monitor.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nftop.control.rdt_limits import MaskRule, Rules
from nftop.control.resctrl.plan import propose
from nftop.control.resctrl.thread_monitors import creations, monitor_name
from nftop.derive.cache.ways import in_use
from nftop.model.change import Action, Cell, CreateMonitor, Proposal, SetSchemata, State
from nftop.model.experiment import Experiment, HarmLimits, Setting, Timing
from nftop.model.footprint import UNREQUESTED, FootprintCounter, FootprintPlan, FootprintSubject
from nftop.model.frame import CacheClass, Frame, NfRow, is_named
from nftop.model.ids import L3Domain
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.rdt import EXCLUSIVE, LOCKED, ROOT, class_name, split_path
from nftop.model.struct import dataclass, field, replace

_LINES = ("L3", "L3DATA", "L3CODE")
_MANY_CLASSES = Missing(Reason.UNDEFINED, "its CPUs here are in several classes")
# New monitoring groups count lines as they are filled anew.
_NEW_MONITOR_SETTLE_S = 15.0


class FootprintError(Exception):
    """There is nothing to measure; the text says why."""


@dataclass(frozen=True, slots=True)
class FootprintRequest:
    """What an operator asks for.

    Attributes:
        watch: names of network functions, whole or up to the `/`; empty: all.
        own: also with ways of its own, one after the other.
        monitors: monitoring groups may be made.
        commands: the equivalent command line.
    """

    watch: tuple[str, ...] = ()
    own: bool = False
    monitors: bool = True
    measure_s: float = 30.0
    limits: HarmLimits = field(default_factory=HarmLimits)
    seed: int = 0
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Host:
    """What a plan is made of; `rules` with the groups of all polling threads."""

    frame: Frame
    state: State
    rules: Rules

    @property
    def lines(self) -> tuple[str, ...]:
        """Lines of schemata of the last-level cache."""
        cells = (cell.name for cell in self.state if cell.kind == "schemata")
        return tuple(sorted(set(cells) & set(_LINES)))

    @property
    def mask_rule(self) -> MaskRule | None:
        return self.rules.masks.get(self.lines[0]) if self.lines else None

    def classes_at(self, nf: NfRow, l3: L3Domain) -> set[str]:
        """Classes in effect on a network function's CPUs at a cache."""
        table = self.frame.cpus
        rows = (table.topology.row_of.get(cpu) for cpu in nf.cpus)
        owns = [
            table.group[row]
            for row in rows
            if row is not None and table.topology.cpus[row].l3 == l3
        ]
        return {own.name for own in owns if isinstance(own, CacheClass)}

    def caches_of(self, nf: NfRow) -> tuple[L3Domain, ...]:
        rows, cpus = self.frame.topology.row_of, self.frame.topology.cpus
        l3s = {cpus[rows[cpu]].l3 for cpu in nf.cpus if cpu in rows}
        return tuple(sorted(l3 for l3 in l3s if l3 is not None))

    def has_others(self, nf: NfRow, group: str, l3: L3Domain) -> bool:
        """Whether a class has CPUs or threads at a cache that are not this network function's."""
        table = self.frame.cpus
        members = {
            info.cpu
            for info, own in zip(table.topology.cpus, table.group, strict=True)
            if isinstance(own, CacheClass) and own.name == group and info.l3 == l3
        }
        row = next((item for item in self.frame.groups if item.name == group), None)
        threads = 0 if row is None else row.tasks
        own_tids = {thread.tid for thread in nf.threads}
        return group == ROOT or not members <= set(nf.cpus) or threads > len(own_tids)


def plan_footprint(
    request: FootprintRequest, frame: Frame, state: State, rules: Rules, identity: str
) -> FootprintPlan:
    """The plan of a footprint.

    Args:
        request: of the operator.
        frame: the host's, with its network functions.
        state: its classes now, which are restored at the end.
        rules: its rules, with the groups of all polling threads.
        identity: of the backend.

    Raises:
        FootprintError: nothing can be measured.
    """
    host = _Host(frame, state, rules)
    nfs = _watched(request, frame)
    subjects, monitors = _metered(host, request, nfs)
    if all(isinstance(item.counter, Missing) for item in subjects):
        raise FootprintError(
            "; ".join(
                dict.fromkeys(
                    f"{item.name}: {item.counter.message}"
                    for item in subjects
                    if isinstance(item.counter, Missing)
                )
            )
        )
    settings = [_setting(host, "together", monitors, ())] if monitors else []
    if request.own:
        subjects = tuple(_with_own(host, item, monitors, settings) for item in subjects)
    changes = tuple(dict.fromkeys(c for item in settings for c in item.changes))
    base = propose(state, rules, monitors).base
    groups = tuple(dict.fromkeys(item.group for item in subjects if item.group))
    rule, timing = host.mask_rule, Timing(measure_s=request.measure_s)
    if monitors:
        timing = replace(timing, settle_least_s=_NEW_MONITOR_SETTLE_S)
    ways = {domain.l3: domain.ways for domain in frame.domains}
    sizes = {domain.l3: domain.size_bytes for domain in frame.domains}
    return FootprintPlan(
        subjects=subjects,
        experiment=Experiment(
            kind="try",
            group=groups[0] if groups else ROOT,
            settings=tuple(settings),
            watch={nf.key: nf.name for nf in nfs},
            own=frozenset(),
            caches=tuple(sorted({item.l3 for item in subjects})),
            classes=groups,
            proposal=Proposal(base, changes, commands=request.commands, identity=identity),
            rounds_least=1,
            rounds_most=1,
            seed=request.seed,
            timing=timing,
            limits=request.limits,
        ),
        together=0 if monitors else -1,
        measure_s=request.measure_s,
        way_bytes={l3: size / count for l3, count in ways.items() if count and (size := sizes[l3])},
        min_bits=1 if rule is None else rule.min_bits,
    )


def _watched(request: FootprintRequest, frame: Frame) -> tuple[NfRow, ...]:
    nfs = tuple(nf for nf in frame.nfs if nf.problem is None and nf.cpus)
    unknown = [name for name in request.watch if not any(is_named(nf, name) for nf in nfs)]
    if unknown or not nfs:
        known = ", ".join(dict.fromkeys(nf.name for nf in nfs)) or "none"
        missing = unknown[0] if unknown else "that polls"
        raise FootprintError(f"there is no network function {missing}; there are: {known}")
    chosen = [nf for nf in nfs if any(is_named(nf, name) for name in request.watch)]
    return tuple(chosen) if request.watch else nfs


def _metered(
    host: _Host, request: FootprintRequest, nfs: Sequence[NfRow]
) -> tuple[tuple[FootprintSubject, ...], tuple[CreateMonitor, ...]]:
    """Subjects without their own ways, and the monitoring groups to make."""
    subjects, new = list[FootprintSubject](), list[CreateMonitor]()
    for nf in nfs:
        l3s = host.caches_of(nf)
        alone = {
            l3: len(classes) == 1 and not host.has_others(nf, next(iter(classes)), l3)
            for l3 in l3s
            if (classes := host.classes_at(nf, l3))
        }
        counter: FootprintCounter | Missing = "class"
        monitors: tuple[tuple[str, str], ...] = ()
        if not (alone and all(alone.get(l3, False) for l3 in l3s)):
            counter, monitors = _monitored(host, request, nf, new)
        for l3 in l3s:
            classes = host.classes_at(nf, l3)
            group = next(iter(classes)) if len(classes) == 1 else ""
            own = UNREQUESTED if group or not request.own else _MANY_CLASSES
            subjects.append(FootprintSubject(nf.key, nf.name, l3, group, counter, monitors, own))
    return tuple(subjects), tuple(new)


def _monitored(
    host: _Host, request: FootprintRequest, nf: NfRow, new: list[CreateMonitor]
) -> tuple[FootprintCounter | Missing, tuple[tuple[str, str], ...]]:
    """What counts a network function that is not alone in its class; adds to `new`."""
    paths = {thread.monitor for thread in nf.threads}
    if "" not in paths and not isinstance(nf.readings["occupancy_bytes"], Missing):
        return "monitor", tuple(sorted(map(split_path, paths)))
    if not request.monitors:
        return Missing(Reason.SOURCE, "others are in its class: it needs a monitoring group"), ()
    threads = {thread.tid: thread.cpu for thread in nf.threads if thread.tid is not None}
    group_of = {int(name.partition("@")[0]): where for name, where in host.rules.tasks.items()}
    wanted = creations(monitor_name(nf.name, nf.pid), host.state, group_of, threads)
    if not wanted:
        return Missing(Reason.SOURCE, "its threads are not known"), ()
    proposal = propose(host.state, host.rules, [*new, *wanted])
    if proposal.refusals:
        return Missing(Reason.TAKEN, proposal.refusals[0].sentence), ()
    new += wanted
    return "new monitor", tuple((item.group, item.name) for item in wanted)


def _with_own(
    host: _Host,
    subject: FootprintSubject,
    monitors: Sequence[CreateMonitor],
    settings: list[Setting],
) -> FootprintSubject:
    """The subject with the index of its own ways, which are added to `settings`."""
    if not subject.group or isinstance(subject.counter, Missing):
        return subject
    others = [nf for nf in host.frame.nfs if nf.key != subject.key]
    sharers = [nf.name for nf in others if subject.group in host.classes_at(nf, subject.l3)]
    if subject.group == ROOT or sharers:
        names = ", ".join(sharers) or "whatever is in no other class"
        why = f"its class {class_name(subject.group)} has {names} too: give it one of its own"
        return replace(subject, own=Missing(Reason.UNDEFINED, why))
    actions = _own_masks(host, subject, others)
    if isinstance(actions, Missing):
        return replace(subject, own=actions)
    setting = _setting(host, f"{subject.name} L3 {subject.l3}", monitors, actions)
    if not setting.changes:  # its ways are its own today
        return replace(subject, own=Missing(Reason.UNDEFINED, "its ways are its own already"))
    settings.append(setting)
    return replace(subject, own=len(settings) - 1)


def _setting(
    host: _Host, label: str, monitors: Sequence[CreateMonitor], masks: Sequence[SetSchemata]
) -> Setting:
    actions: list[Action] = [*monitors, *masks]
    proposal = propose(host.state, host.rules, actions)
    if proposal.refusals:
        raise FootprintError(f"{label}: {proposal.refusals[0].sentence}")
    return Setting(label, proposal.changes)


def _own_masks(
    host: _Host, subject: FootprintSubject, others: Collection[NfRow]
) -> tuple[SetSchemata, ...] | Missing:
    """Masks that give a class the most ways in which no network function is, for itself.

    Classes without a network function that are in these ways get the least number of ways at their
    edge; classes with one keep theirs.
    """
    l3, lines, rule = subject.l3, host.lines, host.mask_rule
    if rule is None:
        return Missing(Reason.HARDWARE, "the last-level cache can't be allocated here")
    masks: dict[str, int] = {}
    for cell, value in host.state.items():
        if cell.kind == "schemata" and cell.name in lines and cell.number == l3:
            masks[cell.group] = masks.get(cell.group, 0) | int(value, 16)
    forwarding = {name for nf in others for name in host.classes_at(nf, l3)}
    modes = {cell.group: value for cell, value in host.state.items() if cell.kind == "mode"}
    if modes.get(subject.group) in (EXCLUSIVE, *LOCKED):
        return Missing(Reason.UNDEFINED, "its class is exclusive: its ways are its own already")
    used = {row.name for row in host.frame.groups if in_use(row)}
    kept = {name for name in masks if name in forwarding or modes.get(name) in (EXCLUSIVE, *LOCKED)}
    kept -= {subject.group}
    fixed = 0
    for name in kept:
        fixed |= masks[name]
    squeezed = used & masks.keys() - kept - {subject.group}
    run = _longest(~fixed & (1 << rule.ways) - 1, masks[subject.group])
    own, edge = run, 0
    if any(masks[name] & run for name in squeezed):
        own, edge = _without_edge(rule, run, masks[subject.group])
    if own.bit_count() < rule.min_bits:
        return Missing(Reason.UNDEFINED, "other network functions are in all ways of this cache")
    new = {subject.group: own} | {name: edge for name in sorted(squeezed) if masks[name] & own}
    return tuple(
        SetSchemata(name, line, ((int(l3), bits),))
        for name, bits in new.items()
        for line in lines
        if Cell("schemata", name, line, l3) in host.state
    )


def _longest(free: int, now: int) -> int:
    """The longest run of free ways; of equal ones that with the most of the present ways."""
    runs, bits = list[int](), free
    while bits:
        first = (bits & -bits).bit_length() - 1
        tail = bits >> first
        runs.append(((tail ^ (tail + 1)) >> 1) << first)
        bits &= ~runs[-1]
    return max(runs, key=lambda run: (run.bit_count(), (run & now).bit_count()), default=0)


def _without_edge(rule: MaskRule, run: int, now: int) -> tuple[int, int]:
    """A run without the least number of ways at an edge, and these: the edge further from `now`."""
    first, last = (run & -run).bit_length() - 1, run.bit_length() - 1
    least = (1 << rule.min_bits) - 1
    low, high = least << first, least << (last - rule.min_bits + 1)
    edge = low if (low & now).bit_count() <= (high & now).bit_count() else high
    return run & ~edge, edge
