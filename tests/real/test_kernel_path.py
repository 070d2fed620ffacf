"""nftop beside a kernel that forwards for real: two veth pairs with a router between them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and iproute2"
    ),
]
PACKETS = 20_000
LEFT, ROUTER, RIGHT = (f"nftop-{os.getpid()}-{end}" for end in ("left", "router", "right"))
MACS = {"left0": "02:00:00:00:00:01", "gate1": "02:00:00:00:00:02",
        "gate2": "02:00:00:00:00:03", "right0": "02:00:00:00:00:04"}  # fmt: skip


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=60)


def inside(namespace: str, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["ip", "netns", "exec", namespace, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(namespace: str, command: str) -> None:
    done = inside(namespace, "sh", "-ec", command)
    _, message = done.communicate(timeout=60)
    assert done.returncode == 0, message


@pytest.fixture
def router() -> Iterator[None]:
    """left 10.9.1.1 - 10.9.1.2 router 10.9.2.2 - 10.9.2.1 right; nobody asks who is who."""
    try:
        for name in (LEFT, ROUTER, RIGHT):
            ip("netns", "add", name)
            run(name, "sysctl -qw net.ipv6.conf.all.disable_ipv6=1; ip link set lo up")
        for here, present, far in (("left0", "gate1", LEFT), ("right0", "gate2", RIGHT)):
            ip(
                "-n",
                ROUTER,
                "link",
                "add",
                present,
                "address",
                MACS[present],
                "type",
                "veth",
                "peer",
                "name",
                here,
                "address",
                MACS[here],
                "netns",
                far,
            )
        for end, net, far, gate in ((LEFT, 1, "left0", "gate1"), (RIGHT, 2, "right0", "gate2")):
            run(
                end,
                f"ip addr add 10.9.{net}.1/24 dev {far}; ip link set {far} up;"
                f"ip neigh add 10.9.{net}.2 lladdr {MACS[gate]} dev {far};"
                f"ip route add default via 10.9.{net}.2",
            )
            run(
                ROUTER,
                f"ip addr add 10.9.{net}.2/24 dev {gate}; ip link set {gate} up;"
                f"ip neigh add 10.9.{net}.1 lladdr {MACS[far]} dev {gate}",
            )
        run(ROUTER, "sysctl -qw net.ipv4.ip_forward=1")
        yield
    finally:
        for name in (LEFT, ROUTER, RIGHT):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


SEND = f"""
import socket
receiver = ("10.9.2.1", 9)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
    for _ in range({PACKETS}):
        out.sendto(b"x", receiver)
"""


def test_what_the_kernel_forwards_is_in_exactly_one_frame_every(router: None) -> None:
    # A socket takes them, or each would be answered by an ICMP message.
    taker = inside(
        RIGHT,
        sys.executable,
        "-c",
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
        "s.bind(('10.9.2.1', 9)); print('ready', flush=True); input()",
    )
    assert taker.stdout is not None
    assert taker.stdout.readline() == "ready\n"
    # nftop polls at one pace, and the source is read beside it: the sum is what counts.
    nftop = inside(
        ROUTER, sys.executable, "-m", "nftop", "--batch", "-n", "40", "-d", "0.2", "--json"
    )
    assert nftop.stdout is not None
    frames: list[dict[str, Any]] = [json.loads(nftop.stdout.readline()) for _ in range(2)]
    run(LEFT, f"{sys.executable} -c '{SEND}'")
    more, message = nftop.communicate(timeout=120)
    frames += map(json.loads, more.splitlines())
    taker.communicate(input="\n", timeout=60)
    assert nftop.returncode == 0, message
    rows = [(frame, nf) for frame in frames for nf in frame["nfs"] if nf["kind"] == "kernel"]
    assert rows, "it forwards, so it is a network function"
    seconds = {id(nf): nf["interval_s"] for _, nf in rows}
    for end, key in (("in", "rx_packets_per_s"), ("out", "tx_packets_per_s")):
        packets = sum(nf[key] * seconds[id(nf)] for _, nf in rows)
        assert round(packets) == PACKETS, end
    busiest, _ = max(rows, key=lambda row: row[1]["rx_packets_per_s"])
    assert {item["name"]: item["kind"] for item in busiest["interfaces"]} == {
        "lo": "loopback",
        "gate1": "veth",
        "gate2": "veth",
    }
    taken = sum(cpu["kernel_packets_per_s"] for cpu in busiest["cpus"])
    assert taken >= max(nf["rx_packets_per_s"] for _, nf in rows)
