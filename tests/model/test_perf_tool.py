"""Commands of perf for a core: their text, reasons for none, and each run as it is printed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from nftop.model.ids import Cpu
from nftop.model.perf_tool import PerfTask, PerfTool, perf_tasks
from nftop.sources.perf import probe
from nftop.sources.perf.probe import read_tool
from tests.sources.trees import put

WHOLE = PerfTool((6, 1), cycles=True, memory_events=True, processor_trace=True)
COUNTED, SAMPLED, SCRIPT, LINES, TRACE = range(5)


def of(tool: PerfTool) -> tuple[PerfTask, ...]:
    return perf_tasks(Cpu(4), (Cpu(4), Cpu(5), Cpu(7)), tool)


def test_a_core_has_five_tasks() -> None:
    assert [task.commands for task in of(WHOLE)] == [
        ("sudo perf stat -C 4 -e cycles,instructions,ref-cycles,cache-misses -- sleep 5",),
        (
            "sudo perf record -C 4 -F 999 -e cycles -g -o cpu4.data -- sleep 5",
            "sudo perf report -i cpu4.data --stdio",
        ),
        ("sudo perf script -i cpu4.data -F comm,tid,cpu,time,event,ip,sym",),
        (
            "sudo perf c2c record -- -C 4-5,7 -o cpu4-c2c.data sleep 5",
            "sudo perf c2c report -i cpu4-c2c.data --stdio",
        ),
        (
            "sudo perf record -C 4 -e intel_pt// -o cpu4-pt.data -- sleep 0.1",
            "sudo perf script -i cpu4-pt.data --itrace=i1us -F comm,tid,cpu,time,ip,sym",
        ),
    ]


@pytest.mark.parametrize(
    ("tool", "without"),
    [
        (PerfTool((6, 1), cycles=True, memory_events=False, processor_trace=True), {LINES}),
        (PerfTool((6, 1), cycles=True, memory_events=True, processor_trace=False), {TRACE}),
        (PerfTool((4, 9), cycles=True, memory_events=True, processor_trace=True), {LINES}),
        (PerfTool((3, 16), cycles=True, memory_events=True, processor_trace=True), {LINES, TRACE}),
        (PerfTool((0, 0), cycles=True, memory_events=True, processor_trace=True), set()),
    ],
)
def test_what_is_not_possible_has_a_reason(tool: PerfTool, without: set[int]) -> None:
    tasks = of(tool)
    assert {at for at, task in enumerate(tasks) if not task.commands} == without
    assert all(bool(task.why) != bool(task.commands) for task in tasks)


def test_without_perf_the_reason_is_one() -> None:
    (task,) = of(PerfTool(None, cycles=True, memory_events=True, processor_trace=True))
    assert not task.commands and "linux-perf" in task.why


@pytest.mark.parametrize(
    ("script", "version", "fault"),
    [
        ("echo perf version 6.1.90", (6, 1), ""),
        ("echo no such format", (0, 0), ""),
        ("echo 'E: linux-perf-7.1 is not installed.' >&2; exit 2", (0, 0), "linux-perf-7.1"),
        ("kill -9 $$", (0, 0), "-9"),
    ],
)
def test_a_perf_that_does_not_run_is_no_perf(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    version: tuple[int, int],
    fault: str,
) -> None:
    program = tmp_path / "perf"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(probe, "find", lambda _: program)
    tool = read_tool(tmp_path)
    assert tool.version == version
    assert fault in tool.fault and bool(fault) == bool(tool.fault)
    assert any(task.commands for task in of(tool)) == (not fault)


def test_a_host_is_known_by_its_pmus(tmp_path: Path) -> None:
    devices = tmp_path / "sys/bus/event_source/devices"
    bare = read_tool(tmp_path)
    assert (bare.cycles, bare.memory_events, bare.processor_trace) == (False, False, False)
    put(devices, {"cpu/type": "4", "cpu/events/mem-loads": "event=0xcd", "intel_pt/type": "8"})
    full = read_tool(tmp_path)
    assert (full.cycles, full.memory_events, full.processor_trace) == (True, True, True)


@pytest.mark.skipif(
    shutil.which("perf") is None or os.geteuid() != 0, reason="needs perf, and root to sample a CPU"
)
def test_commands_are_run_as_printed(tmp_path: Path) -> None:
    tool = read_tool()
    assert tool.version is not None and tool.version > (4, 10)
    shim = tmp_path / "bin/sudo"
    shim.parent.mkdir()
    shim.write_text('#!/bin/sh\nexec "$@"\n')
    shim.chmod(0o755)
    cpu = Cpu(min(os.sched_getaffinity(0)))
    ran = 0
    for task in perf_tasks(cpu, (cpu,), tool):
        for command in task.commands:
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                cwd=tmp_path,
                env={**os.environ, "PATH": f"{shim.parent}:{os.environ['PATH']}"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, (command, done.stderr)
            ran += 1
            if "report" in command or "script" in command:
                assert done.stdout.strip(), command
    assert ran >= 4, "sampling by a timer is possible everywhere"
    assert (tmp_path / f"cpu{cpu}.data").stat().st_size > 0
