"""Line rate: packets per second that a port's link carries, at the size of the frames it received.

A frame takes WIRE_BYTES more on the wire (IEEE 802.3: preamble 7, start delimiter 1, gap 12), so a
link carries speed / (8 x (frame + WIRE_BYTES)) of them: 14.88 million of 64 bytes a second at
10 Gbit/s, as Table 16 of the paper has them up to 1518 bytes. NICs count bytes without the frame's
check sequence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nftop.model.missing import Missing, Reading, Reason, quotient, total
from nftop.model.nf.components import NfPort

WIRE_BYTES, FCS_BYTES, LEAST_FRAME_BYTES = 20, 4, 64

_PCI = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_VIRTUAL = Missing(Reason.UNDEFINED, "a virtual device has no link: the speed it reports is none")
_NO_SPEED = Missing(Reason.SOURCE, "the speed of its link is not reported, or its link is down")
_NO_FRAMES = Missing(Reason.IDLE, "no frames, so none whose size is known")
_NO_BYTES = Missing(Reason.SOURCE, "its driver counts packets and no bytes")
_NO_LINK = Missing(Reason.UNDEFINED, "no port of it has a link whose speed is known")


def line_rate(bits_per_s: float, frame_bytes: float) -> float:
    """Packets per second of a link; `frame_bytes` with the check sequence."""
    return bits_per_s / (8 * (frame_bytes + WIRE_BYTES))


def is_pci(device: str) -> bool:
    """Whether a DPDK device is named by its PCI address; virtual ones and representors are not."""
    return _PCI.fullmatch(device) is not None


def frame_size(packets_per_s: Reading, bytes_per_s: Reading) -> Reading:
    """Mean size of the frames received, with the check sequence; LEAST_FRAME_BYTES at least."""
    size = quotient(bytes_per_s, packets_per_s)
    if isinstance(size, Missing):
        return _NO_FRAMES if size.reason is Reason.IDLE else size
    if size == 0:
        return _NO_BYTES
    return max(size + FCS_BYTES, float(LEAST_FRAME_BYTES))


def line_of(bits_per_s: int | None, frame_bytes: Reading, *, has_link: bool) -> Reading:
    """Line rate of one port, or why there is none."""
    if not has_link:
        return _VIRTUAL
    if not bits_per_s:
        return _NO_SPEED
    return frame_bytes if isinstance(frame_bytes, Missing) else line_rate(bits_per_s, frame_bytes)


def lines_of(ports: Iterable[NfPort] | Missing) -> tuple[Reading, Reading]:
    """Line rate of the ports that receive, and the share that arrives on the fullest of them.

    What arrives is what was received and what the NIC dropped.
    """
    if isinstance(ports, Missing):
        return ports, ports
    lines = [port for port in ports if not _is_aside(port.line_packets_per_s)]
    summed = total((port.line_packets_per_s for port in lines), _NO_LINK)
    if isinstance(summed, Missing):
        return summed, summed
    shares = [
        quotient(total((port.rx_packets_per_s, port.missed_packets_per_s)), port.line_packets_per_s)
        for port in lines
    ]
    absent = next((share for share in shares if isinstance(share, Missing)), None)
    known = [share for share in shares if not isinstance(share, Missing)]
    return summed, absent or max(known)


def _is_aside(line: Reading) -> bool:
    return isinstance(line, Missing) and line.reason in (Reason.UNDEFINED, Reason.IDLE)
