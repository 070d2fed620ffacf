"""`nftop doctor`: what can be seen on this host, why not the rest, and the fix."""

from __future__ import annotations

from collections.abc import Sequence

from nftop.export.encode import json_bytes
from nftop.model.reading import Reason
from nftop.model.topology import Host
from nftop.render.text import printable
from nftop.sources.base import Check, Source

SCHEMA = "nftop.doctor/1"
_CAVEATS = {
    "SIMULATED": "nothing below is of this machine, but for nftop itself",
    "REMOTE": "a server told what is below; self and changes are of this machine, not of that one",
    "LAB": "the kernel's interfaces are emulated; processes and sockets are this machine's",
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


def report_text(checks: Sequence[Check], host: Host) -> str:
    """One line per check, and a line with the fix under each that needs one."""
    width = max(len(printable(check.name)) for check in checks)
    lines = [f"{host.badge}: {_CAVEATS[host.badge]}"] if host.badge else []
    for check in checks:
        mark = "ok" if check.reason is Reason.PRESENT else check.reason.key
        lines.append(f"{printable(check.name):<{width}}  {mark:<10}  {printable(check.text)}")
        if check.fix:
            lines.append(f"{'':<{width}}  {'':<10}  fix: {printable(check.fix)}")
    return "\n".join(lines)


def report_json(checks: Sequence[Check], host: Host) -> str:
    """One JSON object: schema, simulated, lab, remote, checks: name, state, text, fix or null."""
    return json_bytes(
        {
            "schema": SCHEMA,
            "simulated": host.simulated,
            "lab": host.lab,
            "remote": host.remote or None,
            "checks": [
                {
                    "name": check.name,
                    "state": check.reason.key,
                    "text": check.text,
                    "fix": check.fix or None,
                }
                for check in checks
            ],
        }
    ).decode()
