"""PMUs of sysfs: `pmu/terms/` to perf_event_attr.

Files: /sys/bus/event_source/devices/PMU/{type,format/*,events/*,cpumask}, described in the kernel's
Documentation/ABI/testing/sysfs-bus-event_source-devices*.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from nftop.model.ids import Cpu, parse_cpu_list
from nftop.model.struct import dataclass
from nftop.uarch.table import CONFIG_WORDS, Encoding

DEVICES = "sys/bus/event_source/devices"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_FORMAT = re.compile(r"(config[123]?):(\d{1,2}(?:-\d{1,2})?(?:,\d{1,2}(?:-\d{1,2})?)*)")
# Files of an event that are no events: the unit and scale of its counts, and flags.
_ATTACHED = (".scale", ".unit", ".per-pkg", ".snapshot")


class PmuError(ValueError):
    """The PMU's files or the terms are invalid; the text says why."""


@dataclass(frozen=True, slots=True)
class Pmu:
    """One PMU."""

    name: str
    pmu_type: int  # perf_event_attr.type
    formats: Mapping[str, str]  # bits of each term, as in sysfs: `config:0-7,32-35`
    events: Mapping[str, str]  # terms of each predefined event: `event=0x3c,umask=0x1`
    cpumask: tuple[Cpu, ...] | None  # CPUs to open its events on; None: on the CPU to be counted


def read_pmu(name: str, root: Path = Path("/")) -> Pmu:
    """The PMU of that name.

    Raises FileNotFoundError: this kernel has no such PMU; OSError: it can't be read; PmuError: its
    files violate the kernel's documentation.
    """
    if not _NAME.fullmatch(name):
        raise PmuError(f"{name!r} is not the name of a PMU")
    folder = root / DEVICES / name
    try:
        pmu_type = int((folder / "type").read_text(encoding="ascii"))
        mask = folder / "cpumask"
        cpumask = parse_cpu_list(mask.read_text(encoding="ascii")) if mask.exists() else None
    except ValueError as error:
        raise PmuError(f"PMU {name}: {error}") from None
    events = _texts(folder / "events")
    named = {key: text for key, text in events.items() if not key.endswith(_ATTACHED)}
    return Pmu(name, pmu_type, _texts(folder / "format"), named, cpumask)


def encode(pmu: Pmu, terms: str) -> Encoding:
    """The encoding of `tsc`, `event=0x3c,umask=0x1`, or `cycles,cmask=2`; later terms win.

    A term is the name of a format with a value (default 1), a whole word (`config=0x1`), or the
    name of one of the PMU's events. Raises PmuError: an unknown term, or a value that does not fit.
    """
    words = dict.fromkeys(CONFIG_WORDS, 0)
    for term, value in _expand(pmu, terms):
        word, bits = term, tuple(range(64))
        if term in pmu.formats:
            word, bits = parse_format(pmu.formats[term])
        if value >> len(bits):
            raise PmuError(f"{pmu.name}/{terms}/: {term}={value:#x} does not fit {len(bits)} bits")
        words[word] = scatter(words[word], value, bits)
    return Encoding(pmu.pmu_type, **words)


def scatter(word: int, value: int, bits: tuple[int, ...]) -> int:
    """`word` with bit i of `value` at position `bits[i]`, other positions unchanged."""
    for index, position in enumerate(bits):
        word = word & ~(1 << position) | (value >> index & 1) << position
    return word


@functools.lru_cache(maxsize=256)
def parse_format(text: str) -> tuple[str, tuple[int, ...]]:
    """Word and bit positions of `config:0-7,32-35`, lowest first. Raises PmuError."""
    match = _FORMAT.fullmatch(text.strip())
    if match is None:
        raise PmuError(f"{text!r} is not a format")
    spans = (span.partition("-") for span in match[2].split(","))
    positions = [at for low, _, high in spans for at in range(int(low), int(high or low) + 1)]
    if not positions or max(positions) > 63 or len(set(positions)) != len(positions):
        raise PmuError(f"{text!r} is not a format of a 64-bit word")
    return match[1], tuple(positions)


def _expand(pmu: Pmu, terms: str, *, nested: bool = False) -> Iterator[tuple[str, int]]:
    for assignment in terms.split(","):
        term, has_value, text = assignment.strip().partition("=")
        if term in pmu.formats or (term in CONFIG_WORDS and has_value):
            yield term, _number(pmu, term, text) if has_value else 1
        elif term in pmu.events and not has_value and not nested:
            yield from _expand(pmu, pmu.events[term], nested=True)
        else:
            raise PmuError(f"the kernel's PMU {pmu.name} has no event or term {term!r}")


def _number(pmu: Pmu, term: str, text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if value < 0:
        raise PmuError(f"PMU {pmu.name}: {term}={text!r} is not a number")
    return value


def _texts(folder: Path) -> dict[str, str]:
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    files = (path for path in entries if path.is_file())
    return {path.name: path.read_text(encoding="utf-8", errors="replace").strip() for path in files}
