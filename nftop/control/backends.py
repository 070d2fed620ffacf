"""Which part of the host an identity is of, and opening it: a guard is told no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from nftop.control.backend import AbsentError, AnyPart
from nftop.control.cpufreq.cpufreq import CPUFREQ, open_cpufreq
from nftop.control.pqos import MSR_IDENTITY, open_pqos
from nftop.control.resctrl.backend import Host
from nftop.control.resctrl.resctrl import open_resctrl
from nftop.control.speed_select.backend import ISST, open_isst
from nftop.model.reading import Missing, Reason
from nftop.sources.resctrl.files import find_mount

CLASSES = ""
# By the second word of an identity; what has none of these is resctrl's.
_OPEN: Mapping[str, Callable[[Path], AnyPart]] = MappingProxyType(
    {
        MSR_IDENTITY: lambda _: open_pqos(writing=True),
        CPUFREQ: lambda _: open_cpufreq(),
        ISST: lambda folder: open_isst(folder=folder),
    }
)
_OTHERS = frozenset({CPUFREQ, ISST})


def part_of(identity: str) -> str:
    """The name of the part that it is of; `CLASSES` for resctrl's and the MSRs'."""
    word = _word(identity)
    return word if word in _OTHERS else CLASSES


def open_part(identity: str, folder: Path) -> AnyPart:
    """The part, to be changed; `folder` is the journal's. Raises AbsentError."""
    opener = _OPEN.get(_word(identity))
    return open_resctrl() if opener is None else opener(folder)


def _word(identity: str) -> str:
    return [*identity.split(), "", ""][1]


def open_classes(root: Path = Path("/")) -> Host:
    """The host. Raises AbsentError, which says why neither is to be had."""
    mount = find_mount(root)
    if not isinstance(mount, Missing) or mount.reason is not Reason.HARDWARE:
        return open_resctrl(root)
    try:
        return open_pqos(root)
    except AbsentError as error:
        raise AbsentError(f"{mount.message}; through MSRs: {error}") from None
