"""libpqos through PyPI's pqos and its MSR interface, only in a process that may crash.

Reading changes no class, mask or limit. `get_min_cbm_bits` of the binding is never called: libpqos
finds that value by writing masks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from nftop.sources.pqos.protocol import MsrState

# PyPI's pqos reads structures of libpqos: versions that do not fit return garbage or crash. Tested:
# 4.3 to 4.5 of both fit each other, 5.0 fits 5.0 only, later libraries have no binding.
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)*")
_PATH = re.compile(r"(/\S*/libpqos\.so\.(\d+)\.(\d+)(?:\.\d+)*)$", re.MULTILINE)
# Versions of the binding, from and to, of the library, and the name that the binding loads.
_FITTING = (
    ((4, 3), (4, 5), (4, 3), (4, 5), "libpqos.so.4"),
    ((5, 0), (5, 0), (5, 0), (5, 0), "libpqos.so.5"),
)
INSTALL = "pip install 'pqos>=4.3,<4.6'"


def binding_version() -> tuple[int, int] | None:
    """Version of PyPI's pqos; None if it is not installed."""
    from importlib import metadata  # noqa: PLC0415 - it takes long to import

    try:
        match = _VERSION.match(metadata.version("pqos"))
    except metadata.PackageNotFoundError:
        return None
    return None if match is None else (int(match[1]), int(match[2]))


def unfit(binding: tuple[int, int] | None) -> str:
    """Why the versions do not fit, or one is missing; "" after the library is loaded."""
    if binding is None:
        return f"PyPI's pqos is not installed: {INSTALL}"
    row = next((row for row in _FITTING if row[0] <= binding <= row[1]), None)
    if row is None:
        return f"PyPI's pqos {_text(binding)} fits no libpqos that nftop knows: {INSTALL}"
    _, _, least, most, name = row
    import ctypes  # noqa: PLC0415 - in the process that loads it only

    try:
        ctypes.CDLL(name)  # loads it, and calls nothing in it
    except OSError:
        return (
            f"there is no {name}, which PyPI's pqos {_text(binding)} needs: "
            "apt-get install intel-cmt-cat, or the binding that fits the one there is"
        )
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    return unfit_library(maps, binding, least, most)


def unfit_library(
    maps: str, binding: tuple[int, int], least: tuple[int, int], most: tuple[int, int]
) -> str:
    """Why the library in a text of /proc/PID/maps does not fit; its file name has the version."""
    match = _PATH.search(maps)
    if match is None:
        return "the file name of libpqos has no version, so whether it fits is unknown"
    version = int(match[2]), int(match[3])
    if least <= version <= most:
        return ""
    return (
        f"{match[1]} does not fit PyPI's pqos {_text(binding)}, which takes {_text(least)} to "
        f"{_text(most)}: its structures would be misread"
    )


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


DEVICE = "dev/cpu/0/msr"


class UnusableError(Exception):
    """libpqos can't be used here; the text says why, and what to do."""


class Library:
    """Binding and library, initialized. Raises `pqos.error.PqosError` as the binding does.

    `cpus`: the CPUs of each cache, by the first of them.
    """

    def __init__(self) -> None:
        """Raises UnusableError: libpqos can't be used here."""
        why = unfit(binding_version())
        if why:
            raise UnusableError(why)
        _check_device()
        from pqos import Pqos  # noqa: PLC0415 - an extra, of versions that fit only
        from pqos.allocation import PqosAlloc  # noqa: PLC0415
        from pqos.capability import PqosCap  # noqa: PLC0415
        from pqos.cpuinfo import PqosCpuInfo  # noqa: PLC0415
        from pqos.error import PqosError  # noqa: PLC0415
        from pqos.l3ca import PqosCatL3  # noqa: PLC0415
        from pqos.mba import PqosMba  # noqa: PLC0415
        from pqos.monitoring import PqosMon  # noqa: PLC0415

        self.error: type[Exception] = PqosError
        self._pqos = Pqos()
        try:
            self._pqos.init("MSR", log_file=sys.stderr, verbose="silent")
        except PqosError as error:
            raise UnusableError(f"libpqos has nothing to use on this host: {error}") from None
        self.masks, self.limits, self.classes = PqosCatL3(), PqosMba(), PqosAlloc()
        self.monitors = PqosMon()
        self._caps = PqosCap()
        cpus = PqosCpuInfo()
        infos = [
            cpus.get_core_info(core)
            for socket in cpus.get_sockets()
            for core in cpus.get_cores(socket)
        ]
        self._infos = {int(info.core): info for info in infos}
        by_cache: dict[int, list[int]] = {}
        for info in infos:
            by_cache.setdefault(int(info.l3_id), []).append(int(info.core))
        self.cpus = {min(cores): tuple(sorted(cores)) for cores in by_cache.values()}

    def close(self) -> None:
        self._pqos.fini()

    def read_classes(self, quiet: Collection[int] = ()) -> MsrState:
        """Classes, masks, limits and associations of all but `quiet` CPUs."""
        cat, mba, mon = (self._cap(name) for name in ("l3ca", "mba", "mon"))
        usable = [cache for cache in self.cpus if cache not in quiet]
        rows = {
            cache: self._ordered(self.masks, self.cat_id(cache))
            for cache in usable
            if cat is not None
        }
        limits = {
            cache: tuple(int(row.mb_max) for row in self._ordered(self.limits, self.mba_id(cache)))
            for cache in usable
            if mba is not None
        }
        has_cdp = bool(cat is not None and cat.cdp_on)
        return MsrState(
            cpus=self.cpus,
            class_of={
                core: int(self.classes.assoc_get(core))
                for core in sorted(self._infos)
                if core not in quiet
            },
            ways=0 if cat is None else int(cat.num_ways),
            way_bytes=0 if cat is None else int(cat.way_size),
            contention=0 if cat is None else int(cat.way_contention),
            has_cdp=has_cdp,
            least=0 if mba is None else 100 - int(mba.throttle_max),
            step=0 if mba is None else int(mba.throttle_step),
            rmids=0 if mon is None else int(mon.max_rmid),
            masks={
                cache: tuple(row.data_mask if has_cdp else row.mask for row in classes)
                for cache, classes in rows.items()
            },
            codes={
                cache: tuple(row.code_mask for row in classes)
                for cache, classes in rows.items()
                if has_cdp
            },
            limits=limits,
        )

    def cat_id(self, cache: int) -> int:
        """Number by which libpqos addresses masks of a cache."""
        return int(self._infos[cache].l3cat_id)

    def mba_id(self, cache: int) -> int:
        """Number by which libpqos addresses limits of a cache."""
        return int(self._infos[cache].mba_id)

    def rmids(self, cores: Iterable[int]) -> dict[int, int]:
        return {core: int(self.monitors.assoc_get(core)) for core in cores}

    def _ordered(self, table: Any, number: int) -> list[Any]:
        """Rows of a cache by class."""
        return sorted(table.get(number), key=lambda row: int(row.class_id))

    def _cap(self, kind: str) -> Any | None:
        """A capability; None where this CPU lacks it."""
        try:
            return self._caps.get_type(kind)
        except self.error:
            return None


def _check_device() -> None:
    path = Path("/", DEVICE)
    try:
        with path.open("rb"):
            return
    except FileNotFoundError:
        raise UnusableError(
            "the kernel's module msr is not loaded, or this CPU has none: modprobe msr"
        ) from None
    except PermissionError:
        raise UnusableError("reading MSRs takes root (CAP_SYS_RAWIO)") from None
    except OSError as error:
        raise UnusableError(f"/{DEVICE} can't be read: {error.strerror}") from None
