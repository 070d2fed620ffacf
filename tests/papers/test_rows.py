"""What a screen asks for: the rows of a workload, and which workload something running is of."""

from __future__ import annotations

import pytest

from nftop.model.nf.kinds import NF_KINDS
from nftop.papers.changes import changes_of
from nftop.papers.rows import matching, rows, workload_of
from nftop.papers.table import papers
from nftop.uarch import table as uarch_table


def test_a_row_has_all_that_the_tables_have_of_a_run() -> None:
    (row,) = matching(workload="testpmd", uarch="BDX", smt=True, cores=1)[:1]
    assert (row.title, row.kind, row.software) == ("DPDK-Testpmd L2 Loop", "dpdk", "DPDK 16.11")
    assert (row.cpu, row.core_hz, row.threads) == ("Xeon E5-2699 v4", 2.2e9, 2)
    assert row.figures["cpp"].value == 49
    assert row.figures["cpp"].source == "Table 4, row 2"
    assert row.figures["tma.l3_bound"].value == 0.144
    repaired = row.figures["tma.backend_bound"]
    assert (repaired.value, repaired.source) == (0.334, "Table 9, row 2")


def test_rows_are_narrowed_by_what_is_queried() -> None:
    assert matching() == rows()
    assert {row.workload for row in matching(kind="vpp")} == {
        "vpp_l2_patch",
        "vpp_l2_mac",
        "vpp_ip4",
    }
    assert all(row.smt for row in matching(smt=True))
    assert len(matching(smt=True)) + len(matching(smt=False)) == len(rows())
    assert {row.cpu for row in matching(uarch="BDX")} == {"Xeon E5-2699 v4", "Xeon E5-2667 v4"}
    assert matching(uarch="ICX") == ()
    assert [row.figures["cpp"].value for row in matching(workload="ovs", cores=1, smt=False)] == [
        269,
        272,
    ]


@pytest.mark.parametrize(
    ("kind", "app", "nodes", "expected"),
    [
        ("dpdk", "dpdk-testpmd", (), "testpmd"),
        ("dpdk", "l3fwd", (), "l3fwd"),
        ("dpdk", "firewall", (), None),
        ("ovs", "ovs-vswitchd", (), "ovs"),
        ("vpp", "vpp", ("dpdk-input", "ip4-lookup", "ip4-rewrite"), "vpp_ip4"),
        ("vpp", "vpp", ("dpdk-input", "l2-patch"), "vpp_l2_patch"),
        ("vpp", "vpp", ("l2-input", "l2-learn", "l2-fwd"), "vpp_l2_mac"),
        ("vpp", "vpp", ("l2-fwd", "ip4-lookup"), None),
        ("vpp", "vpp", (), None),
        ("kernel", "", (), None),
        ("", "coremark", (), None),
    ],
)
def test_what_runs_is_of_a_workload_or_of_none(
    kind: str, app: str, nodes: tuple[str, ...], expected: str | None
) -> None:
    assert workload_of(kind, app, nodes) == expected


def test_names_are_nftop_s() -> None:
    kinds = {about.get("kind") for about in papers()["workloads"].values()} - {None}
    assert kinds <= set(NF_KINDS.values())
    assert {about["uarch"] for about in papers()["cpus"].values()} <= set(uarch_table.names())


def test_top_down_is_called_as_the_cpu_s_own_table_does() -> None:
    topdown = uarch_table.load("BDX").topdown
    assert topdown is not None
    ours = {figure for row in rows() for figure in row.figures if figure.startswith("tma.")}
    assert ours <= {f"tma.{name}" for name in topdown.nodes}


def test_the_second_paper_has_changes_and_hardly_a_number() -> None:
    (row,) = matching(workload="vpp_ip4", uarch="SKX", smt=True)
    assert {name: figure.value for name, figure in row.figures.items()} == {"ipc": 3.09}
    result = changes_of("vpp_l2_patch", uarch="SKX", smt=True)
    assert [(c.low, c.high) for c in result if c.metric == "cpp"] == [(-0.21, -0.09)]
    retiring = next(c for c in result if c.metric == "tma.retiring")
    assert (retiring.low, retiring.points, retiring.against) == (0.17, True, "Xeon E5-2699 v4")
    (up_to,) = [c for c in changes_of("testpmd") if c.metric == "tma.retiring"]
    assert (up_to.low, up_to.high, up_to.about) == (None, 0.11, True)
