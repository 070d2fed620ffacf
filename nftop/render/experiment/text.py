"""An experiment as text: what it will do, how far it is, what it has measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from nftop.derive.experiment.engine import (
    ExperimentState,
    drop_limit,
    duration_s,
    left_s,
    order_of,
    without_drops,
)
from nftop.model.experiment import (
    Curve,
    EndReason,
    Experiment,
    NfEffect,
    NfLevels,
    SettingResult,
    Visit,
)
from nftop.model.metrics.metric import Unit
from nftop.model.rdt.rdt import class_name
from nftop.render.base.format import number
from nftop.render.base.text import cells, fit, printable
from nftop.render.editor.change import drawn

_MIB, _GB = 2**20, 1e9
_ENDS: Mapping[EndReason, str] = {
    "clear": "the recommendation is decided",
    "rounds": "all rounds are done",
    "drops": "HARM LIMIT: drops",
    "cost": "HARM LIMIT: cycles per packet",
    "gone": "a watched network function ended",
    "silent": "a watched network function gives no numbers",
    "stopped": "stopped",
    "guard": "the guard ended it",
}


def duration_text(seconds: float) -> str:
    """`8m20s`, `45s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def plan_text(plan: Experiment, ways: Mapping[str, int]) -> list[str]:
    """What the experiment will do: every mask, the order, how long it takes, what ends it.

    `ways`: by line of schemata.
    """
    watched = ", ".join(printable(name) for name in plan.watch.values())
    name = printable(class_name(plan.group))
    own = [printable(plan.watch[key]) for key in plan.watch if key in plan.own]
    kind = f"own class of {', '.join(own)}" if own else "a neighbour's class"
    width = max(ways.values(), default=0)
    lines = [f"sweep of {name} ({kind}), watching {watched}", "masks that will be written:"]
    for setting in plan.settings:
        masks = "  ".join(f"L3 {l3}  {drawn(bits, width)}" for l3, bits in setting.masks.items())
        lines.append(f"  {setting.label:8}  {masks}")
    lines += [f"  left out: {printable(text)}" for text in plan.left_out]
    lines += [f"  present:  {text}" for text in _present(plan, width)]
    return [*lines, *_course(plan)]


def _present(plan: Experiment, ways: int) -> Iterator[str]:
    """The masks that are restored at the end."""
    for cell in sorted({change.cell for change in plan.proposal.changes}):
        bits = int(plan.proposal.base[cell], 16)
        yield f"{cell.name} {cell.number}  {drawn(bits, ways)}  restored at the end"


def _course(plan: Experiment) -> Iterator[str]:
    indices, last = range(len(plan.settings)), -1
    orders = []
    for number_ in range(1, plan.rounds_least + 1):
        order = order_of(indices, plan.seed, number_, last)
        orders.append(" ".join(str(plan.settings[at].ways) for at in order))
        last = order[-1]
    timing, limits = plan.timing, plan.limits
    yield f"order     {' | '.join(orders)}  (seed {plan.seed}), further rounds as needed"
    yield (
        f"duration  about {duration_text(duration_s(plan, plan.rounds_least))} for "
        f"{plan.rounds_least} rounds; {plan.rounds_most} rounds at most, later ones of undecided "
        f"widths only; each visit settles {timing.settle_least_s:g} to {timing.settle_most_s:g} s "
        f"and measures {timing.measure_s:g} s"
    )
    drops = limits.drop_packets_per_s
    text = (
        f"more than the baseline's drops and {limits.drop_ratio:.0%} of the offered packets"
        if drops is None
        else f"more than {number(drops, Unit.PER_S, 8)} drops/s"
    )
    yield f"ends at once and restores: {text}; cycles per packet {limits.cpp_ratio:+.0%}"
    yield (
        "also restores: Ctrl-C, a lost terminal, the end of nftop, 15 s without nftop, another "
        "program that changes the classes"
    )


def visit_line(plan: Experiment, state: ExperimentState) -> str:
    """The last visit in one line, and the time left."""
    visit = state.visits[-1]
    setting = "baseline" if visit.setting < 0 else plan.settings[visit.setting].label
    spent_s = (visit.end_ns - visit.written_ns) / 1e9
    head = f"round {visit.round}  {setting:8}  {duration_text(spent_s):>6}" if visit.round else (
        f"{setting:17}  {duration_text(spent_s):>6}"
    )  # fmt: skip
    parts = [_levels(plan.watch[key], nf) for key, nf in visit.nfs.items()]
    left = left_s(state, plan)
    rest = f"  {duration_text(left)} left" if left else ""
    return f"{head}  {'; '.join(parts)}{rest}"


def limit_line(plan: Experiment, baseline: Visit) -> str:
    """The limits on drops and on packets, once the baseline is known."""
    text = f"limit: {_count(drop_limit(plan, baseline))} drops/s of all watched together"
    names = ", ".join(printable(plan.watch[key]) for key in without_drops(baseline))
    fall = f"{plan.limits.drop_ratio:.0%}"
    return f"{text}; {names} has no drop counters: {fall} fewer packets/s" if names else text


def _levels(name: str, nf: NfLevels) -> str:
    drops = f", {_count(nf.drop_packets_per_s)} drop/s" if nf.drop_packets_per_s else ""
    cpp = f", CPP {_plain(nf.cpp)}" if math.isfinite(nf.cpp) else ""
    return f"{printable(name)} {_mpps(nf.packets_per_s)} Mpps{cpp}{drops}"


def end_text(state: ExperimentState) -> str:
    """Why it ended."""
    reason = state.ended or "stopped"
    return _ENDS[reason] + (f": {printable(state.detail)}" if state.detail else "")


def result_text(plan: Experiment, curve: Curve) -> list[str]:
    """The curve as a table, and the recommendation in words."""
    if not curve.results:
        return ["nothing was measured"]
    lines = _table(_rows(plan, curve))
    if curve.recommended is None:
        lines.append("no width is recommended: none is known to cost nothing")
    else:
        lines.append(f"recommended: {_described(plan, curve.recommended)}, {_claim(plan)}")
    if curve.tolerated is not None and curve.tolerated != curve.recommended:
        ratio = plan.tolerance_ratio
        lines.append(f"within {ratio:.1%}: {_described(plan, curve.tolerated)}")
    if not curve.decided:
        labels = ", ".join(plan.settings[item].label for item in curve.undecided)
        lines.append(f"not decided: {labels}" if labels else "not decided")
    return lines


def _claim(plan: Experiment) -> str:
    if plan.own:
        names = ", ".join(printable(plan.watch[key]) for key in plan.watch if key in plan.own)
        return f"the smallest that costs {names} nothing"
    return "the largest that costs no watched network function anything"


def _described(plan: Experiment, setting: int) -> str:
    one = plan.settings[setting]
    masks = ", ".join(f"L3 {l3} {bits:x}" for l3, bits in one.masks.items())
    return f"{one.label} ({masks})"


def _rows(plan: Experiment, curve: Curve) -> list[list[str]]:
    names = [printable(name) for name in plan.watch.values()]
    name = printable(class_name(plan.group))
    heads = [text for nf in names for text in (f"{nf} Mpps", "±", "CPP")]
    rows = [
        ["", "WAYS", "MASK", *heads, "DROP/s", "MISS/pkt", f"{name} MiB", "GB/s", "IPC", "EFFECT"]
    ]
    rows += [_row(plan, curve, item) for item in curve.results]
    return rows


def _row(plan: Experiment, curve: Curve, item: SettingResult) -> list[str]:
    setting = plan.settings[item.setting]
    mark = ">" if item.setting == curve.recommended else ""
    numbers = list[str]()
    for nf in item.nfs.values():
        numbers += [
            _mpps(nf.packets_per_s.value),
            _mpps(nf.packets_per_s.half),
            _plain(nf.cpp.value),
        ]
    drops = [nf.drop_packets_per_s for nf in item.nfs.values()]
    misses = [nf.llc_misses_per_packet for nf in item.nfs.values()]
    return [
        mark,
        str(setting.ways),
        "/".join(f"{bits:x}" for bits in setting.masks.values()),
        *numbers,
        _count(_sum(drops)) + ("~" if any(map(math.isnan, drops)) else ""),
        "/".join(_plain(value, 2) for value in misses),
        _plain(item.occupancy_bytes / _MIB, 1),
        _plain(item.memory_bytes_per_s / _GB, 1),
        _plain(item.ipc, 2),
        _effect(plan, item),
    ]


def _effect(plan: Experiment, item: SettingResult) -> str:
    """`nothing`, or the network functions that it costs something and how much."""
    words = [
        f"{printable(plan.watch[key])} {nf.effect}{_amount(nf)}"
        for key, nf in item.nfs.items()
        if nf.effect != "nothing"
    ]
    return ", ".join(words) or "nothing"


def _amount(nf: NfEffect) -> str:
    if nf.effect not in ("costs", "gains", "drops"):
        return ""
    shown = []
    if math.isfinite(nf.cost_ratio) and abs(nf.cost_ratio) >= 0.005:
        shown.append(f"{nf.cost_ratio:+.1%} CPP")
    if math.isfinite(nf.lost_ratio) and abs(nf.lost_ratio) >= 1e-5:
        shown.append(f"{nf.lost_ratio:+.1%} lost" if abs(nf.lost_ratio) >= 5e-4 else "few lost")
    return f" ({', '.join(shown)})" if shown else ""


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows in columns, aligned right, the first three and the last one left."""
    widths = [max(cells(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = []
    for row in rows:
        parts = [
            fit(text, width) if at in (0, 2) else " " * (width - cells(text)) + text
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
            if at < len(row) - 1
        ]
        lines.append(f"{'  '.join(parts)}  {row[-1]}".rstrip())
    return lines


def _mpps(value: float) -> str:
    return f"{value / 1e6:.2f}" if math.isfinite(value) else "-"


def _plain(value: float, places: int = 0) -> str:
    return f"{value:.{places}f}" if math.isfinite(value) else "-"


def _count(value: float) -> str:
    return number(value, Unit.PER_S, 8) if math.isfinite(value) else "-"


def _sum(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return sum(known) if known else math.nan
