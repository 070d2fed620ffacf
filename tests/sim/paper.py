"""The first paper's rows of the CPU that the simulated cores are of."""

from __future__ import annotations

from nftop.papers.rows import PaperRow, matching


def runs(cores: int = 1) -> list[PaperRow]:
    """Of what forwards packets on the Xeon E5-2699 v4."""
    result = matching(uarch="BDX", cores=cores)
    return [row for row in result if row.kind and row.cpu == "Xeon E5-2699 v4"]


def printed(*metrics: str) -> dict[tuple[str, bool], tuple[float, ...]]:
    """These numbers as printed, by workload and hyper-threading."""
    return {
        (row.workload, row.smt): tuple(float(row.figures[name].printed) for name in metrics)
        for row in runs()
    }
