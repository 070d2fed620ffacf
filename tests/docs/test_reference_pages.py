"""docs/metrics.md and docs/rules.md are the catalogue and the rules.

`python -m tests.docs.test_reference_pages` writes both pages again.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from nftop.derive.findings.registry import all_rules
from nftop.model.metrics.catalogue import EXPLAINED
from nftop.model.metrics.metric import Metric
from nftop.model.metrics.pcm import caveat_of
from nftop.render.pages.explain import rule_facts
from tests.house import ROOT

DOCS = ROOT / "docs"
SCOPES = {
    "cpu": "Per CPU",
    "nf": "Per network function",
    "package": "Per package (socket)",
    "device": "Per PCIe root port with network devices",
    "group": "Per cache class and last-level cache",
    "core": "Of the core in focus",
}
_METRICS_HEAD = """\
# Metrics

Made from the metric catalogue (`nftop/model/metrics/`) by
`python -m tests.docs.test_reference_pages`; do not edit. `nftop explain NAME` prints the same, and
with `--uarch SKX` the events and the formula of that CPU.

A metric has one name everywhere: in JSON, in exports, in OpenMetrics (spelt out, with its unit) and
here. Dots nest in JSON. Ratios are 0 to 1; the screen shows them as percentages. *Column* is its
header on screen."""
_RULES_HEAD = """\
# Rules of findings

Made from the rules (`nftop/derive/findings/`) by `python -m tests.docs.test_reference_pages`; do
not edit. `nftop explain RULE` prints the same. [Findings](findings.md) says how they begin, end,
and become incidents.

A rule is muted, or gets another limit, with `m` and `l` on the findings page (`F`), or in
`config.toml`:

    [rules.drops]
    limit = 1000
    muted = false"""


def metrics_page() -> str:
    """`docs/metrics.md`: a section per scope, and in it every metric."""
    sections = [_METRICS_HEAD]
    for scope, title in SCOPES.items():
        sections.append(f"## {title}")
        sections += [_metric(metric) for metric in EXPLAINED if metric.scope == scope]
    return "\n\n".join(sections) + "\n"


def rules_page() -> str:
    """`docs/rules.md`: every rule, the most severe first."""
    sections = [_RULES_HEAD]
    for rule in all_rules():
        facts = [
            f"- {label}: {_text(text)}" for label, text in rule_facts(rule) if label != "setting"
        ]
        sections.append("\n".join([f"## {rule.id}", "", f"{_text(rule.title)}.", "", *facts]))
    return "\n\n".join(sections) + "\n"


PAGES: dict[str, Callable[[], str]] = {"metrics.md": metrics_page, "rules.md": rules_page}


def _metric(metric: Metric) -> str:
    better = {None: "", "high": ", higher is better", "low": ", lower is better"}[metric.good]
    lines = [
        f"### {metric.id}",
        "",
        f"Column **{metric.label}**, {metric.unit.value}{better}.",
        _text(metric.meaning),
        "",
        f"- formula: {_text(metric.formula)}",
        f"- source: {_text(metric.origin)}",
    ]
    caveat = caveat_of(metric.id) if metric.scope == "package" else ""
    return "\n".join([*lines, *([f"- else: {_text(caveat)}"] if caveat else [])])


def _text(text: str) -> str:
    """Text in which Markdown finds no markup of its own."""
    return re.sub(r"([*\\`\[\]<>$])", r"\\\1", text)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_equals_what_its_source_gives(name: str) -> None:
    page = (DOCS / name).read_text()
    assert page == PAGES[name](), "python -m tests.docs.test_reference_pages writes it"


def test_every_metric_and_rule_has_an_entry() -> None:
    metrics, rules = metrics_page(), rules_page()
    assert {metric.id for metric in EXPLAINED} == set(re.findall(r"(?m)^### (\S+)$", metrics))
    assert [rule.id for rule in all_rules()] == re.findall(r"(?m)^## (\S+)$", rules)


if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())
