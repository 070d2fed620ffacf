"""A document in Prometheus' text form: a line for each number, its place in labels.

`DRAM_Reads{socket="0",source="uncore"} 619790537984`. There are no averages of cores in it, and
what has an `aggregate` label is the sum of other lines, links and PCIe requests aside.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from nftop.model.pcm import CPU_FIELDS, PACKAGE_FIELDS
from nftop.sources.pcm.document import (
    BadDocumentError,
    Document,
    Numbers,
    Thread,
    interval_us,
    known,
    snake,
)

_LINE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{([^{}]*)\})?[ \t]+(\S+)(?:[ \t]+-?[0-9]+)?")
# Only from a name's begin: else a long run of letters is tried from each of them to its end.
_LABEL = re.compile(r'(?<![A-Za-z_])([A-Za-z_]+)="([^"]*)"')
_PLACE = re.compile(r"[0-9]{1,4}")
_CPU = re.compile(r"-?[0-9]{1,4}")
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_CPU_FIELDS, _PACKAGE_FIELDS = frozenset(CPU_FIELDS), frozenset(PACKAGE_FIELDS)
_FIRST_LINE = "Measurement_Interval_in_us"
# A server's lines are shorter than 200 bytes, and 8192 CPUs have some 300,000 of them. While `re`
# works on a line, no other thread does.
_LONGEST_LINE, _MOST_LINES = 4096, 1 << 20


@dataclass(slots=True)
class _Found:
    cpu: int | None = None
    numbers: Numbers = field(default_factory=dict)


def parse_text(body: bytes) -> Document:
    """The document in a body.

    Raises:
        BadDocumentError: it is none of a pcm-sensor-server.
    """
    if body.count(b"\n") > _MOST_LINES:
        raise BadDocumentError(f"it has more than {_MOST_LINES} lines")
    document: Document | None = None
    cores: dict[tuple[int, int, int], _Found] = {}
    for line in body.split(b"\n"):
        if len(line) > _LONGEST_LINE:
            continue
        hit = _LINE.fullmatch(line.decode("utf-8", "replace").strip())
        if hit is None:
            continue
        name, labels, text = hit[1], dict(_LABEL.findall(hit[2] or "")), hit[3]
        if name == _FIRST_LINE:
            document = Document(interval_us(_whole(text)))
        elif document is not None:
            _keep(document, cores, name, labels, text)
    if document is None:
        raise BadDocumentError(f"it has no {_FIRST_LINE}")
    for (socket, core, _), found in sorted(cores.items()):
        if found.cpu is not None and found.cpu >= 0:
            numbers = known(found.numbers, _CPU_FIELDS)
            document.threads.append(Thread(found.cpu, core, socket, numbers))
    return document


def _keep(
    document: Document,
    cores: dict[tuple[int, int, int], _Found],
    name: str,
    labels: dict[str, str],
    text: str,
) -> None:
    """One line's number in its place; whatever has none that is known is left out."""
    socket = _place(labels, "socket")
    if socket is None:
        return
    core, thread = _place(labels, "core"), _place(labels, "thread")
    key = snake(f"{name}_{labels['index']}" if "index" in labels else name)
    if core is not None and thread is not None:
        found = cores.setdefault((socket, core, thread), _Found())
        if name == "OS_ID":
            found.cpu = int(text) if _CPU.fullmatch(text) else None
        else:
            found.numbers[key] = _number(text)
    elif labels.get("source") == "uncore":
        numbers = {key: _number(text)}
        if labels.get("aggregate") == "system":
            document.keep_links(socket, numbers)
            if key.startswith("pcie_"):
                document.keep_pcie(socket, numbers)
        elif "aggregate" not in labels:
            document.sockets.setdefault(socket, {}).update(known(numbers, _PACKAGE_FIELDS))


def _place(labels: dict[str, str], name: str) -> int | None:
    text = labels.get(name, "")
    return int(text) if _PLACE.fullmatch(text) else None


def _whole(text: str) -> int | None:
    return int(text) if _WHOLE.fullmatch(text) else None


def _number(text: str) -> float:
    try:
        return float(text) if text.isascii() and len(text) < 64 else math.nan
    except ValueError:
        return math.nan
