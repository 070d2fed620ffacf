"""What an operator looks up about one process: command line, user, cgroup, nice value, start.

Reading a command line or the memory by node makes the kernel lock the process' memory map for a
moment, so this is done for the processes of one selected CPU, or of an incident, once each.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from nftop.model.ids import Cpu
from nftop.model.sample import ProcessFacts
from nftop.model.struct import replace
from nftop.sources.host.sysfs import read_in_time, read_up_to, writable_name
from nftop.sources.trust.ownership import user_name

FactsReader: TypeAlias = Callable[[int, Cpu], ProcessFacts | None]
# The last: whether to read its memory by node.
CulpritReader: TypeAlias = Callable[[int, Cpu, bool], ProcessFacts | None]

_COMMAND_CHARACTERS, _COMM_CHARACTERS = 512, 15
_COMMAND_BYTES = 4 * _COMMAND_CHARACTERS
_CGROUP_BYTES = 16_384
_NUMA_BYTES = 1 << 20
_CGROUP_V2 = "0::"  # cgroups(7), /proc/PID/cgroup: the line of the unified hierarchy


def process_facts(pid: int, cpu: Cpu) -> ProcessFacts | None:
    """Facts of a process of this host; None if it has ended. A fact that can't be read is empty.

    `cpu` is the CPU for which it is described.
    """
    facts = _read(pid)
    if facts is None:
        return None
    command = _arguments(pid).replace("\0", " ").rstrip()
    return replace(facts, cpu=cpu, command=command[:_COMMAND_CHARACTERS])


def _arguments(pid: int) -> str:
    """Its arguments, each with a NUL behind it; bytes that are no UTF-8 are escaped."""
    with contextlib.suppress(OSError):
        return writable_name(os.fsdecode(read_in_time(f"/proc/{pid}/cmdline", _COMMAND_BYTES)))
    return ""


def culprit_facts(pid: int, cpu: Cpu, memory: bool) -> ProcessFacts | None:  # noqa: FBT001 - as called
    """Facts of a process that harms others or is harmed, without its command line.

    With `memory` also its memory by NUMA node.
    """
    facts = _read(pid)
    if facts is None:
        return None
    nodes = node_bytes(read_text_of(pid, "numa_maps", _NUMA_BYTES)) if memory else ()
    return replace(facts, cpu=cpu, node_bytes=nodes)


def _read(pid: int) -> ProcessFacts | None:
    """Facts of a process; None if it has ended."""
    import psutil  # noqa: PLC0415 - needed only once a CPU is selected, and slow to import

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            known = process.as_dict(["uids", "nice", "create_time"])
            comm = read_up_to(f"/proc/{pid}/comm", 2 * _COMM_CHARACTERS)
    except (psutil.NoSuchProcess, OSError):
        return None
    name = writable_name(os.fsdecode(comm.removesuffix(b"\n")))
    if len(comm) > _COMM_CHARACTERS:  # the kernel cuts it off
        program = _arguments(pid).partition("\0")[0].rpartition("/")[2]
        name = program if program.startswith(name) else name
    cgroups = read_text_of(pid, "cgroup", _CGROUP_BYTES)
    return ProcessFacts(
        pid=pid,
        cpu=Cpu(0),
        command="",
        user="" if known["uids"] is None else user_name(known["uids"].real),
        cgroup=_unified(cgroups),
        nice_value=known["nice"],
        started_s=known["create_time"],
        name=name,
        container=container_of(cgroups),
    )


def read_text_of(pid: int, name: str, most_bytes: int) -> str:
    """A file of a process; "" if it can't be read or is longer."""
    try:
        read = read_in_time if name == "numa_maps" else read_up_to
        data = read(f"/proc/{pid}/{name}", most_bytes + 1)
    except OSError:
        return ""
    return "" if len(data) > most_bytes else data.decode("utf-8", "replace")


def _unified(cgroups: str) -> str:
    paths = [line for line in cgroups.splitlines() if line.startswith(_CGROUP_V2)]
    return paths[0].removeprefix(_CGROUP_V2) if paths else ""


# Names of control groups. Docker: `docker-ID.scope` with the systemd driver, `/docker/ID` else;
# containerd `cri-containerd-ID.scope`, CRI-O `crio-ID.scope`, Podman `libpod-ID.scope`. Kubernetes:
# `kubepods-burstable-podUID.slice`, or `/kubepods/burstable/podUID`, a UID's `-` as `_` with
# systemd. libvirt: `machine-qemu\x2dNUMBER\x2dNAME.scope` (virSystemdMakeScopeName). LXC:
# `lxc.payload.NAME`. Else the unit: systemd.special(7).
_POD = re.compile(r"[-/]pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f_-]{22})")
_CONTAINER = re.compile(
    r"(?:^|/)(docker|cri-containerd|crio|libpod|nerdctl)-(?:conmon-)?([0-9a-f]{64})\.scope"
)
_BARE_CONTAINER = re.compile(
    r"(?:/(docker|libpod_parent|containerd|default|k8s\.io))?/([0-9a-f]{64})"
)
_MACHINE = re.compile(r"/machine-([a-z]+)\\x2d(?:\d+\\x2d)?([^/\n]+?)\.scope")
_LXC = re.compile(r"/lxc(?:\.payload)?[./]([^/\n]+)")
# The first unit below the slices: what is below it may be delegated to a user.
_SYSTEM_UNIT = re.compile(r"/system\.slice/(?:[^/]+\.slice/)*([^/]+\.(?:service|scope))(?:/|$)")
_SERVICE = re.compile(r"/system\.slice/(?:[^/]+\.slice/)*([^/]+)\.service/")
_RUNTIMES = frozenset({"containerd", "crio", "docker", "k3s", "k3s-agent", "kubelet", "podman"})
_UNIT = re.compile(r"[^/]+\.(?:service|scope)")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
_SHORT = 12  # characters of an id, as `docker ps` shows it
_MOST_CHARACTERS = 64


def container_of(cgroups: str) -> str:
    """Container, pod, virtual machine or unit that /proc/PID/cgroup names; "" if none.

    `docker 1f2e3d4c5b6a`, `pod 0f1e2d3c containerd 1f2e3d4c5b6a`, `vm gw1`, `sshd.service`. What
    is below user.slice, which its user can name as another's container, begins with `user`; what is
    below a service is that service. A unit elsewhere outside system.slice is `unit NAME`. Names of
    units keep systemd's escapes.
    """
    paths = list(_paths(cgroups))
    named = (
        f"user {name}" if path.startswith("/user.slice/") else name
        for parse in (_pod_or_container, _vm, _unit)
        for path in paths
        if (parse is _unit or not _is_delegated(path)) and (name := parse(path))
    )
    return next(named, "")[:_MOST_CHARACTERS]


def _is_delegated(path: str) -> bool:
    """Whether it is below a service that may name what it likes there, and runs no containers."""
    service = _SERVICE.match(path)
    return service is not None and service[1] not in _RUNTIMES


def _paths(cgroups: str) -> Iterator[str]:
    """Paths of the unified hierarchy, of systemd's own, and of the others, in this order."""
    lines = [line.split(":", 2) for line in cgroups.splitlines() if line.count(":") >= 2]
    for line in sorted(lines, key=lambda item: (item[1] != "", item[1] != "name=systemd")):
        if line[2] not in ("", "/"):
            yield line[2]


def _pod_or_container(path: str) -> str:
    pod, container = _POD.search(path), _CONTAINER.search(path)
    words = [f"pod {pod[1][:8]}"] if pod else []
    if container:
        runtime = container[1].removeprefix("cri-")
        words.append(f"{runtime} {container[2][:_SHORT]}")
    elif bare := _BARE_CONTAINER.search(path):
        runtime = bare[1] if bare[1] in ("docker", "containerd") else "container"
        words.append(f"{runtime} {bare[2][:_SHORT]}")
    return " ".join(words)


def _vm(path: str) -> str:
    if machine := _MACHINE.search(path):
        name = _ESCAPED.sub(lambda hit: chr(int(hit[1], 16)), machine[2])
        return f"{'vm' if machine[1] == 'qemu' else machine[1]} {name}"
    lxc = _LXC.search(path)
    return f"lxc {lxc[1]}" if lxc else ""


def _unit(path: str) -> str:
    if system := _SYSTEM_UNIT.match(path):
        return system[1]
    units = _UNIT.findall(path)
    kind = "" if path.startswith("/user.slice/") else "unit "
    return f"{kind}{units[-1]}" if units else ""


_NODE = re.compile(r"\bN(\d{1,4})=(\d{1,18})\b")
_PAGE = re.compile(r"\bkernelpagesize_kB=(\d{1,9})\b")
_HUGE_KB = 2048


def node_bytes(numa_maps: str) -> tuple[tuple[int, int], ...]:
    """Memory by NUMA node from /proc/PID/numa_maps: node and bytes, ascending.

    Only huge pages if it has any: packet buffers are in these. Source: proc(5).
    """
    small: dict[int, int] = {}
    huge: dict[int, int] = {}
    for line in numa_maps.splitlines():
        page = _PAGE.search(line)
        page_kb = int(page[1]) if page else 4
        into = huge if page_kb >= _HUGE_KB else small
        for node, pages in _NODE.findall(line):
            into[int(node)] = into.get(int(node), 0) + int(pages) * page_kb * 1024
    return tuple(sorted((huge or small).items()))
