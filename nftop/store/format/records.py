"""Records of a recording and their encoding; `FORMAT.md` specifies it for other programs."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias
from zlib import crc32

import msgspec

from nftop.model.baseline import Baselines
from nftop.model.ids import Cpu, Lcore
from nftop.model.nf.queue_map import Prefix, QueueMap
from nftop.model.sample import Sample
from nftop.model.sample_bounds import SMT_THREADS, check_all
from nftop.model.terminal_text import safe_line
from nftop.model.topology import Host, Topology
from nftop.store.format.column_bytes import DamagedRecordingError
from nftop.store.format.schema import Fields, described, records_read
from nftop.store.user.baselines import from_plain

SCHEMA = "nftop.recording/1"
# Head of a record: its length and its CRC-32, both u32.
HEAD = struct.Struct("<II")
# 512 CPUs with every source take 360 kB in the first sample of a frame.
MOST_BYTES = 1 << 22
# Of a header or a note, which are decoded whole: lists of empty lists take 72 times as much memory.
# The header of 512 CPUs takes 64 kB, with baselines of all of them 300 kB.
MOST_PLAIN_BYTES = 1 << 21
# Characters of a note's text; the rest is dropped.
MOST_TEXT = 1 << 13


@dataclass(frozen=True, slots=True)
class Header:
    """Facts common to all samples that follow.

    Attributes:
        began_ns: wall clock when the recording began; distinguishes recordings of a host.
        uarch: name of the CPU's table; `smt`: for hyper-threading.
        cpus: the CPUs that were shown; None: all.
        command: the command line that recorded.
        versions: of nftop, Python and the kernel.
        catalogue: id, label, unit and scope of every metric.
        records: the fields of every record that a sample may have.
        baselines: at the begin of the frame; None if none. Only these may differ between frames.
    """

    began_ns: int
    host: Host
    topology: Topology
    uarch: str
    smt: bool
    interval_ns: int
    queue_map: QueueMap = field(default_factory=dict)
    cpus: tuple[Cpu, ...] | None = None
    command: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    catalogue: tuple[tuple[str, str, str, str], ...] = ()
    records: Mapping[str, Fields] = field(default_factory=described)
    baselines: Baselines | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """A sample. Numbers start with 0 and include lost samples.

    `fresh_bytes`: approximate memory that it does not share with the sample before.
    """

    number: int
    sample: Sample
    fresh_bytes: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Marker:
    """An event.

    Attributes:
        kind: `marker`: by the operator; `action`: a change of the host that nftop made on request;
            `change`: an observed change of cache classes, by any program; `finding`: the first tick
            that has one; `baseline`: kept or dropped, valid from the next tick on; `experiment`: a
            step of one, see `store/history/experiments.py`.
        text: for the operator (untrusted). detail: for programs.
    """

    kind: str
    wall_ns: int
    monotonic_ns: int
    text: str
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DroppedTicks:
    """Number of ticks before this that were not recorded, and why."""

    ticks: int
    why: str


Record: TypeAlias = Header | Tick | Marker | DroppedTicks
Note: TypeAlias = Marker | DroppedTicks
BASELINE = "baseline"
EXPERIMENT = "experiment"
# End of the text of a `change` that nftop made: in the same time as an `action` of classes.
OWN_SUFFIX = " (beside a change by this nftop)"
MARKERS = ("marker", "action", "change", "finding", BASELINE, EXPERIMENT)


def framed(body: bytes) -> bytes:
    return HEAD.pack(len(body), crc32(body)) + body


def unframed(data: bytes | bytearray) -> tuple[bytes, int] | None:
    """The first record in `data`, and its size with head; None if it is not complete.

    Raises DamagedRecordingError.
    """
    if len(data) < HEAD.size:
        return None
    length, crc = HEAD.unpack_from(data)
    if length > MOST_BYTES:
        raise DamagedRecordingError("a record longer than any")
    end = HEAD.size + length
    if len(data) < end:
        return None
    body = bytes(data[HEAD.size : end])
    if crc32(body) != crc:
        raise DamagedRecordingError("a record's checksum is wrong")
    return body, end


def header_body(header: Header) -> bytes:
    """The first record of every zstd frame."""
    topology = header.topology
    queues = [
        [prefix, port, queue, lcore]
        for prefix, mapped in header.queue_map.items()
        for (port, queue), lcore in mapped.items()
    ]
    return msgspec.msgpack.encode(
        [
            "header",
            {
                "schema": SCHEMA,
                "began_ns": header.began_ns,
                "host": header.host,
                # By name: what Topology remembers beside its fields is no part of it.
                "topology": {
                    "cpus": topology.cpus,
                    "l3": topology.l3,
                    "notes": topology.notes,
                    "capacity": topology.capacity,
                },
                "uarch": header.uarch,
                "smt": header.smt,
                "interval_ns": header.interval_ns,
                "queue_map": queues,
                "cpus": header.cpus,
                "command": header.command,
                "versions": header.versions,
                "catalogue": header.catalogue,
                "records": header.records,
                "baselines": header.baselines,
            },
        ]
    )


def header_read(raw: Mapping[str, Any]) -> Header:
    """Decode a header. Raises DamagedRecordingError: invalid, or of an unknown schema."""
    schema = raw.get("schema")
    if schema != SCHEMA:
        raise DamagedRecordingError(
            f"its schema is {str(schema)[:40]!r}, and this nftop reads {SCHEMA}"
        )
    try:
        queue_map: dict[Prefix, dict[tuple[int, int], Lcore]] = {}
        for prefix, port, queue, lcore in raw["queue_map"]:
            queue_map.setdefault(Prefix(prefix), {})[port, queue] = Lcore(lcore)
        convert = msgspec.convert
        return Header(
            began_ns=convert(raw["began_ns"], int),
            host=convert(raw["host"], Host),
            topology=_topology(raw["topology"]),
            uarch=convert(raw["uarch"], str),
            smt=convert(raw["smt"], bool),
            interval_ns=convert(raw["interval_ns"], int),
            queue_map=queue_map,
            cpus=convert(raw["cpus"], tuple[Cpu, ...] | None),
            command=convert(raw["command"], tuple[str, ...]),
            versions=convert(raw["versions"], dict[str, str]),
            catalogue=convert(raw["catalogue"], tuple[tuple[str, str, str, str], ...]),
            records=records_read(raw["records"]),
            baselines=from_plain(raw.get("baselines")),
        )
    except (KeyError, TypeError, ValueError) as error:  # of msgspec too
        raise DamagedRecordingError(f"its header makes no sense: {error}") from None


def _topology(raw: Any) -> Topology:
    """Decode a topology. Raises ValueError."""
    topology = msgspec.convert(raw, Topology)
    check_all(topology)
    numbers = [info.cpu for info in topology.cpus]
    if sorted(set(numbers)) != numbers:
        raise ValueError("its CPUs are not in order")
    cores = Counter((info.package, info.l3, info.core) for info in topology.cpus if info.online)
    if max(cores.values(), default=0) > SMT_THREADS:
        raise ValueError(f"a core of more than {SMT_THREADS} CPUs")
    return topology


def note_body(note: Note) -> bytes:
    """A record that is neither a header nor a sample."""
    if isinstance(note, DroppedTicks):
        return msgspec.msgpack.encode(["gap", {"ticks": note.ticks, "why": note.why}])
    raw = {
        "wall_ns": note.wall_ns,
        "monotonic_ns": note.monotonic_ns,
        "text": note.text.encode("utf-8", "replace").decode(),
        "detail": note.detail,
    }
    return msgspec.msgpack.encode([note.kind, raw])


def note_read(kind: str, body: bytes | msgspec.Raw) -> Note | None:
    """A note; None for an unknown kind, whose body is not decoded. Raises DamagedRecordingError."""
    if kind != "gap" and kind not in MARKERS:
        return None
    try:
        raw = msgspec.msgpack.decode(body)
        if kind == "gap":
            gap = msgspec.convert(raw, DroppedTicks)
            if not 0 <= gap.ticks < 1 << 63:
                raise ValueError("no number of ticks")
            return replace(gap, why=safe_line(gap.why[:MOST_TEXT]))
        marker = msgspec.convert({**raw, "kind": kind}, Marker)
        if not all(0 <= item < 1 << 63 for item in (marker.wall_ns, marker.monotonic_ns)):
            raise ValueError("no time")
        marker = replace(marker, text=marker.text[:MOST_TEXT])
        if kind == BASELINE:
            baselines_of(marker)
    except (TypeError, ValueError) as error:
        raise DamagedRecordingError(f"a {kind} makes no sense: {error}") from None
    return marker


def baselines_of(marker: Marker) -> Baselines | None:
    """Baselines of a marker of kind `baseline`; None if dropped. Raises ValueError."""
    return from_plain(marker.detail.get("baselines"))
