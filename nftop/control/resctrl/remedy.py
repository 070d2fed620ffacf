"""A draft of cache classes, or a command, that would mend an incident.

A pure function of a frame: it reads and writes nothing. Drafts are planned by the code of the
editor, so that they are legal; the operator opens, changes and applies them there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from itertools import count

from nftop.control.rdt_limits import LimitRule, MaskRule, Rules
from nftop.control.resctrl.draft import ask, begin, frame_state
from nftop.derive.cache.ways import cache_of, ways_of
from nftop.model.change import Cell, CreateGroup, MoveCpus, SetSchemata
from nftop.model.frame import CacheClass, Frame, GroupRow
from nftop.model.ids import Cpu, L3Domain, format_cpu_list
from nftop.model.incident import CauseKind, Incident, Party
from nftop.model.number_text import counted
from nftop.model.rdt.rdt import MB, OWN_PREFIX, CacheDomain, IoWays, class_name
from nftop.model.remedy import DraftMask, Remedy, RemedyAction, RemedyCheck
from nftop.model.struct import dataclass, replace

_NEW_GROUP = f"{OWN_PREFIX}apart"
_LEAST_LIMIT_SHARE = 2  # a limit on bandwidth is halved
# A unit's name is untrusted text: no other is written into a command, nor one like an option.
_UNIT = re.compile(r"(?!-)[A-Za-z0-9:_.\\@-]+\.(?:service|scope)")
_CONTAINER_ID = re.compile(r"[0-9a-f]{12,64}")
_NO_CLASSES = "the cache classes of this host are not known"
_UNPROVEN = "that the victims recover; the verdict after the change measures it"


def remedy(incident: Incident, frame: Frame) -> Remedy:
    """What would mend an incident."""
    kind = _KINDS.get(incident.kind)
    if kind is None:
        return Remedy("advice", _TEXTS.get(incident.kind, "no draft or command mends it"))
    if incident.until_ns is not None:
        return Remedy("advice", "it has ended: there is nothing to change")
    return kind(incident, frame)


def remedy_inputs(incident: Incident, frame: Frame) -> tuple[object, ...]:
    """All that `remedy` depends on, to compare: not the numbers that change with each tick."""
    table = frame.cpus
    return (
        incident.kind,
        incident.until_ns is None,
        incident.group,
        incident.l3,
        incident.culprit,
        incident.watch,
        tuple(victim.party.key for victim in incident.victims),
        tuple(frame_state(frame).items()) if frame.groups else (),
        tuple((group.name, group.mba_unit, group.cpus) for group in frame.groups),
        frame.domains,
        frame.limits,
        tuple((nf.key, nf.classes) for nf in frame.nfs),
        table.nf,
        table.group,
        frame.topology,
    )


@dataclass(frozen=True, slots=True)
class _Cache:
    """The incident's cache: bits of ways.

    `victims`: of the victims' classes. `forwarding`: of all classes in which an NF polls behind it.
    `used`: of all other classes.
    """

    domain: CacheDomain
    ways: int
    victims: int
    forwarding: int
    used: int
    io: int
    min_bits: int


def _neighbour(incident: Incident, frame: Frame) -> Remedy:
    """Other ways for the culprit; else a limit on its memory bandwidth."""
    group = next((item for item in frame.groups if item.name == incident.group), None)
    l3 = incident.l3
    if group is None or l3 is None:
        return Remedy("advice", _NO_CLASSES)
    shared = incident.group in _classes_of(incident, frame)
    here = _cache(incident, frame, l3, without=None if shared else group.name)
    mine = cache_of(group, l3)
    old = None if mine is None else ways_of(mine)
    if here is None or old is None:
        return Remedy("advice", _NO_CLASSES)
    new = _best_mask(here, old.bits)
    if new is not None:
        name = _free_name(frame) if shared else group.name
        actions = _moved(incident, group, l3, new, name) if shared else (_masked(group, l3, new),)
        mask = DraftMask(name, l3, here.ways, old.bits, new, here.victims, here.io)
        verb = "move" if new & ~old.bits else "shrink"
        advice = f"{verb} {class_name(name)} off the victims' ways"
        if shared:
            advice = f"move it into a class of its own, {name}"
        checks = _checks(here, old.bits, new)
        words = ["cat", "sweep", "--group", class_name(group.name)]
        # A class that is yet to be made has nothing to sweep.
        sweep = "" if shared else f"{frame.host.program} {shlex.join(words)}"
        wanted = Remedy(
            "draft", advice, actions=actions, checks=checks, unproven=_UNPROVEN, sweep=sweep
        )
        drafted = _drafted(frame, wanted, mask)
        if drafted is not None:
            return drafted
    if not old.bits & here.victims:
        why = "it has no way of its victims"
        return _limited(frame, group, l3, why) or Remedy("advice", why)
    # A limit on a class that it shares with its victims would be theirs too.
    limited = None if shared else _limited(frame, group, l3, "no ways are free")
    return limited or Remedy(
        "advice",
        "no ways are free of its victims: give them fewer ways, or move it to another host",
    )


def _free_name(frame: Frame) -> str:
    """Name of a new class that no class of the host has."""
    known = {group.name for group in frame.groups}
    names = (f"{_NEW_GROUP}{number}" if number > 1 else _NEW_GROUP for number in count(1))
    return next(name for name in names if name not in known)


def _cache(incident: Incident, frame: Frame, l3: L3Domain, without: str | None) -> _Cache | None:
    domain = next((item for item in frame.domains if item.l3 == l3), None)
    if domain is None or domain.ways is None:
        return None
    victims = _classes_of(incident, frame)
    polled = _polled_classes(frame, l3)
    bits = {"victims": 0, "forwarding": 0, "used": 0}
    for group in frame.groups:
        cache = cache_of(group, l3)
        mask = None if cache is None else ways_of(cache)
        if mask is None or group.name == without:
            continue
        if group.name in victims:
            bits["victims"] |= mask.bits
        if group.name in polled:
            bits["forwarding"] |= mask.bits
        else:
            bits["used"] |= mask.bits
    io = domain.io.cbm.bits if isinstance(domain.io, IoWays) else 0
    least = _least(frame)
    return _Cache(domain, domain.ways, bits["victims"], bits["forwarding"], bits["used"], io, least)


def _classes_of(incident: Incident, frame: Frame) -> set[str]:
    """Classes of the victims, by directory."""
    keys = {item.party.key for item in incident.victims}
    return {known.name for nf in frame.nfs if nf.key in keys for known in nf.classes}


def _polled_classes(frame: Frame, l3: L3Domain) -> set[str]:
    table = frame.cpus
    rows = zip(table.topology.cpus, table.nf, table.group, strict=True)
    return {
        group.name
        for info, nf, group in rows
        if nf is not None and info.l3 == l3 and isinstance(group, CacheClass)
    }


def _best_mask(here: _Cache, old: int) -> int | None:
    """A mask of adjacent ways that no victim has, and of no more ways than the old one.

    First one within the old mask; of several that with the fewest ways of other NFs, and of
    devices; then one without ways of other classes; then the largest; then the nearest to the old
    one. None if there is none, or if the old mask has no way of a victim.
    """
    if not old & here.victims:
        return None
    masks = [
        ((1 << size) - 1) << low
        for size in range(max(here.min_bits, 1), old.bit_count() + 1)
        for low in range(here.ways - size + 1)
    ]
    legal = [mask for mask in masks if not mask & here.victims]

    def cost(mask: int) -> tuple[int, ...]:
        return (
            mask & ~old != 0,
            (mask & here.forwarding).bit_count(),
            (mask & here.io).bit_count(),
            mask & here.used != 0,
            -mask.bit_count(),
            (mask ^ old).bit_count(),
        )

    return min(legal, key=cost, default=None)


def _checks(here: _Cache, old: int, new: int) -> tuple[RemedyCheck, ...]:
    low = new & -new
    filled = new + low
    io, other = (new & here.io).bit_count(), (new & (here.used | here.forwarding)).bit_count()
    freed = (old & here.victims & ~new).bit_count()
    return (
        RemedyCheck(filled & (filled - 1) == 0, "side by side"),
        RemedyCheck(io == 0, "avoids I/O" if io == 0 else f"{counted(io, 'way')} of I/O too"),
        RemedyCheck(freed > 0, f"frees {counted(freed, 'way')} of victims"),
        RemedyCheck(other == 0, f"shares {other} with others" if other else "shares none"),
    )


def _masked(group: GroupRow, l3: L3Domain, bits: int) -> SetSchemata:
    cache = cache_of(group, l3)
    line = "L3DATA" if cache is not None and cache.code is not None else "L3"
    return SetSchemata(group.name, line, ((int(l3), bits),))


def _moved(
    incident: Incident, group: GroupRow, l3: L3Domain, bits: int, name: str
) -> tuple[RemedyAction, ...]:
    """Actions that give the culprit's CPUs a class of their own."""
    cpus = () if incident.culprit is None else incident.culprit.cpus
    line = _masked(group, l3, bits)
    return (CreateGroup(name), SetSchemata(name, line.resource, line.values), MoveCpus(cpus, name))


def _drafted(frame: Frame, drafted: Remedy, mask: DraftMask | None = None) -> Remedy | None:
    """`drafted` with the plan of its actions; None if that is refused."""
    start = begin(frame_state(frame), _rules(frame), frame.host.program)
    draft, refusal = ask(start, drafted.actions)
    if refusal and not draft.changed:
        return None
    return replace(drafted, commands=draft.plan.commands, proposal=draft.plan, mask=mask)


def _limited(frame: Frame, group: GroupRow, l3: L3Domain, why: str) -> Remedy | None:
    """Half of the culprit's memory bandwidth."""
    value = frame_state(frame).get(Cell("schemata", group.name, MB, l3))
    limit = _rules(frame).limit
    if value is None or limit is None:
        return None
    half = max(limit.least, int(value) // _LEAST_LIMIT_SHARE // limit.step * limit.step)
    if half >= int(value):
        return None
    actions = (SetSchemata(group.name, MB, ((int(l3), half),)),)
    advice = f"{why}: halve the memory bandwidth of {class_name(group.name)}"
    wanted = Remedy("draft", advice, actions=actions, unproven=_UNPROVEN)
    return _drafted(frame, wanted)


def _least(frame: Frame) -> int:
    """Least ways of a mask; where unknown that of Haswell, which every later CPU accepts too."""
    return 2 if frame.limits.min_bits is None else frame.limits.min_bits


def _rules(frame: Frame) -> Rules:
    """What the host accepts, as far as a frame has it; the editor reads it from the host."""
    limits = frame.limits
    masks: dict[str, MaskRule] = {}
    io: dict[int, tuple[int, str]] = {}
    for domain in frame.domains:
        if domain.ways is None:
            continue
        rule = MaskRule(domain.ways, _least(frame), bool(limits.sparse))
        masks |= dict.fromkeys(("L3", "L3DATA", "L3CODE"), rule)
        if isinstance(domain.io, IoWays):
            io[int(domain.l3)] = domain.io.cbm.bits, domain.io.provenance
    unit = frame.groups[0].mba_unit if frame.groups else "percent"
    limit = None
    if limits.mba_least is not None and unit == "percent":
        limit = LimitRule(limits.mba_least, limits.mba_step or 1, 100)
    siblings = {info.cpu: frozenset(info.siblings) for info in frame.topology.cpus}
    return Rules(
        masks,
        limit,
        limits.closids,
        io,
        {int(cpu): frozenset(map(int, others)) for cpu, others in siblings.items()},
    )


def _moved_away(incident: Incident, frame: Frame) -> Remedy:
    """Other CPUs for what runs on, or beside, a poller's CPU."""
    culprit = incident.culprit
    if culprit is None:
        return Remedy("advice", "what runs there is not known yet")
    if culprit.kind == "host":
        if "steal" in culprit.name:
            return Remedy("advice", "ask the hypervisor's operator for a CPU of its own")
        return Remedy("advice", "move interrupts away from it: /proc/irq/*/smp_affinity_list")
    if culprit.pid is None:
        return Remedy("advice", "what runs there has no process")
    cpus = _quiet_cpus(frame, incident)
    if not cpus:
        return Remedy("advice", "no CPU is without a poller: pin it to the least busy one")
    where = format_cpu_list(cpus)
    unproven = "nftop does not run it; a container or a manager may pin it again"
    commands = (shlex.join(["taskset", "-acp", where, str(culprit.pid)]), *_by_unit(culprit, where))
    if frame.host.simulated:  # pasted, it must not pin a process of this machine
        commands = tuple(f"# {command}" for command in commands)
    return Remedy(
        "command",
        f"run {culprit.name} on CPUs without a poller: {where}",
        commands,
        unproven=unproven,
    )


def _by_unit(culprit: Party, where: str) -> Iterator[str]:
    """The same for the whole unit of system.slice, or container, so that it lasts."""
    kind, _, name = culprit.container.rpartition(" ")
    if not kind and _UNIT.fullmatch(name):
        yield shlex.join(["systemctl", "set-property", "--runtime", name, f"AllowedCPUs={where}"])
    elif kind == "docker" and _CONTAINER_ID.fullmatch(name):
        yield shlex.join(["docker", "update", "--cpuset-cpus", where, name])
    elif kind == "libpod" and _CONTAINER_ID.fullmatch(name):
        yield shlex.join(["podman", "update", "--cpuset-cpus", where, name])


def _quiet_cpus(frame: Frame, incident: Incident) -> tuple[Cpu, ...]:
    """CPUs that are not isolated, without an NF there or on a sibling; of its package if any."""
    table = frame.cpus
    polled = {info.cpu for info, nf in zip(table.topology.cpus, table.nf, strict=True) if nf}
    polled |= set(frame.topology.with_siblings(polled))
    free = [
        info
        for info in frame.topology.cpus
        if info.online and not info.isolated and info.cpu not in polled
    ]
    rows = frame.topology.row_of
    own = {frame.topology.cpus[rows[cpu]].package for cpu in incident.watch if cpu in rows}
    near = [info.cpu for info in free if info.package in own]
    return tuple(near or [info.cpu for info in free])


_TEXTS: Mapping[CauseKind, str] = {
    "gone": "start it again, or look at its log: journalctl, dmesg",
    "hung": "ps -o stat,wchan -p PID: T is stopped, kill -CONT lets it go on; else restart it",
    "throttled": "look at fans, air flow and power limits: dmesg, turbostat, screen 7",
    "clock": "pin its threads to high-priority cores, or give this core a higher class (screen 7)",
    "remote": "give it memory of its own socket: DPDK --socket-mem, VPP buffers {page-size} and "
    "cpu {} of one node, numactl --membind",
    "ddio": "fewer or shorter receive rings (DPDK --rxd), or keep classes off the I/O ways",
    "channels": "spread the memory modules over all channels",
    "registers": "larger transmit bursts: --burst, tx_free_thresh, rte_eth_tx_buffer",
    "descriptors": "write descriptors back together: RX_DESC_WB, larger receive bursts",
    "load": "more cores or queues for it, or less traffic",
    "flows": "fewer flows; look at them: ovs-appctl upcall/show, dpctl/dump-flows; enable the SMC "
    "(other_config:smc-enable), or raise other_config:flow-limit",
    "stopped": "look at the sender and the link",
    "host": "stop the other user of the counters, or leave one of the two sources out",
}

_KINDS: Mapping[CauseKind, Callable[[Incident, Frame], Remedy]] = {
    "neighbour": _neighbour,
    "cpu": _moved_away,
    "sibling": _moved_away,
}
