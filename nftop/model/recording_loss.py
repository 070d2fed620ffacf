"""Missing or corrupt data of a recording."""

from __future__ import annotations

from nftop.model.number_text import counted
from nftop.model.struct import dataclass

BREAKS_OFF = "it breaks off within a tick"
BREAKS_OFF_BETWEEN = "it breaks off behind a tick"


@dataclass(frozen=True, slots=True)
class RecordingLoss:
    """Ticks or bytes that are missing.

    Attributes:
        ticks: number of lost samples; None if unknown.
        size_bytes: size of what can't be read.
        why: message (untrusted: it may be from the recording).
        senseless: the bytes are intact, but their content is invalid.
    """

    ticks: int | None
    size_bytes: int
    why: str
    senseless: bool = False

    @property
    def damage(self) -> bool:
        """Whether data were corrupted, and not just cut off or never recorded."""
        off = self.why in (BREAKS_OFF, BREAKS_OFF_BETWEEN)
        return self.senseless or (self.size_bytes > 0 and not off)

    @property
    def sentence(self) -> str:
        """Number of ticks, reason and bytes."""
        if (
            self.ticks is None and not self.size_bytes
        ):  # another session: nothing that ever was is lost
            return self.why
        count = "an unknown number of" if self.ticks is None else self.ticks
        ticks = f"{count} tick{'' if self.ticks == 1 else 's'} lost"
        size = f" ({counted(self.size_bytes, 'byte')})" if self.size_bytes else ""
        return f"{ticks}: {self.why}{size}"
