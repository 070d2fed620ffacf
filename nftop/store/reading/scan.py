"""Sequential reader of a recording in any condition."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from nftop.model.recording_loss import BREAKS_OFF, BREAKS_OFF_BETWEEN, RecordingLoss
from nftop.model.struct import replace
from nftop.store.format.column_bytes import DamagedRecordingError
from nftop.store.format.decoder import Decoder
from nftop.store.format.records import DroppedTicks, Header, Marker, Tick, unframed
from nftop.store.format.zstd import (
    FRAME_END,
    ZstdDecompressor,
    ZstdError,
    block,
    decompressor,
    frame_head,
)
from nftop.store.reading import seekpoint
from nftop.store.reading.bytes import Readable
from nftop.store.reading.seekpoint import SeekPoint

_FRAME_HEAD_AT_MOST, _BLOCK_HEAD = 18, 3
# Read ahead, so that a block costs no system call of its own.
_AHEAD = 1 << 16
# Longest unpacked block of zstd.
_PLAIN_AT_MOST = 1 << 17
_SEARCHED_AT_ONCE = 1 << 20
# Limit between two ticks: a small file can contain a million records.
MANY_LOSSES = 64


def add_loss(losses: list[RecordingLoss], loss: RecordingLoss) -> None:
    """Append a loss; beyond MANY_LOSSES it is added to the last, whose `why` stays."""
    if len(losses) < MANY_LOSSES:
        losses.append(loss)
        return
    last = losses[-1]
    ticks = None if last.ticks is None or loss.ticks is None else last.ticks + loss.ticks
    senseless = last.senseless or loss.senseless
    losses[-1] = replace(
        last, ticks=ticks, size_bytes=last.size_bytes + loss.size_bytes, senseless=senseless
    )


ScanItem: TypeAlias = Header | Tick | Marker | DroppedTicks | RecordingLoss


class Scan:
    """Everything from a seek point on, in order; continues after damaged bytes.

    Attributes:
        at: position after the last whole block that was read.
        expected: number of the next sample; None if any is accepted.
        point: the last seek point, None before the first.
    """

    def __init__(self, data: Readable, at: int | None = None, *, samples: bool = True) -> None:
        """From the first byte by default; without `samples` these are skipped."""
        self.at = data.first if at is None else at
        self.expected: int | None = None
        self.point: SeekPoint | None = None
        self._data = data
        self._decoder = Decoder(samples=samples)
        self._zstd: ZstdDecompressor | None = None
        self._plain = bytearray()
        self._ahead, self._ahead_at = b"", 0
        self._block_at = self.at
        self._out: deque[ScanItem] = deque()
        self._began_ns: int | None = None
        # A loss: its begin while its end is searched, the search position, then size and reason.
        self._lost_from: int | None = None
        self._searched = 0
        self._in_frame = False  # it began with a block
        self._lost, self._why = 0, ""
        self._uncounted = False  # the number of lost ticks is unknown

    def next(self) -> ScanItem | None:
        """The next item; None while there is nothing more. Raises OSError, nothing else."""
        while not self._out:
            self._data.check()
            try:
                if not self._step():
                    return None
            except ZstdError:
                self._damaged("what is compressed there was changed")
            except (DamagedRecordingError, ValueError, EOFError) as error:
                self._damaged(str(error))
        return self._out.popleft()

    @property
    def ended(self) -> bool:
        """Whether the recording was finished here, and does not just break off."""
        return self.point is not None and self.point.end and self.at >= self._data.size

    @property
    def passed(self) -> int:
        """No position before this one is read again."""
        return self.at if self._lost_from is None else self._searched

    def tail_loss(self) -> RecordingLoss | None:
        """What is wrong with the end as long as nothing more comes; None if nothing is."""
        if self._lost_from is not None:
            left = max(self._data.size - self._lost_from, 0)
            ticks = self._ticks_from(self._lost_from) if self._in_frame else None
            return RecordingLoss(ticks, left, self._why)
        left = self._data.size - self.at
        if left <= 0:
            return None
        ticks = self._ticks_cut_off()
        return RecordingLoss(ticks, left, BREAKS_OFF if ticks else BREAKS_OFF_BETWEEN)

    def _ticks_cut_off(self) -> int | None:
        """Number of ticks in what breaks off; None if unknown.

        After a tick comes the next or the end of the frame, after that the next frame or an end.
        """
        head = self._peek(seekpoint.SIZE)
        if self._zstd is None:
            end = seekpoint.is_end(head)
            return None if end is None else int(not end)
        return None if head and FRAME_END.startswith(head) else 1

    def _step(self) -> bool:
        if self.at < self._data.first and self._lost_from is None:
            raise DamagedRecordingError("it is not kept any more")
        if self._lost_from is not None:
            return self._find_seek_point(self._lost_from)
        whole = unframed(self._plain)
        if whole is not None:
            body, size = whole
            del self._plain[:size]
            self._take(body)
            return True
        if self._zstd is None:
            return self._begin_frame()
        return self._take_block(self._zstd)

    def _begin_frame(self) -> bool:
        self._block_at = self.at
        head = self._peek(seekpoint.SIZE + _FRAME_HEAD_AT_MOST)
        point = seekpoint.unpacked(head)
        if point is None:
            if seekpoint.begins(head):
                return False
            raise DamagedRecordingError("there is no seek point where one belongs")
        # After damage the search starts behind it, else it would be found again.
        self._block_at += seekpoint.SIZE
        if self.expected is None:
            self._expect(point.number)
        length = 0 if point.end else frame_head(head[seekpoint.SIZE :])
        if length is None:
            return False
        self.at += seekpoint.SIZE + length
        self.point = point
        if point.end:
            self._counted(point.number, "the end has another number")
            return True
        zstd = decompressor()
        zstd.decompress(head[seekpoint.SIZE : seekpoint.SIZE + length])
        self._zstd = zstd
        self._decoder.begin()
        return True

    def _take_block(self, zstd: ZstdDecompressor) -> bool:
        self._block_at = self.at
        head = self._peek(_BLOCK_HEAD)
        if len(head) < _BLOCK_HEAD:
            return False
        size, last = block(head)
        whole = self._peek(_BLOCK_HEAD + size)
        if len(whole) < _BLOCK_HEAD + size:
            if seekpoint.offset_in(whole) is not None:
                raise DamagedRecordingError("a block is longer than what is left of its frame")
            return False
        self._plain += zstd.decompress(whole, _PLAIN_AT_MOST)
        self.at += len(whole)
        if last:
            if self._plain and unframed(self._plain) is None:
                raise DamagedRecordingError("a frame ends within a record")
            self._zstd = None
        return True

    def _take(self, body: bytes) -> None:
        record = self._decoder.record(body)
        if isinstance(record, Header):
            if self._began_ns not in (None, record.began_ns):
                # Another run: recordings can be concatenated.
                self._expect(None if self.point is None else self.point.number)
            self._began_ns = record.began_ns
        elif isinstance(record, DroppedTicks):
            self._why = self._why or record.why
        elif isinstance(record, Tick):
            self._counted(record.number, "they were not recorded")
            self.expected = record.number + 1
        if record is not None:
            self._out.append(record)

    def _counted(self, number: int, why: str) -> None:
        """Report what is missing before the sample of this number."""
        known = self.expected is not None and not self._uncounted
        missing = max(number - self.expected, 0) if known and self.expected is not None else None
        if missing or self._lost:
            self._out.append(RecordingLoss(missing, self._lost, self._why or why))
        self._lost, self._why, self._uncounted = 0, "", False

    def _expect(self, number: int | None) -> None:
        """Continue with any first number: how many samples a loss had is then unknown."""
        self.expected = number
        self._uncounted = self._lost > 0

    def _damaged(self, why: str) -> None:
        self._lost_from = self._searched = self._block_at
        self._why = why
        self._in_frame, self._zstd = self._zstd is not None, None
        self._plain.clear()

    def _find_seek_point(self, start: int) -> bool:
        """Search for the next seek point after damage; whether there is one."""
        while True:
            self._searched = max(self._searched, self._data.first)
            data = self._data.read(self._searched, _SEARCHED_AT_ONCE)
            offset = seekpoint.offset_in(data)
            if offset is not None:
                self.at = self._searched + offset
                self._lost += self.at - start
                self._lost_from = None
                return True
            self._searched += max(len(data) - seekpoint.SIZE, 0)
            if len(data) < _SEARCHED_AT_ONCE:
                return False

    def _ticks_from(self, at: int) -> int | None:
        """Number of ticks from there to the end, one block each; None if unknown."""
        count = 0
        if at < self._data.first:
            return None
        while at < self._data.size:
            head = self._data.read(at, _BLOCK_HEAD)
            try:
                size, last = block(head) if len(head) == _BLOCK_HEAD else (0, False)
            except ValueError:
                return None
            if last:
                return None if at + _BLOCK_HEAD + size < self._data.size else count
            at += _BLOCK_HEAD + size
            count += 1
        return count

    def _peek(self, size: int) -> bytes:
        start = self.at - self._ahead_at
        if start < 0 or start + size > len(self._ahead):
            self._ahead = self._data.read(self.at, max(size, _AHEAD))
            self._ahead_at, start = self.at, 0
        return self._ahead[start : start + size]
