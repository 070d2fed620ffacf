"""The rules of findings, the most severe first: a new rule is a row of `HARM` or of `COST`.

Limits are their sources' where these name one. Where they do not, `own` says why nftop took this.
"""

from __future__ import annotations

from nftop.derive.findings.cost import COST
from nftop.derive.findings.harm import HARM
from nftop.derive.findings.rule import Rule

RULES: tuple[Rule, ...] = (*HARM, *COST)


def rule_called(name: str) -> Rule | None:
    """The rule of that id, in any case; None where there is none."""
    wanted = name.casefold()
    return next((rule for rule in RULES if rule.id == wanted), None)
