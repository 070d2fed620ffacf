"""What an event of a box counts, and which counters and filters it takes; or the errno instead.

Source: `uncore_pmu_event_init` of arch/x86/events/intel/uncore.c and the `hw_config` functions of
uncore_snbep.c, Linux 6.1.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping

import numpy as np

from nftop.sim.uncore import OF_PACKAGE, OF_PACKAGE_INDEX, box_factors
from nftop.uarch.table import PmuTerms
from tests.lab.perf.attr import Attr
from tests.lab.perf.events import Event
from tests.lab.perf.schedule import FIXED
from tests.lab.tree import failed
from tests.lab.uncore.units import Unit

_CODE = 0xFF
# UNCORE_FIXED_EVENT; with a umask from 0x10 on it is a free-running counter.
_FIXED_EVENT, _FREE_RUNNING_FROM = 0xFF, 0x10


def resolve(unit: Unit, attr: Attr) -> Event:
    """The event.

    Raises:
        OSError: EINVAL.
    """
    if attr.sampling or attr.excluding:
        raise failed(errno.EINVAL)
    fixed = attr.config == _FIXED_EVENT
    free_running = attr.config & _CODE == _FIXED_EVENT and not fixed
    free_running = free_running and (attr.config >> 8 & 0xFF) >= _FREE_RUNNING_FROM
    if free_running != unit.free_running or (fixed and not unit.available >> FIXED):
        raise failed(errno.EINVAL)
    config = attr.config & _mask(unit)
    terms = _terms(unit, {"config": config, "config1": 0})
    if free_running:
        if not any(_same(text, terms) for text in unit.events.values()):
            raise failed(errno.EINVAL)
        return _event(unit, terms, 0)
    used = [
        mask for item in unit.filters if config & item.bits in item.codes for mask in item.fields
    ]
    config1 = attr.config1 & _union(used)
    terms = _terms(unit, {"config": config, "config1": config1})
    mask = 1 << FIXED if fixed else unit.constraints.get(config & _CODE, unit.general)
    filters = tuple((field, config1 & field) for field in sorted(set(used)))
    return _event(unit, terms, mask, filters)


def _mask(unit: Unit) -> int:
    """The bits of `config` that the unit looks at."""
    bit_ranges = [unit.bits(term) for term in unit.formats]
    return _union([1 << bit for word, bits in bit_ranges if word == "config" for bit in bits])


def _union(masks: list[int]) -> int:
    result = 0
    for mask in masks:
        result |= mask
    return result


def _terms(unit: Unit, words: Mapping[str, int]) -> str:
    """The terms of an event with these words, but for those that are 0."""
    result = []
    for term in unit.formats:
        word, bits = unit.bits(term)
        value = sum((words.get(word, 0) >> bit & 1) << at for at, bit in enumerate(bits))
        if value:
            result.append(f"{term}={value:#x}")
    return ",".join(result)


def _same(text: str, terms: str) -> bool:
    """A free-running counter's event is given by event and umask alone."""
    mine, other = ({name: int(value, 0) for name, _, value in _pairs(t)} for t in (text, terms))
    return mine == other


def _pairs(text: str) -> list[tuple[str, str, str]]:
    return [term.partition("=") for term in text.split(",") if "=" in term]


def _event(unit: Unit, terms: str, mask: int, filters: tuple[tuple[int, int], ...] = ()) -> Event:
    words = PmuTerms(unit.name, terms)
    factors = box_factors(words, unit.uarch)
    weights = np.zeros(len(OF_PACKAGE))
    for name, factor in (factors or {}).items():
        weights[OF_PACKAGE_INDEX[name]] = factor
    return Event(None, mask, weights, filters, str(words) if factors is None else None)
