"""Text of `nftop tma`: the tree of the top-down method."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.cli.commands.tma import tma_text, tree
from nftop.derive.topdown.tma import tma_of_counts
from nftop.model.missing import Missing, Reading, Reason
from nftop.uarch.focus import is_beyond
from nftop.uarch.sections import Topdown
from tests.uarch import vectors
from tests.uarch.vectors import UARCHES, loaded


def topdown(uarch: str) -> Topdown:
    result = loaded(uarch).topdown
    assert result
    return result


def ratios(uarch: str, vector: str) -> dict[str, Reading]:
    counts = vectors.counts(uarch, vector)
    return tma_of_counts(loaded(uarch), counts, smt=vectors.of(uarch)[vector].smt)


@pytest.mark.parametrize("uarch", ["SKX", "SRF"])
def test_a_tree(uarch: str, snapshot: SnapshotAssertion) -> None:
    of = ratios(uarch, "dram_latency_bound")
    assert tma_text(loaded(uarch), of, smt=False, origin="JSON", notes=["a note"]) == snapshot


@pytest.mark.parametrize("uarch", UARCHES)
def test_every_node_once_below_its_parent(uarch: str) -> None:
    lines = tree(topdown(uarch), ratios(uarch, "edge_all_zero"), smt=False).split("\n")
    above: list[str] = []
    seen = []
    for line in lines[: lines.index("")]:
        name = line.split()[0]
        depth = (len(line) - len(line.lstrip())) // 2
        assert depth == topdown(uarch).level[name] - 1
        above = [*above[:depth], name]
        assert topdown(uarch).parent.get(name) == (above[-2] if depth else None)
        seen.append(name)
    assert sorted(seen) == sorted(topdown(uarch).nodes)


def test_roots_stand_in_one_order_whatever_the_table() -> None:
    trees = [tree(topdown(u), ratios(u, "edge_all_zero"), smt=False).split("\n") for u in UARCHES]
    roots = [
        [line.split()[0] for line in item[: item.index("")] if not line.startswith(" ")]
        for item in trees
    ]
    wanted = ["frontend_bound", "bad_speculation", "backend_bound", "retiring"]
    assert roots == [wanted] * len(UARCHES)


def test_what_is_little_is_not_nothing_and_what_is_absent_reports_why(
    snapshot: SnapshotAssertion,
) -> None:
    some: dict[str, Reading] = {
        "frontend_bound": 0.0,
        "backend_bound": 0.0004,
        "retiring": 0.9996,
        "bad_speculation": Missing(Reason.SOURCE, "not \x1b[31mcounted"),
    }
    lines = tree(topdown("SKX"), some, smt=False).split("\n")
    assert lines[0].split() == ["frontend_bound", "0.0%"]
    assert lines[1].split() == ["bad_speculation", "[s]"]
    assert lines[2].split() == ["backend_bound", "<0.1%"]
    assert lines[3].split() == ["retiring", "100.0%", "*"]
    assert lines[-1] == snapshot


def test_a_reason_is_printed_once_with_its_branches(snapshot: SnapshotAssertion) -> None:
    of = ratios("SKX", "dram_latency_bound")
    gone, other = Missing(Reason.SOURCE, "not counted"), Missing(Reason.ERROR, "word " * 40)
    branch = ("memory_bound", "l1_bound", "l2_bound", "l3_bound", "dram_bound", "store_bound")
    of |= {**dict.fromkeys(branch, other), "divider": gone, "core_bound": gone, "retiring": gone}
    text = tree(topdown("SKX"), of, smt=False)
    below = text.partition("\n\n")[2].split("\n")
    assert below[1] == snapshot
    assert below[2].startswith("    word") and len(below[1]) <= 100
    assert below[-1] == snapshot
    assert text.count("not counted") == 1


def test_notable_is_only_what_is_so_all_the_way_up() -> None:
    some: dict[str, Reading] = {"frontend_bound": 0.1, "fetch_latency": 0.11, "retiring": 0.9}
    assert not is_beyond(topdown("SKX"), some, "frontend_bound")
    assert not is_beyond(topdown("SKX"), some, "fetch_latency")
    assert is_beyond(topdown("SKX"), some | {"frontend_bound": 0.2}, "fetch_latency")
    slow: dict[str, Reading] = {"backend_bound": 1.0, "memory_bound": 1.0, "cxl_mem_bound": 1.0}
    assert is_beyond(topdown("CLX"), slow, "memory_bound")
    assert not is_beyond(topdown("CLX"), slow, "cxl_mem_bound")  # the vendor gives no threshold


def test_what_the_vendor_mistrusts_with_hyper_threading_is_marked() -> None:
    assert topdown("BDX").unreliable_smt
    of = ratios("BDX", "mispredict_heavy_HT")
    marked = {
        line.split()[0]
        for line in tree(topdown("BDX"), of, smt=True).split("\n")
        if "~" in line and "%" in line
    }
    assert marked == {n for n in topdown("BDX").unreliable_smt if isinstance(of[n], float)}
    assert "~" not in tree(topdown("BDX"), of, smt=False)


def test_a_table_without_top_down_has_no_tree() -> None:
    with pytest.raises(ValueError, match="no top-down"):
        tma_text(loaded("generic"), {}, smt=False, origin="JSON", notes=())
