"""What the feed's thread and the widgets tell the screens."""

from __future__ import annotations

from textual.message import Message

from nftop.model.frame import Frame

WHEEL_LINES = 3


class FrameReady(Message):
    """There is a new frame. A newer one takes the place of one not yet handled."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        super().__init__()

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, FrameReady)


class FeedEnded(Message):
    """There will be no more frames; `problem` says why where that was not asked for."""

    def __init__(self, problem: str = "") -> None:
        self.problem = problem
        super().__init__()


class ChangeMoved(Message):
    """A change has come further, or to its end."""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, ChangeMoved)


class LineClicked(Message):
    """A line of the table's body was clicked, 0 being the first on screen; -1 is the headers."""

    def __init__(self, line: int, x: int) -> None:
        self.line = line
        self.x = x
        super().__init__()


class Wheel(Message):
    """The mouse wheel asks to move by so many lines."""

    def __init__(self, by: int) -> None:
        self.by = by
        super().__init__()


class PromptAnswer(Message):
    """What was typed at a prompt; `text` is None where it was left with Esc."""

    def __init__(self, about: str, text: str | None) -> None:
        self.about = about
        self.text = text
        super().__init__()
