"""The process behind a socket: whether it still runs, and where its threads are bound.

A segment outlives its VPP and can be read for ever: only this tells that nobody fills it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nftop.model.ids import Cpu
from nftop.sources.process.scan import GONE
from nftop.sources.process.threads import ThreadFiles, parse_stat

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
    """What /proc says of it; None where it has ended. OSError where that can't be told now."""
    try:
        data = (proc / str(pid) / "stat").read_bytes()
        found = parse_stat(data)
    except (*GONE, ValueError):
        return None
    if found.dead:
        return None
    state = data.rpartition(b") ")[2][:1]
    name = found.comm[:_NAME_LIMIT]
    return Life(found.start_ticks, name, found.cpu_ticks, state in {b"T", b"t"})


def program(life: Life) -> str:
    """What it is called: VPP names its main thread, and with it the process, `vpp_main`."""
    return life.comm.removesuffix("_main") or life.comm


def cpus(pid: int, proc: Path) -> Mapping[int, Cpu]:
    """The CPU of each thread that is bound to a single one, by VPP's index: 0 is the main one."""
    found: dict[int, Cpu] = {}
    folder = proc / str(pid) / "task"
    try:
        tids = [entry.name for entry in folder.iterdir() if entry.name.isdecimal()]
    except OSError:
        return found
    for tid in tids:
        files = ThreadFiles(f"{folder}/{tid}", keep=False)
        try:
            index = _index(files.stat().comm, is_first=tid == str(pid))
            allowed = files.status().allowed if index is not None else ()
        except (*GONE, PermissionError, ValueError):
            continue
        if index is not None and len(allowed) == 1:
            found[index] = allowed[0]
    return found


def _index(comm: str, *, is_first: bool) -> int | None:
    """VPP's index of a thread by its name; None of one that forwards nothing."""
    if is_first and _MAIN.fullmatch(comm):
        return 0
    hit = _WORKER.fullmatch(comm)
    return None if hit is None else int(hit[1]) + 1
