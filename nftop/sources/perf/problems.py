"""Reasons why counters are absent, with fixes.

The errors are those of perf_event_open(2), in their meaning for counters of whole CPUs.
"""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

from nftop.model.check import Check
from nftop.model.missing import Missing, Reason
from nftop.model.struct import dataclass
from nftop.uarch import table as uarch_table


@dataclass(frozen=True, slots=True)
class CounterProblem:
    """Why a counter is absent, and the command that mends it; "" if none does."""

    reason: Reason
    sentence: str
    fix: str = ""

    @property
    def missing(self) -> Missing:
        return Missing(self.reason, self.sentence)

    def check(self, name: str, where: str = "") -> Check:
        return Check(name, self.reason, self.sentence + where, self.fix)


QUIET = CounterProblem(Reason.SOURCE, "left out by --quiet-cpus or --cpu-list")
NO_CPU = CounterProblem(Reason.SOURCE, "none of the requested CPUs is online")
CAME_BACK = CounterProblem(
    Reason.RESET, "the CPU went offline and came back: counting starts again"
)
DOES_NOT_FIT = CounterProblem(
    Reason.HARDWARE, "this CPU has too few counters for it and the others of the group"
)
LEVEL_1 = CounterProblem(Reason.SOURCE, "--tma-level 1: level 2 is not counted")
NOT_LARGEST = CounterProblem(Reason.SOURCE, uarch_table.NOT_LARGEST)
NO_EVENT = CounterProblem(Reason.HARDWARE, "this CPU or kernel has no such event")
NO_REGISTER = CounterProblem(
    Reason.HARDWARE,
    "the register that the event needs can't be accessed here; guests often lack it",
)
REGISTER_IGNORED = CounterProblem(
    Reason.HARDWARE,
    "this kernel does not set the register that the event needs (config1), so it would count "
    "something else; a later one sets it (UOPS_RETIRED.MS of Sapphire Rapids: Linux 5.14)",
)
NOT_IN_GROUP = CounterProblem(Reason.SOURCE, "the counter group in use does not count it")
STALLED = CounterProblem(
    Reason.WARMING, "the counter group did not run; the next tick counts with a smaller one"
)

_GUEST = "; guests have no PMU unless the hypervisor offers a virtual one (QEMU: -cpu host,pmu=on)"
_ROOT_FIX = "sudo nftop"
# The other users of the PMU: perf, a profiler; by registers, as pcm.
FIND_OTHER = "sudo find /proc -maxdepth 3 -path '*/fd/*' -lname '*perf_event*' -o -lname '*/msr'"
_FILES_FIX = "sudo sh -c 'ulimit -n 65536 && exec nftop'"

# In sentences, {paranoid} and {files} stand for what the host says.
_NOT_ALLOWED = (
    "counting on whole CPUs needs CAP_PERFMON (`sudo nftop`) or kernel.perf_event_paranoid at 0 "
    "or below; it is {paranoid}"
)
_FORBIDDEN = (
    "perf_event_open is forbidden here: CAP_PERFMON is missing (`sudo nftop`), or a container's "
    "seccomp profile, a security module or lockdown forbids it (--cap-add PERFMON and a profile "
    "that allows it help); kernel.perf_event_paranoid is {paranoid}"
)
_NO_PMU = (
    "; IPC, GHz and top-down are not to be had as root either: the kernel lists no PMU of CPUs, "
    "and guests have none unless the hypervisor offers a virtual one"
)
# Names of PMUs of CPUs: cpu, cpu_core, cpu_atom, armv8_pmuv3_0, apple_icestorm_pmu.
_CPU_PMUS = ("cpu", "arm", "apple", "riscv")
_TOO_MANY_FILES = (
    "the limit of {files} open files is reached, and counters take one per CPU and event: raise "
    "`ulimit -n` (systemd: LimitNOFILE)"
)
_BY_ERRNO: dict[int, tuple[Reason, str, str]] = {
    errno.EACCES: (Reason.PERMISSION, _NOT_ALLOWED, _ROOT_FIX),
    errno.EPERM: (Reason.PERMISSION, _FORBIDDEN, _ROOT_FIX),
    errno.ENOENT: (Reason.HARDWARE, f"this CPU or kernel has no such event{_GUEST}", ""),
    errno.EOPNOTSUPP: (Reason.HARDWARE, f"this CPU's PMU can't count it{_GUEST}", ""),
    errno.ENODEV: (Reason.HARDWARE, f"this CPU lacks what the event needs{_GUEST}", ""),
    errno.ENXIO: (Reason.HARDWARE, "the PMU of this event has gone", ""),
    errno.ENOSYS: (Reason.HARDWARE, "this kernel has no perf_event_open that nftop knows", ""),
    errno.E2BIG: (Reason.HARDWARE, "this kernel is too old for the event's configuration", ""),
    errno.EINVAL: (Reason.HARDWARE, "the kernel refuses the event, or the group with it", ""),
    errno.EBUSY: (Reason.TAKEN, "another program has exclusive use of the PMU", FIND_OTHER),
    errno.ENOSPC: (Reason.TAKEN, "all counters of this kind are in use", FIND_OTHER),
    errno.EMFILE: (Reason.ERROR, _TOO_MANY_FILES, _FILES_FIX),
    errno.ENFILE: (
        Reason.ERROR,
        "the host's limit of open files (fs.file-max) is reached",
        "sudo sysctl fs.file-max=$((2 * $(cat /proc/sys/fs/file-max)))",
    ),
    errno.ESRCH: (Reason.SOURCE, "what was to be counted has ended", ""),
}


def explain(code: int, root: Path = Path("/")) -> CounterProblem:
    """The problem behind an errno of perf_event_open, ioctl or read."""
    if code not in _BY_ERRNO:
        return CounterProblem(Reason.ERROR, f"the kernel answered: {os.strerror(code)}")
    reason, sentence, fix = _BY_ERRNO[code]
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    paranoid = sysctl(root, "perf_event_paranoid") if "{paranoid}" in sentence else ""
    if reason is Reason.PERMISSION and not _has_cpu_pmu(root):
        sentence += _NO_PMU
    return CounterProblem(reason, sentence.format(paranoid=paranoid, files=files), fix)


def _has_cpu_pmu(root: Path) -> bool:
    """Whether the kernel lists a PMU of CPUs; True where its list can't be read.

    The kernel checks the privilege first, so that without it the errno does not tell.
    """
    try:
        names = [item.name for item in (root / "sys/bus/event_source/devices").iterdir()]
    except OSError:
        return True
    return any(name.startswith(_CPU_PMUS) for name in names)


def never_ran(root: Path = Path("/"), *, fits_with_watchdog: bool = False) -> CounterProblem:
    """A group that the kernel accepted and never put on the counters.

    The usual holder is the NMI watchdog, whose pinned cycles event the kernel does not consider
    when it accepts a group. A group that fits with it is blocked by another program.
    """
    watchdog = sysctl(root, "nmi_watchdog") == "1"
    holder, fix = "another program holds a counter", FIND_OTHER
    if watchdog and fits_with_watchdog:
        holder += ", besides the NMI watchdog"
    elif watchdog:
        holder, fix = "the NMI watchdog holds a counter", "sudo sysctl kernel.nmi_watchdog=0"
    sentence = f"the kernel accepted the group but never ran it: {holder}"
    return CounterProblem(Reason.TAKEN, sentence, fix)


def sysctl(root: Path, name: str) -> str:
    """A value of /proc/sys/kernel, `unknown` where it can't be read."""
    try:
        return (root / "proc/sys/kernel" / name).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return "unknown"
