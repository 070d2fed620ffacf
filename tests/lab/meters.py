"""Energy and residency of the lab's packages and cores: PMUs `power`, `cstate_pkg`, `cstate_core`.

What they count is nftop.sim.power's; the same registers are MSRs for programs that ask for these.
Sources: arch/x86/events/rapl.c and arch/x86/events/intel/cstate.c of Linux 6.1 (names, numbers of
events, CPUs, and that an event needs no counter); Intel SDM volume 4 (registers).
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from nftop.model.column import Floats
from nftop.model.ids import format_cpu_list
from nftop.sim.model import Model
from nftop.sim.power import PowerCounts, power_counts
from tests.lab.machine import Machine
from tests.lab.perf.attr import Attr
from tests.lab.perf.events import Event
from tests.lab.tree import failed
from tests.lab.uncore.units import MUX_MS

_FIRST_TYPE = 900
_WITH_C3 = frozenset({"SKX", "CLX", "BDX", "HSX"})
_ENERGY = {"energy-pkg": (0x02, "energy_pkg"), "energy-ram": (0x03, "energy_ram")}
_SCALE = "2.3283064365386962890625e-10"
# Registers, each with its event: units of 2**-14 J, of memory 2**-16 J; clocks of the TSC.
_POWER_UNIT, _PACKAGE_INFO = 0x606, 0x614
_UNITS = 14 << 8 | 3
_REGISTERS = {
    0x611: ("energy_pkg", 18), 0x619: ("energy_ram", 16), 0x60D: ("package_c2", 0),
    0x3F8: ("package_c3", 0), 0x3F9: ("package_c6", 0), 0x3FC: ("core_c3", 0),
    0x3FD: ("core_c6", 0),
}  # fmt: skip
_ENERGY_BITS = 32


@dataclass(frozen=True, slots=True)
class Meter:
    """One of the PMUs: its number, and its events' configs and counts by name.

    `available`, `general`, `mux_ns`: of `perf.context`; it has no counters that events could want.
    """

    name: str
    pmu_type: int
    events: Mapping[str, tuple[int, str]]
    of_cores: bool
    available: int = 0
    general: int = 0
    mux_ns: int = MUX_MS * 1_000_000


class Meters:
    """The host's: none in a guest."""

    def __init__(
        self, machine: Machine, model: Model, online: Callable[[], Collection[int]]
    ) -> None:
        states = (3, 6) if machine.uarch in _WITH_C3 else (6,)
        of = {
            "power": (_ENERGY, False),
            "cstate_pkg": (_residencies("package", (2, *states)), False),
            "cstate_core": (_residencies("core", states), True),
        }
        guest = machine.tables["perf"]["uncore"] in ("none", "generic")
        self._meters = {
            _FIRST_TYPE + at: Meter(name, _FIRST_TYPE + at, *row)
            for at, (name, row) in enumerate(of.items())
            if not guest
        }
        self._topology, self._online = model.layout.topology, online
        # Asked for again and again while the clock stands.
        self.counts = functools.lru_cache(maxsize=64)(functools.partial(power_counts, model))

    def of_type(self, pmu_type: int) -> Meter | None:
        return self._meters.get(pmu_type)

    def reader(self, meter: Meter, cpu: int) -> int:
        """The CPU by which what a CPU belongs to is read; OSError EINVAL if there is none."""
        for members in self._boxes(meter):
            if cpu in members and (present := sorted(members & set(self._online()))):
                return present[0]
        raise failed(errno.EINVAL)

    def resolve(self, meter: Meter, attr: Attr) -> Event:
        """The event; OSError EINVAL if there is none of its number."""
        if attr.sampling or attr.excluding:
            raise failed(errno.EINVAL)
        weights = np.array([float(code == attr.config) for code, _ in meter.events.values()])
        if not weights.any():
            raise failed(errno.EINVAL)
        return Event(None, 0, weights)

    def exact(self, meter: Meter, cpu: int, t_ns: int) -> Floats:
        """What its events have counted for a CPU: float64, in their order."""
        counts = self.counts(t_ns)
        return np.array([self._of(counts, name, cpu) for _, name in meter.events.values()], float)

    def register(self, cpu: int, number: int, t_ns: int) -> int | None:
        """An MSR of a CPU; None if it is none of these."""
        if not self._meters:
            return None
        if number in (_POWER_UNIT, _PACKAGE_INFO):
            return _UNITS if number == _POWER_UNIT else 0
        if number not in _REGISTERS:
            return None
        name, shift = _REGISTERS[number]
        value = int(self._of(self.counts(t_ns), name, cpu)) >> shift
        return value & (1 << _ENERGY_BITS) - 1 if shift else value

    def files(self) -> Mapping[str, bytes]:
        """Files below /sys/bus/event_source/devices, by path from there."""
        files: dict[str, str] = {}
        for meter in self._meters.values():
            online = set(self._online())
            readers = sorted(min(box & online) for box in self._boxes(meter) if box & online)
            texts = {
                "type": f"{meter.pmu_type}\n",
                "cpumask": f"{format_cpu_list(readers)}\n",
                "perf_event_mux_interval_ms": f"{MUX_MS}\n",
                "format/event": "config:0-7\n" if meter.name == "power" else "config:0-63\n",
            }
            for name, (code, _) in meter.events.items():
                texts[f"events/{name}"] = f"event=0x{code:02x}\n"
                if meter.name == "power":
                    texts[f"events/{name}.scale"] = f"{_SCALE}\n"
                    texts[f"events/{name}.unit"] = "Joules\n"
            files |= {f"{meter.name}/{path}": text for path, text in texts.items()}
        return {path: text.encode() for path, text in files.items()}

    def _of(self, counts: PowerCounts, name: str, cpu: int) -> int:
        if name in counts.cores:
            return int(counts.cores[name][cpu])
        package = self._topology.cpus[cpu].package
        return int(counts.packages[name][self._topology.packages.index(package or 0)])

    def _boxes(self, meter: Meter) -> Iterable[set[int]]:
        boxes: dict[int | None, set[int]] = {}
        for info in self._topology.cpus:
            boxes.setdefault(info.core if meter.of_cores else info.package, set()).add(info.cpu)
        return boxes.values()


def _residencies(of: str, states: tuple[int, ...]) -> Mapping[str, tuple[int, str]]:
    codes = {2: 0x00, 3: 0x01, 6: 0x02}
    return {f"c{state}-residency": (codes[state], f"{of}_c{state}") for state in states}
