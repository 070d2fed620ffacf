"""`nftop export`: ticks of a recording as tables."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from nftop.cli.cuts import BAD_RECORDING, ending_on_signal, open_cut
from nftop.export.output import FAILURE, OK, USAGE, fail, say
from nftop.export.tables.outputs import OutputExistsError, Outputs, OutputsError
from nftop.export.tables.tables import TABLES
from nftop.render.base.text import printable
from nftop.session.interval import Cut, ticks
from nftop.store.folders import caller


def export(options: argparse.Namespace) -> int:
    if options.table is not None and options.table not in TABLES:
        known = ", ".join(TABLES)
        return fail(f"no table is called {printable(options.table)!r}; there is {known}", USAGE)
    if options.output == "-" and (options.table is None or options.form == "parquet"):
        return fail("only one table, and none of Parquet, goes to standard output", USAGE)
    cut = open_cut(options.file)
    if isinstance(cut, int):
        return cut
    names = tuple(TABLES) if options.table is None else (options.table,)
    path = None if options.output == "-" else Path(options.output).absolute()
    try:
        outputs = Outputs(
            path, options.form, names,
            folder=options.table is None, owner=caller(os.environ), host=cut.host,
        )  # fmt: skip
        return _exported(cut, outputs)
    except OutputsError as error:
        code = USAGE if isinstance(error, OutputExistsError) else FAILURE
        return fail(printable(str(error)), code)
    finally:
        cut.data.close()


def _exported(cut: Cut, outputs: Outputs) -> int:
    ended: list[int] = []
    done = False
    try:
        with ending_on_signal(ended, cut):
            for shown in ticks(cut, outputs.marker):
                outputs.tick(shown.number, shown.frame)
            outputs.losses(cut.losses)
            rows = outputs.close()
            done = True
    except InterruptedError:
        return 128 + ended[0]
    finally:
        if not done:
            outputs.discard()
    for _, loss in cut.losses:
        say(f"nftop: {loss.sentence}")
    if cut.unfinished:
        say(f"nftop: {cut.unfinished}")
    for name, count in rows.items():
        say(f"nftop: {count} rows in {printable(name)}")
    return BAD_RECORDING if cut.damaged else OK
