"""Inputs made of others: the search of the tests, and of `soak` where atheris is not installed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?")
# What fits no field, only just does not, or is no number in some language.
_NUMBERS = (
    b"0", b"-1", b"1", b"255", b"256", b"65535", b"65536", b"2147483647", b"2147483648",
    b"4294967295", b"4294967296", b"9223372036854775807", b"9223372036854775808",
    b"18446744073709551615", b"18446744073709551616", b"1e308", b"1e309", b"-0.0", b"0.1", b"nan",
    b"inf", b"null", b"9" * 5000, b"\xd9\xa3", b"1_000", b"0x10",
)  # fmt: skip
_EDGES = (0, 1, 0x7F, 0x80, 0xC1, 0xDD, 0xFE, 0xFF)
MAX_BYTES = 1 << 16


@dataclass(slots=True)
class Mutator:
    """Makes inputs of the seeds, the same ones for the same `random`."""

    seeds: Sequence[bytes]
    words: Sequence[bytes]
    random: random.Random
    _ways: tuple[Callable[[bytearray], None], ...] = field(init=False)

    def __post_init__(self) -> None:
        self._ways = (
            self._flip,
            self._edge,
            self._cut,
            self._double,
            self._word,
            self._splice,
            self._number,
            self._insert,
            self._shorten,
        )

    def next(self) -> bytes:
        data = bytearray(self.random.choice(self.seeds))
        for _ in range(self.random.choice((1, 1, 2, 3, 6))):
            self.random.choice(self._ways)(data)
        return bytes(data[:MAX_BYTES])

    def _at(self, data: bytearray) -> int:
        return self.random.randrange(len(data) + 1)

    def _span(self, data: bytearray) -> slice:
        start = self._at(data)
        return slice(start, start + self.random.choice((1, 2, 4, 8, 30, 300)))

    def _flip(self, data: bytearray) -> None:
        if data:
            data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)

    def _edge(self, data: bytearray) -> None:
        if data:
            data[self.random.randrange(len(data))] = self.random.choice(_EDGES)

    def _cut(self, data: bytearray) -> None:
        del data[self._span(data)]

    def _double(self, data: bytearray) -> None:
        piece = data[self._span(data)]
        at = self._at(data)
        data[at:at] = piece * self.random.choice((1, 1, 1, 40))

    def _word(self, data: bytearray) -> None:
        if self.words:
            at = self._at(data)
            word = self.random.choice(self.words)
            data[at : at + self.random.choice((0, len(word)))] = word

    def _splice(self, data: bytearray) -> None:
        other = self.random.choice(self.seeds)
        start = self.random.randrange(len(other) + 1)
        data[self._span(data)] = other[start : start + self.random.choice((4, 30, 300, 3000))]

    def _number(self, data: bytearray) -> None:
        hits = list(_NUMBER.finditer(bytes(data)))
        if hits:
            hit = self.random.choice(hits)
            data[hit.start() : hit.end()] = self.random.choice(_NUMBERS)

    def _insert(self, data: bytearray) -> None:
        at = self._at(data)
        data[at:at] = self.random.randbytes(self.random.choice((1, 2, 4, 8)))

    def _shorten(self, data: bytearray) -> None:
        del data[self._at(data) :]


def smaller(data: bytes, is_same: Callable[[bytes], bool], tries: int = 300) -> bytes:
    """A shorter input of which `is_same` still holds; at most so many tries."""
    size = len(data) // 2
    while size and tries > 0:
        at = 0
        while at < len(data) and tries > 0:
            shorter = data[:at] + data[at + size :]
            tries -= 1
            if is_same(shorter):
                data = shorter
            else:
                at += size
        size //= 2
    return data
