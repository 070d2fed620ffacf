"""Files of recordings: seek points, zstd frames, checksums."""

from __future__ import annotations

from nftop.store.format.zstd import FRAME_END
from nftop.store.reading.scan import Scan
from nftop.store.reading.seek import last_before
from nftop.store.reading.seekpoint import packed
from tests.recordings import joined, taken
from tests.store.reading.test_scan import Bytes

WORDS = (FRAME_END, b"\x28\xb5\x2f\xfd", b"\xff\xff\xff\xff")


def seeds() -> list[bytes]:
    whole = taken(4, cpus=2, marks=(2,), frame=2, sources=("self", "cpu_time"))
    return [
        whole.data,
        joined(whole.chunks[:2]),
        whole.data + whole.data,
        packed(whole.chunks[0].after),
    ]


def play(data: bytes) -> None:
    """Everything in it, and a search for its middle."""
    scan = Scan(Bytes(data))
    items = 0
    while scan.next() is not None:
        items += 1
    assert items <= len(data)
    loss = scan.tail_loss()
    assert loss is None or loss.size_bytes <= len(data)
    last_before(Bytes(data), lambda point: point.wall_ns > 1 << 40)
