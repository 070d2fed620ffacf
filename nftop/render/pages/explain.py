"""Explanation of metrics and rules: `nftop explain` and the `x` key."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Mapping, Sequence
from functools import lru_cache

from nftop.derive.findings.engine import ENDS_AFTER_S, LEAST_TICKS
from nftop.derive.findings.rule import Rule
from nftop.derive.findings.rules import all_rules
from nftop.model.metrics.catalogue import EXPLAINED
from nftop.model.metrics.metric import Metric
from nftop.model.metrics.pcm import caveat_of
from nftop.model.metrics.tma import TMA_METRICS
from nftop.model.usual import NEW_NORMAL_AFTER_S, USUAL_SPAN_S
from nftop.render.cores.columns import BAR
from nftop.render.cores.harm import NEAR
from nftop.render.traffic.page import sections
from nftop.uarch.explain import definition
from nftop.uarch.table import Uarch

_SCOPES = {
    "cpu": "per CPU",
    "nf": "per network function",
    "package": "per package",
    "group": "per cache class and L3",
    "core": "of the selected core",
    "device": "per PCIe root port",
}
# Scopes of rules.
_PLACES = {
    "cpu": "each CPU on which a network function polls",
    "core": "each physical core on which a network function polls",
    "nf": "each network function",
    "package": "each package",
    "group": "each cache class and L3 in which a network function polls",
    "host": "the host",
}
_WIDTH = 78
_MOST_NEAR, _LEAST_WITHIN = 5, 3


# Headers that name a metric otherwise than the catalogue does.
_HEADERS: Mapping[str, tuple[str, ...]] = {
    "in": ("rx_packets_per_s",),
    "in mpps": ("rx_packets_per_s",),
    "out": ("tx_packets_per_s",),
    "out mpps": ("tx_packets_per_s",),
    "mib used/cap": ("occupancy_bytes", "capacity_bytes"),
    "gb/s": ("mbm_total_bytes_per_s",),
    "mb/s": ("mbm_total_bytes_per_s",),
    "local": ("mbm_local_bytes_per_s",),
    "min-max": ("min_frequency_hz", "max_frequency_hz"),
    "topdn": tuple(metric.id for metric in TMA_METRICS),
    "line rate": ("line_packets_per_s", "line_ratio"),
    "mem": ("memory.read_bytes_per_s", "memory.write_bytes_per_s"),
    "ddio hit": ("pcie.ddio_hit_ratio",),
}
_USUAL = (
    "a packet's cycles against what is usual for the row: the median of the last "
    f"{USUAL_SPAN_S / 60:.0f} minutes outside of incidents that harm and concern it, -5% or +10%. "
    "busy_cpp where the network function separates empty polls; else cpp, and only on a core "
    f"without time left, or while its packets are within {NEAR:.0%} of the usual ones. An incident "
    f"that lasts for {NEW_NORMAL_AFTER_S / 60:.0f} minutes is the new normal: its own values are "
    "the usual ones from then on. - where nothing is known from before an incident"
)
# Words of headers, of details and of incidents that are no metric.
_WORDS: Mapping[str, str] = {
    "vs.10m": _USUAL,
    "vs10m": _USUAL,
    "usual": _USUAL,
    "cpp 5 min": "cost of a packet over five minutes, each step 5 % of the usual one (vs.10m)",
    "5 min": "cost of a packet over five minutes, each step 5 % of the usual one (vs.10m)",
    "mpps 10m -10..+5%": "packets over ten minutes, from 10 % below to 5 % above the usual ones",
    "mpps 5 min": "packets over five minutes, from 10 % below to 5 % above the usual ones",
    "harm": "order of rows: packets lost first, then victims of incidents, waiting for the CPU, "
    "and cost above the usual one; culprits follow their worst victim",
    "sick": f"a row that loses packets, waits, is a victim or a culprit, or costs {NEAR:.0%} more",
    "well": f"a row within {NEAR:.0%} of its usual cost and without an incident",
    "host": "of a fleet: the host's own name, or Prometheus' name of its target (instance)",
    "age": "of a fleet: time from a host's readings to now, by Prometheus' clock",
    "incident, finding": "of a fleet: what is wrong with the row, the worst first; +2: two more",
    "incident": "findings with the same cause: culprit, victims, price and age (Tab opens it)",
    "devices gb/s": "network devices behind one PCIe root port: their interfaces, or addresses",
    "stack": "where a root port is counted: socket, stack (uncore_iio_N) and port of the stack",
    "root port": "PCI address of the port of the CPU that the devices are behind",
    "driver": "the kernel's drivers of the devices; vfio-pci and such hand them to a program",
    "culprit": "what causes an incident: a process, class, network function, CPU or device",
    "victim": "a network function that an incident harms",
    "price": "what an incident costs now: dropped packets, or packets not sent any more",
    "worst": "the price of an incident at its worst tick",
    "finding": "a number beyond a limit for some seconds; `F` lists them",
    "state": "of a class: full, over its ways, or drain after ways were taken from it; "
    "of an event: open, ended, in force or undone",
    "nf": "network function: DPDK application, VPP or OVS, with prefix or folder, and with its "
    "CPUs (@3-4) where several have the name",
    "nf, cpu": "network functions, and other CPUs, that run in the class",
    "cpu": "number of a logical CPU (hyper-thread), as in /proc/cpuinfo",
    "cpus": "logical CPUs on which it polls, or that are in the class",
    "thread": "name of the thread that polls on the CPU, of 15 characters at most",
    "smt": "the other hyper-thread of the core; ! where it is busy",
    "class": "cache class (CAT) in effect: the thread's, else its CPU's",
    "cos": "number of a cache class in hardware (CLOS)",
    "mask": "ways of L3 that a class may fill, hexadecimal, way 0 in the lowest bit",
    "way": "one of the equal slices of L3; a class fills the ways of its mask",
    "mba": "limit of memory bandwidth of a class, in percent or MB/s (Memory Bandwidth Allocation)",
    "limit": "limit of memory bandwidth of a class (MBA)",
    "alone": "capacity of the ways that only this class may fill",
    "others": "capacity of the ways that other classes or devices may fill too",
    "changed": "time of the last change of the class that nftop saw",
    "owner": "who made the class: a user, or another program's group",
    "governor/epp": "scaling governor of cpufreq, and energy performance preference",
    "kind": "kind of network function: dpdk, ovs, vpp",
    "socket": "processor package",
    "sock": "processor package",
    "i/o": "ways that devices write to (DDIO), as far as known",
    "cache": "an L3 cache, by its number in resctrl",
    "by": "what is monitored: a core, thread, process or monitoring group",
    "id": "CPU, thread or process number of what is monitored",
    "name": "name of the thread, process or group that is monitored",
    "monitoring group": "group of resctrl that has a monitor (RMID) of its own",
    "queues": "receive queues, where the network function reports them",
    "queues: port": "port of a receive queue",
    "queue": "number of a receive queue",
    "missed/s": "packets per second that the NIC dropped for lack of descriptors (imissed)",
    "frame": "mean size of the frames of a port in bytes",
    "nodes": "nodes of VPP's graph that used most clocks",
    "clocks": "share of all clocks that a node used",
    "tsc/pkt": "clocks of the time stamp counter that a node used for a packet",
    "pkt/call": "packets that a node had in a call (its vector)",
    "flow tables": "PMD thread of OVS whose lookups these are",
    "megaflw": "packets per second that matched in the megaflow classifier",
    "drops": "ports, threads or nodes that drop packets",
    "reason": "why packets are dropped, in the words of the network function",
    "share": "a thread's part of the packets that all threads of its network function receive; of "
    "a top-down node, its part of the issue slots or cycles (OF)",
    "together": "what a monitoring group of several threads of a network function counts",
    "polls": "the clocks of this node include calls that found no packets",
    "node": "node of VPP's graph, or of the top-down tree",
    "port": "port whose counters follow",
    "counter": "counter of a port or node, in the words of its driver or of VPP",
    "count": "what a counter has counted since the network function started",
    "per s": "rate of a counter; ~: by packet received, times packets per second",
    "papers": "published numbers for the workload (w chooses one); not a target",
    "mpps/core": "packets per second of one physical core",
    "baseline": "medians of the last ticks, kept by b, with which vs.base compares",
    "spread": "median absolute deviation from the median",
    "ticks": "samples of which a median is",
    "then": "value in the baseline, or at the moment that the timeline shows",
    "now": "value of this tick",
    "rmid": "number of a monitor in hardware (resource monitoring ID)",
    "peers": "median of the other cores of the network function, else of all cores that poll",
    "of": "base of a top-down share: issue slots or cycles",
    "probes": "metrics of the selected core beside its top-down tree",
    "cores": "physical cores; on the Traffic screen what they request from the last-level cache",
    "what": "incidents, changes of the host and markers, the newest first",
    "setting": "setting of cpufreq or of Speed Select, and what it is",
    "last change": "means before and after the last change of frequencies",
    "channels": "memory channels, read and written bytes of each",
    "links": "UPI or QPI links between packages, received and sent bytes of each",
    "accelerators": "Intel QAT, IAA and DSA devices, as a sensor server counts them",
    "hit": "requests that the last-level cache answered",
    "miss": "requests that went to memory or to another package",
    "hit%": "hits by hits and misses",
    "all": "hits and misses; of threads, all of a network function",
    "self": "CPU time of nftop and its helpers, of one CPU",
    "live": "the screen shows this host now, every so many seconds; PAUSED, PAST and REPLAY do not",
    "saturated": "a core without time left; saturated_by has what shows it (nftop explain SAT.by)",
    "begin": "when an incident, change or marker began",
    "end": "when it ended",
    "lasted": "how long an incident lasted, or lasts",
    "value": "metric by which a change is judged",
    "before": "median before the change",
    "after": "median after the change and after settling",
    "change": "after against before; a verdict needs enough samples and an equal load",
    "n": "samples before and after the change",
    "+-": "half the width of the 95 % interval of the change",
}


def words_called(name: str) -> str:
    """Entry of a word on screen that is no metric, in any case; "" if it is none."""
    wanted = " ".join(name.casefold().split())
    text = _WORDS.get(wanted, "")
    return textwrap.fill(f"{name}: {text}", _WIDTH, subsequent_indent="  ") if text else ""


def known_metrics() -> tuple[str, ...]:
    """All metric ids in the catalogue's order."""
    return tuple(dict.fromkeys(metric.id for metric in EXPLAINED))


def metrics_called(name: str) -> tuple[str, ...]:
    """Ids of the metrics with this name on screen, in the tree or in JSON, in any case."""
    wanted = " ".join(name.casefold().split())
    if wanted in _HEADERS:
        return _HEADERS[wanted]
    if wanted in _of_traffic():
        return _of_traffic()[wanted]
    if wanted.split()[:1] in ([bar] for bar in ("tma", "topdn", BAR.label.split()[0].casefold())):
        return tuple(metric.id for metric in TMA_METRICS)
    return tuple(
        dict.fromkeys(
            metric.id
            for metric in EXPLAINED
            if wanted in (metric.id, metric.id.removeprefix("tma."), metric.label.casefold())
        )
    )


@lru_cache(maxsize=1)
def _of_traffic() -> Mapping[str, tuple[str, ...]]:
    """Metrics by the titles and rows of the Traffic screen."""
    result: dict[str, tuple[str, ...]] = {}
    for section in sections():
        for label, rows in (
            (section.title, section.rows),
            *((row.label, (row,)) for row in section.rows),
        ):
            ids = (metric.id for row in rows for metric in row.metrics)
            result[label.casefold()] = (*result.get(label.casefold(), ()), *ids)
    return {label: tuple(dict.fromkeys(ids)) for label, ids in result.items()}


def explain_metric(name: str, tables: Sequence[Uarch] = ()) -> str:
    """The catalogue's entries for an id, and how each of `tables` computes it.

    Raises:
        KeyError: there is no such metric.
    """
    rows = [metric for metric in EXPLAINED if metric.id == name]
    if not rows:
        raise KeyError(name)
    computed = (_computed(table, name) for table in tables)
    return "\n\n".join([*(_explain(metric) for metric in rows), *filter(None, computed)])


def known_rules() -> tuple[str, ...]:
    """Ids of all rules of findings, the most severe first."""
    return tuple(rule.id for rule in all_rules())


def near_names(name: str) -> tuple[str, ...]:
    """At most five ids of metrics and rules that contain a name or resemble it (difflib)."""
    wanted = name.casefold()
    ids = (*known_metrics(), *known_rules())
    spelt: dict[str, str] = {}
    for item in EXPLAINED:
        spelt.setdefault(item.label.casefold(), item.id)
        spelt.setdefault(item.id.removeprefix("tma."), item.id)
    spelt |= {entry: entry for entry in (*ids, *_WORDS)}
    close = [
        spelt[close_match] for close_match in difflib.get_close_matches(wanted, spelt, n=_MOST_NEAR)
    ]
    within = [entry for entry in ids if len(wanted) >= _LEAST_WITHIN and wanted in entry]
    return tuple(dict.fromkeys((*within, *close)))[:_MOST_NEAR]


def explain_rule(rule: Rule) -> str:
    """Description of a rule of findings."""
    head = f"{rule.id}, a finding: {rule.title}"
    rows = [
        textwrap.fill(
            text,
            _WIDTH,
            initial_indent=f"  {label}: ",
            subsequent_indent=" " * (len(label) + 4),
            break_on_hyphens=False,
        )
        for label, text in rule_facts(rule)
    ]
    return "\n".join([head, *rows])


def rule_facts(rule: Rule) -> list[tuple[str, str]]:
    """Facts of a rule: location, metric, conditions, source."""
    lasting = f"for {rule.at_least_s:g} s and " if rule.at_least_s else ""
    other = "above" if rule.beyond == "below" else "below"
    back = "" if rule.clear == rule.limit == 0 else f" or {other}"
    begins = f"{rule.beyond} {rule.printed(rule.limit)} {lasting}in {LEAST_TICKS} ticks or more"
    ends = f"it ends after {ENDS_AFTER_S:g} s at {rule.printed(rule.clear)}{back}"
    facts = [
        ("where", _PLACES[rule.scope]),
        ("metric", ", ".join(rule.metrics)),
        ("when", rule.when or f"{begins}; {ends}"),
        *(("only where", only.condition) for only in rule.only),
        ("source", rule.source),
    ]
    facts += [("limit", f"nftop's own: {rule.own}")] if rule.own else []
    if rule.normal_for:
        names = ", ".join(rule.normal_for)
        facts.append(("normal for", f"{names}: information there, unless something else is wrong"))
    if not rule.when:
        facts.append(("setting", _setting(rule)))
    return facts + ([("note", rule.note)] if rule.note else [])


def _setting(rule: Rule) -> str:
    return (
        f"limit {rule.printed(rule.limit)}, not muted; the page of findings changes both (l, m; "
        f"kept in rules.toml), or limit and muted of rules.{rule.id} in config.toml"
    )


def _computed(table: Uarch, name: str) -> str:
    """A table's formula for a metric with its terms and events; "" if none."""
    pairs = definition(table, name, smt=True)
    lines = [
        textwrap.fill(
            f"{pair} = {text}", _WIDTH, initial_indent="    ", subsequent_indent="      ",
            break_on_hyphens=False, break_long_words=False,
        )
        for pair, text in pairs
    ]  # fmt: skip
    return "\n".join([f"  {name} of {table.name} ({table.title}):", *lines]) if pairs else ""


def _explain(metric: Metric) -> str:
    better = {None: "", "high": ", higher is better", "low": ", lower is better"}[metric.good]
    head = f"{metric.id} ({metric.label}), {_SCOPES[metric.scope]}, {metric.unit.value}{better}"
    parts = [("", metric.meaning), ("formula: ", metric.formula), ("source: ", metric.origin)]
    if metric.scope == "package" and caveat_of(metric.id):
        parts.append(("else: ", caveat_of(metric.id)))
    return "\n".join(
        [head]
        + [
            textwrap.fill(
                text, _WIDTH, initial_indent=f"  {label}", subsequent_indent="  " + " " * len(label)
            )
            for label, text in parts
        ]
    )
