"""The command lines of recordings: `record`, `replay`, `compare`, `export`.

Imports nothing heavy: `--help` must be instant.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence

from nftop.cli.parsers.cat import Commands, add_command
from nftop.cli.parsers.common import add_batch, add_sampling
from nftop.cli.parsers.option_types import count_of, file_name
from nftop.model.time_forms import span_ns, time_forms

NAMES = ("record", "replay")
_FORMS = time_forms("UTC")
_BEFORE_END = re.compile(r"-\d")
_SIZE = re.compile(r"(\d{1,9})([KMGT]?)i?B?", re.IGNORECASE)
_LEAST_SIZE, _LEAST_NS = 1 << 16, 1_000_000_000
_RECORD = """\
A recording contains raw readings: a replay computes every number from them, as the screen did. The
file is complete after every tick, even if nftop is killed. Recordings are never overwritten, have
mode 0600 and, under sudo, belong to the invoking user if the folder does. nftop/store/FORMAT.md
specifies the format.

If the disk is full, nftop continues and tries again every few seconds. It reports at the end, as
the recording does, how many ticks are missing.

With --rotate-size or --rotate-time every file has the time of its first tick in its name
(edge-20260131T031200Z.nftop), and --keep, --keep-size remove the oldest recordings of that name.

With --on finding nothing is written until a finding begins; then a new file gets the minutes
before it (from memory, 32 MiB at most) and those after it. Its name has the finding's time
(edge-finding-20260131T031200Z.nftop). Further findings extend it, to twelve times --after.
--keep and --keep-size remove the oldest files of that name, and no other recordings; each removed
file is reported. If the disk is full this is reported, and the next finding tries again. nftop
runs no program on a finding: let a service watch the journal.

exit codes: 0 complete; 1 nothing was recorded, or not all, such as when the reader of a pipe ended;
2 usage; 128 + n ended by signal n, complete

examples:
  sudo nftop record -o /var/tmp/edge.nftop --duration 10m
  sudo nftop record -o edge.nftop --on finding=drops,poller-waits --before 10m --after 5m --keep 20
  sudo nftop record -o edge.nftop --on finding --log journal
  sudo nftop record -o edge.nftop --rotate-time 1h --keep 48
  ssh HOST sudo nftop record -o - | nftop replay -
"""
_NO_END = """\
A recording that breaks off, because its recorder was killed, still runs or the file was cut, is not
damaged: nftop reports that its end is missing, and the exit code is 0. It is 4 where bytes before
the end are wrong or missing."""
_REPLAY = f"""\
The same screens on a recording. Space pauses, [ and ] step, {{ and }} go to markers and changes of
cache classes, S to a time, + and - change the speed.

A time is {_FORMS}; -5m needs an equals sign: --at=-5m.
The length of a pipe is unknown: only times, + and start are accepted, and data before are skipped.
A pipe is read no faster than it is shown; none of it is lost.

exit codes: 0 ok; 1 it can't be opened; 2 usage, or a time that was not recorded; 4 no recording, or
with --batch or --list a damaged one: what could be read was shown

{_NO_END}
"""


def add_record(commands: Commands) -> None:
    add_command(
        commands,
        "record",
        "record into a file or a pipe, without a screen",
        _RECORD,
        description="Records until Ctrl-C, a signal, or the end of --duration.",
        argument_default=argparse.SUPPRESS,
        fill=_fill_record,
    )


def _fill_record(record: argparse.ArgumentParser) -> None:
    record.add_argument(
        "-o",
        dest="output",
        metavar="FILE",
        type=file_name,
        default=None,
        help="output; - is standard output (default: a file with host and time "
        "in its name, in nftop/recordings of your data folder)",
    )
    record.add_argument(
        "--duration",
        metavar="S",
        type=_span,
        default=None,
        help="end after this time: seconds, or 30s, 10m, 2h, 1d",
    )
    _add_rotation(record)
    _add_trigger(record)
    add_log(record)
    record.add_argument(
        "--exec", dest="program", metavar="COMMAND", default=None, help=argparse.SUPPRESS
    )
    add_sampling(record)


def _add_rotation(record: argparse.ArgumentParser) -> None:
    record.add_argument(
        "--rotate-size",
        metavar="SIZE",
        type=_size,
        default=None,
        help="begin a new file at this size, such as 500M",
    )
    record.add_argument(
        "--rotate-time",
        metavar="S",
        type=_span,
        default=None,
        help="begin a new file after this time, such as 1h",
    )
    record.add_argument(
        "--keep",
        metavar="N",
        type=count_of("files"),
        default=None,
        help="keep the newest N files of a rotation or of findings (default 20 with --on)",
    )
    record.add_argument(
        "--keep-size",
        metavar="SIZE",
        type=_size,
        default=None,
        help="keep the newest files up to this total size",
    )


def _add_trigger(record: argparse.ArgumentParser) -> None:
    record.add_argument(
        "--on",
        metavar="finding[=RULE,...]",
        type=_trigger,
        default=None,
        help="record only around findings: those that cost packets or time, or these "
        "rules (nftop explain --all)",
    )
    record.add_argument(
        "--before",
        metavar="S",
        type=_span,
        default=None,
        help="with --on: time before the finding (default 10m)",
    )
    record.add_argument(
        "--after",
        metavar="S",
        type=_span,
        default=None,
        help="with --on: time after the last finding (default 5m)",
    )


def add_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log",
        choices=("journal", "syslog"),
        default=None,
        help="send new findings, with their fields, to systemd's journal or to "
        "syslog (60 a minute at most)",
    )


def add_replay(commands: Commands) -> None:
    _add(commands, "replay", "play back a recording", _REPLAY, _fill_replay)


def _fill_replay(replay: argparse.ArgumentParser) -> None:
    replay.add_argument(
        "file", metavar="FILE", type=file_name, help="the recording; - is standard input"
    )
    replay.add_argument(
        "--at",
        metavar="TIME",
        default=None,
        help="begin here; + counts from the start, - from the end",
    )
    replay.add_argument(
        "--follow",
        action="store_true",
        default=False,
        help="with --batch: wait for more of a recording that has no end yet "
        "(the screen always does)",
    )
    replay.add_argument(
        "--list",
        dest="listed",
        action="store_true",
        default=False,
        help="only list markers, changes and findings with their times, which --at accepts",
    )
    add_batch(replay)


def with_times(arguments: Sequence[str]) -> list[str]:
    """`--at -5m` as `--at=-5m`: argparse takes what begins with a minus for an option."""
    result: list[str] = []
    for argument in arguments:
        if result[-1:] == ["--at"] and "--" not in result and _BEFORE_END.match(argument):
            result[-1] = f"--at={argument}"
        else:
            result.append(argument)
    return result


def _trigger(text: str) -> frozenset[str]:
    word, equals, rules = text.partition("=")
    names = frozenset(filter(None, (name.strip() for name in rules.split(","))))
    if word != "finding" or (equals and not names):
        raise argparse.ArgumentTypeError(f"{text!r} is not finding or finding=RULE,...")
    return names


def _span(text: str) -> int:
    try:
        interval_ns = span_ns(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if interval_ns < _LEAST_NS:
        raise argparse.ArgumentTypeError("at least a second")
    return interval_ns


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size, such as 500M or 2G")
    size = int(match[1]) << 10 * "KMGT".find(match[2].upper()) + 10 if match[2] else int(match[1])
    if size < _LEAST_SIZE:
        raise argparse.ArgumentTypeError("at least 64K")
    return size


INTERVAL_NAMES = ("compare", "export", "report")
FORMATS = ("csv", "jsonl", "parquet")
_TIMES = f"""\
FROM and TO are {_FORMS}, or the name of a marker; + counts from the recording's start, - from
its end. Either may be omitted: @,+10m is the first ten minutes.
"""
_COMPARE = f"""\
Medians of every network function, cache class and package in both intervals, and whether they
differ by more than their noise. If the load differs, metrics per packet are inconclusive.

With --before and --after, recordings of many hosts are paired by the host's name, and signed ranks
show what the change did on most of them; an answer needs 6 hosts at least. Several recordings of a
host on one side are taken together.

{_TIMES}
exit codes: 0 compared, whatever the outcome; 1 a file can't be opened; 2 usage, or times that were
not recorded; 4 no recording, or a damaged one

{_NO_END}

examples:
  nftop compare edge.nftop@03:00,03:10 edge.nftop@03:20,03:30
  nftop compare before.nftop after.nftop --json
  nftop compare sweep.nftop
  nftop compare --before monday/*.nftop --after tuesday/*.nftop
"""
_EXPORT = f"""\
Tidy tables, one row per tick and item: cpus, nfs, groups, monitors, packages, devices, findings,
incidents, changes, actions, markers, gaps. Columns have the names of nftop explain, with units.
An absent number is an empty cell (null), with the reason in the column missing: cpp=idle. No file
is overwritten.

With --partition, recordings are appended to a folder of Parquet files,
TABLE/host=HOST/day=DAY/part-ID.parquet, where ID is of the recording: what is appended again
replaces its rows. Rows and bytes are printed by host and day. Readers see whole files only.

{_TIMES}
exit codes: 0 complete; 1 an error; 2 usage, or times that were not recorded; 4 no recording, or a
damaged one: what could be read is written, and gaps has the rest

{_NO_END}

examples:
  nftop export edge.nftop --format parquet -o edge
  nftop export edge.nftop@03:00,03:10 --format csv --table nfs -o nfs.csv
  nftop export edge.nftop --format parquet --partition host,day -o history
"""


_REPORT = f"""\
What happened in an interval, in one file: incidents with their evidence, changes of cache classes
and their verdicts, means and graphs of network functions, classes and sockets, markers, sources,
and the commands that show or do the same. HTML has no script and fetches nothing; Markdown, for
tickets, has no graphs. No file is overwritten.

{_TIMES}
exit codes: 0 complete; 1 an error; 2 usage, or times that were not recorded; 4 no recording, or a
damaged one: what could be read is in the report, which says so

{_NO_END}

examples:
  nftop report edge.nftop@03:00,03:10 -o report.html
  sudo nftop doctor > doctor.txt; nftop report edge.nftop --doctor doctor.txt -o report.md
"""


def add_interval_commands(commands: Commands) -> None:
    _add(commands, "compare", "compare two intervals of recordings", _COMPARE, _fill_compare)
    text = "a recording as CSV, JSON Lines or Parquet"
    _add(commands, "export", text, _EXPORT, _fill_export)
    text = "what happened in an interval, as HTML or Markdown"
    _add(commands, "report", text, _REPORT, _fill_report)


def _fill_compare(compare: argparse.ArgumentParser) -> None:
    compare.add_argument(
        "a",
        metavar="A[@FROM,TO]",
        type=file_name,
        nargs="?",
        default=None,
        help="a recording, or an interval of it",
    )
    compare.add_argument(
        "b",
        metavar="B[@FROM,TO]",
        type=file_name,
        nargs="?",
        default=None,
        help="the other one; without it: the experiment in A, its settings compared by rounds",
    )
    for name in ("before", "after"):
        compare.add_argument(
            f"--{name}",
            metavar="FILE[@FROM,TO]",
            type=file_name,
            nargs="+",
            default=None,
            help=f"recordings of hosts {name} a change",
        )
    compare.add_argument(
        "--json",
        dest="form",
        action="store_const",
        const="json",
        help="one JSON object, schema nftop.compare/1, of hosts nftop.hosts/1",
    )


def _fill_export(export: argparse.ArgumentParser) -> None:
    export.add_argument(
        "file", metavar="FILE[@FROM,TO]", type=file_name, help="a recording, or an interval of it"
    )
    export.add_argument("--format", dest="form", choices=FORMATS, required=True, help="format")
    export.add_argument(
        "--table", metavar="NAME[,NAME]", default=None, help="only this table, or these"
    )
    export.add_argument(
        "--partition",
        choices=("host,day",),
        metavar="host,day",
        default=None,
        help="append to a folder of Parquet files by host and day",
    )
    export.add_argument(
        "-o",
        dest="output",
        metavar="PATH",
        type=file_name,
        required=True,
        help="a folder, created if needed; with one --table a file, or - for standard output",
    )


def _fill_report(report: argparse.ArgumentParser) -> None:
    report.add_argument(
        "file", metavar="FILE[@FROM,TO]", type=file_name, help="a recording, or an interval of it"
    )
    report.add_argument(
        "-o",
        dest="output",
        metavar="FILE",
        type=file_name,
        required=True,
        help="a new file, .html or .md; - is standard output",
    )
    report.add_argument(
        "--format",
        dest="form",
        choices=("html", "md"),
        default=None,
        help="default: by the file's name; md on standard output",
    )
    report.add_argument(
        "--doctor",
        metavar="FILE",
        type=file_name,
        default=None,
        help="include this output of nftop doctor",
    )


def _add(
    commands: Commands,
    name: str,
    text: str,
    epilog: str,
    fill: Callable[[argparse.ArgumentParser], None],
) -> None:
    add_command(commands, name, text, epilog, argument_default=argparse.SUPPRESS, fill=fill)
