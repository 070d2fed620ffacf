"""Use of the ways of a cache: by one class, several classes, devices, or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nftop.model.frame import GroupCacheRow, GroupRow
from nftop.model.ids import L3Domain
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ROOT, CacheDomain, IoWays, MbaUnit
from nftop.model.struct import dataclass

# Bandwidth limits that do not limit anything.
_UNLIMITED: Mapping[MbaUnit, float] = {"percent": 100, "MBps": float("inf"), "GBps/8": 2048}


@dataclass(frozen=True, slots=True)
class Shares:
    """Ways of one class in one cache.

    Attributes:
        all: ways it may fill, with data or code.
        private: ways that no other class in use may fill and no device writes into.
        io: ways that devices write into too.
        others: by name of each other class in use, the ways they share.
        used: whether it is in use; if not it takes no ways.
    """

    all: Cbm
    private: Cbm
    io: Cbm
    others: Mapping[str, Cbm]
    used: bool = True

    @property
    def shared(self) -> Cbm:
        """Ways that another class in use may fill too."""
        return _union(self.others.values(), self.all.width)


def shares_with(own: Cbm, others: Mapping[str, Cbm], io: int, *, used: bool = True) -> Shares:
    """Shares of a class with the ways `own`.

    Args:
        own: its ways.
        others: those of every other class in use, by name.
        io: bits of the ways that devices write into; 0 if unknown.
        used: whether it is in use.
    """
    common = {
        name: Cbm(own.bits & its.bits, own.width)
        for name, its in others.items()
        if own.bits & its.bits
    }
    taken = _union(common.values(), own.width).bits | io
    private = Cbm(own.bits & ~taken, own.width)
    return Shares(own, private, Cbm(own.bits & io, own.width), common, used)


def shares_of(groups: Sequence[GroupRow], domain: CacheDomain) -> dict[str, Shares]:
    """Shares of every class in a cache, by name; classes with unknown masks are absent.

    Classes without members and limits take no ways.
    """
    masks, used = dict[str, Cbm](), dict[str, Cbm]()
    for group in groups:
        cache = cache_of(group, domain.l3)
        mask = None if cache is None else ways_of(cache)
        if mask is not None:
            masks[group.name] = mask
            if in_use(group):
                used[group.name] = mask
    io = 0 if not isinstance(domain.io, IoWays) else domain.io.cbm.bits
    return {
        name: shares_with(
            mask,
            {other: its for other, its in used.items() if other != name},
            io,
            used=name in used,
        )
        for name, mask in masks.items()
    }


def free_ways(shares: Mapping[str, Shares], domain: CacheDomain) -> Cbm | None:
    """Ways that no class in use may fill; None if the cache can't be allocated."""
    if not domain.ways:
        return None
    taken = _union((share.all for share in shares.values() if share.used), domain.ways)
    return Cbm(((1 << domain.ways) - 1) & ~taken.bits, domain.ways)


def cache_of(group: GroupRow, l3: L3Domain) -> GroupCacheRow | None:
    """Row of a class in one cache, or None."""
    return next((cache for cache in group.caches if cache.l3 == l3), None)


def ways_of(cache: GroupCacheRow) -> Cbm | None:
    """All ways a class may fill, with data or code; None if its mask is unknown."""
    if isinstance(cache.cbm, Missing):
        return None
    return cache.cbm if cache.code is None else cache.cbm.union(cache.code)


def in_use(group: GroupRow) -> bool:
    """`is_used` of a class as it was read."""
    if group.cpus or group.tasks:
        return True
    cbms = [cache.cbm for cache in group.caches]
    # Without allocation no mask limits anything; other missing masks are unknown.
    unknown = any(isinstance(c, Missing) and c.reason is not Reason.HARDWARE for c in cbms)
    masks = [cbm for cbm in cbms if not isinstance(cbm, Missing)]
    masks += [cache.code for cache in group.caches if cache.code is not None]
    for item in group.l2:
        masks += [item.cbm] if item.code is None else [item.cbm, item.code]
    bandwidths = [cache.mba for cache in group.caches if not isinstance(cache.mba, Missing)]
    return is_used(
        group.name,
        inside=False,
        limited=unknown or limits(masks, bandwidths, group.mba_unit),
        filled=has_filled(group),
    )


def is_used(name: str, *, inside: bool, limited: bool, filled: bool) -> bool:
    """Whether a class is in use: it has members, limits its members, or has lines left.

    `inside`: CPUs or threads; `limited`: see `limits`; `filled`: see `has_filled`.
    """
    return name == ROOT or inside or limited or filled


def limits(masks: Iterable[Cbm], bandwidths: Iterable[float], unit: MbaUnit) -> bool:
    """Whether any mask or bandwidth limit of a class restricts it."""
    return any(mask.ways < mask.width for mask in masks) or any(
        bandwidth < _UNLIMITED[unit] for bandwidth in bandwidths
    )


def has_filled(group: GroupRow) -> bool:
    """Whether a class has lines in any last-level cache."""
    used = (cache.readings["occupancy_bytes"] for cache in group.caches)
    return any(not isinstance(one, Missing) and one > 0 for one in used)


def _union(masks: Iterable[Cbm], width: int) -> Cbm:
    bits = 0
    for mask in masks:
        bits |= mask.bits
    return Cbm(bits, width)
