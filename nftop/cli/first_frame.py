"""A first frame of text, written before anything else is imported; the screen takes its place.

It has what is known at once: the host, its network functions, its CPUs. Rates need two readings,
so they are marked as measuring. The lines are erased when the screen begins, or before any message.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # `typing` takes as long to import as Python to start
if TYPE_CHECKING:
    from nftop.sources.host.first_facts import FirstFacts

_LEAST_INTERVAL_S, _MOST_INTERVAL_S = 0.1, 3600.0
_FLAGS = ("--rw", "--utc")
_MEASURING = "measuring"

_written: list[int] = []  # lines on the terminal, if any


def is_wanted(arguments: list[str]) -> bool:
    """Whether these arguments begin the live screen on a terminal."""
    streams = (sys.stdin, sys.stdout)  # None where nftop was started with it closed
    return (
        _is_plain(arguments)
        and all(item is not None and item.isatty() for item in streams)
        and os.environ.get("TERM", "dumb") != "dumb"
    )


def show(facts: FirstFacts) -> None:
    """Write it; nothing if the terminal can't be written."""
    try:
        width, height = os.get_terminal_size(sys.stdout.fileno())
        lines = lines_of(facts, width - 1, height - 1)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
    except (OSError, ValueError):
        return
    _written.append(len(lines))


def erase() -> None:
    """Take it off the terminal; nothing if it is not there."""
    if not _written:
        return
    lines = _written.pop()
    try:
        sys.stdout.write(f"\x1b[{lines}A\r\x1b[J")
        sys.stdout.flush()
    except (OSError, ValueError):
        pass


def lines_of(facts: FirstFacts, width: int, height: int) -> list[str]:
    """At most `height` lines of `width` ASCII characters."""
    kinds = [kind for kind, _ in facts.nfs]
    counts = ", ".join(f"{kind} {kinds.count(kind)}" for kind in ("dpdk", "vpp", "ovs"))
    resctrl = {True: "in the kernel", False: "not in the kernel", None: "unknown"}[facts.resctrl]
    lines = [
        f" nftop {facts.name}  {facts.model}  CPUs {facts.cpus}",
        f" sources: {counts}, resctrl {resctrl}; counters: {_MEASURING}",
        "",
        f" {'NF':<24}{'KIND':<8}RATES",
        *(f" {name:<24.23}{kind:<8}{_MEASURING}" for kind, name in facts.nfs),
        "",
        f" {'CPU':<8}{'':<16}{'':<8}RATES",
        *_cpu_rows(facts),
    ]
    return [_printable(line)[: max(0, width)] for line in lines[: max(0, height)]]


def _cpu_rows(facts: FirstFacts) -> list[str]:
    isolated = set(_numbers(facts.isolated))
    return [
        f" {cpu:<8}{'isolated' if cpu in isolated else '':<24}{_MEASURING}"
        for cpu in _numbers(facts.cpus)
    ]


def _numbers(cpus: str) -> list[int]:
    """CPUs of a kernel's list, `0-3,8`; what is invalid is left out."""
    numbers: list[int] = []
    for run in cpus.split(","):
        first, _, last = run.partition("-")
        if first.isdigit() and (last or first).isdigit():
            numbers += range(int(first), min(int(last or first), int(first) + 4096) + 1)
    return numbers


def _printable(text: str) -> str:
    """Names are other people's: nothing but printable ASCII reaches the terminal."""
    return "".join(char if " " <= char <= "~" else "?" for char in text)


def _is_plain(arguments: list[str]) -> bool:
    """Whether these can be nothing but valid options of the live screen."""
    words = [word for word in arguments if word not in _FLAGS]
    if not words:
        return True
    if len(words) != 2 or words[0] != "-d":
        return False
    try:
        return _LEAST_INTERVAL_S <= float(words[1]) <= _MOST_INTERVAL_S
    except ValueError:
        return False
