"""Messages from the feed's thread and the widgets to the screens."""

from __future__ import annotations

from textual.message import Message

from nftop.model.frame import Frame

WHEEL_LINES = 3


class FrameReady(Message):
    """A new frame; replaces one not handled yet."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        super().__init__()

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, FrameReady)


class FeedEnded(Message):
    """No more frames; `problem` says why if that was not requested."""

    def __init__(self, problem: str = "") -> None:
        self.problem = problem
        super().__init__()


class ChangeMoved(Message):
    """The state of a change is another."""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, ChangeMoved)


class LineClicked(Message):
    """A click on a line of the table's body (0: first on screen, -1: header)."""

    def __init__(self, line: int, x: int) -> None:
        self.line = line
        self.x = x
        super().__init__()


class Wheel(Message):
    """Mouse wheel: move by so many lines."""

    def __init__(self, by: int) -> None:
        self.by = by
        super().__init__()


class PromptAnswer(Message):
    """Text typed at a prompt; None if it was left with Esc."""

    def __init__(self, about: str, text: str | None) -> None:
        self.about = about
        self.text = text
        super().__init__()
