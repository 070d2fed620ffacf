"""What to say of a server besides its numbers: what it holds, and whose it is."""

from __future__ import annotations

from pathlib import Path

from nftop.model.owner import Owner, suffix
from nftop.model.pcm import PcmTable
from nftop.model.pcm_places import ANOTHERS, places
from nftop.model.reading import Missing, Reason
from nftop.sources.base import Check
from nftop.sources.host.sysfs import SysTree
from nftop.sources.host.topology import read_topology
from nftop.sources.pcm.client import Address

HOLDS_RDT = (
    "the server uses RDT monitors of its own, so that fewer are left for cache classes; "
    "PCM_NO_RDT=1 in its environment keeps it off them"
)
_COUNTERS = (
    "it programs the counters of cores and of the uncore, so nftop's own are judged by how long "
    "they were on the hardware"
)
_OPEN = (
    "it is asked over the network, unencrypted and without a password: better through "
    "ssh -L 9738:127.0.0.1:9738 and --pcm http://127.0.0.1:9738"
)
_NOT_HERE = (
    "no pcm-sensor-server runs on this host that nftop can see: if a tunnel ends here, these are "
    "another host's numbers (nftop --pcm is for those)"
)
# The kernel keeps 15 characters of a process' name.
_SERVER = "pcm-sensor-serv"


def pcm_processes(root: Path) -> tuple[tuple[int, str], ...]:
    """Programs of Intel PCM that run here: pid and name."""
    tree = SysTree(root / "proc")
    pids = sorted(int(name) for name in tree.names("") if name.isdecimal())
    names = ((pid, tree.text(f"{pid}/comm") or "") for pid in pids)
    return tuple((pid, name) for pid, name in names if name == "pcm" or name.startswith("pcm-"))


def notes(address: Address, root: Path | None) -> tuple[str, ...]:
    """What an operator should know of this server before he trusts it."""
    if root is None:
        return () if address.here else (_OPEN,)
    return () if any(name == _SERVER for _, name in pcm_processes(root)) else (_NOT_HERE,)


def report(
    address: Address, root: Path | None, value: PcmTable | Missing, owner: Owner | None = None
) -> tuple[Check, ...]:
    """Doctor's lines."""
    if isinstance(value, Missing):
        fix = ""
        if value.reason is Reason.SOURCE:
            fix = "for power, temperatures and C-states: PCM_NO_RDT=1 pcm-sensor-server"
        lines = [Check("pcm", value.reason, value.message, fix)]
    else:
        form = "totals since its start" if value.since_start else "its last second"
        text = (
            f"{address.shown}{suffix(owner)} tells {form} of {len(value.sockets)} packages, "
            f"{len(value.cpus)} CPUs, {len(value.links)} links"
        )
        lines = [Check("pcm", Reason.PRESENT, text)]
        if root is not None and places(value, read_topology(root))[0] is None:
            lines = [Check("pcm", ANOTHERS.reason, f"{text}; {ANOTHERS.message}")]
        lines += [_noted(note) for note in value.notes]
    if root is not None:
        lines += [
            Check("pcm counters", Reason.TAKEN, f"{name} (pid {pid}) runs here: {_COUNTERS}")
            for pid, name in pcm_processes(root)
        ]
    return tuple(lines)


def _noted(note: str) -> Check:
    if note == HOLDS_RDT:
        return Check("pcm", Reason.TAKEN, note, "PCM_NO_RDT=1 pcm-sensor-server")
    return Check("pcm", Reason.SOURCE, note)
