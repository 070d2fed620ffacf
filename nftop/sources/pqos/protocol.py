"""Messages of the process that has libpqos, and their values as resctrl's table."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from nftop.model.ids import Cpu, L3Domain
from nftop.model.missing import Missing, Reason
from nftop.model.number_text import counted
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import (
    EVENTS,
    ROOT,
    SHAREABLE,
    CacheDomain,
    Event,
    GroupCache,
    IoWays,
    Limits,
    ResctrlGroup,
    ResctrlTable,
)
from nftop.model.struct import dataclass, field
from nftop.model.topology import Topology

NOT_METERED = Missing(
    Reason.SOURCE,
    "this class is not metered: through MSRs that requires writing RMIDs (--pqos monitor)",
)
_NO_CAT = Missing(Reason.HARDWARE, "this CPU has no allocation of last-level cache")
_NO_MBA = Missing(Reason.HARDWARE, "this class has no limit on memory bandwidth")
_QUIET = Missing(Reason.SOURCE, "libpqos reads this cache on a CPU of --quiet-cpus")
_EMPTY = Missing(Reason.IDLE, "no CPU of this cache is in this class")
_WARMING = Missing(Reason.WARMING, "its monitor starts with the next reading")


@dataclass(frozen=True, slots=True)
class MsrState:
    """Everything that was read. A cache is identified by its first CPU."""

    cpus: Mapping[int, tuple[int, ...]]  # of each cache
    class_of: Mapping[int, int]  # of each CPU that was read
    ways: int  # of a cache; 0 without CAT
    way_bytes: int
    contention: int  # mask of the ways of I/O
    has_cdp: bool  # code and data have separate masks (CDP)
    least: int  # of limits on bandwidth, in percent; 0 without MBA
    step: int
    rmids: int  # monitors of a cache; 0 without
    masks: Mapping[int, tuple[int, ...]]  # by cache and class; with CDP those of data
    codes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # with CDP those of code
    limits: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # likewise, in percent

    @property
    def classes(self) -> int:
        """Number of classes: some may have a mask and no limit, or the reverse."""
        rows = (*self.masks.values(), *self.limits.values())
        return max((len(row) for row in rows), default=1)


@dataclass(frozen=True, slots=True)
class MsrMetered:
    """Bytes that a class' CPUs of one cache hold and have moved since metering began."""

    clos: int
    cache: int
    values: Mapping[str, int] = field(default_factory=dict)  # by event
    read_at_ns: int = 0  # CLOCK_MONOTONIC
    why: tuple[str, str] | None = None  # why there are none: a reason's name and a sentence


@dataclass(frozen=True, slots=True)
class MsrRequest:
    """CPUs to leave alone, whether to read classes anew, whether to run monitors."""

    quiet: list[int]
    read_classes: bool
    meter: bool


@dataclass(frozen=True, slots=True)
class MsrReply:
    """Classes and monitors, or why there are none: now (`failed`), or at all (`unusable`)."""

    state: MsrState | None = None
    metered: tuple[MsrMetered, ...] = ()
    failed: str = ""
    unusable: str = ""


def line(message: MsrRequest | MsrReply) -> bytes:
    """JSON and the end of a line."""
    return msgspec.json.encode(message) + b"\n"


def group_name(clos: int) -> str:
    """Name as in pqos' own resctrl groups; class 0 is the root group."""
    return f"COS{clos}" if clos else ROOT


def domains(state: MsrState, topology: Topology) -> Mapping[int, L3Domain]:
    """The kernel's number of each cache; one that sysfs does not know is left out."""
    l3_of = {info.cpu: info.l3 for info in topology.cpus}
    l3s = {cache: l3_of.get(Cpu(cache)) for cache in state.cpus}
    return {cache: l3 for cache, l3 in l3s.items() if l3 is not None}


def table_of(
    state: MsrState, metered: tuple[MsrMetered, ...], topology: Topology, *, metering: bool
) -> ResctrlTable:
    """Every class as a control group; its number stands for its inode.

    `metering`: monitors are in use.
    """
    l3s = domains(state, topology)
    known = {(item.clos, item.cache): item for item in metered}
    sizes = {cache.id: cache.size_bytes for cache in topology.l3}
    caches = sorted(l3s, key=lambda cache: l3s[cache])
    groups = [
        ResctrlGroup(
            name=group_name(clos),
            inode=clos,
            clos=clos,
            cpus=tuple(Cpu(cpu) for cpu, own in sorted(state.class_of.items()) if own == clos),
            mode=SHAREABLE,
            caches=tuple(
                _cache(state, clos, cache, l3s[cache], known.get((clos, cache)), metering=metering)
                for cache in caches
            ),
        )
        for clos in range(state.classes)
    ]
    unread = len({cpu for cpus in state.cpus.values() for cpu in cpus} - state.class_of.keys())
    return ResctrlTable(
        groups=tuple(groups),
        domains=tuple(
            CacheDomain(
                l3=l3s[cache],
                ways=state.ways or None,
                size_bytes=sizes.get(l3s[cache], state.ways * state.way_bytes),
                io=_io(state),
                read_on=Cpu(cache),
            )
            for cache in caches
        ),
        limits=Limits(
            closids=state.classes,
            rmids=state.rmids or None,
            min_bits=None,
            sparse=False,
            cdp=state.has_cdp,
            mba_least=state.least or None,
            mba_step=state.step or None,
        ),
        notes=(f"the classes of {counted(unread, 'CPU')} of --quiet-cpus were not read",)
        if unread
        else (),
    )


def _cache(
    state: MsrState,
    clos: int,
    cache: int,
    l3: L3Domain,
    metered: MsrMetered | None,
    *,
    metering: bool,
) -> GroupCache:
    present = any(state.class_of.get(cpu) == clos for cpu in state.cpus[cache])
    none = NOT_METERED if not metering else _EMPTY if not present else _WARMING
    code = _mask(state, state.codes, clos, cache) if state.has_cdp else None
    return GroupCache(
        l3=l3,
        cbm=_mask(state, state.masks, clos, cache),
        code=code if isinstance(code, Cbm) else None,
        mba=_limit(state, clos, cache),
        values=_values(metered, none),
        read_at_ns=0 if metered is None else metered.read_at_ns,
    )


def _mask(
    state: MsrState, masks: Mapping[int, tuple[int, ...]], clos: int, cache: int
) -> Cbm | Missing:
    if not state.ways:
        return _NO_CAT
    if cache not in masks:
        return _QUIET
    return Cbm(masks[cache][clos], state.ways) if clos < len(masks[cache]) else _NO_CAT


def _limit(state: MsrState, clos: int, cache: int) -> int | Missing:
    if not state.least:
        return Missing(Reason.HARDWARE, "this CPU has no limits on memory bandwidth")
    if cache not in state.limits:
        return _QUIET
    row = state.limits[cache]
    return row[clos] if clos < len(row) else _NO_MBA


def _values(metered: MsrMetered | None, none: Missing) -> dict[Event, int | Missing]:
    if metered is None:
        return dict.fromkeys(EVENTS, none)
    if metered.why is not None:
        name, sentence = metered.why
        return dict.fromkeys(EVENTS, Missing(Reason[name], sentence))
    unknown = Missing(Reason.HARDWARE, "this CPU does not meter it")
    return {event: metered.values.get(event, unknown) for event in EVENTS}


def _io(state: MsrState) -> IoWays | Missing:
    if not state.ways or not 0 < state.contention < 1 << state.ways:
        return Missing(Reason.SOURCE, "CPUID reports no ways that devices write into")
    return IoWays(Cbm(state.contention, state.ways), "cpuid")
