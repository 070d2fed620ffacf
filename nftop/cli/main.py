"""The command line: options, and the function of each command.

Exit codes: 0 ok, 1 failure, 2 usage, 4 a recording that can't be read, 5 the host is not in the
requested state, 128 + n ended by signal n.

`--help` must be instant: a command's module is imported when it runs.
"""

from __future__ import annotations

import argparse
import errno
import gc
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

from nftop import __version__
from nftop.cli import first_frame
from nftop.cli.parsers import cat, record, sst
from nftop.cli.parsers.common import DEFAULTS, Parser, add_batch, add_sampling
from nftop.cli.parsers.option_types import count_of, file_name, fleet_interval
from nftop.export.output import FAILURE, USAGE, OutputError, before_text, discard_stdout, fail, warn
from nftop.model.error_text import describe_error, exhausted
from nftop.model.nf.queue_map import parse_queue_map

if TYPE_CHECKING:
    from nftop.model.loopback import Loopback

# Commands that print what is made from the parsers.
SHELL_NAMES = ("completion", "man")
# Module and function of each command, in `nftop.cli`; the function returns the exit code.
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        name: f"commands.{name}.{name}"
        for name in (
            "live",
            "serve",
            "fleet",
            "cat",
            "undo",
            "sst",
            "doctor",
            "explain",
            "tma",
            *record.INTERVAL_NAMES,
            *SHELL_NAMES,
        )
    }
    | {"history": "commands.undo.history", "recover": "commands.undo.recovery"}
    | {"config": "config.show", "cat show": "commands.cat_show.cat_show"}
    | {name: f"commands.record.{name}" for name in record.NAMES}
)
# Commands that enable garbage collection themselves, for a screen after Textual is imported.
_IMPORT_MORE = ("live",)
# Commands that work with another host's sensor server.
_BY_SERVER = ("live", "doctor", "serve", "record")
# Commands that run despite an error in the configuration.
_WITHOUT_CONFIG = frozenset({*cat.NAMES, *SHELL_NAMES, "sst", "explain", "tma", "fleet"})
_EPILOG = """\
without a terminal on standard output nftop writes frames as text, as with --batch

keys: ? for help, q to quit

examples:
  sudo nftop                       network functions and their cores, live
  sudo nftop --batch -n 5 --json   five frames as JSON Lines
  nftop demo                       a simulated host; needs no privilege
  nftop doctor                     which sources work here, and how to enable others
  nftop explain cpp                meaning of a metric
  sudo nftop record -o FILE        record; nftop replay FILE plays it back
  ssh HOST sudo nftop record -o - | nftop replay -    another host, live
  nftop fleet --prometheus URL     all hosts of a Prometheus, the worst first
  perf stat -j ... 2>&1 >/dev/null | nftop tma --uarch SPR -    top-down of perf's counts
"""


def run(arguments: Sequence[str]) -> int:
    """Parse and run one command; returns the exit code."""
    before_text.append(first_frame.erase)
    try:
        return _run(arguments)
    except OutputError as error:
        discard_stdout()
        if isinstance(error.cause, BrokenPipeError):  # the reader has closed it
            return 128 + signal.SIGPIPE
        return fail(f"can't write: {error.cause.strerror or error.cause}", FAILURE)
    except Exception as error:
        sentence = describe_error(error) if isinstance(error, OSError) else exhausted(error)
        if not sentence:
            raise
        return fail(sentence, FAILURE)


def _run(arguments: Sequence[str]) -> int:
    parser, options = _parse(arguments)
    if options.pcm is not None and options.command not in _BY_SERVER:
        parser.error(f"--pcm only shows: it does not go with {options.command}")
    try:
        options.queue_map = parse_queue_map(options.queue_map)
    except ValueError as error:
        parser.error(f"--queue-map: {error}")
    if sys.stdout is None:  # started with it closed
        raise OutputError(OSError(errno.EBADF, "standard output is closed"))
    if options.command in SHELL_NAMES:
        options.parser, options.demo_parser = build_parser(), build_parser(demo=True)
    key = "cat show" if cat.shows(options) else options.command
    module, _, name = COMMANDS[key].rpartition(".")
    command = getattr(import_module(f"nftop.cli.{module}"), name)
    if options.command not in _IMPORT_MORE:
        gc.enable()
    code: int = command(options)
    return code


def _parse(arguments: Sequence[str]) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    arguments = record.with_times(arguments)
    begins = arguments[:1] == ["demo"]  # then no option of this host's is before it
    parser = build_parser(demo=begins)
    if begins:
        options, rest = argparse.Namespace(command="demo"), list[str]()
    else:
        options, rest = parser.parse_known_args(arguments)
    from nftop.cli import config  # noqa: PLC0415 - help and errors have ended nftop before

    try:
        settings = config.read_config(config.files(os.environ), check_arguments)
    except config.ConfigError as error:
        reads_hosts = options.command == "fleet" and options.prometheus is not None
        if options.command not in _WITHOUT_CONFIG or reads_hosts:
            raise SystemExit(fail(f"error: {error}", USAGE)) from None
        # Reverting a change must not depend on a typing error.
        warn(f"nftop: the configuration is left out: {error}")
        settings = []
    if options.command == "demo":
        # The rest is a command line of its own, for the simulated host.
        word = arguments.index("demo")
        parser = parser if begins else build_parser(demo=True)
        arguments = [*arguments[:word], *arguments[word + 1 :]]
        settings = [setting for setting in settings if not setting.key.hardware]
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    options = parser.parse_args(
        [*(word for item in settings for word in item.arguments), *arguments]
    )
    ours = sum(len(item.arguments) for item in settings if item.key.name == "queue_map")
    if len(options.queue_map) > ours:  # the command line replaces the file's
        options.queue_map = options.queue_map[ours:]
    options.settings = settings
    return parser, options


class _Strict(argparse.ArgumentParser):
    """Raises ValueError instead of ending nftop."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message.partition(": ")[2] or message)


def check_arguments(arguments: Sequence[str]) -> None:
    """Raises ValueError, with why, if no option takes these arguments of a configuration."""
    parser = _Strict(add_help=False)
    parser.set_defaults(**DEFAULTS)
    add_sampling(parser)
    _add_screen(parser)
    _add_pmu(parser)
    _add_pqos(parser)
    parse_queue_map(parser.parse_args(arguments).queue_map)


def build_parser(*, demo: bool = False) -> argparse.ArgumentParser:
    """Every command and option; with `demo`, those of the simulated host."""
    parser = Parser(
        prog="nftop demo" if demo else "nftop",
        description="A top for hosts that forward packets in software: polling thread, packets "
        "per second, cycles per packet and IPC of each core.",
        epilog=_EPILOG,
    )
    parser.set_defaults(command="live", scenario=None, pcm=None, **DEFAULTS)
    parser.add_argument("--version", action="version", version=f"nftop {__version__}")
    add_sampling(parser)
    _add_screen(parser)
    add_batch(parser)

    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    if demo:
        _add_demo_options(parser)
    else:
        hint = "any command on a simulated host: demo --help"
        commands.add_parser("demo", help=hint, add_help=False).set_defaults(command="demo")
        _add_pmu(parser)
        _add_pqos(parser)
    help_text = "which sources work here, and how to enable others"
    fill = partial(cat.add_json, text="one JSON object")
    cat.add_command(commands, "doctor", help_text, fill=fill)
    help_text = "meaning and source of a metric or finding"
    cat.add_command(commands, "explain", help_text, fill=_fill_explain)
    help_text = "settings of the configuration files"
    cat.add_command(commands, "config", help_text, fill=_fill_config)
    _add_serve(commands)
    _add_fleet(commands)
    cat.add_commands(commands)
    sst.add_commands(commands)
    record.add_record(commands)
    if not demo:
        record.add_replay(commands)
        record.add_interval_commands(commands)
        _add_pcm(parser)
        _add_tma(commands)
        _add_shell(commands)
    return parser


def _fill_explain(explain: argparse.ArgumentParser) -> None:
    explain.add_argument(
        "names", nargs="*", metavar="METRIC", help="such as cpp, busy_ratio or low-ipc"
    )
    explain.add_argument("--all", action="store_true", help="every metric and finding")
    explain.add_argument(
        "--uarch",
        metavar="NAME",
        default=None,
        help="formulas and events of this CPU, such as SKX, or all (default: this host's)",
    )
    explain.add_argument(
        "--references",
        action="store_true",
        help="measurements of papers: all, or those of a METRIC or workload",
    )
    explain.add_argument("--json", action="store_true", help="with --references: JSON Lines")


def _fill_config(shown: argparse.ArgumentParser) -> None:
    shown.add_argument("--show", action="store_true", required=True, help="every key, as TOML")


def _add_screen(parser: argparse.ArgumentParser) -> None:
    screen = parser.add_argument_group("screen")
    screen.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="auto (default) respects NO_COLOR",
    )
    screen.add_argument(
        "--theme",
        choices=("auto", "dark", "light", "ansi"),
        default="auto",
        help="colours: ansi is the terminal's own 16; auto (default) chooses by what the terminal "
        "can show and COLORFGBG",
    )
    screen.add_argument("--ascii", action="store_true", help="draw with ASCII only")
    screen.add_argument(
        "--utc", action="store_true", help="times of day on screen in UTC, not in the local zone"
    )
    screen.add_argument(
        "--rw",
        action="store_true",
        help="allow changes of the host, such as the editor of cache classes (always allowed on "
        "the simulated host)",
    )


def _add_pcm(parser: argparse.ArgumentParser) -> None:
    remote = parser.add_argument_group("sensor server")
    remote.add_argument(
        "--pcm",
        metavar="URL",
        help="show only the host of the pcm-sensor-server at http://HOST:PORT, preferably "
        "through a tunnel (ssh -L 9738:127.0.0.1:9738 HOST). Without this option, a server of "
        "this host at 127.0.0.1:9738 is an additional source",
    )


def _add_pmu(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pmu",
        choices=("auto", "perf", "python-perf"),
        default="auto",
        help="counter backend: perf uses nftop's own counter groups, one read per CPU and frame; "
        "python-perf the kernel's Python module and top-down, one read per event; auto (default) "
        "uses the latter if only the kernel has the CPU's top-down",
    )


def _add_pqos(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pqos",
        choices=("auto", "off", "read", "monitor"),
        default="auto",
        help="without resctrl in the kernel: classes through MSRs, by PyPI's pqos and libpqos. "
        "read writes nothing; monitor also monitors them, which writes RMIDs; auto (default) reads "
        "unless --quiet-cpus are given, on which libpqos runs briefly when it starts",
    )


def _add_tma(commands: cat.Commands) -> None:
    commands.add_parser(
        "tma",
        help="top-down of counts from another program",
        description="The top-down method on counts from another program: perf stat -x or -j "
        "output, or a JSON object of counts by event name of the vendor, perf or nftop. Counts "
        "are sums over all threads of physical cores; --events prints the perf command for them.",
        fill=_fill_tma,
    ).set_defaults(command="tma")


def _fill_tma(tma: argparse.ArgumentParser) -> None:
    tma.add_argument(
        "--uarch", metavar="NAME", required=True, help="the CPU of the counts, such as SKX or SPR"
    )
    tma.add_argument(
        "--smt", choices=("on", "off"), help="whether hyper-threading was on (default off)"
    )
    tma.add_argument("--json", action="store_true", help="one JSON object, schema nftop.tma/1")
    tma.add_argument(
        "--events", action="store_true", help="print the perf command that counts the events"
    )
    tma.add_argument(
        "file", metavar="FILE", type=file_name, nargs="?", help="the counts; - is standard input"
    )


def _add_shell(commands: cat.Commands) -> None:
    cat.add_command(commands, "completion", "completion script of a shell", fill=_fill_completion)
    text = "manual pages: nftop man | man -l -"
    cat.add_command(commands, "man", text, fill=_fill_man)


def _fill_completion(completion: argparse.ArgumentParser) -> None:
    completion.add_argument(
        "shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish"
    )


def _fill_man(man: argparse.ArgumentParser) -> None:
    man.add_argument("page", nargs="?", metavar="COMMAND", help="default: nftop itself")
    man.add_argument("--list", dest="listed", action="store_true", help="only names of all pages")


def _add_serve(commands: cat.Commands) -> None:
    commands.add_parser(
        "serve",
        help="the latest frame for Prometheus, over HTTP on loopback",
        description="The latest frame as OpenMetrics, at http://127.0.0.1:9739/metrics for every "
        "user of this machine. A scrape does not read the host: -d sets the interval of readings, "
        "rates and ratios; it should equal Prometheus' scrape_interval.",
        fill=_fill_serve,
    ).set_defaults(command="serve")


def _fill_serve(serve: argparse.ArgumentParser) -> None:
    from nftop.model.loopback import PORT  # noqa: PLC0415 - only here

    serve.add_argument(
        "--listen",
        metavar="ADDRESS:PORT",
        type=_loopback,
        default=f"127.0.0.1:{PORT}",
        help=f"loopback address (default 127.0.0.1:{PORT}; port 0: any free port)",
    )
    serve.add_argument(
        "--level",
        choices=("nf", "cpu"),
        default="cpu",
        help="nf: hosts, findings, network functions, cache classes and processors only, a sixth "
        "of the samples; cpu (default): every CPU too",
    )
    serve.add_argument(
        "--traffic",
        action="store_true",
        help="also count requests of cores and their register accesses (MMIO): up to twelve reads "
        "and interrupts per frame of the CPU that counts for a package, instead of four",
    )
    record.add_log(serve)


def _add_fleet(commands: cat.Commands) -> None:
    commands.add_parser(
        "fleet",
        help="many hosts: a screen, a dashboard for Grafana, alerts for Prometheus",
        description="Many hosts that run nftop serve. With --prometheus a screen of all of them, "
        "by harm; Enter opens one over ssh. Else files, which are printed: a Grafana dashboard "
        "with a panel for each metric, and Prometheus alerting rules, one for each finding. "
        "Nothing of this host is read.",
        fill=_fill_fleet,
    ).set_defaults(command="fleet")


def _fill_fleet(fleet: argparse.ArgumentParser) -> None:
    fleet.add_argument(
        "output", choices=("dashboard", "alerts"), nargs="?", metavar="dashboard|alerts"
    )
    fleet.add_argument(
        "--job", default="nftop", metavar="NAME", help="job_name of the scrapes (default nftop)"
    )
    fleet.add_argument(
        "--prometheus",
        metavar="URL",
        help="show the hosts of the Prometheus at http://HOST:PORT or https://HOST:PORT",
    )
    fleet.add_argument(
        "--prometheus-token-file",
        metavar="FILE",
        type=file_name,
        dest="token_file",
        help="file with a bearer token for it; sent over https, or to this machine, only",
    )
    fleet.add_argument(
        "-d",
        dest="fleet_interval_s",
        metavar="S",
        type=fleet_interval,
        default=10.0,
        help="seconds between queries (default 10, at least 2)",
    )


def _add_demo_options(parser: argparse.ArgumentParser) -> None:
    simulated = parser.add_argument_group("simulated host")
    simulated.add_argument(
        "--scenario",
        metavar="NAME",
        default="default",
        help="default (one poller shares its CPU), healthy (no finding; on a Gold "
        "its pollers on low-priority cores), noisy (a neighbour starts to stream through the cache "
        "after a minute); or with a finding from second 20 to 40 (slow: from 30 to 90): "
        "apart, burst, channels, collapse, ddio, descriptors, doorbells, frontend, idle, lowcore, "
        "remote, shared, sibling, slow, speculation, upcalls; sst-bf (two kinds of cores)",
    )
    simulated.add_argument(
        "--host",
        dest="simulated_host",
        metavar="NAME",
        default="",
        help="its processors: e5-2699v4 (default), gold-6230n or gold-6252n (SST-BF, MBA and 11 "
        "ways of cache); sst-bf and lowcore have the gold-6230n",
    )
    simulated.add_argument(
        "--host-name",
        metavar="NAME",
        type=_host_name,
        help="its own name, in recordings and exports (default demo)",
    )
    simulated.add_argument(
        "--cpus",
        dest="simulated_cpus",
        metavar="N",
        type=count_of("CPUs"),
        help="number of CPUs, 2 to 512 (default: of two such processors, 88, 80 or 96)",
    )


def _host_name(text: str) -> str:
    from nftop.model.topology import HOST_NAME  # noqa: PLC0415 - numpy comes with it

    if HOST_NAME.fullmatch(text) is None:
        rule = "a name of up to 64 letters, digits and . - _, beginning with none of . -"
        raise argparse.ArgumentTypeError(f"{text!r} is not {rule}")
    return text


def _loopback(text: str) -> Loopback:
    from nftop.model.loopback import parse_loopback  # noqa: PLC0415 - only here

    try:
        return parse_loopback(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
