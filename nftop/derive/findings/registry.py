"""All rules of findings, the most severe first.

A limit is its source's, if that names one; else `own` explains nftop's choice.
"""

from __future__ import annotations

from nftop.derive.findings import cache_rules, nf_rules, poller_rules, uncore_rules
from nftop.derive.findings.rule import Rule, registered, rule_of

# Modules that register rules when they are imported.
MODULES = (cache_rules, nf_rules, poller_rules, uncore_rules)


def all_rules() -> tuple[Rule, ...]:
    """Every rule, also those registered from outside nftop."""
    return registered()


def rule_called(name: str) -> Rule | None:
    """Rule of that id, in any case, or None."""
    return rule_of(name.casefold())
