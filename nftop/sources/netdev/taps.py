"""Whose taps are: a program that opened /dev/net/tun is named by its descriptor's fdinfo.

Source: tun_chr_show_fdinfo in the kernel's drivers/net/tun.c ("iff:" and the interface's name).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from nftop.sources.host.sysfs import read_up_to
from nftop.sources.process.scan import is_nf

_TUN = Path("/dev/net/tun")
_INTERFACE = re.compile(rb"^iff:\t(.+)$", re.MULTILINE)
_COMM_BYTES = 64
_FDINFO_BYTES = 4096


def owners(proc: Path, wanted: Collection[str]) -> Mapping[str, int]:
    """The pid of the network function that holds each of these interfaces; others are absent.

    A network function makes taps as mirrors of ports that it counts itself; what one is, its
    threads' names tell. Looks at all threads, and at every descriptor of such programs, so not at
    every tick. What may not be looked into is passed over.
    """
    found: dict[str, int] = {}
    for entry in sorted(_folder(proc), key=len):
        if entry.isdecimal() and is_nf(_comms(proc / entry)):
            for name in _taps(proc / entry):
                if name in wanted:
                    found.setdefault(name, int(entry))
    return found


def _comms(process: Path) -> list[str]:
    """The names of its threads."""
    comms = []
    for tid in _folder(process / "task"):
        try:
            comm = read_up_to(f"{process}/task/{tid}/comm", _COMM_BYTES)
        except OSError:
            continue
        comms.append(comm.decode("utf-8", "replace").rstrip("\n"))
    return comms


def _taps(process: Path) -> list[str]:
    names = []
    for handle in _folder(process / "fd"):
        try:
            if (process / "fd" / handle).readlink() != _TUN:
                continue
            info = read_up_to(f"{process}/fdinfo/{handle}", _FDINFO_BYTES)
        except OSError:
            continue
        names += [hit.decode("utf-8", "replace") for hit in _INTERFACE.findall(info)]
    return names


def _folder(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries]
    except OSError:
        return []
