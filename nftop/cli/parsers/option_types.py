"""Types of options and arguments: each parses a text or refuses it in a message.

Imports nothing heavy: `--help` must be instant.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from nftop.model.ids import Cpu, parse_cpu_list

UNLIMITED = "unlimited"


def file_name(text: str) -> str:
    """Type of an option or argument that is a file or folder, for which shells offer files."""
    return text


def cpu_list(text: str) -> tuple[Cpu, ...]:
    """Type of an option: CPUs, at least one."""
    try:
        cpus = parse_cpu_list(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not cpus:
        raise argparse.ArgumentTypeError("names no CPU")
    return cpus


def task_list(text: str) -> tuple[int, ...]:
    """PIDs, separated by commas; each once."""
    words = text.split(",")
    if not all(word.isascii() and word.isdigit() and len(word) <= 10 for word in words):
        raise argparse.ArgumentTypeError(f"{text!r} is not PID,...")
    return tuple(dict.fromkeys(map(int, words)))


def nf_names(text: str) -> tuple[str, ...]:
    """Names of network functions, separated by commas; at least one."""
    names = tuple(name for name in text.split(",") if name)
    if not names:
        raise argparse.ArgumentTypeError("names no network function")
    return names


def way_range(text: str) -> tuple[int, int]:
    """`N-M` or `N`: least and greatest number of ways."""
    low, _, high = text.partition("-")
    if not (low + high).isascii() or not low.isdigit() or not (high or low).isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not N-M, numbers of ways such as 1-8")
    widths = int(low), int(high or low)
    if not 1 <= widths[0] <= widths[1] <= 64:
        raise argparse.ArgumentTypeError(f"{text}: 1 to 64 ways, the least first, such as 1-8")
    return widths


def domain_value(base: int) -> Callable[[str], tuple[int, int | None]]:
    """Type of `ID=VALUE`; None for no limit."""
    digits = "0123456789abcdef"[:base]

    def parse(text: str) -> tuple[int, int | None]:
        domain, equals, value = text.lower().partition("=")
        if base == 16:
            value = value.removeprefix("0x")
        fine = domain.isascii() and domain.isdigit() and len(domain) <= 6 and equals
        if fine and base == 10 and value == UNLIMITED:
            return int(domain), None
        if not fine or not 0 < len(value) <= 10 or set(value) - set(digits):
            kind = "MASK, in hexadecimal" if base == 16 else "N"
            raise argparse.ArgumentTypeError(f"{text!r} is not ID={kind}")
        return int(domain), int(value, base)

    return parse


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """A whole number within bounds, both included."""

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} to {most}")
        return int(text)

    return parse


def amount(text: str) -> float:
    """A number from 0 to 1e12."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 <= value <= 1e12:
        raise argparse.ArgumentTypeError("between 0 and 1e12")
    return value


def percent(text: str) -> float:
    """A percentage above 0, 1000 at most."""
    value = amount(text)
    if not 0 < value <= 1000:
        raise argparse.ArgumentTypeError("above 0, 1000 at most")
    return value


def seconds(text: str) -> float:
    """Seconds, up to an hour."""
    return _between(text, 1, 3600, "seconds")


def count_of(of: str) -> Callable[[str], int]:
    """Type of an option: a whole number from 1 on."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and int(text[:9]) > 0 and len(text) <= 9):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of {of}")
        return int(text)

    return parse


def interval(text: str) -> float:
    """Parse an option: seconds between frames."""
    return _between(text, 0.1, 3600, "seconds")


def fleet_interval(text: str) -> float:
    """Parse an option: seconds between queries."""
    return _between(text, 2, 3600, "seconds")


def bandwidth(text: str) -> float:
    """Parse an option: GB/s, 0 for unknown."""
    return _between(text, 0, 100_000, "GB/s")


def _between(text: str, least: float, most: float, unit: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of {unit}") from None
    if not least <= value <= most:
        raise argparse.ArgumentTypeError(f"between {least:g} and {most:g} {unit}")
    return value
