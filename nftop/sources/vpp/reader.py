"""Client of the process that reads a segment; it never blocks."""

from __future__ import annotations

import contextlib
import os
import stat
import weakref

import msgspec

from nftop.model.reading import Missing, Reason
from nftop.sources.runtime import helper
from nftop.sources.vpp.protocol import Question, ReadAnswer, VppReading

_MODULE = "nftop.sources.vpp.worker"
_LONGEST_LINE = 1 << 24
# VPP's own default is 32 MiB (statseg size); some hundred interfaces and threads need a few times.
MAX_SEGMENT_BYTES = 1 << 30
_MEMORY_BYTES = 320 << 20  # of addresses, beside the segment: Python, numpy's libraries, a reading
_MAX_READERS = 16
_PIECE = 1 << 18
_WHY = {
    "SIGPROF": "reading its stats segment took too long and was given up: VPP began to change it "
    "and did not finish",
    "SIGBUS": "its stats segment is shorter than it was",
}
_DECODER = msgspec.json.Decoder(ReadAnswer)


class ReaderError(Exception):
    """There is no reading; `why` is for the operator. `ended`: nor will there be another."""

    def __init__(self, why: Missing, *, ended: bool) -> None:
        super().__init__(why.message)
        self.why, self.ended = why, ended


class TooLargeError(Exception):
    """A segment is not read; `why` is for the operator."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.why = Missing(Reason.ERROR, sentence)


class SegmentReader:
    """One process that reads a segment.

    Attributes:
        waiting: a request has not been answered yet.
        cpu_ns: CPU time it had used at its last reply.
    """

    def __init__(self, handle: int, *, module: str = _MODULE) -> None:
        """Start it. `handle` is the segment's descriptor, `module` what runs there.

        Raises:
            TooLargeError: the segment is too large, or too many are read already.
            OSError: no process can be started.
        """
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_SEGMENT_BYTES:
            raise TooLargeError(
                f"its stats segment is not a file of {MAX_SEGMENT_BYTES >> 20} MiB at most"
            )
        if len(_RUNNING) >= _MAX_READERS:
            raise TooLargeError(f"{_MAX_READERS} stats segments are read already, and no more are")
        memory_bytes = about.st_size + _MEMORY_BYTES
        self._helper = helper.start(
            module, str(handle), handles=(handle,), memory_bytes=memory_bytes
        )
        _RUNNING.add(self)
        self._helper.channel.settimeout(0)
        self._heard = bytearray()
        self.waiting = False
        self.cpu_ns = 0

    def fileno(self) -> int:
        return self._helper.channel.fileno()

    def ask(self, question: Question) -> None:
        """Request a reading; one request at a time."""
        self.waiting = True
        with contextlib.suppress(OSError):  # it has ended: the next `hear` reports why
            self._helper.channel.sendall(msgspec.json.encode(question) + b"\n")

    def hear(self) -> VppReading | None:
        """The reading; None if it has not arrived yet.

        Raises:
            ReaderError: there won't be one. Where the process has `ended`, it is closed too.
        """
        try:
            while not self._heard.endswith(b"\n"):
                piece = self._helper.channel.recv(_PIECE)
                if not piece:
                    raise ReaderError(self._why_ended(), ended=True)
                self._heard += piece
                if len(self._heard) > _LONGEST_LINE:
                    raise self._nonsense()
        except BlockingIOError:
            return None
        except OSError:
            raise ReaderError(self._why_ended(), ended=True) from None
        line, self._heard, self.waiting = bytes(self._heard), bytearray(), False
        return self._understood(line)

    def close(self) -> None:
        """Kill the process."""
        _RUNNING.discard(self)
        helper.end(self._helper, kill=True)

    def _understood(self, line: bytes) -> VppReading:
        try:
            answer = _DECODER.decode(line)
            self.cpu_ns = answer.cpu_ns
            if answer.value is not None:
                return answer.value
            why = Missing(Reason(answer.reason), answer.sentence)
        except ValueError:  # msgspec's are such, and so is a reason that there is none
            raise self._nonsense() from None
        raise ReaderError(why, ended=False)

    def _nonsense(self) -> ReaderError:
        self.close()
        why = Missing(
            Reason.ERROR, "the process that reads its stats segment sends invalid replies"
        )
        return ReaderError(why, ended=True)

    def _why_ended(self) -> Missing:
        _RUNNING.discard(self)
        ended = helper.end(self._helper, kill=False)
        otherwise = "the process that reads its stats segment ended"
        if ended.signal:
            otherwise += f" by {ended.signal}"
        return Missing(Reason.ERROR, _WHY.get(ended.signal, otherwise) + ended.complaint)


_RUNNING: weakref.WeakSet[SegmentReader] = weakref.WeakSet()
