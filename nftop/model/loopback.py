"""Loopback addresses."""

from __future__ import annotations

from typing import NamedTuple

PORT = 9739  # beside pcm-sensor-server's 9738
_TUNNEL = (
    "nftop has no password, so it listens on loopback only (127.0.0.1, [::1], localhost): from "
    "elsewhere reach it by a tunnel (ssh -L {port}:127.0.0.1:{port} HOST) or let a proxy that asks "
    "who is there pass /metrics on"
)


class Loopback(NamedTuple):
    """Where to listen: `host` is a numeric address without brackets."""

    host: str
    port: int

    @property
    def shown(self) -> str:
        """ADDRESS:PORT as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_loopback(text: str) -> Loopback:
    """Parse `127.0.0.1:9739`, `[::1]:9739` or `localhost:9739`; without a port, the default."""
    host, port = _split_port(text)
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 1 << 16):
        raise ValueError(f"{text!r} is not ADDRESS:PORT, as in 127.0.0.1:{PORT}")
    number = int(port)
    if not is_loopback(host):
        raise ValueError(f"{host or 'every address'}: {_TUNNEL.format(port=number or PORT)}")
    bare = "127.0.0.1" if host.lower() == "localhost" else host.strip("[]")
    return Loopback(bare, number)


def _split_port(text: str) -> tuple[str, str]:
    """Address and port of `ADDRESS:PORT`; the default port if there is none."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text, str(PORT)
    return host, port


def is_loopback(host: str) -> bool:
    """Whether it is `localhost`, in 127/8, or `[::1]`."""
    import ipaddress  # noqa: PLC0415 - `--help` has the default address only

    bracketed = host.startswith("[") and host.endswith("]")
    try:
        address = ipaddress.ip_address(host[1:-1] if bracketed else host)
    except ValueError:
        return host.lower() == "localhost"
    return address.is_loopback and bracketed == (address.version == 6)
