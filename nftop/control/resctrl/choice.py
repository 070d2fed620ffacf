"""Which classes a host has to be changed: resctrl's, or those of the MSRs where it has none."""

from __future__ import annotations

from pathlib import Path

from nftop.control.backend import AbsentError
from nftop.control.pqos import open_pqos
from nftop.control.resctrl.backend import Host
from nftop.control.resctrl.resctrl import open_resctrl
from nftop.model.reading import Missing, Reason
from nftop.sources.resctrl.files import find_mount


def open_classes(root: Path = Path("/")) -> Host:
    """The host. Raises AbsentError, which says why neither is to be had."""
    mount = find_mount(root)
    if not isinstance(mount, Missing) or mount.reason is not Reason.HARDWARE:
        return open_resctrl(root)
    try:
        return open_pqos(root)
    except AbsentError as error:
        raise AbsentError(f"{mount.message}; through MSRs: {error}") from None
