"""Intervals of recordings on a command line: open one, or report why not; end on a signal."""

from __future__ import annotations

import signal
from contextlib import AbstractContextManager
from typing import NamedTuple

from nftop.cli.signals import handling
from nftop.export.output import FAILURE, USAGE, fail
from nftop.render.base.text import printable
from nftop.session.interval import Cut, named, opened
from nftop.session.reader import NoMomentError, NoRecordingError

BAD_RECORDING = 4
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def ending_on_signal(ended: list[int], *cuts: Cut) -> AbstractContextManager[None]:
    """Signals stop the reading, and are appended to `ended`."""

    def end(number: int) -> None:
        ended.append(number)
        for cut in cuts:
            cut.data.stop()

    return handling(_SIGNALS, end)


class UnreadCut(NamedTuple):
    """An interval that can't be read: its file as typed (untrusted), why, and the exit code."""

    file: str
    why: str
    code: int


def try_cut(text: str) -> Cut | UnreadCut:
    name = named(text)
    try:
        return opened(name)
    except NoRecordingError as error:
        return UnreadCut(name.file, printable(str(error)), BAD_RECORDING)
    except NoMomentError as error:
        return UnreadCut(name.file, printable(str(error)), USAGE)
    except OSError as error:
        return UnreadCut(name.file, f"{error.strerror}", FAILURE)


def open_cut(text: str) -> Cut | int:
    """The interval; without one, print why and return the exit code."""
    cut = try_cut(text)
    if isinstance(cut, Cut):
        return cut
    return fail(f"{printable(cut.file)}: {cut.why}", cut.code)
