"""Host of the commands about cache classes: this one, or the simulated one with `demo`."""

from __future__ import annotations

import argparse
import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from nftop.cli.parsers.cat_actions import Threads, UsageError
from nftop.control.resctrl.backend import ClassBackend
from nftop.control.resctrl.writer import threads_of
from nftop.model.missing import Missing
from nftop.model.rdt.rdt import ResctrlTable, class_name
from nftop.sources.base import Source
from nftop.sources.host.topology import read_topology
from nftop.sources.pqos.source import PqosSource, offered
from nftop.sources.resctrl.source import ResctrlSource

if TYPE_CHECKING:
    from nftop.sources.simulated import SimulatedHost


def table_of(options: argparse.Namespace) -> ResctrlTable | Missing:
    """Cache classes of the host. Raises UsageError."""
    if options.scenario is not None:
        from nftop.sim.rdt import resctrl_table  # noqa: PLC0415 - numpy comes with it

        moment = simulated(options).world.now()
        return resctrl_table(moment.rdt, moment.t_ns)
    root = Path("/")
    here = PqosSource if offered(root) else ResctrlSource
    source: Source = here(root, read_topology(root))
    table: ResctrlTable | Missing = source.read()
    source.close()
    return table


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
            options.scenario, options.simulated_cpus,
            processor=options.simulated_host, name=options.host_name,
        )  # fmt: skip
    except ValueError as error:
        raise UsageError(str(error)) from None


def processes(options: argparse.Namespace, host: ClassBackend) -> Threads:
    """The function that lists the threads of a process of a host."""
    if options.scenario is None:
        return threads_of
    from nftop.control.simulated import SimulatedResctrl  # noqa: PLC0415 - as above

    return host.threads_of if isinstance(host, SimulatedResctrl) else threads_of


def wants_json(options: argparse.Namespace) -> bool:
    """Whether output is JSON; both the command and nftop have `--json`."""
    return getattr(options, "json", False) or options.form == "json"
