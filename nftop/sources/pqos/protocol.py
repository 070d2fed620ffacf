"""What libpqos read, as it goes from one process to another and as resctrl's table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nftop.model.ids import Cpu, L3Domain
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import (
    EVENTS,
    ROOT,
    CacheDomain,
    Event,
    GroupCache,
    IoWays,
    Limits,
    ResctrlGroup,
    ResctrlTable,
)
from nftop.model.reading import Missing, Reason
from nftop.model.struct import dataclass, field
from nftop.model.topology import Topology

NOT_METERED = Missing(
    Reason.SOURCE,
    "nobody meters this class: through MSRs that takes writing RMIDs (--pqos monitor)",
)
_NO_CAT = Missing(Reason.HARDWARE, "this CPU has no allocation of last-level cache")
_NO_MBA = Missing(Reason.HARDWARE, "this class has no limit on memory bandwidth")
_QUIET = Missing(Reason.SOURCE, "libpqos reads this cache on a CPU of --quiet-cpus")
_EMPTY = Missing(Reason.IDLE, "no CPU beside this cache is in this class")


@dataclass(frozen=True, slots=True)
class MsrState:
    """All that a look found. A cache goes by the number of its first CPU.

    Attributes:
        cpus: of each cache. class_of: of each CPU that was asked.
        ways, way_bytes, contention: of a cache; 0 ways without CAT. `contention` are those of I/O.
        apart: code and data have masks of their own.
        least, step: of limits on bandwidth, in percent; 0 without MBA.
        rmids: monitors of a cache; 0 without.
        masks: by cache and class; with CDP those of data. codes: with CDP those of code.
        limits: by cache and class, percent.
    """

    cpus: Mapping[int, tuple[int, ...]]
    class_of: Mapping[int, int]
    ways: int
    way_bytes: int
    contention: int
    apart: bool
    least: int
    step: int
    rmids: int
    masks: Mapping[int, tuple[int, ...]]
    codes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    limits: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def classes(self) -> int:
        """How many there are: some may have a mask and no limit, or the reverse."""
        rows = (*self.masks.values(), *self.limits.values())
        return max((len(row) for row in rows), default=1)


@dataclass(frozen=True, slots=True)
class MsrMetered:
    """What a class' CPUs beside one cache hold and have moved since they are metered, in bytes.

    Attributes:
        values: by event; or, for all of them, `why` there are none: a reason's name and a sentence.
        read_at_ns: CLOCK_MONOTONIC of these values.
    """

    clos: int
    cache: int
    values: Mapping[str, int] = field(default_factory=dict)
    read_at_ns: int = 0
    why: tuple[str, str] | None = None


def state_of(raw: Mapping[str, Any]) -> MsrState:
    """From JSON, whose keys are texts.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is nothing of the kind.
    """
    return MsrState(
        cpus=_rows(raw["cpus"]),
        class_of={int(cpu): int(clos) for cpu, clos in raw["class_of"].items()},
        ways=int(raw["ways"]),
        way_bytes=int(raw["way_bytes"]),
        contention=int(raw["contention"]),
        apart=bool(raw["apart"]),
        least=int(raw["least"]),
        step=int(raw["step"]),
        rmids=int(raw["rmids"]),
        masks=_rows(raw["masks"]),
        codes=_rows(raw["codes"]),
        limits=_rows(raw["limits"]),
    )


def metered_of(raw: Any) -> tuple[MsrMetered, ...]:
    """What a worker said of its monitors; errors as of `state_of`."""
    return tuple(
        MsrMetered(
            int(item["clos"]),
            int(item["cache"]),
            {str(event): int(value) for event, value in item["values"].items()},
            int(item["read_at_ns"]),
            None if item["why"] is None else (str(item["why"][0]), str(item["why"][1])),
        )
        for item in raw
    )


def line(value: Any) -> bytes:
    """JSON and the end of a line."""
    return json.dumps(value).encode() + b"\n"


def group_name(clos: int) -> str:
    """What pqos' own resctrl groups are called; class 0 is the one that all begin in."""
    return f"COS{clos}" if clos else ROOT


def domains(state: MsrState, topology: Topology) -> Mapping[int, L3Domain]:
    """The kernel's number of each cache; one that sysfs does not know is left out."""
    l3_of = {info.cpu: info.l3 for info in topology.cpus}
    l3s = {cache: l3_of.get(Cpu(cache)) for cache in state.cpus}
    return {cache: l3 for cache, l3 in l3s.items() if l3 is not None}


def table_of(
    state: MsrState, metered: tuple[MsrMetered, ...], topology: Topology, *, metering: bool
) -> ResctrlTable:
    """Every class as a control group. Classes have no directory: the number stands for its inode.

    Args:
        state: the classes.
        metered: what monitors say of them.
        topology: whose caches they are in.
        metering: monitors were asked for.
    """
    l3s = domains(state, topology)
    known = {(item.clos, item.cache): item for item in metered}
    sizes = {cache.id: cache.size_bytes for cache in topology.l3}

    def in_cache(clos: int, cache: int) -> GroupCache:
        present = any(state.class_of.get(cpu) == clos for cpu in state.cpus[cache])
        none = NOT_METERED if not metering else _EMPTY if not present else _warming()
        return GroupCache(
            l3=l3s[cache],
            cbm=_mask(state, state.masks, clos, cache),
            code=_code(state, clos, cache),
            mba=_limit(state, clos, cache),
            values=_values(known.get((clos, cache)), none),
            read_at_ns=known[clos, cache].read_at_ns if (clos, cache) in known else 0,
        )

    groups = [
        ResctrlGroup(
            name=group_name(clos),
            inode=clos,
            clos=clos,
            cpus=tuple(Cpu(cpu) for cpu, own in sorted(state.class_of.items()) if own == clos),
            mode="shareable",
            caches=tuple(in_cache(clos, cache) for cache in sorted(l3s, key=lambda c: l3s[c])),
        )
        for clos in range(state.classes)
    ]
    every = {cpu for cpus in state.cpus.values() for cpu in cpus}
    unasked = len(every - state.class_of.keys())
    notes = (f"{unasked} CPUs of --quiet-cpus were not asked for their class",) if unasked else ()
    return ResctrlTable(
        groups=tuple(groups),
        domains=tuple(
            CacheDomain(
                l3=l3,
                ways=state.ways or None,
                size_bytes=sizes.get(l3, state.ways * state.way_bytes),
                io=_io(state),
                read_on=Cpu(cache),
            )
            for cache, l3 in sorted(l3s.items(), key=lambda pair: pair[1])
        ),
        limits=Limits(
            closids=state.classes,
            rmids=state.rmids or None,
            min_bits=None,
            sparse=False,
            cdp=state.apart,
            mba_least=state.least or None,
            mba_step=state.step or None,
        ),
        notes=notes,
    )


def _rows(raw: Mapping[str, Any]) -> dict[int, tuple[int, ...]]:
    return {int(cache): tuple(map(int, values)) for cache, values in raw.items()}


def _warming() -> Missing:
    return Missing(Reason.WARMING, "its monitor starts with the next look")


def _mask(
    state: MsrState, masks: Mapping[int, tuple[int, ...]], clos: int, cache: int
) -> Cbm | Missing:
    if not state.ways:
        return _NO_CAT
    if cache not in masks:
        return _QUIET
    return Cbm(masks[cache][clos], state.ways) if clos < len(masks[cache]) else _NO_CAT


def _code(state: MsrState, clos: int, cache: int) -> Cbm | None:
    mask = _mask(state, state.codes, clos, cache) if state.apart else None
    return mask if isinstance(mask, Cbm) else None


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
        return Missing(Reason.SOURCE, "CPUID tells no ways that devices write into")
    return IoWays(Cbm(state.contention, state.ways), "cpuid")
