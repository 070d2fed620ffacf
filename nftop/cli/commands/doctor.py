"""`nftop doctor`: what every source can see here, and how to see more."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from nftop.cli.compose.hosts import open_requested
from nftop.control.journal import FileJournal
from nftop.control.journal_status import check
from nftop.derive.threads import ThreadState, step_threads
from nftop.export.json.encode import json_bytes, picked
from nftop.export.output import OK, USAGE, fail, put
from nftop.model.check import Check
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.nf.kinds import NF_KINDS, NF_WORKERS
from nftop.model.sample import SourceReading, ThreadTable
from nftop.model.topology import Host, Topology
from nftop.render.base.text import ascii_only as in_ascii
from nftop.render.base.text import locale_is_utf8
from nftop.render.pages.doctor import counts, doctor_lines, next_step
from nftop.sources.base import Source
from nftop.sources.tuning.inputs import Poller

SCHEMA = "nftop.doctor/1"
_ROOT = Path("/")
_UNWRAPPED = 1 << 16
# Two readings detect a polling thread without a known name, a third its share of time. Times of
# threads on a nohz_full CPU are updated once a second.
_SCANS = 3
_BETWEEN_S, _BETWEEN_NOHZ_FULL_S = 0.6, 1.1
_CAVEATS = {
    "SIMULATED": "nothing below is of this machine, except nftop itself",
    "REMOTE": "what is below is of a server; self and changes are of this machine",
    "LAB": "the kernel's interfaces to CPUs are emulated; processes, sockets and devices are this "
    "machine's",
}


def examine(sources: Sequence[Source]) -> tuple[Check, ...]:
    """The checks of every source; a failure of one is a check as well."""
    checks: list[Check] = []
    for source in sources:
        try:
            checks.extend(source.check())
        except Exception as error:  # noqa: BLE001 - the boundary: no source may stop another
            checks.append(Check(source.name, Reason.ERROR, f"{type(error).__name__}: {error}"))
    return tuple(checks)


def pollers(
    read: Callable[[], ThreadTable | Missing],
    topology: Topology,
    pause: Callable[[float], None] = time.sleep,
) -> tuple[Poller, ...]:
    """Threads that poll on this host, from several readings of source `processes`."""
    late = frozenset(info.cpu for info in topology.cpus if info.nohz_full)
    state = ThreadState()
    for scan in range(_SCANS):
        if scan:
            pause(_BETWEEN_NOHZ_FULL_S if late else _BETWEEN_S)
        now_ns = time.monotonic_ns()
        state, _ = step_threads(state, SourceReading(read(), now_ns, 0), late)
    return tuple(
        Poller(
            cpu=rate.thread.last_cpu if rate.cpu is None else rate.cpu,
            pinned=rate.cpu is not None,
            pid=rate.thread.pid,
            tid=rate.thread.tid,
            program=rate.thread.program,
            kind=NF_KINDS.get(rate.thread.role, ""),
        )
        for rate in state.rates
        if rate.thread.role in NF_WORKERS or rate.polls
    )


def report_text(checks: Sequence[Check], host: Host, width: int, *, ascii_only: bool) -> str:
    """Summary, what to do first, and the checks, wrapped to `width` cells."""
    text = "\n".join(item.text.rstrip() for item in doctor_lines(checks, caveat_of(host), width))
    return in_ascii(text) if ascii_only else text


def caveat_of(host: Host) -> str:
    """What the report of a host with a badge is about; "": the host itself."""
    return f"{host.badge}: {_CAVEATS[host.badge]}" if host.badge else ""


def report_json(checks: Sequence[Check], host: Host) -> str:
    """One JSON object: schema, simulated, lab, remote, counts, first, checks.

    `counts`: checks by `work`, `to_tune`, `fail`, `absent`. `first`: the name of the check to mend
    first, and its fix, or null. A check has name, state, text, why, fix; the last two may be
    null. A state is `ok`, `tune` for a setting that differs from the advised one, or the word of a
    reason.
    """
    first = next_step(checks)
    return json_bytes(
        {
            "schema": SCHEMA,
            "simulated": host.simulated,
            "lab": host.lab,
            "remote": host.remote or None,
            "counts": {word.replace(" ", "_"): count for word, count in counts(checks).items()},
            "first": None if first is None else {"name": first.name, "fix": first.fix or None},
            "checks": [
                {
                    **picked(check, "name state text"),
                    "why": check.why or None,
                    "fix": check.fix or None,
                }
                for check in checks
            ],
        }
    ).decode()


def doctor(options: argparse.Namespace) -> int:
    """`nftop doctor`: what every source can see, and how to see more."""
    try:
        checks, host = examine_host(options)
    except ValueError as error:
        return fail(str(error), USAGE)
    if options.json or options.form == "json":
        put(sys.stdout, report_json(checks, host) + "\n")
        return OK
    # A pipe has no width: a check stays on one line.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _UNWRAPPED
    plain = options.ascii or not locale_is_utf8(os.environ)
    put(sys.stdout, report_text(checks, host, width, ascii_only=plain) + "\n")
    return OK


def examine_host(options: argparse.Namespace) -> tuple[tuple[Check, ...], Host]:
    """All checks of the host of a command line, by sources opened for them alone.

    Takes a second or more. Raises ValueError: a wrong option.
    """
    here = open_requested(options)
    try:
        checks = (*examine(here.sources), *here.checks)
        if options.scenario is None:
            checks = (*checks, check(FileJournal()))
        if options.scenario is None and options.pcm is None:
            checks = (*checks, *_host_checks(here.topology, options.quiet_cpus))
    finally:
        for source in here.sources:
            source.close()
    return checks, here.host


def _host_checks(topology: Topology, quiet_cpus: Sequence[Cpu]) -> tuple[Check, ...]:
    """Checks of this host's settings for polling threads, without interrupting `quiet_cpus`."""
    from nftop.sources.process.source import ProcessSource  # noqa: PLC0415
    from nftop.sources.tuning.checks import host_checks  # noqa: PLC0415

    processes = ProcessSource(_ROOT, threads_per_read=None)
    try:
        polling = pollers(processes.read, topology)
        return host_checks(_ROOT, topology, polling, frozenset(quiet_cpus))
    finally:
        processes.close()
