"""Messages from the feed's thread and the widgets to the screens."""

from __future__ import annotations

from textual.message import Message

from nftop.model.frame import Frame

WHEEL_LINES = 3


class FrameReady(Message, bubble=False):
    """A new frame; replaces one not handled yet."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        super().__init__()

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, FrameReady)


class PastFrame(Message, bubble=False):
    """A frame of the past; None: the screen shows now again. `generation`: `PastControl` has it."""

    def __init__(self, frame: Frame | None, generation: int) -> None:
        self.frame = frame
        self.generation = generation
        super().__init__()

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, PastFrame)


class FeedEnded(Message):
    """No more frames; `problem` says why if that was not requested."""

    def __init__(self, problem: str = "") -> None:
        self.problem = problem
        super().__init__()


class ChangeMoved(Message):
    """The state of a change is another."""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, ChangeMoved)


class Clicked(Message):
    """A click on a text that has an action: the same as a key with this action and argument."""

    def __init__(self, action: str, argument: int | str) -> None:
        self.action = action
        self.argument = argument
        super().__init__()


class Wheel(Message):
    """Mouse wheel: move by so many lines."""

    def __init__(self, by: int) -> None:
        self.by = by
        super().__init__()


class NoticePosted(Message):
    """A text for the message line, from any thread."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__()


class WrongAnswerError(ValueError):
    """The text typed at a prompt can't be used: the prompt stays, with the reason."""


class PromptAnswer(Message):
    """Text typed at a prompt; None if it was left with Esc."""

    def __init__(self, about: str, text: str | None) -> None:
        self.about = about
        self.text = text
        super().__init__()
