"""Parsers of commands, and options of several, accepted before or after the command's name.

Imports nothing heavy: `--help` must be instant.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any, NoReturn, TextIO, cast

from nftop.cli.parsers.option_types import bandwidth, count_of, cpu_list, interval
from nftop.export.output import USAGE, put, warn_lines
from nftop.model.terminal_text import safe_line

# argparse's message where only a command of a command is missing.
_NO_COMMAND = "the following arguments are required: COMMAND"
# Defaults of the main parser. Parsers of commands have none (`argument_default`), so that options
# before the command's name remain.
DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "interval_s": 1.0,
        "cpu_list": None,
        "quiet_cpus": (),
        "tma_level": 2,
        "memory_peak_gbs": 0.0,
        "focus": None,
        "queue_map": [],
        "baseline": None,
        "batch": False,
        "count": None,
        "form": "text",
    }
)


def _columns() -> int:
    """Width of the terminal; argparse imports `shutil` for that, a tenth of the start."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns[:6]):
        return int(columns[:6])
    if sys.__stdout__ is not None:  # else started with it closed
        with suppress(OSError, ValueError):
            return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80
    return 80


# Parsers of the whole command line: what they do not know is kept, for `nftop demo`.
_TOP_LEVEL = ("nftop", "nftop demo")


class Parser(argparse.ArgumentParser):
    """Writes as every command does: argparse itself ignores a stream that can't be written.

    It is built when it is first used: of forty commands one is run.

    Args:
        fill: adds the arguments, when they are first needed.
    """

    def __init__(
        self, *, fill: Callable[[argparse.ArgumentParser], None] | None = None, **more: Any
    ) -> None:
        self._fill, self._more, self._early = fill, more, dict[str, Any]()
        self._built = False

    def __getattr__(self, name: str) -> Any:
        """An attribute of argparse's: only what is not built has none yet."""
        if self._built:
            raise AttributeError(name)
        self._built = True
        # Lines of an epilog are as they are.
        raw = argparse.RawDescriptionHelpFormatter
        style = raw if self._more.get("epilog") else argparse.HelpFormatter
        formatter = partial(style, width=_columns() - 2)
        super().__init__(formatter_class=formatter, **self._more)
        self.set_defaults(**self._early)
        return getattr(self, name)

    def set_defaults(self, **values: Any) -> None:
        if self._built:
            super().set_defaults(**values)
        else:
            self._early |= values

    def complete(self) -> None:
        """Add the arguments."""
        fill, self._fill = self._fill, None
        if fill is not None:
            fill(self)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.complete()
        known, rest = super().parse_known_args(args, namespace)
        # Of a command argparse would leave them to the parser of the whole line.
        if rest and self.prog not in _TOP_LEVEL:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return known, rest

    def _print_message(self, message: str, file: object = None) -> None:
        put(cast("TextIO | None", file), message)

    def error(self, message: str) -> NoReturn:
        error = f"{self.prog}: error: {safe_line(message)}"
        alone = message == _NO_COMMAND  # such as `nftop cat`: its commands are what is wanted
        hint = f"{error}\n{self.prog} --help lists the options"
        warn_lines(f"{self.format_help()}{error}" if alone else hint)
        sys.exit(USAGE)


def add_sampling(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-d",
        dest="interval_s",
        metavar="S",
        type=interval,
        help="seconds between frames (default 1, at least 0.1)",
    )
    parser.add_argument(
        "--cpu-list",
        metavar="LIST",
        type=cpu_list,
        help="show only these CPUs, such as 2-7,66-71, and read only counters of their cores "
        "(hyper-thread siblings included, for top-down); counters of packages and caches are still "
        "read, unless --quiet-cpus excludes them",
    )
    parser.add_argument(
        "--quiet-cpus",
        metavar="LIST",
        type=cpu_list,
        help="read no hardware counters on these CPUs (each read interrupts its CPU): neither "
        "their own, nor those of a package (memory, PCIe, links) or cache that the kernel reads "
        "on one of them (see nftop doctor)",
    )
    _add_detail(parser)


def _add_detail(parser: argparse.ArgumentParser) -> None:
    """Options of what is counted and compared beside the defaults."""
    parser.add_argument(
        "--tma-level",
        metavar="N",
        type=int,
        choices=(1, 2),
        help="top-down level to count (default 2). 1: if level 2 needs multiplexed counter groups, "
        "omit it and read each CPU once a tick",
    )
    parser.add_argument(
        "--memory-peak",
        dest="memory_peak_gbs",
        metavar="GB/S",
        type=bandwidth,
        help="highest memory bandwidth of a package, of which shares are shown (default 0: by the "
        "modules that firmware lists, else the fastest that the CPU supports)",
    )
    parser.add_argument(
        "--focus",
        metavar="CPU|NF",
        help="also count this core in detail, as screen 6 does: top-down levels 3 and 4, latency "
        "of reads, snoops, remote loads; a CPU, or a network function by name (its busiest CPU). "
        "For --batch (text, --json), record and serve",
    )
    parser.add_argument(
        "--queue-map",
        metavar="PREFIX:(PORT,QUEUE,LCORE),...",
        action="append",
        help="which lcore of a DPDK application polls which queue, if it does not report it; "
        "PREFIX is its --file-prefix (default rte)",
    )

    parser.add_argument(
        "--baseline",
        metavar="NAME",
        help="compare with the baselines of this name in your data folder, and keep there those of "
        "key b; without this option they are dropped when nftop ends",
    )


def add_batch(parser: argparse.ArgumentParser) -> None:
    batch = parser.add_argument_group("batch")
    batch.add_argument("--batch", action="store_true", help="write frames, draw no screen")
    batch.add_argument(
        "-n",
        dest="count",
        metavar="N",
        type=count_of("frames"),
        help="end after N frames; implies --batch",
    )
    form = batch.add_mutually_exclusive_group()
    form.add_argument(
        "--json",
        dest="form",
        action="store_const",
        const="json",
        help="JSON Lines, schema nftop.frame/1",
    )
    form.add_argument(
        "--csv",
        dest="form",
        action="store_const",
        const="csv",
        help="CSV, a row per CPU and frame; packages, cache classes and network "
        "functions are only in --json",
    )
    form.add_argument(
        "--monitors",
        dest="form",
        action="store_const",
        const="monitors",
        help="text: last-level cache, memory traffic and misses by core, thread, "
        "process and monitoring group, as pqos -T; implies --batch",
    )
