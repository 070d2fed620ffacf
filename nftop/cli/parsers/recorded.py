"""The command lines of `compare` and `export`. Imports nothing heavy: `--help` must be instant."""

from __future__ import annotations

import argparse

from nftop.cli.parsers.cat import Commands, add_command
from nftop.session.time_spec import FORMS

NAMES = ("compare", "export")
FORMATS = ("csv", "jsonl", "parquet")
_TIMES = f"""\
FROM and TO are {FORMS}, or the name of a marker; + counts from the recording's start, - from
its end. Either may be omitted: @,+10m is the first ten minutes.
"""
_COMPARE = f"""\
Medians of every network function, cache class and package in both intervals, and whether they
differ by more than their noise. If the load differs, metrics per packet are inconclusive.

{_TIMES}
exit codes: 0 compared, whatever the outcome; 1 a file can't be opened; 2 usage, or times that were
not recorded; 4 no recording, or a damaged one

examples:
  nftop compare edge.nftop@03:00,03:10 edge.nftop@03:20,03:30
  nftop compare before.nftop after.nftop --json
"""
_EXPORT = f"""\
Tidy tables, one row per tick and item: cpus, nfs, groups, monitors, packages, findings, actions,
markers, gaps. Columns have the names of nftop explain, with units. An absent number is an empty
cell (null), with the reason in the column missing: cpp=idle. No file is overwritten.

{_TIMES}
exit codes: 0 complete; 1 an error; 2 usage, or times that were not recorded; 4 no recording, or a
damaged one: what could be read is written, and gaps has the rest

examples:
  nftop export edge.nftop --format parquet -o edge
  nftop export edge.nftop@03:00,03:10 --format csv --table nfs -o nfs.csv
"""


def add_commands(commands: Commands) -> None:
    compare = _add(commands, "compare", "compare two intervals of recordings", _COMPARE)
    for name in ("a", "b"):
        compare.add_argument(name, metavar=f"{name.upper()}[@FROM,TO]",
                             help="a recording, or an interval of it")  # fmt: skip
    compare.add_argument("--json", dest="form", action="store_const", const="json",
                         help="one JSON object, schema nftop.compare/1")  # fmt: skip
    export = _add(commands, "export", "a recording as CSV, JSON Lines or Parquet", _EXPORT)
    export.add_argument("file", metavar="FILE[@FROM,TO]", help="a recording, or an interval of it")
    export.add_argument("--format", dest="form", choices=FORMATS, required=True, help="format")
    export.add_argument("--table", metavar="NAME", default=None, help="only this table")
    export.add_argument("-o", dest="output", metavar="PATH", required=True,
                        help="a folder, created if needed; with --table a file, or - for standard "
                        "output")  # fmt: skip


def _add(commands: Commands, name: str, text: str, epilog: str) -> argparse.ArgumentParser:
    return add_command(commands, name, text, epilog, argument_default=argparse.SUPPRESS)
