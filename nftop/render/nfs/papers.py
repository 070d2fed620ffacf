"""Published measurements next to a running network function: numbers only, no verdict.

Papers count by physical core; the local numbers are converted (`derive.nf.row`).
"""

from __future__ import annotations

from collections.abc import Sequence

from nftop.derive.nf.row import BY_CORE, MIXED, PaperMetrics, paper_metrics
from nftop.model.frame import Frame, NfRow
from nftop.model.metrics.metric import is_bound
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.missing import Missing, Reason
from nftop.model.number_text import counted
from nftop.model.rule_settings import base_name
from nftop.papers.rows import PaperRow, matching, rows, workload_of
from nftop.render.base.line import Line, Span, Tone, crop, line, paragraph
from nftop.render.base.table import mark_cell, number_cell
from nftop.render.base.text import fit

# Label and width of the column, by metric of `BY_CORE`.
_COLUMNS = {
    "cpp": ("CPP", 7), "ipp": ("IPP", 7), "ipc": ("IPC", 7), "packets_per_s": ("Mpps/core", 9),
}  # fmt: skip
_CELLS = {metric: cells for metric, (_, cells) in _COLUMNS.items()}
_UNITS = {
    **{metric.id: metric.unit for metric in NF_METRICS},
    "packets_per_s": next(m.unit for m in NF_METRICS if m.id == "rx_packets_per_s"),
}
_LEAST_NAME, _MOST_NAME = 20, 58
_WHICH = "w chooses its workload"


def choices(nf: NfRow) -> tuple[str, ...]:
    """Keys of the workloads published for its kind."""
    return tuple(dict.fromkeys(row.workload for row in matching(kind=nf.kind)))


def title_of(workload: str) -> str:
    """Title of a workload."""
    return next(row.title for row in rows() if row.workload == workload)


def reference_lines(frame: Frame, nf: NfRow, workload: str | None, width: int) -> list[Line]:
    """Published rows of its kind and use of hyper-threading; those of its CPU first, others dim.

    `workload`: chosen by the operator; None: all of its kind.
    """
    every = choices(nf)
    if not every:
        return []
    here = paper_metrics(frame, nf)
    uarch = frame.host.uarch
    matches = [
        row
        for row in matching(kind=nf.kind, workload=workload, smt=here.smt)
        if row.figures.keys() & set(BY_CORE)
    ]
    matches.sort(key=lambda row: row.uarch != uarch)
    name = "any workload" if workload is None else title_of(workload)
    head = line(Span(f"PAPERS  {name}", Tone.HEADER), fill=Tone.HEADER)
    note = _note(frame, nf, here, workload, matches)
    if not matches:
        return [crop(head, width), *paragraph(note, width, tone=Tone.MUTED)]
    names = max(_LEAST_NAME, min(_MOST_NAME, width - sum(_CELLS.values()) - len(_CELLS)))
    labels = "".join(f"{label:>{cells}} " for label, cells in _COLUMNS.values())
    top = line(Span(fit(f"PAPERS  {name}", names) + labels, Tone.HEADER), fill=Tone.HEADER)
    own = Line((Span(fit("here, by physical core", names), Tone.ACCENT), *_here(nf, here)))
    body = [
        Line((Span(fit(_named(row), names), tone), *_figures(row, tone)))
        for row in matches
        for tone in (Tone.PLAIN if row.uarch == uarch else Tone.MUTED,)
    ]
    lines = [top, own, *body, *paragraph(note, width, tone=Tone.MUTED)]
    return [crop(item, width) for item in lines]


def _note(
    frame: Frame, nf: NfRow, here: PaperMetrics, workload: str | None, matches: Sequence[PaperRow]
) -> str:
    smt = {True: "both threads of its cores poll", False: "one thread of each core polls"}
    use = MIXED.message if here.smt is None else smt[here.smt]
    if not matches:
        return f"no paper has a row for {nf.kind} where {use}"
    own = any(row.uarch == frame.host.uarch for row in matches)
    which = (
        f"those of its CPU ({frame.host.uarch}) first"
        if own
        else (f"none is of its CPU ({frame.host.uarch})")
    )
    sentences = [f"rows match by kind, and that {use}: {which}"]
    if workload is None:
        nodes = [] if isinstance(nf.nodes, Missing) else [node.name for node in nf.nodes]
        likely = workload_of(nf.kind, base_name(nf.name).rpartition("/")[2], nodes)
        sentences.append(_WHICH)
        if likely is not None:
            sentences.append(f"by its name or nodes it may be {title_of(likely)}")
    else:
        sentences.append("the workload is as you chose it (w)")
    papers = dict.fromkeys(row.paper_title for row in matches)
    bytes_of = " or ".join(dict.fromkeys(str(row.frame_bytes) for row in matches))
    sentences.append(f"{', '.join(papers)}: {bytes_of}-byte frames")
    return "; ".join(sentences)


def _named(row: PaperRow) -> str:
    ht = "HT" if row.smt else "no HT"
    cores = counted(row.cores, "core")
    return f"{row.title}, {row.cpu.removeprefix('Xeon ')} {ht}, {cores}"


def _figures(row: PaperRow, tone: Tone) -> list[Span]:
    """Numbers per core: packets are those of all its cores."""
    spans = []
    for metric in BY_CORE:
        figure = row.figures.get(metric)
        if figure is None:
            spans.append(mark_cell(Reason.UNDEFINED, _CELLS[metric] + 1))
            continue
        value = figure.value / row.cores if metric == "packets_per_s" else figure.value
        spans.append(number_cell(value, _UNITS[metric], _CELLS[metric] + 1, tone=tone))
    return spans


def _here(nf: NfRow, here: PaperMetrics) -> list[Span]:
    metrics = {metric.id: metric for metric in NF_METRICS}
    spans = []
    for name in BY_CORE:
        metric = metrics.get(name)
        bound = metric is not None and is_bound(metric, saturated=nf.saturated, clock=nf.cpp_clock)
        width = _CELLS[name] + 1
        reading = here.readings[name]
        spans.append(number_cell(reading, _UNITS[name], width, bound=bound, tone=Tone.ACCENT))
    return spans
