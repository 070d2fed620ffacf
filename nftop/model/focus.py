"""What is counted only because somebody looks at it."""

from __future__ import annotations

from dataclasses import dataclass

from nftop.model.ids import Cpu


@dataclass(frozen=True, slots=True)
class Focus:
    """Where somebody looks.

    Attributes:
        core: a CPU of the core of which more is wanted (`CoreFocus`); None: of no core.
        traffic: all is wanted that packages can count, not only what is looked at most.
    """

    core: Cpu | None = None
    traffic: bool = False
