"""What a lab needs of the machine it runs on."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from pathlib import Path

from tests.lab import namespace
from tests.lab.calls import seccomp

_SYS_ADMIN = 1 << 21  # linux/capability.h


def missing() -> str:
    """Why no lab can be run here, and what would help; "" if one can."""
    if namespace.LAB.exists():
        return "this is inside a lab, and there is no other in it"
    if seccomp.unsupported():
        return seccomp.unsupported()
    if os.geteuid() != 0 or not _capabilities() & _SYS_ADMIN:
        return "it mounts, in a namespace of its own: run it as root, with CAP_SYS_ADMIN"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "there is no /dev/fuse: modprobe fuse, or give the container that device"
    if importlib.util.find_spec("mfusepy") is None:
        return "mfusepy is missing: pip install mfusepy"
    if shutil.which("fusermount3") is None:
        return "fuse3 is missing: apt-get install fuse3"
    return ""


def _capabilities() -> int:
    """The effective ones of this process, a bit each."""
    result = re.search(r"^CapEff:\s*(\w+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(result[1], 16) if result else 0
