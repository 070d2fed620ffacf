"""What a lab can be told to be."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from tests.lab import machine
from tests.lab.clock import nanoseconds
from tests.lab.cpufreq.host import KINDS
from tests.lab.resctrl import profile


@dataclass(frozen=True, slots=True)
class Options:
    """One lab.

    Attributes:
        machine: a name of `machine.names()`.
        kernel: whose texts and formats resctrl has, a name of `profile.kernels()`.
        rdt: words of the boot parameter rdt=; None: as the machine has it.
        scenario: a name of nftop's scenarios, or the path of a file with one; "": the machine's.
        cpus: how many logical CPUs.
        smt: with hyper-threading, as the firmware has set it.
        pmu: what its core PMU is, of `machine.PMUS`.
        competitor: what another program does to the counters, as `perf.competitor` reads it.
        clusters: sub-NUMA clusters a package.
        io_alloc: its processor lets the kernel set the ways of I/O.
        resctrl: it is mounted from the beginning.
        offered: its kernel has resctrl.
        cpufreq: who sets frequencies, of `cpufreq.host.KINDS`.
        frozen_at_ns: where the clock stands; None: it runs, from 0.
        nics: the simulated host's network devices are its PCI devices, not this machine's.
        watchdog: the NMI watchdog is on. paranoid: kernel.perf_event_paranoid. None: as the
            machine has it.
        command: what to run inside.
    """

    machine: str
    kernel: str
    rdt: tuple[str, ...] | None
    scenario: str
    cpus: int
    smt: bool
    pmu: str
    competitor: str
    clusters: int
    io_alloc: bool
    resctrl: bool
    offered: bool
    cpufreq: str
    frozen_at_ns: int | None
    nics: bool
    watchdog: bool | None
    paranoid: int | None
    command: tuple[str, ...]


def parse(arguments: Sequence[str]) -> Options:
    """The command line; leaves with a sentence and exit code 2 if there is no such lab."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab",
        description="Run a command on a virtual two-socket Xeon. Needs root, and Debian's fuse3.",
        epilog="While it runs: /sys/fs/lab/live/ctl (the clock: echo freeze|run|'step SECONDS' > "
        "clock), and what root can change of the host, CPUs online and sysctls among it.",
    )
    parser.add_argument("--model", dest="machine", default="skx-4", choices=machine.names())
    parser.add_argument(
        "--kernel",
        default="6.1",
        choices=profile.kernels(),
        help="whose resctrl it has; perf and the rest are the same with all",
    )
    parser.add_argument(
        "--rdt",
        type=lambda words: tuple(words.split(",")),
        metavar="WORD,...",
        help="what it is booted with, to show what it hides: cmt,mbmtotal,mbmlocal,l3cat,l3cdp,mba",
    )
    parser.add_argument("--scenario", default="", metavar="NAME|FILE")
    parser.add_argument("--cpus", type=int, default=88, metavar="N")
    parser.add_argument("--smt", choices=("on", "off"), default="on", help="of the firmware")
    parser.add_argument(
        "--pmu",
        default="own",
        choices=tuple(machine.PMUS),
        help="own; that of cores alone; as guests have it, of Linux to 6.13, since, or none; of a "
        "kernel that lacks registers beside events; one nobody knows; AMD's",
    )
    parser.add_argument(
        "--competitor",
        default="none",
        metavar="'pinned K'|'groups N K'",
        help="another program has K general counters on every CPU, or N groups of K that want them",
    )
    parser.add_argument(
        "--snc", dest="clusters", type=int, default=1, metavar="N", help="sub-NUMA clusters"
    )
    parser.add_argument(
        "--io-alloc", action="store_true", help="the ways of I/O can be set, as on AMD's processors"
    )
    parser.add_argument(
        "--no-resctrl", dest="resctrl", action="store_false", help="leave it to be mounted inside"
    )
    parser.add_argument(
        "--without-resctrl",
        dest="offered",
        action="store_false",
        help="its kernel has none: MSRs are all there is",
    )
    parser.add_argument(
        "--cpufreq",
        default="own",
        choices=KINDS,
        help="intel_pstate; the same without HWP, so without base frequencies; acpi-cpufreq; none",
    )
    parser.add_argument(
        "--freeze", dest="frozen_at_ns", type=nanoseconds, metavar="T", help="stand still at T s"
    )
    parser.add_argument(
        "--nics", action="store_true", help="its network devices in place of this machine's PCI's"
    )
    parser.add_argument("--watchdog", choices=("on", "off"))
    parser.add_argument("--paranoid", type=int, choices=range(-1, 5))
    parser.add_argument("command", nargs="+", metavar="-- CMD ...")
    chosen = vars(parser.parse_args(arguments))
    chosen["smt"] = chosen["smt"] == "on"
    chosen["resctrl"] &= chosen["offered"]
    chosen["watchdog"] = {"on": True, "off": False, None: None}[chosen["watchdog"]]
    chosen["command"] = tuple(chosen["command"])
    return Options(**chosen)
