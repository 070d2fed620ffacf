"""JSON objects out of a stream that has nothing between them."""

from __future__ import annotations

import re

from nftop.sources.ovs.replies import ReplyError

MAX_REPLY_BYTES = 4 << 20  # a thousand PMD threads, or some ten thousand queues
_OUTSIDE = re.compile(rb'["{}\[\]]')
_INSIDE = re.compile(rb'["\\]')
_SPACE = b" \t\r\n"


class Framing:
    """Takes a stream in pieces of any size; every byte is looked at once.

    It only finds where an object ends, by its brackets outside of texts: whether it is JSON is for
    the parser to say.

    Attributes:
        most_bytes: a longer object is refused.
    """

    def __init__(self) -> None:
        self.most_bytes = MAX_REPLY_BYTES
        self._held = bytearray()
        self._at = 0  # what of `_held` has been looked at
        self._depth = 0
        self._in_text = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The objects that are complete now, in order.

        Raises:
            ReplyError: what comes is no object, or is too long.
        """
        self._held += piece
        whole: list[bytes] = []
        while (end := self._next_end()) is not None:
            whole.append(bytes(self._held[:end]))
            del self._held[:end]
            self._at = 0
        if len(self._held) > self.most_bytes:
            size = f"{self.most_bytes >> 20} MiB"
            if self.most_bytes < 1 << 20:
                size = f"{self.most_bytes >> 10} KiB"
            raise ReplyError(f"it sent more than {size} in one answer")
        return whole

    def _next_end(self) -> int | None:
        """Where the first object in `_held` ends; None while it does not."""
        if not self._depth:
            self._begin()
        while found := (_INSIDE if self._in_text else _OUTSIDE).search(self._held, self._at):
            self._at = found.end()
            match found[0]:
                case b'"':
                    self._in_text = not self._in_text
                case b"\\":
                    if self._at == len(self._held):  # what it escapes is still to come
                        self._at -= 1
                        return None
                    self._at += 1
                case b"{" | b"[":
                    self._depth += 1
                case _:
                    self._depth -= 1
            if not self._depth and not self._in_text:
                return self._at
        self._at = len(self._held)
        return None

    def _begin(self) -> None:
        """Leave out the space before an object."""
        gap = len(self._held) - len(self._held.lstrip(_SPACE))
        del self._held[:gap]
        if self._held and not self._held.startswith(b"{"):
            raise ReplyError("what it sends is not a JSON object")
