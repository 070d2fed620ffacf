"""Source `vpp`: every VPP on the host, through its stats segment.

VPP makes `stats.sock` in its runtime directory (/run/vpp by default, /run/user/<uid>/vpp if root
has not started it), or as its `statseg` section says. /proc/net/unix has the path in any case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from nftop.model.check import Check
from nftop.model.ids import format_cpu_list
from nftop.model.missing import Reason
from nftop.model.nf.vpp import VppInstance, VppTable
from nftop.model.number_text import counted
from nftop.model.owner import rank, suffix
from nftop.sources.nf_session.discovery import SocketSearch, UnixSocket, sockets_of
from nftop.sources.nf_session.source import NfSource
from nftop.sources.vpp import reader
from nftop.sources.vpp.reader import SegmentReader
from nftop.sources.vpp.session import SegmentLink, VppSession

_FOLDERS = re.compile("vpp.*")
_NAME = "stats.sock"
# VPP joins sections of one name.
_NO_NODES_FIX = "echo 'statseg { per-node-counters on }' | sudo tee -a /etc/vpp/startup.conf"


class StatsSearch(SocketSearch):
    """Stats sockets. A location is the path of a socket."""

    application = "a VPP"
    label = "VPP"
    sockets = "stats sockets"
    # Flags __SO_ACCEPTCON, type SOCK_SEQPACKET. Other programs may name a socket stats-something,
    # so names other than VPP's own count only in a folder or with a name that has vpp in it.
    listening = re.compile(
        rb"^\S+ \S+ \S+ 00010000 0005 \S+ +\d+ "
        rb"(/(?:[^\n/]*/)*stats\.sock|(?=[^\n]*vpp)/[^\n]*stat[^\n/]*\.sock)$",
        re.MULTILINE,
    )

    def usual(self, root: Path, *, own: bool) -> Iterable[Path]:
        del own  # nftop's environment names no folder of VPP
        runs = [root / "run"]
        runs += [root / "run" / "user" / user.name for user in self.scan(root / "run" / "user")]
        return [
            run / entry.name / _NAME
            for run in runs
            for entry in self.scan(run)
            if _FOLDERS.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        ]

    def sockets_at(self, location: Path, on_closed: Callable[[str], None]) -> Iterable[UnixSocket]:
        return sockets_of(location, on_closed)


class VppSource(NfSource[SegmentLink, VppInstance]):
    """Reads all VPPs within `deadline_s`, each segment in a process of its own.

    A reading costs VPP nothing: it is of memory that VPP shares, handed out once by its main
    thread.
    """

    name = "vpp"
    absent = "no VPP with a stats socket is running"
    check_deadline_s = 20.0  # a process is started and imports vpp-papi
    search = StatsSearch
    read_by: Callable[[int], SegmentReader] = staticmethod(SegmentReader)

    def _session(self, socket: UnixSocket) -> VppSession:
        return VppSession(socket, self._proc, self._clock, self.read_by)

    def read(self) -> VppTable:
        """Every VPP; one that could not be read has a `problem`."""
        return VppTable(*self._poll(self._deadline_s))

    def _order(self, sample: VppInstance) -> tuple[int, str, int, str]:
        return rank(sample.owner), sample.socket, sample.pid, ""

    def _check_one(self, sample: VppInstance) -> Check:
        name = f"vpp {Path(sample.socket).parent.name}"
        subject = f"{sample.name} (pid {sample.pid or 'unknown'}{suffix(sample.owner)})"
        if sample.problem is not None:
            fix = reader.INSTALL if reader.unfit(reader.installed()) is not None else ""
            return Check(name, sample.problem.reason, f"{subject}: {sample.problem.message}", fix)
        bound = [thread.cpu for thread in sample.threads if thread.cpu is not None]
        where = f"on CPU {format_cpu_list(sorted(bound))}" if bound else "not bound to single CPUs"
        unbound = len(sample.threads) - len(bound)
        if bound and unbound:
            where += f" and {unbound} not bound"
        threads = counted(len(sample.threads), "thread")
        nodes = "counted" if sample.nodes is not None else "not counted (restart after the fix)"
        interfaces = counted(len(sample.interfaces.names), "interface")
        text = f"{subject}: {threads} {where}, {interfaces}, graph nodes {nodes}"
        return Check(name, Reason.PRESENT, text, "" if sample.nodes is not None else _NO_NODES_FIX)
