"""What the hardware and the kernel of a host accept."""

from __future__ import annotations

from collections.abc import Mapping

from nftop.model.change import Cell, ReasonCode, Refusal, State
from nftop.model.number_text import counted
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import LOCKED, ROOT, MbaUnit
from nftop.model.struct import dataclass, field


@dataclass(frozen=True, slots=True)
class MaskRule:
    """Rule for the masks of a line of schemata.

    Attributes:
        min_bits: at least 1: a class without a way can't run.
        sparse: masks may have gaps.
        shareable: ways that the hardware may use as well; no exclusive group may have them.
    """

    ways: int
    min_bits: int = 1
    sparse: bool = False
    shareable: int = 0


def mask_problem(rule: MaskRule, bits: int) -> str:
    """Why a class cannot have this mask; "" if it can."""
    if not 0 <= bits < 1 << rule.ways:
        return f"the cache has {rule.ways} ways, {(1 << rule.ways) - 1:#x} at most"
    if bits.bit_count() < rule.min_bits:
        return f"a class has {counted(rule.min_bits, 'way')} at least"
    if not rule.sparse and not Cbm(bits, rule.ways).contiguous:
        return "this CPU takes only ways that are side by side"
    return ""


@dataclass(frozen=True, slots=True)
class LimitRule:
    """Limits on memory bandwidth: from `least` to `most` in steps, in the kernel's unit."""

    least: int
    step: int
    most: int
    unit: MbaUnit = "percent"


@dataclass(frozen=True, slots=True)
class IoRule:
    """Rule for the ways of I/O (`io_alloc`).

    The kernel gives them the highest class of the L3, which no group may have meanwhile, and no
    mask of them may have ways of an exclusive group (`fs/resctrl/ctrlmondata.c`, Linux 6.19).

    Attributes:
        line: folder of info, whose masks' rule is theirs: `L3`, with CDP `L3DATA`.
        clos: number of that class.
        holder: group that has that class now, so that they can't be switched on; None if none has,
            or unknown.
        problem: why they can't be switched on at all; "" if they can.
    """

    line: str
    clos: int | None = None
    holder: str | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules of a host.

    Attributes:
        masks: by the line's name (`L3`, `L2`, `L3CODE`).
        limit: None if bandwidth can't be limited.
        closids: maximum number of classes, that of I/O among them; None if unknown.
        io: by L3 the ways that devices write into as well, and the source of that fact.
        siblings: by CPU the others of its core.
        tasks: group by thread (`TID@STARTTIME`) for the groups and threads that were requested.
        rmids: maximum number of groups of either kind with monitors; None if unknown.
        io_alloc: of the ways of I/O; None if they can't be set.
    """

    masks: Mapping[str, MaskRule] = field(default_factory=dict)
    limit: LimitRule | None = None
    closids: int | None = None
    io: Mapping[int, tuple[int, str]] = field(default_factory=dict)
    siblings: Mapping[int, frozenset[int]] = field(default_factory=dict)
    tasks: Mapping[str, str] = field(default_factory=dict)
    rmids: int | None = None
    io_alloc: IoRule | None = None


def untouchable(state: State, group: str, monitor: str = "") -> Refusal | None:
    """Why nftop must not change a group; None if it may.

    Changing a pseudo-locked group loses its cache content; a name that no terminal can show might
    be confused with another.
    """
    if state.get(Cell("mode", group), "") in LOCKED:
        why = f"{group} holds a locked part of a cache (pseudo-locked), which nftop leaves alone"
        return Refusal(ReasonCode.GROUP_LOCKED, why)
    for name in (group, monitor):
        if name != ROOT and ("/" in name or name in (".", "..") or not name.isprintable()):
            why = f"{name!r} is no plain text: nftop changes no group of such a name"
            return Refusal(ReasonCode.GROUP_NAME, why)
    return None
