"""What each command does: the one place that puts sources, session and screen together."""

from __future__ import annotations

import argparse
import io
import os
import shutil
import signal
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from nftop import cat_parser
from nftop.control.checks import check
from nftop.control.journal import Journal
from nftop.derive.step import State
from nftop.leaving import handling, leaving_when_told
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.queue_map import QueueMap
from nftop.model.reading import Missing
from nftop.model.topology import Host, Topology
from nftop.output import OutputError, put
from nftop.render.text import printable
from nftop.session.live import Live
from nftop.sources.affinity import Affinity
from nftop.sources.base import Check, Source
from nftop.sources.dpdk.source import DpdkSource
from nftop.sources.host import TopologySource
from nftop.sources.kernel import KernelSource
from nftop.sources.own import OwnSource
from nftop.sources.pcm.client import PORT, Address, parse_url
from nftop.sources.pcm.source import PcmSource
from nftop.sources.pcm.topology import PcmTopologySource, topology_of
from nftop.sources.perf.source import PerfSource
from nftop.sources.processes import ProcessSource
from nftop.sources.pyperf.choice import choose
from nftop.sources.resctrl.register import UARCHS as WITH_IO_REGISTER
from nftop.sources.resctrl.source import ResctrlSource
from nftop.sources.topology import read_cpuid, read_host, read_topology
from nftop.sources.uncore.source import UncoreSource
from nftop.uarch.table import GENERIC, Uarch, identify, load, names

OK, FAILURE, USAGE = 0, 1, 2
_ROOT = Path("/")
_MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class OpenHost:
    """Every source nftop has for a host, and the topology it started with.

    `on_pollers` is told where that host's pollers are, for nftop to keep off them; `checks` are
    doctor's of what is no source here.
    """

    host: Host
    topology: Topology
    sources: tuple[Source, ...]
    uarch: Uarch
    on_pollers: Callable[[Collection[int], Topology], None]
    checks: tuple[Check, ...] = ()

    def feed(
        self,
        *,
        interval_s: float,
        cpus: tuple[Cpu, ...] | None = None,
        queue_map: QueueMap | None = None,
        soon_s: float | None = None,
    ) -> Live:
        """Its frames, live; nftop moves off the cores that poll. Arguments as `Live` has them."""
        self.on_pollers((), self.topology)
        return Live(
            self.sources,
            State(self.host, self.topology, self.uarch, queue_map or {}),
            interval_s,
            on_pollers=self.on_pollers,
            cpus=cpus,
            soon_s=soon_s,
        )


def open_host(
    cpus: tuple[Cpu, ...] | None = None,
    quiet_cpus: tuple[Cpu, ...] = (),
    *,
    tma_level: int = 2,
    pmu: str = "auto",
) -> OpenHost:
    """Build the sources of this host; nothing is read or opened beyond the topology.

    No counter is opened on `quiet_cpus`, nor outside the cores of `cpus` where they are given.
    `pmu` is who counts: one of `choice.WAYS`.

    Raises:
        ValueError: `cpus` or `quiet_cpus` names a CPU that is not here.
    """
    topology = read_topology(_ROOT)
    uarch = _uarch(topology)
    # Packages are shown whole, whatever CPUs are: only a CPU to be left alone leaves one out.
    uncore = UncoreSource(uarch, root=_ROOT, quiet_cpus=quiet_cpus)
    not_counted = _not_counted(topology, cpus, quiet_cpus)
    own_groups = PerfSource(
        root=_ROOT,
        uarch=uarch,
        quiet_cpus=not_counted,
        turns=tma_level > 1,
        threads_of=lambda cpu: topology.with_siblings((cpu,)),
    )
    choice = choose(pmu, own_groups, uarch, root=_ROOT, quiet_cpus=not_counted)
    perf = choice.source
    affinity = Affinity()
    host = read_host(_ROOT, uarch.name)
    resctrl = ResctrlSource(
        _ROOT,
        topology,
        quiet_cpus=quiet_cpus,
        # In the lab the register is the machine's that the lab runs on.
        io_register=uarch.name in WITH_IO_REGISTER and not host.lab,
        affinity=affinity,
    )
    own = OwnSource((perf, uncore, resctrl), affinity)
    sources = (
        perf,
        uncore,
        KernelSource(_ROOT),
        ProcessSource(_ROOT),
        DpdkSource(),
        resctrl,
        PcmSource(Address("127.0.0.1", PORT), root=_ROOT),
        TopologySource(_ROOT),
        own,
    )

    def on_pollers(pollers: Collection[int], here: Topology) -> None:
        own.keep_off(pollers, here)
        uncore.on_pollers(pollers)

    return OpenHost(host, topology, sources, uarch, on_pollers, choice.checks)


def _uarch(topology: Topology) -> Uarch:
    """The table of this host's CPUs, with the counter groups for its hyper-threading."""
    cpuid = read_cpuid(_ROOT)
    name = GENERIC if cpuid is None else identify(*cpuid)
    return load(name).with_smt(on=any(info.siblings for info in topology.cpus))


def open_demo(options: argparse.Namespace) -> OpenHost:
    """The simulated host; nftop's own cost is real, and its affinity stays as it is.

    Raises:
        ValueError: no such scenario, or a CPU that the host doesn't or can't have.
    """
    from nftop.sources.simulated import simulated_host  # noqa: PLC0415 - only for the demo

    demo = simulated_host(
        options.scenario,
        options.cpus,
        not_counted=lambda topology: _not_counted(topology, options.cpu_list, options.quiet_cpus),
        turns=options.tma_level > 1,
    )
    topology = demo.model.layout.topology
    sources: tuple[Source, ...] = (*demo.sources, OwnSource((), Affinity()))
    return OpenHost(demo.host, topology, sources, demo.uarch, lambda _pollers, _topology: None)


def open_remote(options: argparse.Namespace) -> OpenHost:
    """The host of the sensor server at `options.pcm`, as far as that tells of it.

    Raises:
        ValueError: that is no such URL, or a CPU is named that the host doesn't have.
        ConnectionError: the server does not answer; the text says how.
    """
    try:
        address = parse_url(options.pcm)
    except ValueError as error:
        raise ValueError(f"--pcm {printable(options.pcm)}: {error}") from None
    server = PcmSource(address)
    first = server.read()
    if isinstance(first, Missing):
        raise ConnectionError(first.sentence)
    topology = topology_of(first)
    _not_counted(topology, options.cpu_list, options.quiet_cpus)
    own = OwnSource((), Affinity())
    host = Host(address.shown, "unknown CPU", GENERIC, remote=options.pcm)
    sources = (server, PcmTopologySource(server), own)
    return OpenHost(host, topology, sources, load(GENERIC), lambda _pollers, _topology: None)


def _open(options: argparse.Namespace) -> OpenHost:
    if options.scenario is not None:
        return open_demo(options)
    if options.pcm is not None:
        return open_remote(options)
    return open_host(
        options.cpu_list,
        options.quiet_cpus,
        tma_level=options.tma_level,
        pmu=options.pmu,
    )


def _not_counted(
    topology: Topology, cpus: tuple[Cpu, ...] | None, quiet_cpus: tuple[Cpu, ...]
) -> frozenset[int]:
    """CPUs without hardware counters; ValueError if one is named that the host doesn't have.

    Of the cores of `cpus` every thread is counted: top-down is of a core.
    """
    for wanted in (cpus or (), quiet_cpus):
        unknown = [cpu for cpu in wanted if cpu not in topology.row_of]
        if unknown:
            raise ValueError(f"this host has no CPU {format_cpu_list(unknown)}")
    hidden = topology.row_of.keys() - topology.with_siblings(cpus) if cpus else frozenset()
    return frozenset({*quiet_cpus, *hidden})


def live(options: argparse.Namespace) -> int:
    """The default command: the screen, or frames on standard output where there is no screen."""
    try:
        here = _open(options)
    except ValueError as error:
        return _fail(str(error), USAGE)
    batch = options.batch or options.form != "text" or options.count is not None
    if not batch and not _has_screen():
        _say("nftop: no terminal here, so frames as text (--batch)")
        batch = True
    feed = here.feed(
        interval_s=options.interval_s,
        cpus=options.cpu_list,
        queue_map=options.queue_map,
        # Somebody who looks at the screen should not wait a long interval for the first numbers.
        soon_s=None if batch else 1.0,
    )
    return _batch(feed, options) if batch else _screen(feed, options)


def doctor(options: argparse.Namespace) -> int:
    """What every source sees here, and the fix for what it does not."""
    from nftop.doctor import examine, report_json, report_text  # noqa: PLC0415 - only here

    try:
        here = _open(options)
    except ValueError as error:
        return _fail(str(error), USAGE)
    try:
        checks = (*examine(here.sources), *here.checks)
        if options.scenario is None:
            checks = (*checks, check(Journal()))
    finally:
        for source in here.sources:
            source.close()
    report = report_json if options.json or options.form == "json" else report_text
    put(sys.stdout, report(checks, here.host) + "\n")
    return OK


def explain(options: argparse.Namespace) -> int:
    """What one metric means, or all of them."""
    from nftop.render.explain import (  # noqa: PLC0415 - only here
        explain_metric,
        known_metrics,
        metrics_called,
    )

    tables = _explained(options)
    if tables is None:
        there = ", ".join(each for each in names() if each != GENERIC)
        wrong = printable(options.uarch)
        return _fail(f"no table for {wrong!r}; there is {there}, and all", USAGE)
    if options.all:
        said = (explain_metric(name, tables) for name in known_metrics())
        put(sys.stdout, "\n\n".join(said) + "\n")
        return OK
    if options.metric is None:
        put(sys.stdout, "\n".join(known_metrics()) + "\n")
        return OK
    called = metrics_called(options.metric)
    if not called:
        _say("known: " + " ".join(known_metrics()))
        return _fail(f"no metric is called {options.metric!r}", USAGE)
    put(sys.stdout, "\n\n".join(explain_metric(name, tables) for name in called) + "\n")
    return OK


def _explained(options: argparse.Namespace) -> tuple[Uarch, ...] | None:
    """The tables whose formulas are asked for: this host's unless told; None: there is no such."""
    known = [each for each in names() if each != GENERIC]
    if options.uarch is None:
        if options.scenario is not None:
            return (load(open_demo(options).host.uarch),)
        cpuid = read_cpuid(_ROOT)
        return () if cpuid is None else (load(identify(*cpuid)),)
    wanted = options.uarch.upper()
    if wanted == "ALL":
        return tuple(load(each) for each in known)
    return (load(wanted),) if wanted in known else None


def tma(options: argparse.Namespace) -> int:
    """Top-down of the counts in a file, or the command that counts them."""
    from nftop.render.topdown import what_to_count  # noqa: PLC0415 - only here

    name = options.uarch.upper()
    tables = [each for each in names() if each != GENERIC]
    if name not in tables:
        known = ", ".join(tables)
        return _fail(f"no top-down for {printable(options.uarch)!r}; there is {known}", USAGE)
    uarch = load(name)
    if uarch.topdown is None:
        return _fail(f"nftop has no top-down of {name}", USAGE)
    if options.file is None and not options.events:
        return _fail("FILE is missing; --events prints the perf command that makes it", USAGE)
    if options.events:
        put(sys.stdout, what_to_count(uarch, smt=options.smt == "on") + "\n")
        return OK
    return _tma_of_file(uarch, options)


def _tma_of_file(uarch: Uarch, options: argparse.Namespace) -> int:
    from nftop.derive.tma import tma_of_counts  # noqa: PLC0415 - only here
    from nftop.export.tma import tma_json  # noqa: PLC0415
    from nftop.render.topdown import report  # noqa: PLC0415
    from nftop.sources.counts.read import read_counts  # noqa: PLC0415
    from nftop.sources.counts.rows import BadCountsError  # noqa: PLC0415

    smt = options.smt == "on"
    shown = "standard input" if options.file == "-" else printable(options.file)
    try:
        counts = read_counts(_read_text(options.file), uarch)
    except OSError as error:
        return _fail(f"{shown}: {error.strerror or error}", FAILURE)
    except BadCountsError as error:
        return _fail(f"{shown}: {printable(str(error))}", FAILURE)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    ratios = tma_of_counts(uarch, counts.events, smt=smt)
    notes = counts.notes
    topdown = uarch.topdown
    if options.smt is None and topdown and topdown.terms_smt_on != topdown.terms_smt_off:
        notes = (*notes, "hyper-threading is taken to be off, since --smt does not say")
    if options.json or options.form == "json":
        text = tma_json(uarch.name, ratios, smt=smt, notes=notes, ignored=counts.unknown)
    else:
        text = report(uarch, ratios, smt=smt, origin=counts.form.value, notes=notes)
    put(sys.stdout, text + "\n")
    return OK


def _read_text(file: str) -> str:
    """A file's text, or standard input's; OSError where it can't be read or is far too long."""
    if file == "-":
        if sys.stdin is None:
            raise OSError("it is closed")
        read = sys.stdin.buffer.read(_MAX_BYTES + 1)
    else:
        with Path(file).open("rb") as opened:
            read = opened.read(_MAX_BYTES + 1)
    if len(read) > _MAX_BYTES:
        raise OSError(f"longer than {_MAX_BYTES >> 20} MiB, which no counts are")
    return read.decode("utf-8", "replace")


def changing(options: argparse.Namespace) -> int:
    """`cat`, `undo`, `history` or `recover`."""
    from nftop import cat  # noqa: PLC0415 - what changes the host is imported for nothing else

    deeds = {"cat": cat.cat, "undo": cat.undo, "history": cat.history, "recover": cat.recovery}
    return deeds[options.command](options)


COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = MappingProxyType(
    {"live": live, "doctor": doctor, "explain": explain, "tma": tma}
    | dict.fromkeys(cat_parser.NAMES, changing)
)


def _batch(feed: Live, options: argparse.Namespace) -> int:
    from nftop.export.batch import run_batch  # noqa: PLC0415 - only here

    if isinstance(sys.stdout, io.TextIOWrapper) and options.form != "text":
        sys.stdout.reconfigure(encoding="utf-8")  # whatever the locale: JSON is UTF-8
    ended: list[int] = []

    def end(number: int) -> None:
        ended.append(number)
        feed.stop()

    with handling((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), end):
        try:
            width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
            run_batch(feed, sys.stdout, form=options.form, count=options.count, width=width)
        except OutputError:
            raise  # `cli` says it
        except Exception as error:  # noqa: BLE001 - the boundary: a sentence, not a traceback
            return _fail(f"nftop's own fault: {type(error).__name__}: {error}", FAILURE)
    return 128 + ended[0] if ended else OK


def _screen(feed: Live, options: argparse.Namespace) -> int:
    from nftop.store.history import History  # noqa: PLC0415 - only here
    from nftop.ui.app import NftopApp  # noqa: PLC0415 - Textual is half of the start-up time
    from nftop.ui.options import options_from  # noqa: PLC0415

    # Textual draws on standard error; `nftop 2>log` must not draw into the log, and libraries that
    # write to it not on the screen. What can't be encoded is escaped there, and so it is here.
    if isinstance(sys.__stdout__, io.TextIOWrapper):
        sys.__stdout__.reconfigure(errors="backslashreplace")
    sys.__stderr__ = sys.__stdout__  # type: ignore[misc]
    drawn = options_from(os.environ, color=options.color, ascii_only=options.ascii)
    app = NftopApp(feed, History(), options=drawn)
    with leaving_when_told(app.leave, sys.stdin.fileno()):
        app.run()
    return app.return_code or OK


def _has_screen() -> bool:
    streams = (sys.stdin, sys.stdout)  # None where nftop was started with it closed
    here = all(stream is not None and stream.isatty() for stream in streams)
    return here and os.environ.get("TERM", "dumb") != "dumb"


def _fail(sentence: str, code: int) -> int:
    _say(f"nftop: {sentence}")
    return code


def _say(line: str) -> None:
    if sys.stderr is not None:  # `print` would take standard output in its place
        print(line, file=sys.stderr)
