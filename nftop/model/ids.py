"""Types of identifiers, so that a core number is never taken for a CPU number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NewType

Cpu = NewType("Cpu", int)  # a logical CPU, as the kernel numbers them
Core = NewType("Core", int)  # a physical core, unique on the host (see topology)
Package = NewType("Package", int)  # a socket
L3Domain = NewType("L3Domain", int)  # one last-level cache; the kernel's cache id
Lcore = NewType("Lcore", int)  # DPDK's own numbering; not a CPU number

# More than any kernel takes (NR_CPUS is at most 8192): lists come from other programs too.
_MOST_CPUS = 1 << 14


def parse_cpu_list(text: str) -> tuple[Cpu, ...]:
    """CPUs of a kernel cpulist such as `0-3,8,10-12:2/4`, ascending and unique; "" is no CPU.

    The grammar is that of the kernel's `bitmap_parselist`: ranges, and ranges with `:used/group`.

    Raises:
        ValueError: not a cpulist, or a range longer than any host's.
    """
    spanned = 0
    cpus: set[int] = set()
    for item in text.strip().split(","):
        if not item.strip() and not text.strip():
            continue
        span, _, pattern = item.strip().partition(":")
        first, dash, last = span.partition("-")
        low, high = _number(first, text), _number(last if dash else first, text)
        if high < low:
            raise ValueError(f"{text!r} is not a CPU list: {span!r} runs backwards")
        used, _, group = pattern.partition("/")
        spanned += high - low + 1
        if spanned > _MOST_CPUS:
            raise ValueError(f"{_MOST_CPUS} CPUs are the most that a CPU list may name")
        take, step = (_number(used, text), _number(group, text)) if pattern else (1, 1)
        if step < 1:
            raise ValueError(f"{text!r} is not a CPU list: group size 0")
        cpus.update(cpu for cpu in range(low, high + 1) if (cpu - low) % step < take)
    return tuple(Cpu(cpu) for cpu in sorted(cpus))


def format_cpu_list(cpus: Iterable[int]) -> str:
    """The shortest cpulist of plain ranges: `0-3,8`; "" for no CPU."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def _number(text: str, whole: str) -> int:
    # isdecimal() would let "٣" through; the kernel's lists are ASCII. int() is slow on long texts.
    if not (text.isascii() and text.isdigit() and len(text) <= 6):
        raise ValueError(f"{whole!r} is not a CPU list")
    return int(text)


def mhz_text(khz: int) -> str:
    """kHz, as in cpufreq's files, as MHz: `2700 MHz`, with decimals if needed."""
    return f"{khz // 1000} MHz" if khz % 1000 == 0 else f"{khz / 1000} MHz"
