"""`nftop record --on finding` of the simulated host, on a clock that is stepped."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from nftop.cli.commands import record as command
from nftop.cli.compose.hosts import OpenHost
from nftop.derive.findings.engine import begun
from nftop.derive.fold import FoldState
from nftop.model.frame import Finding, Focus, Frame
from nftop.model.incident import Incident, Price, Severity
from nftop.model.sample import Sample
from nftop.model.struct import replace
from nftop.sim import scenario as scenarios
from nftop.store.format.records import Marker
from nftop.store.recording.recorder import Recorder
from tests.bench.scenes import SECOND_NS, Clocked
from tests.command import NFTOP, PATIENCE_S, called
from tests.recordings import everything, ticks_of
from tests.waiting import until

# The neighbour of `noisy` begins at these seconds of the session, and ends LASTS_S later.
BEGINS_S = (70, 130, 190)
LASTS_S = 15
TICKS = 232
FLOOD_TICKS = 110  # five recordings of 25 ticks at most, of which three are kept


@dataclass
class SteppedFeed:
    """What `record` needs of a `Live`: `ticks` frames, a second apart, without waiting.

    `incidents`: in place of a frame's own, by its number.
    """

    clocked: Clocked
    on_sample: Callable[[Sample], None]
    on_finding: Callable[[Finding, int, int], None]
    incidents: Callable[[int, Frame], tuple[Incident, ...]]
    ticks: int

    @property
    def state(self) -> FoldState:
        return self.clocked.state

    def set_focus(self, focus: Focus) -> None:
        """Nothing is counted on demand."""

    def stop(self) -> None:
        """It ends by itself."""

    def frames(self) -> Generator[Frame, None, None]:
        findings: tuple[Finding, ...] = ()
        for number in range(self.ticks):
            sample = self.clocked.sample()
            self.on_sample(sample)
            frame = self.clocked.fold(sample)
            for item in begun(findings, frame.findings):
                self.on_finding(item, frame.wall_ns, frame.monotonic_ns)
            findings = frame.findings
            yield replace(frame, incidents=self.incidents(number, frame))


@contextmanager
def stepped(
    cpus: int, incidents: Callable[[int, Frame], tuple[Incident, ...]], ticks: int
) -> Iterator[Clocked]:
    """`nftop demo record` of `noisy` with a neighbour that comes and goes."""
    noisy = scenarios.load("noisy")
    (begins,) = noisy.steps
    calm = dict.fromkeys(begins.slowed, 1.0)
    ends = replace(begins, load={"neighbour": 0.02}, slowed=calm)
    steps = [
        replace(step, at_s=float(at_s + later_s))
        for at_s in BEGINS_S
        for step, later_s in ((begins, 0), (ends, LASTS_S))
    ]
    with mock.patch.object(scenarios, "load", lambda *_: replace(noisy, steps=tuple(steps))):
        clocked = Clocked(cpus, scenario="noisy")
    host, take = clocked.host, Recorder.take
    opened = OpenHost(
        host.host, host.model.layout.topology, host.sources, host.uarch, lambda *_: None
    )

    def take_and_wait(recorder: Recorder, *arguments: Any) -> None:
        take(recorder, *arguments)
        until(lambda: recorder._waiting == 0)  # in a real session it has a second

    def feed(_: OpenHost, **given: Any) -> SteppedFeed:
        return SteppedFeed(clocked, given["on_sample"], given["on_finding"], incidents, ticks)

    with (
        mock.patch.object(command, "open_requested", lambda _: opened),
        mock.patch.object(OpenHost, "feed", feed),
        mock.patch.object(Recorder, "take", take_and_wait),
    ):
        yield clocked


def own(_: int, frame: Frame) -> tuple[Incident, ...]:
    return frame.incidents


def flood(number: int, _: Frame) -> tuple[Incident, ...]:
    """A new one every second."""
    return (Incident(f"i{number}", Severity.BAD, "x", None, (), Price(), 1),)


def test_three_incidents_leave_three_recordings_that_begin_before_them(tmp_path: Path) -> None:
    harmful: dict[str, int] = {}

    def noted(number: int, frame: Frame) -> tuple[Incident, ...]:
        for item in frame.incidents:
            if item.severity > Severity.INFO:
                harmful.setdefault(item.id, number)
        return frame.incidents

    with stepped(24, noted, TICKS) as clocked:
        began_ns = clocked.now_ns
        done = called(
            "demo",
            "record",
            "-o",
            str(tmp_path / "edge.nftop"),
            "--on",
            "finding",
            "--before",
            "30s",
            "--after",
            "10s",
        )
    assert done.returncode == 0, done.stderr
    assert len(harmful) == 3
    files = sorted(tmp_path.iterdir())
    assert len(files) == 3
    for file, begin_s, first in zip(files, BEGINS_S, harmful.values(), strict=True):
        items, ended, rest = everything(file)
        seconds = [(tick.sample.monotonic_ns - began_ns) // SECOND_NS for tick in ticks_of(items)]
        assert ended and rest is None
        # 30 s before, and as much as its segment of a minute has: before its cause.
        assert first - 90 < seconds[0] <= first - 29 < begin_s
        assert first + 10 <= seconds[-1] < TICKS - 1, (
            "it ends with its finding, not with the session"
        )
        assert seconds == list(range(seconds[0], seconds[-1] + 1))
        assert "noisy-neighbour" in {
            item.detail["rule"] for item in items if isinstance(item, Marker)
        }
        listed = called("replay", str(file), "--list")
        assert listed.returncode == 0 and "finding" in listed.stdout


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A tmpfs of 2 MiB that is full: one file, `fill`."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"can't mount a tmpfs here: {mounted.stderr.decode().strip()}")
    try:
        with suppress(OSError), (folder / "fill").open("wb", buffering=0) as fill:
            while True:
                fill.write(bytes(4096))
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small tmpfs")


@needs_root
def test_a_flood_of_findings_on_a_full_disk_is_reported_once_and_a_failure(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        with stepped(2, flood, FLOOD_TICKS):
            done = called(
                "demo",
                "record",
                "-o",
                str(disk / "a.nftop"),
                "--on",
                "finding",
                "--before",
                "30s",
                "--after",
                "2s",
            )
        assert {item.name for item in disk.iterdir()} == {"fill"}
    assert done.returncode == 1
    *lines, last = done.stderr.splitlines()
    # The file's, and that the next finding tries again; not one for each of them.
    assert len(lines) == 2 and all(os.strerror(errno.ENOSPC) in line for line in lines), lines
    count, _, incomplete = last.removeprefix("nftop: ").partition(" recordings of findings, ")
    assert incomplete == f"{count} incomplete" and 0 < int(count) <= FLOOD_TICKS / 2


def test_a_flood_of_findings_leaves_as_many_files_as_are_kept(tmp_path: Path) -> None:
    """Only of its own files: plain recordings and rotations of that name are the operator's."""
    with stepped(2, flood, 2):
        done = called("demo", "record", "-o", str(tmp_path / "a.nftop"))
    assert done.returncode == 0, done.stderr
    others = {f"a-202601{day:02}T000000Z.nftop" for day in range(1, 6)} | {"a.nftop"}
    for name in others - {"a.nftop"}:
        (tmp_path / name).write_bytes((tmp_path / "a.nftop").read_bytes())
    with stepped(2, flood, FLOOD_TICKS):
        done = called(
            "demo",
            "record",
            "-o",
            str(tmp_path / "a.nftop"),
            "--keep",
            "3",
            "--on",
            "finding",
            "--before",
            "10s",
            "--after",
            "2s",
        )
    assert done.returncode == 0, done.stderr
    names = {item.name for item in tmp_path.iterdir()}
    assert others <= names and len(names - others) == 3
    assert all(re.fullmatch(r"a-finding-\d{8}T\d{6}Z\.nftop", name) for name in names - others)
    # A new finding each second, and a recording ends after 12 times `--after`.
    lines = [line for line in done.stderr.splitlines() if "s before the first" in line]
    assert len(lines) == -(-FLOOD_TICKS // 25)
    gone = [Path(line.split(": ")[1]) for line in done.stderr.splitlines() if "(--keep)" in line]
    assert len(set(gone)) == len(gone) == len(lines) - 3
    assert all(path.parent == tmp_path and path.name not in names for path in gone)


@needs_root
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interruption_on_a_full_disk_is_a_failure(
    number: signal.Signals, tmp_path: Path
) -> None:
    arguments = ["-d", "0.5", "record", "--on", "finding", "--after", "600s"]
    with small_disk(tmp_path / "disk") as disk:
        line = [*NFTOP, "demo", *arguments, "-o", str(disk / "a.nftop")]
        with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            first = process.stderr.readline()
            process.send_signal(number)
            _, rest = process.communicate(timeout=PATIENCE_S)
    assert os.strerror(errno.ENOSPC) in first
    assert process.returncode == 1 and "1 incomplete" in rest
