"""The command lines that show and change the frequencies and priority of cores: `sst`.

Imports nothing heavy: `--help` must be instant.
"""

from __future__ import annotations

import argparse

from nftop.cli.parsers.cat import Commands, add_command, add_confirmation, add_trial
from nftop.cli.parsers.option_types import cpu_list

NAMES = ("sst",)
_EPILOG = """\
Which cores have high priority (SST-BF) is fixed in hardware. pin sets both limits of a core, with
all its threads, to its guaranteed frequency (base_frequency); release restores the limits that were
set before the pin, or those of the hardware if they are unknown. A change is shown, confirmed, kept
and reverted like those of cache classes (cat --help), with the same exit codes; nftop undo reverts
the last one, governor and limits included.

bf and cp use intel-speed-select, if it is installed and the platform has SST-BF and SST-CP at run
time (Xeons of the third generation and later). bf switches the bit of SST-BF alone; cp sets the
SST-CP class of cores with all their threads. Both are read back by the tool: a setting that it does
not report back counts as not made.

examples:
  sudo nftop sst show
  sudo nftop sst pin --cpus 4,6
  sudo nftop sst pin --nf vpp --yes
  sudo nftop sst try --cpus 4,6 --against now --rounds 6
  sudo nftop sst apply --mode bf       every core to its own frequency, as sst_bf.py -s
  sudo nftop sst bf on --package 0
  sudo nftop sst cp --cpus 4,6 --class 0
  sudo nftop undo
"""


def add_commands(commands: Commands) -> None:
    add_command(
        commands,
        "sst",
        "core priority and frequency limits: show and change them safely",
        _EPILOG,
        description="Frequency limits, governors and priority of cores (cpufreq, Intel SST).",
        fill=_add_parsers,
    )


def _add_parsers(sst: argparse.ArgumentParser) -> None:
    sub = sst.add_subparsers(title="commands", metavar="COMMAND", dest="subcommand", required=True)
    show = sub.add_parser("show", help="every core: priority, base frequency, limits, governor")
    show.add_argument("--json", action="store_true", help="one JSON object, schema nftop.sst/1")
    _add_target(sub.add_parser("pin", help="fix cores to their guaranteed frequencies"))
    _add_target(sub.add_parser("release", help="restore the limits that were set before the pin"))
    tried = sub.add_parser(
        "try", help="compare pinned cores with the present limits by experiment, as cat try does"
    )
    tried.add_argument(
        "--cpus", metavar="LIST", type=cpu_list, required=True, help="cores to pin, such as 4,6-7"
    )
    add_trial(tried)
    apply = sub.add_parser("apply", help="all cores of the host at once")
    apply.add_argument(
        "--mode",
        choices=("bf", "base"),
        required=True,
        help="bf: governor powersave, each core fixed to its own base frequency (sst_bf.py -s); "
        "base: all cores fixed to the nominal frequency (sst_bf.py -m)",
    )
    add_confirmation(apply)
    bf = sub.add_parser("bf", help="SST-BF on or off, by intel-speed-select")
    bf.add_argument("state", choices=("on", "off"))
    bf.add_argument(
        "--package",
        metavar="N",
        type=_number,
        action="append",
        default=None,
        help="only this package; may be repeated (default: all)",
    )
    add_confirmation(bf)
    cp = sub.add_parser("cp", help="the SST-CP class of cores, by intel-speed-select")
    cp.add_argument("--cpus", metavar="LIST", type=cpu_list, required=True, help="such as 4,6-7")
    cp.add_argument(
        "--class",
        metavar="N",
        dest="cp_class",
        type=int,
        choices=range(4),
        required=True,
        help="0 to 3; with ordered priority, 0 is the highest",
    )
    add_confirmation(cp)


def _number(text: str) -> int:
    """Type of an option: a package number."""
    if not (text.isascii() and text.isdigit() and len(text) < 5):
        raise argparse.ArgumentTypeError(f"{text!r} is no package")
    return int(text)


def _add_target(parser: argparse.ArgumentParser) -> None:
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--cpus", metavar="LIST", type=cpu_list, default=(), help="such as 4,6-7")
    target.add_argument("--group", metavar="G", default=None, help="the CPUs of a cache class")
    target.add_argument(
        "--nf", metavar="NAME", default=None, help="the CPUs that a network function polls on"
    )
    target.add_argument("--all", action="store_true", help="every CPU")
    add_confirmation(parser)
