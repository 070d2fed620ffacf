"""Files of /proc that hold what any local user chooses: names, arguments, groups, socket paths.

An input has files apart by 0x1e; each is read as every kind of file.
"""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_address

from nftop.sources.dpdk.source import TelemetrySearch
from nftop.sources.nf_session.discovery import listening
from nftop.sources.ovs.source import ControlSearch
from nftop.sources.process.facts import container_of, node_bytes
from nftop.sources.process.scan import (
    NO_ROLE,
    has_dpdk_main,
    is_nf,
    role_of,
    settle_index,
    vm_name,
)
from nftop.sources.process.threads import parse_schedstat, parse_stat, parse_status
from nftop.sources.trust.peer import Pair, find_in_tables
from nftop.sources.vpp.source import StatsSearch
from tests.fuzz.registry import scratch

_APART = b"\x1e"
_PAIR = Pair(ip_address("127.0.0.1"), 9738, ip_address("127.0.0.1"), 40000)
_SEARCHES = tuple(search.listening for search in (TelemetrySearch, ControlSearch, StatsSearch))
_UNIX = b"0000000000000000: 00000002 00000000 00010000 0005 01 77 /run/"
WORDS = (
    b") ", b" (", b"\\n", b"\\\\", b"lcore-worker-1", b"vpp_wk_0", b"pmd-c01/id:8", b"CPU 0/KVM",
    b"eal-intr-thread", b"0::/", b"/system.slice/", b".slice/", b".service", b".scope", b"/docker/",
    b"/kubepods/burstable/pod0f1e2d3c-0f1e-0f1e-0f1e-0f1e2d3c4b5a/", b"machine-qemu\\x2d3\\x2d",
    b"\\x1b", b"-name\0", b"guest=", b",,", b"N0=1", b"kernelpagesize_kB=2048", b"0-3,8", _APART,
    b"State:\tS", b"Cpus_allowed_list:\t", b"/dpdk_telemetry.v2", b"/stats.sock", b".ctl",
    b"\xd9\xa3", b"0100007F:260A", b"nonvoluntary_ctxt_switches:\t1", b"\x1b]0;x\x07", b"\r",
    b"\xe2\x80\xae",
)  # fmt: skip


def seeds() -> list[bytes]:
    stat = b"7 (vpp_main) S " + b" ".join([b"0"] * 49) + b"\n"
    status = (
        b"Name:\tvpp\nState:\tS (sleeping)\nCpus_allowed_list:\t0-3\n"
        b"voluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t1\n"
    )
    cgroup = (
        b"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0f1e2d3c_0f1e_0f1e_"
        b"0f1e_0f1e2d3c4b5a.slice/cri-containerd-" + b"1f" * 32 + b".scope\n"
        b"1:name=systemd:/system.slice/system-ovs.slice/ovs.service\n"
    )
    machine = b"0::/machine.slice/machine-qemu\\x2d3\\x2dgw\\x2d1.scope/libvirt/emulator\n"
    maps = b"7f00 default file=/dev/huge N0=12 N1=3 kernelpagesize_kB=2048\n7f01 default N0=5\n"
    sockets = b"Num RefCount Protocol Flags Type St Inode Path\n" + b"".join(
        _UNIX + name + b"\n"
        for name in (b"dpdk/a/dpdk_telemetry.v2", b"vpp/stats.sock", b"openvswitch/ovs.7.ctl")
    )
    tcp = (
        b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
        b"   0: 0100007F:260A 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0"
        b"        0 12345 1 0000000000000000 20 4 30 10 -1\n"
    )
    arguments = b"qemu-system-x86_64\0-name\0guest=vm1,debug-threads=on\0"
    return [
        stat,
        b"123 45 6\n",
        status,
        cgroup,
        machine,
        maps,
        sockets,
        tcp,
        arguments,
        cgroup + _APART + arguments,
    ]


def play(data: bytes) -> None:
    """Every file by every parser; ValueError is what readers of a thread's files expect."""
    first, _, second = data.partition(_APART)
    folder = scratch("proc")
    for name, content in (("cgroup", first), ("cmdline", second), ("unix", data), ("tcp", data)):
        (folder / name).write_bytes(content)
    text = data.decode("utf-8", "replace")
    with suppress(ValueError):
        _named(parse_stat(data).comm)
    with suppress(ValueError):
        parse_schedstat(data)
    with suppress(ValueError):
        assert all(0 <= cpu < 1 << 17 for cpu in parse_status(data).allowed)
    _named(text[:15])
    assert len(container_of(text)) <= 64 and len(vm_name(folder)) <= 64
    for node, size_bytes in node_bytes(text):
        assert 0 <= node < 10_000 and size_bytes >= 0
    for pattern in _SEARCHES:
        for path in listening(folder / "unix", pattern):
            path.encode("utf-8", "surrogateescape")
    find_in_tables(_PAIR, folder)


def _named(comm: str) -> None:
    role = role_of(comm)
    assert role == NO_ROLE or role.index is None or role.index >= 0
    settle_index(role, comm, (104,))
    has_dpdk_main((comm, "a"))
    is_nf((comm, "a"))
