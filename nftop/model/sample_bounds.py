"""Bounds of the numbers and lengths in a sample, from what hardware, Linux and NFs can give.

Recordings and peers are untrusted: no number beyond its bound may allocate, loop or shift. `check`
runs on every decoded record. Cumulative counters need no bound: nothing is sized by them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import is_dataclass
from typing import Any

import numpy as np

from nftop.model.rdt.masks import MAX_WAYS
from nftop.model.struct import dataclass, field_names


class BoundsError(ValueError):
    """A value is beyond its bound; the text names the field."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Least and greatest number in a field, and its maximum number of values.

    `source` states where the bound comes from.
    """

    least: int
    most: int
    source: str
    max_length: int | None = None

    def of(self, max_length: int) -> Bound:
        """The same bound for a field of at most `max_length` values."""
        return Bound(self.least, self.most, self.source, max_length)


def _up_to(most: int, source: str) -> Bound:
    return Bound(0, most, source)


def _rows(max_length: int, source: str) -> Bound:
    """Bound of a field of any numbers, or of records with bounds of their own."""
    return Bound(-(1 << 63), 1 << 64, source, max_length)


MAX_CPUS = 1 << 13
MAX_TASKS = 1 << 22
MAX_CLASSES = 1 << 10
MAX_PORTS = 1 << 16
_NR_CPUS = "Linux, arch/*/Kconfig: NR_CPUS is at most 8192; numbers of possible CPUs have gaps"
CPU = _up_to((1 << 14) - 1, _NR_CPUS)
# The kernel's ids of packages, dies, nodes and caches are those of ACPI and CPUID, with gaps.
KERNEL_ID = Bound(-1, (1 << 32) - 1, "Linux, Documentation/ABI: ids of CPU topology are 32 bits")
NODE = Bound(-1, 1023, "Linux, CONFIG_NODES_SHIFT is at most 10")
TASK = _up_to(MAX_TASKS, "Linux, include/linux/threads.h: PID_MAX_LIMIT")
WAYS = Bound(1, MAX_WAYS, "Intel SDM 3, CPUID.10H.1:EAX[4:0]; resctrl keeps masks in 32 bits")
CACHE_WAYS = _up_to(1 << 10, "Intel SDM 2, CPUID.04H:EBX[31:22], ways of associativity")
CLOS = _up_to((1 << 16) - 1, "Intel SDM 3, CPUID.10H.1:EDX[15:0], the highest class of service")
RMID = _up_to((1 << 32) - 1, "Intel SDM 3, CPUID.0FH.0:EBX, the highest RMID")
BYTES = _up_to(1 << 62, "64-bit physical memory")
HZ = _up_to(100_000_000_000, "Linux keeps kHz in 32 bits; no clock is above 100 GHz")
USER_HZ = Bound(1, 100_000, "proc(5), sysconf(_SC_CLK_TCK): 100, 1024 on some architectures")
LCORE = Bound(-1, (1 << 16) - 1, "DPDK, config/rte_config.h: RTE_MAX_LCORE; 0xffff is any")
PORT = _up_to(MAX_PORTS - 1, "DPDK: port ids are 16 bits")
QUEUE = _up_to(MAX_PORTS - 1, "DPDK and OVS: queue ids are 16 bits")
GROUP = _up_to(1 << 12, "a counter group has one counter of a CPU at least: events of the table")
EVENTS = 1 << 12
MEGABYTES = _up_to((1 << 32) - 1, "Linux, resctrl: limits on bandwidth are 32 bits")
VPP_THREADS = 1 << 12
VPP_ROWS = 1 << 16
VPP_ERRORS = 1 << 12
TEXTS = 1 << 16
SMT_THREADS = 1 << 8  # 8 at most in hardware; hypervisors give whole sockets as one core

_VPP = "VPP, src/vlib/threads.h: VLIB_MAX_CPUS is 256"
_VPP_ERRORS = "VPP has some 3000 error counters with every plugin, of which dozens ever count"
_EVENT_ROWS = "events of a CPU's table: below 1000 for the largest"
_PCI = "PCI: 65536 functions to a segment; hosts have some hundreds"
_L3 = "Linux, CPU topology: a cache has a CPU at least"
_RESCTRL = "resctrl: a control group has a class of service (CLOSID)"

BOUNDS: Mapping[str, Mapping[str, Bound]] = {
    "CpuInfo": {
        "cpu": CPU, "core": CPU, "package": KERNEL_ID, "die": KERNEL_ID, "l3": KERNEL_ID,
        "node": NODE, "siblings": CPU.of(SMT_THREADS),
    },
    "L3Cache": {
        "id": KERNEL_ID, "size_bytes": BYTES, "ways": CACHE_WAYS, "cpus": CPU.of(MAX_CPUS),
    },
    "NicSlot": {"node": NODE},
    "Capacity": {"nic_slots": _rows(1 << 12, "a network device each, more than PCIe has")},
    "Topology": {
        "cpus": _rows(MAX_CPUS, _NR_CPUS), "l3": _rows(MAX_CPUS, _L3),
        "notes": _rows(TEXTS, "a sentence for each file at most"),
    },
    "CacheDomain": {
        "l3": KERNEL_ID, "ways": WAYS, "size_bytes": BYTES, "parts": NODE.of(1024),
        "read_on": CPU, "usage": _rows(MAX_WAYS, WAYS.source),
    },
    "GroupCache": {"l3": KERNEL_ID, "mba": MEGABYTES},
    "L2Mask": {"l2": KERNEL_ID},
    "Metered": {"l3": KERNEL_ID},
    "MonitoringGroup": {
        "rmid": RMID, "cpus": CPU.of(MAX_CPUS), "caches": _rows(MAX_CPUS, _L3),
        "tasks": TASK.of(MAX_TASKS),
    },
    "ResctrlGroup": {
        "clos": CLOS, "rmid": RMID, "cpus": CPU.of(MAX_CPUS), "caches": _rows(MAX_CPUS, _L3),
        "tasks": TASK.of(MAX_TASKS), "l2": _rows(MAX_CPUS, _L3),
        "monitors": _rows(TEXTS, RMID.source),
    },
    "Limits": {
        "closids": CLOS, "rmids": RMID, "min_bits": _up_to(MAX_WAYS, WAYS.source),
        "mba_least": MEGABYTES, "mba_step": MEGABYTES,
    },
    "ResctrlTable": {
        "groups": _rows(MAX_CLASSES, _RESCTRL), "domains": _rows(MAX_CPUS, _L3),
        "notes": _rows(TEXTS, "a sentence for each file at most"),
    },
    "CounterTable": {
        "cpus": CPU.of(MAX_CPUS), "events": _rows(EVENTS, _EVENT_ROWS), "group": GROUP.of(EVENTS),
        "reasons": _rows(1 << 24, _NR_CPUS), "turns": GROUP,
    },
    "CpuTimes": {
        "cpus": CPU.of(MAX_CPUS), "fields": _rows(64, "proc(5), /proc/stat: 10 columns"),
        "ticks_per_s": USER_HZ,
    },
    "ThreadRow": {
        "pid": TASK, "tid": TASK, "role_index": KERNEL_ID, "allowed": CPU.of(MAX_CPUS),
        "last_cpu": CPU,
    },
    "CpuUse": {"cpu": CPU, "pid": TASK},
    "ProcessFacts": {"pid": TASK, "cpu": CPU, "nice_value": Bound(-20, 19, "setpriority(2)")},
    "ThreadTable": {
        "threads": _rows(MAX_TASKS, TASK.source), "hidden": TASK,
        "facts": _rows(TEXTS, TASK.source),
        "culprits": _rows(TEXTS, TASK.source),
        "uses": _rows(TEXTS, TASK.source),
    },
    "DpdkLcore": {"lcore": LCORE, "cpus": CPU.of(MAX_CPUS)},
    "DpdkPort": {
        "port": PORT, "rx_queues": QUEUE, "rx_queue_packets": _rows(MAX_PORTS, QUEUE.source),
    },
    "DpdkApp": {
        "pid": TASK, "ports": _rows(MAX_PORTS, PORT.source),
        "lcores": _rows(MAX_PORTS, LCORE.source),
    },
    "DpdkTable": {"apps": _rows(TEXTS, TASK.source)},
    "OvsTable": {"switches": _rows(TEXTS, TASK.source)},
    "VppTable": {"instances": _rows(TEXTS, TASK.source)},
    "OvsQueue": {"queue": QUEUE},
    "OvsPmd": {"core": CPU, "numa": NODE, "queues": _rows(MAX_PORTS, QUEUE.source)},
    "OvsSwitch": {"pid": TASK, "pmds": _rows(MAX_CPUS, "a PMD thread is bound to a CPU")},
    "VppThread": {"index": _up_to(VPP_THREADS, _VPP), "cpu": CPU, "rx_queues": QUEUE},
    "VppInterfaces": {"names": _rows(VPP_ROWS, "VPP: hardware interfaces in its segment")},
    "VppNodes": {"names": _rows(VPP_ROWS, "VPP: graph nodes; some 2000 with every plugin")},
    "VppErrors": {
        "nodes": _rows(VPP_ERRORS, _VPP_ERRORS), "names": _rows(VPP_ERRORS, _VPP_ERRORS),
    },
    "VppInstance": {"pid": TASK, "threads": _rows(VPP_THREADS, _VPP)},
    "PcmTable": {
        "cpus": CPU.of(MAX_CPUS), "cores": CPU.of(MAX_CPUS), "packages": CPU.of(MAX_CPUS),
        "sockets": CPU.of(MAX_CPUS), "links": CPU.of(MAX_CPUS),
    },
    "UncoreTable": {
        "events": _rows(EVENTS, _EVENT_ROWS), "packages": KERNEL_ID,
        "event": _up_to(EVENTS, _EVENT_ROWS),
    },
    "RootPort": {
        "package": KERNEL_ID, "stack": KERNEL_ID, "number": KERNEL_ID,
        "devices": _rows(1 << 16, _PCI), "others": _up_to(1 << 16, _PCI),
    },
    "PcieDevice": {"interfaces": _rows(1 << 16, "Linux: ifindex; some thousands")},
    "PcieTable": {"ports": _rows(1 << 16, _PCI)},
    "Interface": {"node": NODE, "owner": TASK},
    "NetdevTable": {
        "cpus": CPU.of(MAX_CPUS), "interfaces": _rows(1 << 16, "Linux: ifindex; some thousands"),
    },
    "CpuFrequency": {
        "cpu": CPU, "policy": CPU, "together": CPU.of(MAX_CPUS), "min_hz": HZ, "max_hz": HZ,
        "hardware_min_hz": HZ, "hardware_max_hz": HZ, "base_hz": HZ,
    },
    "UncoreLimits": {"package": KERNEL_ID, "die": KERNEL_ID, "min_hz": HZ, "max_hz": HZ},
    "SstPackage": {
        "package": KERNEL_ID, "die": KERNEL_ID, "level": _up_to(1 << 8, "SST-PP levels"),
        "bf_high": CPU.of(MAX_CPUS), "bf_high_hz": HZ, "bf_low_hz": HZ,
    },
    "SstState": {
        "packages": _rows(MAX_CPUS, _NR_CPUS),
        "cp_class": _up_to(CPU.most, "by CPU, SST-CP classes 0 to 3"),
    },
    "Keeper": {"pid": TASK},
    "CpufreqTable": {
        "cpus": _rows(MAX_CPUS, _NR_CPUS), "without": CPU.of(MAX_CPUS),
        "uncore": _rows(MAX_CPUS, _NR_CPUS),
        "keepers": _rows(1 << 10, "one for each program known"),
    },
    "SelfUse": {"affinity": CPU.of(MAX_CPUS)},
    "CoreBaseline": {"cpu": CPU},
    "NfBaseline": {"pid": TASK, "cores": _rows(MAX_CPUS, _NR_CPUS)},
    "Baselines": {"nfs": _rows(TEXTS, TASK.source)},
}  # fmt: skip

_INTEGERS = frozenset({int})


def check(record: str, field: str, values: Sequence[Any]) -> None:
    """Compare the values of one field in some records with its bound, if it has one.

    Raises:
        BoundsError: a value is beyond the bound.
    """
    bound = BOUNDS.get(record, {}).get(field)
    if bound is None:
        return
    if values and _INTEGERS.issuperset(map(type, values)):
        extremes: tuple[int | float, ...] = (min(values), max(values))
    else:
        distinct = {id(value): value for value in values}.values()  # rows often share one tuple
        if bound.max_length is not None:
            longest = max((len(item) for item in distinct if isinstance(item, Sized)), default=0)
            if longest > bound.max_length:
                raise BoundsError(
                    f"{record}.{field} has {longest} values, above {bound.max_length}"
                )
        extremes = _extremes(list(_numbers(distinct)))
    if not all(bound.least <= extreme <= bound.most for extreme in extremes):
        raise BoundsError(f"{record}.{field} is not within {bound.least} to {bound.most}")


def check_all(value: object) -> None:
    """`check` every field of a record and of the records within it. Raises BoundsError."""
    if is_dataclass(value) and not isinstance(value, type):
        for name in field_names(type(value)):
            inner = getattr(value, name)
            check(type(value).__name__, name, (inner,))
            check_all(inner)
    elif isinstance(value, Mapping):
        for inner in value.values():
            check_all(inner)
    elif isinstance(value, tuple | list | frozenset):
        for inner in value:
            check_all(inner)


def _numbers(values: Iterable[Any]) -> Iterator[int | float]:
    """The numbers among the values; of arrays and lists of integers only the extremes."""
    for value in values:
        if isinstance(value, int | float):
            yield value
        elif isinstance(value, np.ndarray):
            if value.size:
                yield from (value.min().item(), value.max().item())
        elif isinstance(value, Mapping):
            yield from _numbers(value.keys())
            yield from _numbers(value.values())
        elif isinstance(value, tuple | list | frozenset):
            if value and _INTEGERS.issuperset(map(type, value)):
                yield from (min(value), max(value))
            else:
                yield from _numbers(value)


def _extremes(numbers: list[int | float]) -> tuple[int | float, ...]:
    """Least and greatest, and NaN if present."""
    nan = [number for number in numbers if isinstance(number, float) and math.isnan(number)][:1]
    return (*nan, min(numbers), max(numbers)) if numbers else ()
