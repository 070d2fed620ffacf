"""Zstandard as in Python 3.14, and the parts of its format that nftop writes itself (RFC 8878)."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

DecompressionParameter = zstd.DecompressionParameter
ZstdCompressor = zstd.ZstdCompressor
ZstdDecompressor = zstd.ZstdDecompressor
ZstdError = zstd.ZstdError
compress, decompress = zstd.compress, zstd.decompress

MAGIC = b"\x28\xb5\x2f\xfd"
# An empty last block: ends a frame after any whole block.
FRAME_END = b"\x01\x00\x00"
MOST_IN_BLOCK = 1 << 17
# Window of a frame; nftop's have 2 MiB.
_MAX_WINDOW_LOG = 23
_DICTIONARY_ID, _CONTENT_SIZE = (0, 1, 2, 4), (0, 2, 4, 8)


def decompressor() -> ZstdDecompressor:
    """For one frame, whose window is 8 MiB at most; ZstdError if it needs more."""
    return ZstdDecompressor(options={DecompressionParameter.window_log_max: _MAX_WINDOW_LOG})


def frame_head(data: bytes) -> int | None:
    """Length of the head of a frame; None if `data` is too short.

    Raises ValueError: it is no frame, or one that nftop does not write (with a checksum).
    """
    if not MAGIC.startswith(data[:4]):
        raise ValueError("no zstd frame begins where one belongs")
    if len(data) < 5:
        return None
    flags = data[4]
    single, checksum = flags >> 5 & 1, flags >> 2 & 1
    if checksum or flags >> 3 & 1:
        raise ValueError("a zstd frame of another program")
    content = 1 if single and not flags >> 6 else _CONTENT_SIZE[flags >> 6]
    length = 5 + (1 - single) + _DICTIONARY_ID[flags & 3] + content
    return length if len(data) >= length else None


def block(head: bytes) -> tuple[int, bool]:
    """Size of the block after this head of three bytes, and whether it is the last.

    Raises ValueError: it is no block.
    """
    bits = int.from_bytes(head[:3], "little")
    kind, size = bits >> 1 & 3, bits >> 3
    # Empty blocks are never flushed: these are zeros left by a file system.
    if kind == 3 or size > MOST_IN_BLOCK or not bits:
        raise ValueError("no zstd block begins where one belongs")
    return (1 if kind == 1 else size), bool(bits & 1)
