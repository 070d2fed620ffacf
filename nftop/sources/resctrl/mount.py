"""Where resctrl is mounted, or why it is not. nftop never mounts it: that would change the host."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from nftop.model.rdt.rdt import MbaUnit
from nftop.model.reading import Missing, Reason
from nftop.sources.host.sysfs import read_up_to
from nftop.sources.host.topology import read_cpuid
from nftop.sources.resctrl.files import reason
from nftop.sources.resctrl.parse import parse_mounts

USUAL = "/sys/fs/resctrl"
FIX = f"mount -t resctrl resctrl {USUAL}"
NOT_MOUNTED = "resctrl is not mounted, and nftop never mounts it by itself"
_NOT_MOUNTED = Missing(Reason.SOURCE, f"{NOT_MOUNTED}: {FIX}")
# The kernel registers the file system only where it found something of RDT or its like.
_NO_RESCTRL = Missing(
    Reason.HARDWARE,
    "this kernel has no resctrl: this CPU has no cache allocation or monitoring, or it is off",
)
_MOUNTS_BYTES = 1 << 22  # a container host has thousands of mounts


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted resctrl. `path` is where it can be read, `shown` what the operator calls it."""

    path: str
    shown: str
    options: frozenset[str]


def find_mount(root: Path) -> Mount | Missing:
    """The mount that /proc/mounts lists first; SOURCE where there is none, with the fix."""
    path = os.fspath(root / "proc/mounts")
    try:
        found = parse_mounts(read_up_to(path, _MOUNTS_BYTES).decode("utf-8", "surrogateescape"))
    except OSError as error:
        return reason(path, error)
    if found is None:
        return _NOT_MOUNTED if _offered(root) else _NO_RESCTRL
    shown, options = found
    return Mount(os.fspath(root / shown.lstrip("/")), shown, options)


def mba_unit(mount: Mount, root: Path) -> MbaUnit:
    """The unit of limits on bandwidth; reads /proc/cpuinfo."""
    return mba_unit_of(mount, read_cpuid(root))


def mba_unit_of(mount: Mount, cpuid: tuple[str, int, int, int] | None) -> MbaUnit:
    """The unit of limits on bandwidth: AMD's hardware takes eighths of GB/s, Intel's per cent.

    `cpuid`: as `read_cpuid` returns it.
    """
    if "mba_MBps" in mount.options:
        return "MBps"
    return "GBps/8" if cpuid is not None and cpuid[0] == "AuthenticAMD" else "percent"


def _offered(root: Path) -> bool:
    try:
        data = read_up_to(os.fspath(root / "proc/filesystems"), _MOUNTS_BYTES)
    except OSError:
        return True  # unknown; the fix then tells
    return b"resctrl" in data.split()
