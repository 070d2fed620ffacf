"""Tables 6, 7 and 16 of the first paper, from frames of the simulated host, cell by cell."""

from __future__ import annotations

import numpy as np
import pytest

from nftop.model.frame import Frame, PackageRow
from nftop.papers.rows import PaperRow
from nftop.papers.table import FrameTable, PaperCell, frame_tables, pcie_bytes
from nftop.sim import scenario, workloads
from nftop.sim.workloads import INDEX
from tests.sim.hosts import Frozen, S
from tests.sim.paper import runs

_TASK = """
title = "t"
assumes = "t"
period_s = 20.0
swing = 0.0
[[tasks]]
name = "{name}"
kind = "{kind}"
workload = "{workload}"
package = 0
threads = {threads}
ht = true
load = {load!r}
{more}
"""
_KINDS = {"testpmd": "testpmd", "l3fwd": "l3fwd", "ovs": "ovs"}
(TABLE_16,) = frame_tables()


class Host(Frozen):
    """A host with one network function on package 0, at a rate."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, workload: str, threads: int, mpps: float, more: str
    ) -> None:
        whole = workloads.load(workload, ht=True).packets_per_cycle * workloads.core_hz()
        load = mpps * 1e6 / (whole * threads / 2)
        kind = _KINDS.get(workload, "vpp")
        text = _TASK.format(
            name=kind, kind=kind, workload=workload, threads=threads, load=load, more=more
        )
        parsed = scenario.parse("t", text)
        monkeypatch.setattr(scenario, "load", lambda *_: parsed)
        super().__init__()

    def rows(self) -> tuple[Frame, PackageRow, float]:
        """A frame, its package 0, and bytes per second that the rest of the system moves there."""
        self.tick(3 * S)
        frame = self.tick(10 * S)
        counts = self.simulated.model.counts
        idle = [
            row
            for row, info in enumerate(frame.topology.cpus)
            if info.package == 0 and frame.cpus.nf[row] is None
        ]
        grown = counts(13 * S)[idle].astype(np.float64) - counts(3 * S)[idle].astype(np.float64)
        lines = grown[:, [INDEX["cas_reads"], INDEX["cas_writes"]]].sum()
        return frame, frame.packages[0], 64 * float(lines) / 10


def number(row: PackageRow, name: str) -> float:
    reading = row.readings[name]
    assert isinstance(reading, float), f"{name}: {reading}"
    return reading


def of_nf(frame: Frame) -> float:
    (nf,) = frame.nfs
    reading = nf.readings["rx_packets_per_s"]
    assert isinstance(reading, float)
    return reading


def rounded(value: float, cell: str) -> str:
    """As the cell is printed."""
    text = f"{value:,.{len(cell.partition('.')[2])}f}"
    return text if "," in cell else text.replace(",", "")


@pytest.mark.parametrize("run", runs(cores=4), ids=lambda run: run.workload)
def test_tables_6_and_7(run: PaperRow, monkeypatch: pytest.MonkeyPatch) -> None:
    mpps = float(run.figures["packets_per_s"].printed)
    frame, row, others = Host(monkeypatch, run.workload, run.threads, mpps, "").rows()
    packets = of_nf(frame)
    of_socket = number(row, "per_packet.memory_bytes")
    memory = of_socket * packets - others
    cells = {
        "packets_per_s": packets / 1e6,
        "memory_bytes_per_s": memory / 1e6,
        "pcie_write_bytes_per_s": number(row, "per_packet.pcie_writes") * 64 * packets / 1e6,
        "pcie_read_bytes_per_s": number(row, "per_packet.pcie_reads") * 64 * packets / 1e6,
        "per_packet.pcie_writes": number(row, "per_packet.pcie_writes"),
        "per_packet.pcie_reads": number(row, "per_packet.pcie_reads"),
    }
    printed = {name: run.figures[name].printed for name in cells}
    assert {name: rounded(value, printed[name]) for name, value in cells.items()} == printed
    # Of the rates on screen too.
    for name in ("write", "read"):
        value = number(row, f"pcie.{name}_bytes_per_s") / 1e6
        assert (
            rounded(value, printed[f"pcie_{name}_bytes_per_s"])
            == (printed[f"pcie_{name}_bytes_per_s"])
        )
    partial = number(row, "per_packet.pcie_partial_writes")
    assert partial == pytest.approx(number(row, "per_packet.pcie_writes") - 1, rel=1e-4)
    assert number(row, "per_packet.mmio_writes") == pytest.approx(2 / 32, rel=1e-4)
    halves = [number(row, f"per_packet.memory_{way}_bytes") for way in ("read", "write")]
    assert sum(halves) == pytest.approx(of_socket, rel=1e-9)


@pytest.mark.parametrize(("frame_bytes", "cells"), TABLE_16.rows)
def test_table_16(
    frame_bytes: int, cells: tuple[PaperCell, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    mpps = 10e3 / (8 * (frame_bytes + 20))  # preamble and gap, as in the papers' equation 1
    more = f"frame_bytes = {frame_bytes}"
    frame, row, _ = Host(monkeypatch, "testpmd", 2, mpps, more).rows()
    shown = (
        of_nf(frame) / 1e6,
        number(row, "pcie.read_bytes_per_s") / 1e6,
        number(row, "pcie.write_bytes_per_s") / 1e6,
    )
    assert [rounded(value, cell.printed) for value, cell in zip(shown, cells, strict=True)] == [
        cell.printed for cell in cells
    ]
    wrote, read = pcie_bytes(frame_bytes)
    assert number(row, "per_packet.pcie_writes") == pytest.approx(wrote / 64, rel=1e-5)
    assert number(row, "per_packet.pcie_reads") == pytest.approx(read / 64, rel=1e-5)


def test_the_text_of_equation_24_is_not_its_table(table: FrameTable = TABLE_16) -> None:
    """The text leaves out the checksum, the table does not."""
    frame_bytes, (_, read, _) = table.rows[0]
    packets = 10e9 / (8 * (frame_bytes + 20))
    assert round((frame_bytes - 4 + 16 + 16) * packets / 1e6) == 1369
    assert round(pcie_bytes(frame_bytes)[1] * packets / 1e6) == int(read.printed) == 1429
