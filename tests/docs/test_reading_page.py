"""docs/reading.md: its tables are the papers'.

`python -m tests.docs.test_reading_page` writes them again.
"""

from __future__ import annotations

import re

import pytest

from nftop.papers.printed import printed_tables
from nftop.papers.table import PaperTable, tables
from tests.house import ROOT

PAGE = ROOT / "docs/reading.md"
CPU = "E5-2699v4"
SHORT = {
    "packets_per_s": "Mpps", "ipp": "IPP", "ipc": "IPC", "cpp": "CPP", "tma.retiring": "retiring",
    "tma.bad_speculation": "bad speculation", "tma.frontend_bound": "frontend bound",
    "tma.backend_bound": "backend bound", "tma.memory_bound": "memory bound",
    "tma.core_bound": "core bound",
}  # fmt: skip


def numbered(number: int) -> PaperTable:
    return next(table for table in tables() if table.number == number and table.cpu == CPU)


def both(number: int) -> str:
    """A table of the FD.io paper: a column a metric, cells without and with hyper-threading."""
    table = numbered(number)
    metrics = list(dict.fromkeys(column.metric for column in table.columns))
    lines = [
        f"| noHT / HT | {' | '.join(SHORT[metric] for metric in metrics)} |",
        "|---|" + "---|" * len(metrics),
    ]
    for row in table.rows:
        cells = dict.fromkeys(metrics, "")
        for metric in metrics:
            pair = [
                cell.printed
                for cell, column in zip(row.cells, table.columns, strict=True)
                if column.metric == metric
            ]
            cells[metric] = " / ".join("-" if text == "n/a" else text for text in pair)
        if row.workload == "coremark":  # relative to a reference, not packets
            cells |= {"packets_per_s": "-"} if "packets_per_s" in cells else {}
        lines.append(f"| {row.printed} | {' | '.join(cells.values())} |")
    return "\n".join(lines)


def ipsec() -> str:
    """The two builds of VPP with IPsec."""
    table = next(table for table in printed_tables() if "IPSec" in table.title)
    names = {"VPP A": "un-optimized", "VPP B": "AES-NI"}
    lines = ["| VPP with IPsec | IPC | IPP | CPP |", "|---|---|---|---|"]
    lines += [f"| {names[row[0]]} | {' | '.join(row[1:])} |" for row in table.rows]
    return "\n".join(lines)


TABLES = {"table 4": lambda: both(4), "table 9": lambda: both(9), "table 13": lambda: both(13),
          "ipsec": ipsec}  # fmt: skip


def block(name: str) -> re.Pattern[str]:
    """A table after its marker."""
    return re.compile(rf"(?m)(^<!-- {name} -->\n)\n?((?:\|.*\n)*)")


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_the_papers(name: str) -> None:
    match = block(name).search(PAGE.read_text())
    assert match and match[2] == f"{TABLES[name]()}\n"


def test_what_the_text_computes_is_so() -> None:
    """The page's own sentences on Table 4."""
    cells = {
        (row.workload, column.metric): cell.value
        for row in numbered(4).rows
        for cell, column in zip(row.cells, numbered(4).columns, strict=True)
        if not column.smt
    }

    def of(workload: str, metric: str) -> float:
        value = cells[workload, metric]
        assert value is not None
        return value

    assert of("vpp_ip4", "ipp") / of("l3fwd", "ipp") == pytest.approx(3.6, abs=0.05)
    assert of("vpp_ip4", "cpp") / of("l3fwd", "cpp") == pytest.approx(2.3, abs=0.05)
    assert of("ovs", "cpp") / of("vpp_l2_patch", "cpp") == pytest.approx(1.9, abs=0.05)
    assert 2200 / of("vpp_ip4", "cpp") == pytest.approx(10.5, abs=0.05)
    assert of("vpp_ip4", "ipp") / of("vpp_ip4", "cpp") == pytest.approx(2.4, abs=0.05)


def _write() -> None:
    page = PAGE.read_text()
    for name, table in TABLES.items():
        match = block(name).search(page)
        assert match
        page = f"{page[: match.start()]}{match[1]}\n{table()}\n{page[match.end() :]}"
    PAGE.write_text(page)


if __name__ == "__main__":
    _write()
