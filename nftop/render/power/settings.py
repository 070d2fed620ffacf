"""Frequency settings of CPUs as text: limits, governor, preference, SST."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType

from nftop.derive.placement import Misplaced, misplaced
from nftop.model.frame import CpuTable, Frame
from nftop.model.ids import format_cpu_list
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.sst import CpufreqTable, CpuSetting, SstPackage, SstState, Switch, UncoreLimits
from nftop.render.base.line import Line, Span, Tone, line, paragraph
from nftop.render.base.text import cells, printable

_GHZ = 1e9
_SWITCHES: Mapping[Switch, str] = {True: "on", False: "off", None: "unknown"}
LETTERS: Mapping[str, str] = MappingProxyType({"high": "H", "low": "L"})
# Short names of preferences.
_SHORT: Mapping[str, str] = MappingProxyType(
    {"performance": "perf", "balance_performance": "bal-perf", "balance_power": "bal-power"}
)
MARKS: tuple[tuple[str, str], ...] = (
    ("H L", "SST-BF: cores of high, low base frequency within the package"),
    ("MIN-MAX", "frequency limits in GHz; one number: pinned"),
    ("GOVERNOR/EPP", "governor, and energy preference (perf, bal-perf, ...)"),
    ("CP", "SST-CP class, 0 to 3 (0 has priority for power); not a cache class"),
)


def priority_text(cpus: CpuTable, row: int) -> str | Missing:
    """`H` or `L`."""
    priority = cpus.settings[row].priority
    return priority if isinstance(priority, Missing) else LETTERS[priority]


def governor_text(cpus: CpuTable, row: int) -> str | Missing:
    """`powersave/bal-perf`, or only the governor."""
    return _governor(cpus.settings[row])


@lru_cache(maxsize=256)
def _governor(setting: CpuSetting) -> str | Missing:
    if isinstance(setting.governor, Missing) or isinstance(setting.epp, Missing):
        return setting.governor
    return f"{setting.governor}/{_SHORT.get(setting.epp, setting.epp)}"


def class_text(cpus: CpuTable, row: int) -> str | Missing:
    """The number of its SST-CP class."""
    number = cpus.settings[row].cp_class
    return number if isinstance(number, Missing) else str(number)


def limits_text(cpus: CpuTable, row: int) -> str | Missing:
    """`0.8-3.9`, or `2.3` where both are the same."""
    least, most = (cpus.columns[f"{end}_frequency_hz"][row] for end in ("min", "max"))
    if isinstance(least, Missing):
        return least
    return most if isinstance(most, Missing) else span_text(least, most)


def span_text(least_hz: float, most_hz: float) -> str:
    """Two frequencies in GHz, or one if they are equal."""
    low, high = (f"{hz / _GHZ:.2f}".removesuffix("0") for hz in (least_hz, most_hz))
    return low if low == high else f"{low}-{high}"


TEXTS: Mapping[str, Callable[[CpuTable, int], str | Missing]] = MappingProxyType(
    {"sst": priority_text, "limits": limits_text, "governor": governor_text, "cp": class_text}
)


def setting_facts(setting: CpuSetting, base: Reading, least: Reading, most: Reading) -> list[str]:
    """Settings of a CPU as short texts, without absent ones."""
    facts = []
    if not isinstance(setting.priority, Missing):
        facts.append(f"SST-BF {setting.priority} priority")
    if not isinstance(base, Missing):
        facts.append(f"base {base / _GHZ:.2f} GHz")
    if not isinstance(least, Missing) and not isinstance(most, Missing):
        pinned = "pinned to " if least == most else "limits "
        facts.append(f"{pinned}{span_text(least, most)} GHz")
    if setting.together:
        facts.append(f"set together with CPU {format_cpu_list(setting.together)}")
    if not isinstance(setting.cp_class, Missing):
        facts.append(f"SST-CP class {setting.cp_class}")
    return facts


def fitted(text: str, width: int) -> str:
    """The text, without what follows `/` if it does not fit."""
    return text if cells(text) <= width else text.partition("/")[0]


def placement_lines(frame: Frame, width: int) -> list[Line]:
    """By package: pollers on low-priority cores, and idle high-priority cores."""
    lead = line(Span("! ", Tone.ACCENT))
    return [
        item
        for group in misplaced(frame)
        for item in paragraph(_placement(group), width, lead=lead, tone=Tone.PLAIN)
    ]


def _placement(group: Misplaced) -> str:
    pollers = ", ".join(
        f"{format_cpu_list(cpus)} ({printable(name)})" for name, cpus in group.pollers.items()
    )
    free = []
    if group.near:
        free.append(f"here {format_cpu_list(group.near)}")
    if group.far and len(group.near) < sum(map(len, group.pollers.values())):
        free.append(f"on other sockets {format_cpu_list(group.far)}")
    idle = f"idle high-priority cores: {', '.join(free)}" if free else "no high-priority core idle"
    return f"s{group.package}: these pollers sit on low-priority cores: {pollers}; {idle}"


def host_lines(frame: Frame, width: int) -> list[Line]:
    """Driver, turbo, mesh, SST and other programs that set frequencies, or why unknown."""
    table = frame.frequencies
    if isinstance(table, Missing) and "cpufreq" not in frame.sources:
        return []  # unknown for a remote host
    if isinstance(table, Missing):
        lead = line(Span(f"cpufreq {table.reason.mark} ", Tone.MISSING))
        return paragraph(table.message, width, lead=lead, tone=Tone.MUTED)
    settings = (_drivers(table), _no_base(frame), *_meshes(table), *_sst(table), _others(table))
    text = "; ".join(filter(None, settings))
    return paragraph(text, width, lead=line(Span("cpufreq: ", Tone.ACCENT)), tone=Tone.MUTED)


def _drivers(table: CpufreqTable) -> str:
    drivers = dict.fromkeys(printable(row.driver or "unnamed driver") for row in table.cpus)
    turbo = None if table.pstate is None else table.pstate.turbo
    words = {True: ", turbo on", False: ", turbo off", None: ""}
    return f"{', '.join(drivers)}{words[turbo]}"


def _no_base(frame: Frame) -> str:
    """Why no CPU has a base frequency; "" if one has."""
    column = frame.cpus.columns["base_frequency_hz"]
    if not len(column) or column.present.any():
        return ""
    reading = column[0]
    return printable(reading.message) if isinstance(reading, Missing) else ""


def _meshes(table: CpufreqTable) -> list[str]:
    """Mesh limits, of all dies together if equal."""
    spans = {_mesh(item) for item in table.uncore}
    if len(spans) == 1:
        return [f"mesh {spans.pop()} GHz"]
    return [f"mesh of s{item.package} {_mesh(item)} GHz" for item in table.uncore]


def _mesh(limits: UncoreLimits) -> str:
    if limits.min_hz is None or limits.max_hz is None:
        return "?"
    return span_text(limits.min_hz, limits.max_hz)


def _sst(table: CpufreqTable) -> list[str]:
    if isinstance(table.sst, SstState):
        states = {_states(package) for package in table.sst.packages}
        if len(states) == 1:
            return [states.pop()]
        return [f"s{package.package} {_states(package)}" for package in table.sst.packages]
    return [] if table.sst.reason is Reason.SOURCE else [printable(table.sst.message)]


def _states(row: SstPackage) -> str:
    switches = (("BF", row.bf), ("TF", row.tf), ("CP", row.cp))
    return ", ".join(f"SST-{name} {_SWITCHES[state]}" for name, state in switches)


def _others(table: CpufreqTable) -> str:
    names = ", ".join(dict.fromkeys(keeper.name for keeper in table.keepers))
    return f"{names} may set frequencies here too" if names else ""
