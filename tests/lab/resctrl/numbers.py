"""Numbers and sets of CPUs as the kernel reads and prints them."""

from __future__ import annotations

import errno
import re
from collections.abc import Collection

from tests.lab.tree import failed

_DIGITS = {8: "[0-7]+", 10: "[0-9]+", 16: "(?:0[xX])?[0-9a-fA-F]+"}
_CHUNK_BITS, _CHUNK_DIGITS = 32, 8
_SEPARATORS = re.compile(r"[\s,]+")
# a, a-b, a-b:used/group
_RANGE = re.compile(r"(\d+|N)(?:-(\d+|N)(?::(\d+)/(\d+))?)?")


def unsigned(text: str, base: int, bits: int = 64) -> int | None:
    """As kstrtoul: digits of base 10, 16 or, if 0, of the base they are written in; None if not.

    A plus may lead and one newline may follow; nothing else may.
    """
    body = text.removesuffix("\n").removeprefix("+")
    if base == 0:
        base = 16 if body[:2].lower() == "0x" else 8 if body[:1] == "0" else 10
    if not re.fullmatch(_DIGITS[base], body, re.ASCII):
        return None
    value = int(body, base)
    return value if value < 1 << bits else None


def signed(text: str, bits: int = 32) -> int | None:
    """As kstrtoint of base 0."""
    negative = text.startswith("-")
    value = unsigned(text.removeprefix("-") if negative else text, 0)
    if value is None or (negative and text[1:2] == "+") or value >= (1 << bits - 1) + negative:
        return None
    return -value if negative else value


def cpu_list(text: str, possible: int) -> set[int]:
    """CPUs of a list such as `0-2,7`; `possible` is how many there can be.

    Raises:
        OSError: EINVAL for what is no list, ERANGE for CPUs that there can't be.
    """
    cpus: set[int] = set()
    for word in _SEPARATORS.split(text.partition("\n")[0]):
        if word:
            cpus |= _range("0-N" if word == "all" else word, possible)
    return cpus


def cpu_mask(text: str, possible: int) -> set[int]:
    """CPUs of a mask such as `ff,00000001`: chunks of up to 8 digits, the highest first.

    Commas may be too many, as those that libpqos writes are.

    Raises:
        OSError: EINVAL for what is no mask, EOVERFLOW for CPUs that there can't be and for more
            chunks or digits than there can be, be they 0.
    """
    value = 0
    chunks = [word for word in _SEPARATORS.split(text.partition("\n")[0]) if word]
    for index, chunk in enumerate(reversed(chunks)):
        if index * _CHUNK_BITS >= possible:
            raise failed(errno.EOVERFLOW)
        if not re.fullmatch("[0-9a-fA-F]+", chunk[-_CHUNK_DIGITS - 1 :], re.ASCII):
            raise failed(errno.EINVAL)
        if len(chunk) > _CHUNK_DIGITS:
            raise failed(errno.EOVERFLOW)
        value |= int(chunk, 16) << index * _CHUNK_BITS
    if value >> possible:
        raise failed(errno.EOVERFLOW)
    return {cpu for cpu in range(possible) if value >> cpu & 1}


def list_text(cpus: Collection[int]) -> str:
    """A list: `0-2,7`, "" of none."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in runs)


def mask_text(cpus: Collection[int], possible: int) -> str:
    """A mask in chunks of 32 bits, with the digits that all possible CPUs need."""
    value = sum(1 << cpu for cpu in cpus)
    chunks = []
    for low in range(0, possible, _CHUNK_BITS):
        digits = min(_CHUNK_DIGITS, -(-(possible - low) // 4))
        chunks.append(f"{value >> low & (1 << _CHUNK_BITS) - 1:0{digits}x}")
    return ",".join(reversed(chunks))


def _range(word: str, possible: int) -> set[int]:
    match = _RANGE.fullmatch(word)
    if match is None:
        raise failed(errno.EINVAL)
    first, last, used, size = match.groups()
    low = possible - 1 if first == "N" else int(first)
    high = low if last is None else possible - 1 if last == "N" else int(last)
    step, taken = (int(size), int(used)) if size is not None else (1, 1)
    if low > high or step == 0 or taken > step:
        raise failed(errno.EINVAL)
    if high >= possible:
        raise failed(errno.ERANGE)
    return {cpu for cpu in range(low, high + 1) if (cpu - low) % step < taken}
