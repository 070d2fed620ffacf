"""Whether a VPP process runs and updates its segment, and where its threads are bound.

A segment outlives its VPP and stays readable; only /proc and the heartbeat show that nothing
updates it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from nftop.model.ids import Cpu
from nftop.model.reading import Missing, Reason
from nftop.model.struct import dataclass, replace
from nftop.sources.process.scan import GONE
from nftop.sources.process.threads import ThreadFiles, parse_stat

# Even an idle VPP wakes up a few times per second.
LIFELESS_NS = 30_000_000_000
# The operator sets how often VPP updates its segment, so the interval is measured.
_BEATS, _GRACE_NS = 3, 10_000_000_000


@dataclass(frozen=True, slots=True)
class Signs:
    """Values that change while a VPP runs.

    Attributes:
        counted: the sum of its packets. cpu_ticks: its CPU time; 0 where that is not known.
    """

    heartbeat: int
    counted: int
    cpu_ticks: int


@dataclass(frozen=True, slots=True)
class Pulse:
    """When those values last changed.

    Attributes:
        seen: as it was last.
        lived_at_ns: when any of that changed; counted_at_ns: heartbeat or counters.
        beat_at_ns: the heartbeat; None while it has not changed once.
        longest_ns: between two heartbeats; None before the second.
    """

    seen: Signs
    lived_at_ns: int
    counted_at_ns: int
    beat_at_ns: int | None = None
    longest_ns: int | None = None


def felt(before: Pulse | None, now: Signs, at_ns: int) -> Pulse:
    """Fold one observation in."""
    if before is None:
        return Pulse(now, at_ns, at_ns)
    after = replace(before, seen=now)
    if now != before.seen:
        after = replace(after, lived_at_ns=at_ns)
    if (now.heartbeat, now.counted) != (before.seen.heartbeat, before.seen.counted):
        after = replace(after, counted_at_ns=at_ns)
    if now.heartbeat != before.seen.heartbeat:
        if before.beat_at_ns is not None:
            after = replace(
                after, longest_ns=max(before.longest_ns or 0, at_ns - before.beat_at_ns)
            )
        after = replace(after, beat_at_ns=at_ns)
    return after


def why_still(pulse: Pulse, at_ns: int) -> Missing | None:
    """Why its counters are stale; None if they are current."""
    if at_ns - pulse.lived_at_ns > LIFELESS_NS:
        return _still(pulse.lived_at_ns, at_ns, "and has used no CPU time")
    allowed_ns = None if pulse.longest_ns is None else _BEATS * pulse.longest_ns + _GRACE_NS
    if allowed_ns is not None and at_ns - pulse.counted_at_ns > allowed_ns:
        return _still(pulse.counted_at_ns, at_ns, "though it runs")
    return None


def _still(since_ns: int, at_ns: int, how: str) -> Missing:
    seconds = (at_ns - since_ns) // 1_000_000_000
    return Missing(Reason.STALE, f"has not updated its stats segment for {seconds} s, {how}")


# src/vlib/threads.c: `thread-prefix` in VPP's `cpu` section stands for `vpp`.
_MAIN = re.compile(r"(?:.*_)?main")
_WORKER = re.compile(r"(?:.*_)?wk_([0-9]{1,5})")
_NAME_LIMIT = 256


@dataclass(frozen=True, slots=True)
class Life:
    """A process as it is now.

    Attributes:
        start_ticks: clock ticks from boot to its start: with its pid, its identity.
        comm: its name (untrusted text).
        cpu_ticks: CPU time it has used.
        stopped: by a signal or a debugger.
    """

    start_ticks: int
    comm: str
    cpu_ticks: int
    stopped: bool


def look_up(pid: int, proc: Path) -> Life | None:
    """State of a process by /proc; None if it has ended. OSError if /proc can't be read now."""
    try:
        data = (proc / str(pid) / "stat").read_bytes()
        fields = parse_stat(data)
    except (*GONE, ValueError):
        return None
    if fields.dead:
        return None
    state = data.rpartition(b") ")[2][:1]
    name = fields.comm[:_NAME_LIMIT]
    return Life(fields.start_ticks, name, fields.cpu_ticks, state in {b"T", b"t"})


def program(life: Life) -> str:
    """Name of the program: VPP names its main thread, hence the process, `vpp_main`."""
    return life.comm.removesuffix("_main") or life.comm


def cpus(pid: int, proc: Path) -> Mapping[int, Cpu]:
    """The CPU of each thread that is bound to a single one, by VPP's index: 0 is the main one."""
    cpu_of: dict[int, Cpu] = {}
    folder = proc / str(pid) / "task"
    try:
        tids = [entry.name for entry in folder.iterdir() if entry.name.isdecimal()]
    except OSError:
        return cpu_of
    for tid in tids:
        files = ThreadFiles(f"{folder}/{tid}", keep=False)
        try:
            index = _index(files.stat().comm, is_first=tid == str(pid))
            allowed = files.status().allowed if index is not None else ()
        except (*GONE, PermissionError, ValueError):
            continue
        if index is not None and len(allowed) == 1:
            cpu_of[index] = allowed[0]
    return cpu_of


def _index(comm: str, *, is_first: bool) -> int | None:
    """VPP's index of a thread by its name; None if the thread does not forward."""
    if is_first and _MAIN.fullmatch(comm):
        return 0
    hit = _WORKER.fullmatch(comm)
    return None if hit is None else int(hit[1]) + 1
