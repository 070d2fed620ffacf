"""A feed of prepared frames that moves only when told."""

from __future__ import annotations

from collections.abc import Generator
from queue import SimpleQueue

from nftop.model.frame import Focus, Frame
from nftop.model.rule_settings import RuleSettings


class StepFeed:
    """Gives each frame put in, in order; an exception put in is raised instead."""

    def __init__(self, *frames: Frame, interval_s: float = 1.0) -> None:
        self._queue: SimpleQueue[Frame | Exception | None] = SimpleQueue()
        self._interval_s = interval_s
        self.stopped = False
        self.focus = Focus()
        self.settings: RuleSettings | None = None
        self.keeps: list[bool] = []
        self.handled = 0  # frames the consumer is done with
        for frame in frames:
            self.put(frame)

    @property
    def interval_s(self) -> float:
        return self._interval_s

    def set_interval(self, seconds: float) -> None:
        self._interval_s = seconds

    def set_rules(self, settings: RuleSettings) -> None:
        self.settings = settings

    def baseline(self, *, keep: bool) -> None:
        self.keeps.append(keep)

    def set_focus(self, focus: Focus) -> None:
        self.focus = focus

    def put(self, item: Frame | Exception) -> None:
        self._queue.put(item)

    def frames(self) -> Generator[Frame, None, None]:
        while (item := self._queue.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item
            self.handled += 1

    def stop(self) -> None:
        self.stopped = True
        self._queue.put(None)
