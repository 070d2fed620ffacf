"""The folders of uncore PMUs, as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.lab.uncore.units import MUX_MS, Unit


def unit_files(units: Iterable[Unit], cpumask: str, dies: int = 2) -> Mapping[str, bytes]:
    """Files below /sys/bus/event_source/devices by path from there.

    Line feeds are where the kernel has them: events are shown without. `cpumask`: of all of them,
    which are in each of `dies` dies.
    """
    files: dict[str, bytes] = {}
    for unit in units:
        for number, pmu, pmu_type in zip(unit.numbers, unit.pmus, unit.types, strict=True):
            texts = {"type": str(pmu_type), "cpumask": cpumask}
            texts["perf_event_mux_interval_ms"] = str(MUX_MS)
            texts |= {f"format/{name}": text for name, text in unit.formats.items()}
            if unit.buses:
                first = unit.buses[unit.numbers.index(number)]
                buses = ((first + 0x80 * die) % 0x100 for die in range(dies))
                texts |= {f"die{die}": f"0000:{bus:02x}" for die, bus in enumerate(buses)}
            if unit.discovery is not None:
                texts["alias"] = alias(unit.discovery, number, len(unit.numbers))
            files |= {f"{pmu}/{name}": f"{text}\n".encode() for name, text in texts.items()}
            files |= {f"{pmu}/events/{n}": text.encode() for n, text in unit.events.items()}
    return files


def alias(unit: int, box: int, count: int) -> str:
    """How the kernel calls a box that it knows from the CPU's own table only."""
    return f"uncore_type_{unit}" if count == 1 else f"uncore_type_{unit}_{box}"
