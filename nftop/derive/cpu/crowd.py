"""Who else never sleeps on a CPU on which a network function polls."""

from __future__ import annotations

from nftop.derive.cpu.table import Occupant
from nftop.model.nf.kinds import NF_KINDS


def others(who: Occupant) -> tuple[str, ...]:
    """Each in words (untrusted text), but for the thread of the function that `who.nf` names.

    Threads of network functions poll. Of any other program only the kernel's times are known, so
    that it spins is all that can be said. One that two sources tell of is one.
    """
    known = {(nf.pid, core.thread): f"{_of(nf.pid)}{nf.name} polls" for nf, core in who.cores}
    mine = list(known.values())[1:]
    strangers = list(who.strangers)
    if not who.cores:
        first = next((item for item in strangers if item.thread.role in NF_KINDS), None)
        strangers = [item for item in strangers if item is not first]
    for stranger in strangers:
        does = "polls" if stranger.thread.role in NF_KINDS else "spins"
        mine.append(f"{_of(stranger.thread.pid)}{stranger.thread.label} {does}")
    return tuple(mine)


def _of(pid: int) -> str:
    return f"pid {pid} " if pid else ""
