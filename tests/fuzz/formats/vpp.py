"""A VPP's stats segment: a directory of pointers to vectors, as nftop reads it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from unittest.mock import patch

from nftop.sources.vpp import segment
from nftop.sources.vpp.reader import NOTHING_READ, after
from nftop.sources.vpp.segment import Segment

_BASE = 0x7F00_0000_0000
_ENTRY = struct.Struct("IQ128s")
_SCALAR, _SIMPLE, _COMBINED, _NAMES, _EMPTY, _SYMLINK = 1, 2, 3, 4, 5, 6
WORDS = (
    *(
        name.encode() + b"\0"
        for name in (
            "/if/rx",
            "/if/tx",
            "/if/names",
            "/if/drops",
            "/sys/heartbeat",
            "/sys/node/names",
            "/sys/node/clocks",
            "/sys/node/vectors",
            "/node/errors",
            "/err/a/b",
            "/sys/loops_per_worker",
        )
    ),
    *(struct.pack("I", kind) for kind in range(10)),
    *(
        struct.pack("Q", number)
        for number in (
            0,
            1,
            1 << 31,
            1 << 32,
            1 << 63,
            _BASE,
            _BASE + 64,
            _BASE + (1 << 20),
        )
    ),
)


class _Layout:
    """Memory in which vectors are put one behind the other."""

    def __init__(self) -> None:
        self.memory = bytearray(64)

    def vector(self, items: Sequence[bytes]) -> int:
        """Pointer to a vector of these elements; its length stands 8 bytes before."""
        self.memory += bytes(-len(self.memory) % 8) + struct.pack("Q", len(items))
        start = len(self.memory)
        self.memory += b"".join(items)
        return _BASE + start

    def numbers(self, values: Sequence[int]) -> int:
        return self.vector([struct.pack("Q", value) for value in values])

    def table(self, rows: Sequence[Sequence[int]], words: int = 1) -> int:
        """Pointer to a vector of pointers, a row per thread of elements of so many words."""
        pointers = []
        for row in rows:
            elements = [row[at : at + words] for at in range(0, len(row), words)]
            pointers.append(
                self.vector([struct.pack(f"{words}Q", *element) for element in elements])
            )
        return self.numbers(pointers)

    def names(self, texts: Sequence[str]) -> int:
        pointers = []
        for text in texts:
            data = text.encode() + b"\0"
            pointers.append(self.vector([data[at : at + 1] for at in range(len(data))]))
        return self.numbers(pointers)


def _segment(*, nodes: bool, older: bool) -> bytes:
    layout = _Layout()
    rows = [[5, 6], [7, 8]]
    losses = ("/if/rx-miss", "/if/drops", "/if/rx-no-buf", "/if/rx-error", "/if/tx-error")
    entries: list[tuple[int, int, str]] = [
        (_COMBINED, layout.table([[1, 60, 2, 120], [3, 180, 4, 240]], 2), "/if/rx"),
        (_COMBINED, layout.table([[1, 60, 2, 120], [3, 180, 4, 240]], 2), "/if/tx"),
        *((_SIMPLE, layout.table(rows), name) for name in losses),
        (5 if older else _NAMES, layout.names(["local0", "eth0"]), "/if/names"),
        (_SCALAR, 7, "/sys/heartbeat"),
        (_SIMPLE, layout.table([[11, 12]]), "/sys/loops_per_worker"),
        (_SIMPLE, layout.table([[13, 14]]), "/sys/vector_rate_per_worker"),
        (_EMPTY, 0, "/mem/main"),
    ]
    if nodes:
        entries.append((5 if older else _NAMES, layout.names(["a", "b"]), "/sys/node/names"))
        entries += [
            (_SIMPLE, layout.table(rows), f"/sys/node/{name}")
            for name in ("clocks", "vectors", "calls")
        ]
    vectors = layout.table([[0, 3], [1, 0]])
    if older:
        entries += [(4, index, f"/err/node/reason {index}") for index in (0, 1)]
    else:
        at = len(entries)
        entries.append((_SIMPLE, vectors, "/node/errors"))
        entries += [(_SYMLINK, at | index << 32, f"/err/node/reason {index}") for index in (0, 1)]
    directory = layout.vector(
        [_ENTRY.pack(kind, value, name.encode()) for kind, value, name in entries]
    )
    layout.memory += bytes(64)
    struct.pack_into("=6Q", layout.memory, 0, 2, _BASE, 1, 0, directory, vectors if older else 0)
    return bytes(layout.memory)


def seeds() -> list[bytes]:
    return [
        _segment(nodes=nodes, older=older) for nodes in (True, False) for older in (True, False)
    ]


class _Copy(bytearray):
    """Bytes as a mapping that can be closed."""

    def close(self) -> None:
        pass


class _InMemory(Segment):
    """One whose mapping is a copy of an input."""

    def __init__(self, data: bytes) -> None:
        super().__init__(-1)
        self._data = data

    def _mapped(self) -> object:
        with patch("mmap.mmap", lambda *_: _Copy(self._data)):
            return super()._mapped()


def play(data: bytes) -> None:
    """Read twice, as a worker does, and take the readings over as nftop does."""
    reader, instance = _InMemory(data), NOTHING_READ
    with patch.multiple(segment, _LOCKED_S=1e-6, _POLL_S=1e-6):  # no wait for a lock
        for heartbeat in (None, 6):
            instance = after(instance, reader.read(heartbeat))
    interfaces = instance.interfaces
    shape = (len(instance.threads), len(interfaces.names))
    for table in (interfaces.rx_packets, interfaces.tx_packets, interfaces.drops):
        assert table.shape == shape
