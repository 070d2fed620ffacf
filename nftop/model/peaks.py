"""Highest bandwidths that a CPU's memory controllers and links can have, by microarchitecture.

The fastest memory that the family supports, in every channel: a host with slower or fewer modules
has less, so a share of it is a lower bound. Sources: the families' published specifications; the
speeds of UPI 2.0 links (16, 20, 24 GT/s) are from secondary sources and were not verified on
hardware. A channel of DDR is 8 bytes wide. A QPI or UPI link of 20 lanes moves 2
bytes of data per transfer and direction. A UPI 2.0 link has 24 lanes; how much of a transfer is
data is not published, so all of it counts, 3 bytes, which again makes a share a lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping

from nftop.model.struct import dataclass

_CHANNEL_BYTES = 8
_LANES_20, _LANES_24 = 2, 3  # bytes per transfer


@dataclass(frozen=True, slots=True)
class _Speeds:
    """Channels of a package, transfers per second of memory and of a link; 0 if unknown."""

    channels: int
    memory_per_s: float
    link_per_s: float
    link_bytes: int = _LANES_20


_SPEEDS: Mapping[str, _Speeds] = {
    "HSX": _Speeds(4, 2.133e9, 9.6e9),
    "BDX": _Speeds(4, 2.4e9, 9.6e9),
    "SKX": _Speeds(6, 2.666e9, 10.4e9),
    "CLX": _Speeds(6, 2.933e9, 10.4e9),
    "ICX": _Speeds(8, 3.2e9, 11.2e9),
    "SPR": _Speeds(8, 4.8e9, 16e9, _LANES_24),
    "EMR": _Speeds(8, 5.6e9, 20e9, _LANES_24),
    # 8 channels or 12, by the socket.
    "GNR": _Speeds(0, 0.0, 24e9, _LANES_24),
}


def memory_peak_bytes_per_s(uarch: str) -> float | None:
    """Peak of the memory of one package, both directions together; None if unknown."""
    speeds = _SPEEDS.get(uarch)
    if speeds is None or not speeds.channels:
        return None
    return speeds.channels * speeds.memory_per_s * _CHANNEL_BYTES


def modules_peak_bytes_per_s(uarch: str, modules: int, transfers_per_s: float) -> float | None:
    """Peak of one package with so many modules; None if they or its channels are unknown."""
    speeds = _SPEEDS.get(uarch)
    if speeds is None or not speeds.channels or modules < 1 or not transfers_per_s:
        return None
    return min(modules, speeds.channels) * transfers_per_s * _CHANNEL_BYTES


def usual_modules(uarch: str) -> tuple[int, float]:
    """Channels of a package and their highest transfers per second; 0 if unknown."""
    speeds = _SPEEDS.get(uarch, _Speeds(0, 0.0, 0.0))
    return speeds.channels, speeds.memory_per_s


def link_peak_bytes_per_s(uarch: str, links: int) -> float | None:
    """Peak of `links` links to other packages in one direction; None if unknown."""
    speeds = _SPEEDS.get(uarch)
    if speeds is None or links < 1:
        return None
    return links * speeds.link_per_s * speeds.link_bytes
