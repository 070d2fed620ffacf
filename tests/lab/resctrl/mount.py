"""Mounting resctrl."""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection

from tests.lab.resctrl import ledger, rmids
from tests.lab.resctrl.hardware import Hardware
from tests.lab.resctrl.ledger import Host
from tests.lab.resctrl.processes import Processes
from tests.lab.resctrl.profile import Profile
from tests.lab.resctrl.state import (
    ROOT_CLOSID,
    ROOT_RMID,
    Group,
    Resctrl,
    Schema,
    default,
    rmid_count,
)
from tests.lab.tree import failed


def mount(
    hardware: Hardware,
    profile: Profile,
    processes: Processes,
    host: Host,
    now_ns: Callable[[], int],
    options: Collection[str] = (),
) -> Resctrl:
    """A freshly mounted resctrl: one group has everything.

    Raises:
        OSError: EINVAL for an option that the kernel or the hardware does not have, ENODEV where
            the host has nothing of resctrl.
    """
    known = {"cdp": hardware.allocation is not None and hardware.allocation.cdp}
    known["mba_MBps"] = hardware.bandwidth is not None and "mbm_local_bytes" in _events(hardware)
    known["debug"] = True
    if not all(option in profile.mount_options and known[option] for option in options):
        raise failed(errno.EINVAL)
    schemas = _schemas(hardware, cdp="cdp" in options)
    if not schemas and hardware.monitoring is None:
        raise failed(errno.ENODEV)
    monitored = hardware.monitoring is not None
    root = Group("", 0, ROOT_CLOSID, ROOT_RMID if monitored else None, cpus=set(hardware.online))
    state = Resctrl(
        hardware=hardware,
        profile=profile,
        processes=processes,
        now_ns=now_ns,
        options=frozenset(options),
        schemas=schemas,
        root=root,
        ledger=ledger.start(hardware, host, now_ns()) if monitored else None,
        pool=rmids.pool(rmid_count(hardware)) if monitored else None,
        threshold_bytes=_first_threshold_bytes(hardware),
    )
    root.values = {
        schema.name: dict.fromkeys(hardware.domains, default(state, schema)) for schema in schemas
    }
    return state


def _first_threshold_bytes(hardware: Hardware) -> int:
    """What an RMID may hold and yet be free: an even share of a cache, in whole steps.

    A lab of few CPUs has little cache and all the RMIDs, whose share may be less than a step. On
    hardware it never is; nought, from which no RMID comes back, is never the first threshold.
    """
    if hardware.monitoring is None:
        return 0
    scale = hardware.monitoring.scale_bytes
    share = max(hardware.size_bytes.values()) // hardware.monitoring.rmids
    return max(share // scale, 1) * scale


def _schemas(hardware: Hardware, *, cdp: bool) -> tuple[Schema, ...]:
    """The lines of schemata in its order: the kernel puts each new one before the others."""
    lines = []
    if hardware.bandwidth is not None:
        lines.append(Schema("MB", cache=False))
    if hardware.allocation is not None:
        if cdp:
            lines += [Schema("L3DATA", True, "L3CODE"), Schema("L3CODE", True, "L3DATA")]
        else:
            lines.append(Schema("L3", cache=True))
    return tuple(lines)


def _events(hardware: Hardware) -> tuple[str, ...]:
    return hardware.monitoring.events if hardware.monitoring is not None else ()
