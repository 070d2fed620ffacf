"""Events of a table by names of other programs: the vendor's, perf's, or encodings."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from typing import TypeAlias

from nftop.model.data_files import data_file
from nftop.model.struct import dataclass
from nftop.uarch.events import PERF_TYPES, RAW_FIELDS, Encoding, EventSpec
from nftop.uarch.table import Uarch

_RAW_TYPE = PERF_TYPES["raw"]
_FIELDS: Mapping[str, tuple[int, int]] = {**RAW_FIELDS, "any": (21, 1)}
# Terms of config1: registers that an event needs beside its counter.
_REGISTERS = frozenset({"offcore_rsp", "frontend"})
_CORE_PMU = re.compile(
    r"cpu(?:_core|_atom)?/(?P<inside>[^/]*)/(?P<modifiers>[a-z]*)", re.IGNORECASE
)
_MODIFIERS = re.compile(r"(?P<name>.+):(?P<modifiers>[ukhGHIpPSDWe]+)")
_RAW = re.compile(r"r(?P<config>[0-9a-f]{1,16})", re.IGNORECASE)
# Modifiers that restrict the code counted; others do not.
_OF_CODE = frozenset("ukhGH")


# config and config1 of a raw event.
_Config: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class NamedEvent:
    """An event of a table as another program counted it.

    Attributes:
        event: its name in the table.
        code: perf's modifiers that restrict the code counted, sorted: `u` is user mode only.
            Formulas need all of it, "".
    """

    event: str
    code: str = ""


class EventNames:
    def __init__(self, uarch: Uarch) -> None:
        self._by_name = _by_name(uarch)
        self._specs = uarch.events
        self._by_config: dict[_Config, str] = {}
        for event, spec in uarch.events.items():
            config = _config_of(spec)
            if config is not None:
                self._by_config.setdefault(config, event)

    def find(self, written: str) -> NamedEvent | None:
        """The event called `written`, or None.

        Case is ignored. Known are names of the table, the vendor and perf (`cpu-cycles`), of the
        PMU `cpu` in sysfs (`slots`), `cpu/NAME/`, `cpu/NAME,cmask=1/`, `cpu/event=0x9c,umask=0x1/`,
        `r19c`, each with perf's modifiers (`:u`, `:S`).
        """
        written = written.strip()
        if known := self._known(written):
            return NamedEvent(known)
        modifiers = ""
        if match := _CORE_PMU.fullmatch(written):
            inside, modifiers = match["inside"], match["modifiers"]
            whole = written[: len(written) - len(modifiers)]
            event = self._known(whole) or self._known(inside) or self._encoded(inside)
        elif match := _MODIFIERS.fullmatch(written):
            inside, modifiers = match["name"], match["modifiers"]
            event = self._known(inside) or self._raw(inside)
        else:
            event = self._raw(written)
        return NamedEvent(event, _code(modifiers)) if event else None

    def _known(self, name: str) -> str | None:
        return self._by_name.get(name.casefold())

    def _raw(self, name: str) -> str | None:
        match = _RAW.fullmatch(name)
        return self._by_config.get((int(match["config"], 16), 0)) if match else None

    def _encoded(self, terms: str) -> str | None:
        """The event of `event=0x9c,umask=0x1` or `NAME,cmask=1`."""
        named = [term[5:] for term in terms.split(",") if term.startswith("name=")]
        if named:
            return self._known(named[0])
        name, _, further = terms.partition(",")
        base = self._known(name)
        known = None if base is None else _config_of(self._specs[base])
        config = _config(further, *known) if known and further else _config(terms)
        return None if config is None else self._by_config.get(config)


def _by_name(uarch: Uarch) -> dict[str, str]:
    """By case-folded name; the table's names precede perf's."""
    names = {name.casefold(): name for name in uarch.events}
    for event, vendor in uarch.vendor_names.items():
        if event in uarch.events:
            names.setdefault(vendor.casefold(), event)
    for event, spec in uarch.events.items():
        if not isinstance(spec, Encoding) and spec.pmu == "cpu" and "=" not in spec.terms:
            names.setdefault(spec.terms.casefold(), event)
    for name, events in other_names().items():
        for event in events:
            if event in uarch.events:
                names.setdefault(name, event)
    return names


@cache
def other_names() -> Mapping[str, tuple[str, ...]]:
    """By case-folded name, candidate events in order of preference."""
    text = data_file(__package__, "names/perf.toml").decode()
    return {name.casefold(): tuple(events) for name, events in tomllib.loads(text).items()}


def _config_of(spec: EventSpec) -> _Config | None:
    if isinstance(spec, Encoding):
        plain = spec == Encoding(_RAW_TYPE, spec.config, spec.config1)
        return (spec.config, spec.config1) if plain else None
    return _config(spec.terms) if spec.pmu == "cpu" else None


def _config(terms: str, config: int = 0, config1: int = 0) -> _Config | None:
    """config and config1 of `event=0x9c,umask=0x1,edge`, on top of an event's; None if invalid."""
    for term in terms.casefold().split(","):
        field, _, text = term.partition("=")
        if field not in _FIELDS and field not in _REGISTERS:
            return None
        low, width = _FIELDS.get(field, (0, 64))
        try:
            value = int(text, 0) if text else 1
        except ValueError:
            return None
        if not 0 <= value < 2**width:
            return None
        if field in _REGISTERS:
            config1 = value
        else:
            config = config & ~((2**width - 1) << low) | value << low
    return config, config1


def _code(modifiers: str) -> str:
    of_code = set(modifiers) & _OF_CODE
    # User and kernel mode together are all code outside guests.
    return "" if of_code >= {"u", "k"} else "".join(sorted(of_code))
