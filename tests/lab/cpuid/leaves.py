"""What CPUID says on a CPU of the lab's, from the same tables as /proc/cpuinfo and resctrl.

Source: Intel SDM volume 2, CPUID; for RDT volume 3, "Intel Resource Director Technology". A leaf
that is not here is all zeros, as a reserved one is. Deliberate difference: what a leaf says of
features that no program of the lab asks about (XSAVE's sizes, SGX, ...) is 0 as well.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from nftop.model.topology import CpuInfo, Topology
from tests.lab.machine import Machine, vendor
from tests.lab.resctrl.hardware import Hardware

Registers: TypeAlias = tuple[int, int, int, int]
"""eax, ebx, ecx, edx."""
_NOTHING: Registers = 0, 0, 0, 0
_BASIC, _EXTENDED = 0x0, 0x80000000
_LAST_EXTENDED = _EXTENDED + 8
_LINE_BYTES = 64
_SMT_SHIFT, _LEAST_CORE_SHIFT = 1, 6
_THREAD_LEVEL, _CORE_LEVEL = 1, 2
_CACHE_TYPES = {"Data": 1, "Instruction": 2, "Unified": 3}
# Flags as /proc/cpuinfo names them, by their bit; "-" is none of these (arch/x86/include/asm/
# cpufeatures.h of Linux 6.1).
_FLAGS = {
    (1, 2): "pni pclmulqdq dtes64 monitor ds_cpl vmx smx est tm2 ssse3 cid sdbg fma cx16 xtpr "
    "pdcm - pcid dca sse4_1 sse4_2 x2apic movbe popcnt tsc_deadline_timer aes xsave xsave avx f16c "
    "rdrand hypervisor",
    (1, 3): "fpu vme de pse tsc msr pae mce cx8 apic - sep mtrr pge mca cmov pat pse36 pn clflush "
    "- dts acpi mmx fxsr sse sse2 ss ht tm ia64 pbe",
    (7, 1): "fsgsbase tsc_adjust sgx bmi1 hle avx2 - smep bmi2 erms invpcid rtm cqm - mpx rdt_a "
    "avx512f avx512dq rdseed adx smap avx512ifma - clflushopt clwb intel_pt avx512pf avx512er "
    "avx512cd sha_ni avx512bw avx512vl",
    (7, 3): "- - - - - - - - - - md_clear - - - - - - - pconfig - - - - - - - ibrs stibp flush_l1d "
    "arch_capabilities",
    (0x80000001, 2): "lahf_lm - - - - abm - - 3dnowprefetch",
    (0x80000001, 3): "- - - - - - - - - - - syscall - - - - - - - - nx - - - - - pdpe1gb rdtscp - "
    "lm",
}
# Architectural monitoring by microarchitecture: version, general counters, fixed counters.
_PMUS = {"BDX": (3, 4, 3), "SKX": (4, 4, 3), "CLX": (4, 4, 3), "ICX": (5, 8, 4), "SPR": (5, 8, 4)}
_WIDTH_BITS = 48


@dataclass(frozen=True, slots=True)
class Cpu:
    """A CPU that is asked, and what it is part of; `hardware` is with all that its kernel hides."""

    machine: Machine
    topology: Topology
    hardware: Hardware
    info: CpuInfo

    @property
    def own(self) -> Mapping[str, Any]:
        """The `[cpuinfo]` of its machine."""
        return self.machine.tables["cpuinfo"]


def answer(cpu: Cpu, leaf: int, subleaf: int) -> Registers:
    """What it says."""
    known = leaf <= (_LAST_EXTENDED if leaf >= _EXTENDED else cpu.own["cpuid_level"])
    printed = _LEAVES.get(leaf) if known else None
    return printed(cpu, subleaf) if printed is not None else _NOTHING


def apic_id(topology: Topology, info: CpuInfo) -> int:
    """The local APIC's: package, core and thread, a field of bits each."""
    core = _cores(topology).get(info.cpu, 0)
    return (info.package or 0) << core_shift(topology) | core << _SMT_SHIFT | _thread(info)


def core_shift(topology: Topology) -> int:
    """How many bits of an APIC id tell cores and threads of a package apart."""
    most = max(_cores(topology).values(), default=0)
    return max(_LEAST_CORE_SHIFT, most.bit_length() + _SMT_SHIFT)


def _cores(topology: Topology) -> Mapping[int, int]:
    """The core of every CPU that is online, counted from the first of its package."""
    first: dict[int | None, int] = {}
    for info in topology.cpus:
        if info.core is not None:
            first[info.package] = min(first.get(info.package, info.core), info.core)
    return {
        info.cpu: info.core - first[info.package] for info in topology.cpus if info.core is not None
    }


def _thread(info: CpuInfo) -> int:
    return sorted((info.cpu, *info.siblings)).index(info.cpu)


def _threads(cpu: Cpu) -> int:
    return 1 + max(len(info.siblings) for info in cpu.topology.cpus)


def _in_package(cpu: Cpu) -> int:
    return sum(info.package == cpu.info.package for info in cpu.topology.cpus)


def _flags(cpu: Cpu, leaf: int, register: int) -> int:
    has = set(cpu.own["flags"].split())
    names = _FLAGS[leaf, register].split()
    return sum(1 << bit for bit, name in enumerate(names) if name in has)


def _vendor(cpu: Cpu, _subleaf: int) -> Registers:
    first, second, third = struct.unpack("<III", vendor(cpu.machine).encode())
    return cpu.own["cpuid_level"], first, third, second


def _version(cpu: Cpu, _subleaf: int) -> Registers:
    family, model, stepping = (cpu.own[name] for name in ("family", "model", "stepping"))
    base = min(family, 15)
    signature = (family - base) << 20 | model >> 4 << 16 | base << 8 | (model & 15) << 4 | stepping
    package = 1 << core_shift(cpu.topology)
    apic = apic_id(cpu.topology, cpu.info) & 0xFF
    ebx = apic << 24 | min(package, 255) << 16 | _LINE_BYTES // 8 << 8
    return signature, ebx, _flags(cpu, 1, 2), _flags(cpu, 1, 3)


def _cache(cpu: Cpu, subleaf: int) -> Registers:
    table = cpu.machine.tables["sysfs"]
    caches = [(cache, _threads(cpu)) for cache in table["caches"]]
    size = next((item.size_bytes for item in cpu.topology.l3 if item.id == cpu.info.l3), 0)
    last = {"level": 3, "type": "Unified", "bytes": size, "ways": table["l3_ways"]}
    caches.append((last, 1 << core_shift(cpu.topology)))
    if subleaf >= len(caches):
        return _NOTHING
    cache, sharing = caches[subleaf]
    cores = (1 << core_shift(cpu.topology) - _SMT_SHIFT) - 1
    eax = cores << 26 | sharing - 1 << 14 | 1 << 8 | cache["level"] << 5
    sets = cache["bytes"] // cache["ways"] // _LINE_BYTES
    hashed = 4 if cache["level"] == 3 else 0  # complex indexing
    ebx = (cache["ways"] - 1) << 22 | _LINE_BYTES - 1
    return eax | _CACHE_TYPES[cache["type"]], ebx, sets - 1, hashed


def _features(cpu: Cpu, subleaf: int) -> Registers:
    return (0, _flags(cpu, 7, 1), 0, _flags(cpu, 7, 3)) if subleaf == 0 else _NOTHING


def _thermal(cpu: Cpu, _subleaf: int) -> Registers:
    return 0b111, 2, 0b1001, 0  # sensor, turbo, ARAT; two thresholds; APERF and MPERF, EPB


def _counters(cpu: Cpu, _subleaf: int) -> Registers:
    if cpu.machine.tables["perf"]["pmu"] == "none":
        return _NOTHING
    version, general, fixed = _PMUS.get(cpu.machine.uarch, (2, 4, 3))
    mask = (1 << fixed) - 1 if version >= 5 else 0
    return version | general << 8 | _WIDTH_BITS << 16 | 7 << 24, 0, mask, fixed | _WIDTH_BITS << 5


def _levels(cpu: Cpu, subleaf: int) -> Registers:
    edx = apic_id(cpu.topology, cpu.info)
    if subleaf == 0:
        return _SMT_SHIFT, _threads(cpu), _THREAD_LEVEL << 8, edx
    if subleaf == 1:
        return core_shift(cpu.topology), _in_package(cpu), _CORE_LEVEL << 8 | 1, edx
    return 0, 0, subleaf & 0xFF, edx


def _monitoring(cpu: Cpu, subleaf: int) -> Registers:
    own = cpu.hardware.monitoring
    if own is None:
        return _NOTHING
    if subleaf == 0:
        return 0, own.rmids - 1, 0, 1 << 1
    if subleaf == 1:
        return 0, own.scale_bytes, own.rmids - 1, (1 << len(own.events)) - 1
    return _NOTHING


def _allocation(cpu: Cpu, subleaf: int) -> Registers:
    cache, bandwidth = cpu.hardware.allocation, cpu.hardware.bandwidth
    if subleaf == 0:
        return 0, (cache is not None) << 1 | (bandwidth is not None) << 3, 0, 0
    if subleaf == 1 and cache is not None:
        return cache.ways - 1, cache.shareable_bits, cache.cdp << 2, cache.closids - 1
    if subleaf == 3 and bandwidth is not None:
        per_thread = bandwidth.throttle == "per-thread"
        most = 100 - bandwidth.minimum
        return most - 1, 0, 1 << 2 | per_thread, bandwidth.closids - 1
    return _NOTHING


def _clock(cpu: Cpu, _subleaf: int) -> Registers:
    crystal_hz = 25_000_000
    return 2, 2 * round(cpu.own["mhz"] * 1e6) // crystal_hz, crystal_hz, 0


def _frequencies(cpu: Cpu, _subleaf: int) -> Registers:
    return round(cpu.own["mhz"]), round(cpu.own["mhz"] * 1.5), 100, 0


def _extended(_cpu: Cpu, _subleaf: int) -> Registers:
    return _LAST_EXTENDED, 0, 0, 0


def _extended_features(cpu: Cpu, _subleaf: int) -> Registers:
    return 0, 0, _flags(cpu, 0x80000001, 2), _flags(cpu, 0x80000001, 3)


def _brand(component: int) -> Callable[[Cpu, int], Registers]:
    def printed(cpu: Cpu, _subleaf: int) -> Registers:
        text = f"LAB: virtual {cpu.own['name']}".encode()[:47].ljust(48, b"\0")
        words: Registers = struct.unpack_from("<IIII", text, component * 16)
        return words

    return printed


def _invariant(_cpu: Cpu, _subleaf: int) -> Registers:
    return 0, 0, 0, 1 << 8  # the TSC is


def _addresses(cpu: Cpu, _subleaf: int) -> Registers:
    physical, virtual = (int(word.split()[0]) for word in cpu.own["address_sizes"].split(","))
    return physical | virtual << 8, 0, 0, 0


_LEAVES: Mapping[int, Callable[[Cpu, int], Registers]] = {
    _BASIC: _vendor,
    0x1: _version,
    0x4: _cache,
    0x6: _thermal,
    0x7: _features,
    0xA: _counters,
    0xB: _levels,
    0xF: _monitoring,
    0x10: _allocation,
    0x15: _clock,
    0x16: _frequencies,
    _EXTENDED: _extended,
    _EXTENDED + 1: _extended_features,
    **{_EXTENDED + 2 + component: _brand(component) for component in range(3)},
    _EXTENDED + 7: _invariant,
    _LAST_EXTENDED: _addresses,
}
