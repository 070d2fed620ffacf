from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.rdt.masks import Cbm

widths = st.integers(1, 32)


@st.composite
def masks(draw: st.DrawFn, width: int | None = None) -> Cbm:
    width = width or draw(widths)
    return Cbm(draw(st.integers(0, (1 << width) - 1)), width)


@given(masks())
def test_a_mask_is_its_ways(mask: Cbm) -> None:
    ways = [way for way in range(mask.width) if mask.has(way)]
    assert mask.ways == len(ways)
    assert mask.contiguous == (ways != [] and ways[-1] - ways[0] + 1 == len(ways))
    assert int(mask.hex, 16) == mask.bits
    assert len(mask.hex) == (mask.width + 3) // 4
    assert mask.bytes(3.0 * mask.width) == pytest.approx(3.0 * len(ways))


@given(masks(11), masks(11))
def test_a_union_is_that_of_sets(one: Cbm, other: Cbm) -> None:
    either = one.union(other)
    assert all(either.has(way) == (one.has(way) or other.has(way)) for way in range(11))


def test_it_prints_as_linux_6_1_does() -> None:
    assert Cbm(0xF0, 12).hex == "0f0"
    assert Cbm(0x7FF, 11).hex == "7ff"
    assert Cbm(1, 20).hex == "00001"


@pytest.mark.parametrize(("bits", "width"), [(0x800, 11), (-1, 11), (0, 0)])
def test_a_way_that_is_absent(bits: int, width: int) -> None:
    with pytest.raises(ValueError, match="is no mask"):
        Cbm(bits, width)


def test_the_union_of_different_caches_is_none() -> None:
    with pytest.raises(ValueError, match="0x801 is no mask of 11 ways"):
        Cbm(1, 11).union(Cbm(0x800, 12))
