"""What resctrl does beyond what the consoles of tests/data/kernel show."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from nftop.model.topology import Topology
from nftop.sim import scenario
from nftop.sim.layout import build
from tests.lab import machine
from tests.lab.resctrl import counters, profile
from tests.lab.resctrl.hardware import hardware_of
from tests.lab.resctrl.processes import ProcFolder, Task
from tests.lab.tests.hosts import (
    LOCAL,
    MIB,
    RATE,
    ROOT,
    SCALE,
    SMALL,
    USER,
    Lab,
    few,
    lab,
)

BOTH = pytest.mark.parametrize("kernel", profile.kernels())
FULL = 16 * MIB // 11 * 11


def number(call: Callable[[], object]) -> int:
    """The errno that a call fails with."""
    with pytest.raises(OSError) as caught:
        call()
    assert caught.value.errno is not None
    return caught.value.errno


def two_groups(kernel: str = "7.2") -> Lab:
    host = lab(kernel)
    host.mkdir("/a")
    host.mkdir("/b")
    host.echo("0-3", "/a/cpus_list")
    return host


# schemata


@BOTH
def test_nothing_of_a_refused_write_is_applied(kernel: str) -> None:
    host = lab(kernel)
    before = host.cat("/schemata")
    text = "MB:0=50;1=50\nL3:0=f;1=5"
    assert number(lambda: host.echo(text, "/schemata")) == errno.EINVAL
    assert host.cat("/schemata") == before
    assert host.status == "The mask 5 has non-consecutive 1-bits"
    host.echo("MB:0=50;1=50\nL3:0=f;1=70", "/schemata")
    zeros = "00f;1=070" if kernel == "6.1" else "f;1=70"
    assert host.cat("/schemata").split()[-1] == f"L3:0={zeros}"
    assert host.status == "ok"


@BOTH
def test_a_line_may_be_written_twice_but_not_a_domain(kernel: str) -> None:
    host = lab(kernel)
    assert number(lambda: host.echo("L3:0=f\nL3:0=f0", "/schemata")) == errno.EINVAL
    assert host.status == "Duplicate domain 0"
    host.echo("L3:0=f\nL3:1=f0;", "/schemata")
    assert number(lambda: host.echo("L3:0=f;;1=f", "/schemata")) == errno.EINVAL
    assert host.status == "Missing '=' or non-numeric domain"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", "Missing ':'"),
        ("L3:0=", "Non-hex character in the mask "),
        ("L3: 0=f", "Missing '=' or non-numeric domain"),
        ("L3:0=-1", "Non-hex character in the mask -1"),
        ("L3:0=10000000000000000", "Non-hex character in the mask 10000000000000000"),
        ("MB:0=101", "MB value 101 out of range [10,100]"),
        ("MB:0=0x20", "Invalid MB value 0x20"),
        ("L3CODE:0=f", "Unknown or unsupported resource name 'L3CODE'"),
    ],
)
@BOTH
def test_what_schemata_says_of_what_it_refuses(kernel: str, text: str, status: str) -> None:
    host = lab(kernel)
    assert number(lambda: host.echo(text, "/schemata")) == errno.EINVAL
    assert host.status == status


@BOTH
def test_schemata_takes_what_the_kernel_takes(kernel: str) -> None:
    host = lab(kernel)
    host.echo(" L3 :0= 0x0f0 ;1=+f\nMB:1=41", "/schemata")
    zeros = "0f0;1=00f" if kernel == "6.1" else "f0;1=f"
    words = host.cat("/schemata").replace(" ", "").split()
    assert words == ["MB:0=100;1=50", f"L3:0={zeros}"]


@BOTH
def test_a_page_is_the_longest_write(kernel: str) -> None:
    host = lab(kernel)
    handle = host.tree.open("/schemata", os.O_WRONLY, ROOT)
    assert number(lambda: handle.write(b"x" * 4096 + b"\n", 0)) == errno.E2BIG
    assert number(lambda: handle.write(b"x" * 4095 + b"\n", 0)) == errno.EINVAL


def test_too_few_ways_are_refused_where_a_mask_needs_more() -> None:
    assert SMALL.allocation is not None
    host = lab(hardware=replace(SMALL, allocation=replace(SMALL.allocation, min_bits=2)))
    assert number(lambda: host.echo("L3:0=4", "/schemata")) == errno.EINVAL
    assert host.status == "Need at least 2 bits in the mask"


@BOTH
def test_size_counts_ways_in_whole_bytes(kernel: str) -> None:
    host = lab(kernel)
    host.echo("L3:0=3\nMB:1=20", "/schemata")
    sizes = host.cat("/size").split()
    assert sizes == ["MB:0=100;1=20", f"L3:0={16 * MIB // 11 * 2};1={FULL}"]


def test_cdp_has_two_lines_and_half_the_classes() -> None:
    host = lab("7.2", options=["cdp"])
    assert [line.split(":")[0] for line in host.cat("/schemata").splitlines()] == [
        "    MB",
        "L3DATA",
        "L3CODE",
    ]
    assert set(host.tree.names("/info")) == {
        "L3CODE",
        "L3DATA",
        "L3_MON",
        "MB",
        "last_cmd_status",
    }
    assert host.cat("/info/L3CODE/num_closids") == "8\n"
    host.echo("L3CODE:0=f\nL3DATA:0=f0", "/schemata")
    assert host.cat("/info/L3CODE/bit_usage") == "0=HH00000SSSS;1=XXSSSSSSSSS\n"
    assert host.cat("/info/L3DATA/bit_usage") == "0=HH0SSSS0000;1=XXSSSSSSSSS\n"


def test_an_exclusive_group_keeps_its_ways_from_code_and_data_of_others() -> None:
    host = lab("7.2", options=["cdp"])
    host.mkdir("/a")
    host.echo("L3CODE:0=ff;1=ff\nL3DATA:0=ff;1=ff", "/schemata")
    host.echo("L3CODE:0=100;1=100\nL3DATA:0=100;1=100", "/a/schemata")
    host.echo("exclusive", "/a/mode")
    assert number(lambda: host.echo("L3DATA:0=180", "/schemata")) == errno.EINVAL
    assert host.status == "Overlaps with exclusive group"
    assert number(lambda: host.echo("L3CODE:0=180", "/a/schemata")) == errno.EINVAL
    assert host.status == "Overlaps with other group"
    assert host.cat("/info/L3DATA/bit_usage").split(";")[0] == "0=HHESSSSSSSS"
    host.mkdir("/b")
    # New groups get what is shared or nobody's: below the exclusive way.
    assert host.cat("/b/schemata").split()[-1] == "L3CODE:0=ff;1=ff"
    assert number(lambda: host.echo("pseudo-locksetup", "/a/mode")) == errno.EINVAL
    assert host.status == "CDP enabled"


@BOTH
def test_ways_of_io_can_not_be_exclusive(kernel: str) -> None:
    host = lab(kernel)
    host.mkdir("/a")
    host.echo("L3:0=ff;1=ff", "/schemata")
    host.echo("L3:0=600;1=100", "/a/schemata")
    assert number(lambda: host.echo("exclusive", "/a/mode")) == errno.EINVAL
    assert (host.status, host.cat("/a/mode")) == ("Schemata overlaps", "shareable\n")
    host.echo("L3:0=100;1=100", "/a/schemata")
    host.echo("exclusive", "/a/mode")
    host.echo("shareable", "/a/mode")
    assert host.cat("/a/mode") == "shareable\n"


@pytest.mark.parametrize(
    ("path", "status"),
    [("/mode", "Cannot pseudo-lock default group"), ("/a/mode", "Pseudo-locking not supported")],
)
@BOTH
def test_no_cpu_of_the_lab_locks_its_cache(kernel: str, path: str, status: str) -> None:
    host = lab(kernel)
    host.mkdir("/a")
    assert number(lambda: host.echo("pseudo-locksetup", path)) == errno.EINVAL
    assert host.status == status


def test_no_group_is_made_where_exclusive_ones_have_every_way() -> None:
    assert SMALL.allocation is not None
    hardware = replace(SMALL, allocation=replace(SMALL.allocation, shareable_bits=0))
    host = lab("7.2", hardware)
    host.echo("exclusive", "/mode")
    assert number(lambda: host.mkdir("/a")) == errno.ENOSPC
    assert host.status == "No space on L3:0"
    host.echo("L3:0=ff", "/schemata")
    assert number(lambda: host.mkdir("/a")) == errno.ENOSPC
    assert host.status == "No space on L3:1"
    assert "a" not in host.tree.names("/")


@pytest.mark.parametrize(("kernel", "unlimited"), [("6.1", 4), ("7.2", 4294967295)])
def test_mbps_hold_as_soon_as_they_are_parsed(kernel: str, unlimited: int) -> None:
    host = lab(kernel, options=["mba_MBps"])
    assert host.cat("/schemata").split()[0] == "MB:0=4294967295;1=4294967295"
    assert number(lambda: host.echo("MB:0=1000;1=55\nL3:0=5", "/schemata")) == errno.EINVAL
    low = 60 if kernel == "6.1" else 55
    assert host.cat("/schemata").replace(" ", "").split()[0] == f"MB:0=1000;1={low}"
    host.echo("MB:0=4294967295", "/schemata")
    assert host.cat("/size").replace(" ", "").split()[0] == f"MB:0={unlimited};1={low}"


def test_the_event_that_mbps_are_measured_by_is_a_group_s_choice() -> None:
    host = lab("7.2", options=["mba_MBps"])
    assert host.cat("/mba_MBps_event") == "mbm_local_bytes\n"
    host.echo("mbm_total_bytes", "/mba_MBps_event")
    assert host.cat("/mba_MBps_event") == "mbm_total_bytes\n"
    assert number(lambda: host.echo("llc_occupancy", "/mba_MBps_event")) == errno.EINVAL
    assert host.status == "Unsupported event id 'llc_occupancy'"
    assert "mba_MBps_event" not in lab("7.2").tree.names("/")
    assert "mba_MBps_event" not in lab("6.1", options=["mba_MBps"]).tree.names("/")


# CPUs and tasks


@BOTH
def test_a_cpu_that_moves_leaves_its_group_and_every_monitoring_group(kernel: str) -> None:
    host = two_groups(kernel)
    host.mkdir("/a/mon_groups/m")
    host.mkdir("/a/mon_groups/n")
    host.echo("0-1", "/a/mon_groups/m/cpus_list")
    host.echo("1-2", "/a/mon_groups/n/cpus_list")
    assert host.cat("/a/mon_groups/m/cpus_list") == "0\n"
    host.echo("2", "/b/cpus_list")
    assert host.cat("/a/cpus_list") == "0-1,3\n"
    assert host.cat("/a/mon_groups/n/cpus_list") == "1\n"
    # A write to a control group clears its monitoring groups, even if it changes nothing.
    host.echo("0-1,3", "/a/cpus_list")
    assert host.cat("/a/mon_groups/m/cpus_list") == "\n"
    assert host.cat("/a/mon_groups/m/cpus") == "00\n"
    host.echo("", "/a/cpus")
    assert (host.cat("/cpus_list"), host.cat("/cpus")) == ("0-1,3-7\n", "fb\n")


@BOTH
def test_cpus_that_are_offline_are_refused(kernel: str) -> None:
    host = lab(kernel, replace(SMALL, online=frozenset(range(6))))
    host.mkdir("/a")
    assert number(lambda: host.echo("6", "/a/cpus_list")) == errno.EINVAL
    assert host.status == "Can only assign online CPUs"
    assert number(lambda: host.echo("100", "/a/cpus")) == errno.EOVERFLOW


@BOTH
def test_a_task_is_in_one_control_group_and_one_monitoring_group(kernel: str) -> None:
    host = two_groups(kernel)
    host.mkdir("/a/mon_groups/m")
    assert host.cat("/tasks") == "100\n101\n200\n"
    assert number(lambda: host.echo("101", "/a/mon_groups/m/tasks")) == errno.EINVAL
    assert host.status.splitlines()[0] == "Can't move task to different control group"
    host.echo("101", "/a/tasks")
    host.echo("101", "/a/mon_groups/m/tasks")
    assert (host.cat("/a/tasks"), host.cat("/a/mon_groups/m/tasks")) == ("101\n", "101\n")
    host.echo("101", "/a/tasks")
    assert (host.cat("/a/tasks"), host.cat("/a/mon_groups/m/tasks")) == ("101\n", "")
    host.echo("0", "/b/tasks")
    assert host.cat("/b/tasks") == f"{ROOT.pid}\n"
    host.rmdir("/b")
    assert host.cat("/tasks") == "100\n200\n"


def test_a_removed_monitoring_group_leaves_its_tasks_to_its_parent() -> None:
    host = two_groups()
    host.mkdir("/a/mon_groups/m")
    host.echo("100,0x65", "/a/tasks")
    host.echo("101", "/a/mon_groups/m/tasks")
    host.rmdir("/a/mon_groups/m")
    assert host.cat("/a/tasks") == "100\n101\n"
    # The id is used again by another process, which nobody moved.
    host.people.by_id[101] = Task(0, 7, 1)
    assert (host.cat("/a/tasks"), host.cat("/tasks")) == ("100\n", "101\n200\n")


def test_a_task_hands_its_group_on_to_those_it_starts() -> None:
    host = two_groups()
    host.people.start(110, 100)
    host.echo("100", "/a/tasks")
    host.people.start(120, 100)
    host.people.start(121, 120)
    host.echo("100", "/b/tasks")
    host.people.start(130, 100)
    host.echo("120", "/tasks")
    host.people.start(131, 121)
    # 110 was there before its parent was moved, 120 was moved back.
    assert host.cat("/a/tasks").split() == ["121", "131"]
    assert host.cat("/b/tasks").split() == ["100", "130"]
    assert host.cat("/tasks").split() == ["101", "110", "120", "200"]
    del host.people.by_id[121]
    host.rmdir("/b")
    host.people.start(140, 131)
    assert host.cat("/a/tasks").split() == ["131", "140"]
    assert host.cat("/tasks").split() == ["100", "101", "110", "120", "130", "200"]


def test_the_host_s_processes_are_known_with_their_threads() -> None:
    here = ProcFolder()
    before = here.now()
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as child:
        tasks = here.tasks()
        assert tasks[child.pid].parent == os.getpid()
        assert tasks[child.pid].uid == os.geteuid()
        assert before <= tasks[child.pid].started <= here.now()
    done, started = threading.Event(), threading.Event()

    def wait() -> None:
        started.set()
        done.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    started.wait()
    assert thread.native_id is not None
    assert here.tasks()[thread.native_id].parent == os.getpid()
    done.set()
    thread.join()
    assert child.pid not in here.tasks()


def test_a_list_of_tasks_is_done_up_to_the_first_that_fails() -> None:
    host = two_groups("7.2")
    assert number(lambda: host.echo("100,999,101", "/a/tasks")) == errno.ESRCH
    assert host.status == "No task 999\nError while processing task 999"
    assert host.cat("/a/tasks") == "100\n"
    assert number(lambda: two_groups("6.1").echo("100,101", "/a/tasks")) == errno.EINVAL


def test_a_task_of_somebody_else_stays() -> None:
    host = two_groups("7.2")
    node = host.tree.open("/a/tasks", os.O_WRONLY, ROOT)
    node._caller = USER  # type: ignore[attr-defined]
    assert number(lambda: node.write(b"101\n", 0)) == errno.EPERM
    assert host.status.splitlines()[0] == "No permission to move task 101"
    assert node.write(b"200\n", 0) == 4


# groups


def test_new_groups_take_the_lowest_free_class() -> None:
    host = lab("7.2", options=["debug"])
    for name in "abc":
        host.mkdir(f"/{name}")
    host.rmdir("/b")
    host.mkdir("/d")
    assert [host.cat(f"/{name}/ctrl_hw_id").strip() for name in "acd"] == ["1", "3", "2"]
    # The RMID that was given back is behind all those that were never used.
    assert [host.cat(f"/{name}/mon_hw_id").strip() for name in "acd"] == ["1", "3", "4"]


@BOTH
def test_where_no_group_can_be_made_or_removed(kernel: str) -> None:
    host = two_groups(kernel)
    in_info = errno.EPERM if kernel == "6.1" else errno.ENODEV
    for path, expected in {
        "/info/x": in_info,
        "/info/L3/x": in_info,
        "/mon_data/mon_L3_00/x": errno.EPERM,
        "/a/x": errno.EPERM,
        "/a/mon_groups/mon_groups": errno.EPERM,
        "/a": errno.EEXIST,
        "/tasks": errno.EEXIST,
        "/x\ny": errno.EINVAL,
        "/no/x": errno.ENOENT,
        "/tasks/x": errno.ENOTDIR,
    }.items():
        assert number(lambda path=path: host.mkdir(path)) == expected, path  # type: ignore[misc]
    for path, expected in {
        "/": errno.EPERM,
        "/a/mon_groups": errno.EPERM,
        "/a/mon_data": errno.EPERM,
        "/info/L3": errno.EPERM,
        "/a/tasks": errno.ENOTDIR,
        "/c": errno.ENOENT,
    }.items():
        assert number(lambda path=path: host.rmdir(path)) == expected, path  # type: ignore[misc]


def test_a_group_made_anew_has_other_inodes_and_old_files_are_dead() -> None:
    host = two_groups()
    inodes = [host.tree.lookup(path).inode for path in ("/a", "/a/tasks", "/b", "/", "/tasks")]
    assert len(set(inodes)) == len(inodes)
    handle = host.tree.open("/a/mon_data/mon_L3_00/llc_occupancy", os.O_RDONLY, ROOT)
    host.rmdir("/a")
    assert number(lambda: handle.read(100, 0)) == errno.ENODEV
    host.mkdir("/a")
    again = [host.tree.lookup(path).inode for path in ("/a", "/a/tasks", "/b", "/", "/tasks")]
    assert again[2:] == inodes[2:]
    assert not set(again[:2]) & set(inodes)


def test_an_open_file_is_read_anew_from_its_start_only() -> None:
    host = lab()
    handle = host.tree.open("/schemata", os.O_RDONLY, ROOT)
    first = handle.read(10, 0)
    host.echo("MB:0=20", "/schemata")
    assert (first + handle.read(4096, 10)).count(b"100") == 2
    assert handle.read(4096, 0).count(b"100") == 1


def test_monitoring_groups_move_on_later_kernels_unless_they_have_cpus() -> None:
    host = two_groups("7.2")
    host.mkdir("/a/mon_groups/m")
    inode = host.tree.lookup("/a/mon_groups/m/tasks").inode
    host.echo("100", "/a/tasks")
    host.echo("100", "/a/mon_groups/m/tasks")
    host.rename("/a/mon_groups/m", "/b/mon_groups/n")
    assert (host.cat("/a/tasks"), host.cat("/b/tasks")) == ("", "100\n")
    assert host.tree.lookup("/b/mon_groups/n/tasks").inode == inode
    assert number(lambda: host.rename("/a", "/c")) == errno.EPERM
    assert host.status == "Source must be a MON group"
    assert number(lambda: host.rename("/b/mon_groups/n", "/n")) == errno.EPERM
    assert host.status == "Destination must be a mon_groups subdirectory"
    host.echo("5", "/b/cpus_list")
    host.echo("5", "/b/mon_groups/n/cpus_list")
    assert number(lambda: host.rename("/b/mon_groups/n", "/a/mon_groups/n")) == errno.EPERM
    assert host.status == "Cannot move a MON group that monitors CPUs"
    assert number(lambda: host.rename("/info/L3", "/a/mon_groups/n")) == errno.ENOENT
    old = two_groups("6.1")
    old.mkdir("/mon_groups/m")
    assert number(lambda: old.rename("/mon_groups/m", "/mon_groups/n")) == errno.EPERM


# RMIDs


@BOTH
def test_an_rmid_comes_back_when_the_cache_has_forgotten_it(kernel: str) -> None:
    host = lab(kernel, few(3))
    host.mkdir("/mon_groups/m")
    host.mkdir("/mon_groups/n")
    assert number(lambda: host.mkdir("/mon_groups/o")) == errno.ENOSPC
    assert host.status == "Out of RMIDs"
    host.echo("0-7", "/mon_groups/m/cpus_list")
    host.clock.forward(60.0)
    host.rmdir("/mon_groups/m")
    assert number(lambda: host.mkdir("/mon_groups/o")) == errno.EBUSY
    # 16 MiB go down to the threshold, a third of the cache, in 2.2 s at a time constant of 2 s.
    host.clock.forward(2.0)
    assert number(lambda: host.mkdir("/mon_groups/o")) == errno.EBUSY
    host.clock.forward(0.3)
    host.mkdir("/mon_groups/o")


@BOTH
def test_a_refused_group_costs_no_rmid(kernel: str) -> None:
    host = lab(kernel, few(6, closids=2))
    host.mkdir("/a")
    for _ in range(10):
        assert number(lambda: host.mkdir("/b")) == errno.ENOSPC
        assert host.status.splitlines()[-1] == "Out of CLOSIDs"
    for name in "abcd":
        host.mkdir(f"/mon_groups/{name}")


@pytest.mark.parametrize(("kernel", "at_once"), [("6.1", True), ("7.2", False)])
def test_an_rmid_that_held_nothing(kernel: str, at_once: bool) -> None:
    host = lab(kernel, few(2))
    host.mkdir("/mon_groups/m")
    host.rmdir("/mon_groups/m")
    if not at_once:
        assert number(lambda: host.mkdir("/mon_groups/n")) == errno.EBUSY
        host.clock.forward(1.0)
    host.mkdir("/mon_groups/n")


@BOTH
def test_a_threshold_of_nothing_never_frees_an_rmid(kernel: str) -> None:
    host = lab(kernel, few(2))
    host.mkdir("/mon_groups/m")
    host.echo("0-7", "/mon_groups/m/cpus_list")
    host.clock.forward(60.0)
    host.echo("65535", "/info/L3_MON/max_threshold_occupancy")
    assert host.cat("/info/L3_MON/max_threshold_occupancy") == "0\n"
    host.rmdir("/mon_groups/m")
    host.clock.forward(3600.0)
    assert number(lambda: host.mkdir("/mon_groups/m")) == errno.EBUSY
    path = "/info/L3_MON/max_threshold_occupancy"
    assert number(lambda: host.echo(f"{17 * MIB}", path)) == errno.EINVAL
    host.echo(f"{SCALE}", path)
    host.mkdir("/mon_groups/m")


# counters


def values(host: Lab, group: str, domain: int = 0) -> dict[str, int]:
    folder = f"{group}/mon_data/mon_L3_{domain:02d}"
    return {name: int(host.cat(f"{folder}/{name}")) for name in host.tree.names(folder)}


def steps(count: float) -> int:
    return int(count) // SCALE * SCALE


def test_traffic_follows_cpus_from_group_to_group() -> None:
    host = lab(at_s=10.0)
    host.mkdir("/a")
    host.clock.forward(1.0)
    host.echo("1", "/a/cpus_list")
    host.clock.forward(2.0)
    host.echo("1,4,6", "/a/cpus_list")
    host.clock.forward(4.0)
    host.echo("6", "/a/cpus_list")
    host.clock.forward(8.0)
    # CPUs 1 and 4 move 2 and 5 times RATE beside cache 0; CPU 6 moves 7 times beside cache 1.
    assert values(host, "/a")["mbm_total_bytes"] == steps(RATE * (2 * 6 + 5 * 4))
    assert values(host, "/a")["mbm_local_bytes"] == steps(RATE * LOCAL * (2 * 6 + 5 * 4))
    assert values(host, "/a", 1)["mbm_total_bytes"] == steps(RATE * 7 * 12)
    # The root group began at mount, and has what the others have not.
    everything = RATE * (1 + 2 + 5 + 6) * 15
    assert values(host, "")["mbm_total_bytes"] == steps(everything - RATE * (2 * 6 + 5 * 4))


def test_a_control_group_has_what_its_monitoring_groups_have_until_they_go() -> None:
    host = two_groups()
    host.mkdir("/a/mon_groups/m")
    host.echo("0", "/a/mon_groups/m/cpus_list")
    host.clock.forward(10.0)
    whole = values(host, "/a")["mbm_total_bytes"]
    part = values(host, "/a/mon_groups/m")["mbm_total_bytes"]
    assert (whole, part) == (steps(10 * RATE) + steps(10 * 2 * RATE), steps(10 * RATE))
    host.rmdir("/a/mon_groups/m")
    assert values(host, "/a")["mbm_total_bytes"] == whole - part
    host.mkdir("/a/mon_groups/m")
    assert values(host, "/a/mon_groups/m")["mbm_total_bytes"] == 0


def test_occupancy_drains_after_a_mask_shrank() -> None:
    host = two_groups()
    host.echo("0-1,4-5", "/a/cpus_list")
    host.clock.forward(100.0)
    assert values(host, "/a")["llc_occupancy"] == steps(16 * MIB)
    host.echo("L3:0=3", "/a/schemata")
    host.clock.forward(2.0)
    left = 16 * MIB * (2 / 11 + 9 / 11 / 2.718281828459045)
    assert values(host, "/a")["llc_occupancy"] == steps(left)
    host.clock.forward(100.0)
    assert values(host, "/a")["llc_occupancy"] == steps(16 * MIB * 2 / 11)


def test_counters_that_have_no_number_say_why() -> None:
    host = two_groups()
    host.mkdir("/a/mon_groups/m")
    host.echo("0", "/a/mon_groups/m/cpus_list")
    host.clock.forward(1.0)
    path = "/mon_data/mon_L3_00/mbm_total_bytes"
    counters.command(host.state, "/a/mon_groups/m 0 mbm_total_bytes Unassigned\n")
    assert host.cat(f"/a/mon_groups/m{path}") == "Unassigned\n"
    # As long as one of them has a number, their sum has.
    assert int(host.cat(f"/a{path}")) == steps(2 * RATE)
    counters.command(host.state, "/a 0 mbm_total_bytes Unavailable")
    assert host.cat(f"/a{path}") == "Unavailable\n"
    assert counters.commands(host.state).splitlines() == [
        "/a 0 mbm_total_bytes Unavailable",
        "/a/mon_groups/m 0 mbm_total_bytes Unassigned",
    ]
    counters.command(host.state, "/a 0 mbm_total_bytes number")
    counters.command(host.state, "/a/mon_groups/m 0 mbm_total_bytes number")
    assert int(host.cat(f"/a{path}")) == steps(RATE) + steps(2 * RATE)


@pytest.mark.parametrize(
    "text", ["", "/ 0 mbm_total_bytes Broken", "/ 2 mbm_total_bytes Error", "/ 0 mbm Error"]
)
def test_counters_are_told_only_what_they_can_say(text: str) -> None:
    with pytest.raises(ValueError, match=r"never says|is not GROUP"):
        counters.command(lab().state, text)


def test_a_divided_cache_tells_its_parts_and_their_sum() -> None:
    divided = replace(SMALL, node_of=(0, 1, 2, 3, 0, 1, 2, 3))
    host = lab("7.2", divided)
    host.clock.forward(10.0)
    assert host.cat("/info/L3_MON/num_rmids") == "88\n"
    parts = [
        int(host.cat(f"/mon_data/mon_L3_01/mon_sub_L3_{node:02d}/mbm_total_bytes"))
        for node in (2, 3)
    ]
    assert parts == [steps(RATE * 10 * (3 + 7)), steps(RATE * 10 * (4 + 8))]
    assert int(host.cat("/mon_data/mon_L3_01/mbm_total_bytes")) == sum(parts)


# who may, and what there is


def test_everybody_may_read_and_only_root_may_change() -> None:
    host = two_groups("7.2")
    assert host.cat("/a/schemata", USER) == host.cat("/a/schemata")
    for call in (
        lambda: host.echo("L3:0=f", "/a/schemata", USER),
        lambda: host.mkdir("/c", USER),
        lambda: host.rmdir("/a", USER),
        lambda: host.rename("/a", "/c", USER),
        lambda: host.echo("1", "/size"),
        lambda: host.echo("ok", "/info/last_cmd_status"),
        lambda: host.echo("1", "/mon_data/mon_L3_00/llc_occupancy"),
    ):
        assert number(call) == errno.EACCES
    assert number(lambda: host.cat("/info")) == errno.EISDIR
    assert {host.tree.lookup(path).mode for path in ("/size", "/info/L3/cbm_mask")} == {0o444}
    assert {host.tree.lookup(path).mode for path in ("/tasks", "/a/mode")} == {0o644}
    assert host.tree.lookup("/a").mode == 0o755


def test_counters_can_not_be_assigned_on_intel() -> None:
    host = lab("7.2")
    path = "/info/L3_MON/mbm_assign_mode"
    host.echo("default", path)
    assert number(lambda: host.echo("mbm_event", path)) == errno.EINVAL
    assert host.status == "mbm_event mode is not supported"
    assert number(lambda: host.echo("x", path)) == errno.EINVAL
    assert host.status == "Unsupported assign mode"


def test_the_status_is_a_buffer_of_512_bytes() -> None:
    host = lab("6.1")
    for _ in range(40):
        assert number(lambda: host.echo("x", "/cpus_list")) == errno.EINVAL
    assert host.status == "\n".join(["Bad CPU list/mask"] * 28)
    assert len(host.status) < 512 < len(host.status) + len("\nBad CPU list/mask\n")


@BOTH
def test_options_that_nothing_here_has_are_refused(kernel: str) -> None:
    assert SMALL.allocation is not None
    for options, hardware in (
        (["cdpl2"], SMALL),
        (["cdp"], replace(SMALL, allocation=None)),
        (["cdp"], replace(SMALL, allocation=replace(SMALL.allocation, cdp=False))),
        (["mba_MBps"], replace(SMALL, monitoring=None)),
        (["mba_MBps"], replace(SMALL, bandwidth=None)),
    ):
        assert number(lambda o=options, h=hardware: lab(kernel, h, o)) == errno.EINVAL  # type: ignore[misc]
    nothing = replace(SMALL, allocation=None, bandwidth=None, monitoring=None)
    assert number(lambda: lab(kernel, nothing)) == errno.ENODEV


def topology() -> Topology:
    return build(scenario.load("default"), 16).topology


@pytest.mark.parametrize(
    ("name", "boot", "shown"),
    [
        ("skx-4", None, {"MB"}),
        ("skx-4", ["cmt", "mbmtotal", "mbmlocal", "l3cat", "mba"], {"MB", "L3", "L3_MON"}),
        ("skx-4", ["cmt"], {"MB", "L3_MON"}),
        ("skx-7", None, {"MB", "L3", "L3_MON"}),
        ("skx-7", [], {"MB", "L3_MON"}),
        ("icx", None, {"MB", "L3", "L3_MON"}),
    ],
)
def test_what_the_kernel_shows_of_a_machine(
    name: str, boot: list[str] | None, shown: set[str]
) -> None:
    hardware = hardware_of(machine.load(name).tables["resctrl"], topology(), boot=boot)
    host = lab("6.1", hardware)
    assert set(host.tree.names("/info")) == {*shown, "last_cmd_status"}
    assert ("mon_groups" in host.tree.names("/")) == ("L3_MON" in shown)
    host.mkdir("/a")
    if "L3" not in shown:
        # No room for a name that can't be there.
        assert host.cat("/schemata") == "MB:0=100;1=100\n"
        assert number(lambda: host.echo("exclusive", "/a/mode")) == errno.EINVAL
        assert host.status == "Cannot be exclusive without CAT/CDP"
    if "L3_MON" not in shown:
        assert number(lambda: host.mkdir("/a/x")) == errno.EPERM
    if boot == ["cmt"]:
        assert host.cat("/info/L3_MON/mon_features") == "llc_occupancy\n"
        assert host.tree.names("/a/mon_data/mon_L3_01") == ("llc_occupancy",)


def test_a_machine_s_clusters_divide_its_cores() -> None:
    table = machine.load("icx").tables["resctrl"]
    hardware = hardware_of(table, topology(), clusters=2)
    assert hardware.node_of == (0, 1, 0, 1, 2, 3, 2, 3) * 2
    with pytest.raises(ValueError, match="rdt="):
        hardware_of(table, topology(), boot=["l2cat"])
    with pytest.raises(ValueError, match=r"Linux 5\.4"):
        profile.load("5.4")
