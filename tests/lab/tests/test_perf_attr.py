"""perf_event_attr by size, and the name that carries a call."""

from __future__ import annotations

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.sources.perf.abi import attribute
from nftop.uarch.table import Encoding
from tests.lab.perf.attr import KNOWN, SMALLEST, Attr, cut, parse, size_of
from tests.lab.perf.call import Call, name_of, parse_name


def raw(size: int = KNOWN, *, flags: int = 0, **words: int) -> bytes:
    """A structure with these words set; offsets as in the header."""
    at = {"config": 8, "period": 16, "sample_type": 24, "read_format": 32, "reserved_2": 110}
    data = bytearray(max(size, KNOWN))
    struct.pack_into("<II", data, 0, 4, size)
    struct.pack_into("<Q", data, 40, flags)
    for name, value in words.items():
        struct.pack_into("<H" if name == "reserved_2" else "<Q", data, at[name], value)
    return bytes(data[:size])


def code_of(data: bytes) -> int:
    try:
        parse(cut(data))
    except OSError as error:
        return error.errno or -1
    return 0


def test_the_client_of_nftop_is_understood() -> None:
    data = bytes(attribute(Encoding(4, 0x3C, 1, 2), leader=True))
    assert size_of(data) == len(data) == 136
    assert parse(cut(data)) == Attr(4, 0x3C, 1, 2, 0, 0, 0b1011, frozenset({"disabled"}))


@pytest.mark.parametrize(("size", "taken"), [(0, SMALLEST), (64, 64), (128, 128), (4096, 4096)])
def test_sizes(size: int, taken: int) -> None:
    assert size_of(struct.pack("<II", 4, size)) == taken


@pytest.mark.parametrize("size", [1, 63, 4097, 0xFFFFFFFF])
def test_sizes_that_no_kernel_had(size: int) -> None:
    with pytest.raises(OSError) as caught:
        size_of(struct.pack("<II", 4, size))
    assert caught.value.errno == errno.E2BIG


def test_what_is_not_known_must_be_zero() -> None:
    assert code_of(raw(200)) == 0
    assert code_of(raw(200)[:-1] + b"\1") == errno.E2BIG


@pytest.mark.parametrize(
    "data",
    [
        raw(read_format=1 << 5),
        raw(sample_type=1 << 25),
        raw(reserved_2=1),
        raw(flags=1 << 38),
        raw(flags=1 << 63),
        raw(flags=1 << 12 | 1 << 36),  # both enable_on_exec and remove_on_exec
        raw(flags=1 << 37),  # sigtrap alone
        raw(period=1 << 63),
        raw(flags=1 << 1, sample_type=1 << 4),  # inherited, and read with a sample
    ],
)
def test_what_the_kernel_refuses(data: bytes) -> None:
    assert code_of(data) == errno.EINVAL


def test_a_short_structure_ends_in_zeros() -> None:
    assert parse(raw(64, config=7)) == parse(raw(config=7))
    assert parse(raw(flags=0b1101 | 1 << 12)).bits == {
        "disabled",
        "pinned",
        "exclusive",
        "enable_on_exec",
    }


calls = st.builds(
    Call,
    event=st.integers(1, 2**63),
    attr=st.binary(max_size=KNOWN),
    pid=st.integers(-1, 2**22),
    cpu=st.integers(-1, 8191),
    leader=st.integers(0, 2**63),
    flags=st.integers(0, 15),
    uid=st.integers(0, 2**32 - 1),
    privileged=st.booleans(),
)


@given(call=calls)
def test_a_name_carries_the_whole_call(call: Call) -> None:
    name = name_of(call)
    back = parse_name(name)
    assert len(name) <= 255
    assert "/" not in name
    assert back.attr.ljust(KNOWN, b"\0") == call.attr.ljust(KNOWN, b"\0")
    assert (back.event, back.pid, back.leader, back.privileged) == (
        call.event,
        call.pid,
        call.leader,
        call.privileged,
    )


@pytest.mark.parametrize("name", ["", "x", "event,1,2", "event,a,b,c,d,e,f,g,AA", "event,1,2,3,4"])
def test_other_names_are_no_files(name: str) -> None:
    with pytest.raises(OSError) as caught:
        parse_name(name)
    assert caught.value.errno == errno.ENOENT
