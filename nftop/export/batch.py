"""`nftop --batch`: frames to a stream, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from types import MappingProxyType
from typing import TextIO

from nftop.export.csv import frame_csv, header_csv
from nftop.export.json.frame import frame_json
from nftop.export.output import put
from nftop.model.frame import Focus, Frame
from nftop.model.struct import dataclass, field, replace
from nftop.render.base.text import ascii_only
from nftop.render.pages.batch_text import frame_text, monitor_text
from nftop.session.feed import Feed, Player
from nftop.session.focus_target import FocusFrames, FocusTarget

# Wide enough for every column of the catalogue.
TEXT_WIDTH = 240


@dataclass(frozen=True, slots=True)
class Format:
    """Output format of batch mode.

    Attributes:
        one: text of a frame, line ends included, for a width in columns and a mode (`LIVE`,
            `REPLAY`).
        before: text before the first frame.
        focus: additional counters to read.
    """

    one: Callable[[Frame, int, str], str]
    before: Callable[[], str] = lambda: ""
    focus: Focus = field(default_factory=Focus)


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "text": Format(
            lambda frame, width, mode: frame_text(frame, width, ascii_only=True, mode=mode) + "\n"
        ),
        "json": Format(
            lambda frame, _width, _mode: frame_json(frame).decode() + "\n",
            focus=Focus(traffic=True),
        ),
        "monitors": Format(
            lambda frame, width, _mode: "".join(
                f"{ascii_only(item.text).rstrip()}\n" for item in monitor_text(frame, width)
            )
        ),
        "csv": Format(lambda frame, _width, _mode: frame_csv(frame), header_csv),
    }
)


def run_batch(
    feed: Feed,
    out: TextIO,
    *,
    form: str,
    count: int | None,
    width: int | None = None,
    target: FocusTarget | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> bool:
    """Write `count` frames, or all until the feed is stopped, flushing each.

    Whether the core of `target` could be known: False if no network function of its name appeared;
    of a limited number of frames none is written then.

    Text is `width` columns wide, TEXT_WIDTH by default. The feed's first frame has no rates and is
    not written; its losses are in the next. `target` and `report` are those of `FocusFrames`.
    Raises OutputError, and errors of the feed.
    """
    written = FORMATS[form]
    mode = "REPLAY" if isinstance(feed, Player) else "LIVE"
    put(out, written.before())
    focused = FocusFrames(feed, target, written.focus, report, required=count is not None)
    with closing(focused.frames()) as frames:
        first = next(frames, None)
        before = () if first is None else first.lost
        for item in _first(frames, count):
            frame = replace(item, lost=(*before, *item.lost)) if before else item
            before = ()
            put(out, written.one(frame, width or TEXT_WIDTH, mode))
        feed.stop()
    return not focused.is_absent()


def _first(frames: Iterator[Frame], count: int | None) -> Iterator[Frame]:
    """At most `count` frames, without waiting for one more."""
    if count == 0:
        return
    for number, frame in enumerate(frames, start=1):
        yield frame
        if number == count:
            return
