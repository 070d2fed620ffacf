"""Capacity bit masks of caches."""

from __future__ import annotations

from nftop.model.struct import dataclass

# Intel SDM volume 3, CPUID.10H.1:EAX[4:0] is the length of a mask less one; the kernel keeps masks
# in 32 bits. Twice that, for hardware to come.
MAX_WAYS = 64


@dataclass(frozen=True, slots=True)
class Cbm:
    """A capacity bit mask over a cache of `width` ways; bit n is way n.

    Raises:
        ValueError: a bit beyond the cache's ways, or more than MAX_WAYS ways.
    """

    bits: int
    width: int

    def __post_init__(self) -> None:
        if not (1 <= self.width <= MAX_WAYS and 0 <= self.bits < 1 << self.width):
            raise ValueError(f"0x{self.bits:x} is no mask of {self.width} ways")

    @property
    def ways(self) -> int:
        return self.bits.bit_count()

    @property
    def contiguous(self) -> bool:
        """Whether its ways are adjacent, as most CPUs require; False without ways."""
        lowest = self.bits & -self.bits
        filled = self.bits + lowest
        return self.bits > 0 and filled & (filled - 1) == 0

    @property
    def hex(self) -> str:
        """As resctrl prints it on Linux 6.1: `0f0`, with the digits that the cache's ways need."""
        return f"{self.bits:0{-(-self.width // 4)}x}"

    def has(self, way: int) -> bool:
        return bool(self.bits >> way & 1)

    def union(self, other: Cbm) -> Cbm:
        """Ways of either; ValueError if the other's cache has more ways."""
        return Cbm(self.bits | other.bits, self.width)

    def bytes(self, cache_bytes: float) -> float:
        """Size of its ways in a cache of `cache_bytes`."""
        return self.ways * cache_bytes / self.width
