"""Who is said to be on a CPU beside the thread of its network function."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nftop.derive.findings.inputs import FindingInputs
from nftop.derive.findings.poller_rules import others_here
from nftop.derive.occupants import Occupant
from nftop.derive.threads import ThreadRate
from nftop.model.ids import Cpu
from nftop.model.nf.kinds import NF_KINDS
from tests.recordings import taken
from tests.samples import thread


def spinner(pid: int, comm: str, role: str = "") -> ThreadRate:
    of: dict[str, Any] = {"pid": pid, "tid": pid, "comm": comm, "role": role}
    return ThreadRate(replace(thread(**of), allowed=(Cpu(1),)), 1.0, 0.0, polls=True)


def test_a_hog_spins_and_only_a_functions_thread_polls() -> None:
    nf = spinner(7, "lcore-worker-1", next(iter(NF_KINDS)))
    hog, other = spinner(8, "sh"), spinner(9, "lcore-worker-4", next(iter(NF_KINDS)))
    assert Occupant(other_threads=[nf]).others == ()
    assert Occupant(other_threads=[hog, nf]).others == ("pid 8 sh spinning",)
    assert Occupant(other_threads=[nf, other, hog]).others == (
        "pid 9 lcore-worker-4 polling",
        "pid 8 sh spinning",
    )
    assert Occupant(other_threads=[hog]).others == ("pid 8 sh spinning",), "nobody's CPU"


def test_only_present_neighbours_are_counted() -> None:
    frame = taken(2, cpus=4).frames[1]
    row = next(row for row, nf in enumerate(frame.cpus.nf) if nf is not None)
    alone = others_here(FindingInputs(frame, {row: ()}))
    assert alone.values[0] == 0.0
    both = others_here(FindingInputs(frame, {row: ("pid 8 sh spinning",)}))
    assert both.values[0] == 1.0 and both.words["threads"][0] == "pid 8 sh spinning"
