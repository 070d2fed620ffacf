"""One row for each run of a workload, with all numbers of the tables.

    rows_of = matching(workload=workload_of("vpp", "vpp", nodes), uarch="BDX", smt=True, cores=1)
    rows_of[0].figures["cpp"].value, .source

The papers count by physical core: with hyper-threading CPP are cycles of the core over the packets
of both its threads, and IPC the instructions of both over the same cycles. nftop counts by CPU.

Papers used their own software, NIC and 64-byte packets: a row is a reference for a running network
function, no target.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from types import MappingProxyType

from nftop.model.struct import dataclass
from nftop.papers.table import PaperCell, PaperTable, changes_raw, papers, tables, tolerance

# What is not printed but follows from what is: a bandwidth over the throughput of the same row.
_PER_PACKET = {
    "per_packet.memory_bytes": "memory_bytes_per_s",
    "pcie_write_bytes_per_packet": "pcie_write_bytes_per_s",
    "pcie_read_bytes_per_packet": "pcie_read_bytes_per_s",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One number.

    Attributes:
        value: in nftop's units: per second, per packet, ratios 0..1.
        tolerance: half of the last printed digit, in that unit.
        printed: its digits in the paper, "" if computed.
        unit: of `printed`: "", `Mpps`, `MB/s` or `%`.
        source: `Table 5, row 3`; `computed: ...` if not printed.
        repair: the text of the scan, and why it is wrong; "" if it is right.
    """

    metric: str
    value: float
    tolerance: float
    printed: str
    unit: str
    source: str
    repair: str = ""


@dataclass(frozen=True, slots=True)
class PaperRow:
    """A run.

    Attributes:
        paper, workload: keys in `papers.toml`; `paper_title`, `title`: names for people.
        kind: nftop's kind of network function, "" if nothing is forwarded.
        software: with version, "" if unknown.
        cpu: name for people; `cpu_note`: its origin if not the table.
        uarch: nftop's name of it, `BDX`.
        smt: hyper-threading was on: two threads on each core.
        cores, threads: physical cores, and threads on all of them.
        frame_bytes: Ethernet frames, with their checksum.
        figures: by metric; rates are of all its cores, cycles and IPC of a physical core.
        absent: why there is no number, by metric.
        notes: caveats of a comparison, `Table 14: ...`.
    """

    paper: str
    paper_title: str
    workload: str
    title: str
    kind: str
    configuration: str
    software: str
    cpu: str
    uarch: str
    core_hz: float
    smt: bool
    cores: int
    frame_bytes: int
    figures: Mapping[str, Figure]
    absent: Mapping[str, str]
    cpu_note: str = ""
    notes: tuple[str, ...] = ()

    @property
    def threads(self) -> int:
        return self.cores * (2 if self.smt else 1)


@functools.cache
def rows() -> tuple[PaperRow, ...]:
    """Every run of every paper: by paper, then cores, CPU, workload and hyper-threading."""
    figures: dict[_Run, dict[str, Figure]] = {}
    absent: dict[_Run, dict[str, str]] = {}
    of_run: dict[_Run, dict[int, PaperTable]] = {}
    for table in tables():
        for run, cell, source in _cells(table):
            of_run.setdefault(run, {})[table.number] = table
            figures.setdefault(run, {})
            if cell.value is None:
                absent.setdefault(run, {})[cell.metric] = f"{source}: not applicable"
            else:
                figures[run].setdefault(cell.metric, _figure(cell, cell.value, source))
    for run, figure in _figures_with_runs():
        figures.setdefault(run, {})[figure.metric] = figure
    for own in figures.values():
        own.update(_per_packet(own))
    ordered = sorted(figures, key=_order)
    return tuple(
        _row(run, figures[run], absent.get(run, {}), tuple(of_run.get(run, {}).values()))
        for run in ordered
    )


def matching(
    *,
    kind: str | None = None,
    workload: str | None = None,
    uarch: str | None = None,
    smt: bool | None = None,
    cores: int | None = None,
) -> tuple[PaperRow, ...]:
    """The rows with all of these, in the order of `rows`; a filter that is None is ignored."""
    return tuple(
        row
        for row in rows()
        if kind in (None, row.kind)
        and workload in (None, row.workload)
        and uarch in (None, row.uarch)
        and smt in (None, row.smt)
        and cores in (None, row.cores)
    )


def workload_of(kind: str, app: str = "", nodes: Collection[str] = ()) -> str | None:
    """The workload of a running network function; None if none or several match.

    `app` is the program's name (`dpdk-testpmd`), `nodes` the graph nodes that VPP runs packets
    through. A program can do other work under the same name: testpmd has other forwarding modes.
    """
    matches = [
        key
        for key, about in papers()["workloads"].items()
        if about.get("kind") == kind
        and ("apps" not in about or app in about["apps"])
        and ("nodes" not in about or set(about["nodes"]) & set(nodes))
    ]
    return matches[0] if len(matches) == 1 else None


@dataclass(frozen=True, slots=True)
class _Run:
    paper: str
    cores: int
    cpu: str
    workload: str
    smt: bool


def _order(run: _Run) -> tuple[int, int, int, int, bool]:
    about = papers()
    ranks = (
        [*about["papers"]].index(run.paper),
        run.cores,
        [*about["cpus"]].index(run.cpu),
        [*about["workloads"]].index(run.workload),
    )
    return (*ranks, run.smt)


def _cells(table: PaperTable) -> list[tuple[_Run, PaperCell, str]]:
    return [
        (
            _Run(table.paper, table.cores, table.cpu, row.workload, cell.column.smt),
            cell,
            table.source(row),
        )
        for row in table.rows
        for cell in row.cells
    ]


def _figure(cell: PaperCell, value: float, source: str) -> Figure:
    repair = f"the scan has {cell.scanned}; {cell.why}" if cell.scanned else ""
    return Figure(cell.metric, value, cell.tolerance, cell.printed, cell.unit, source, repair)


def _figures_with_runs() -> list[tuple[_Run, Figure]]:
    """Numbers of a paper's text that no table has."""
    figures = []
    for paper, about in papers()["papers"].items():
        if about["tables"]:
            continue
        raw = changes_raw(paper)
        for item in raw["values"]:
            printed = item["printed"]
            run = _Run(paper, 1, raw["cpu"], item["workload"], item["smt"])
            source = f"text, {item['said']}"
            figure = Figure(
                item["metric"], float(printed), tolerance(printed, ""), printed, "", source
            )
            figures.append((run, figure))
    return figures


def _per_packet(figures: Mapping[str, Figure]) -> dict[str, Figure]:
    computed = {}
    for metric, bandwidth in _PER_PACKET.items():
        if bandwidth in figures and "packets_per_s" in figures:
            over, under = figures[bandwidth], figures["packets_per_s"]
            value = over.value / under.value
            within = value * (over.tolerance / over.value + under.tolerance / under.value)
            source = f"computed: {over.source}, bandwidth / throughput"
            computed[metric] = Figure(metric, value, within, "", "", source)
    return computed


def _row(
    run: _Run,
    figures: dict[str, Figure],
    absent: dict[str, str],
    tables_used: tuple[PaperTable, ...],
) -> PaperRow:
    about = papers()
    paper, cpu = about["papers"][run.paper], about["cpus"][run.cpu]
    work = about["workloads"][run.workload]
    kind = work.get("kind", "")
    return PaperRow(
        paper=run.paper,
        paper_title=paper["title"],
        workload=run.workload,
        title=work["title"],
        kind=kind,
        configuration=work["configuration"],
        software=about["software"][run.paper].get(kind, ""),
        cpu=cpu["title"],
        uarch=cpu["uarch"],
        core_hz=cpu["core_hz"],
        smt=run.smt,
        cores=run.cores,
        frame_bytes=paper["frame_bytes"],
        figures=MappingProxyType(figures),
        absent=MappingProxyType(absent),
        cpu_note=next((table.cpu_note for table in tables_used if table.cpu_note), ""),
        notes=tuple(f"Table {item.number}: {item.note}" for item in tables_used if item.note),
    )
