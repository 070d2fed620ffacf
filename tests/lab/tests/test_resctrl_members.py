"""Which CPUs and tasks are in a group, and what moving them does to other groups."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
from dataclasses import replace

from tests.lab.resctrl.processes import ProcFolder, Task
from tests.lab.tests.hosts import (
    BOTH,
    ROOT,
    SMALL,
    USER,
    lab,
    number,
    two_groups,
)


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
