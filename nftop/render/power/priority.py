"""Page of the frequency editor: choices, and the effect of the last change."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.model.reading import Missing
from nftop.model.struct import dataclass
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, line, paragraph, pointed_at
from nftop.render.frame.header import alert_lines, badge_lines

_MOST_CPUS = 16


@dataclass(frozen=True, slots=True)
class Effect:
    """Means of a CPU before and after a change: Hz, packets received per second; NaN: unknown."""

    cpu: Cpu
    hz: tuple[float, float]
    packets: tuple[float, float]


def priority_lines(
    frame: Frame,
    texts: Sequence[str],
    at: int,
    effects: Sequence[Effect],
    width: int,
    *,
    locked: str,
    stood_s: float | None = None,
) -> tuple[list[Line], int]:
    """The page, and the line of the cursor.

    Args:
        frame: the newest.
        texts: of the choices.
        at: index of the selected one.
        effects: of the last applied change.
        width: cells of a line.
        locked: why nothing can be applied; "": it can.
        stood_s: seconds until the last change was reverted; None: it was not.
    """
    badge = [item for badge_line in badge_lines(frame.host) for item in (badge_line, " ")]
    lines = [line(*badge, Span("Core frequencies", Tone.TITLE))]
    lines += alert_lines(locked, width=width) if locked else []
    if isinstance(frame.frequencies, Missing):
        lines += alert_lines(f"no frequencies here: {frame.frequencies.message}", width=width)
    else:
        names = ", ".join(dict.fromkeys(keeper.name for keeper in frame.frequencies.keepers))
        lines += alert_lines(f"{names} may set frequencies here too", width=width) if names else []
    lines.append(BLANK)
    spot = len(lines) + at
    for index, text in enumerate(texts):
        row = crop(line(("> " if index == at else "  ") + text), width)
        lines.append(pointed_at(row) if index == at else row)
    lines += [BLANK, *paragraph(
        "Enter previews the writes. High-priority cores (SST-BF) are fixed in silicon.",
        width, tone=Tone.DIM,
    )]  # fmt: skip
    return [*lines, *_effects(effects, width, stood_s)], spot


def _effects(effects: Sequence[Effect], width: int, stood_s: float | None) -> list[Line]:
    if not effects:
        return []
    ended = "" if stood_s is None else f" (taken back after {stood_s:.0f} s)"
    head = f"the last change{ended}, before -> after (means of up to 30 s)"
    lines = [BLANK, line(Span(head, Tone.HEADER))]
    for effect in effects[:_MOST_CPUS]:
        text = (
            f"  CPU {effect.cpu:>3}  {_pair(effect.hz, 'Hz')}  {_pair(effect.packets, 'packets/s')}"
        )
        lines.append(crop(line(text), width))
    more = len(effects) - _MOST_CPUS
    return lines + [line(Span(f"  + {more} more CPUs", Tone.DIM))] * (more > 0)


def _pair(values: tuple[float, float], unit: str) -> str:
    """`2.30 -> 2.70 GHz (+17.4 %)`."""
    scale, name = {"Hz": (1e9, "GHz"), "packets/s": (1e6, "Mpps")}[unit]
    before, after = values
    known = [f"{value / scale:6.2f}" if not math.isnan(value) else "     -" for value in values]
    change = (
        f" ({(after / before - 1) * 100:+.1f} %)" if before > 0 and not math.isnan(after) else ""
    )
    return f"{known[0]} -> {known[1]} {name}{change}"
