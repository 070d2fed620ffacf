"""A line of `nftop doctor`."""

from __future__ import annotations

from nftop.model.missing import Reason
from nftop.model.struct import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `nftop doctor`.

    Attributes:
        name: what was checked (`perf`, `perf cycles`, `dpdk nfa`).
        reason: PRESENT when it works.
        text: the result, or why there is none.
        fix: a command for a shell; "" if none helps here. Other advice is in `text`.
        why: why it matters, with its reference; "" if obvious.
        advised: False if it works but is not set as `why` advises.
    """

    name: str
    reason: Reason
    text: str
    fix: str = ""
    why: str = ""
    advised: bool = True

    @property
    def state(self) -> str:
        """`ok`, `tune` if not set as advised, or the key of the reason."""
        return "tune" if self.reason is Reason.PRESENT and not self.advised else self.reason.key
