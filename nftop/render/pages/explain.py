"""Explanation of metrics and rules: `nftop explain` and the `x` key."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Sequence

from nftop.derive.findings.engine import ENDS_AFTER_S, LEAST_TICKS
from nftop.derive.findings.rule import Rule
from nftop.derive.findings.rules import all_rules
from nftop.model.metrics.catalogue import EXPLAINED
from nftop.model.metrics.metric import Metric
from nftop.model.metrics.pcm import caveat_of
from nftop.model.metrics.tma import TMA_METRICS
from nftop.render.cores.columns import BAR
from nftop.uarch.explain import definition
from nftop.uarch.table import Uarch

_SCOPES = {
    "cpu": "per CPU",
    "nf": "per network function",
    "package": "per package",
    "group": "per cache class and L3",
    "core": "of the selected core",
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


def known_metrics() -> tuple[str, ...]:
    """All metric ids in the catalogue's order."""
    return tuple(dict.fromkeys(metric.id for metric in EXPLAINED))


def metrics_called(name: str) -> tuple[str, ...]:
    """Ids of the metrics with this name on screen, in the tree or in JSON, in any case."""
    wanted = name.casefold()
    if wanted in ("tma", BAR.label.split()[0].casefold()):
        return tuple(metric.id for metric in TMA_METRICS)
    return tuple(
        dict.fromkeys(
            metric.id
            for metric in EXPLAINED
            if wanted in (metric.id, metric.id.removeprefix("tma."), metric.label.casefold())
        )
    )


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
    spelt |= {entry: entry for entry in ids}
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
        facts.append(("setting", f"[rules.{rule.id}] limit = {rule.limit:g}, muted = true"))
    return facts + ([("note", rule.note)] if rule.note else [])


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
