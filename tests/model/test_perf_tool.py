"""Commands of perf for a core: their text, reasons for none, and each run as it is printed."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nftop.model.ids import Cpu
from nftop.model.perf_tool import PerfTask, PerfTool, perf_tasks
from nftop.sources.perf import probe
from nftop.sources.perf.abi import Kernel, PerfEventAttr
from nftop.sources.perf.probe import read_tool
from tests.shell import run_as_root
from tests.sources.trees import put


def _tool(version: tuple[int, int] | None, **others: Any) -> PerfTool:
    whole = PerfTool(
        version, cycles=True, samples="cycles", memory_events=True, processor_trace=True
    )
    return replace(whole, **others)


WHOLE = _tool((6, 1))
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
        ("sudo perf script -i cpu4.data -F comm,pid,tid,cpu,time,event,ip,sym,dso",),
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
        (_tool((6, 1), memory_events=False), {LINES}),
        (_tool((6, 1), processor_trace=False), {TRACE}),
        (_tool((6, 1), samples="cpu-clock"), {LINES}),
        (_tool((6, 1), samples=""), {SAMPLED, SCRIPT, LINES}),
        (_tool((4, 9)), {LINES}),
        (_tool((3, 16)), {LINES, TRACE}),
        (_tool((0, 0)), set()),
    ],
)
def test_what_is_not_possible_has_a_reason(tool: PerfTool, without: set[int]) -> None:
    tasks = of(tool)
    assert {at for at, task in enumerate(tasks) if not task.commands} == without
    assert all(bool(task.why) != bool(task.commands) for task in tasks)


def test_without_perf_the_reason_is_one() -> None:
    (task,) = of(_tool(None))
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


@pytest.mark.parametrize(
    ("refused", "samples"), [(set(), "cycles"), ({0}, "cpu-clock"), ({0, 1}, "")]
)
@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.ENOENT])
def test_the_kernel_knows_what_can_be_sampled(
    tmp_path: Path, refused: Collection[int], samples: str, code: int
) -> None:
    opened: list[tuple[int, int, int, int]] = []
    put(tmp_path / "sys/bus/event_source/devices", {"cpu/type": "4"})

    def open_event(attr: PerfEventAttr, cpu: int, leader: int) -> int:
        opened.append((attr.sample_period, attr.flags, cpu, leader))
        if attr.type in refused:
            raise OSError(code, "")
        if attr.type == 1:
            raise OSError(errno.EACCES, "")  # for this user, not for sudo
        return 7

    closed: list[int] = []
    kernel = Kernel(open_event, lambda _: None, lambda _: None, lambda *_: 0, closed.append)
    assert read_tool(tmp_path, kernel).samples == samples
    assert closed == [7] * (samples == "cycles")
    # Of this thread, disabled, and by no frequency.
    assert opened and all(item == (1 << 40, 1, -1, -1) for item in opened)


needs_perf = pytest.mark.skipif(
    shutil.which("perf") is None or os.geteuid() != 0, reason="needs perf, and root to sample a CPU"
)


@needs_perf
def test_commands_are_run_as_printed(tmp_path: Path) -> None:
    """On a CPU with a busy process: every sample is of that CPU, and the process is seen."""
    tool = read_tool()
    assert tool.version is not None and tool.version > (4, 10)
    cpu = Cpu(min(os.sched_getaffinity(0)))
    with _busy(cpu) as pid:
        ran = {}
        for task in perf_tasks(cpu, (cpu,), tool):
            assert bool(task.commands) != bool(task.why)
            for command in task.commands:
                done = _run(command, tmp_path)
                assert done.returncode == 0, (command, done.stderr)
                ran[command.split()[2]] = done
    assert ran.keys() >= {"stat", "record", "report", "script"}, "a timer samples everywhere"
    assert re.search(r"^ +[\d,.]+ +(msec )?(task-clock|cycles)", ran["stat"].stderr, re.MULTILINE)
    assert _NAME in ran["report"].stdout and tool.samples in ran["report"].stdout
    heads = re.findall(
        r"^(\S.*?) +\d+/(\d+) +\[(\d+)\] +[\d.]+: +(\S+):", ran["script"].stdout, re.MULTILINE
    )
    assert len(heads) > 100
    assert {int(where) for _, _, where, _ in heads} == {cpu}
    assert {event.partition(":")[0] for *_, event in heads} == {tool.samples}
    assert (_NAME, str(pid)) in {(comm.strip(), tid) for comm, tid, _, _ in heads}


@needs_perf
def test_perf_refuses_what_nftop_does_not_offer(tmp_path: Path) -> None:
    """The commands of a host that has all, where this one lacks something."""
    tool, cpu = read_tool(), Cpu(min(os.sched_getaffinity(0)))
    for here, all_ in zip(perf_tasks(cpu, (), tool), perf_tasks(cpu, (), WHOLE), strict=True):
        if here.why:
            assert _run(all_.commands[0], tmp_path).returncode != 0, here


@needs_perf
def test_perf_takes_the_fields_and_options_of_commands_that_need_other_hardware(
    tmp_path: Path,
) -> None:
    """Reports of c2c and of Processor Trace, as printed but for the file: a timer's samples."""
    cpu = Cpu(min(os.sched_getaffinity(0)))
    sampled = _run(f"sudo perf record -C {cpu} -e cpu-clock -o own.data -- sleep 0.2", tmp_path)
    assert sampled.returncode == 0, sampled.stderr
    tasks = perf_tasks(cpu, (), WHOLE)
    for task in (tasks[LINES], tasks[TRACE]):
        command = re.sub(r"-i \S+", "-i own.data", task.commands[1])
        done = _run(command, tmp_path)
        assert done.returncode == 0 and "rror" not in done.stderr, (command, done.stderr)
    assert _run("sudo perf script -i own.data -F nonsense", tmp_path).returncode != 0


_NAME = "busy-here"


@contextmanager
def _busy(cpu: Cpu) -> Iterator[int]:
    """A process of the name `_NAME` that keeps a CPU busy."""
    script = f"import os, pathlib; os.sched_setaffinity(0, {{{cpu}}})\n"
    script += f"pathlib.Path('/proc/self/comm').write_text('{_NAME}'); print(flush=True)\n"
    with subprocess.Popen(
        [sys.executable, "-I", "-c", f"{script}while True: pass"], stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process.pid
        finally:
            process.kill()


def _run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return run_as_root(f"cd {shlex.quote(str(folder))} && {command}", folder / "bin")
