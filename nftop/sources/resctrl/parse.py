"""The texts of resctrl's files. Strict: what does not look like the kernel's own raises ValueError.

What a later kernel may add (another line of schemata, another monitor) is left out, not refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

from nftop.model.ids import L3Domain
from nftop.model.rdt.rdt import EVENTS, USAGE, WORDS, Event
from nftop.model.reading import Missing

# What a line of schemata is by its name, and the base of its numbers.
_BASES: Mapping[str, int] = {
    **dict.fromkeys(("L3", "L3CODE", "L3DATA", "L2", "L2CODE", "L2DATA"), 16),
    "MB": 10,
}
_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,15}")
_NUMBERS = {10: re.compile(r"[0-9]{1,10}"), 16: re.compile(r"[0-9a-f]{1,8}")}
_DOMAIN = re.compile(r"[0-9]{1,6}")
_COUNT = re.compile(r"[0-9]{1,20}")
_MONITOR = re.compile(r"mon_L3_([0-9]{2,6})")
_PART = re.compile(r"mon_sub_L3_([0-9]{2,6})")
_ESCAPE = re.compile(r"\\([0-7]{3})")
_UNSET = "uninitialized"
_LARGEST_COUNT = (1 << 64) - 1

Schemata: TypeAlias = Mapping[str, Mapping[int, int]]
T = TypeVar("T")


def parse_schemata(text: str) -> Schemata:
    """Masks and limits by the line's name (`L3`, `L3CODE`, `L3DATA`, `L2`..., `MB`) and domain.

    A line of a pseudo-locked group that is not set up yet has no domains.

    Raises:
        ValueError: a line is not `NAME:DOMAIN=VALUE;...`, or says the same thing twice.
    """
    found: dict[str, Mapping[int, int]] = {}
    for line in text.splitlines():
        name, colon, body = line.strip().partition(":")
        if not colon or not _NAME.fullmatch(name):
            raise ValueError(f"{line[:80]!r} is no line of schemata")
        if name in found:
            raise ValueError(f"two lines of schemata are called {name}")
        if name in _BASES:
            found[name] = {} if body == _UNSET else parse_domains(body, _BASES[name])
    return found


def parse_domains(text: str, base: int) -> Mapping[int, int]:
    """`0=f0;1=ff`: a number by domain, hexadecimal or decimal; blanks before a number are its own.

    Raises:
        ValueError: it is something else, or a domain is there twice.
    """

    def number(word: str) -> int:
        if not _NUMBERS[base].fullmatch(word.lstrip(" ")):
            raise ValueError(f"{word[:80]!r} is no number of base {base}")
        return int(word, base)

    return _by_domain(text, number)


def parse_bit_usage(text: str) -> Mapping[int, str]:
    """`0=XXSSS;1=SSSSS`: a letter of `USAGE` for every way, the highest first.

    Raises:
        ValueError: it is something else, or has a letter that means nothing known.
    """

    def letters(word: str) -> str:
        if not word or not USAGE.keys() >= set(word):
            raise ValueError(f"{word[:80]!r} are no letters of bit_usage")
        return word

    return _by_domain(text.strip("\n"), letters)


def parse_mask(text: str) -> int:
    """A mask in hexadecimal, alone in its file. ValueError if it is something else."""
    word = text.strip()
    if not _NUMBERS[16].fullmatch(word):
        raise ValueError(f"{text[:80]!r} is no mask")
    return int(word, 16)


def parse_number(text: str) -> int:
    """A decimal number, alone in its file. ValueError if it is something else."""
    word = text.strip()
    if not _NUMBERS[10].fullmatch(word):
        raise ValueError(f"{text[:80]!r} is no number")
    return int(word)


def parse_value(text: str) -> int | Missing:
    """What a monitor says: bytes, or the reason that one of the kernel's words stands for.

    Raises:
        ValueError: it is neither.
    """
    word = text.strip()
    if word in WORDS:
        return WORDS[word]
    if not _COUNT.fullmatch(word) or int(word) > _LARGEST_COUNT:
        raise ValueError(f"{text[:80]!r} is no number of bytes")
    return int(word)


def parse_features(text: str) -> tuple[Event, ...]:
    """The events of `mon_features` that nftop reads, in its own order."""
    words = text.split()
    return tuple(event for event in EVENTS if event in words)


def parse_tasks(text: str) -> tuple[int, ...]:
    """Thread ids, one a line, ascending; ValueError if a line is something else."""
    lines = text.split()
    if not all(_NUMBERS[10].fullmatch(line) for line in lines):
        raise ValueError("a line of tasks is no thread id")
    return tuple(sorted(map(int, lines)))


def monitor_domain(name: str) -> L3Domain | None:
    """The cache that a directory of mon_data is about; None for any other, a package's say."""
    hit = _MONITOR.fullmatch(name)
    return None if hit is None else L3Domain(int(hit[1]))


def monitor_part(name: str) -> int | None:
    """The node of a directory `mon_sub_L3_YY`; None for what is no such directory."""
    hit = _PART.fullmatch(name)
    return None if hit is None else int(hit[1])


def parse_mounts(text: str) -> tuple[str, frozenset[str]] | None:
    """Where the first resctrl of /proc/mounts is mounted, and its options; None where none is."""
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) >= 4 and fields[2] == "resctrl" and fields[1].startswith("/"):
            path = _ESCAPE.sub(lambda hit: chr(int(hit[1], 8)), fields[1])
            return path, frozenset(fields[3].split(","))
    return None


def _by_domain(text: str, value: Callable[[str], T]) -> Mapping[int, T]:
    found: dict[int, T] = {}
    for word in text.split(";"):
        domain, equals, rest = word.partition("=")
        if not equals or not _DOMAIN.fullmatch(domain) or int(domain) in found:
            raise ValueError(f"{word[:80]!r} is not DOMAIN=VALUE, or is there twice")
        found[int(domain)] = value(rest)
    return found
