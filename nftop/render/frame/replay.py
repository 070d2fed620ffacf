"""What a replay is never without: that it is one, and where in the recording."""

from __future__ import annotations

from datetime import UTC, datetime

from nftop.model.replay_position import Position
from nftop.render.base.line import Line, Span, Tone, crop, line, paragraph
from nftop.render.base.text import printable


def banner_lines(position: Position, width: int) -> list[Line]:
    """A line across the screen: time, place, speed; below it what there is to say of this place."""
    text = " REPLAY  " + "  ".join(
        filter(None, (_time(position), _place(position), _how(position)))
    )
    loud = line(Span(f"{text:<{width}}", Tone.BADGE))
    said = [
        row
        for sentence in _remarks(position)
        for row in paragraph(sentence, width, lead=line(Span("> ", Tone.ACCENT)), tone=Tone.PLAIN)
    ]
    return [crop(loud, width), *said]


def _time(position: Position) -> str:
    return datetime.fromtimestamp(position.at_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _place(position: Position) -> str:
    whole_ns = position.last_ns - position.first_ns
    if whole_ns <= 0:
        return ""
    gone_ns = min(max(position.at_ns - position.first_ns, 0), whole_ns)
    share = int(100 * gone_ns / whole_ns)
    return f"{span(gone_ns / 1e9)} of {span(whole_ns / 1e9)} ({share} %)"


def _how(position: Position) -> str:
    if position.ended:
        return "END"
    if position.waiting:
        return "at its end, as it grows"
    speed = f"{position.speed:g}x"
    return f"PAUSED {speed}" if position.paused else speed


def _remarks(position: Position) -> list[str]:
    said = [printable(position.remark)] if position.remark else []
    if position.warmed is not None and position.warmed < _WARM_TICKS:
        said.append(
            f"jumped here: these numbers rest on the {position.warmed} ticks before this one"
        )
    return said


# From so many ticks on nothing is left of having jumped.
_WARM_TICKS = 60


def span(seconds: float) -> str:
    """`12:31`, `1:02:03`, `3d 01:02:03`."""
    whole = int(seconds)
    days, hours = divmod(whole // 3600, 24)
    clock = f"{whole // 60 % 60:02d}:{whole % 60:02d}"
    if days:
        return f"{days}d {hours:02d}:{clock}"
    return f"{hours}:{clock}" if hours else clock
