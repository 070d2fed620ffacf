"""`nftop doctor`: what can be seen on this host, why not the rest, and the fix."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from nftop.derive.threads import ThreadState, step_threads
from nftop.export.json.encode import json_bytes
from nftop.model.nf.kinds import NF_KINDS, NF_WORKERS
from nftop.model.reading import Missing, Reason
from nftop.model.sample import SourceReading, ThreadTable
from nftop.model.topology import Host, Topology
from nftop.render.base.text import printable
from nftop.sources.base import Check, Source
from nftop.sources.tuning.look import Poller

SCHEMA = "nftop.doctor/1"
# Two looks find a thread that polls without the name of one, a third tells how much of the time.
# Times of threads on a nohz_full CPU are up to date but once a second.
_LOOKS = 3
_BETWEEN_S, _BETWEEN_NOHZ_FULL_S = 0.6, 1.1
_CAVEATS = {
    "SIMULATED": "nothing below is of this machine, but for nftop itself",
    "REMOTE": "a server told what is below; self and changes are of this machine, not of that one",
    "LAB": "the kernel's interfaces to CPUs are emulated; processes, sockets and devices are this "
    "machine's",
}


def examine(sources: Sequence[Source]) -> tuple[Check, ...]:
    """Ask every source. One that fails is itself a finding."""
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
    """Who polls here, by some looks at the threads of source `processes`."""
    late = frozenset(info.cpu for info in topology.cpus if info.nohz_full)
    state = ThreadState()
    for look in range(_LOOKS):
        if look:
            pause(_BETWEEN_NOHZ_FULL_S if late else _BETWEEN_S)
        now_ns = time.monotonic_ns()
        state, _ = step_threads(state, SourceReading(read(), now_ns, 0), late)
    return tuple(
        Poller(
            cpu=rate.thread.last_cpu if rate.cpu is None else rate.cpu,
            pinned=rate.cpu is not None,
            pid=rate.thread.pid,
            program=rate.thread.program,
            kind=NF_KINDS.get(rate.thread.role, ""),
        )
        for rate in state.rates
        if rate.thread.role in NF_WORKERS or rate.polls
    )


def report_text(checks: Sequence[Check], host: Host) -> str:
    """One line per check, under it why it matters, and the fix where it needs one."""
    width = max(len(printable(check.name)) for check in checks)
    lines = [f"{host.badge}: {_CAVEATS[host.badge]}"] if host.badge else []
    for check in checks:
        lines.append(
            f"{printable(check.name):<{width}}  {check.state:<10}  {printable(check.text)}"
        )
        if check.why:
            lines.append(f"{'':<{width}}  {'':<10}  why: {printable(check.why)}")
        if check.fix:
            lines.append(f"{'':<{width}}  {'':<10}  fix: {printable(check.fix)}")
    return "\n".join(lines)


def report_json(checks: Sequence[Check], host: Host) -> str:
    """One JSON object: schema, simulated, lab, remote, checks: name, state, text, why, fix.

    Of a check `why` and `fix` may be null. A state is `ok`, `tune` where it is not set as `why` has
    it, or the word of a reason.
    """
    return json_bytes(
        {
            "schema": SCHEMA,
            "simulated": host.simulated,
            "lab": host.lab,
            "remote": host.remote or None,
            "checks": [
                {
                    "name": check.name,
                    "state": check.state,
                    "text": check.text,
                    "why": check.why or None,
                    "fix": check.fix or None,
                }
                for check in checks
            ],
        }
    ).decode()
