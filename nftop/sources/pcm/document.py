"""What both forms of a document are brought to, and the table that becomes of it.

Documents come from another program, maybe of another host: any size, name and number may be in
them, so only the names that `model.pcm` knows are kept, and so many rows as a host can have.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from nftop.model.column import Floats
from nftop.model.pcm import CPU_FIELDS, LINK_FIELDS, PACKAGE_FIELDS, PCIE_EVENTS, PcmTable

Numbers = dict[str, float]

_MOST_CPUS = 8192  # the most that Linux is built for
_MOST_SOCKETS, _MOST_LINKS, _MOST_DEVICES, _MOST_COUNTERS = 256, 16, 256, 64
_LONGEST_US = 1 << 62
_NO_WORD = re.compile(r"[^0-9a-z]+")
_LINK = re.compile(r"(.+)_on_link_([0-9]{1,3})")
_TEXT = 64  # characters of an accelerator's own names


class BadDocumentError(Exception):
    """It is not what a pcm-sensor-server writes; the text says in which way."""


@dataclass(slots=True)
class Thread:
    """One logical CPU and where the server has it."""

    cpu: int
    core: int
    socket: int
    numbers: Numbers


@dataclass(slots=True)
class Document:
    """All that is kept of one document; sockets by their number, links by socket and number."""

    interval_us: int
    threads: list[Thread] = field(default_factory=list)
    sockets: dict[int, Numbers] = field(default_factory=dict)
    links: dict[tuple[int, int], Numbers] = field(default_factory=dict)
    pcie: dict[int, Numbers] = field(default_factory=dict)
    accelerators: dict[str, Numbers] = field(default_factory=dict)

    def keep_links(self, socket: int, numbers: Numbers) -> None:
        """Of a socket's numbers those of its links."""
        for name, value in numbers.items():
            hit = _LINK.fullmatch(name)
            if hit and hit[1] in LINK_FIELDS and int(hit[2]) < _MOST_LINKS:
                self.links.setdefault((socket, int(hit[2])), {})[hit[1]] = value

    def keep_pcie(self, socket: int, numbers: Numbers) -> None:
        """Of a socket's numbers those of the requests of its devices."""
        kept = {name.removeprefix("pcie_"): value for name, value in numbers.items()}
        found = {name: value for name, value in kept.items() if name in PCIE_EVENTS}
        self.pcie.setdefault(socket, {}).update(found)

    def keep_accelerator(self, device: str, numbers: Mapping[str, float]) -> None:
        """What one accelerator counted, under the server's own names."""
        if len(self.accelerators) < _MOST_DEVICES or device in self.accelerators:
            kept = self.accelerators.setdefault(device[:_TEXT], {})
            for name, value in numbers.items():
                if len(kept) < _MOST_COUNTERS:
                    kept[name[:_TEXT]] = value


def snake(name: str) -> str:
    """A name as `model.pcm` has it, from JSON (`Core Frequency`) or text (`Core_Frequency`)."""
    return _snake(name[:_TEXT])  # cut before it is kept, since any length may come


@lru_cache(maxsize=1024)  # a document has few names, each as often as there are CPUs
def _snake(name: str) -> str:
    return _NO_WORD.sub("_", name.lower()).strip("_")


def number(value: object) -> float:
    """A JSON value as a float64; NaN where it is no number, infinite where it is too large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def whole(value: object, most: int, what: str) -> int:
    """A JSON value as a whole number 0..most.

    Raises:
        BadDocumentError: it is none; the text says `what` it should be.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise BadDocumentError(f"it has no {what} where one belongs")
    return value


def interval_us(value: object) -> int:
    """The document's interval.

    Raises:
        BadDocumentError: it is not positive.
    """
    return max(1, whole(value, _LONGEST_US, "interval"))


def table_of(document: Document, *, since_start: bool) -> PcmTable:
    """The table of a document.

    Raises:
        BadDocumentError: it names no CPU, one twice, or more of anything than a host has.
    """
    threads = sorted(document.threads, key=lambda thread: thread.cpu)
    cpus = [thread.cpu for thread in threads]
    if not cpus:
        raise BadDocumentError("it names no CPU")
    if len(set(cpus)) < len(cpus):
        raise BadDocumentError("it names a CPU twice")
    sockets = sorted({thread.socket for thread in threads} | document.sockets.keys())
    if len(cpus) > _MOST_CPUS or len(sockets) > _MOST_SOCKETS:
        raise BadDocumentError(f"it names {len(cpus)} CPUs and {len(sockets)} sockets")
    links = sorted(link for link in document.links if link[0] in sockets)
    return PcmTable(
        since_start=since_start,
        interval_us=document.interval_us,
        cpus=np.array(cpus, dtype=np.int32),
        cores=np.array([thread.core for thread in threads], dtype=np.int32),
        packages=np.array([thread.socket for thread in threads], dtype=np.int32),
        of_cpus=_matrix([thread.numbers for thread in threads], CPU_FIELDS),
        sockets=np.array(sockets, dtype=np.int32),
        of_packages=_matrix(
            [document.sockets.get(socket, {}) for socket in sockets], PACKAGE_FIELDS
        ),
        links=np.array(links, dtype=np.int32).reshape(-1, 2),
        of_links=_matrix([document.links[link] for link in links], LINK_FIELDS),
        pcie=_matrix([document.pcie.get(socket, {}) for socket in sockets], PCIE_EVENTS),
        accelerators=tuple(
            (device, tuple(numbers.items())) for device, numbers in document.accelerators.items()
        ),
        cpu_fields=CPU_FIELDS,
        package_fields=PACKAGE_FIELDS,
        link_fields=LINK_FIELDS,
        events=PCIE_EVENTS,
    )


def known(numbers: Mapping[str, float], fields: Collection[str]) -> Numbers:
    """The numbers with these names."""
    return {name: value for name, value in numbers.items() if name in fields}


def _matrix(rows: Sequence[Mapping[str, float]], fields: Sequence[str]) -> Floats:
    cells = [[row.get(name, math.nan) for name in fields] for row in rows]
    return np.array(cells, dtype=np.float64).reshape(len(rows), len(fields))
