"""What goes into a recording comes out again, bit for bit, whatever a source may give."""

from __future__ import annotations

import contextlib
import dataclasses
import struct
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from unittest import mock

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Missing, Reason
from nftop.model.rdt.masks import Cbm
from nftop.model.sample import Sample, SourceReading, ThreadTable
from nftop.model.sources import payloads
from nftop.store.format.codec import Codec, UnknownError
from nftop.store.format.column_bytes import MOST_BYTES as MOST_UNPACKED_BYTES
from nftop.store.format.column_bytes import (
    ColumnReader,
    ColumnWriter,
    DamagedRecordingError,
    Numbers,
)
from nftop.store.format.decoder import Decoder
from nftop.store.format.encoder import Encoder
from nftop.store.format.records import MOST_BYTES, Header, Tick, unframed
from nftop.store.format.schema import Shape, classes, described, records_read
from nftop.store.format.zstd import ZstdDecompressor
from tests.bench.scenes import Clocked
from tests.recordings import header_of, same
from tests.samples import thread

_DTYPES = ("u8", "i8", "u4", "i4", "f8", "f4", "u1", "?")
_ARRAYS = st.sampled_from(_DTYPES).flatmap(
    lambda dtype: st_numpy.arrays(
        np.dtype(dtype), st_numpy.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=20)
    )
)
_INTS = st.one_of(st.integers(-(2**63), 2**64 - 1), st.integers(0, 300))
_WORDS: Mapping[str, st.SearchStrategy[Any]] = {
    "int": _INTS,
    "float": st.floats(),
    # Paths that are not UTF-8 have lone surrogates in Python.
    "text": st.text(st.characters(codec=None), max_size=6),
    "bool": st.booleans(),
    "none": st.none(),
    "array": _ARRAYS,
}
_MISSING = st.builds(
    Missing, st.sampled_from([item for item in Reason if item]), st.text(max_size=5)
)
_CBM = st.integers(1, 20).flatmap(
    lambda width: st.builds(Cbm, st.integers(0, 2**width - 1), st.just(width))
)


def values(shape: Shape, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values of a shape."""
    if isinstance(shape, str):
        return _WORDS[shape]
    word, *inner = shape
    most = 18 if depth == 0 else 2
    created: Mapping[str, Callable[[list[Any]], st.SearchStrategy[Any]]] = {
        "list": lambda of: st.lists(values(of[0], depth + 1), max_size=most).map(tuple),
        "set": lambda of: st.frozensets(values(of[0], depth + 1), max_size=3),
        "map": lambda of: st.dictionaries(
            values(of[0], depth + 1), values(of[1], depth + 1), max_size=3
        ),
        "items": lambda of: st.tuples(*(values(entry, depth + 1) for entry in of)),
        "one_of": lambda of: st.one_of(*(values(entry, depth + 1) for entry in of)),
        "record": lambda of: records(of[0], depth + 1),
    }
    return created[word](inner)


def records(name: str, depth: int = 0) -> st.SearchStrategy[Any]:
    if name in ("Missing", "Cbm"):
        return _MISSING if name == "Missing" else _CBM
    shapes = dict(described()[name])
    if depth and name == "CounterTable":
        shapes["focus"] = "none"  # it has one of its own, and that has none
    return st.builds(
        classes()[name], **{field: values(shape, depth) for field, shape in shapes.items()}
    )


@pytest.mark.parametrize("kind", payloads(), ids=lambda kind: kind.__name__)
def test_every_payload_comes_back_as_it_was(kind: type) -> None:
    codec = Codec()
    # As another program has the shapes: from the recording.
    read = Codec(records_read(msgspec.msgpack.decode(msgspec.msgpack.encode(described()))))
    shape = ("record", kind.__name__)

    fields = [field for field, _ in described()[kind.__name__]]

    @settings(max_examples=12, suppress_health_check=list(HealthCheck))
    @given(
        st.lists(
            st.tuples(records(kind.__name__), st.sets(st.sampled_from(fields))),
            min_size=1,
            max_size=4,
        )
    )
    def through(session: list[tuple[Any, set[str]]]) -> None:
        writer, reader = ColumnWriter([]), ColumnReader([], [])
        value: Any = None
        for drawn, as_before in session:
            kept = {field: getattr(value, field) for field in as_before} if value else {}
            value = replace(drawn, **kept)
            writer = ColumnWriter(writer.kept, writer.fields)
            codec.write(shape, [value], writer)
            wire = msgspec.msgpack.decode(msgspec.msgpack.encode(writer.out))
            reader = ColumnReader(wire, reader.kept, fields=reader.fields)
            (result,) = read.read(shape, 1, reader)
            reader.end()
            # So that nothing is written that a reader has no room for.
            assert MOST_UNPACKED_BYTES - reader.budget == writer.spent_bytes
            assert same(value, result)

    through()


def test_fields_without_a_change_are_the_objects_of_the_sample_before() -> None:
    clocked = Clocked(64)
    samples = [clocked.sample() for _ in range(2)]
    read = decoded(header_of(clocked), *samples)
    values: list[Any] = [item.readings["perf"].value for item in read]
    first, second = values
    assert same(second, samples[1].readings["perf"].value)
    assert second.events is first.events and second.details is first.details
    assert second.values is not first.values


def test_a_field_beyond_its_bounds_is_refused_in_every_sample_that_has_it() -> None:
    clocked = Clocked(2)
    table: Any = clocked.sample().readings["perf"].value
    beyond = replace(table, cpus=np.full(len(table.cpus), 1 << 24, np.int32))
    later = [replace(of, values=table.values + np.uint64(5)) for of in (beyond, table)]
    samples = [Sample(1, 2, 3, {"perf": reading(of)}) for of in (beyond, *later)]
    read = decoded(header_of(clocked), *samples)
    values: list[Any] = [item.readings["perf"].value for item in read]
    reasons = [getattr(value, "reason", None) for value in values]
    assert reasons == [Reason.ERROR, Reason.ERROR, None]
    assert same(values[2], later[1])


@settings(max_examples=60)
@given(st.lists(_ARRAYS, min_size=1, max_size=4))
def test_numbers_come_back_against_whatever_was_before(arrays: list[Numbers]) -> None:
    before: list[bytes | Numbers] = []
    known: list[list[Any] | Numbers] = []
    for array in arrays:
        writer = ColumnWriter(before)
        writer.array(array)
        before = writer.kept
        reader = ColumnReader(msgspec.msgpack.decode(msgspec.msgpack.encode(writer.out)), known)
        assert same(array, reader.array())
        known = reader.kept


def test_a_counter_that_grows_by_little_takes_as_many_bytes_as_that_needs() -> None:
    start = np.arange(100, dtype=np.uint64) << np.uint64(40)
    first, second = ColumnWriter([]), ColumnWriter([start])
    first.array(start)
    second.array(start + np.uint64(200))
    (change,) = second.out
    assert isinstance(change, msgspec.msgpack.Ext) and len(bytes(change.data)) == 100
    third = ColumnWriter([start])
    third.array(start.copy())
    assert third.out == [None]


@given(st.binary(max_size=60), st.sampled_from([1, 2, 3]))
def test_columns_that_make_no_sense_are_damage(data: bytes, code: int) -> None:
    reader = ColumnReader([msgspec.msgpack.Ext(code, data)], [np.arange(3)])
    try:
        column = reader.array()
    except DamagedRecordingError:
        return
    assert isinstance(column, np.ndarray)


def bodies(header: Header, *samples: Sample) -> list[bytes]:
    encoder = Encoder(header)
    data = b"".join(encoder.tick(at, sample).data for at, sample in enumerate(samples))
    plain = ZstdDecompressor().decompress(data[60:])
    result = []
    while (whole := unframed(plain)) is not None:
        result.append(whole[0])
        plain = plain[whole[1] :]
    return result


def decoded(header: Header, *samples: Sample) -> list[Sample]:
    decoder = Decoder()
    decoder.begin()
    result = [decoder.record(body) for body in bodies(header, *samples)]
    return [item.sample for item in result if isinstance(item, Tick)]


def reading(value: Any, at_ns: int = 5) -> SourceReading[Any]:
    return SourceReading(value, at_ns, 7)


def test_what_a_source_gave_once_is_what_it_gave() -> None:
    clocked = Clocked(2)
    header, sample = header_of(clocked), clocked.sample()
    kept = sample.readings["dpdk"]
    states: list[Mapping[str, SourceReading[Any]]] = [
        {"dpdk": kept},
        {"dpdk": kept},  # it did not answer
        {"dpdk": dataclasses.replace(kept, read_at_ns=9)},  # it gave the same table
        {"dpdk": reading(Missing(Reason.STALE, "gone"))},
        {"dpdk": reading(Missing(Reason.STALE, "gone"))},
        {"dpdk": kept},
        {},
        {"dpdk": kept},
    ]
    samples = [Sample(10 + at, 20 + at, 1, state) for at, state in enumerate(states)]
    result = decoded(header, *samples)
    assert all(map(same, samples, result))
    assert result[1].readings["dpdk"] is result[0].readings["dpdk"]
    assert result[2].readings["dpdk"].value is result[0].readings["dpdk"].value


def test_what_can_not_be_recorded_is_absent_and_reports_it(snapshot: SnapshotAssertion) -> None:
    clocked = Clocked(2)
    odd = Sample(
        1, 2, 3, {"odd": reading({1, 2}), "topology": clocked.sample().readings["topology"]}
    )
    (result,) = decoded(header_of(clocked), odd)
    value = result.readings["odd"].value
    assert isinstance(value, Missing) and value.reason is Reason.ERROR
    assert value.message == snapshot
    assert same(result.readings["topology"], odd.readings["topology"])


def test_fields_that_came_or_went_since_are_no_obstacle() -> None:
    written = dict(described())
    # Of an nftop that had one field more, and not yet `queue`'s default.
    written["CounterUse"] = (("reads", "int"), ("spins", "float"), ("interrupts", "int"))
    writer = ColumnWriter([])
    writer.values([3])
    writer.values([0.5])
    writer.values([4])
    wire = msgspec.msgpack.decode(msgspec.msgpack.encode(writer.out))
    (result,) = Codec(written).read(("record", "CounterUse"), 1, ColumnReader(wire, []))
    assert (result.reads, result.interrupts) == (3, 4)
    written["CounterUse"] = (("reads", "int"),)
    with pytest.raises(UnknownError, match="CounterUse has no interrupts"):
        Codec(written).read(("record", "CounterUse"), 1, ColumnReader([[3]], []))
    with pytest.raises(UnknownError):
        Codec({}).read(("record", "Novelty"), 1, ColumnReader([[3]], []))
    with pytest.raises(UnknownError):
        Codec({}).read(("spiral", "int"), 1, ColumnReader([[3]], []))


@settings(max_examples=200)
@given(st.binary(max_size=40))
def test_a_body_that_makes_no_sense_is_damage(body: bytes) -> None:
    decoder = Decoder()
    decoder.begin()
    with contextlib.suppress(DamagedRecordingError):
        decoder.record(b"\x92" + body)


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("odd", ["x", None, True, 1.0, -1, 1 << 63])
def test_a_sample_without_its_numbers_is_damage(at: int, odd: object) -> None:
    times: list[object] = [0, 1, 1, 1]
    Decoder().record(msgspec.msgpack.encode(["sample", *times, {}]))
    times[at] = odd
    with pytest.raises(DamagedRecordingError):
        Decoder().record(msgspec.msgpack.encode(["sample", *times, {}]))


def test_a_new_field_of_a_new_record_is_passed_over() -> None:
    why = Missing(Reason.ERROR, "x")
    writer = ColumnWriter([])
    Codec().write(("record", "Missing"), [why], writer)
    columns = [msgspec.msgpack.decode(msgspec.msgpack.encode(item)) for item in writer.out]
    new: Shape = ("record", "New")
    shapes: dict[str, tuple[tuple[str, Shape], ...]] = {
        **described(),
        "New": (("x", "int"), ("y", ("map", "text", ("items", "int", "float")))),
        "Missing": (*described()["Missing"], ("more", ("list", ("one_of", "none", new)))),
    }
    more = [[3], [1, 0, 1], [None], [7, 8], [1, 1], ["a", "b"], [1, 2], [1.0, 2.0]]
    reader = ColumnReader(columns + more, [])
    assert Codec(shapes).read(("record", "Missing"), 1, reader) == [why]
    reader.end()
    with pytest.raises(DamagedRecordingError):
        Codec(shapes).read(("record", "Missing"), 1, ColumnReader(columns + more[:-1], []))


def zeros(dtype: bytes, count: int) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(1, struct.pack("<cBI", dtype, 1, count))


@pytest.mark.parametrize(
    ("shape", "columns"),
    [
        (("list", "int"), [zeros(b"B", 60 << 20), zeros(b"B", 60 << 20)]),
        (("list", ("list", "int")), [[60 << 20], zeros(b"B", 60 << 20)]),
        (("items", *["array"] * 40), [zeros(b"d", 8 << 20)] * 40),
    ],
)
def test_few_bytes_do_not_become_gigabytes(shape: Shape, columns: list[Any]) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DamagedRecordingError):
            Codec().read(shape, 1, ColumnReader(columns, []))
        assert tracemalloc.get_traced_memory()[1] < 300 << 20
    finally:
        tracemalloc.stop()


def test_a_record_longer_than_any_host_s_is_refused_unread() -> None:
    with pytest.raises(DamagedRecordingError, match="longer than any"):
        unframed(struct.pack("<II", MOST_BYTES + 1, 0))


def test_a_sample_that_readers_would_refuse_is_recorded_as_absent() -> None:
    clocked = Clocked(2)
    first, second = clocked.sample(), clocked.sample()
    header = header_of(clocked)
    with mock.patch("nftop.store.format.encoder.MOST_BYTES", 1000):
        read = decoded(header, first)
    assert {entry.value.reason for entry in read[0].readings.values()} == {Reason.ERROR}
    assert same(decoded(header, first, second)[1], second)


CPUS, VCPUS = 512, 1500


def vcpus(count: int, allowed: Callable[[int], tuple[int, ...]], second: int) -> ThreadTable:
    """The threads of virtual machines on a large host."""
    rows = tuple(
        thread(
            pid=10_000 + at // 64,
            tid=10_000 + at,
            comm=f"CPU {at % 64}/KVM",
            program="qemu-system-x86",
            role="qemu_vcpu",
            role_index=at % 64,
            allowed=allowed(at),
            last_cpu=at % CPUS,
            run_ns=second * 10**9,
        )
        for at in range(count)
    )
    return ThreadTable(rows, 0, 0)


def floating(_at: int) -> tuple[int, ...]:
    """It may run on every CPU; a tuple of its own, as a source makes them."""
    return tuple(range(CPUS))


def all_but_one(at: int) -> tuple[int, ...]:
    return tuple(cpu for cpu in range(CPUS) if cpu != at % CPUS)


def with_threads(sample: Sample, table: ThreadTable) -> Sample:
    return replace(sample, readings={**sample.readings, "processes": reading(table)})


@pytest.mark.parametrize("allowed", [floating, all_but_one])
def test_vcpus_that_may_run_on_all_cpus_of_a_large_host_are_read(
    allowed: Callable[[int], tuple[int, ...]],
) -> None:
    clocked = Clocked(2)
    samples = [with_threads(clocked.sample(), vcpus(VCPUS, allowed, at)) for at in (1, 2, 3)]
    read = decoded(header_of(clocked), *samples)
    for sample, written in zip(read, samples, strict=True):
        assert same(sample, written)
        table = sample.readings["processes"].value
        assert isinstance(table, ThreadTable)
        masks = [row.allowed for row in table.threads]
        assert len(set(map(id, masks))) == len(set(masks))


def test_a_source_that_readers_have_no_room_for_is_recorded_as_absent() -> None:
    """What the other sources gave is there, as is what the same one gives later."""
    clocked = Clocked(2)
    samples = [clocked.sample() for _ in range(4)]
    few = [vcpus(10, floating, second) for second in range(4)]
    texts = tuple(replace(row, comm="x" * 4096) for row in few[1].threads * 1000)
    tables = [few[0], replace(few[1], threads=texts), few[2], few[3]]
    with mock.patch("nftop.store.format.encoder.MOST_BYTES", 1 << 30):
        pairs = zip(samples, tables, strict=True)
        written = [with_threads(sample, table) for sample, table in pairs]
        read = decoded(header_of(clocked), *written)
    assert read[1].readings["processes"].value.reason is Reason.ERROR
    for sample, expected in zip(read, written, strict=True):
        others = sample.readings.keys() - {"processes"}
        assert all(same(sample.readings[other], expected.readings[other]) for other in others)
    for at in (0, 2, 3):
        assert same(read[at], written[at])


@pytest.mark.parametrize(
    ("shape", "lengths"), [(("list", ("list", "int")), 1), (("list", ("set", "int")), 1)]
)
def test_many_short_lists_take_no_more_than_the_budget(shape: Shape, lengths: int) -> None:
    """A few bytes of a recording, each list of another number."""
    count = 400_000
    ones = msgspec.msgpack.Ext(1, struct.pack("<cBI", b"B", 1, count) + bytes([lengths]) * count)
    numbers = np.arange(count, dtype="<u4")
    planes = numbers.view(np.uint8).reshape(count, 4).T.tobytes()
    values = msgspec.msgpack.Ext(1, struct.pack("<cBI", b"I", 1, count) + planes)
    tracemalloc.start()
    try:
        with pytest.raises(DamagedRecordingError):
            Codec().read(shape, 1, ColumnReader([[count], ones, values], []))
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
