"""An experiment as text: what it will do, how far it is, what it has measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

from nftop.derive.experiment.curve import differences
from nftop.derive.experiment.engine import (
    ExperimentState,
    drop_limit,
    duration_s,
    left_s,
    order_of,
    without_drops,
)
from nftop.model.change import Receipt
from nftop.model.experiment import (
    Curve,
    EndReason,
    Experiment,
    NfEffect,
    NfLevels,
    Setting,
    SettingEffect,
    SettingResult,
    Settling,
    TryDifference,
    Visit,
)
from nftop.model.ids import L3Domain
from nftop.model.metrics.metric import BOUND, Unit
from nftop.model.number_text import MORE_THAN_0, counted
from nftop.model.rdt.rdt import MbaUnit, class_name
from nftop.render.base.format import duration_text, number
from nftop.render.base.text import cells, fit, printable, truncate, wrap
from nftop.render.editor.change import changed, drawn

_MIB, _GB = 2**20, 1e9
# Names of the numbers of a trial; cells of its table without the first column.
_METRICS: Mapping[str, str] = {
    "busy_cpp": "busy CPP",
    "cpp": "CPP",
    "lost_ratio": "lost",
    "packets_per_s": "Mpps",
    "ipc": "IPC",
    "mbm_total_bytes_per_s": "memory GB/s",
    "memory_bytes_per_s": "memory GB/s",
    "pcie.ddio_hit_ratio": "I/O hit %",
}
_TRIAL_CELLS = 62
# Most cells of a name in a heading, and the least for effects beside numbers.
_MOST_NAME, _LEAST_EFFECT = 16, 28
_SETTLINGS: Mapping[Settling, str] = {
    "still": "",
    "moving": "still moving",
    "unmetered": "occupancy not monitored",
    "no_size": "size of the cache unknown",
}
# Effects, the worst last.
WORST: tuple[SettingEffect, ...] = (
    "nothing", "gains", "undecided", "unmeasured", "drops", "costs",
)  # fmt: skip
# Effects of settings in a sweep that was stopped.
_SO_FAR: Mapping[SettingEffect, str] = {effect: effect for effect in WORST} | {
    "nothing": "costs nothing"
}
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


def plan_text(plan: Experiment, ways: Mapping[str, int], width: int) -> list[str]:
    """What the experiment will do: every mask, the order, how long it takes, what ends it.

    `ways`: by line of schemata. `width`: most cells of a line.
    """
    watched = ", ".join(printable(name) for name in plan.watch.values())
    name = group_text(plan)
    own = [printable(plan.watch[key]) for key in plan.watch if key in plan.own]
    kind = f"own class of {', '.join(own)}" if own else "a neighbour's class"
    kind = "io_alloc" if plan.of_io else kind
    total = max(ways.values(), default=0)
    lines = _wrapped(f"sweep of {name} ({kind}), watching {watched}", width)
    lines.append("masks that will be written:")
    for setting in plan.settings:
        masks = [
            f"L3 {l3}  {drawn(bits, total)}{_sharing_mark(setting, l3)}"
            for l3, bits in setting.masks.items()
        ]
        lines += _after(f"  {setting.label:8}  ", masks, width)
    for name, nfs in plan.polled.items():
        watched_here = ", ".join(
            printable(nf) + " (watched)" * (nf in plan.watch.values()) for nf in nfs
        )
        lines += _wrapped(f"class {printable(class_name(name))}: {watched_here}", width, 2)
    for text in plan.left_out:
        lines += _wrapped(f"left out: {printable(text)}", width, 2)
    lines += [f"  present:  {text}" for text in _present(plan, total)]
    return [*lines, *_course(plan, width)]


def group_text(plan: Experiment) -> str:
    """What is swept: a class, or the ways of I/O."""
    return "the ways of I/O" if plan.of_io else printable(class_name(plan.group))


def trial_plan_text(
    plan: Experiment, ways: Mapping[str, int], unit: MbaUnit, width: int
) -> list[str]:
    """What a trial will do: every value, the order, how long it takes, what ends it.

    `ways`: by line of schemata. `unit`: of limits of memory bandwidth. `width`: of a line.
    """
    watched = ", ".join(printable(name) for name in plan.watch.values())
    label = printable(plan.settings[1].label)
    lines = _wrapped(f"try {label} against now, watching {watched}", width)
    lines.append(f"{label} writes, to and fro; what is now is restored at the end:")
    for text in changed(plan.settings[1].changes, ways, unit):
        lines += _wrapped(printable(text), width, 2)
    return [*lines, *_course(plan, width)]


def trial_text(plan: Experiment, visits: Sequence[Visit], width: int) -> list[str]:
    """What differs, in words and with sizes: a line for each number."""
    numbers = differences(plan, visits)
    if not any(visit.round for visit in visits):
        return ["nothing was measured"]
    label = truncate(plan.settings[1].label, 8)
    names = [_target(item) for item in numbers]
    wide = min(max(map(cells, names)), max(width - _TRIAL_CELLS, 8))
    lines = [f"{'':{wide}}  {'':11}  {'NOW':>7}  {label.upper():>8}  {'CHANGE':>16}  WORD"]
    for name, item in zip(names, numbers, strict=True):
        lines.append(
            f"{fit(name, wide)}  {_METRICS[item.metric]:11}  {_value(item.metric, item.now):>7}  "
            f"{_value(item.metric, item.then):>8}  {_change(item):>16}  {item.word}"
        )
    return lines


def _target(item: TryDifference) -> str:
    if item.kind == "nf":
        return printable(item.name)
    name = class_name(item.name) if item.kind == "class" else item.name
    return printable(f"{item.kind} {name}")


def _value(metric: str, value: float) -> str:
    if not math.isfinite(value):
        return "-"
    if metric == "lost_ratio":
        return f"{value:.2%}"
    if metric.endswith("bytes_per_s"):
        return f"{value / _GB:.2f}"
    if metric == "pcie.ddio_hit_ratio":
        return f"{value * 100:.1f}"
    if metric == "packets_per_s":
        return f"{value / 1e6:.2f}"
    return f"{value:.4g}"


def _change(item: TryDifference) -> str:
    if not math.isfinite(item.change):
        return "-"
    half = f" ±{item.half:.2%}" if math.isfinite(item.half) else ""
    if item.metric == "lost_ratio":  # a difference of shares, no ratio of them
        half = f" ±{item.half * 100:.2f}" if math.isfinite(item.half) else ""
        return f"{item.change * 100:+.2f}{half} pt"
    return f"{item.change:+.2%}{half}"


def _sharing_mark(setting: Setting, l3: L3Domain) -> str:
    """Numbers of ways that a mask shares with devices, and with classes of network functions."""
    io, classes = setting.io.get(l3, 0), setting.shared.get(l3, {})
    rows = [("I/O", io)] * bool(io)
    rows += [(printable(class_name(name)), bits) for name, bits in classes.items()]
    texts = [f"{name} {bits.bit_count()}" for name, bits in rows]
    return f"  shares {', '.join(texts)}" if texts else ""


def _wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    """A text in lines, the later ones indented by two cells more."""
    lines = wrap(text, width - indent - 2)
    return [" " * (indent + 2 * bool(at)) + item for at, item in enumerate(lines)]


def _after(head: str, texts: Sequence[str], width: int) -> list[str]:
    """Texts after a head, side by side while they fit; wider ones are wrapped."""
    lines = [head]
    room = width - cells(head)
    for text in chain.from_iterable(_split(item, room) for item in texts):
        gap = "" if lines[-1].isspace() or lines[-1] == head else "  "
        if gap and cells(lines[-1] + gap + text) > width:
            lines.append(" " * cells(head))
            gap = ""
        lines[-1] += gap + text
    return lines


def _split(text: str, room: int) -> list[str]:
    """A text as it is if it fits; else what follows its last gap on lines of its own."""
    if cells(text) <= room:
        return [text]
    head, _, tail = text.rpartition("  ")
    return [*[head] * bool(head), *(f"  {item}" for item in wrap(tail, room - 2))]


def _present(plan: Experiment, ways: int) -> Iterator[str]:
    """The masks that are restored at the end."""
    for cell in sorted({change.cell for change in plan.proposal.changes}):
        if cell.kind == "io_alloc":
            continue
        before = plan.proposal.base.get(cell)
        shown = "as the CPU has it" if before is None else drawn(int(before, 16), ways)
        yield f"{cell.name} {cell.number}  {shown}  restored at the end"


def orders(plan: Experiment) -> list[list[str]]:
    """Widths in the order of each of the first rounds."""
    indices, last = range(len(plan.settings)), -1
    rounds = []
    for number_ in range(1, plan.rounds_least + 1):
        order = order_of(indices, plan.seed, number_, last)
        rounds.append([str(plan.settings[at].ways or plan.settings[at].label) for at in order])
        last = order[-1]
    return rounds


def _course(plan: Experiment, width: int) -> list[str]:
    order = " | ".join(" ".join(item) for item in orders(plan))
    timing, more = plan.timing, plan.rounds_most > plan.rounds_least
    later = (
        f"; {plan.rounds_most} rounds at most, later ones of undecided widths only" if more else ""
    )
    texts = (
        f"order: {order} (seed {plan.seed}){', further rounds as needed' if more else ''}",
        (
            f"duration: about {duration_text(duration_s(plan, plan.rounds_least))} for "
            f"{plan.rounds_least} rounds{later}; each visit settles {timing.settle_least_s:g} to "
            f"{timing.settle_most_s:g} s and measures {timing.measure_s:g} s"
        ),
        f"ends at once and restores: {harm_text(plan)}",
        (
            "also restores: Ctrl-C, a lost terminal, the end of nftop, 15 s without nftop, another "
            "program that changes the classes"
        ),
    )
    return [line for text in texts for line in _wrapped(text, width)]


def accelerated_text(plan: Experiment, pace: float) -> str:
    """How long it takes in real time; `pace`: seconds of that for one of the host's clock."""
    simulated_s = duration_s(plan, plan.rounds_least)
    real_s = max(simulated_s * pace, 1.0)
    return (
        f"accelerated clock: these {duration_text(simulated_s)} of the simulated host take about "
        f"{duration_text(real_s)}"
    )


def stopped_text(
    plan: Experiment, state: ExperimentState, curve: Curve, receipt: Receipt, by: str
) -> str:
    """One sentence at an end by a signal: what ended, what is restored, what is known so far."""
    what = (
        f"sweep of {group_text(plan)}"
        if plan.kind == "sweep"
        else (f"trial of {printable(plan.settings[1].label)}")
    )
    own = [visit for visit in state.visits if visit.round]
    least = plan.rounds_least * len(plan.settings)
    where = f"in round {state.round}, after {len(own)} of {max(least, len(own))} visits"
    rest = printable("; ".join(receipt.sentences))
    head = f"ended: stopped by {by}: the {what}, {where if own else 'before its first visit'}"
    return f"{head}; {receipt.outcome}: {rest}; known so far: {_known_so_far(plan, curve, own)}"


def _known_so_far(plan: Experiment, curve: Curve, visits: Sequence[Visit]) -> str:
    words = dict[str, list[str]]()
    if plan.kind == "try":
        for item in differences(plan, visits) if visits else ():
            if item.word not in ("undecided", "unmeasured"):
                words.setdefault(item.word, []).append(f"{_target(item)} {_METRICS[item.metric]}")
    for result in curve.results if plan.kind == "sweep" else ():
        words.setdefault(_SO_FAR[result.effect], []).append(plan.settings[result.setting].label)
    texts = [f"{word}: {', '.join(names)}" for word, names in words.items()]
    return "; ".join(texts) or "nothing"


def harm_text(plan: Experiment) -> str:
    """What ends the experiment, before the baseline is known."""
    limits = plan.limits
    drops = limits.drop_packets_per_s
    text = (
        f"drops above the baseline's and {limits.drop_ratio:.0%} of the offered packets"
        if drops is None
        else f"more than {number(drops, Unit.PER_S, 8)} drops/s"
    )
    return f"{text}; cycles per packet {limits.cpp_ratio:+.0%}"


def visit_lines(plan: Experiment, state: ExperimentState, width: int) -> list[str]:
    """The last visit, and the time left."""
    visit = state.visits[-1]
    setting = "baseline" if visit.setting < 0 else plan.settings[visit.setting].label
    spent_s = (visit.end_ns - visit.written_ns) / 1e9
    head = (
        f"round {visit.round}  {setting:8}  {duration_text(spent_s):>6}"
        if visit.round
        else (f"{setting:17}  {duration_text(spent_s):>6}")
    )
    levels = [_levels(plan.watch[key], nf) for key, nf in visit.nfs.items()]
    left = left_text(state, plan)
    levels += [_SETTLINGS[visit.settling]] * (visit.settling != "still") + [left] * bool(left)
    return _after(f"{head}  ", levels, width)


def left_text(state: ExperimentState, plan: Experiment) -> str:
    """Time left until the first rounds are done, later until this round is; "" at the end."""
    left = left_s(state, plan)
    if not left:
        return ""
    first = state.round <= plan.rounds_least
    what = f"for {plan.rounds_least} rounds" if first else f"of round {state.round}"
    return f"{duration_text(left)} left {what}"


def limit_lines(plan: Experiment, baseline: Visit, width: int) -> list[str]:
    """The limits on drops and on packets, once the baseline is known."""
    text = f"limit: {count_text(drop_limit(plan, baseline))} drops/s of all watched together"
    names = ", ".join(printable(plan.watch[key]) for key in without_drops(baseline))
    fall = f"{plan.limits.drop_ratio:.0%}"
    whole = f"{text}; {names} has no drop counters: {fall} fewer packets/s" if names else text
    return _wrapped(whole, width)


def _levels(name: str, nf: NfLevels) -> str:
    drops = f", {count_text(nf.drop_packets_per_s)} drop/s" if nf.drop_packets_per_s else ""
    cpp = f", CPP {BOUND * nf.cpp_is_bound}{plain_text(nf.cpp)}" if math.isfinite(nf.cpp) else ""
    return f"{printable(name)} {mpps_text(nf.packets_per_s)} Mpps{cpp}{drops}"


def end_text(state: ExperimentState) -> str:
    """Why it ended."""
    reason = state.ended or "stopped"
    return _ENDS[reason] + (f": {printable(state.detail)}" if state.detail else "")


def result_text(plan: Experiment, curve: Curve, width: int, *, early: bool = False) -> list[str]:
    """The curve as tables of at most `width` cells, and the recommendation in words.

    `early`: it ended before the answer was known.
    """
    if not curve.results:
        return ["nothing was measured"]
    lines, notes = _tables(plan, curve, width), list[str]()
    moving = sum(item.moving for item in curve.results)
    if moving:
        notes.append(
            f"~ something still moved {plan.timing.settle_most_s:g} s after the write, in "
            f"{counted(moving, 'visit')}"
        )
    if curve.recommended is None:
        why = "it ended early" if early else "none is known to cost nothing"
        notes.append(f"no width is recommended: {why}")
    else:
        notes.append(f"recommended: {recommended_text(plan, curve.recommended)}")
    if curve.tolerated is not None and curve.tolerated != curve.recommended:
        ratio = plan.tolerance_ratio
        notes.append(f"within {ratio:.1%}: {tolerated_text(plan, curve.tolerated)}")
    if any(nf.cpp_is_bound for item in curve.results for nf in item.nfs.values()):
        notes.append(f"{BOUND} upper bound: CPP may include empty polls")
    if not curve.decided:
        labels = ", ".join(plan.settings[item].label for item in curve.undecided)
        notes.append(f"not decided: {labels}" if labels else "not decided")
    return [*lines, *(line for note in notes for line in _wrapped(note, width))]


def recommended_text(plan: Experiment, setting: int) -> str:
    """The recommended setting, and what it is."""
    return f"{_described(plan, setting)}, {_claim(plan, setting)}"


def answer_text(plan: Experiment, setting: int, l3: L3Domain) -> str:
    """The recommended setting of a finished sweep in one cache, short."""
    one = plan.settings[setting]
    bound = ("at most " if plan.own else "at least ") * bool(_untried(plan, setting))
    return f"a sweep in this session found {bound}{one.label} (L3 {l3} {plan.hex(one.masks[l3])})"


def tolerated_text(plan: Experiment, setting: int) -> str:
    """The setting that is within the tolerance, and whether it is the last that was tried."""
    untried = _untried(plan, setting)
    return _described(plan, setting) + f"; {untried}" * bool(untried)


def _claim(plan: Experiment, setting: int) -> str:
    untried, label = _untried(plan, setting), plan.settings[setting].label
    if plan.own:
        names = ", ".join(printable(plan.watch[key]) for key in plan.watch if key in plan.own)
        if untried:
            return f"at most {label} cost {names} nothing; {untried}"
        return f"the smallest that costs {names} nothing"
    if untried:
        return f"at least {label} cost no watched network function anything; {untried}"
    return "the largest that costs no watched network function anything"


def _untried(plan: Experiment, setting: int) -> str:
    """That the next width was not tried, though the hardware may have it; "" if it was."""
    least, most = plan.ends
    ways = plan.settings[setting].ways
    if plan.own:
        return "narrower was not tried" if not setting and ways > max(least, 1) else ""
    last = setting == len(plan.settings) - 1
    return "wider was not tried" if last and (not most or ways < most) else ""


def _described(plan: Experiment, setting: int) -> str:
    """A setting with its masks, and what they share with devices and network functions."""
    one = plan.settings[setting]
    masks = ", ".join(f"L3 {l3} {plan.hex(bits)}" for l3, bits in one.masks.items())
    io = ", ".join(f"L3 {l3} {plan.hex(bits)}" for l3, bits in one.io.items())
    texts = [f"devices (I/O) use {io}"] * bool(io)
    texts += [
        f"class {printable(class_name(name))} has L3 {l3} {plan.hex(bits)}"
        for l3, classes in one.shared.items()
        for name, bits in classes.items()
    ]
    shared = f"; of these, {', '.join(texts)}" if texts else ""
    return f"{one.label} ({masks}{shared})"


# Columns that stay together: a heading and a cell by setting for each.
_Columns: TypeAlias = list[list[str]]


def _tables(plan: Experiment, curve: Curve, width: int) -> list[str]:
    """The results in as few tables side by side as fit; the widths begin each of them."""
    blocks = [_widths(plan, curve)]
    groups = [_of_nf(plan, curve, key) for key in plan.watch] + [_of_class(plan, curve)]
    for group in groups:
        if len(blocks[-1]) > len(blocks[0][:3]) and _cells([*blocks[-1], *group]) > width:
            blocks.append(_widths(plan, curve))
        blocks[-1] += group
    effects = ["EFFECT", *(effect_text(plan, item) for item in curve.results)]
    room = width - _cells(blocks[-1]) - 2
    if room < min(max(map(cells, effects)), _LEAST_EFFECT):
        blocks.append(_widths(plan, curve))
        room = width - _cells(blocks[-1]) - 2
    return [
        line
        for at, block in enumerate(blocks)
        for line in _table(block, effects if at == len(blocks) - 1 else [], room)
    ]


def _widths(plan: Experiment, curve: Curve) -> _Columns:
    settings = [plan.settings[item.setting] for item in curve.results]
    return [
        ["", *(">" * (item.setting == curve.recommended) for item in curve.results)],
        [
            "WAYS",
            *(
                f"{setting.ways}{'~' if item.moving else ' '}"
                for setting, item in zip(settings, curve.results, strict=True)
            ),
        ],
        ["MASK", *("/".join(map(plan.hex, item.masks.values())) for item in settings)],
    ]


def _of_nf(plan: Experiment, curve: Curve, key: str) -> _Columns:
    nfs = [item.nfs[key] for item in curve.results]
    name = truncate(plan.watch[key], _MOST_NAME)
    return [
        [f"{name} Mpps", *(mpps_text(nf.packets_per_s.value) for nf in nfs)],
        ["±", *(mpps_text(nf.packets_per_s.half) for nf in nfs)],
        ["CPP", *(cpp_text(nf) for nf in nfs)],
        ["DROP/s", *(count_text(nf.drop_packets_per_s) for nf in nfs)],
        ["MISS/pkt", *(plain_text(nf.llc_misses_per_packet, 2) for nf in nfs)],
    ]


def _of_class(plan: Experiment, curve: Curve) -> _Columns:
    name, results = truncate(class_name(plan.group), _MOST_NAME), curve.results
    if plan.of_io:
        return [["I/O hit %", *(plain_text(item.io_hit_ratio * 100, 1) for item in results)]]
    return [
        [f"{name} MiB", *(plain_text(item.occupancy_bytes / _MIB, 1) for item in results)],
        ["GB/s", *(plain_text(item.memory_bytes_per_s / _GB, 1) for item in results)],
        ["IPC", *(plain_text(item.ipc, 2) for item in results)],
    ]


def _cells(columns: _Columns) -> int:
    """Cells of a line of these columns."""
    return sum(max(map(cells, column)) for column in columns) + 2 * (len(columns) - 1)


def effect_text(plan: Experiment, item: SettingResult) -> str:
    """`nothing`, or the network functions that it costs something and how much, the worst first."""
    hit = sorted(item.nfs.items(), key=lambda row: _severity(row[1]), reverse=True)
    words = [
        f"{printable(plan.watch[key])} {nf.effect}{_amount(nf)}"
        for key, nf in hit
        if nf.effect != "nothing"
    ]
    return ", ".join(words) or "nothing"


def _severity(nf: NfEffect) -> tuple[int, float]:
    known = [value for value in (nf.cost_ratio, nf.lost_ratio) if math.isfinite(value)]
    return WORST.index(nf.effect), max(map(abs, known), default=0.0)


def _amount(nf: NfEffect) -> str:
    if nf.effect not in ("costs", "gains", "drops"):
        return ""
    shown = []
    if math.isfinite(nf.cost_ratio) and abs(nf.cost_ratio) >= 0.005:
        shown.append(f"{nf.cost_ratio:+.1%} CPP")
    if math.isfinite(nf.lost_ratio) and abs(nf.lost_ratio) >= 1e-5:
        shown.append(f"{nf.lost_ratio:+.1%} lost" if abs(nf.lost_ratio) >= 5e-4 else "few lost")
    return f" ({', '.join(shown)})" if shown else ""


def _table(columns: _Columns, effects: Sequence[str], room: int) -> list[str]:
    """Lines of columns, aligned right but the mark and the mask; effects are wrapped to `room`."""
    widths = [max(map(cells, column)) for column in columns]
    lines = []
    for at in range(len(columns[0])):
        levels = [
            fit(column[at], width, right=number_ not in (0, 2))
            for number_, (column, width) in enumerate(zip(columns, widths, strict=True))
        ]
        head, *more = (wrap(effects[at], room) if effects else []) or [""]
        lines.append(f"{'  '.join(levels)}  {head}".rstrip())
        lines += [" " * (_cells(columns) + 2) + item for item in more]
    return lines


def mpps_text(value: float) -> str:
    """Packets per second in millions; `-` if unknown."""
    return plain_text(value / 1e6, 2)


def cpp_text(nf: NfEffect) -> str:
    """Cycles per packet, marked if they are an upper bound; `-` if unknown."""
    return BOUND * nf.cpp_is_bound + plain_text(nf.cpp.value)


def plain_text(value: float, decimals: int = 0) -> str:
    """A number with so many places, `0+` if it is too small for them; `-` if unknown."""
    text = f"{value:.{decimals}f}" if math.isfinite(value) else "-"
    return MORE_THAN_0 if value > 0 and not text.strip("0.") else text


def count_text(value: float) -> str:
    """A rate with an SI prefix; `-` if unknown."""
    return number(value, Unit.PER_S, 8) if math.isfinite(value) else "-"
