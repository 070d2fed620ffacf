"""What differs between kernels, from `profiles/*.toml`."""

from __future__ import annotations

import errno
import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "profiles"
_COMMON = "common"


@dataclass(frozen=True, slots=True)
class Profile:
    """One kernel's resctrl.

    Attributes:
        kernel: its version, `6.1`.
        text: what it says in last_cmd_status, by key of `profiles/common.toml`.
        cbm_format, mb_format: of numbers in schemata.
        files: what is in a folder of info, by the resource's name without CODE or DATA.
        mount_options: those it knows.
        clears_status: operations that forget the last status first.
        task_lists: whether `tasks` takes several ids, divided by commas.
        mkdir_in_info: the errno of mkdir inside info.
        moves_groups: whether rename(2) moves monitoring groups.
        rmid_first: whether mkdir takes an RMID before a class.
        limbo_always: whether an RMID that is given back waits for the next check in any case.
        mbps_rounded: whether MBps are rounded as percentages are.
        mbps_event: whether a group chooses the event that its MBps are measured by.
        clusters: whether it meters sub-NUMA clusters one by one.
        io_alloc: whether it knows io_alloc.
    """

    kernel: str
    text: Mapping[str, str]
    cbm_format: str
    mb_format: str
    files: Mapping[str, tuple[str, ...]]
    mount_options: frozenset[str]
    clears_status: frozenset[str]
    task_lists: bool
    mkdir_in_info: int
    moves_groups: bool
    rmid_first: bool
    limbo_always: bool
    mbps_rounded: bool
    mbps_event: bool
    clusters: bool
    io_alloc: bool


def kernels() -> tuple[str, ...]:
    """The kernels that there is a profile of, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml") if path.stem != _COMMON))


@functools.cache
def load(kernel: str) -> Profile:
    """The profile of a kernel; ValueError if there is none."""
    if kernel not in kernels():
        raise ValueError(f"no profile of Linux {kernel}; there are {', '.join(kernels())}")
    raw, common = _read(kernel), _read(_COMMON)
    behaviour = raw["behaviour"]
    return Profile(
        kernel=kernel,
        text={**common["text"], **raw.get("text", {})},
        cbm_format=raw["format"]["cbm"],
        mb_format=raw["format"]["mb"],
        files={name: tuple(files) for name, files in raw["files"].items()},
        mount_options=frozenset(behaviour.pop("mount_options")),
        clears_status=frozenset(behaviour.pop("clears_status")),
        mkdir_in_info=getattr(errno, behaviour.pop("mkdir_in_info")),
        **behaviour,
    )


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
