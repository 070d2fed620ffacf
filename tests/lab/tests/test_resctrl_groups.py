"""Making, removing and renaming groups, and the files that are open meanwhile."""

from __future__ import annotations

import errno
import os

from tests.lab.tests.hosts import (
    BOTH,
    ROOT,
    lab,
    number,
    two_groups,
)


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
def test_where_no_group_can_be_created_or_removed(kernel: str) -> None:
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


def test_a_group_recreated_has_other_inodes_and_old_files_are_dead() -> None:
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
