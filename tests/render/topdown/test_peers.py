"""Groups of cores, and who is whose peer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.column import column
from nftop.model.frame import CacheClass, CpuTable
from nftop.model.missing import Missing, Reason
from nftop.render.topdown.peers import NODES, Grouping, group_lines, once_per_core, peers_of
from tests.frames import all_missing, frame, hostile, with_cells

HOST = frame(16, 3, tma=True)
ALL = tuple(range(16))


def classes(cpus: CpuTable) -> CpuTable:
    """CPUs 1 and 2 are in a class, CPU 3's is unknown."""
    known: dict[int, CacheClass | Missing] = {
        1: CacheClass("vpp", 1),
        2: CacheClass("vpp", 1),
        3: Missing(Reason.SOURCE, "not told"),
    }
    return replace(cpus, group=tuple(known.get(row, CacheClass("", 0)) for row in range(len(cpus))))


@pytest.mark.parametrize("by", ["nf", "class"])
@pytest.mark.parametrize("width", [80, 200])
def test_groups(by: Grouping, width: int, snapshot: SnapshotAssertion) -> None:
    drawn = group_lines(classes(HOST.cpus), ALL, by, width)
    assert "\n".join(line.text.rstrip() for line in drawn) == snapshot


def test_every_node_is_shown_at_any_width() -> None:
    for width in (30, 60, 80, 130, 250):
        drawn = group_lines(HOST.cpus, ALL, "nf", width)
        assert all(line.width <= width for line in drawn)
        text = " ".join(line.text for line in drawn)
        if width > 40:
            assert all(f"{metric.label} " in text for metric in NODES)


def test_median_and_range_are_over_cores_and_threads_count_once() -> None:
    shares = np.array([0.5, 0.10, 0.20, 0.60] + [0.5] * 4 + [0.5, 0.10, 0.20, 0.60] + [0.5] * 4)
    shown = with_cells(HOST, "tma.retiring", dict(enumerate(shares.tolist())))
    nf = tuple("fwd" if row % 8 in (1, 2, 3) else None for row in range(16))
    cpus = replace(shown.cpus, nf=nf, nf_pid=tuple(7 if item else None for item in nf))
    text = " ".join(line.text for line in group_lines(cpus, ALL, "nf", 200))
    own = text[text.index("fwd 7") :].split()
    assert own[2] == "3", "cores, not threads"
    assert "20%~ 10-60 " in text


def test_a_group_without_any_number_shows_why() -> None:
    shown = all_missing()
    text = "\n".join(line.text for line in group_lines(shown.cpus, (1, 2), "nf", 200))
    assert "[" in text.splitlines()[-1]


def test_no_rows_is_a_message() -> None:
    assert group_lines(HOST.cpus, (), "nf", 80)[-1].text == "no rows"


def test_names_from_outside_are_printable() -> None:
    drawn = group_lines(hostile().cpus, tuple(range(8)), "nf", 80)
    assert all(line.text.isprintable() and line.width <= 80 for line in drawn)


def test_peers() -> None:
    assert peers_of(HOST.cpus, 1).rows.tolist() == [2]
    assert peers_of(HOST.cpus, 9).rows.tolist() == [2, 3], "nor is a sibling a peer"
    assert peers_of(HOST.cpus, 3).rows.tolist() == [1, 2]
    nobody = peers_of(replace(HOST.cpus, nf=(None,) * 16, thread=(None,) * 16), 1)
    assert not len(nobody.rows)
    assert isinstance(nobody.median(HOST.cpus, "ipc"), Missing)


def test_the_median_is_of_those_that_have_a_number() -> None:
    old = Missing(Reason.STALE, "old")

    def with_ipc(*values: float) -> CpuTable:
        ipc = column(np.array(values), why=old)
        return replace(HOST.cpus, columns={**HOST.cpus.columns, "ipc": ipc})

    cpus = with_ipc(1.0, 1.0, 9.0, np.nan, *[1.0] * 12)
    assert peers_of(cpus, 9).median(cpus, "ipc") == 9.0
    gone = with_ipc(*[np.nan] * 16)
    assert peers_of(gone, 9).median(gone, "ipc") == old


def test_an_offline_cpu_is_a_core_of_its_own() -> None:
    first, *others = HOST.cpus.topology.cpus
    offline = replace(first, core=None, siblings=())
    topology = replace(HOST.cpus.topology, cpus=(offline, *others))
    cpus = replace(HOST.cpus, topology=topology)
    assert once_per_core(cpus, ALL).tolist() == list(range(9)), "CPU 8's sibling is gone"
