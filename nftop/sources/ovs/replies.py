"""Parsing of unixctl's messages, which are untrusted.

A reply is `{"id", "result": text, "error": null}`, or `{"id", "error": text}` where the command
failed (ovs/lib/unixctl.c, jsonrpc.c). Anything else is a `ReplyError`.
"""

from __future__ import annotations

import json

from nftop.model.struct import dataclass
from nftop.sources.nf_session.connection import ReplyError

TEXT_LIMIT = 128  # characters of a name, a version or an error
COUNTER_END = 1 << 64


@dataclass(frozen=True, slots=True)
class Reply:
    """Output of a command: `text`, or `error`, which is "" on success.

    Attributes:
        at_ns: CLOCK_MONOTONIC at its arrival.
    """

    text: str
    error: str
    at_ns: int


def request(number: int, method: str, arguments: tuple[str, ...]) -> bytes:
    """A request; its reply has the same `number`."""
    return json.dumps({"method": method, "params": list(arguments), "id": number}).encode("ascii")


def reply(raw: bytes, number: int, what: str, at_ns: int) -> Reply:
    """The reply to the request of that number.

    Raises:
        ReplyError: not JSON, or not a reply to that.
    """
    try:
        fields = json.loads(raw.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError) as error:
        raise ReplyError(f"its answer to {what} is not JSON") from error
    if not isinstance(fields, dict) or type(fields.get("id")) is not int or fields["id"] != number:
        raise ReplyError(f"its answer to {what} is for another request")
    failed = fields.get("error")
    if failed is not None:
        return Reply("", text(failed, f"the error in its answer to {what}") or "error", at_ns)
    result = fields.get("result")
    if result is None and "result" in fields:
        return Reply("", "", at_ns)
    if not isinstance(result, str):
        raise ReplyError(f"its answer to {what} is not a text")
    return Reply(result, "", at_ns)


def text(value: object, what: str) -> str:
    """One line of at most `TEXT_LIMIT` characters that any encoder takes; still untrusted."""
    if not isinstance(value, str):
        raise ReplyError(f"{what} is not a text")
    first = value.strip().partition("\n")[0].strip()[:TEXT_LIMIT]
    # JSON escapes can name half a surrogate pair, which no UTF-8 writer accepts.
    return first.encode("utf-8", "replace").decode("utf-8")
