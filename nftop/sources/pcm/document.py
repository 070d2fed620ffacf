"""A document of PCM's sensor server, JSON or Prometheus text, parsed into a `PcmTable`.

Documents are untrusted, possibly from another host: any size, name and number may occur. Only names
in `model.pcm` are kept, and no more rows than a host can have.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache

import msgspec
import numpy as np

from nftop.model.column import Floats
from nftop.model.pcm import CPU_FIELDS, LINK_FIELDS, PACKAGE_FIELDS, PCIE_EVENTS, PcmTable
from nftop.model.struct import dataclass, field

SensorValues = dict[str, float]

_MOST_CPUS = 8192  # the most that Linux is built for
_MOST_SOCKETS, _MOST_LINKS, _MOST_DEVICES, _MOST_COUNTERS = 256, 16, 256, 64
_LONGEST_US = 1 << 62
_NO_WORD = re.compile(r"[^0-9a-z]+")
_LINK = re.compile(r"(.+)_on_link_([0-9]{1,3})")
_TEXT = 64  # characters of an accelerator's own names


class BadDocumentError(Exception):
    """It is not a document of a pcm-sensor-server; the text says why."""


@dataclass(slots=True)
class Thread:
    """One logical CPU with its core and socket."""

    cpu: int
    core: int
    socket: int
    numbers: SensorValues


@dataclass(slots=True)
class Document:
    """The parts of a document that are kept; sockets by number, links by socket and number."""

    interval_us: int
    threads: list[Thread] = field(default_factory=list)
    sockets: dict[int, SensorValues] = field(default_factory=dict)
    links: dict[tuple[int, int], SensorValues] = field(default_factory=dict)
    pcie: dict[int, SensorValues] = field(default_factory=dict)
    accelerators: dict[str, SensorValues] = field(default_factory=dict)

    def keep_links(self, socket: int, numbers: SensorValues) -> None:
        for name, value in numbers.items():
            hit = _LINK.fullmatch(name)
            if hit and hit[1] in LINK_FIELDS and int(hit[2]) < _MOST_LINKS:
                self.links.setdefault((socket, int(hit[2])), {})[hit[1]] = value

    def keep_pcie(self, socket: int, numbers: SensorValues) -> None:
        kept = {name.removeprefix("pcie_"): value for name, value in numbers.items()}
        events = {name: value for name, value in kept.items() if name in PCIE_EVENTS}
        self.pcie.setdefault(socket, {}).update(events)

    def keep_accelerator(self, device: str, numbers: Mapping[str, float]) -> None:
        """Counts of an accelerator, by the server's names."""
        if len(self.accelerators) < _MOST_DEVICES or device in self.accelerators:
            kept = self.accelerators.setdefault(device[:_TEXT], {})
            for name, value in numbers.items():
                if len(kept) < _MOST_COUNTERS:
                    kept[name[:_TEXT]] = value


def snake(name: str) -> str:
    """A name as in `model.pcm`, from JSON (`Core Frequency`) or text (`Core_Frequency`)."""
    return _snake(name[:_TEXT])  # cut before it is kept, since any length may come


@lru_cache(maxsize=1024)  # a document has few names, each as often as there are CPUs
def _snake(name: str) -> str:
    return _NO_WORD.sub("_", name.lower()).strip("_")


def number(value: object) -> float:
    """A JSON value as a float64; NaN if it is no number, infinite if it is too large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def whole(value: object, most: int, what: str) -> int:
    """A JSON value as a whole number 0..most.

    Raises BadDocumentError: it is none; the text names `what`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise BadDocumentError(f"its {what} is missing or invalid")
    return value


def table_of(document: Document, *, since_start: bool) -> PcmTable:
    """The table of a document.

    Raises BadDocumentError: no CPU, a duplicate CPU, or more of anything than a host has.
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


def known(numbers: Mapping[str, float], fields: Collection[str]) -> SensorValues:
    return {name: value for name, value in numbers.items() if name in fields}


def _matrix(rows: Sequence[Mapping[str, float]], fields: Sequence[str]) -> Floats:
    cells = [[row.get(name, math.nan) for name in fields] for row in rows]
    return np.array(cells, dtype=np.float64).reshape(len(rows), len(fields))


# JSON: sockets, their cores, their threads. Builds differ in their fields. C++ writes `nan` and
# `inf`, which JSON does not have.
_NOT_JSON = re.compile(rb":\s*-?(?:nan|inf|NaN|Infinity)\b(?:\(\w*\))?")
_OF_SOCKET = re.compile(r".{0,64}\bSocket ([0-9]{1,3})")
_CPU_FIELDS, _PACKAGE_FIELDS = frozenset(CPU_FIELDS), frozenset(PACKAGE_FIELDS)
_MOST_NUMBER = (1 << 15) - 1  # of CPUs, cores and sockets


def parse_json(body: bytes) -> Document:
    """The document in a body. Raises BadDocumentError."""
    root = _object(_decoded(body))
    if "Sockets" not in root:
        raise BadDocumentError("it has no sockets")
    document = Document(max(1, whole(root.get("Interval us"), _LONGEST_US, "interval")))
    for socket in _objects(root["Sockets"]):
        _socket(document, socket)
    keepers = (("QPI/UPI Links", document.keep_links), ("PCIe Bandwidth", document.keep_pcie))
    for section, keep in keepers:
        for name, value in _object(root.get(section)).items():
            if hit := _OF_SOCKET.fullmatch(name):
                keep(int(hit[1]), _numbers(value))
    for device, value in _object(root.get("Accelerators")).items():
        counts = {name: number(item) for name, item in _object(value).items()}
        document.keep_accelerator(device, counts)
    return document


def _decoded(body: bytes) -> object:
    for data in (body, _NOT_JSON.sub(b":null", body)):
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return msgspec.json.decode(data)
    raise BadDocumentError("it is not JSON")


def _socket(document: Document, socket: Mapping[str, object]) -> None:
    socket_id = whole(socket.get("Socket ID"), _MOST_NUMBER, "socket's number")
    if socket_id in document.sockets:
        raise BadDocumentError(f"it names socket {socket_id} twice")
    uncore = _numbers(_object(socket.get("Uncore")).get("Uncore Counters"))
    document.sockets[socket_id] = known(uncore, _PACKAGE_FIELDS)
    for index, core in enumerate(_objects(socket.get("Cores"))):
        # Older builds number cores within a module or die, so the index in the list is used.
        for thread in _objects(core.get("Threads")):
            if number(thread.get("OS ID")) == -1:  # offline when the server began
                continue
            cpu = whole(thread.get("OS ID"), _MOST_NUMBER, "CPU's number")
            groups = (value for name, value in thread.items() if name.endswith("Counters"))
            numbers = {name: item for group in groups for name, item in _numbers(group).items()}
            document.threads.append(Thread(cpu, index, socket_id, known(numbers, _CPU_FIELDS)))


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> Iterator[Mapping[str, object]]:
    return (
        (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())
    )


def _numbers(value: object) -> SensorValues:
    return {snake(name): number(item) for name, item in _object(value).items()}


# Prometheus text: one number per line, with labels that identify the unit, such as
# `DRAM_Reads{socket="0",source="uncore"} 619790537984`. There are no averages of cores; lines with
# an `aggregate` label are sums of others, except those of links and PCIe requests.
_LINE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{([^{}]*)\})?[ \t]+(\S+)(?:[ \t]+-?[0-9]+)?")
# Anchored at the start of a name: otherwise a long run of letters is tried from each letter.
_LABEL = re.compile(r'(?<![A-Za-z_])([A-Za-z_]+)="([^"]*)"')
_INDEX = re.compile(r"[0-9]{1,4}")
_CPU = re.compile(r"-?[0-9]{1,4}")
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_FIRST_LINE = "Measurement_Interval_in_us"
# A server's lines are shorter than 200 bytes, and 8192 CPUs have some 300,000 of them. While `re`
# works on a line, no other thread does.
_LONGEST_LINE, _MOST_LINES = 4096, 1 << 20


@dataclass(slots=True)
class _CoreValues:
    cpu: int | None = None
    numbers: SensorValues = field(default_factory=dict)


def parse_text(body: bytes) -> Document:
    """The document in a body. Raises BadDocumentError."""
    if body.count(b"\n") > _MOST_LINES:
        raise BadDocumentError(f"it has more than {_MOST_LINES} lines")
    document: Document | None = None
    cores: dict[tuple[int, int, int], _CoreValues] = {}
    for line in body.split(b"\n"):
        if len(line) > _LONGEST_LINE:
            continue
        hit = _LINE.fullmatch(line.decode("utf-8", "replace").strip())
        if hit is None:
            continue
        name, labels, text = hit[1], dict(_LABEL.findall(hit[2] or "")), hit[3]
        if name == _FIRST_LINE:
            value = int(text) if _WHOLE.fullmatch(text) else None
            document = Document(max(1, whole(value, _LONGEST_US, "interval")))
        elif document is not None:
            _keep(document, cores, name, labels, text)
    if document is None:
        raise BadDocumentError(f"it has no {_FIRST_LINE}")
    for (socket, core, _), values in sorted(cores.items()):
        if values.cpu is not None and values.cpu >= 0:
            numbers = known(values.numbers, _CPU_FIELDS)
            document.threads.append(Thread(values.cpu, core, socket, numbers))
    return document


def _keep(
    document: Document,
    cores: dict[tuple[int, int, int], _CoreValues],
    name: str,
    labels: dict[str, str],
    text: str,
) -> None:
    """Keep one line's number, if it is known."""
    socket = _index_of(labels, "socket")
    if socket is None:
        return
    core, thread = _index_of(labels, "core"), _index_of(labels, "thread")
    key = snake(f"{name}_{labels['index']}" if "index" in labels else name)
    if core is not None and thread is not None:
        values = cores.setdefault((socket, core, thread), _CoreValues())
        if name == "OS_ID":
            values.cpu = int(text) if _CPU.fullmatch(text) else None
        else:
            values.numbers[key] = _number(text)
    elif labels.get("source") == "uncore":
        numbers = {key: _number(text)}
        if labels.get("aggregate") == "system":
            document.keep_links(socket, numbers)
            if key.startswith("pcie_"):
                document.keep_pcie(socket, numbers)
        elif "aggregate" not in labels:
            document.sockets.setdefault(socket, {}).update(known(numbers, _PACKAGE_FIELDS))


def _index_of(labels: dict[str, str], name: str) -> int | None:
    text = labels.get(name, "")
    return int(text) if _INDEX.fullmatch(text) else None


def _number(text: str) -> float:
    try:
        return float(text) if text.isascii() and len(text) < 64 else math.nan
    except ValueError:
        return math.nan
