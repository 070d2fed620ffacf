"""Parsing of telemetry messages, which are untrusted.

The peer may be any program that listens at the right path. A message becomes a value of the
expected type or a `ReplyError`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeVar

from nftop.model.struct import dataclass
from nftop.sources.nf_session.connection import ReplyError

MAX_MESSAGE_BYTES = 1 << 20  # DPDK's own limit is 16 KiB; more than this is not an application's
MAX_ITEMS = 4096  # DPDK's own limit for an array is 512 (rte_telemetry.h)
TEXT_LIMIT = 128  # characters of a name or version; DPDK's own limit for names

_COUNTER_END = 1 << 64
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Greeting:
    """First message of an application; its `pid` is that in its container, so it is not kept.

    `message_bytes` is the longest message it may send, capped at MAX_MESSAGE_BYTES.
    """

    version: str
    message_bytes: int


def document(raw: bytes, what: str) -> dict[str, object]:
    """The JSON object in one message.

    Arguments of a command line come as they were typed, so bytes that are not UTF-8 are replaced
    and bare control characters let through.

    Raises:
        ReplyError: it is not a JSON object, or is nested beyond reason.
    """
    try:
        value = json.loads(raw.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError) as error:
        raise ReplyError(f"{what} is not JSON") from error
    return mapping(value, what)


def reply(raw: bytes, command: str) -> object:
    """The value in the reply to a command: `{"<command without parameters>": value}`.

    Raises:
        ReplyError: not JSON, or about something else.
    """
    name = command.partition(",")[0]
    fields = document(raw, f"its answer to {command}")
    if len(fields) != 1 or name not in fields:
        raise ReplyError(f"its answer to {command} is for another command")
    return fields[name]


def greeting(raw: bytes) -> Greeting:
    """The first message of a connection: `{"version", "pid", "max_output_len"}`."""
    what = "its greeting"
    fields = document(raw, what)
    length = number(fields.get("max_output_len"), f"max_output_len in {what}")
    if length == 0:
        raise ReplyError(f"max_output_len in {what} is 0")
    return Greeting(text(fields.get("version"), what), min(length, MAX_MESSAGE_BYTES))


def number(value: object, what: str, end: int = _COUNTER_END) -> int:
    """A whole number in 0..end-1; a bool, a float or a text is none."""
    if type(value) is not int:
        raise ReplyError(f"{what} is not a whole number")
    if not 0 <= value < end:
        raise ReplyError(f"{what} is out of range")
    return value


def maybe_number(value: object, what: str, end: int = _COUNTER_END) -> int | None:
    """A number, or None where the application gives none (absent or null)."""
    return None if value is None else number(value, what, end)


def numbers(value: object, what: str, end: int = _COUNTER_END) -> tuple[int, ...]:
    return tuple(number(item, what, end) for item in _items(value, what))


def text(value: object, what: str, limit: int = TEXT_LIMIT) -> str:
    """At most `limit` characters that any encoder takes; still untrusted."""
    if not isinstance(value, str):
        raise ReplyError(f"{what} is not a text")
    # JSON escapes can name half a surrogate pair, which no UTF-8 writer accepts.
    return value[:limit].encode("utf-8", "replace").decode("utf-8")


def texts(value: object, what: str, limit: int = TEXT_LIMIT) -> tuple[str, ...]:
    return tuple(text(item, what, limit) for item in _items(value, what))


def mapping(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ReplyError(f"{what} is not an object")
    return value


def same_length(columns: Sequence[Sequence[T]], what: str) -> None:
    if len({len(column) for column in columns}) > 1:
        raise ReplyError(f"{what}: its columns differ in length")


def _items(value: object, what: str) -> list[object]:
    if not isinstance(value, list):
        raise ReplyError(f"{what} is not a list")
    if len(value) > MAX_ITEMS:
        raise ReplyError(f"{what} has {len(value)} items")
    return value
