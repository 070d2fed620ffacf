"""What a lab can be told to be."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from tests.lab import machine
from tests.lab.clock import nanoseconds

KERNELS = ("6.1", "7.2")


@dataclass(frozen=True, slots=True)
class Options:
    """One lab.

    Attributes:
        machine: a name of `machine.names()`.
        kernel: whose texts and formats resctrl has, one of `KERNELS`.
        scenario: a name of nftop's scenarios, or the path of a file with one.
        cpus: how many logical CPUs.
        resctrl: it is mounted from the beginning.
        frozen_at_ns: where the clock stands; None: it runs, from 0.
        watchdog: the NMI watchdog is on.
        paranoid: kernel.perf_event_paranoid.
        command: what to run inside.
    """

    machine: str
    kernel: str
    scenario: str
    cpus: int
    resctrl: bool
    frozen_at_ns: int | None
    watchdog: bool
    paranoid: int
    command: tuple[str, ...]


def parse(arguments: Sequence[str]) -> Options:
    """The command line; leaves with a sentence and exit code 2 if there is no such lab."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab",
        description="Run a command on a virtual two-socket Xeon. Needs root, and Debian's fuse3.",
        epilog="The clock: echo freeze|run|'step SECONDS' > /sys/fs/lab/live/ctl/clock",
    )
    parser.add_argument("--model", dest="machine", default="skx-4", choices=machine.names())
    parser.add_argument("--kernel", default="6.1", choices=KERNELS)
    parser.add_argument("--scenario", default="default", metavar="NAME|FILE")
    parser.add_argument("--cpus", type=int, default=88, metavar="N")
    parser.add_argument(
        "--no-resctrl", dest="resctrl", action="store_false", help="leave it to be mounted inside"
    )
    parser.add_argument(
        "--freeze", dest="frozen_at_ns", type=nanoseconds, metavar="T", help="stand still at T s"
    )
    parser.add_argument("--watchdog", choices=("on", "off"), default="on")
    parser.add_argument("--paranoid", type=int, default=2, choices=(-1, 0, 1, 2))
    parser.add_argument("command", nargs="+", metavar="-- CMD ...")
    chosen = vars(parser.parse_args(arguments))
    return Options(
        **chosen | {"watchdog": chosen["watchdog"] == "on", "command": tuple(chosen["command"])}
    )
