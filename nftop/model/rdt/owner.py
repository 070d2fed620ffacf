"""Who made a resctrl group, as far as its name tells: programs that manage groups name them alike.

A name is a hint and no proof: anybody may use it, and an owner not known here is not shown.
"""

from __future__ import annotations

import re

NFTOP = "nftop"
# What nftop's own groups begin with.
OWN_PREFIX = "nftop."

# Owner, and what its groups are called. Sources: libpqos (names seen of pqos 4.3: classes COS1 to
# COSn, monitors pqos-PID-n); libvirt, src/util/virresctrl.c (MACHINE-vcpus_LIST, the machine being
# qemu-ID-NAME); goresctrl and CRI Resource Manager, pkg/rdt (the prefixes they are set up with);
# runc (a container's id where the configuration names no class); Intel PCM, src/resctrl.h (a
# monitor for each CPU, pcmN).
_NAMES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (NFTOP, re.compile(re.escape(OWN_PREFIX) + r".+")),
    ("pqos", re.compile(r"COS[1-9][0-9]*|pqos-[0-9]+-[0-9]+")),
    ("libvirt", re.compile(r"(qemu|lxc|ch)-[0-9]+-.+-vcpus_[0-9,^-]+")),
    ("PCM", re.compile(r"pcm[0-9]+")),
    ("Kubernetes", re.compile(r"(goresctrl|cri-resmgr)\..+|[0-9a-f]{64}")),
)


def owner_of(name: str) -> str | None:
    """Who a group of this name is likely to belong to; None where the name does not tell."""
    return next((owner for owner, names in _NAMES if names.fullmatch(name)), None)
