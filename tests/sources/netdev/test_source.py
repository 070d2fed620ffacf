"""The kernel's data path: captured texts, made-up trees, and this host's own."""

from __future__ import annotations

import ast
import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Missing, Reason
from nftop.model.nf.netdev import NetdevTable
from nftop.sources.netdev import source
from nftop.sources.netdev.source import (
    REFRESH_EVERY_NS,
    NetdevSource,
    parse_dev,
    parse_forwarded,
    parse_links,
    parse_softnet,
)

# Linux 6.1 as it was captured for nftop, before and after traffic.
_ZEROS = "00000000 " * 8
BEFORE = (
    f"000006a1 00000000 00000000 {_ZEROS}00000000 00000000 00000000 00000000\n"
    f"0001c6f1 00000000 00000000 {_ZEROS}00000000 00000001 00000000 00000000\n"
)
# Before Linux 5.10, and with the second of three CPUs offline.
OLD = f"00000010 00000001 00000002 {_ZEROS}\nffffffff 00000000 00000000 {_ZEROS}\n"
DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo \
colls carrier compressed
    lo:     100       2    0    0    0     0          0         0      100       2    0    0    0 \
    0       0          0
  eth0: 1000000   10000    0    7    0     0          0         0  2000000   20000    0    0    0 \
    0       0          0
"""
SNMP = "Ip: Forwarding DefaultTTL InReceives ForwDatagrams\nIp: 1 64 500 120\nTcp: A\nTcp: 1\n"
SNMP6 = "Ip6InReceives                   \t17\nIp6OutForwDatagrams             \t30\n"


def test_softnet_as_captured() -> None:
    cpus, counts = parse_softnet(BEFORE, lambda: [0, 1])
    assert cpus.tolist() == [0, 1]
    assert counts.tolist() == [[0x6A1, 0, 0], [0x1C6F1, 0, 0]]


def test_softnet_rows_of_older_kernels_are_the_online_cpus() -> None:
    cpus, counts = parse_softnet(OLD, lambda: [0, 2])
    assert cpus.tolist() == [0, 2]
    assert counts.tolist() == [[16, 1, 2], [2**32 - 1, 0, 0]]
    with pytest.raises(ValueError, match="lines of 2 CPUs, and 3 are online"):
        parse_softnet(OLD, lambda: [0, 1, 2])


@pytest.mark.parametrize("text", ["", "00 00\n", BEFORE + BEFORE, BEFORE.replace("6a1", "xyz")])
def test_softnet_that_makes_no_sense(text: str) -> None:
    with pytest.raises(ValueError):
        parse_softnet(text, lambda: [0, 1])


@given(st.text())
def test_no_text_raises_anything_else(text: str) -> None:
    for parse in (lambda: parse_softnet(text, lambda: [0]), lambda: parse_dev(text)):
        with contextlib.suppress(ValueError):
            parse()


def test_interfaces_and_what_ip_forwards() -> None:
    assert parse_dev(DEV) == {"lo": (2, 2, 100), "eth0": (10000, 20000, 1_000_000)}
    assert parse_forwarded(SNMP, SNMP6) == 150
    assert parse_forwarded(SNMP, "") == 120
    assert parse_forwarded("", "") is None


def tree(root: Path) -> Path:
    """A host with a NIC, a VLAN above it, OVS' own tap and a virtual machine's."""
    for name, text in {
        "proc/net/softnet_stat": BEFORE,
        "proc/net/snmp": SNMP,
        "proc/net/dev": DEV
        + "".join(
            DEV.splitlines(keepends=True)[3].replace("eth0", name)
            for name in ("eth0.5", "br-int", "vm1", "veth0", "gre1", "port1")
        ),
        "sys/devices/system/cpu/online": "0-1\n",
        "sys/class/net/lo/type": "772\n",
        "sys/class/net/eth0/device/numa_node": "1\n",
        "sys/class/net/eth0/speed": "25000\n",
        "sys/class/net/eth0/statistics/rx_missed_errors": "42\n",
        "sys/class/net/eth0.5/lower_eth0/x": "",
        "sys/class/net/br-int/tun_flags": "0x1002\n",
        "sys/class/net/vm1/tun_flags": "0x1002\n",
        "sys/class/net/veth0/type": "1\n",
        "sys/class/net/gre1/type": "778\n",
        "sys/class/net/port1/type": "1\n",
        "proc/77/comm": "our-router\n",
        "proc/77/task/77/comm": "our-router\n",
        "proc/77/task/79/comm": "dpdk-worker3\n",
        "proc/77/fdinfo/9": "pos:\t0\nflags:\t0100002\niff:\tbr-int\n",
        "proc/78/comm": "testpmd-like-vm\n",
        "proc/78/task/78/comm": "testpmd-like-vm\n",
        "proc/78/task/80/comm": "CPU 0/KVM\n",
        "proc/78/fdinfo/9": "pos:\t0\niff:\tvm1\n",
    }.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for pid in (77, 78):
        folder = root / f"proc/{pid}/fd"
        folder.mkdir()
        (folder / "9").symlink_to("/dev/net/tun")
        (folder / "1").symlink_to("/dev/null")
    driver = root / "sys/bus/pci/drivers/ixgbe"
    driver.mkdir(parents=True)
    (root / "sys/class/net/eth0/device/driver").symlink_to(driver)
    return root


LINKS = {"veth0": "veth", "gre1": "gre", "port1": "openvswitch", "vm1": "tun", "eth0.5": "vlan"}


def test_what_interfaces_are(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    source = NetdevSource(tree(tmp_path), links=lambda: LINKS)
    table = source.read()
    assert isinstance(table, NetdevTable)
    about = {interface.name: interface for interface in table.interfaces}
    assert {name: item.kind for name, item in about.items()} == {
        "lo": "loopback",
        "eth0": "nic",
        "eth0.5": "upper",
        "br-int": "tap",
        "vm1": "tap",
        "veth0": "veth",
        "gre1": "virtual",
        "port1": "virtual",
    }
    nic = about["eth0"]
    assert (nic.driver, nic.node, nic.rx_missed) == ("ixgbe", 1, 42)
    assert {name for name, item in about.items() if item.counts_once} == {"eth0", "vm1", "veth0"}
    assert about["br-int"].owner == 77 and about["vm1"].owner is None
    assert table.forwarded == 120
    [check] = source.check()
    assert check.text == snapshot


def test_interfaces_are_observed_when_they_change_and_now_and_then(tmp_path: Path) -> None:
    root, now = tree(tmp_path), [1]
    links = dict(LINKS)
    source = NetdevSource(root, clock=lambda: now[0], links=lambda: links)
    source.read()
    del links["vm1"]
    (root / "sys/class/net/vm1/lower_x").mkdir()
    (root / "sys/class/net/vm1/tun_flags").unlink()

    def kind() -> str:
        table = source.read()
        assert isinstance(table, NetdevTable)
        return next(interface.kind for interface in table.interfaces if interface.name == "vm1")

    assert kind() == "tap"
    now[0] += REFRESH_EVERY_NS
    assert kind() == "upper"
    dev = root / "proc/net/dev"
    dev.write_text(dev.read_text().replace("veth0", "veth1"))
    (root / "sys/class/net/vm1/lower_x").rmdir()
    assert kind() == "virtual"


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("proc/net/softnet_stat", None, Reason.SOURCE),
        ("proc/net/softnet_stat", "nonsense\n", Reason.ERROR),
        ("proc/net/dev", "a\nb\nc\n", Reason.ERROR),
        ("proc/net/dev", None, Reason.SOURCE),
    ],
)
def test_what_is_missing_or_wrong_is_reported(
    tmp_path: Path, file: str, text: str | None, reason: Reason
) -> None:
    path = tree(tmp_path) / file
    path.unlink()
    if text is not None:
        path.write_text(text)
    result = NetdevSource(tmp_path).read()
    assert isinstance(result, Missing) and result.reason is reason and file in result.message


def link(name: str, kind: str | None, *, kind_bits: int = 0) -> bytes:
    """One RTM_NEWLINK, as the kernel sends it: an attribute nobody asked for comes first."""

    def attribute(number: int, data: bytes) -> bytes:
        return struct.pack("=HH", 4 + len(data), number) + data + bytes(-len(data) % 4)

    nested = b"" if kind is None else attribute(1, kind.encode() + b"\0")
    body = bytes(16) + attribute(4, b"\1\2\3\4") + attribute(3, name.encode() + b"\0")
    body += attribute(18 | kind_bits, nested) if nested else b""
    return struct.pack("=IHHII", 16 + len(body), 16, 2, 1, 0) + body


END = struct.pack("=IHHIII", 20, 3, 2, 1, 0, 0)


def test_kinds_of_links() -> None:
    answer = link("eth0", None) + link("veth0", "veth") + link("wg0", "wireguard", kind_bits=0x8000)
    assert parse_links(answer) == ({"veth0": "veth", "wg0": "wireguard"}, False)
    assert parse_links(END) == ({}, True)
    assert parse_links(answer[:-3]) == ({"veth0": "veth"}, True)
    refused = struct.pack("=IHHIIi", 20, 2, 0, 1, 0, -1)
    assert parse_links(link("a", "gre") + refused + link("b", "gre")) == ({"a": "gre"}, True)


@given(st.binary(max_size=200))
def test_no_answer_of_the_kernel_s_can_raise(data: bytes) -> None:
    parse_links(data)
    parse_links(link("eth0", "veth")[:40] + data)


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and iproute2"
)
def test_kinds_of_real_links() -> None:
    """Both ends of a veth may have the same number, each in its own namespace."""
    make = "ip link add one type veth peer name two; ip link add switch type bridge"
    program = "import sys; from nftop.sources.netdev.source import link_kinds as k; print(k())"
    done = subprocess.run(
        ["unshare", "--net", "sh", "-ec", f'{make}; exec {sys.executable} -c "{program}"'],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "Operation not permitted" in done.stderr or "Unknown device type" in done.stderr:
        pytest.skip(f"no such links can be made here: {done.stderr.strip()}")
    assert ast.literal_eval(done.stdout) == {"one": "veth", "two": "veth", "switch": "bridge"}


def test_this_host() -> None:
    table = NetdevSource().read()
    assert isinstance(table, NetdevTable)
    assert set(table.cpus.tolist()) >= os.sched_getaffinity(0)
    assert table.softnet.dtype == np.uint64 and table.softnet.shape == (len(table.cpus), 3)
    assert "lo" in {interface.name for interface in table.interfaces}


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/net/tun").exists(), reason="only root may make a tap here"
)
def test_a_real_tap_has_an_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = os.open("/dev/net/tun", os.O_RDWR)
    try:
        own = Path("/proc/self/comm").read_text().strip()
        requests = struct.pack("16sH22x", b"nftop-test%d", 0x0002 | 0x1000)  # IFF_TAP, IFF_NO_PI
        name = fcntl.ioctl(handle, 0x400454CA, requests)[:16].rstrip(b"\0").decode()  # TUNSETIFF
        assert name not in source.owners(Path("/proc"), [name])  # nobody's that nftop knows
        monkeypatch.setattr(source, "is_nf", lambda comms: own in comms)
        assert source.owners(Path("/proc"), [name, "other"]) == {name: os.getpid()}
        table = NetdevSource().read()
        assert isinstance(table, NetdevTable)
        about = next(interface for interface in table.interfaces if interface.name == name)
        assert (about.kind, about.owner, about.counts_once) == ("tap", os.getpid(), False)
    finally:
        os.close(handle)
