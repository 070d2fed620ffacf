"""`nftop tma`: top-down of counts from another program."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from nftop.export.output import FAILURE, OK, USAGE, fail, put
from nftop.render.base.text import printable
from nftop.store.folders import open_file
from nftop.uarch.table import Uarch, load, uarch_names

_MAX_BYTES = 64 << 20


def tma(options: argparse.Namespace) -> int:
    """`nftop tma`: top-down of the counts in a file, or the command that counts them."""
    from nftop.render.topdown.report import what_to_count  # noqa: PLC0415 - only here

    name = options.uarch.upper()
    if name not in uarch_names():
        known = ", ".join(uarch_names())
        return fail(f"no top-down for {printable(options.uarch)!r}; there is {known}", USAGE)
    uarch = load(name)
    if uarch.topdown is None:
        return fail(f"nftop has no top-down of {name}", USAGE)
    if options.file is None and not options.events:
        return fail("FILE is missing; --events prints the perf command that makes it", USAGE)
    if options.events:
        put(sys.stdout, what_to_count(uarch, smt=options.smt == "on") + "\n")
        return OK
    return _tma_of_file(uarch, options)


def _tma_of_file(uarch: Uarch, options: argparse.Namespace) -> int:
    from nftop.derive.topdown.tma import tma_of_counts  # noqa: PLC0415 - only here
    from nftop.export.json.reports import tma_json  # noqa: PLC0415
    from nftop.render.topdown.report import report  # noqa: PLC0415
    from nftop.sources.counts.forms import BadCountsError  # noqa: PLC0415
    from nftop.sources.counts.read import read_counts  # noqa: PLC0415

    smt = options.smt == "on"
    shown = "standard input" if options.file == "-" else printable(options.file)
    try:
        counts = read_counts(_read_text(options.file), uarch)
    except OSError as error:
        return fail(f"{shown}: {error.strerror or error}", FAILURE)
    except BadCountsError as error:
        return fail(f"{shown}: {printable(str(error))}", FAILURE)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    ratios = tma_of_counts(uarch, counts.events, smt=smt)
    notes = counts.notes
    topdown = uarch.topdown
    if options.smt is None and topdown and topdown.terms_smt_on != topdown.terms_smt_off:
        notes = (*notes, "hyper-threading is taken to be off, since --smt does not say")
    if options.json or options.form == "json":
        text = tma_json(uarch.name, ratios, smt=smt, notes=notes, ignored=counts.unknown)
    else:
        text = report(uarch, ratios, smt=smt, origin=counts.form.value, notes=notes)
    put(sys.stdout, text + "\n")
    return OK


def _read_text(file: str) -> str:
    """Text of a file or of standard input; OSError if it can't be read or is far too long."""
    if file == "-":
        if sys.stdin is None:
            raise OSError("it is closed")
        read = sys.stdin.buffer.read(_MAX_BYTES + 1)
    else:
        with os.fdopen(open_file(Path(file), wait=True), "rb") as opened:
            read = opened.read(_MAX_BYTES + 1)
    if len(read) > _MAX_BYTES:
        raise OSError(f"longer than {_MAX_BYTES >> 20} MiB, which no counts are")
    return read.decode("utf-8", "replace")
