"""Where a replay is, as it says it itself, and how long what it says of that stays."""

from __future__ import annotations

from typing import Any

from nftop.model.replay_position import Position
from nftop.session.reader import Shown
from nftop.store.format.records import Marker
from nftop.store.reading.bytes import Readable
from nftop.store.reading.seek import last_place

# How many ticks a remark stays.
_REMARK_TICKS = 8
# An answer to a key goes with the next.
_ANSWER_TICKS = 2


class Banner:
    """Attributes.

    position: what is shown.
    asked_ns: the time that was last gone to: that of a marker is between two ticks.
    """

    def __init__(self) -> None:
        self.position = Position(0, 0, 0, 0)
        self.asked_ns = 0
        self._tick_ns: int | None = None
        self._left = 0

    def turn(self, **changed: Any) -> None:
        """Other fields of the position."""
        self.position = self.position._replace(**changed)

    def answer(self, said: str) -> None:
        """To a key that has led nowhere."""
        self.turn(remark=said)
        self._left = _ANSWER_TICKS if self.position.paused else _REMARK_TICKS

    def shows(self, shown: Shown, marker: Marker | None, *, following: bool) -> None:
        """A tick; of the marker that was asked for, where it was."""
        if marker is not None:
            self.asked_ns = marker.wall_ns
        elif shown.wall_ns != self._tick_ns:  # an answer leaves one where one is
            self.asked_ns = shown.wall_ns
        self._tick_ns = shown.wall_ns
        self._left -= 1
        remark = self.position.remark if self._left > 0 else ""
        said = shown.remarks if marker is None else (marker.text or marker.kind,)
        if said:
            remark, self._left = "; ".join(said), _REMARK_TICKS
        self.turn(
            at_ns=shown.wall_ns,
            last_ns=max(self.position.last_ns, shown.wall_ns),
            number=shown.number,
            waiting=following,
            ended=False,
            warmed=shown.warmed,
            remark=remark,
        )

    def measure(self, data: Readable) -> None:
        """How far the recording reaches now, as far as its seek points tell."""
        place = last_place(data)
        if place is not None and place.point.wall_ns > self.position.last_ns:
            self.turn(last_ns=place.point.wall_ns)
