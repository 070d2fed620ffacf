"""`nftop cat show`, `nftop cat io show`: cache classes, without what changes them."""

from __future__ import annotations

import argparse
import sys

from nftop.cli.compose.classes_host import ending, table_of, wants_json
from nftop.cli.parsers.cat import EndedError
from nftop.export.output import FAILURE, put
from nftop.model.missing import Missing


def cat_show(options: argparse.Namespace) -> int:
    with ending(options) as ended:
        _show(options)
    return ended[0]


def _show(options: argparse.Namespace) -> None:
    as_json = wants_json(options)
    table = table_of(options, metered=as_json)
    if isinstance(table, Missing):
        raise EndedError(table.message, FAILURE)
    is_simulated = options.scenario is not None
    cut_off = "" if is_simulated else _cut_off()
    if as_json:
        from nftop.export.json.changes import classes_json  # noqa: PLC0415 - only here

        data = classes_json(table, simulated=is_simulated, unfinished=cut_off)
        put(sys.stdout, data + "\n")
        return
    from nftop.render.base.text import printable  # noqa: PLC0415 - only here
    from nftop.render.editor.change import classes, io_ways_lines  # noqa: PLC0415 - only here

    shown = io_ways_lines(table) if options.subcommand == "io" else classes(table)
    lines = [*[printable(cut_off), ""] * bool(cut_off), *shown]
    put(sys.stdout, "\n".join(lines) + "\n")


def _cut_off() -> str:
    """A change of this host that a crash cut off; "" if there is none."""
    from nftop.control.journal import FileJournal  # noqa: PLC0415 - of this host only
    from nftop.control.journal_status import news  # noqa: PLC0415 - likewise

    return news(FileJournal())
