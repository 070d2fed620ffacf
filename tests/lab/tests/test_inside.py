"""What programs see inside: Linux' own tools, nftop, and the server's files through the kernel."""

from __future__ import annotations

import subprocess
import textwrap

import pytest

from tests.lab.tests.labs import answer, enter, needs_lab

pytestmark = needs_lab


def _inside(*arguments: str) -> str:
    done = enter(*arguments)
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


def test_a_file_is_opened_read_and_written_as_the_kernels_are() -> None:
    program = """
        def attempt(what, *arguments):
            try:
                return what(*arguments)
            except OSError as error:
                return errno.errorcode[error.errno]

        ctl = "/sys/fs/lab/live/ctl/"
        clock = os.open(ctl + "clock", os.O_RDWR | os.O_TRUNC)
        now = os.open(ctl + "now", os.O_RDONLY)
        first = os.pread(now, 99, 0)
        found = {
            "size": os.fstat(now).st_size,
            "nonsense": attempt(os.write, clock, b"nonsense"),
            "step": attempt(os.write, clock, b"step 1.5\\n"),
            "stepped": int(os.pread(now, 99, 0)) - int(first),
            "write now": attempt(os.open, ctl + "now", os.O_WRONLY),
            "ioctl": attempt(fcntl.ioctl, now, 0x2400),
            "create": attempt(os.open, ctl + "new", os.O_CREAT | os.O_WRONLY),
            "mkdir": attempt(os.mkdir, ctl + "new"),
            "unlink": attempt(os.unlink, ctl + "now"),
            "chmod": attempt(os.chmod, ctl + "now", 0o777),
            "absent": attempt(os.stat, ctl + "absent"),
            "static": attempt(os.open, "/sys/devices/system/cpu/present", os.O_WRONLY),
        }
        fcntl.flock(clock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        other = os.open(ctl + "clock", os.O_RDONLY)
        found["flock"] = attempt(fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.setuid(65534)
        found["as nobody"] = attempt(os.open, ctl + "clock", os.O_WRONLY)
        print(json.dumps(found))
    """
    assert answer(program, "--cpus", "4", "--freeze", "3") == {
        "size": 0,
        "nonsense": "EINVAL",
        "step": 9,
        "stepped": 1_500_000_000,
        "write now": "EACCES",
        "ioctl": "ENOTTY",
        "create": "EACCES",
        "mkdir": "EPERM",
        "unlink": "EPERM",
        "chmod": "EPERM",
        "absent": "ENOENT",
        "static": "EROFS",
        "flock": "EAGAIN",
        "as nobody": "EACCES",
    }


def test_sysctls_are_the_labs_own() -> None:
    program = """
        names = ("nmi_watchdog", "perf_event_paranoid")
        def read():
            return [int(open("/proc/sys/kernel/" + name).read()) for name in names]
        def write(name, text):
            try:
                with open("/proc/sys/kernel/" + name, "w") as file:
                    file.write(text)
            except OSError as error:
                return errno.errorcode[error.errno]
        found = [read(), write("nmi_watchdog", "0\\n"), write("perf_event_paranoid", "-1\\n")]
        print(json.dumps([*found, read(), write("nmi_watchdog", "2\\n"), read()]))
    """
    own = ("--watchdog", "on", "--paranoid", "4")
    changed = [0, -1]
    assert answer(program, "--cpus", "4", *own) == [[1, 4], None, None, changed, "EINVAL", changed]


def test_a_cpu_is_switched_off_and_on() -> None:
    program = """
        top = "/sys/devices/system/"
        def cat(path):
            return open(path).read().strip()
        def tell():
            return [
                cat(top + "cpu/online"), cat(top + "cpu/offline"), cat(top + "node/node0/cpulist"),
                cat(top + "cpu/cpu1/topology/thread_siblings_list"), cat(top + "cpu/smt/active"),
                cat("/sys/fs/resctrl/cpus_list"), sorted(os.listdir(top + "cpu/cpu9")),
                cat("/proc/cpuinfo").count("processor"), cat("/proc/stat").count("cpu"),
            ]
        def switch(cpu, word):
            try:
                with open(f"{top}cpu/cpu{cpu}/online", "w") as file:
                    file.write(word)
            except OSError as error:
                return errno.errorcode[error.errno]
        before = tell()
        codes = [switch(9, "0\\n"), switch(9, "0"), switch(9, "2"), switch(0, "0")]
        without = tell()
        codes += [switch(9, "1"), *(switch(cpu, "0") for cpu in (4, 5, 6, 7, 12, 13, 14))]
        codes.append(switch(15, "0"))
        print(json.dumps([codes, before, without, cat(top + "cpu/online")]))
    """
    codes, before, without, left = answer(program, "--cpus", "16")
    # CPU 0 has no such file, and a folder that none can be made in.
    assert codes == [None, None, "EINVAL", "EROFS", *[None] * 8, "EBUSY"]
    folders = ["cache", "cpufreq", "online", "thermal_throttle", "topology"]
    assert before == ["0-15", "", "0-3,8-11", "1,9", "1", "0-15", folders, 16, 17]
    some = "0-8,10-15"
    assert without == [some, "9", "0-3,8,10-11", "1", "1", some, ["cpufreq", "online"], 15, 16]
    assert left == "0-3,8-11,15"


def test_resctrl_is_mounted_unless_reported_otherwise() -> None:
    listing = (
        "--",
        "sh",
        "-c",
        "ls /sys/fs; cat /proc/mounts /proc/filesystems; ls /sys/fs/resctrl",
    )
    mounted, bare = (
        _inside("--cpus", "4", *option, *listing) for option in ((), ("--no-resctrl",))
    )
    line = "resctrl /sys/fs/resctrl resctrl rw,relatime 0 0\n"
    assert line in mounted
    assert line not in bare
    assert mounted.endswith("tasks\n")
    assert bare.endswith("nodev\tresctrl\n")
    assert "nftop-lab" not in mounted + bare
    # The rest of the folder is still there.
    real = subprocess.run(["ls", "/sys/fs"], capture_output=True, text=True, check=True).stdout
    names = sorted({*real.split(), "lab", "resctrl"})
    for text in (mounted, bare):
        assert sorted(text.splitlines()[: len(names)]) == names


def test_resctrl_is_mounted_and_unmounted_by_programs_as_the_kernels_is() -> None:
    script = """
        cd /
        mount -t resctrl -o cdp resctrl /sys/fs/resctrl && grep -o L3CODE /sys/fs/resctrl/schemata
        grep ^resctrl /proc/mounts
        mount -t resctrl resctrl /sys/fs/resctrl 2>/dev/null; echo $?
        umount /sys/fs/resctrl && ls /sys/fs/resctrl
        umount /sys/fs/resctrl 2>/dev/null; echo $?
        mount -t resctrl -o nonsense resctrl /sys/fs/resctrl 2>/dev/null; echo $?
        mount -t resctrl resctrl /nowhere 2>/dev/null; echo $?
        mount -t resctrl resctrl /sys/fs/resctrl && grep -o L3: /sys/fs/resctrl/schemata
    """
    host = ("--model", "skx-7", "--cpus", "4", "--no-resctrl")
    assert _inside(*host, "--", "sh", "-c", textwrap.dedent(script)).splitlines() == [
        "L3CODE",
        "resctrl /sys/fs/resctrl resctrl rw,relatime,cdp 0 0",
        "32",
        "32",
        "32",
        "32",
        "L3:",
    ]


_CALLS = """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        def called(result):
            return errno.errorcode[ctypes.get_errno()] if result < 0 else "done"
        def mount(target, options=None):
            return called(libc.mount(b"resctrl", os.fsencode(target), b"resctrl", 0, options))
        def umount(target):
            return called(libc.umount2(os.fsencode(target), 0))
        def shown():
            return [row for row in open("/proc/mounts") if row.startswith("resctrl")]
"""


def test_resctrl_is_mounted_wherever_a_path_leads() -> None:
    program = f"""{_CALLS}
        import tempfile
        top = "/sys/fs/bpf/../fuse/.."
        os.chdir("/sys/fs")
        found = [mount("resctrl"), shown(), umount(top + "/resctrl"), shown(), umount("resctrl")]
        folder = tempfile.mkdtemp(prefix="nftop lab ")
        link = folder + "/to"
        os.symlink("/dev/shm", link)
        found += [mount(link), shown(), mount("/sys/fs/resctrl"), umount("/sys/fs/resctrl")]
        found += [umount(link), shown(), mount("/nowhere"), umount("/nowhere")]
        os.unlink(link)
        os.mkdir(link)
        found += [mount(link), len(shown()[0].split()), umount(link)]
        os.rmdir(link)
        os.rmdir(folder)
        print(json.dumps(found))
    """
    assert answer(program, "--cpus", "4", "--no-resctrl") == [
        *("done", ["resctrl /sys/fs/resctrl resctrl rw,relatime 0 0\n"], "done", [], "EINVAL"),
        *("done", ["resctrl /dev/shm resctrl rw,relatime 0 0\n"], "EBUSY", "EINVAL"),
        *("done", [], "ENOENT", "ENOENT"),
        *("done", 6, "done"),
    ]


def test_resctrl_is_mounted_only_with_the_privilege() -> None:
    program = f"""{_CALLS}
        def as_another(become, what):
            end, told = os.pipe()
            if not os.fork():
                become()
                os.write(told, what("/sys/fs/resctrl").encode())
                os._exit(0)
            os.wait()
            return os.read(end, 99).decode()
        nobody = lambda: os.setuid(65534)
        other_root = lambda: libc.unshare(0x10000000)  # a user namespace of its own
        found = [as_another(become, umount) for become in (nobody, other_root)]
        found += [umount("/sys/fs/resctrl")]
        found += [as_another(become, mount) for become in (nobody, other_root)]
        print(json.dumps(found + [shown()]))
    """
    assert answer(program, "--cpus", "4") == ["EPERM", "EPERM", "done", "EPERM", "EPERM", []]


def test_odd_ways_to_mount() -> None:
    """An odd byte is no option; fsopen gives other file systems, but not resctrl."""
    program = f"""{_CALLS}
        found = [mount("/sys/fs/resctrl", b"cdp\\xff"), mount("/sys/fs/resctrl")]
        found += [called(libc.syscall(430, kind, 0)) for kind in (b"resctrl", b"tmpfs")]
        print(json.dumps(found))
    """
    wanted = ["EINVAL", "done", "ENOSYS", "done"]
    assert answer(program, "--cpus", "4", "--no-resctrl") == wanted


@pytest.mark.parametrize(
    ("options", "lines"),
    [((), {"MB"}), (("--rdt", "l3cat,cmt"), {"MB", "L3"}), (("--model", "icx"), {"MB", "L3"})],
)
def test_a_kernel_shows_what_it_hides_when_booted_so(
    options: tuple[str, ...], lines: set[str]
) -> None:
    text = _inside("--cpus", "4", *options, "--", "cat", "/sys/fs/resctrl/schemata")
    assert {line.partition(":")[0].strip() for line in text.splitlines()} == lines


def test_a_program_may_be_put_on_any_cpu_of_the_lab_and_on_no_other() -> None:
    assert _inside("--", "taskset", "--cpu-list", "60", "echo", "there") == "there\n"
    assert enter("--cpus", "60", "--", "taskset", "--cpu-list", "60", "true").returncode == 1
