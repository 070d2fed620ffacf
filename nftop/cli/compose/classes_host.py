"""Host of the commands about cache classes, and how these commands end."""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nftop.cli.parsers.cat import INTERRUPTED, EndedError, GoneError, UsageError
from nftop.export.output import FAILURE, OK, USAGE, put, warn
from nftop.model.error_text import describe_error
from nftop.model.missing import Missing
from nftop.model.rdt.rdt import ResctrlTable, class_name

if TYPE_CHECKING:
    from nftop.cli.parsers.cat_actions import Threads
    from nftop.control.resctrl.backend import ClassBackend
    from nftop.model.topology import Topology
    from nftop.sources.base import Source
    from nftop.sources.simulated import SimulatedHost

BADGE = "SIMULATED"


def table_of(options: argparse.Namespace, *, metered: bool = False) -> ResctrlTable | Missing:
    """Cache classes of the host. Raises UsageError.

    `metered`: with the counts of the simulated host's monitors, for which numpy is imported.
    """
    if options.scenario is not None:
        return _simulated_table(options, metered=metered)
    from nftop.sources.host.topology import read_topology  # noqa: PLC0415 - of this host only
    from nftop.sources.resctrl.files import find_mount  # noqa: PLC0415 - likewise
    from nftop.sources.resctrl.source import ResctrlSource  # noqa: PLC0415 - likewise

    root = Path("/")
    here: Callable[[Path, Topology], Source] = ResctrlSource
    if isinstance(find_mount(root), Missing):  # else the kernel writes the registers itself
        from nftop.sources.pqos.source import PqosSource, offered  # noqa: PLC0415 - likewise

        here = PqosSource if offered(root) else ResctrlSource
    source = here(root, read_topology(root))
    table: ResctrlTable | Missing = source.read()
    source.close()
    return table


def _simulated_table(options: argparse.Namespace, *, metered: bool) -> ResctrlTable:
    if metered:
        from nftop.sim.rdt import resctrl_table  # noqa: PLC0415 - numpy comes with it

        moment = simulated(options).world.now()
        return resctrl_table(moment.rdt, moment.t_ns)
    from nftop.sim.classes import first_table  # noqa: PLC0415 - of the simulated host only

    try:
        return first_table(options.scenario, options.simulated_host, options.simulated_cpus)
    except ValueError as error:
        raise UsageError(str(error)) from None


def known_numbers(options: argparse.Namespace) -> dict[str, int]:
    """The hardware's class by group, where the host shows it. Raises UsageError."""
    table = table_of(options)
    groups = () if isinstance(table, Missing) else table.groups
    return {group.name: group.clos for group in groups if group.clos is not None}


def resolve_group(options: argparse.Namespace) -> None:
    """Replace `--group COSn` by the group that `cat show` prints beside this number.

    A directory called `COSn` is that group, whatever its number.
    """
    name = getattr(options, "group", None)
    if name is not None and re.fullmatch(r"COS[0-9]{1,5}", name):
        with contextlib.suppress(UsageError):  # invalid options of the demo: reported later
            known = known_numbers(options)
            shown = [group for group, clos in known.items() if name == f"COS{clos}"]
            if shown and name not in known:
                options.group = class_name(shown[0])


def simulated(options: argparse.Namespace) -> SimulatedHost:
    """A new simulated host. Raises UsageError if its options are invalid."""
    from nftop.sources.simulated import simulated_host  # noqa: PLC0415 - as above

    try:
        return simulated_host(
            options.scenario,
            options.simulated_cpus,
            processor=options.simulated_host,
            name=options.host_name,
        )
    except ValueError as error:
        raise UsageError(str(error)) from None


def processes(options: argparse.Namespace, host: ClassBackend) -> Threads:
    """The function that lists the threads of a process of a host."""
    from nftop.control.resctrl.writer import threads_of  # noqa: PLC0415 - for changes only

    if options.scenario is None:
        return threads_of
    from nftop.control.simulated import SimulatedResctrl  # noqa: PLC0415 - as above

    return host.threads_of if isinstance(host, SimulatedResctrl) else threads_of


def wants_json(options: argparse.Namespace) -> bool:
    """Whether output is JSON; both the command and nftop have `--json`."""
    return getattr(options, "json", False) or options.form == "json"


@contextlib.contextmanager
def ending(options: argparse.Namespace, meaning: str = "") -> Iterator[list[int]]:
    """Print why a command ends early; the list has the exit code. `meaning`: message on Ctrl-C."""
    ended = [OK]
    why = ""
    if options.scenario is not None and not wants_json(options) and not _for_a_file(options):
        put(sys.stdout, f"{BADGE}: nothing of this machine is shown or changed\n")
    try:
        yield ended
    except EndedError as error:
        why, ended[0] = str(error), error.code
    except UsageError as error:
        why, ended[0] = str(error), USAGE
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        why, ended[0] = meaning, INTERRUPTED
    except Exception as error:
        why, ended[0] = _reason(error), FAILURE
        if not why:
            raise
    if why:
        from nftop.render.base.text import printable  # noqa: PLC0415 - as `_reason`

        warn(f"nftop: {printable(why)}")


def _reason(error: Exception) -> str:
    """Why a command ends by an error of the host; "" for any other."""
    from nftop.control.backend import AbsentError  # noqa: PLC0415 - only where it fails
    from nftop.control.journal import DEFAULT  # noqa: PLC0415 - likewise
    from nftop.control.journal_damage import DamagedJournalError  # noqa: PLC0415 - likewise

    if isinstance(error, PermissionError):
        what = error.filename if isinstance(error.filename, str) else ""
        ours = not what or Path(what).is_relative_to(DEFAULT)
        reason = "the journal of changes is root's" if ours else f"{what} can't be read or written"
        return f"{reason}: run it with sudo"
    if isinstance(error, (AbsentError, DamagedJournalError, GoneError, OSError)):
        return describe_error(error)
    return ""


def _for_a_file(options: argparse.Namespace) -> bool:
    """Whether standard output is a profile, which has its badge in a comment."""
    return getattr(options, "subcommand", "") == "export" and options.output is None
