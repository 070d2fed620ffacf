"""The command lines that change classes: `cat`, `undo`, `history`, `recover`.

Imports nothing heavy: `--help` must be instant.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, TypeAlias

from nftop.cli.parsers.option_types import (
    amount,
    cpu_list,
    domain_value,
    file_name,
    nf_names,
    percent,
    seconds,
    task_list,
    way_range,
    whole_number,
)
from nftop.model.keep_timeout import KEEP_WITHIN_S

Commands: TypeAlias = Any  # argparse has no public name for what add_subparsers gives
Fill: TypeAlias = Callable[[argparse.ArgumentParser], None]

NAMES = ("cat", "undo", "history", "recover")
# Options of masks, with their lines of schemata.
MASKS = {
    "l3": "L3", "l3code": "L3CODE", "l3data": "L3DATA",
    "l2": "L2", "l2code": "L2CODE", "l2data": "L2DATA",
}  # fmt: skip


INTERRUPTED = 130  # the exit code of Ctrl-C: 128 + SIGINT


class UsageError(Exception):
    """An invalid command line; the text says why."""


class GoneError(Exception):
    """Something named does not exist on this host; the text says what."""


class EndedError(Exception):
    """Ends a command with a message and an exit code."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


_EPILOG = """\
A change is shown first, with its effects and writes. It is applied after a `y`, and reverted
automatically unless a second `y` confirms it in time. --yes answers both. Undoing just the
newest change asks only once.

exit codes: 0 the host is in the requested state; 1 nothing was changed: refused, or you answered
no; 2 usage, or no terminal to ask; 5 the host is not, or is not known to be, in the requested
state: another program changed the classes meanwhile, a part was left alone, the change was
reverted, or the guard was killed; 130 Ctrl-C: nothing was changed, or the change was reverted

examples:
  sudo nftop cat set --group vpp --l3 0=3f0 --l3 1=ff0 --mba 0=50
  sudo nftop cat create --group nftop.batch --l3 0=3 --cpus 20-23 --yes
  sudo nftop cat move --group nftop.batch --tasks 4711
  sudo nftop cat create --group vpp --monitor nftop.wk0 --threads 4713
  sudo nftop cat io enable --l3 0=c00 --l3 1=c00
  sudo nftop cat sweep --group tenant --ways 1-8 --watch vpp
  sudo nftop cat footprint --own -o plan.nftop
  sudo nftop cat try quiet.toml --against now --rounds 6
  sudo nftop undo
"""


def add_command(
    commands: Commands, name: str, text: str, epilog: str | None = None, **more: Any
) -> argparse.ArgumentParser:
    """Parser of a command; `more`: arguments of `add_parser`, `fill` adds its own."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, epilog=epilog, **more)
    parser.set_defaults(command=name)
    return parser


def shows(options: argparse.Namespace) -> bool:
    """Whether it is `cat show` or `cat io show`, which change nothing."""
    command = getattr(options, "io_command", getattr(options, "subcommand", ""))
    return options.command == "cat" and command == "show"


def add_commands(commands: Commands) -> None:
    add_command(
        commands,
        "cat",
        "cache classes: show and change them safely",
        _EPILOG,
        fill=_add_parsers,
        description="Cache classes of resctrl: their limits, and changes that can be undone.",
    )
    commands.add_parser(
        "undo",
        help="revert the last change that was kept",
        description="Revert the newest change that is in effect; one confirmation is enough. If a "
        "newer change is skipped, because another program has overwritten it or nothing of it is "
        "left, the undo must be confirmed a second time to be kept.",
        fill=_add_undo,
    ).set_defaults(command="undo")
    add_command(
        commands,
        "history",
        "every change that nftop made on this host",
        fill=lambda history: add_json(history, "JSON Lines, schema nftop.change/1"),
    )
    add_command(commands, "recover", "revert a change that a crash interrupted", fill=_add_recover)


def add_json(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--json", action="store_true", help=text)


def _add_recover(recover: argparse.ArgumentParser) -> None:
    recover.add_argument("--yes", action="store_true", help="do it without asking")


def _add_undo(undo: argparse.ArgumentParser) -> None:
    add_confirmation(undo)
    undo.add_argument(
        "--past",
        dest="beyond",
        action="store_true",
        help="skip changes that another program has overwritten",
    )


def _add_parsers(cat: argparse.ArgumentParser) -> None:
    sub = cat.add_subparsers(title="commands", metavar="COMMAND", dest="subcommand", required=True)

    def add(name: str, text: str, fill: Fill, epilog: str | None = None) -> None:
        sub.add_parser(name, help=text, fill=fill, epilog=epilog)

    add("show", "every class: owner, ways, CPUs, limits, ways of I/O", _fill_show)
    add("set", "masks and limits of a class", _fill_set)
    add("move", "CPUs or threads into a class", _fill_move)
    add("create", "a class of nftop's own (nftop.NAME), or a monitoring group", _fill_create)
    add("remove", "a class or a monitoring group that nftop made", _fill_remove)
    add("reset", "back to before nftop's first change", add_confirmation)
    add("import", "apply a profile: nftop's own, or that of `pqos -f`", _fill_import)
    add("export", "the classes of this host as a profile", _fill_export)
    add("io", "ways of I/O: show, switch on, set, switch off", _fill_io, _IO)
    add("sweep", "find the mask of a class by experiment", _fill_sweep, _SWEEP)
    add("footprint", "how much cache each network function fills", _fill_footprint, _FOOTPRINT)
    text = "compare a configuration with the present one by experiment"
    add("try", text, _fill_try, _TRY)


def _fill_show(show: argparse.ArgumentParser) -> None:
    add_json(show, "one JSON object, schema nftop.cat/1")


def _fill_set(put: argparse.ArgumentParser) -> None:
    _add_group(put)
    _add_masks(put)


def _fill_move(move: argparse.ArgumentParser) -> None:
    _add_group(move)
    target = move.add_mutually_exclusive_group(required=True)
    _add_cpus(target)
    target.add_argument(
        "--tasks",
        metavar="PID,...",
        type=task_list,
        default=(),
        help="processes with all their threads, or threads",
    )


def _fill_create(create: argparse.ArgumentParser) -> None:
    _add_group(create)
    _add_masks(create)
    _add_cpus(create)
    _add_monitor(create)
    create.add_argument(
        "--tasks",
        metavar="PID,...",
        type=task_list,
        default=(),
        help="of a monitoring group: processes with all their threads, or threads",
    )
    create.add_argument(
        "--threads",
        metavar="TID,...",
        type=task_list,
        default=(),
        help="of a monitoring group: these threads alone",
    )


def _fill_remove(remove: argparse.ArgumentParser) -> None:
    _add_group(remove)
    _add_monitor(remove)


def _fill_import(take: argparse.ArgumentParser) -> None:
    take.add_argument("file", metavar="FILE", type=file_name, help="- is standard input")
    take.add_argument(
        "--fix",
        action="store_true",
        help="accept each edit that is offered, without asking: ways, CPUs and groups that this "
        "host lacks, and words and numbers of pqos that are misspelt. FILE stays as it is. All "
        "other errors are listed by line; with one of them nothing is done, and the exit code is 1",
    )
    add_confirmation(take)
    _add_format(take)


def _fill_export(give: argparse.ArgumentParser) -> None:
    give.add_argument(
        "-o", dest="output", metavar="FILE", type=file_name, help="a new file; else standard output"
    )
    _add_format(give)


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--profile",
        choices=("toml", "pqos"),
        default=None,
        help="format (default: by file name or content, or toml)",
    )


_IO = """\
The ways that devices write into (DDIO). The kernel can set them where it has info/L3/io_alloc:
Linux 6.19, AMD's processors with SDCIAE. Switched on, I/O has the highest class of the cache, which
no group can have meanwhile. One switch is for all caches: without any --l3 each gets every way that
no exclusive group has; with some, the others keep the ways that devices have now, if known. Intel's
register IIO LLC WAYS is shown where it can be read, and never written.
"""


def _fill_io(io: argparse.ArgumentParser) -> None:
    acts = io.add_subparsers(title="commands", metavar="COMMAND", dest="io_command", required=True)
    text = "the ways of I/O, and whether they can be set"
    acts.add_parser("show", help=text, fill=_fill_show)
    for name, text in (
        ("enable", "set the ways of I/O instead of the CPU's own choice"),
        ("set", "other ways, while they are set"),
        ("disable", "leave them to the CPU again"),
    ):
        act = acts.add_parser(name, help=text)
        if name != "disable":
            act.add_argument(
                "--l3",
                metavar="ID=MASK",
                action="append",
                type=domain_value(16),
                default=[],
                required=name == "set",
                help="ways in L3 ID, hexadecimal, such as 0=600; may be repeated",
            )
        add_confirmation(act)


_SWEEP = """\
Tries masks of ever more ways for one class, in random order and in several rounds, and measures
what each costs the watched network functions. At the end the mask of before is restored, and the
mask that costs them nothing is printed: of a neighbour's class the largest, of an NF's own class
the smallest. It takes minutes, and nothing is kept. Every mask, the order, the duration and what
ends it are shown first.

exit codes: 0 measured, and all is as before; 1 ended early, and all is as before; 2 usage; 5 not
all is as before (nftop recover); 130 Ctrl-C, and all is as before
"""


def _fill_sweep(sweep: argparse.ArgumentParser) -> None:
    swept = sweep.add_mutually_exclusive_group(required=True)
    swept.add_argument("--group", metavar="G", default=None, help="the class to sweep")
    swept.add_argument(
        "--io",
        dest="of_io",
        action="store_true",
        help="sweep the ways of I/O, where the kernel can set them",
    )
    sweep.add_argument(
        "--ways",
        metavar="N-M",
        type=way_range,
        default=None,
        help="least and most ways (default: all that the CPU takes)",
    )
    _add_watch(sweep)
    sweep.add_argument(
        "--l3",
        metavar="ID",
        type=whole_number(0, 1 << 16),
        action="append",
        default=[],
        help="this cache only; may be repeated (default: all in common)",
    )
    sweep.add_argument(
        "--rounds",
        metavar="N",
        type=whole_number(2, 50),
        default=8,
        help="most rounds (default %(default)s); it ends as soon as it is clear",
    )
    sweep.add_argument(
        "--tolerance",
        dest="tolerance_percent",
        metavar="PERCENT",
        type=percent,
        default=2.0,
        help="loss that the second answer allows (default %(default)g)",
    )
    _add_course(sweep)


_TRY = """\
Alternates a configuration with the present one, in random order, and prints what it does to each
network function, cache class and socket: better, worse, same (or more, less), with sizes and
intervals. At the end the present configuration is restored, and nothing is kept. The configuration
is a profile (as for cat import) or masks and limits of a class (as for cat set). Every value, the
order, the duration and what ends it are shown first.

exit codes: as of cat sweep

examples:
  sudo nftop cat try quiet.toml --against now --rounds 6
  sudo nftop cat try --group tenant --mba 0=50 --watch vpp
  sudo nftop cat try --io --l3 0=600 --watch vpp
  sudo nftop sst try --cpus 4,6
"""


def _fill_try(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="PROFILE",
        type=file_name,
        nargs="?",
        default=None,
        help="a profile; - is standard input",
    )
    parser.add_argument(
        "--profile",
        choices=("toml", "pqos"),
        default=None,
        help="its format (default: by file name or content, or toml)",
    )
    parser.add_argument(
        "--group", metavar="G", default=None, help="without a profile: the class to set"
    )
    parser.add_argument(
        "--io",
        dest="of_io",
        action="store_true",
        help="without a profile: the ways of I/O, as --l3 has them",
    )
    _add_masks(parser)
    add_trial(parser)


def add_trial(parser: argparse.ArgumentParser) -> None:
    """Options of a trial: rounds, what is watched and measured, limits on harm."""
    parser.add_argument(
        "--against",
        choices=("now",),
        default="now",
        help="what it is compared with (default: %(default)s)",
    )
    _add_watch(parser)
    parser.add_argument(
        "--rounds",
        metavar="N",
        type=whole_number(3, 50),
        default=6,
        help="rounds, each with both once (default %(default)s)",
    )
    _add_course(parser)


def _add_watch(sweep: argparse.ArgumentParser) -> None:
    sweep.add_argument(
        "--watch",
        metavar="NF,...",
        type=nf_names,
        default=(),
        help="network functions by name (default: all; of a sweep: all at the class' caches)",
    )


def _add_course(sweep: argparse.ArgumentParser) -> None:
    sweep.add_argument(
        "--measure",
        dest="measure_s",
        metavar="S",
        type=seconds,
        default=20.0,
        help="seconds measured at a setting (default %(default)g)",
    )
    _add_harm_limits(sweep)
    sweep.add_argument(
        "--seed",
        metavar="N",
        type=whole_number(0, 1 << 31),
        default=None,
        help="of the random order (default: another each time)",
    )
    sweep.add_argument(
        "--json",
        action="store_true",
        help="the result as one JSON object, schema nftop.experiment/1",
    )
    sweep.add_argument(
        "-o",
        dest="output",
        metavar="FILE",
        type=file_name,
        default=None,
        help="record it into a new file: nftop replay shows the curve growing (key T)",
    )
    _add_start(sweep)


_FOOTPRINT = """\
How much last-level cache each network function (NF) fills, typically and at most, and the memory
traffic that it causes: a table to plan classes by. Today: with today's masks, beside everything
that runs. With --own also in ways of its own, one NF after the other: its class gets the most ways
that no other NF has, and classes without an NF the least number of ways meanwhile. NFs that are not
alone in their class get a monitoring group for that time, within the free monitors (RMIDs).
Everything is shown first, and restored at the end.

exit codes: 0 measured, and all is as before; 1 ended early, and all is as before; 2 usage; 5 not
all is as before (nftop recover); 130 Ctrl-C, and all is as before
"""


def _fill_footprint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--watch",
        metavar="NF,...",
        type=nf_names,
        default=(),
        help="network functions by name (default: all)",
    )
    parser.add_argument(
        "--own", action="store_true", help="also in ways of its own, one after the other"
    )
    parser.add_argument(
        "--no-monitors",
        dest="monitors",
        action="store_false",
        help="make no monitoring groups: only what is counted already",
    )
    parser.add_argument(
        "--measure",
        dest="measure_s",
        metavar="S",
        type=seconds,
        default=30.0,
        help="seconds measured each time (default %(default)g)",
    )
    _add_harm_limits(parser)
    parser.add_argument(
        "-o",
        dest="output",
        metavar="FILE",
        type=file_name,
        default=None,
        help="also a recording of it, with the table in its markers",
    )
    parser.add_argument(
        "--json", action="store_true", help="the table as one JSON object, schema nftop.footprint/1"
    )
    _add_start(parser)


def _add_start(parser: argparse.ArgumentParser) -> None:
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--yes", action="store_true", help="start without asking")
    choice.add_argument("--dry-run", action="store_true", help="only show what it would do")


def _add_harm_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--most-drops",
        metavar="N",
        type=amount,
        default=None,
        help="drops per second of all watched, above which it ends at once (default: the "
        "baseline's and 5 %% of the offered packets)",
    )
    parser.add_argument(
        "--most-cpp",
        dest="most_cpp_percent",
        metavar="PERCENT",
        type=percent,
        default=25.0,
        help="increase of cycles per packet, above which it ends at once (default %(default)g)",
    )


def _add_group(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--group",
        metavar="G",
        required=True,
        help="the class: its directory; default: the root group",
    )
    add_confirmation(parser)


def add_confirmation(parser: argparse.ArgumentParser) -> None:
    """Options of confirmation: none, preview only, and the time limit to keep."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--yes", action="store_true", help="apply and keep it, without asking")
    choice.add_argument("--dry-run", action="store_true", help="only show the change")
    parser.add_argument(
        "--keep-within",
        dest="keep_within_s",
        metavar="S",
        type=seconds,
        default=KEEP_WITHIN_S,
        help="seconds until it is reverted unless it is kept (default %(default)g)",
    )


def _add_masks(parser: argparse.ArgumentParser) -> None:
    for option, line in MASKS.items():
        parser.add_argument(
            f"--{option}",
            metavar="ID=MASK",
            action="append",
            type=domain_value(16),
            default=[],
            help=f"ways in {line} ID, hexadecimal, such as 0=3f0; may be repeated",
        )
    parser.add_argument(
        "--mba",
        metavar="ID=N",
        action="append",
        type=domain_value(10),
        default=[],
        help="limit on memory bandwidth of L3 ID, in resctrl's unit (per cent), or unlimited",
    )


def _add_cpus(parser: Any) -> None:
    parser.add_argument(
        "--cpus", metavar="LIST", type=cpu_list, default=(), help="such as 2-7,66-71"
    )


def _add_monitor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--monitor", metavar="M", default=None, help="a monitoring group of that class (nftop.NAME)"
    )
