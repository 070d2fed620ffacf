"""A document in JSON: sockets, their cores, their threads.

What is there decides, not a version: builds differ in fields, and later ones may have more. C++
writes `nan` and `inf` where JSON has no word for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from nftop.model.pcm import CPU_FIELDS, PACKAGE_FIELDS
from nftop.sources.pcm.document import (
    BadDocumentError,
    Document,
    Numbers,
    Thread,
    interval_us,
    known,
    number,
    snake,
    whole,
)

_NOT_JSON = re.compile(rb":\s*-?(?:nan|inf|NaN|Infinity)\b(?:\(\w*\))?")
_OF_SOCKET = re.compile(r".{0,64}\bSocket ([0-9]{1,3})")
_CPU_FIELDS, _PACKAGE_FIELDS = frozenset(CPU_FIELDS), frozenset(PACKAGE_FIELDS)
_MOST_NUMBER = (1 << 15) - 1  # of CPUs, cores and sockets


def parse_json(body: bytes) -> Document:
    """The document in a body.

    Raises:
        BadDocumentError: the body is no JSON, or none of a pcm-sensor-server.
    """
    root = _object(_decoded(body))
    if "Sockets" not in root:
        raise BadDocumentError("it has no sockets")
    document = Document(interval_us(root.get("Interval us")))
    for socket in _objects(root["Sockets"]):
        _socket(document, socket)
    for name, value in _object(root.get("QPI/UPI Links")).items():
        hit = _OF_SOCKET.fullmatch(name)
        if hit:
            document.keep_links(int(hit[1]), _numbers(value))
    for name, value in _object(root.get("PCIe Bandwidth")).items():
        hit = _OF_SOCKET.fullmatch(name)
        if hit:
            document.keep_pcie(int(hit[1]), _numbers(value))
    for device, value in _object(root.get("Accelerators")).items():
        counts = {name: number(item) for name, item in _object(value).items()}
        document.keep_accelerator(device, counts)
    return document


def _decoded(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return msgspec.json.decode(_NOT_JSON.sub(b":null", body))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise BadDocumentError("it is not JSON") from None


def _socket(document: Document, socket: Mapping[str, object]) -> None:
    place = whole(socket.get("Socket ID"), _MOST_NUMBER, "socket's number")
    if place in document.sockets:
        raise BadDocumentError(f"it names socket {place} twice")
    uncore = _numbers(_object(socket.get("Uncore")).get("Uncore Counters"))
    document.sockets[place] = known(uncore, _PACKAGE_FIELDS)
    for index, core in enumerate(_objects(socket.get("Cores"))):
        # Older builds number cores within a module or die, so the place in the list is taken.
        for thread in _objects(core.get("Threads")):
            if number(thread.get("OS ID")) == -1:  # offline when the server began
                continue
            cpu = whole(thread.get("OS ID"), _MOST_NUMBER, "CPU's number")
            groups = (value for name, value in thread.items() if name.endswith("Counters"))
            numbers = {name: item for group in groups for name, item in _numbers(group).items()}
            document.threads.append(Thread(cpu, index, place, known(numbers, _CPU_FIELDS)))


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> Iterator[Mapping[str, object]]:
    return (
        (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())
    )


def _numbers(value: object) -> Numbers:
    return {snake(name): number(item) for name, item in _object(value).items()}
