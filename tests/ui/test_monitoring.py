"""`M` on the NFs screen: a monitoring group of the threads, previewed and kept, and taken away."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from syrupy.assertion import SnapshotAssertion

from nftop.model.change import Cell
from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.ui.options import Options
from tests.ui.editing import is_planned, phase, settle
from tests.ui.gates import MemoryGate, frame_at, open_gate
from tests.ui.harness import Running, running

NAME = "nftop.vpp-5000"


def is_applied(run: Running, gate: MemoryGate, count: int) -> bool:
    return len(gate.pending) > count and phase(run) != "applying"


def with_tids(shown: Frame) -> Frame:
    """VPP's threads have ids; CPUs 1 and 2 are those of its class."""
    vpp = next(nf for nf in shown.nfs if nf.name == "vpp")
    threads = tuple(
        replace(item, cpu=Cpu(cpu), tid=4000 + at)
        for at, (item, cpu) in enumerate(zip(vpp.threads * 2, (1, 2), strict=False))
    )
    return replace(shown, nfs=(replace(vpp, pid=5000, threads=threads),))


async def test_m_makes_a_group_after_confirmation_and_again_takes_it_away() -> None:
    gate = open_gate()
    first = gate.host.state()
    options = Options(gate=gate, rw=True)
    async with running(with_tids(frame_at(first, simulated=True)), options=options) as run:
        for created in (True, False):
            await run.press("2", "M")
            await run.until(lambda: is_planned(run))
            command = "create" if created else "remove"
            assert f"nftop cat {command} --group vpp --monitor {NAME}" in run.text
            count = len(gate.pending)
            await run.press("y")
            await run.until(partial(is_applied, run, gate, count))
            await run.press("K")
            await settle(run)
            state = gate.host.state()
            assert (Cell("monitor", "vpp", NAME) in state) is created
            for cpu in (1, 2):
                where = f"vpp/{NAME}" if created else "vpp"
                assert state[Cell("cpu", "", number=cpu)] == where
            await run.press("escape")
        assert gate.host.state() == first


async def test_without_a_gate_m_reports_why_not(snapshot: SnapshotAssertion) -> None:
    gate = open_gate()
    shown = with_tids(frame_at(gate.host.state()))
    async with running(shown, options=Options(no_gate="a recording")) as run:
        await run.press("2", "M")
        assert run.footer == snapshot
