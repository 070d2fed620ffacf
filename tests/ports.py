"""TCP ports for programs that can't be told to bind port 0."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A free port of 127.0.0.1, below the range that the kernel assigns ports from.

    A port of that range, free when checked, may be another connection's when it is bound.
    """
    least = int(_RANGE.read_text().split()[0])
    while True:
        port = least // 2 + secrets.randbelow(least // 2)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
