"""The pane of the selected CPU."""

from __future__ import annotations

from dataclasses import replace

from syrupy.assertion import SnapshotAssertion

from nftop.model.ids import Cpu
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.sample import ProcessFacts
from nftop.render.cores.detail import process_lines, process_texts
from nftop.render.pages.help import explain_lines
from tests.frames import frame


def test_processes_of_the_cpu_are_lines_of_safe_text_cut_at_the_width(
    snapshot: SnapshotAssertion,
) -> None:
    facts = (
        ProcessFacts(4711, Cpu(1), "testpmd -l 1 \x1b[31m", "dpdk", "/nf.slice", -5, None),
        ProcessFacts(4712, Cpu(1), "", "", "", None, None),
        ProcessFacts(9, Cpu(2), "x", "root", "/", 0, None),
    )
    shown = replace(frame(4), processes=facts)
    lines = process_lines(shown, Cpu(1), 200)
    assert [item.text for item in lines] == snapshot
    assert [item.width for item in process_lines(shown, Cpu(1), 20)] == [20, 8]
    assert process_lines(shown, Cpu(3), 200) == []


def test_the_page_of_an_explanation_has_the_whole_command_line() -> None:
    command = "testpmd " + "-l 1 " * 40
    facts = ProcessFacts(4711, Cpu(1), command.strip(), "dpdk", "/nf.slice", -5, None)
    shown = replace(frame(4), processes=(facts,))
    assert process_texts(shown, Cpu(1)) == [f"pid 4711 dpdk nice -5 /nf.slice: {command.strip()}"]
    row = [info.cpu for info in shown.cpus.topology.cpus].index(Cpu(1))
    lines = explain_lines(shown, row, cpu_metric("cpp"), 60)
    assert sum(item.text.count("-l 1") for item in lines) == 40
