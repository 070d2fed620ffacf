"""The plan of a sweep: masks of one class with ever more ways, each of which contains the last.

A pure function of a frame, a state and rules; nothing is written. Every setting is planned by the
code of an ordinary change, so that what the kernel would refuse is left out here.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

from nftop.control.rdt_limits import MaskRule, Rules, mask_problem
from nftop.control.resctrl.operations import ENABLED, domains_of, io_cell, io_switch
from nftop.control.resctrl.plan import propose
from nftop.derive.cache.ways import in_use
from nftop.model.change import Cell, Proposal, SetIoWays, SetSchemata, State
from nftop.model.experiment import Experiment, HarmLimits, Setting, Timing
from nftop.model.frame import CacheClass, Frame, NfRow, is_named
from nftop.model.ids import Cpu, L3Domain
from nftop.model.number_text import counted
from nftop.model.rdt.rdt import EXCLUSIVE, LOCKED, NO_IO_ALLOC, ROOT, IoWays, class_name
from nftop.model.struct import dataclass, field, replace

_LINES = ("L3", "L3DATA", "L3CODE")
# Ways shared by a mask, in the order in which they are avoided.
_Cost: TypeAlias = tuple[int, ...]
_Interval: TypeAlias = tuple[int, int]


class SweepError(Exception):
    """There is nothing to try; the text says why."""


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """What an operator asks for.

    Attributes:
        group: directory of the class; "" with `of_io`.
        of_io: sweep the ways of I/O.
        widths: least and most ways; None: all that the hardware takes.
        watch: names of network functions, whole or up to the `/`; empty: all at the class' caches.
        caches: L3 domains; empty: all that the class and a watched network function use.
        commands: the equivalent command line.
    """

    group: str
    widths: tuple[int, int] | None = None
    watch: tuple[str, ...] = ()
    caches: tuple[int, ...] = ()
    rounds_most: int = 8
    seed: int = 0
    tolerance_ratio: float = 0.02
    timing: Timing = field(default_factory=Timing)
    limits: HarmLimits = field(default_factory=HarmLimits)
    commands: tuple[str, ...] = ()
    of_io: bool = False


def plan_sweep(
    request: SweepRequest, frame: Frame, state: State, rules: Rules, identity: str
) -> Experiment:
    """The plan of a sweep.

    Args:
        request: of the operator.
        frame: the host's, with its network functions.
        state: its classes now, which are restored at the end.
        rules: its rules.
        identity: of the backend.

    Raises:
        SweepError: fewer than two settings are possible, or nothing can be watched.
    """
    if request.of_io:
        return _plan_io(request, frame, state, rules, identity)
    group = request.group
    if group != ROOT and Cell("group", group) not in state:
        known = sorted({class_name(cell.group) for cell in state if cell.kind == "schemata"})
        raise SweepError(f"there is no group {class_name(group)}; there are: {', '.join(known)}")
    here = _caches(request, frame, state)
    watched = _watched(request, frame, here)
    caches = _in_common(request, frame, here, watched)
    own = frozenset(nf.key for nf in watched if group in classes_at(frame, nf, caches))
    sharing = {l3: _sharing(group, (frame, state, rules), l3, watched, own) for l3 in caches}
    settings, left_out = _settings(request, state, rules, sharing)
    if len(settings) < 2:
        raise SweepError(_too_few(request, settings, left_out))
    used = {name for nf in watched for name in classes_at(frame, nf, caches)}
    classes = tuple(dict.fromkeys((group, *sorted(used))))
    plan = _experiment(request, watched, (settings, left_out), state, identity)
    plan = replace(plan, group=group, own=own, caches=caches, classes=classes)
    return _with_polled(plan, frame, sharing, rules)


def _plan_io(
    request: SweepRequest, frame: Frame, state: State, rules: Rules, identity: str
) -> Experiment:
    """The plan of a sweep of the ways of I/O; arguments and errors as of `plan_sweep`.

    All watched network functions want them, as if they were in their class: the reference is the
    widest setting. Caches that are not swept keep the ways that they have; where these are not
    known there is no plan.
    """
    switch = io_switch(state)
    if switch is None or rules.io_alloc is None:
        raise SweepError(NO_IO_ALLOC.message)
    rule = rules.masks.get(switch.name)
    if rule is None:
        raise SweepError(f"the kernel does not report the ways of {switch.name}")
    here = tuple(map(L3Domain, domains_of(state, switch.name)))
    if wrong := [l3 for l3 in request.caches if l3 not in here]:
        raise SweepError(f"there is no L3 {wrong[0]}")
    watched = _watched(request, frame, here)
    caches = tuple(L3Domain(l3) for l3 in request.caches) or _in_common(
        request, frame, here, watched
    )
    chains, ways_of_all = {}, {}
    now = {l3: _io_now(state, rules, switch, l3) for l3 in here}
    # Switched on without a value for a cache, the kernel gives I/O every free way there.
    if unknown := [l3 for l3 in here if l3 not in caches and not now[l3]]:
        raise SweepError(
            f"the ways of I/O of L3 {unknown[0]} are not known, so that a sweep of other caches "
            "can't keep them: sweep all caches"
        )
    low, high = request.widths or (1, rule.ways)
    for l3 in caches:
        sharing = _sharing("", (frame, state, rules), l3, watched, {"all"})
        sharing = replace(sharing, now=now[l3], io=0)
        chains[l3] = _chain(rule, max(low, rule.min_bits), high, sharing)
        ways_of_all[l3] = sharing
    settings, left_out = _io_settings((state, rules), now, chains, (low, high))
    if len(settings) < 2:
        raise SweepError(_too_few(request, settings, left_out))
    used = sorted({name for nf in watched for name in classes_at(frame, nf, caches)})
    plan = _experiment(request, watched, (settings, left_out), state, identity)
    own = frozenset(nf.key for nf in watched)
    plan = replace(plan, own=own, caches=caches, classes=tuple(used), of_io=True)
    return _with_polled(plan, frame, ways_of_all, rules)


def _with_polled(
    plan: Experiment, frame: Frame, sharing: Mapping[L3Domain, _Sharing], rules: Rules
) -> Experiment:
    """The plan with the network functions whose ways its masks share, and the ends of masks."""
    settings, used = list[Setting](), set[str]()
    for setting in plan.settings:
        rows = {
            l3: {name: both for name, bits in sharing[l3].polled.items() if (both := bits & mask)}
            for l3, mask in setting.masks.items()
        }
        shared = {l3: classes for l3, classes in rows.items() if classes}
        used |= {name for classes in shared.values() for name in classes}
        settings.append(replace(setting, shared=shared))
    polled = {
        name: tuple(nf.name for nf in frame.nfs if name in classes_at(frame, nf, plan.caches))
        for name in sorted(used)
    }
    rule = next(rules.masks[line] for line in _LINES if line in rules.masks)
    ends = rule.min_bits, rule.ways
    return replace(plan, settings=tuple(settings), polled=polled, ends=ends)


def _experiment(
    request: SweepRequest,
    watched: Sequence[NfRow],
    chosen: tuple[tuple[Setting, ...], tuple[str, ...]],
    state: State,
    identity: str,
) -> Experiment:
    """A sweep of no class and no cache yet; `chosen`: its settings, and what is left out."""
    settings, left_out = chosen
    return Experiment(
        kind="sweep",
        group="",
        settings=settings,
        watch={nf.key: nf.name for nf in watched},
        own=frozenset(),
        caches=(),
        classes=(),
        proposal=Proposal(
            state,
            tuple(change for setting in settings for change in setting.changes),
            commands=request.commands,
            identity=identity,
        ),
        left_out=left_out,
        rounds_most=request.rounds_most,
        rounds_least=min(2, request.rounds_most),
        seed=request.seed,
        tolerance_ratio=request.tolerance_ratio,
        timing=request.timing,
        limits=request.limits,
    )


def _io_settings(
    host: tuple[State, Rules],
    now: Mapping[L3Domain, int],
    chains: Mapping[L3Domain, Mapping[int, int]],
    widths: tuple[int, int],
) -> tuple[tuple[Setting, ...], tuple[str, ...]]:
    """Settings by ascending width, and why widths are left out; `now`: ways of every cache."""
    (state, rules), settings, left_out = host, list[Setting](), list[str]()
    line = next(cell.name for cell in state if cell.kind == "io_alloc")
    for ways in range(widths[0], widths[1] + 1):
        masks = {l3: chain[ways] for l3, chain in chains.items() if ways in chain}
        label = counted(ways, "way")
        if len(masks) < len(chains):
            left_out.append(f"{label}: {_why_not(rules.masks[line], ways)}")
            continue
        values = [(int(l3), bits) for l3, bits in {**now, **masks}.items() if bits]
        proposal = propose(state, rules, [SetIoWays(enabled=True, values=tuple(values))])
        if proposal.refusals:
            left_out.append(f"{label}: {proposal.refusals[0].sentence}")
        else:
            settings.append(Setting(label, proposal.changes, ways, masks))
    return tuple(settings), tuple(left_out)


def _io_now(state: State, rules: Rules, switch: Cell, l3: L3Domain) -> int:
    """Ways of I/O of a cache as they are, or 0 if unknown."""
    mask = state.get(io_cell(switch.name, l3))
    return rules.io.get(l3, (0, ""))[0] if mask is None else int(mask, 16)


def _too_few(request: SweepRequest, settings: Sequence[Setting], left_out: Sequence[str]) -> str:
    """Why there is no second width to compare with."""
    if request.widths is not None and request.widths[0] == request.widths[1]:
        return f"{counted(request.widths[0], 'way')} is one width: a sweep compares two at least"
    possible = f"only {settings[0].label} is possible" if settings else "no width is possible"
    return "; ".join([f"{possible}, and a sweep compares two at least", *left_out])


def set_command(plan: Experiment, setting: int, program: str) -> str:
    """The command line that sets the masks of a setting."""
    masks = plan.settings[setting].masks
    if plan.of_io:
        cells = plan.proposal.base.items()
        verb = "set" if ENABLED in (v for c, v in cells if c.kind == "io_alloc") else "enable"
        changed = [item for item in plan.settings[setting].changes if item.cell.kind == "io_cbm"]
        words = [f"--l3 {item.cell.number}={item.new}" for item in changed]
        return f"{program} cat io {verb} {' '.join(words)}"
    lines = {change.cell.name for item in plan.settings for change in item.changes}
    options = sorted(name.lower() for name in lines & set(_LINES)) or ["l3"]
    words = [f"--{option} {int(l3)}={bits:x}" for option in options for l3, bits in masks.items()]
    name = shlex.quote(class_name(plan.group))
    return f"{program} cat set --group {name} {' '.join(words)}"


def set_actions(plan: Experiment, setting: int) -> tuple[SetSchemata, ...]:
    """Actions of a draft that sets the masks of a setting."""
    masks = tuple((int(l3), bits) for l3, bits in plan.settings[setting].masks.items())
    lines = {change.cell.name for item in plan.settings for change in item.changes}
    return tuple(SetSchemata(plan.group, line, masks) for line in sorted(lines & set(_LINES)))


def _caches(request: SweepRequest, frame: Frame, state: State) -> tuple[L3Domain, ...]:
    """Caches in which the class has a mask, and a CPU in effect if that is known."""
    cells = [cell for cell in state if cell.kind == "schemata" and cell.group == request.group]
    masks = {cell.number for cell in cells if cell.name in _LINES}
    if not masks:
        raise SweepError(f"{class_name(request.group)} has no mask of a last-level cache")
    wrong = [l3 for l3 in request.caches if l3 not in masks]
    if wrong:
        raise SweepError(f"{class_name(request.group)} has no mask in L3 {wrong[0]}")
    if request.caches:
        return tuple(map(L3Domain, sorted(set(request.caches))))
    table = frame.cpus
    at = {
        info.l3
        for info, own in zip(table.topology.cpus, table.group, strict=True)
        if isinstance(own, CacheClass) and own.name == request.group and info.l3 is not None
    }
    return tuple(sorted(L3Domain(l3) for l3 in masks if not at or l3 in at))


def _watched(
    request: SweepRequest, frame: Frame, caches: Collection[L3Domain]
) -> tuple[NfRow, ...]:
    if request.watch:
        return named_nfs(frame, request.watch)
    nearby = tuple(
        nf for nf in frame.nfs if nf.problem is None and caches_of_nf(frame, nf) & set(caches)
    )
    if not nearby:
        raise SweepError(
            f"no network function polls at a cache of {class_name(request.group)}: nothing to watch"
        )
    return nearby


def named_nfs(frame: Frame, names: Sequence[str]) -> tuple[NfRow, ...]:
    """Network functions of these names, as `is_named` has them. Raises SweepError."""
    named = {name: [nf for nf in frame.nfs if is_named(nf, name)] for name in names}
    unknown = [name for name, nfs in named.items() if not nfs]
    if unknown:
        known = ", ".join(dict.fromkeys(nf.name for nf in frame.nfs)) or "none"
        raise SweepError(f"there is no network function {unknown[0]}; there are: {known}")
    return tuple(nf for nf in frame.nfs if any(nf in nfs for nfs in named.values()))


def _in_common(
    request: SweepRequest, frame: Frame, caches: tuple[L3Domain, ...], watched: Sequence[NfRow]
) -> tuple[L3Domain, ...]:
    """Of these caches those that a watched network function uses."""
    polled = {l3 for nf in watched for l3 in caches_of_nf(frame, nf)}
    common = tuple(l3 for l3 in caches if l3 in polled)
    if not common:
        names = ", ".join(nf.name for nf in watched)
        raise SweepError(f"{class_name(request.group)} and {names} share no last-level cache")
    return common


def caches_of_nf(frame: Frame, nf: NfRow) -> set[L3Domain]:
    """Caches of the CPUs that a network function polls on."""
    rows = frame.topology.row_of
    l3s = (frame.topology.cpus[rows[cpu]].l3 for cpu in nf.cpus if cpu in rows)
    return {l3 for l3 in l3s if l3 is not None}


def classes_at(frame: Frame, nf: NfRow, caches: Collection[L3Domain]) -> set[str]:
    """Classes in effect on a network function's CPUs at these caches."""
    table = frame.cpus

    def in_effect(cpu: Cpu) -> str | None:
        row = table.topology.row_of.get(cpu)
        if row is None or table.topology.cpus[row].l3 not in caches:
            return None
        own = table.group[row]
        return own.name if isinstance(own, CacheClass) else None

    return {name for cpu in nf.cpus if (name := in_effect(cpu)) is not None}


def _settings(
    request: SweepRequest, state: State, rules: Rules, sharing: Mapping[L3Domain, _Sharing]
) -> tuple[tuple[Setting, ...], tuple[str, ...]]:
    """Settings by ascending width, and why widths are left out."""
    cells = [cell for cell in state if cell.kind == "schemata" and cell.group == request.group]
    lines = sorted({cell.name for cell in cells if cell.name in _LINES})
    rule = rules.masks.get(lines[0])
    if rule is None:
        raise SweepError(f"the kernel does not report the ways of {lines[0]}")
    low, high = request.widths or (1, rule.ways)
    chains = {l3: _chain(rule, max(low, rule.min_bits), high, item) for l3, item in sharing.items()}
    settings, left_out = list[Setting](), list[tuple[int, str]]()
    for ways in range(low, high + 1):
        masks = {l3: chain[ways] for l3, chain in chains.items() if ways in chain}
        if len(masks) < len(chains):
            left_out.append((ways, _why_not(rule, ways)))
            continue
        values = tuple((int(l3), bits) for l3, bits in masks.items())
        proposal = propose(
            state, rules, [SetSchemata(request.group, line, values) for line in lines]
        )
        if proposal.refusals:
            left_out.append((ways, proposal.refusals[0].sentence))
            continue
        io = {l3: bits for l3, mask in masks.items() if (bits := mask & sharing[l3].io)}
        settings.append(Setting(counted(ways, "way"), proposal.changes, ways, masks, io))
    return tuple(settings), _by_reason(left_out)


def _by_reason(left_out: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    """Sentences on widths that are left out, one for adjacent widths with the same reason."""
    lines = list[str]()
    for why, rows in groupby(left_out, key=lambda row: row[1]):
        widths = [ways for ways, _ in rows]
        span = counted(widths[0], "way") if len(widths) == 1 else f"{widths[0]}-{widths[-1]} ways"
        lines.append(f"{span}: {why}")
    return tuple(lines)


def _why_not(rule: MaskRule, ways: int) -> str:
    if ways < rule.min_bits:
        return f"a class has {counted(rule.min_bits, 'way')} at least"
    if ways > rule.ways:
        return f"the cache has {counted(rule.ways, 'way')}"
    return "no legal mask contains the narrower ones: other classes are exclusive"


@dataclass(frozen=True, slots=True)
class _Sharing:
    """Bits of ways in one cache, without those of the class itself.

    Attributes:
        watched: of classes of watched network functions. forwarding: of others'.
        io: of devices. used: of other classes in use. forbidden: of exclusive classes.
        polled: of each other class with a network function. now: of the class.
        stays: its masks are within the present one, or contain it.
    """

    watched: int
    forwarding: int
    io: int
    used: int
    forbidden: int
    now: int
    stays: bool
    polled: Mapping[str, int]

    def cost(self, mask: int) -> _Cost:
        """What a mask shares, and its distance from the present one."""
        outside = min((mask & ~self.now).bit_count(), (self.now & ~mask).bit_count())
        return (
            outside * self.stays,
            (mask & self.watched).bit_count(),
            (mask & self.forwarding).bit_count(),
            (mask & self.io).bit_count(),
            (mask & self.used).bit_count(),
            (mask ^ self.now).bit_count(),
        )


def _sharing(
    group: str,
    host: tuple[Frame, State, Rules],
    l3: L3Domain,
    watched: Sequence[NfRow],
    own: Collection[str],
) -> _Sharing:
    """What the class `group` would share in one cache of a host; `own`: keys of NFs in it."""
    frame, state, rules = host
    masks: dict[str, int] = {}
    for cell, value in state.items():
        if cell.kind == "schemata" and cell.name in _LINES and cell.number == l3:
            masks[cell.group] = masks.get(cell.group, 0) | int(value, 16)

    def bits(names: Collection[str]) -> int:
        total = 0
        for name in names:
            total |= masks.get(name, 0) if name != group else 0
        return total

    mode = {cell.group: value for cell, value in state.items() if cell.kind == "mode"}
    alone = {name for name in masks if mode.get(name) in (EXCLUSIVE, *LOCKED)}
    keys = {nf.key for nf in watched}
    others = [nf for nf in frame.nfs if nf.key not in keys]
    domain = next((item for item in frame.domains if item.l3 == l3), None)
    io = domain.io.cbm.bits if domain is not None and isinstance(domain.io, IoWays) else 0
    return _Sharing(
        watched=bits({name for nf in watched for name in classes_at(frame, nf, [l3])}),
        forwarding=bits({name for nf in others for name in classes_at(frame, nf, [l3])}),
        io=io or rules.io.get(l3, (0, ""))[0],
        used=bits({item.name for item in frame.groups if in_use(item)}),
        forbidden=bits(set(masks) if mode.get(group) == EXCLUSIVE else alone),
        now=masks.get(group, 0),
        stays=bool(own),
        polled={
            name: masks[name]
            for nf in frame.nfs
            for name in sorted(classes_at(frame, nf, [l3]))
            if name in masks and name != group
        },
    )


def _chain(rule: MaskRule, low: int, high: int, sharing: _Sharing) -> Mapping[int, int]:
    """By width a mask of adjacent ways that contains the next smaller one, at the least total cost.

    `low` to `high` ways; it ends before the first width without a legal mask.
    """
    best: dict[_Interval, tuple[_Cost, _Interval | None]] = {}
    for ways in range(low, min(high, rule.ways) + 1):
        for first in range(rule.ways - ways + 1):
            mask = ((1 << ways) - 1) << first
            if mask_problem(rule, mask) or mask & sharing.forbidden:
                continue
            own, last = sharing.cost(mask), first + ways - 1
            if ways == low:
                best[first, last] = own, None
                continue
            within = [(first, last - 1), (first + 1, last)]
            known = [(best[item][0], item) for item in within if item in best]
            if known:
                before, source = min(known)
                total = tuple(a + b for a, b in zip(before, own, strict=True))
                best[first, last] = total, source
    if not best:
        return {}
    widest = max(last - first for first, last in best)
    ends = [(best[item][0], item) for item in best if item[1] - item[0] == widest]
    at: _Interval | None = min(ends)[1]
    chain: dict[int, int] = {}
    while at is not None:
        first, last = at
        chain[last - first + 1] = ((1 << (last - first + 1)) - 1) << first
        at = best[at][1]
    return chain
