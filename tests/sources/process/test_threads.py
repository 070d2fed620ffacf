"""What a thread's files and its name say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nftop.sources.process.scan import Role, has_dpdk_main, is_nf, role_of, settle_index
from nftop.sources.process.threads import (
    Schedstat,
    ThreadFiles,
    parse_schedstat,
    parse_stat,
    parse_status,
)

# Names that DPDK 22.11 (Debian 12), OVS, VPP and QEMU were seen to use, and older ones.
ROLES = {
    "rte-worker-1": Role("dpdk_lcore", 1),
    "rte-worker-127": Role("dpdk_lcore", 127),
    "lcore-worker-3": Role("dpdk_lcore", 3),
    "lcore-slave-12": Role("dpdk_lcore", 12),
    "dpdk-worker42": Role("dpdk_lcore", 42),
    "pmd-c07/id:12": Role("ovs_pmd", 7),
    "pmd-c100/id:100": Role("ovs_pmd", 100),
    "vpp_main": Role("vpp_main"),
    "vpp_wk_0": Role("vpp_worker", 0),
    "CPU 0/KVM": Role("qemu_vcpu", 0),
    "CPU 11/TCG": Role("qemu_vcpu", 11),
    "rte-worker-": Role(""),
    "rte-worker-1\n": Role(""),
    "xrte-worker-1": Role(""),
    "vpp_main2": Role(""),
    "rte-worker-\u0661": Role(""),  # an Arabic digit one is no digit of DPDK's
    "[red]x[/] \x1b[2J": Role(""),
    "": Role(""),
}


@pytest.mark.parametrize(("comm", "role"), ROLES.items(), ids=ascii)
def test_role_of_name(comm: str, role: Role) -> None:
    assert role_of(comm) == role


@pytest.mark.parametrize(
    ("comms", "expected"),
    [
        (["dpdk-testpmd", "eal-intr-thread", "rte_mp_handle", "telemetry-v2"], True),
        (["l3fwd", "dpdk-intr", "dpdk-mp-msg", "dpdk-telemet-v2", "dpdk-worker3"], True),
        (["app", "lcore-worker-1"], True),
        (["ovs-vswitchd", "eal-intr-thread", "telemetry-v2", "pmd-c01/id:3"], False),
        (["vpp_main", "dpdk-intr"], False),
        (["nginx", "nginx"], False),
    ],
)
def test_dpdk_main(comms: list[str], expected: bool) -> None:
    assert has_dpdk_main(comms) is expected


@pytest.mark.parametrize(
    ("comms", "expected"),
    [
        (["our-router", "dpdk-intr"], True),
        (["our-router", "rte-worker-3"], True),
        (["vpp_main"], True),
        (["ovs-vswitchd", "handler1"], True),
        (["ovs-vswitchd-dp"], True),
        (["qemu-system-x86", "CPU 0/KVM"], False),
        (["openvpn"], False),
        ([], False),
    ],
)
def test_a_network_function_is_known_by_any_of_its_threads(
    comms: list[str], expected: bool
) -> None:
    assert is_nf(comms) is expected


@pytest.mark.parametrize(
    ("comm", "allowed", "index"),
    [
        ("lcore-worker-10", (10,), 10),
        ("lcore-worker-10", (104,), None),  # may be the kernel's cut of lcore-worker-104
        ("lcore-worker-10", (3,), 10),
        ("lcore-worker-9", (90,), 9),  # not cut: 14 bytes
        ("rte-worker-10", (104,), 10),
        ("lcore-worker-10", (10, 104), 10),
    ],
)
def test_a_cut_name_gives_no_false_index(
    comm: str, allowed: tuple[int, ...], index: int | None
) -> None:
    assert settle_index(role_of(comm), comm, allowed) == Role("dpdk_lcore", index)


def stat_text(comm: bytes, *, flags: int = 0x400000, start: int = 77, cpu: int = 3) -> bytes:
    fields = [b"0"] * 50
    fields[0] = b"S"
    fields[6] = b"%d" % flags
    fields[11], fields[12] = b"120", b"30"
    fields[19], fields[36] = b"%d" % start, b"%d" % cpu
    return b"4242 (" + comm + b") " + b" ".join(fields) + b"\n"


NAMES = st.lists(st.one_of(st.sampled_from(b"() \\n\n"), st.integers(1, 255)), max_size=15).map(
    bytes
)


@given(NAMES)
@example(b"a) S 1 (b) ")
def test_any_name_leaves_the_numbers_right(name: bytes) -> None:
    escaped = name.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")
    stat = parse_stat(stat_text(escaped, start=991, cpu=12))
    assert stat.comm == name.decode(errors="replace")
    assert (stat.cpu_ticks, stat.start_ticks, stat.last_cpu) == (150, 991, 12)
    assert not stat.kernel
    assert not stat.dead


def test_kernel_threads_are_known_by_their_flag() -> None:
    assert parse_stat(stat_text(b"kworker/0:1", flags=0x4208060 | 0x200000)).kernel


STATUS = b"""Name:\tx
State:\tS (sleeping)
Cpus_allowed:\t3
Cpus_allowed_list:\t0-1,8
Mems_allowed_list:\t0
voluntary_ctxt_switches:\t17
nonvoluntary_ctxt_switches:\t5
x86_Thread_features:\t
"""


def test_status() -> None:
    status = parse_status(STATUS)
    assert (status.allowed, status.voluntary, status.involuntary) == ((0, 1, 8), 17, 5)
    assert not status.dead
    assert parse_status(STATUS.replace(b"S (sleeping)", b"Z (zombie)")).dead


def test_schedstat() -> None:
    assert parse_schedstat(b"744355923 1439643639 241\n") == Schedstat(744355923, 1439643639)
    assert parse_schedstat(b"0 0 1\n") == Schedstat(0, 0)
    assert parse_schedstat(b"0 0 0\n") is None  # what a kernel without SCHED_INFO writes


@pytest.mark.parametrize(
    ("parse", "good"),
    [
        (parse_stat, stat_text(b"x")),
        (parse_status, STATUS),
        (parse_schedstat, b"744355923 1439643639 241\n"),
    ],
)
@given(data=st.data())
def test_mangled_files_raise_value_error_only(
    parse: Callable[[bytes], object], good: bytes, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(good)))
    junk = data.draw(st.binary(max_size=12))
    skip = data.draw(st.integers(0, 6))
    try:
        parse(good[:cut] + junk + good[cut + skip :])
    except ValueError:
        return


@pytest.mark.real
def test_files_of_a_real_thread_with_an_odd_name() -> None:
    """Against the kernel's own escaping, and against a number that is used again."""
    name = b"a) S 1\n\\ [r]\x1b"
    code = (
        f"import sys; open('/proc/self/comm', 'wb').write({name!r});"
        "print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        files = ThreadFiles(f"/proc/{child.pid}/task/{child.pid}", keep=True)
        stat, status, sched = files.stat(), files.status(), files.schedstat()
        child.communicate(b"")
    assert stat.comm == name.decode()
    assert set(status.allowed) == os.sched_getaffinity(0)
    assert sched is None or sched.run_ns > 0
    for read in (files.stat, files.status, files.schedstat):
        with pytest.raises(ProcessLookupError):
            read()
    files.close()


@pytest.mark.real
def test_a_zombie_is_dead() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        files = ThreadFiles(f"/proc/{child.pid}/task/{child.pid}", keep=False)
        assert files.stat().dead
        assert files.status().dead
