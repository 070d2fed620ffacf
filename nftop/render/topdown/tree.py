"""Top-down tree of the selected core with its peers, and its probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from nftop.model.frame import CoreDetail, CpuTable, Frame, TmaNode
from nftop.model.metrics.catalogue import EXPLAINED, cpu_metric
from nftop.model.metrics.metric import ESTIMATE_BELOW, Metric, Unit, is_bound
from nftop.model.metrics.probes import CORE_METRICS
from nftop.model.metrics.tma import TMA_COVERAGE, TMA_LEVEL_2_COVERAGE
from nftop.model.missing import Missing, Reading, Reason
from nftop.papers.printed import printed_tables
from nftop.render.base import format as fmt
from nftop.render.base.bars import COMPONENTS
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, flow, line, paragraph
from nftop.render.base.table import by_reason, reason_lines
from nftop.render.base.text import fit
from nftop.render.cores.detail import cpu_rule_line, sibling_lines
from nftop.render.cores.table import estimates
from nftop.render.topdown.peers import Peers, peers_of
from nftop.uarch.table import NOT_LARGEST

# Levels 1 and 2, which are counted on every core.
_LEVELS = {
    "frontend_bound": ("fetch_latency", "fetch_bandwidth"),
    "bad_speculation": ("branch_mispredicts", "machine_clears"),
    "backend_bound": ("memory_bound", "core_bound"),
    "retiring": ("light_operations", "heavy_operations"),
}
_TONES = {
    "frontend_bound": Tone.FRONTEND,
    "bad_speculation": Tone.SPECULATION,
    "backend_bound": Tone.BACKEND,
    "memory_bound": Tone.MEMORY,
    "core_bound": Tone.CORE,
    "retiring": Tone.RETIRING,
}
_LETTERS = {tone: letter for letter, tone, _ in COMPONENTS}
# The vendor's name is misleading: the events are of persistent memory.
_WORDS = {"cxl_mem_bound": "persistent mem bound"}
_FACTS = ("packets_per_s", "busy_ratio", "cpp", "ipc", "frequency_hz")
_PATIENCE_TICKS = 5  # then level 3 is not available
_NAME, _OF, _CELL, _MOST_BAR = 28, 7, 7, 100
_LEAST_BAR, _OF_FROM, _MEANING_FROM = 10, 70, 90
_ELSEWHERE = Missing(
    Reason.WARMING, "paused: level 3 was counted on another core (Space continues)"
)
_SOON = Missing(Reason.WARMING, "level 3 and probes start with the next ticks")
_NEVER = Missing(Reason.SOURCE, "no source counts level 3 here; see nftop doctor")
MARKS: tuple[tuple[str, str], ...] = (
    ("!", "above the vendor's threshold, as are its parents"),
    ("│", "in a bar: median of the peers"),
    ("PEERS", "median of the other cores of its NF, else of all cores that poll"),
    ("OF", "base of the share: issue slots or cycles"),
)


def core_lines(
    frame: Frame, row: int, width: int, *, waited_s: float, frozen: bool = False
) -> list[Line]:
    """The selected core: facts, tree, absences, probes.

    Args:
        frame: its `focus` has level 3 of one core.
        row: of the selected CPU.
        width: cells of a line.
        waited_s: seconds since level 3 of this core was requested.
        frozen: no more frames come.
    """
    cpus = frame.cpus
    peers = peers_of(cpus, row)
    focus = focus_of(frame, row)
    nodes = tree_of(frame, row)
    lines = [
        cpu_rule_line(cpus, row, width),
        *_facts(cpus, row, width),
        *sibling_lines(cpus, row, width),
        *_tree_lines(frame, nodes, peers, width),
        *_coverage_lines(nodes, focus, width),
    ]
    if focus is None:
        why = _no_level_3(frame, row, waited_s, frozen=frozen)
        lines += reason_lines({why: ["level 3, probes"]}, width)
    lines += reason_lines(by_reason((words(item.name), item.reading) for item in nodes), width)
    if focus is not None:
        lines += _probe_lines(focus, width)
    return [crop(item, width) for item in lines]


def focus_of(frame: Frame, row: int) -> CoreDetail | None:
    """Level 3 and probes of this row's core; None if not counted."""
    cpu = frame.cpus.topology.cpus[row].cpu
    return frame.focus if frame.focus is not None and cpu in frame.focus.cpus else None


def tree_of(frame: Frame, row: int) -> tuple[TmaNode, ...]:
    """Nodes of a row's core: levels 1 to 3 if it is in focus, else 1 and 2."""
    focus = focus_of(frame, row)
    if focus is not None and focus.tree:
        return focus.tree
    nodes: list[TmaNode] = []
    for name, children in _LEVELS.items():
        for item, parent in ((name, None), *((child, name) for child in children)):
            reading = frame.cpus.columns[f"tma.{item}"][row]
            level, share = (1, TMA_COVERAGE) if parent is None else (2, TMA_LEVEL_2_COVERAGE)
            coverage = frame.cpus.columns[share][row]
            # Thresholds apply to the core in focus only.
            node = TmaNode(item, parent, level, "slots", reading, beyond=False, coverage=coverage)
            nodes.append(node)
    return tuple(nodes)


def words(name: str) -> str:
    """Readable name of a node or probe: `ports utilization`."""
    if name in _WORDS:
        return _WORDS[name]
    return name.removesuffix("_per_s").replace("_", " ")


@lru_cache(maxsize=256)
def meaning_of(name: str) -> str:
    """Meaning of a node in the catalogue; "" if unknown."""
    return next((item.meaning for item in EXPLAINED if item.id == f"tma.{name}"), "")


def _facts(cpus: CpuTable, row: int, width: int) -> list[Line]:
    """Main metrics of the CPU, in a line."""
    pieces = []
    for metric in map(cpu_metric, _FACTS):
        reading = cpus.columns[metric.id][row]
        if isinstance(reading, Missing) and reading.reason is Reason.UNDEFINED:
            continue
        estimate = any(estimates(cpus, [row], metric))
        bound = is_bound(metric, saturated=cpus.saturated[row], clock=cpus.cpp_clock[row])
        text = fmt.cell(reading, metric.unit, 9, bound=bound, estimate=estimate)
        pieces.append(line(Span(f"{metric.label} ", Tone.MUTED), text))
    return flow(pieces, width, "  ")


def _tree_lines(frame: Frame, nodes: Sequence[TmaNode], peers: Peers, width: int) -> list[Line]:
    bar = _bar_cells(width)
    tones = _tones(nodes)
    lines = [_header(width, bar)]
    for node in filter(_is_counted, nodes):
        metric = f"tma.{node.name}"
        measured = metric in frame.cpus.columns
        peer_median = peers.median(frame.cpus, metric) if measured else Missing(Reason.UNDEFINED)
        lines.append(_node_line(node, peer_median, tones[node.name], width))
    compared = (
        f"peers: the median of {peers.description}" if len(peers.rows) else "no peers to compare"
    )
    return [*lines, *paragraph(compared, width, tone=Tone.MUTED)]


def _is_counted(node: TmaNode) -> bool:
    """Not one that waits until the node of level 2 above it is the largest."""
    return not (isinstance(node.reading, Missing) and node.reading.detail == NOT_LARGEST)


def _header(width: int, bar: int) -> Line:
    scale = f"0%{'50%':>{bar // 2 - 1}}{'100%':>{bar - bar // 2 - 1}}" if bar else ""
    of = fit("OF", _OF) if width >= _OF_FROM else ""
    cells = f"{'SHARE':>{_CELL - 1}} {'PEERS':>{_CELL - 1}} "
    return line(
        Span(f"{fit('NODE', _name_cells(width))}{cells}{of}{scale}", Tone.HEADER), fill=Tone.HEADER
    )


def _name_cells(width: int) -> int:
    return min(_NAME, max(8, width - 2 * _CELL))


def _bar_cells(width: int) -> int:
    left = width - _name_cells(width) - 2 * _CELL - (_OF if width >= _OF_FROM else 0) - 1
    return min(_MOST_BAR, left) if left >= _LEAST_BAR else 0


def _node_line(node: TmaNode, peer_median: Reading, tone: Tone, width: int) -> Line:
    name = fit("  " * (node.level - 1) + words(node.name), _name_cells(width) - 2)
    of = fit(node.of, _OF) if width >= _OF_FROM else ""
    mark = Span("! " if node.beyond else "  ", Tone.BAD)
    missing = isinstance(node.reading, Missing)
    after = _after(node.reading, node.coverage)
    share = Span(_percent(node.reading) + after, Tone.MISSING if missing else Tone.PLAIN)
    peer = Span(f"{_percent(peer_median)} ", Tone.MUTED)
    return line(
        name,
        mark,
        share,
        peer,
        Span(of, Tone.MUTED),
        *_bar(node.reading, peer_median, _bar_cells(width), tone),
    )


def _percent(reading: Reading) -> str:
    return f"{fmt.cell(reading, Unit.RATIO, _CELL - 1):>{_CELL - 1}}"


def _bar(reading: Reading, peer_median: Reading, cells: int, tone: Tone) -> list[Span]:
    """A bar on the scale 0..1 with a tick at the peers' median."""
    length = 0 if isinstance(reading, Missing) else _cell_at(reading, cells)
    bar = [Span(_LETTERS.get(tone, "━") * length, tone), Span(" " * (cells - length), Tone.PLAIN)]
    if not isinstance(peer_median, Missing) and cells:
        at = min(max(_cell_at(peer_median, cells) - 1, 0), cells - 1)
        before, after = at, cells - at - 1
        letter = _LETTERS.get(tone, "━")
        return [
            Span(letter * min(length, before), tone),
            Span(" " * max(0, before - length), Tone.PLAIN),
            Span("│", Tone.STRONG),
            Span(letter * max(0, length - at - 1), tone),
            Span(" " * min(after, cells - length), Tone.PLAIN),
        ]
    return bar


def _cell_at(ratio: float, cells: int) -> int:
    return min(cells, max(0, round(ratio * cells)))


def _tones(nodes: Sequence[TmaNode]) -> Mapping[str, Tone]:
    """Each node's colour: its own, else its parent's."""
    tones: dict[str, Tone] = {}
    for node in nodes:
        inherited = tones.get(node.parent or "", Tone.AREA)
        tones[node.name] = _TONES.get(node.name, inherited)
    return tones


def _is_estimate(reading: Reading, coverage: Reading) -> bool:
    if isinstance(reading, Missing) or isinstance(coverage, Missing):
        return False
    return coverage < ESTIMATE_BELOW


def _after(reading: Reading, coverage: Reading) -> str:
    return fmt.ESTIMATE if _is_estimate(reading, coverage) else " "


def _coverage_lines(nodes: Sequence[TmaNode], focus: CoreDetail | None, width: int) -> list[Line]:
    """Meaning of `~`, with the smallest coverage."""
    pairs = [(node.reading, node.coverage) for node in nodes]
    if focus is not None:
        pairs += [(focus.readings[key], share) for key, share in focus.coverage.items()]
    shares = [
        share
        for reading, share in pairs
        if not isinstance(share, Missing) and _is_estimate(reading, share)
    ]
    if not shares:
        return []
    least = fmt.number(min(shares), Unit.RATIO, 6)
    text = f"estimates, counted for less than {ESTIMATE_BELOW:.0%} of the time, the least {least}"
    return paragraph(
        text, width, lead=line(Span(f"{fmt.ESTIMATE:<4}", Tone.MISSING)), tone=Tone.MUTED
    )


def _no_level_3(frame: Frame, row: int, waited_s: float, *, frozen: bool) -> Missing:
    """Why level 3 of this core is absent."""
    level_1 = frame.cpus.columns["tma.retiring"][row]
    if isinstance(level_1, Missing) and level_1.reason not in (Reason.IDLE, Reason.WARMING):
        return Missing(level_1.reason, level_1.message)
    perf = frame.sources.get("perf")
    if perf is not None and perf.reason is not Reason.PRESENT:
        return Missing(perf.reason, perf.detail)
    if frozen:
        return _ELSEWHERE
    return _SOON if waited_s < _PATIENCE_TICKS * (frame.interval_s or waited_s + 1) else _NEVER


def _probe_lines(focus: CoreDetail, width: int) -> list[Line]:
    """The probes, with their meaning if there is room."""
    title = line(Span("PROBES", Tone.HEADER), fill=Tone.HEADER)
    lines: list[Line] = [BLANK, title]
    for metric in CORE_METRICS:
        coverage = focus.coverage.get(metric.id, Missing(Reason.SOURCE))
        lines.append(_probe_line(metric, focus.readings[metric.id], coverage, width))
        lines += _reference_lines(metric.id, width)
    absent = ((words(metric.id), focus.readings[metric.id]) for metric in CORE_METRICS)
    return lines + reason_lines(by_reason(absent), width)


def _reference_lines(metric: str, width: int) -> list[Line]:
    """What papers print for a probe, if they do."""
    lines: list[Line] = []
    for table in printed_tables(metric=metric):
        # A tilde marks estimates here.
        cells = ", ".join(f"{name} {value.replace('~', 'about ')}" for name, value in table.rows)
        text = f"{table.title}: {cells} ({table.cpu}, FD.io {table.section})"
        lines += paragraph(text, width, lead=line(fit("", 2)), tone=Tone.MUTED)
    return lines


def _probe_line(metric: Metric, reading: Reading, coverage: Reading, width: int) -> Line:
    missing = isinstance(reading, Missing)
    text = fit(fmt.worded(reading, metric.unit) + _after(reading, coverage), 20)
    value = Span(text, Tone.MISSING if missing else Tone.PLAIN)
    meaning = metric.meaning.split(". ")[0].split(": ")[0] if width >= _MEANING_FROM else ""
    return line(fit(words(metric.id), _NAME), value, Span(meaning, Tone.MUTED))
