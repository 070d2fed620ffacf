"""The registry of backends. A new one is a row of its own module, listed here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import get_args

from nftop.control.backend import CLASSES, AbsentError, AnyBackend, BackendRow
from nftop.control.cpufreq import cpufreq
from nftop.control.pqos import MSR_IDENTITY, open_pqos
from nftop.control.resctrl.backend import ClassBackend
from nftop.control.resctrl.writer import open_resctrl
from nftop.control.speed_select import backend as speed_select
from nftop.model.change import ClassAction
from nftop.sources.pqos.source import offered


def open_classes(root: Path = Path("/")) -> ClassBackend:
    """resctrl, or the MSRs where only these have the CPU's classes. Raises AbsentError."""
    if not offered(root):
        return open_resctrl(root)
    try:
        return open_pqos(root)
    except AbsentError as error:
        raise AbsentError(f"this kernel has no resctrl; through MSRs: {error}") from None


def _open_classes_for_guard(word: str, _folder: Path) -> ClassBackend:
    return open_pqos(writing=True) if word == MSR_IDENTITY else open_resctrl()


BACKENDS: Mapping[str, BackendRow] = MappingProxyType(
    {
        row.key: row
        for row in (
            BackendRow(CLASSES, get_args(ClassAction), open_classes, _open_classes_for_guard),
            cpufreq.ROW,
            speed_select.ROW,
        )
    }
)


def key_of(identity: str) -> str:
    """Key of the backend that an identity is of. Raises AbsentError if this nftop has none such.

    The second word is the backend's key; that of cache classes is a device number or `msr`.
    """
    word = _word(identity)
    if word in BACKENDS:
        return word
    if word == MSR_IDENTITY or word[0].isdigit():
        return CLASSES
    raise AbsentError(f"this nftop changes nothing that is called {word!r}")


def open_backend(identity: str, folder: Path) -> AnyBackend:
    """The backend of an identity, to be changed; `folder` is the journal's. Raises AbsentError."""
    return BACKENDS[key_of(identity)].open_for_guard(_word(identity), folder)


def _word(identity: str) -> str:
    return [*identity.split(), "", ""][1]
