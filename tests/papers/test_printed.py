"""The tables as printed against the papers' text, cell by cell."""

from __future__ import annotations

import re
from functools import cache
from itertools import takewhile

import pytest

from nftop.papers.printed import PrintedTable, number, printed_tables
from nftop.uarch import table as uarch_table
from tests.papers.test_scan import FOLDER, paper

NEEDS_TEXT = pytest.mark.skipif(FOLDER is None, reason="the papers' text (shared/seeds) is absent")
RDT = printed_tables(paper="nfv_rdt")


def normal(text: str) -> str:
    """The scan has two letters for micro, in places `u`, and spaces within `µs` and `3k`."""
    text = re.sub(r"[μµ]\s?s(?:ecs)?\b|\bus(?:ecs)?\b", "µs", text.strip())
    return re.sub(r"\b(\d+) k$", r"\1k", text)


@cache
def scanned(label: str) -> list[list[str]]:
    """Header and rows of a table of the RDT paper, which stand above its caption."""
    lines = paper(2)
    caption = next(at for at, line in enumerate(lines) if line.startswith(f"{label}. "))
    last = next(at for at in range(caption, 0, -1) if "\t" in lines[at])
    above = [*takewhile(lambda line: "\t" in line, reversed(lines[: last + 1]))]
    return [[normal(cell) for cell in line.split("\t")] for line in reversed(above)]


@NEEDS_TEXT
@pytest.mark.parametrize("table", RDT, ids=lambda table: table.label)
def test_every_cell_of_the_rdt_paper_is_the_scan_s(table: PrintedTable) -> None:
    header, *rows = scanned(table.label)
    assert [column.printed for column in table.columns] == header
    for at, row in enumerate(rows):  # a cell over two rows stands in the first of them only
        row[0] = row[0] or rows[at - 1][0]
    assert [[*row] for row in table.rows] == rows
    caption = next(line for line in paper(2) if line.startswith(f"{table.label}. "))
    assert normal(caption) == f"{table.label}. {table.title}"


def test_all_tables_of_the_rdt_paper_are_here() -> None:
    assert [table.label for table in RDT] == [f"Table {count}" for count in range(1, 22)]
    assert sum(len(row) - table.keys for table in RDT for row in table.rows) == 462
    assert {table.cpu for table in RDT} == {"Xeon E5-2658 v3"}


@NEEDS_TEXT
def test_every_cell_of_pqos_and_its_configuration_is_the_talk_s() -> None:
    rows = [[normal(cell) for cell in line.split("\t")] for line in paper(4) if "\t" in line]
    configuration, data, _ = printed_tables(paper="stable_dpdk")
    start = next(at for at, row in enumerate(rows) if row[0] == "CORE")
    assert [column.printed for column in data.columns] == rows[start]
    assert [[*row] for row in data.rows] == rows[start + 1 : start + 41]
    assert len(rows[start + 41]) != 6, "the next table's"
    # The bits of the mask between are its picture.
    masks = [[*row[:4], row[-1]] for row in rows[:start] if len(row) > 3 and "0x" in row[3]]
    assert [[*row] for row in configuration.rows] == masks


@NEEDS_TEXT
def test_every_cell_of_the_processors_is_the_talk_s() -> None:
    lines = paper(4)
    *_, skus = printed_tables(paper="stable_dpdk")
    for row in skus.rows:
        at = next(at for at, line in enumerate(lines) if row[0].removeprefix("Xeon ") in line)
        assert lines[at + 1].split() == ["Processor", *row[1:]]


@NEEDS_TEXT
def test_every_cell_of_the_slides_is_theirs() -> None:
    text = re.sub(r"(\d)\. (\d)", r"\1.\2", " ".join(paper(3)))
    reveal, factors = printed_tables(paper="packet_processing")
    a, b = (row[1:] for row in reveal.rows)
    assert f"IPC VPP A {a[0]} Instructions/packet {a[1]} " in text
    assert f"VPP B {b[0]} {b[1]} Cycles/packet {a[2]} 6 x reduction in cycles {b[2]}" in text
    names = " ".join(row[0] for row in factors.rows)
    (result,) = re.findall(rf"{re.escape(names[:26])}.*?Cycles / packet ([\d. ]+) ÷", text)
    assert result.split() == [row[1] for row in factors.rows]
    assert all(row[0] in text for row in factors.rows)


@NEEDS_TEXT
def test_idle_latencies_and_limits_are_the_fdio_paper_s() -> None:
    text = re.sub(r"\s+", " ", " ".join(paper(0)))
    (latency,) = printed_tables(metric="load_latency_cycles")
    l2, llc, memory = (row[1] for row in latency.rows)
    assert f"for accessing L2 cache is {l2} cycles" in text
    assert f"for accessing LLC is {llc} cycles" in text
    assert f"for accessing memory cache is in range of {memory} cycles" in text
    assert "around 10%" in text and "Values higher than 10% could be a cause of concern" in text
    assert "if it scores values of 25% or higher" in text
    assert "If %ITLB Misses is more than 0.01%" in text
    assert "%Branch_Mispredicts ratios is more than 5%" in text


def test_numbers_hold_together() -> None:
    """IPP / CPP is IPC; base frequencies of the parts of a processor are its cores."""
    reveal, factors = printed_tables(paper="packet_processing")
    for _, ipc, ipp, cpp in reveal.rows:
        assert float(ipp) / float(cpp) == pytest.approx(float(ipc), abs=0.006)
    values = [float(row[1]) for row in factors.rows]
    instructions, cycles, _, clock, packets, *_ = values
    assert cycles == pytest.approx(clock, rel=0.002)
    assert instructions / cycles == pytest.approx(values[2], abs=0.005)
    assert [instructions / packets, cycles / packets] == pytest.approx(values[5:], abs=0.5)
    for row in printed_tables(paper="stable_dpdk")[2].rows:
        cores, high, low = (int(row[at]) for at in (1, 3, 5))
        assert cores == high + low


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("3,980,656", 3980656),
        ("7104.00", 7104),
        ("3077k", 3077e3),
        ("~40", 40),
        ("140+", 140),
        ("-", None),
    ],
)
def test_a_cell_s_number(cell: str, value: float | None) -> None:
    assert number(cell) == value


def test_tables_are_chosen_by_metric_and_cpu() -> None:
    assert {table.label for table in printed_tables(metric="llc_occupancy_bytes")} == {
        "Table 1",
        "Table 2",
        "RDT Test data",
    }
    assert printed_tables(uarch="HSX") == RDT
    assert {table.paper for table in printed_tables(uarch="CLX")} == {"stable_dpdk"}
    assert {table.uarch for table in printed_tables()} - {""} <= set(uarch_table.names())
