"""The commands that show and change cache classes."""

from __future__ import annotations

import argparse
import sys

from nftop.cli.commands.apply import BADGE, Planned, change, ending
from nftop.cli.commands.cat_profile import exported, imported
from nftop.cli.compose.classes_host import processes, table_of, wants_json
from nftop.cli.compose.gates import classes_gate
from nftop.cli.confirmation import EndedError, agreed
from nftop.cli.parsers.cat_actions import actions, command, missed
from nftop.control.doctor import news
from nftop.control.gate import BackendClassGate, BackendGate
from nftop.control.journal import FileJournal
from nftop.export.output import FAILURE, put
from nftop.model.reading import Missing
from nftop.render.base.text import printable


def cat(options: argparse.Namespace) -> int:
    """`nftop cat`: show, or change."""
    if options.deed == "show":
        with ending(options) as ended:
            _show(options)
        return ended[0]
    if options.deed == "export":
        with ending(options) as ended:
            exported(options, classes_gate(options), BADGE * (options.scenario is not None))
        return ended[0]
    if options.deed == "import":
        return change(options, classes_gate, lambda gate: (imported(options, gate, agreed), ()))
    if options.deed == "reset":
        return change(options, classes_gate, BackendGate.propose_reset)

    def plan(gate: BackendClassGate) -> Planned:
        requested = actions(options, processes(options, gate.host))
        return gate.propose(requested, (command(options, gate.program),)), ()

    def missing(gate: BackendClassGate) -> str:
        return missed(options, gate.host, processes(options, gate.host)) * bool(moves_tasks)

    moves_tasks = getattr(options, "tasks", None)
    return change(options, classes_gate, plan, missing)


def _show(options: argparse.Namespace) -> None:
    table = table_of(options)
    if isinstance(table, Missing):
        raise EndedError(table.message, FAILURE)
    is_simulated = options.scenario is not None
    cut_off = "" if is_simulated else news(FileJournal())
    if wants_json(options):
        from nftop.export.json.changes import classes_json  # noqa: PLC0415 - only here

        data = classes_json(table, simulated=is_simulated, unfinished=cut_off)
        put(sys.stdout, data + "\n")
        return
    from nftop.render.cache.show import classes  # noqa: PLC0415 - only here

    lines = [*[printable(cut_off), ""] * bool(cut_off), *classes(table)]
    put(sys.stdout, "\n".join(lines) + "\n")
