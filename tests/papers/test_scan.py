"""The tables against the scan that they were read from, cell by cell."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from nftop.papers.changes import changes
from nftop.papers.rows import rows
from nftop.papers.table import PaperTable, frame_tables, tables, tool_tables

# Beside the project or beside its parent; what it holds is others' and no part of the project.
FOLDERS = [parent / "shared/seeds" for parent in Path(__file__).resolve().parents]
FOLDER = next((folder for folder in FOLDERS if folder.is_dir()), None)
pytestmark = pytest.mark.skipif(FOLDER is None, reason="the papers' text (shared/seeds) is absent")
_CELLS = re.compile(r"(.*?)[ |]+((?:(?:n/a|[0-9][0-9.,]*)(?:[ |]+|$))+)$")


@cache
def paper(number: int) -> list[str]:
    assert FOLDER is not None
    (file,) = FOLDER.glob(f"{number:03}_*.txt")
    return file.read_text(encoding="utf-8", errors="replace").splitlines()


def scanned(table: PaperTable | int) -> list[str]:
    """The lines between the caption before a table and its own."""
    number = table if isinstance(table, int) else table.number
    captions = [
        (int(result[1]), at)
        for at, line in enumerate(paper(0))
        if (result := re.match(r"Table (\d+)\. \D", line)) and "...." not in line
    ]
    first: dict[int, int] = {}
    for which, at in captions:
        first.setdefault(which, at)
    return paper(0)[first[number - 1] : first[number]]


@pytest.mark.parametrize("table", tables(), ids=lambda table: f"table {table.number}")
def test_every_cell_is_the_scan_s(table: PaperTable) -> None:
    in_scan = []
    names = {row.printed for row in table.rows}
    for line in scanned(table):
        result = _CELLS.fullmatch(line.strip())
        if result and result[1].rstrip(" |") in names:
            in_scan.append((result[1].rstrip(" |"), result[2].replace("|", " ").split()))
    ours = [
        (row.printed, [cell.scanned or cell.printed for cell in row.cells]) for row in table.rows
    ]
    assert ours == in_scan


@pytest.mark.parametrize("table", tables(), ids=lambda table: f"table {table.number}")
def test_no_row_of_the_scan_is_left_out(table: PaperTable) -> None:
    """Lines that end in as many numbers as a row has."""
    wanted = len(table.columns)
    like_rows = [
        line
        for line in scanned(table)
        if (result := _CELLS.fullmatch(line.strip()))
        and len(result[2].replace("|", " ").split()) == wanted
    ]
    assert len(like_rows) == len(table.rows)


def test_the_tools_are_the_scan_s() -> None:
    (table,) = tool_tables()
    # One letter is read as another in places: PCle for PCIe, X for x.
    text = [line.replace("PCle", "PCIe").casefold() for line in scanned(table.number)]
    for area, tools in table.tools.items():
        assert f"{area} {tools}".casefold() in text


def test_every_cell_by_frame_size_is_the_scan_s() -> None:
    (table,) = frame_tables()
    lines = [line.split() for line in scanned(table.number) if re.fullmatch(r"[\d. ]+", line)]
    ours = [[str(size), *(cell.printed for cell in cells)] for size, cells in table.rows]
    assert ours == [line for line in lines if len(line) == 4]


def test_changes_are_reported_in_the_second_paper() -> None:
    """Every number of a change stands in the text; which it is of was read, not parsed."""
    text = re.sub(r"\s+", " ", " ".join(paper(1)))
    output = {int(number) for number in re.findall(r"(?<![\d.])(\d{1,2})(?![\d.])", text)}
    for change in changes():
        for end in (change.low, change.high):
            assert end is None or abs(round(100 * end)) in output
    for row in rows():
        if row.paper == "fdio_skylake":
            for figure in row.figures.values():
                assert figure.printed in text


@pytest.mark.parametrize(
    ("output", "metric", "workload", "smt", "low", "high"),
    [
        ("DPDK applications: 9% . .12% (18%)", "ipc", "testpmd", True, 9, 12),
        ("DPDK applications: 9% . .12% (18%)", "ipc", "l3fwd", False, 18, 18),
        ("OVS-DPDK: 10% (4%)", "ipc", "ovs", True, 10, 10),
        ("OVS-DPDK: 10% (4%)", "ipc", "ovs", False, 4, 4),
        ("VPP configurations: 16% .. 30% (16% .. 34%)", "ipc", "vpp_ip4", True, 16, 30),
        ("VPP configurations: 16% .. 30% (16% .. 34%)", "ipc", "vpp_l2_mac", False, 16, 34),
        ("Coremark: 3% with HT (~ 4% with noHT)", "ipc", "coremark", True, 3, 3),
        ("DPDK applications: -10% .. -7% (-22% .. -18%)", "cpp", "testpmd", True, -10, -7),
        ("DPDK applications: -10% .. -7% (-22% .. -18%)", "cpp", "l3fwd", False, -22, -18),
        ("OVS-DPDK: -12% (-3%)", "cpp", "ovs", True, -12, -12),
        ("OVS-DPDK: -12% (-3%)", "cpp", "ovs", False, -3, -3),
        ("VPP configurations: -21% .. -9% (-20% .. -11%)", "cpp", "vpp_ip4", True, -21, -9),
        ("VPP configurations: -21% .. -9% (-20% .. -11%)", "cpp", "vpp_ip4", False, -20, -11),
        ("DPDK applications: 2% .. 6% (16% .. 22%)", "packets_per_s", "testpmd", True, 2, 6),
        ("DPDK applications: 2% .. 6% (16% .. 22%)", "packets_per_s", "l3fwd", False, 16, 22),
        ("OVS-DPDK: 8% (-1%)", "packets_per_s", "ovs", True, 8, 8),
        ("OVS-DPDK: 8% (-1%)", "packets_per_s", "ovs", False, -1, -1),
        ("VPP configurations: 4% .. 21% (8% .. 19%)", "packets_per_s", "vpp_ip4", True, 4, 21),
        ("VPP configurations: 4% .. 21% (8% .. 19%)", "packets_per_s", "vpp_ip4", False, 8, 19),
        ("up to ~11 points better", "tma.retiring", "testpmd", True, None, 11),
        ("17 points higher for L2 Cross-Connect", "tma.retiring", "vpp_l2_patch", True, 17, 17),
        ("and 13 points higher for IPv4 Routing", "tma.retiring", "vpp_ip4", True, 13, 13),
        ("(-13 and -3 points respectively)", "tma.backend_bound", "vpp_ip4", True, -3, -3),
        ("reduced by more than 6 points", "tma.frontend_bound", "coremark", True, None, -6),
        ("Metric lower by ~5 points due", "tma.frontend_bound", "l3fwd", True, -5, -5),
        ("Metric lower by 11 points due", "tma.frontend_bound", "ovs", True, -11, -11),
        ("Metric lower by 4 to 6 points", "tma.frontend_bound", "vpp_l2_mac", True, -6, -4),
        ("metric is increased by 4 points", "tma.backend_bound", "coremark", True, 4, 4),
        ("Metric lower by 3 to ~8 points", "tma.backend_bound", "testpmd", True, -8, -3),
        ("Metric higher by 3 points", "tma.backend_bound", "ovs", True, 3, 3),
        ("Metric lower by 4 to 14 points", "tma.backend_bound", "vpp_l2_mac", True, -14, -4),
    ],
)
def test_a_change_is_what_a_sentence_reports(
    output: str, metric: str, workload: str, smt: bool, low: int | None, high: int | None
) -> None:
    assert output in re.sub(r"\s+", " ", " ".join(paper(1)))
    ends = {
        (
            None if change.low is None else round(100 * change.low),
            None if change.high is None else round(100 * change.high),
        )
        for change in changes()
        if change.metric == metric and workload in change.workloads and change.smt == smt
    }
    assert (low, high) in ends
