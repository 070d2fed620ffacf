"""What the virtual machine is called that a process runs.

systemd-machined and libvirt name the control group after it; QEMU started by hand has it in
its arguments (`-name vm1` or `-name guest=vm1,...`; qemu(1)).
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from nftop.sources.host.sysfs import read_up_to

# As libvirt's virSystemdMakeScopeName escapes it: `machine-qemu\x2d3\x2dvm1.scope`.
_SCOPE = re.compile(r"/machine-qemu\\x2d\d+\\x2d([^/\n]+)\.scope")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
_LIMIT_BYTES = 1 << 16
_MOST_LETTERS = 64


def vm_name(process: Path) -> str:
    """The name (untrusted text) of what the process at /proc/PID runs; "" where nothing tells.

    Arguments are read where the group does not tell, since for that the kernel takes a lock of the
    process: ask once.
    """
    scope = _SCOPE.search(_text(process / "cgroup"))
    if scope is not None:
        plain = _ESCAPED.sub(lambda hit: chr(int(hit[1], 16)), scope[1])
        return plain[:_MOST_LETTERS]
    arguments = _text(process / "cmdline").split("\0")
    for option, value in pairwise(arguments):
        if option in ("-name", "--name"):
            return _of_option(value)[:_MOST_LETTERS]
    return ""


def _of_option(value: str) -> str:
    """`vm1`, `vm1,debug-threads=on`, `guest=vm1,...`; a comma of the name's own is doubled."""
    fields = value.replace(",,", "\0").split(",")
    named = next((field for field in fields if field.startswith("guest=")), fields[0])
    return named.removeprefix("guest=").replace("\0", ",")


def _text(path: Path) -> str:
    try:
        return read_up_to(str(path), _LIMIT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
