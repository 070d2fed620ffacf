"""A finding: a fact beyond a limit that somebody has named, and that has lasted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that holds in one place. It states numbers, and never why they are so.

    Attributes:
        rule: the rule's id: `nftop explain RULE` has its limit, its source and its conditions.
        metric: the id of the catalogue's metric that it is about.
        where: `cpu 12`, `cpu 12,56` (one core), `nf vpp`, `package 0`, `class vpp, L3 0` (untrusted
            text: names of groups and network functions).
        text: what was found, with the numbers of the last tick that was beyond the limit, and
            behind them what they are now where they no longer are (untrusted text).
        since_ns: wall time of the first tick that showed it.
        is_note: nothing is wrong; a number does not mean what it seems to.
    """

    rule: str
    metric: str
    where: str
    text: str
    since_ns: int
    is_note: bool = False
