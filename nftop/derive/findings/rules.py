"""All rules of findings, the most severe first.

A limit is its source's, if that names one; else `own` explains nftop's choice.
"""

from __future__ import annotations

from nftop.derive.findings import nfs, pollers, traffic
from nftop.derive.findings.rule import Rule, registered

# Modules that register rules when they are imported.
MODULES = (nfs, pollers, traffic)


def all_rules() -> tuple[Rule, ...]:
    """Every rule, also those registered from outside nftop."""
    return registered()


def rule_called(name: str) -> Rule | None:
    """Rule of that id, in any case, or None."""
    wanted = name.casefold()
    return next((rule for rule in all_rules() if rule.id == wanted), None)
