"""`nftop record` and `nftop replay`, as somebody starts them."""

from __future__ import annotations

import io
import json
import os
import random
import re
import signal
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.cli.commands import record as record_command
from nftop.derive.fold import FoldState
from nftop.export.batch import FORMATS, run_batch
from nftop.model.frame import Frame
from nftop.model.recording_loss import BREAKS_OFF
from nftop.session.finding_recorder import FindingRecorder
from nftop.session.live import Live
from nftop.session.replay import Replay
from nftop.sources.runtime.affinity import Affinity
from nftop.sources.runtime.self_usage import OwnSource
from nftop.sources.simulated import simulated_host
from nftop.store.format.records import Header, Marker
from nftop.store.reading.bytes import FileBytes
from nftop.store.recording.recorder import Recorder
from nftop.store.recording.sink import FileSink
from tests.command import NFTOP, PATIENCE_S, called
from tests.recordings import everything, same, taken, ticks_of
from tests.waiting import until

FAST = ["-d", "0.1", "--cpus", "2"]


def recording(*arguments: str) -> subprocess.Popen[bytes]:
    command = [*NFTOP, "demo", *FAST, "record", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_finishes_the_recording(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "a.nftop"
    with recording("-o", str(file)) as process:
        until(lambda: file.exists() and file.stat().st_size > 6000)
        process.send_signal(number)
        _, printed = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    result, ended, rest = everything(file)
    assert ended and rest is None and ticks_of(result)
    assert re.fullmatch(rb"nftop: \d+ ticks?, 0.0 MB in .*a\.nftop\n", printed), printed
    header = result[0]
    assert isinstance(header, Header) and header.host.simulated
    assert header.command[-2:] == ("-o", str(file)) and header.interval_ns == 100_000_000
    assert {"nftop", "python", "kernel"} == set(header.versions)
    assert ("cpp", "CPP", "cycles", "cpu") in header.catalogue


def test_killed_at_any_moment_all_but_the_last_tick_is_present(tmp_path: Path) -> None:
    rng = random.Random(4)
    for at in range(4):
        file = tmp_path / f"{at}.nftop"
        least = rng.randrange(5000, 12_000)
        with recording("-o", str(file)) as process:
            until(lambda file=file, least=least: file.exists() and file.stat().st_size > least)  # type: ignore[misc]
            process.kill()
            process.communicate(timeout=60)
        result, ended, rest = everything(file)
        numbers = [tick.number for tick in ticks_of(result)]
        assert numbers == list(range(len(numbers))) and numbers and not ended
        assert rest is None or (rest.why == BREAKS_OFF and rest.ticks == 1)


def test_from_one_nftop_to_the_other_through_a_pipe() -> None:
    replay = [*NFTOP, "replay", "-", "--json"]
    with recording("-o", "-") as process:
        assert process.stdout is not None
        with subprocess.Popen(
            replay, stdin=process.stdout, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as reader:
            process.stdout.close()
            assert reader.stdout is not None
            # How many ticks a second has depends on the machine's load: so many are waited for.
            first = [reader.stdout.readline() for _ in range(5)]
            process.send_signal(signal.SIGTERM)
            assert process.stderr is not None
            printed = process.stderr.read()
            rest, complaints = reader.communicate(timeout=PATIENCE_S)
        assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert (reader.returncode, complaints) == (0, b"")
    frames = [json.loads(line) for line in (*first, *rest.splitlines())]
    assert all(frame["simulated"] for frame in frames)
    ticks = re.match(rb"nftop: (\d+) ticks", printed)
    # The first tick has no interval before it, hence no frame.
    assert ticks is not None and len(frames) == int(ticks[1]) - 1


def test_a_reader_may_close_the_pipe() -> None:
    with recording("-o", "-") as process:
        assert process.stdout is not None
        process.stdout.read(6000)
        process.stdout.close()
        assert process.wait(60) == 1
        assert (
            process.stderr is not None
            and b"the reader closed standard output" in process.stderr.read()
        )


def test_frames_of_one_session_are_the_same_live_and_replayed(tmp_path: Path) -> None:
    demo = simulated_host(cpus=4)
    topology = demo.model.layout.topology
    header = Header(1, demo.host, topology, demo.uarch.name, True, 100_000_000)
    recorder = Recorder(header)
    file = tmp_path / "a.nftop"
    recorder.start(FileSink(file))
    live = Live(
        (*demo.sources, OwnSource((), Affinity())),
        FoldState(demo.host, topology, demo.uarch),
        0.1,
        on_pollers=lambda _cpus, _topology: None,
        on_sample=recorder.take,
    )
    seen = []
    with closing(live.frames()) as frames:
        for frame in frames:
            seen.append(frame)
            if len(seen) == 12:
                break
    recorder.close()

    def again() -> Replay:
        data = FileBytes(os.open(file, os.O_RDONLY))
        return Replay(data, paced=False, stays=False, follow=False)

    replayed = list(again().frames())
    assert len(replayed) == 12
    assert all(map(same, seen, replayed))
    lines, out = io.StringIO(), io.StringIO()
    for frame in seen[1:]:
        lines.write(FORMATS["json"].one(frame, 80, "LIVE"))
    run_batch(again(), out, form="json", count=None)
    assert lines.getvalue() == out.getvalue()


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("stored") / "a.nftop"
    file.write_bytes(taken(20, cpus=2, marks=(5,), frame=8).data)
    return file


def test_forms_of_a_replay(stored: Path) -> None:
    text = called("replay", str(stored), "-n", "1")
    assert text.returncode == 0 and "SIMULATED" in text.stdout and "REPLAY" in text.stdout
    assert "LIVE" not in text.stdout
    rows = called("replay", str(stored), "--csv").stdout.splitlines()
    assert len(rows) == 1 + 19 * 2
    lines = called("replay", str(stored), "--json", "--at", "-3s").stdout.splitlines()
    assert len(lines) == 4
    assert lines == called("replay", str(stored), "--json").stdout.splitlines()[-4:]


def test_a_recording_that_breaks_off_is_shown_as_far_as_it_goes(
    stored: Path, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.nftop"
    cut.write_bytes(stored.read_bytes()[:-300])
    done = called("replay", str(cut), "--json")
    assert done.returncode == 0 and len(done.stdout.splitlines()) > 10
    assert re.match(r"nftop: 1 tick lost: .* \(\d+ bytes\)\n", done.stderr)


def test_a_damaged_recording_reports_what_is_lost(stored: Path, tmp_path: Path) -> None:
    spoilt = bytearray(stored.read_bytes())
    spoilt[len(spoilt) // 2] ^= 8
    bad = tmp_path / "bad.nftop"
    bad.write_bytes(spoilt)
    done = called("replay", str(bad), "--json")
    assert done.returncode == 4
    assert re.match(r"nftop: \d ticks lost: .* \(\d+ bytes\)\n", done.stderr)
    assert len(done.stdout.splitlines()) > 10


def test_what_can_not_be_replayed(stored: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no such thing")
    for file, code, printed in (
        (tmp_path / "text", 4, "it is no recording of nftop's"),
        (tmp_path / "none", 1, "No such file or directory"),
        (tmp_path, 1, "it is a folder"),
    ):
        done = called("replay", str(file), "--batch")
        assert (done.returncode, done.stdout) == (code, "")
        assert done.stderr == f"nftop: {file}: {printed}\n"
    for at, printed in (("noon", "HH:MM:SS"), ("+500s", "nothing was recorded at ")):
        done = called("replay", str(stored), "--batch", "--at", at)
        assert (done.returncode, done.stdout) == (2, "") and printed in done.stderr


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["--keep", "3"], "--keep and --keep-size go with"),
        (["-o", "-", "--rotate-time", "1h"], "standard output is one recording"),
        (["--rotate-size", "1M"], "go with -o FILE"),
        (["--duration", "soon"], "no span of time"),
        (["--rotate-size", "12"], "at least 64K"),
        (["-o", "/nonexistent/a.nftop"], "there is no folder /nonexistent"),
        (["--exec", "reboot"], "--exec is refused"),
        (["--on", "drops"], "is not finding or finding=RULE"),
        (["--on", "finding=drops,no-such"], "no rule is called no-such"),
        (["--before", "5m"], "--before and --after go with --on"),
        (["-o", "-", "--on", "finding"], "standard output is one recording"),
        (["-o", "a.nftop", "--on", "finding", "--rotate-time", "1h"], "a file for each finding"),
    ],
)
def test_record_s_usage(arguments: list[str], printed: str) -> None:
    done = called("demo", "record", *arguments)
    assert done.returncode == 2 and printed in done.stderr


def test_waiting_for_a_finding_fails_at_once_if_no_file_can_be_created(tmp_path: Path) -> None:
    done = called("demo", "record", "-o", str(tmp_path), "--on", "finding", "--duration", "9s")
    assert done.returncode == 1 and f"{tmp_path}: Is a directory" in done.stderr
    assert not list(tmp_path.iterdir())


def test_on_a_finding_the_time_before_it_is_recorded(tmp_path: Path) -> None:
    command = [*NFTOP, "demo", "-d", "0.5", "record", "-o", str(tmp_path / "edge.nftop")]
    command += ["--on", "finding", "--before", "60s", "--after", "2s", "--duration", "12s"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.iterdir()
    assert re.fullmatch(r"edge-finding-\d{8}T\d{6}Z\.nftop", file.name)
    assert "1 recording of findings" in done.stderr
    assert re.search(r"; 1 incident, \d+ s before the first", done.stderr)
    items, ended, rest = everything(file)
    named = (
        datetime.strptime(file.stem, "edge-finding-%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    )
    times = [tick.sample.wall_ns / 1e9 for tick in ticks_of(items)]
    assert ended and rest is None and times[0] <= named - 2 and times[-1] >= named + 2


def test_an_existing_file_is_refused(stored: Path) -> None:
    before = stored.read_bytes()
    done = called("demo", "record", "-o", str(stored))
    assert done.returncode == 2 and "exists" in done.stderr
    assert stored.read_bytes() == before


@pytest.mark.parametrize("host", ["demo", "edge-07"])
def test_without_a_name_it_goes_into_the_data_folder(tmp_path: Path, host: str) -> None:
    with mock.patch.dict(os.environ, {"XDG_DATA_HOME": str(tmp_path)}):
        os.environ.pop("SUDO_UID", None)
        named = () if host == "demo" else ("--host-name", host)
        done = called("demo", *FAST, *named, "record", "--duration", "1")
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.glob(f"nftop/recordings/{host}-*Z.nftop")
    result, ended, _ = everything(file)
    (header,) = (item for item in result if isinstance(item, Header))
    assert (header.host.name, header.host.simulated) == (host, True)
    ticks = ticks_of(result)
    lasted_ns = ticks[-1].sample.monotonic_ns - ticks[0].sample.monotonic_ns
    assert ended and lasted_ns >= 1_000_000_000
    assert not [item for item in result if isinstance(item, Marker)]


def test_options_stand_before_the_command_or_behind_it(tmp_path: Path) -> None:
    file = tmp_path / "a.nftop"
    done = called(
        "demo", "record", "-o", str(file), "-d", "0.2", "--cpu-list", "1", "--duration", "1"
    )
    assert done.returncode == 0, done.stderr
    header = everything(file)[0][0]
    assert isinstance(header, Header)
    assert (header.interval_ns, header.cpus) == (200_000_000, (1,))
    (row,) = json.loads(called("replay", str(file), "-n", "1", "--json").stdout)["cpus"]
    assert row["cpu"] == 1


def test_a_recording_is_not_written_to_a_terminal(snapshot: SnapshotAssertion) -> None:
    with mock.patch.object(sys, "stdout", mock.Mock(isatty=lambda: True)):
        names = ("rotate_size", "rotate_time", "keep", "keep_size", "program", "on")
        options = mock.Mock(**dict.fromkeys((*names, "before", "after")))
        options.output = "-"
        assert record_command._wrong_output(options) == snapshot


@pytest.mark.parametrize(("incomplete", "code"), [(1, 1), (0, 128 + signal.SIGTERM)])
def test_an_interruption_does_not_hide_an_incomplete_recording(
    incomplete: int, code: int, tmp_path: Path
) -> None:
    def interrupted(self: FindingRecorder, frame: Frame) -> None:
        self.incomplete = incomplete
        os.kill(os.getpid(), signal.SIGTERM)

    command = ("demo", *FAST, "record", "-o", str(tmp_path / "a.nftop"), "--on", "finding")
    with mock.patch.object(FindingRecorder, "on_frame", interrupted):
        done = called(*command)
    assert done.returncode == code, done.stderr
