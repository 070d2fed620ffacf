"""Whose the ways of a cache are."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from nftop.derive.cache.ways import free_ways, shares_of
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import IoWays
from tests.rdt import DOMAINS, WAYS, frame_of, group, in_cache, table

MASKS = st.integers(1, (1 << WAYS) - 1)


@given(st.lists(st.tuples(MASKS, st.none() | MASKS), min_size=1, max_size=5), st.none() | MASKS)
def test_every_way_of_a_class_is_alone_shared_or_devices(
    masks: list[tuple[int, int | None]], io: int | None
) -> None:
    unknown = Missing(Reason.HARDWARE, "not told")
    domain = replace(DOMAINS[0], io=unknown if io is None else IoWays(Cbm(io, WAYS), "register"))
    groups = tuple(
        group(f"g{at}", at, (at,), in_cache(0, data, code=None if code is None else Cbm(code, 12)))
        for at, (data, code) in enumerate(masks)
    )
    frame = frame_of(table(groups=groups, domains=(domain,)))
    shares = shares_of(frame.groups, domain)
    all_of = {name: item.all.bits for name, item in shares.items()}
    assert all_of == {f"g{at}": data | (code or 0) for at, (data, code) in enumerate(masks)}
    for name, share in shares.items():
        shared = 0
        for other, ways in share.others.items():
            assert ways.bits == all_of[name] & all_of[other] != 0
            shared |= ways.bits
        assert share.io.bits == all_of[name] & (io or 0)
        assert share.private.bits | shared | share.io.bits == all_of[name]
        assert share.private.bits & (shared | share.io.bits) == 0
    free = free_ways(shares, domain)
    assert free is not None
    taken = 0
    for bits in all_of.values():
        assert not free.bits & bits
        taken |= bits
    assert free.bits | taken == (1 << WAYS) - 1


def test_a_class_nobody_uses_takes_no_way_and_an_unknown_mask_none() -> None:
    why = Missing(Reason.ERROR, "EIO")
    groups = (
        group("a", 1, (1,), in_cache(0, 0x0FF)),
        group("idle", 2, (), in_cache(0, 0xFFF)),
        group("lost", 3, (2,), in_cache(0, 1, cbm=why)),
    )
    shares = shares_of(frame_of(table(groups=groups)).groups, DOMAINS[0])
    assert [(name, share.used) for name, share in shares.items()] == [("a", True), ("idle", False)]
    assert (shares["a"].private.bits, shares["a"].shared.bits) == (0x0FF, 0)
    assert (shares["idle"].private.bits, shares["idle"].shared.bits) == (0x300, 0x0FF)
    assert free_ways(shares, DOMAINS[0]) == Cbm(0xF00, WAYS)
    assert free_ways({}, replace(DOMAINS[0], ways=None)) is None
