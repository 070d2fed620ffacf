"""`nftop export`: ticks of a recording as tables."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from nftop.cli.cuts import BAD_RECORDING, ending_on_signal, open_cut
from nftop.export.output import FAILURE, OK, USAGE, fail, warn
from nftop.export.tables.dataset import AppendedDay, Dataset, RecordedInterval
from nftop.export.tables.outputs import OutputExistsError, Outputs, OutputsError
from nftop.export.tables.tables import TABLES
from nftop.model.number_text import counted
from nftop.render.base.text import printable
from nftop.session.interval import Cut, ticks
from nftop.store.folders import caller


def export(options: argparse.Namespace) -> int:
    names = tuple(TABLES if options.table is None else dict.fromkeys(options.table.split(",")))
    unknown = [name for name in names if name not in TABLES]
    if unknown:
        known = ", ".join(TABLES)
        return fail(f"no table is called {printable(unknown[0])!r}; there is {known}", USAGE)
    if options.output == "-" and (len(names) > 1 or options.form == "parquet"):
        return fail("only one table, and none of Parquet, goes to standard output", USAGE)
    if options.partition and options.form != "parquet":
        return fail("--partition: only --format parquet is appended to", USAGE)
    cut = open_cut(options.file)
    if isinstance(cut, int):
        return cut
    try:
        return _exported(cut, _outputs(options, names, cut))
    except OutputsError as error:
        code = USAGE if isinstance(error, OutputExistsError) else FAILURE
        return fail(printable(str(error)), code)
    finally:
        cut.data.close()


def _outputs(options: argparse.Namespace, names: tuple[str, ...], cut: Cut) -> Outputs | Dataset:
    path = None if options.output == "-" else Path(options.output).absolute()
    owner = caller(os.environ)
    if path is not None and options.partition:
        interval = RecordedInterval(cut.host, cut.began_ns, cut.from_ns, cut.to_ns)
        return Dataset(path, names, owner=owner, interval=interval)
    folder = options.table is None or len(names) > 1
    return Outputs(path, options.form, names, folder=folder, owner=owner, host=cut.host)


def _exported(cut: Cut, outputs: Outputs | Dataset) -> int:
    ended: list[int] = []
    done = False
    try:
        with ending_on_signal(ended, cut):
            for shown in ticks(cut, outputs.marker):
                outputs.tick(shown.number, shown.frame)
            outputs.losses(cut.losses)
            written = outputs.close()
            done = True
    except InterruptedError:
        return 128 + ended[0]
    finally:
        if not done:
            outputs.discard()
    for _, loss in cut.losses:
        warn(f"nftop: {loss.sentence}")
    if cut.unfinished:
        warn(f"nftop: {cut.unfinished}")
    if isinstance(written, dict):
        for name, count in written.items():
            warn(f"nftop: {counted(count, 'row')} in {printable(name)}")
    else:
        for day in written:
            warn(f"nftop: {_day_text(day, lossy=bool(cut.losses))}")
    return BAD_RECORDING if cut.damaged else OK


def _day_text(day: AppendedDay, *, lossy: bool) -> str:
    """`edge-07 2026-01-31: 12345 rows, 1.2 MB`."""
    before = "; the recording's rows of this time were replaced" if day.replaced else ""
    before += ", rows of lost ticks stay" if before and lossy else ""
    size = f"{day.size_bytes / 1e6:.2f} MB"
    return f"{printable(day.host)} {day.day}: {counted(day.rows, 'row')}, {size} in Parquet{before}"
