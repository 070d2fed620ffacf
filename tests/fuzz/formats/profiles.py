"""Profiles of cache classes: nftop's TOML, and files and command lines of pqos."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from nftop.control.profile.formats import WRITERS, parse
from nftop.control.profile.profile import mended
from nftop.control.profile.validate import export_profile, fit
from nftop.control.rdt_limits import Rules
from nftop.control.resctrl.plan import propose
from nftop.model.change import State
from tests.control.test_crash import furnished

_DATA = Path(__file__).parents[2] / "data/profiles"
WORDS = (
    b"alloc-class-set:", b"alloc-assoc-set:", b"llc:", b"l2:", b"mba:", b"mba_max:", b"llc@0,1:",
    b"1=0xf", b"2c=0xf0", b"2d=0xf", b"pid:1=100", b"core:1=0-3", b"cos:1=", b"pqos -e ",
    b"sudo pqos", b"-a ", b"--alloc-class=", b"# nftop: COS 1 is group vpp", b"reset-cat",
    b"[[class]]", b"group = ", b'schema = "nftop.profile/1"', b"l3 = ", b"l3code = ",
    b"mba_percent = ", b"cpus = ", b"{ 0 = ", b'"vpp"', b'"nftop.x"', b'"/"', b"'", b'"', b"\\",
    b";", b",", b"1lc:", b"\xd9\xa3", b"0-99999999",
)  # fmt: skip


@cache
def _host() -> tuple[State, Rules]:
    host = furnished("7.2")
    return host.state(), replace(host.rules(), tasks=host.tasks(["/", "vpp", "nftop.old"], []))


def seeds() -> list[bytes]:
    own = export_profile(*_host())
    return [
        *(path.read_bytes() for path in sorted(_DATA.iterdir())),
        *(write(own).encode() for write in WRITERS.values()),
        b"alloc-class-set: llc:1=0x30,2c=f0;mba:1=50\nalloc-assoc-set: llc:1=2-5,8;pid:2=100,101\n",
        b"sudo ./pqos -e \"llc@0:1=0xf;llc@1:1=0xff\" -a 'llc:1=1,3'\n",
        (
            b'schema = "nftop.profile/1"\n[[class]]\ngroup = "nftop.a"\nl3 = { 0 = "3f0", 1 = "ff" }\n'
            b'mba_percent = 50\ncpus = "2-7"\n'
        ),
    ]


def play(data: bytes) -> None:
    """Parsed as both formats, fitted to a host, mended, planned; nothing of it raises."""
    text = data.decode("utf-8", "replace")
    state, rules = _host()
    for name in ("a.toml", "a.cfg", "a"):
        listing = parse(name, text)
        fitted = fit(listing, state, rules)
        assert not fitted.actions or not any(problem.fatal for problem in fitted.problems)
        mended(text, fitted.problems)
        proposal = propose(state, rules, fitted.actions)
        if not proposal.refusals:
            assert {change.cell for change in proposal.changes} <= {*state, *proposal.base} | {
                change.cell for change in proposal.changes if change.old is None
            }
