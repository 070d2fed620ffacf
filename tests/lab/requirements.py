"""What a lab needs of the machine it runs on."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil


def missing() -> str:
    """Why no lab can be run here, and what would help; "" if one can."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return f"it answers the system calls of Linux on x86_64; this is {platform.machine()}"
    if os.geteuid() != 0:
        return "it mounts, in a namespace of its own: run it as root"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "there is no /dev/fuse: modprobe fuse, or give the container that device"
    if importlib.util.find_spec("mfusepy") is None:
        return "mfusepy is missing: pip install mfusepy"
    if shutil.which("fusermount3") is None:
        return "fuse3 is missing: apt-get install fuse3"
    return ""
