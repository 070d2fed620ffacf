"""Metric families and the writer of an OpenMetrics page.

Names follow Prometheus' conventions (prometheus.io/docs/practices/naming): subject first, base
units last, no abbreviations. The name of a catalogue metric is derived from its id, its help from
its meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Literal, TypeAlias

import numpy as np

from nftop.model.column import Column
from nftop.model.metrics.catalogue import ALL_PACKAGE_METRICS, CPU_METRICS, cpu_metric
from nftop.model.metrics.device import DEVICE_METRICS
from nftop.model.metrics.group import GROUP_METRICS
from nftop.model.metrics.metric import ESTIMATE_BELOW, Metric, Unit
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.metrics.nodes import NODE_METRICS
from nftop.model.metrics.probes import CORE_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.struct import dataclass
from nftop.render.base.text import printable

MetricType: TypeAlias = Literal["gauge", "counter", "info"]


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """One metric family.

    Attributes:
        name: without the `_total` of a counter and the `_info` of an info.
        factor: from nftop's unit to that of the name.
    """

    name: str
    help: str
    kind: MetricType = "gauge"
    factor: float = 1.0

    @property
    def sample(self) -> str:
        return self.name + _SUFFIXES[self.kind]

    @property
    def unit(self) -> str:
        """The base unit at the end of the name; "" if there is none."""
        last = self.name.rpartition("_")[2]
        return last if last in _UNITS and "_per_" not in self.name else ""


_SUFFIXES: Mapping[MetricType, str] = {"gauge": "", "counter": "_total", "info": "_info"}
_UNITS = frozenset({"bytes", "celsius", "hertz", "joules", "ratio", "seconds", "watts"})
# Abbreviations, spelled out as Prometheus advises.
_WORDS = {
    "cpp": "cycles_per_packet",
    "busy_cpp": "busy_cycles_per_packet",
    "ipp": "instructions_per_packet",
    "ipc": "instructions_per_cycle",
    "sibling_ipc": "sibling_instructions_per_cycle",
    "core_ipc": "core_instructions_per_cycle",
}
_BY_PACKET = "per_packet_"
# End of an id, end of the name, factor.
_ENDS = (
    ("_per_s", "_per_second", 1.0),
    ("_hz", "_hertz", 1.0),
    ("_w", "_watts", 1.0),
    ("_j", "_joules", 1.0),
    ("_c", "_celsius", 1.0),
    ("_ns", "_seconds", 1e-9),
)


def family(metric: Metric, scope: str = "") -> MetricFamily:
    """The family of a metric of the catalogue; `scope` if not the metric's own.

    Gauges, except for energy: all other numbers of frames are rates, ratios or states.
    """
    of, factor = _WORDS.get(metric.id, metric.id.replace("tma.", "topdown_")), 1.0
    of = of.replace(".", "_")
    if of.startswith(_BY_PACKET):
        of = f"{of.removeprefix(_BY_PACKET)}_per_packet"
    for end, instead, times in _ENDS:
        if of.endswith(end):
            of, factor = of.removesuffix(end) + instead, times
            break
    if metric.unit in (Unit.RATIO, Unit.CHANGE) and not of.endswith("_ratio"):
        of += "_ratio"
    kind: MetricType = "counter" if metric.unit is Unit.JOULES else "gauge"
    return MetricFamily(f"nftop_{scope or metric.scope}_{of}", _help(metric), kind, factor)


def _help(metric: Metric) -> str:
    """The meaning, and where the marks of the screen for such a number are in the page."""
    sentences = [metric.meaning]
    if metric.bounded:
        sentences.append(f'Here: where nftop_{metric.scope}_info does not say saturated="true".')
    if metric.per_clock:
        sentences.append(f"Whose cycles: cpp_clock of nftop_{metric.scope}_info.")
    if metric.coverage is not None:
        share = family(cpu_metric(metric.coverage)).name
        sentences.append(f"An estimate below {ESTIMATE_BELOW} of {share}.")
    return " ".join(sentences)


def _families(metrics: Iterable[Metric], scope: str = "") -> dict[str, MetricFamily]:
    return {metric.id: family(metric, scope) for metric in metrics}


# By metric id.
OF_CPUS = _families(CPU_METRICS)
OF_NFS = _families(NF_METRICS)
OF_CORES = _families((*CORE_METRICS, *NODE_METRICS))
OF_PACKAGES = _families(ALL_PACKAGE_METRICS)
OF_DEVICES = _families(DEVICE_METRICS)
OF_GROUPS = _families(GROUP_METRICS)
# A monitoring group has no capacity of its own.
OF_MONITORS = _families(
    (metric for metric in GROUP_METRICS if metric.id != "capacity_bytes"), scope="monitor"
)

CORE_COVERAGE = MetricFamily(
    "nftop_core_coverage_ratio",
    "Share of the interval in which the least counted event of this metric was counted.",
)
HOST = MetricFamily("nftop_host", "The host, and nftop's version.", "info")
TIME = MetricFamily("nftop_frame_timestamp_seconds", "Time of these readings, Unix time.")
INTERVAL = MetricFamily(
    "nftop_frame_interval_seconds",
    "Time span of rates and ratios: set -d to the scrape interval to cover every packet. Rates and "
    "ratios from a sensor server (power, C-states, and values in place of perf's) cover its last "
    "second, whatever -d is.",
)
NOTICE = MetricFamily(
    "nftop_notice", "1: nftop shows a notice, such as an interrupted change of cache classes."
)
SOURCES_DISAGREE = MetricFamily(
    "nftop_sources_apart", "1: perf and a sensor server have disagreed for some time."
)
FINDING = MetricFamily(
    "nftop_finding", "1: a number has exceeded a limit for some seconds; see nftop explain RULE."
)
INCIDENT = MetricFamily(
    "nftop_incident",
    "An open incident: findings with the same cause. muted: by the operator.",
    "info",
)
INCIDENT_VICTIM = MetricFamily(
    "nftop_incident_victim", "A network function that an open incident harms.", "info"
)
INCIDENT_SEVERITY = MetricFamily(
    "nftop_incident_severity", "2: packets are lost; 1: degraded; 0: information."
)
INCIDENT_BEGIN = MetricFamily(
    "nftop_incident_begin_timestamp_seconds", "Time at which it began, Unix time."
)
INCIDENT_DROPS = MetricFamily(
    "nftop_incident_drop_packets_per_second", "Packets that its victims drop."
)
SOURCE_UP = MetricFamily(
    "nftop_source_up", "1: the source works; 0: it does not, for the state of nftop_source_info."
)
SOURCE = MetricFamily(
    "nftop_source",
    'State of a source: ok, or why it has no numbers (state="source": not present).',
    "info",
)
SOURCE_AGE = MetricFamily("nftop_source_age_seconds", "Age of its reading at the frame.")
SOURCE_TOOK = MetricFamily("nftop_source_read_duration_seconds", "Duration of its last reading.")
SOURCE_LATE = MetricFamily(
    "nftop_source_late_seconds",
    "Time since its reading began, if it did not answer in time; else 0.",
)
CPU = MetricFamily(
    "nftop_cpu",
    "Location, polling thread and cache class of a CPU. To join: "
    "nftop_cpu_busy_ratio * on (cpu) group_left (group) nftop_cpu_info.",
    "info",
)
ONLINE = MetricFamily("nftop_cpu_online", "Whether the CPU is online.")
NF = MetricFamily("nftop_nf", "A network function and the CPUs it polls on.", "info")
NF_LOOKUPS = MetricFamily(
    "nftop_nf_thread_lookups_per_second",
    "Lookups of a PMD thread of OVS by the table that answered; upcall: none did; lost_upcall: "
    "dropped, of those.",
)
NF_DROPS = MetricFamily(
    "nftop_nf_drops_by_reason_per_second",
    "Packets dropped at a port, thread or node of a network function, by its own name of why.",
)
NF_UP = MetricFamily("nftop_nf_up", "Whether its counters are current.")
GROUP = MetricFamily("nftop_group", "A cache class.", "info")
MAY = MetricFamily(
    "nftop_group_may",
    "Limits of a cache class: ways of a last-level cache (cbm; with CDP those of data, and code; "
    "hexadecimal), and its memory bandwidth (mba, in mba_unit).",
    "info",
)
L3_SIZE = MetricFamily("nftop_l3_size_bytes", "Size of a last-level cache.")
CHANNEL_READ = MetricFamily(
    "nftop_memory_channel_read_bytes_per_second", "Bytes read per second over a memory channel."
)
CHANNEL_WRITE = MetricFamily(
    "nftop_memory_channel_write_bytes_per_second", "Bytes written per second over a memory channel."
)
LINK_IN = MetricFamily(
    "nftop_upi_link_received_bytes_per_second", "Bytes of data received per second over a link."
)
LINK_OUT = MetricFamily(
    "nftop_upi_link_sent_bytes_per_second", "Bytes of data sent per second over a link."
)
DEVICE = MetricFamily(
    "nftop_device",
    "A PCIe root port with the network devices behind it, which are counted together, and the "
    "network functions that have them as ports.",
    "info",
)
DEVICE_ESTIMATE = MetricFamily(
    "nftop_device_estimate",
    f"1: this metric was counted for less than {ESTIMATE_BELOW} of the time: others of its stack "
    "take turns with it.",
)
ACCELERATOR = MetricFamily("nftop_accelerator_per_second", "Counter rates of an accelerator.")
ESTIMATE = MetricFamily(
    "nftop_package_estimate",
    f"1: this metric was counted for less than {ESTIMATE_BELOW} of the time.",
)
SECOND_CHOICE = MetricFamily(
    "nftop_second_choice", "Numbers of this metric that are not from its preferred source."
)
MISSING = MetricFamily(
    "nftop_missing", "Absent numbers of this metric by reason; see nftop doctor."
)
OWN_CPU = MetricFamily("nftop_self_cpu_ratio", "Load of nftop: 1 is one CPU.")
OWN_SECONDS = MetricFamily("nftop_self_cpu_seconds", "CPU time that nftop has used.", "counter")
OWN_AFFINITY = MetricFamily("nftop_self", "The CPUs that nftop may run on.", "info")
OWN_DISTURBS = MetricFamily("nftop_self_disturbs", "1: nftop may run on CPUs of polling threads.")
READS = MetricFamily("nftop_self_pmu_reads", "Reads of hardware counters.", "counter")
INTERRUPTS = MetricFamily(
    "nftop_self_pmu_interrupts", "CPUs interrupted to read, start or stop counters.", "counter"
)
FRAMES = MetricFamily("nftop_self_frames", "Frames since nftop started.", "counter")
ANSWERS = MetricFamily("nftop_self_http_responses", "Answers given over HTTP.", "counter")


# Escapes of label values; the backslash first.
_ESCAPED = (("\\", r"\\"), ('"', r"\""), ("\n", r"\n"))


class TextFormat(Enum):
    """The two formats; the value is the HTTP content type."""

    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    TEXT = "text/plain; version=0.0.4; charset=utf-8"


def labels(**values: object) -> str:
    """Labels of a sample; None and "" are left out. Texts are made printable, for curl."""
    return ",".join(
        f'{name}="{_escaped(value)}"' for name, value in values.items() if value not in (None, "")
    )


def _escaped(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = printable(str(value))
    for char, instead in _ESCAPED:
        text = text.replace(char, instead)
    return text


class Sheet:
    def __init__(self, form: TextFormat, badge: str) -> None:
        self._form = form
        self._badge = badge
        self._everywhere = labels(badge=badge)
        self._lines: list[str] = []
        self._absent: dict[str, Counter[Reason]] = {}

    def add(self, family: MetricFamily, readings: Iterable[tuple[str, Reading]]) -> None:
        """Add readings by their labels. Equal labels are numbered: Prometheus refuses twins."""
        seen: Counter[str] = Counter()
        numbers = []
        for mine, reading in readings:
            seen[mine] += 1
            if isinstance(reading, Missing):
                self.absent(family, reading.reason)
                continue
            duplicate = "" if seen[mine] == 1 else f',twin="{seen[mine]}"'
            numbers.append((mine + duplicate, float(reading)))
        self._put(family, numbers)

    def column(self, family: MetricFamily, rows: list[str], column: Column) -> None:
        """Add a family's readings of all CPUs, whose labels are `rows`."""
        at = np.flatnonzero(column.present)
        values = column.values[at].tolist()
        self._put(
            family, [(rows[row], value) for row, value in zip(at.tolist(), values, strict=True)]
        )
        if len(at) < len(rows):
            for reason, count in enumerate(np.bincount(column.reasons).tolist()):
                if reason != Reason.PRESENT and count:
                    self.absent(family, Reason(reason), count)

    def absent(self, family: MetricFamily, reason: Reason, count: int = 1) -> None:
        self._absent.setdefault(family.sample, Counter())[reason] += count

    def missing(self) -> None:
        """Add the number of absent readings so far."""
        self.add(
            MISSING,
            (
                (labels(metric=name, reason=reason.key), float(count))
                for name, reasons in self._absent.items()
                for reason, count in sorted(reasons.items())
            ),
        )

    def _put(self, family: MetricFamily, numbers: list[tuple[str, float]]) -> None:
        if not numbers:
            return
        self._head(family)
        name, factor, everywhere = family.sample, family.factor, self._everywhere
        for mine, number in numbers:
            both = f"{mine},{everywhere}" if mine and everywhere else mine or everywhere
            value = repr(number if factor == 1.0 else number * factor)
            self._lines.append(f"{name}{{{both}}} {value}" if both else f"{name} {value}")

    def _head(self, family: MetricFamily) -> None:
        strict = self._form is TextFormat.OPENMETRICS
        name = family.name if strict else family.sample
        kind = "gauge" if family.kind == "info" and not strict else family.kind
        text = f"{self._badge}: {family.help}" if self._badge else family.help
        text = text.replace("\\", r"\\").replace("\n", r"\n")
        text = text.replace('"', r"\"") if strict else text
        self._lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
        if strict and family.unit:
            self._lines.append(f"# UNIT {name} {family.unit}")

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)
