"""The command lines of recordings: `record`, `replay`.

Imports nothing heavy: `--help` must be instant.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from nftop.cli.parsers.cat import Commands
from nftop.cli.parsers.common import add_batch, add_sampling, count_of
from nftop.session.time_spec import FORMS, span_ns

NAMES = ("record", "replay")
_BEFORE_END = re.compile(r"-\d")
_SIZE = re.compile(r"(\d{1,9})([KMGT]?)i?B?", re.IGNORECASE)
_LEAST_SIZE, _LEAST_NS = 1 << 16, 1_000_000_000
_RECORD = """\
What is recorded is what was read, not what was made of it: a replay computes every number anew, as
the screen did. The file is whole after every tick, whatever ends nftop, and is never written over;
under sudo it belongs to who called it, if the folder does. FORMAT.md beside nftop's store module
says what is in it.

Where the disk is full, nftop goes on, tries again every few seconds, and says in the end, as the
recording does, how many ticks are not in it.

With --rotate-size or --rotate-time every file has the time of its first tick in its name
(edge-20260131T031200Z.nftop), and --keep, --keep-size remove the oldest recordings of that name.

exit codes: 0 all is recorded; 1 it is not, or not all, such as where the reader of
a pipe went away; 2 usage; 128 + n ended by signal n, all recorded

examples:
  sudo nftop record -o /var/tmp/edge.nftop --duration 10m
  sudo nftop record -o edge.nftop --rotate-time 1h --keep 48
  ssh HOST sudo nftop record -o - | nftop replay -
"""
_REPLAY = f"""\
The same screens on a recording. Space stands still, [ and ] step, {{ and }} go to markers and to
changes of cache classes, S to a time, + and - change the speed.

A time is {FORMS}; -5m needs an equals sign: --at=-5m.
Of a pipe the end is not known, so that only times, + and start are taken; what comes before is
passed over. A pipe waits where it gives more than is shown: nothing of it is lost.

exit codes: 0 ok; 1 it can't be opened; 2 usage, and a time that was not recorded; 4 it is no
recording, or damaged: what could be read was shown

A recording without its end, of a recorder that was killed or still runs, is not damaged: exit 0,
and it is said that what came after is not known.
"""


def add_record(commands: Commands) -> None:
    """`record`."""
    record = commands.add_parser(
        "record",
        help="record into a file or a pipe, without a screen",
        description="Records until it is told to end, by Ctrl-C or a signal, or --duration.",
        epilog=_RECORD,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    record.add_argument("-o", dest="output", metavar="FILE", default=None,
                        help="where to; - is standard output (default: a file with host and time "
                        "in its name, in nftop/recordings of your data folder)")  # fmt: skip
    record.add_argument("--duration", metavar="S", type=_span, default=None,
                        help="end after so long: seconds, or 30s, 10m, 2h, 1d")  # fmt: skip
    record.add_argument("--rotate-size", metavar="SIZE", type=_size, default=None,
                        help="begin a new file at this size, such as 500M")  # fmt: skip
    record.add_argument("--rotate-time", metavar="S", type=_span, default=None,
                        help="begin a new file after so long, such as 1h")  # fmt: skip
    record.add_argument("--keep", metavar="N", type=count_of("files"), default=None,
                        help="keep the newest N files of a rotation")  # fmt: skip
    record.add_argument("--keep-size", metavar="SIZE", type=_size, default=None,
                        help="keep the newest files up to this size together")  # fmt: skip
    add_sampling(record)
    record.set_defaults(command="record")


def add_replay(commands: Commands) -> None:
    """`replay`."""
    replay = commands.add_parser(
        "replay",
        help="show a recording as it was seen live",
        epilog=_REPLAY,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    replay.add_argument("file", metavar="FILE", help="the recording; - is standard input")
    replay.add_argument("--at", metavar="TIME", default=None,
                        help="where to begin; + counts from the start, - from the end")  # fmt: skip
    replay.add_argument("--follow", action="store_true", default=False,
                        help="with --batch: wait for more where it ends without having been "
                        "finished (the screen always does)")  # fmt: skip
    replay.add_argument("--list", dest="listed", action="store_true", default=False,
                        help="only list markers, changes and findings with their times; each time "
                        "is one for --at")  # fmt: skip
    add_batch(replay)
    replay.set_defaults(command="replay")


def with_times(arguments: Sequence[str]) -> list[str]:
    """`--at -5m` as `--at=-5m`: argparse takes what begins with a minus for an option."""
    match: list[str] = []
    for argument in arguments:
        if match[-1:] == ["--at"] and "--" not in match and _BEFORE_END.match(argument):
            match[-1] = f"--at={argument}"
        else:
            match.append(argument)
    return match


def _span(text: str) -> int:
    """In ns."""
    try:
        match = span_ns(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if match < _LEAST_NS:
        raise argparse.ArgumentTypeError("at least a second")
    return match


def _size(text: str) -> int:
    """In bytes."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size, such as 500M or 2G")
    size = int(match[1]) << 10 * "KMGT".find(match[2].upper()) + 10 if match[2] else int(match[1])
    if size < _LEAST_SIZE:
        raise argparse.ArgumentTypeError("at least 64K")
    return size
