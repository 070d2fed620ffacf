"""The mounted tree as the gate sees it: its state, its rules, and what it never writes to."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tempfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from nftop.control.backend import AbsentError, LockedError, RefusedError
from nftop.control.rdt_limits import IoRule, LimitRule, MaskRule
from nftop.control.resctrl import writer as resctrl_module
from nftop.control.resctrl.operations import ResctrlStep
from nftop.control.resctrl.writer import Resctrl, open_resctrl, threads_of
from nftop.model.change import Cell
from nftop.sources.resctrl.files import is_held_by_others_only, shared_lock
from tests.sources.resctrl.trees import MOUNT, captured, group_files, plain, write


def mounted(root: Path, files: dict[str, str], options: str = "rw,relatime") -> Resctrl:
    write(root, files, options)
    (root / "proc/sys/kernel/random").mkdir(parents=True)
    (root / "proc/sys/kernel/random/boot_id").write_text("a-boot\n")
    return open_resctrl(root)


def cpu(number: int) -> Cell:
    return Cell("cpu", "", number=number)


def thread(root: Path, tid: int, started: int, process: int | None = None) -> Cell:
    folder = root / f"proc/{tid}"
    (folder / f"task/{tid}").mkdir(parents=True)
    fields = " ".join(["S", *["0"] * 18, str(started), "0"])
    (folder / "stat").write_text(f"{tid} (a) b) {fields}\n")
    (folder / "status").write_text(f"Name:\ta\nTgid:\t{process or tid}\n")
    return Cell("task", "", f"{tid}@{started}")


def test_the_state_is_flat(tmp_path: Path) -> None:
    files = plain() | group_files("vpp/mon_groups/m/") | {"vpp/mon_groups/m/cpus_list": "2"}
    state = mounted(tmp_path, files).state()
    assert state[cpu(0)] == state[cpu(7)] == "/"
    assert (state[cpu(1)], state[cpu(2)]) == ("vpp", "vpp/m")
    assert state[Cell("schemata", "vpp", "L3", 0)] == "f0"
    assert state[Cell("schemata", "vpp", "MB", 0)] == "50"
    assert state[Cell("mode", "/")] == "shareable"
    top = tmp_path / MOUNT
    assert state[Cell("group", "vpp")] == str((top / "vpp").stat().st_ino)
    assert state[Cell("monitor", "vpp", "m")] == str((top / "vpp/mon_groups/m").stat().st_ino)


@pytest.mark.parametrize("name", ["cpus_list", "schemata", "mode", "mon_groups"])
@pytest.mark.parametrize("group", ["", "vpp/"])
def test_what_can_not_be_read_is_not_empty(tmp_path: Path, group: str, name: str) -> None:
    """A list written from a CPU list that was not read would expel all that are in the group."""
    host = mounted(tmp_path, plain())
    path = tmp_path / MOUNT / group / name
    host.state()
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if name == "mon_groups":
        path.symlink_to(path)  # ELOOP: no error of a group that is gone
    else:
        path.mkdir()  # EISDIR
    with pytest.raises(OSError, match=f"can't be read as a whole: .*{name}"):
        host.state()
    with pytest.raises(OSError, match="as a whole"):
        host.tasks(["vpp"], ())


def test_a_pseudo_locked_group_has_no_cpus_of_its_own(tmp_path: Path) -> None:
    """The kernel shows those beside the cache, which are in other groups."""
    files = plain() | group_files("lock/")
    files |= {"lock/mode": "pseudo-locked", "lock/cpus_list": "0-7", "lock/schemata": "L3:0=3"}
    state = mounted(tmp_path, files).state()
    assert (state[cpu(0)], state[cpu(1)]) == ("/", "vpp")
    assert state[Cell("mode", "lock")] == "pseudo-locked"


def test_a_name_that_is_no_text_is_never_another_groups(tmp_path: Path) -> None:
    files = plain() | group_files("\\xff/") | {"\\xff/cpus_list": "0"}
    host = mounted(tmp_path, files)
    odd = Path(os.fsdecode(os.fsencode(tmp_path / MOUNT) + b"/\xff"))
    odd.mkdir()
    (odd / "cpus_list").write_text("3\n")
    state = host.state()
    assert state[cpu(0)] == "\\xff"
    assert state[cpu(3)] != "\\xff"
    with pytest.raises(RefusedError, match="no name of a group"):
        host.do(ResctrlStep("cpus", state[cpu(3)], cpus=frozenset({3})))


@pytest.mark.parametrize("name", ["../x", "..", ".", "a/b", "a\0b"])
def test_nothing_outside_the_mount_is_written(tmp_path: Path, name: str) -> None:
    host = mounted(tmp_path, plain())
    for step in (
        ResctrlStep("mkdir", name),
        ResctrlStep("rmdir", name),
        ResctrlStep("mkdir", "vpp", name),
    ):
        with pytest.raises(RefusedError):
            host.do(step)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["proc", "sys"]


def test_no_link_is_followed(tmp_path: Path) -> None:
    host = mounted(tmp_path, plain())
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / MOUNT / "vpp/cpus_list").unlink()
    (tmp_path / MOUNT / "vpp/cpus_list").symlink_to(victim)
    with pytest.raises(RefusedError, match="symbolic link"):
        host.do(ResctrlStep("cpus", "vpp", cpus=frozenset({1})))
    assert victim.read_text() == "precious"


def test_threads_are_detected_in_the_groups_they_are_in(tmp_path: Path) -> None:
    files = plain() | group_files("vpp/mon_groups/m/")
    files |= {"vpp/tasks": "10\n11", "vpp/mon_groups/m/tasks": "11"}
    host = mounted(tmp_path, files)
    cells = [thread(tmp_path, tid, 5) for tid in (10, 11, 12)]
    again, ended = Cell("task", "", "10@4"), Cell("task", "", "99@5")
    state = host.state([*cells, again, ended])
    assert [state[cell] for cell in cells] == ["vpp", "vpp/m", "/"]
    assert again not in state
    assert ended not in state
    assert host.tasks(["vpp"], ()) == {"10@5": "vpp", "11@5": "vpp/m"}
    assert host.tasks((), [11, 12, 99]) == {"11@5": "vpp/m", "12@5": "/"}


def test_a_number_that_is_used_again_is_another_thread(tmp_path: Path) -> None:
    host = mounted(tmp_path, plain())
    tasks = tmp_path / MOUNT / "vpp/tasks"
    now = thread(tmp_path, 10, 5)
    host.do(ResctrlStep("task", "vpp", task=Cell("task", "", "10@4")))
    assert tasks.read_text() == "\n"
    host.do(ResctrlStep("task", "vpp", task=now))
    assert tasks.read_text().startswith("10\n")


STEPS = {
    "mkdir": ResctrlStep("mkdir", "new"),
    "rmdir": ResctrlStep("rmdir", "vpp"),
    "schemata": ResctrlStep("schemata", "vpp", values={Cell("schemata", "vpp", "L3", 0): "f"}),
    "cpus": ResctrlStep("cpus", "vpp", cpus=frozenset({1})),
}


def no_such_process(*_: object) -> None:
    raise ProcessLookupError(errno.ESRCH, "No such process")


@pytest.mark.parametrize("operation", STEPS)
def test_no_such_process_is_an_error_of_all_but_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    host = mounted(tmp_path, plain())
    monkeypatch.setattr(resctrl_module, "_write", no_such_process)
    monkeypatch.setattr(Path, "mkdir", no_such_process)
    monkeypatch.setattr(Path, "rmdir", no_such_process)
    with pytest.raises(RefusedError, match="No such process"):
        host.do(STEPS[operation])


def test_no_such_process_is_an_error_of_a_thread_that_is_still_present(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, cell = mounted(tmp_path, plain()), thread(tmp_path, 10, 5)
    monkeypatch.setattr(resctrl_module, "_write", no_such_process)
    with pytest.raises(RefusedError, match="write '10' to task of vpp: No such process"):
        host.do(ResctrlStep("task", "vpp", task=cell))

    def ends(*_: object) -> None:
        shutil.rmtree(tmp_path / "proc/10")
        no_such_process()

    monkeypatch.setattr(resctrl_module, "_write", ends)
    host.do(ResctrlStep("task", "vpp", task=cell))


def test_threads_that_can_not_be_listed_have_not_ended(tmp_path: Path) -> None:
    thread(tmp_path, 10, 5)
    status = tmp_path / "proc/10/status"
    status.unlink()
    status.symlink_to(status)
    with pytest.raises(OSError, match="symbolic links"):
        threads_of(10, tmp_path)


def test_a_process_has_all_its_threads_and_a_thread_is_one(tmp_path: Path) -> None:
    thread(tmp_path, 10, 5)
    (tmp_path / "proc/10/task/11").mkdir()
    thread(tmp_path, 11, 5, process=10)
    assert threads_of(10, tmp_path) == (10, 11)
    assert threads_of(11, tmp_path) == (11,)
    assert threads_of(12, tmp_path) == ()


def test_the_rules_are_those_of_every_line(tmp_path: Path) -> None:
    files = plain() | {
        "info/L2/cbm_mask": "ff",
        "info/L2/min_cbm_bits": "0",
        "info/L2/num_closids": "4",
        "info/L3/min_cbm_bits": "2",
        "info/L3/sparse_masks": "1",
    }
    rules = mounted(tmp_path, files).rules()
    assert rules.masks == {"L3": MaskRule(12, 2, True, 0xC00), "L2": MaskRule(8)}
    assert rules.limit == LimitRule(10, 10, 100)
    assert rules.closids == 4


def test_amd_masks_may_have_gaps_and_limits_are_eighths(tmp_path: Path) -> None:
    host = mounted(tmp_path, plain())
    cpuinfo = tmp_path / "proc/cpuinfo"
    cpuinfo.write_text(cpuinfo.read_text().replace("GenuineIntel", "AuthenticAMD"))
    rules = host.rules()
    assert rules.masks["L3"].sparse
    assert rules.limit is not None
    assert (rules.limit.most, rules.limit.unit) == (2048, "GBps/8")


def test_no_limit_in_mbps_is_a_number_that_every_kernel_takes(tmp_path: Path) -> None:
    files = plain() | {"schemata": "    MB:0=4294967295;1=2000\n    L3:0=fff;1=fff"}
    host = mounted(tmp_path, files, "rw,mba_MBps")
    state = host.state()
    assert state[Cell("schemata", "/", "MB", 0)] == "4294967290"
    assert state[Cell("schemata", "/", "MB", 1)] == "2000"
    assert host.rules().limit == LimitRule(10, 10, 4294967290, "MBps")


@pytest.mark.parametrize("name", ["full", "l2cdp", "l2l3mb", "nol3.mbps", "nomb.cdp"])
def test_trees_of_real_hosts_have_rules_for_all_their_masks(name: str, tmp_path: Path) -> None:
    host = mounted(tmp_path, captured(name))
    rules = host.rules()
    for cell, value in host.state().items():
        if cell.kind == "schemata" and cell.name != "MB":
            assert int(value, 16) < 1 << rules.masks[cell.name].ways
        elif cell.kind == "schemata":
            assert rules.limit is not None


FIRST, ANOTHER = "pid:[4026531836]", "pid:[4026532000]"
ROOT, NOBODY, OF_NOBODY_AS_ROOT = "0\t0\t0\t0", "99\t99\t99\t99", "99\t0\t0\t0"


@pytest.mark.parametrize(
    ("uids", "locks", "namespace", "taken"),
    [
        (NOBODY, True, FIRST, True),
        (OF_NOBODY_AS_ROOT, True, FIRST, True),  # such as su, started with the open file
        (ROOT, False, FIRST, True),  # the lock's process is gone, or its file is on its way
        (ROOT, True, FIRST, False),
        (NOBODY, True, ANOTHER, False),  # root's processes of other namespaces are not seen
    ],
)
def test_a_lock_that_no_process_of_root_holds_does_not_keep_a_change_from_being_reverted(
    tmp_path: Path, uids: str, locks: bool, namespace: str, taken: bool
) -> None:
    host = mounted(tmp_path, plain())
    about = Path(host.mount.path).stat()
    file = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/77/fdinfo").mkdir(parents=True)
    (tmp_path / "proc/77/status").write_text(f"Name:\tUid:\t0\t0\nUid:\t{uids}\n")
    line = f"lock:\t1: FLOCK  ADVISORY  WRITE 4711 {file} 0 EOF\n" * locks
    (tmp_path / "proc/77/fdinfo/5").write_text(f"pos:\t0\nflags:\t0100000\n{line}")
    (tmp_path / "proc/self/ns").mkdir(parents=True, exist_ok=True)
    (tmp_path / "proc/self/ns/pid").symlink_to(namespace)
    expected = nullcontext() if taken else pytest.raises(LockedError)
    with shared_lock(host.mount.path), expected, host.lock(0):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="a process of another user")
@pytest.mark.parametrize("uid", [0, 65534])
def test_the_kernel_lists_a_lock_with_the_open_files_of_its_processes(uid: int) -> None:
    if str(Path("/proc/self/ns/pid").readlink()) != FIRST:
        pytest.skip("a pid namespace of its own")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with subprocess.Popen(
            ["flock", "--no-fork", folder, "sh", "-c", "echo; read line"],
            user=uid,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None and process.stdout.readline() == b"\n"
            assert is_held_by_others_only(Path("/"), folder) == (uid != 0)
            process.communicate(b"\n")


def test_a_held_lock_is_given_up_in_time(tmp_path: Path) -> None:
    host = mounted(tmp_path, plain())
    with shared_lock(host.mount.path) as lock:
        assert lock.held
        with pytest.raises(LockedError, match="has held resctrl's lock for 0 s"), host.lock(0):
            pass
    with host.lock(0):
        pass


def test_another_boot_is_another_identity(tmp_path: Path) -> None:
    host = mounted(tmp_path, plain())
    assert host.identity == host.identity
    before = host.identity
    assert before.split()[0] == "a-boot"
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("another-boot\n")
    assert host.identity != before


def test_another_mount_of_the_same_device_is_another_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to Linux 6.6 `info` has another inode, since 6.6 the file system another random id."""
    host = mounted(tmp_path, plain())
    before, info = host.identity, tmp_path / MOUNT / "info"
    info.rename(tmp_path / "info")
    assert host.identity != before
    info.mkdir()
    assert host.identity != before
    info.rmdir()
    (tmp_path / "info").rename(info)
    assert host.identity == before
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_fsid=1 << 63))
    assert host.identity != before


def test_without_resctrl_it_reports_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/mounts").write_text("proc /proc proc rw 0 0\n")
    (tmp_path / "proc/filesystems").write_text("nodev\tresctrl\n")
    with pytest.raises(AbsentError, match="mount -t resctrl"):
        open_resctrl(tmp_path)


IO = {"info/L3/io_alloc": "enabled", "info/L3/io_alloc_cbm": "0=c00;1=003"}
SWITCH = Cell("io_alloc", "", "L3")


def masks(line: str, *values: str) -> dict[Cell, str]:
    return {Cell("io_cbm", "", line, l3): value for l3, value in enumerate(values)}


def test_ways_of_io_are_cells_while_they_are_set(tmp_path: Path) -> None:
    none = mounted(tmp_path / "a", plain())
    assert not [cell for cell in none.state() if cell.kind in ("io_alloc", "io_cbm")]
    assert none.rules().io_alloc is None
    off = mounted(tmp_path / "b", plain() | {"info/L3/io_alloc": "disabled"})
    assert off.state()[SWITCH] == "disabled"
    on = mounted(tmp_path / "c", plain() | IO)
    state = on.state()
    assert {cell: state[cell] for cell in state if cell.kind in ("io_alloc", "io_cbm")} == {
        SWITCH: "enabled",
        **masks("L3", "c00", "3"),
    }
    # CDP has the same in both folders.
    files = {name.replace("info/L3/", "info/L3DATA/"): text for name, text in IO.items()}
    files |= {"info/L3CODE/cbm_mask": "fff", "info/L3DATA/cbm_mask": "fff"}
    cdp = {name: text for name, text in plain().items() if not name.startswith("info/L3/")}
    state = mounted(tmp_path / "d", cdp | files).state()
    assert masks("L3DATA", "c00", "3").items() <= state.items()


def test_ways_of_io_that_can_not_be_read_are_not_none(tmp_path: Path) -> None:
    host = mounted(tmp_path, plain() | IO | {"info/L3/io_alloc_cbm": "0=what"})
    with pytest.raises(OSError, match="io_alloc_cbm"):
        host.state()


def test_rules_of_io_know_the_class_and_its_group(tmp_path: Path) -> None:
    files = plain() | {"info/L3/io_alloc": "disabled", "info/MB/num_closids": "15"}
    files |= {"vpp/ctrl_hw_id": "14"}
    host = mounted(tmp_path / "a", files)
    assert host.rules().io_alloc == IoRule("L3", 14, "vpp")
    assert host.rules().closids == 15
    fewer = mounted(tmp_path / "b", files | {"info/MB/num_closids": "8"}).rules().io_alloc
    assert fewer is not None
    assert "8 in all resources" in fewer.problem
    on = mounted(tmp_path / "c", plain() | IO | {"info/MB/num_closids": "15"})
    assert on.rules().closids == 15, "that of I/O is one of them"


def test_writes_of_io(tmp_path: Path) -> None:
    host = mounted(tmp_path, plain() | IO)
    for step in (
        ResctrlStep("io_alloc", "/", values={SWITCH: "disabled"}),
        ResctrlStep("io_cbm", "/", values=masks("L3", "600", "f")),
    ):
        host.do(step)
    folder = tmp_path / MOUNT / "info/L3"
    assert (folder / "io_alloc").read_text().startswith("0\n")
    assert (folder / "io_alloc_cbm").read_text().startswith("0=600;1=f\n")
    (folder / "io_alloc_cbm").unlink()
    with pytest.raises(RefusedError, match="write '0=1' to info/L3/io_alloc_cbm"):
        host.do(ResctrlStep("io_cbm", "/", values=masks("L3", "1")))
