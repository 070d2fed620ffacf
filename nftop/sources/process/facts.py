"""What an operator looks up about one process: command line, user, cgroup, nice value, start.

Reading a command line makes the kernel lock the process' memory map for a moment, so this is done
for the processes of one selected CPU, once each, and not for every process of the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from nftop.model.ids import Cpu
from nftop.model.sample import ProcessFacts
from nftop.sources.host.sysfs import read_up_to
from nftop.sources.trust.trust import user_name

FactsReader: TypeAlias = Callable[[int, Cpu], ProcessFacts | None]

_COMMAND_CHARACTERS = 512
_CGROUP_BYTES = 4096
_CGROUP_V2 = "0::"  # cgroups(7), /proc/PID/cgroup: the line of the unified hierarchy


def process_facts(pid: int, cpu: Cpu) -> ProcessFacts | None:
    """Facts of a process of this host; None if it has ended. A fact that can't be read is empty.

    `cpu` is the CPU for which it is described.
    """
    import psutil  # noqa: PLC0415 - needed only once a CPU is selected, and slow to import

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            facts = process.as_dict(["cmdline", "uids", "nice", "create_time"])
    except psutil.NoSuchProcess:
        return None
    return ProcessFacts(
        pid=pid,
        cpu=cpu,
        command=" ".join(facts["cmdline"] or ())[:_COMMAND_CHARACTERS],
        user="" if facts["uids"] is None else user_name(facts["uids"].real),
        cgroup=_cgroup(pid),
        nice_value=facts["nice"],
        started_s=facts["create_time"],
    )


def _cgroup(pid: int) -> str:
    try:
        lines = read_up_to(f"/proc/{pid}/cgroup", _CGROUP_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    paths = [line for line in lines.splitlines() if line.startswith(_CGROUP_V2)]
    return paths[0].removeprefix(_CGROUP_V2) if paths else ""
