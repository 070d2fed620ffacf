"""What an event counts and which counters it may take: from perf_event_attr, or the errno instead.

Sources: `x86_setup_perfctr`, `set_ext_hw_attr`, `intel_pmu_hw_config` (arch/x86/events),
`msr_event_init` (arch/x86/events/msr.c), `perf_swevent_init` (kernel/events/core.c), Linux 6.1.
Deliberate differences: nothing samples (EOPNOTSUPP, as on a host without interrupts from its
counters), and `exclude_user` and the like are taken but leave nothing out: the model does not know
in whose time something happened.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from nftop.model.column import Floats
from nftop.sim.events import factors_of
from nftop.sim.workloads import INDEX, QUANTITIES
from nftop.uarch.table import Encoding, PmuTerms
from tests.lab.perf.attr import Attr
from tests.lab.perf.pmu import ANY_THREAD, Pmu
from tests.lab.tree import failed

HARDWARE, SOFTWARE, CACHE, RAW = 0, 1, 3, 4
_PMUS: Mapping[int, str] = MappingProxyType(
    {HARDWARE: "hardware", SOFTWARE: "software", CACHE: "cache", RAW: "cpu"}
)
# enum perf_sw_ids: the clocks, and how many there are.
_CLOCKS, _SOFTWARE_END = (0, 1), 12
_HARDWARE_END = 10
_CACHE_ENDS = (7, 3, 2)  # caches, operations, results: a byte of the config each
# The PMU `msr` by its config: what the model knows of them.
_MSR: Mapping[int, str] = MappingProxyType({0: "tsc", 1: "aperf", 2: "mperf"})


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """An event that this machine can count.

    Attributes:
        config: the code on the core PMU; None: it is another's.
        mask: counters it may take, 0: needs none.
        weights: float64 (k,), what one of each of the model's quantities adds; None: it counts
            the nanoseconds it is on.
        filters: fields of a register that the PMU's events share, each by its mask, and what they
            have to hold.
        unknown: how it was asked for, of an event that the model does not know; it counts 0.
    """

    config: int | None
    mask: int
    weights: Floats | None
    filters: tuple[tuple[int, int], ...] = ()
    unknown: str | None = None


def resolve(pmu: Pmu, attr: Attr, leader: Event | None) -> Event:
    """The event; `leader`: of the group it is to join.

    Raises:
        OSError: ENOENT, there is no such PMU or event; EINVAL; EOPNOTSUPP.
    """
    kinds: dict[int, Callable[[], Event]] = {
        HARDWARE: lambda: _hardware(pmu, attr),
        SOFTWARE: lambda: _software(pmu, attr),
        CACHE: lambda: _cache(pmu, attr),
        pmu.msr_type: lambda: _msr(pmu, attr),
    }
    if pmu.available:
        kinds[RAW] = lambda: _raw(pmu, attr, leader)
    if attr.pmu_type not in kinds:
        raise failed(errno.ENOENT)
    event = kinds[attr.pmu_type]()
    if attr.sampling:
        raise failed(errno.EOPNOTSUPP)
    return event


def _hardware(pmu: Pmu, attr: Attr) -> Event:
    if attr.config >= _HARDWARE_END:
        raise failed(errno.EINVAL)
    if attr.config not in pmu.hardware:
        raise failed(errno.ENOENT)
    code = pmu.hardware[attr.config]
    return _event(pmu, code, Encoding(HARDWARE, attr.config))


def _cache(pmu: Pmu, attr: Attr) -> Event:
    fields = attr.config.to_bytes(8, "little")
    if any(field >= end for field, end in zip(fields, _CACHE_ENDS, strict=False)):
        raise failed(errno.EINVAL)
    if attr.config not in pmu.cache:
        raise failed(errno.ENOENT)
    code = pmu.cache[attr.config]
    return _event(pmu, code, Encoding(CACHE, attr.config))


def _raw(pmu: Pmu, attr: Attr, leader: Event | None) -> Event:
    config = pmu.raw(attr.config)
    if pmu.topdown(config):
        if config >> 16:
            raise failed(errno.EINVAL)
        slots_lead = leader is not None and leader.config == pmu.slots
        if pmu.metric(config) is not None and (attr.sampling or not slots_lead):
            raise failed(errno.EINVAL)
    known = config if pmu.any_thread else config & ~ANY_THREAD
    if not pmu.mask_of(config):
        raise failed(errno.EINVAL)
    valid_bits = pmu.register_bits(config)
    if attr.config1 & ~valid_bits and valid_bits:
        raise failed(errno.EINVAL)
    # The kernel ignores config1 of an event for which it has no register (x86_pmu_extra_regs).
    return _event(pmu, config, Encoding(RAW, known, attr.config1 if valid_bits else 0))


def _software(pmu: Pmu, attr: Attr) -> Event:
    if attr.config >= _SOFTWARE_END:
        raise failed(errno.ENOENT)
    if attr.config in _CLOCKS:
        return Event(None, 0, None)
    return _event(pmu, None, Encoding(SOFTWARE, attr.config))


def _msr(pmu: Pmu, attr: Attr) -> Event:
    if _MSR.get(attr.config) not in pmu.msrs or attr.sampling or attr.excluding:
        raise failed(errno.EINVAL)
    return Event(None, 0, _vector(factors_of(PmuTerms("msr", _MSR[attr.config])) or {}))


def _event(pmu: Pmu, code: int | None, encoding: Encoding) -> Event:
    """The event of this code on the core PMU (None: it is another's), as the model has it."""
    factors = factors_of(encoding, pmu.uarch)
    mask = 0 if code is None else pmu.mask_of(code)
    unknown = _requested(encoding) if factors is None else None
    return Event(code, mask, _vector(factors or {}), unknown=unknown)


def _requested(encoding: Encoding) -> str:
    words = {"config": encoding.config, "config1": encoding.config1}
    text = ",".join(f"{name}={word:#x}" for name, word in words.items() if word or name == "config")
    return f"{_PMUS[encoding.pmu_type]}/{text}/"


def _vector(factors: Mapping[str, float]) -> Floats:
    vector = np.zeros(len(QUANTITIES))
    for name, factor in factors.items():
        vector[INDEX[name]] = factor
    return vector
