"""Commands by name, each with its function; modules are imported when their command runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType

from nftop.cli import config
from nftop.cli.parsers import cat as cat_parser
from nftop.cli.parsers import record
from nftop.cli.parsers import recorded as recorded_parser
from nftop.cli.parsers import sst as sst_parser
from nftop.export.output import OK, put


def watching(options: argparse.Namespace) -> int:
    """The screen, or its batch output."""
    from nftop.cli.commands.live import live  # noqa: PLC0415 - numpy and the sources come with it

    return live(options)


def reporting(options: argparse.Namespace) -> int:
    """`doctor`, `explain` or `tma`."""
    from nftop.cli.commands import report  # noqa: PLC0415 - as above

    deeds = {"doctor": report.doctor, "explain": report.explain, "tma": report.tma}
    return deeds[options.command](options)


def configuring(options: argparse.Namespace) -> int:
    """`config`: the files were read, and found right, with the command line."""
    put(sys.stdout, config.shown(options.settings, config.files(os.environ)))
    return OK


def serving(options: argparse.Namespace) -> int:
    """Frames for Prometheus."""
    from nftop.cli.commands.serve import serve  # noqa: PLC0415 - the server is imported for nothing else

    return serve(options)


def changing(options: argparse.Namespace) -> int:
    """`cat`, `undo`, `history` or `recover`."""
    from nftop.cli.commands import cat, undo  # noqa: PLC0415 - what changes the host is imported only here

    deeds = {"cat": cat.cat, "undo": undo.undo, "history": undo.history, "recover": undo.recovery}
    return deeds[options.command](options)


def setting_priority(options: argparse.Namespace) -> int:
    """`sst`."""
    from nftop.cli.commands.sst import sst  # noqa: PLC0415 - as above

    return sst(options)


def recording(options: argparse.Namespace) -> int:
    """`record` or `replay`."""
    from nftop.cli.commands import record as deeds  # noqa: PLC0415 - what compresses is imported with it

    return {"record": deeds.record, "replay": deeds.replay}[options.command](options)


def recorded(options: argparse.Namespace) -> int:
    """`compare` or `export`."""
    from nftop.cli.commands import export as deeds  # noqa: PLC0415 - as above

    return {"compare": deeds.compare, "export": deeds.export}[options.command](options)


COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = MappingProxyType(
    {"live": watching, "serve": serving, "config": configuring}
    | dict.fromkeys(("doctor", "explain", "tma"), reporting)
    | dict.fromkeys(cat_parser.NAMES, changing)
    | dict.fromkeys(sst_parser.NAMES, setting_priority)
    | dict.fromkeys(record.NAMES, recording)
    | dict.fromkeys(recorded_parser.NAMES, recorded)
)
