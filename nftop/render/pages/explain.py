"""Explanation of metrics and rules: `nftop explain` and the `x` key."""

from __future__ import annotations

import difflib
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache

from nftop.derive.findings.engine import ENDS_AFTER_S, LEAST_TICKS
from nftop.derive.findings.registry import all_rules
from nftop.derive.findings.rule import Rule
from nftop.model.data_files import data_file
from nftop.model.metrics.catalogue import EXPLAINED
from nftop.model.metrics.device import DEVICE_EVENTS
from nftop.model.metrics.metric import Metric
from nftop.model.metrics.pcm import caveat_of
from nftop.model.metrics.tma import TMA_METRICS
from nftop.model.usual import NEAR, NEW_NORMAL_AFTER_S, USUAL_SPAN_S
from nftop.render.cores.columns import BAR
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
_SCOPE_TEXTS = {
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
# Words of headers, of details and of incidents that are no metric: with limits from the code;
# `words.toml` has the others.
_LIMIT_WORDS: Mapping[str, str] = {
    "vs.10m": _USUAL,
    "vs10m": _USUAL,
    "usual": _USUAL,
    "sick": f"a row that loses packets, waits, is a victim or a culprit, or costs {NEAR:.0%} more",
    "well": f"a row within {NEAR:.0%} of its usual cost and without an incident",
}


@lru_cache
def _words() -> Mapping[str, str]:
    return {**_LIMIT_WORDS, **tomllib.loads(data_file(__package__, "words.toml").decode())}


def words_called(name: str) -> str:
    """Entry of a word on screen that is no metric, in any case; "" if it is none."""
    wanted = " ".join(name.casefold().split())
    text = _words().get(wanted, "")
    return textwrap.fill(f"{name}: {text}", _WIDTH, subsequent_indent="  ") if text else ""


def known_metrics() -> tuple[str, ...]:
    """All metric ids in the catalogue's order."""
    return tuple(dict.fromkeys(metric.id for metric in EXPLAINED))


def metrics_called(name: str) -> tuple[str, ...]:
    """Ids of the metrics with this name on screen, in the tree or in JSON, in any case."""
    wanted = " ".join(name.casefold().split())
    if wanted in _HEADERS:
        return _HEADERS[wanted]
    if wanted.split()[:1] in ([bar] for bar in ("tma", "topdn", BAR.label.split()[0].casefold())):
        return tuple(metric.id for metric in TMA_METRICS)
    own = (
        metric.id
        for metric in EXPLAINED
        if wanted in (metric.id, metric.id.removeprefix("tma."), metric.label.casefold())
    )
    of_traffic = _of_traffic().get(wanted)
    if of_traffic is None:
        return tuple(dict.fromkeys(own))
    # A row of the screen and a column of its devices may have one name.
    columns = (item for item in own if item in DEVICE_EVENTS)
    return tuple(dict.fromkeys((*of_traffic, *columns)))


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
    spelt |= {entry: entry for entry in (*ids, *_words())}
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
        ("where", _SCOPE_TEXTS[rule.scope]),
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
            f"{pair} = {text}",
            _WIDTH,
            initial_indent="    ",
            subsequent_indent="      ",
            break_on_hyphens=False,
            break_long_words=False,
        )
        for pair, text in pairs
    ]
    return "\n".join([f"  {name} of {table.name} ({table.title}):", *lines]) if pairs else ""


def _explain(metric: Metric) -> str:
    better = {None: "", "high": ", higher is better", "low": ", lower is better"}[metric.good]
    head = f"{metric.id} ({metric.label}), {_SCOPES[metric.scope]}, {metric.unit.value}{better}"
    paragraphs = [("", metric.meaning), ("formula: ", metric.formula), ("source: ", metric.origin)]
    if metric.scope == "package" and caveat_of(metric.id):
        paragraphs.append(("else: ", caveat_of(metric.id)))
    return "\n".join(
        [head]
        + [
            textwrap.fill(
                text, _WIDTH, initial_indent=f"  {label}", subsequent_indent="  " + " " * len(label)
            )
            for label, text in paragraphs
        ]
    )
