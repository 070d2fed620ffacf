"""The command line as a contract."""

from __future__ import annotations

import argparse
import errno
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.cli.commands import doctor
from nftop.model.check import Check
from nftop.model.error_text import exhausted
from nftop.model.missing import Reason
from nftop.model.topology import Host
from nftop.render.base.text import ascii_only as in_ascii
from nftop.render.base.text import printable
from nftop.render.pages.explain import near_names
from nftop.sources.runtime.readiness import wait_readable
from tests.command import NFTOP, PATIENCE_S, called, nftop, python
from tests.waiting import until


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-d", "0"], "between 0.1 and 3600"),
        (["-d", "nan"], "between 0.1 and 3600"),
        (["-d", "x"], "not a number of seconds"),
        (["-n", "0"], "not a number of frames"),
        (["--cpu-list", "3-1"], "runs backwards"),
        (["--cpu-list", ""], "names no CPU"),
        (["--cpu-list", "4095", "--batch"], "no CPU 4095"),
        (["--quiet-cpus", "4095", "--batch"], "no CPU 4095"),
        (["--tma-level", "3"], "invalid choice"),
        (["--queue-map", "nonsense"], "PREFIX:(port,queue,lcore)"),
        (["--json", "--csv"], "not allowed with"),
        (["--batch", "frobnicate"], "invalid choice"),
        (["explain", "nonsense"], "no metric or finding is called 'nonsense'"),
        (["explain", "ddio_hit"], "did you mean pcie.ddio_hit_ratio"),
        (["explain", "low_ipc"], "did you mean low-ipc"),
        (["demo", "--cpus", "1"], "2 to 512 CPUs, not 1"),
        (["demo", "--cpus", "x"], "'x' is not a number of CPUs"),
        (["demo", "--host-name", ".x"], "'.x' is not a name of up to 64 letters"),
        (["demo", "--host-name", "x" * 65], "is not a name of up to 64 letters"),
        (["demo", "--host-name", "a;reboot"], "'a;reboot' is not a name"),
        (["demo", "--host-name", ""], "'' is not a name"),
        (["--host-name=x"], "unrecognized arguments: --host-name=x"),
        (["demo", "--cpus", "513", "doctor"], "2 to 512 CPUs, not 513"),
        (["demo", "--scenario", "x"], "no scenario is called 'x'; there are apart, burst"),
        (["demo", "--cpu-list", "88", "-n", "1"], "this host has no CPU 88"),
        (["demo", "demo"], "invalid choice: 'demo'"),
        (["demo", "tma", "--uarch", "SKX", "-"], "invalid choice: 'tma'"),
        (["demo", "--frobnicate"], "unrecognized arguments: --frobnicate"),
        (["--frobnicate"], "unrecognized arguments: --frobnicate"),
        (["--scenario=noisy"], "unrecognized arguments: --scenario=noisy"),
        (["serve", "--port", "1"], "nftop serve --help lists the options"),
        (["sst", "show", "--x"], "nftop sst show --help lists the options"),
        (["demo", "undo", "1"], "nftop demo undo --help lists the options"),
        (["cat"], "the following arguments are required: COMMAND"),
        (["cat", "set"], "the following arguments are required: --group"),
        (["cat", "set", "--group", "a", "--l3", "3f0"], "'3f0' is not ID=MASK"),
        (["cat", "set", "--group", "a", "--l3", "0=xyz"], "'0=xyz' is not ID=MASK"),
        (["cat", "set", "--group", "a", "--mba", "0=3f"], "'0=3f' is not ID=N"),
        (["cat", "set", "--group", "a", "--yes", "--dry-run"], "not allowed with"),
        (["cat", "set", "--group", "a", "--keep-within", "0"], "between 1 and 3600"),
        (["cat", "move", "--group", "a"], "one of the arguments --cpus --tasks is required"),
        (["cat", "move", "--group", "a", "--tasks", "-1"], "'-1' is not PID,..."),
        (["cat", "move", "--group", "a", "--tasks", "x"], "'x' is not PID,..."),
        (["cat", "move", "--group", "a", "--cpus", "3-1"], "runs backwards"),
    ],
)
def test_usage_errors_are_two_and_a_sentence(arguments: list[str], sentence: str) -> None:
    done = called(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    # Without the options of the command, which would be more than the message.
    alone = "are required: COMMAND" in sentence
    assert alone or len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["cat"], ("show", "set", "sweep", "footprint", "try")),
        (["cat", "io"], ("enable", "disable")),
        (["sst"], ("pin", "release")),
    ],
)
def test_a_command_without_its_command_lists_them(
    arguments: list[str], names: Sequence[str]
) -> None:
    done = called(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    listed = [words[0] for words in map(str.split, done.stderr.splitlines()) if words]
    assert set(names) <= set(listed)


def test_json_frames() -> None:
    done = nftop("--batch", "-n", "4", "-d", "0.25", "--json")
    assert done.returncode == 0, done.stderr
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(frames) == 4
    assert done.stderr == ""
    first, second, *_ = frames
    assert first["time"] < second["time"]
    # How long it really was; a tick that came late is followed by a short one.
    assert first["interval_s"] > 0
    assert first["sources"].keys() >= {"perf", "kernel", "processes", "dpdk"}
    assert first["sources"]["kernel"]["state"] == "ok"
    assert any(
        all(isinstance(row["cpu_time_ratio"], float) for row in frame["cpus"] if row["online"])
        for frame in frames
    )


def test_a_cpu_list_chooses_rows_and_nothing_else() -> None:
    done = nftop("--batch", "-n", "1", "-d", "0.2", "--json", "--cpu-list", "0")
    frame = json.loads(done.stdout)
    assert [row["cpu"] for row in frame["cpus"]] == [0]
    assert frame["host"]["cpus"] == os.cpu_count()


def test_text_without_terminal() -> None:
    done = nftop("-n", "1", "-d", "0.2")
    assert done.returncode == 0
    assert "CPU" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_pipe_that_closes_early_is_quiet() -> None:
    with subprocess.Popen(
        [*NFTOP, "--batch", "-d", "0.1", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=PATIENCE_S) == 128 + signal.SIGPIPE
        assert process.stderr.read() == b""


def catches_hangups(pid: int) -> bool:
    """Whether its handlers are set, after which it waits for its first deadline."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(line for line in status if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGHUP - 1) & 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_end_it_in_order(number: signal.Signals) -> None:
    with subprocess.Popen(
        [*NFTOP, "--batch", "-d", "30", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    ) as process:
        assert process.stderr is not None
        until(lambda: catches_hangups(process.pid))
        process.send_signal(number)
        assert process.wait(timeout=PATIENCE_S) == 128 + number
        assert process.stderr.read() == b""


# Sends itself a Ctrl-C when a module is first imported, or a source is asked what it sees.
_INTERRUPTED = """
import importlib.abc, os, signal, sys

moment = sys.argv.pop(1)

def interrupt(*_):
    os.kill(os.getpid(), signal.SIGINT)

class When(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name == moment:
            interrupt()

sys.meta_path.insert(0, When())
from nftop.__main__ import main
if moment == "examining":
    from nftop.sources.host.cpu_time import KernelSource
    KernelSource.check = interrupt
elif moment == "leaving":
    import atexit
    atexit.register(interrupt)
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("moment", "arguments"),
    [
        ("nftop.cli.main", ["doctor"]),
        ("numpy", ["doctor"]),
        ("nftop.cli.commands.doctor", ["doctor"]),
        ("examining", ["doctor"]),
        ("nftop.export.batch", ["--batch", "-n", "1"]),
        ("nftop.sources.simulated", ["demo", "--batch", "-n", "1"]),
    ],
)
def test_ctrl_c_at_any_moment_is_no_traceback(moment: str, arguments: list[str]) -> None:
    done = python(_INTERRUPTED, moment, *arguments)
    assert (done.returncode, done.stderr, done.stdout) == (128 + signal.SIGINT, "", "")


def test_ctrl_c_while_python_clears_up_is_no_traceback() -> None:
    done = python(_INTERRUPTED, "leaving", "explain", "cpp")
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


@pytest.mark.real
def test_with_standard_input_closed_no_screen_is_drawn() -> None:
    master, slave = pty.openpty()
    command = " ".join([*NFTOP, "demo", "--cpus", "2", "-d", "0.1", "<&-"])
    shown = b""
    with subprocess.Popen(
        ["sh", "-c", f"exec {command}"],
        stdout=slave,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm-256color"},
        text=True,
    ) as child:
        try:
            while b"SIMULATED" not in shown:
                assert wait_readable([master], PATIENCE_S), child.poll()
                shown += os.read(master, 65536)
        finally:
            child.terminate()
            os.close(master)
            os.close(slave)
        assert child.stderr is not None
        assert "Traceback" not in child.stderr.read()
    assert b"\x1b" not in shown


def test_a_full_disk_is_a_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*NFTOP, "--batch", "-n", "1", "-d", "0.1", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["doctor"], ["explain", "--all"], ["--help"], ["--version"], ["demo", "--help"],
        ["record", "--help"], ["config", "--show"], ["tma", "--uarch", "SPR", "--events"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_output_that_cannot_be_written_is_a_sentence(arguments: list[str]) -> None:
    command = " ".join([*NFTOP, *arguments])
    for redirected, sentence in ((">/dev/full", "No space left"), (">&-", "closed")):
        done = subprocess.run(
            ["sh", "-c", f"{command} {redirected}"],
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 1
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("what", "arguments"),
    [
        ("sources.host.cpu_time.KernelSource.close", ["--batch", "-n", "1", "-d", "0.1"]),
        ("cli.compose.hosts.read_topology", ["doctor"]),
        ("cli.compose.hosts.read_topology", ["-n", "1"]),
    ],
)
def test_what_fails_on_the_host_is_no_write_error(
    what: str, arguments: list[str], snapshot: SnapshotAssertion
) -> None:
    owner, name = f"nftop.{what}".rsplit(".", 1)
    code = (
        "import pkgutil, sys\nfrom nftop.__main__ import main\n"
        "def fail(*_):\n    raise BrokenPipeError(32, 'it broke', '/sys/devices')\n"
        f"setattr(pkgutil.resolve_name('{owner}'), '{name}', fail)\n"
        "sys.exit(main())\n"
    )
    done = python(code, *arguments)
    assert done.returncode == 1
    assert done.stderr == snapshot
    assert "write" not in done.stderr
    assert "Traceback" not in done.stderr


def test_standard_error_that_is_closed_does_not_move_to_standard_output() -> None:
    command = " ".join([*NFTOP, "demo", "-n", "1", "-d", "0.1", "--cpu-list", "999", "2>&-"])
    done = subprocess.run(
        ["sh", "-c", command], stdout=subprocess.PIPE, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout) == (2, b"")


def test_doctor_text_and_json_agree() -> None:
    """Of one examination: other tests' processes begin and end, some with a long name."""
    examine, answers = doctor.examine_host, list[tuple[tuple[Check, ...], Host]]()
    long = Check(f"dpdk {'x' * 60}", Reason.SOURCE, "no answer", "sudo nftop")  # a first step

    def examined(options: argparse.Namespace) -> tuple[tuple[Check, ...], Host]:
        if not answers:
            checks, host = examine(options)
            answers.append(((*checks, long), host))
        return answers[0]

    with mock.patch.object(doctor, "examine_host", examined):
        done, text = called("doctor", "--json"), in_ascii(called("doctor").stdout)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["schema"] == "nftop.doctor/1"
    assert report["simulated"] is False
    assert sum(report["counts"].values()) == len(report["checks"])
    assert report["first"]["name"] in text
    names = [check["name"] for check in report["checks"]]
    assert "topology" in names and any(name.startswith("perf") for name in names)
    assert long.name in names
    assert [name for name in names if in_ascii(printable(name)) not in text] == []


def explained(*arguments: str) -> str:
    done = called("explain", *arguments)
    assert done.returncode == 0
    return done.stdout


def test_explain(snapshot: SnapshotAssertion) -> None:
    cpp = explained("cpp")
    assert "per CPU" in cpp and "per network function" in cpp
    assert "equation 5" in cpp
    assert explained("CPP") == cpp
    assert explained("cpp", "low-ipc") == f"{cpp.rstrip()}\n\n{explained('low-ipc')}"
    done = called("explain", "cpp", "nosuch")
    assert (done.returncode, done.stdout) == (2, "") and "nosuch" in done.stderr
    # A node of the tree, by the name it has there.
    for wrong, least in (("nosuch", 0), ("frontend_bond", 2), ("\x1b[2J", 0)):
        done = called("explain", wrong)
        assert (done.returncode, done.stdout) == (2, "")
        (line,) = done.stderr.splitlines()
        assert "\x1b" not in line
        assert len(near_names(wrong)) >= least and all(name in line for name in near_names(wrong))
    node = explained("L1_Bound")
    assert node == snapshot
    assert "busy_ratio" in explained().splitlines()
    everything = explained("--all")
    assert cpp.strip() in everything
    assert "busy_ratio" in everything


def test_explain_by_the_tables_of_cpus(snapshot: SnapshotAssertion) -> None:
    skx, icx = (explained("PCI.wr", "--uarch", name) for name in ("skx", "all"))
    assert "= 64 * (itom_hit + itom_miss + rfo_hit + rfo_miss)" in skx
    assert "UNC_CHA_TOR_INSERTS.IO_MISS_ITOM" in skx and "filter_opc0=0x248" in skx
    assert "itomcachenear_miss" not in skx and "itomcachenear_miss" in icx
    assert skx.split("of SKX")[1].strip() in icx
    wrong = called("explain", "PCI.wr", "--uarch", "no\x1bsuch")
    assert wrong.returncode == 2
    assert wrong.stderr == snapshot


@pytest.mark.real
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop its privileges")
def test_without_root_it_starts_and_reports_what_it_lacks() -> None:
    # A first run as root imports everything: the interpreter may live where nobody can't read.
    code = (
        "import contextlib, io, os, sys\n"
        "from nftop.__main__ import main\n"
        "sys.argv = ['nftop', '--batch', '-n', '1', '-d', '0.2', '--json']\n"
        "with contextlib.redirect_stdout(io.StringIO()): main()\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "sys.exit(main())\n"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr
    frame = json.loads(done.stdout)
    assert frame["sources"]["perf"]["state"] == "permission"
    assert "perf_event_paranoid" in frame["sources"]["perf"]["detail"]
    row = frame["cpus"][0]
    assert row["missing"]["ipc"] == "permission"
    assert isinstance(row["cpu_time_ratio"], float)


@pytest.mark.parametrize("arguments", ["--help", "explain --all", "demo --batch -n 3 -d 0.1"])
def test_a_reader_that_leaves_ends_it_as_sigpipe_would(arguments: str) -> None:
    command = " ".join([*NFTOP, arguments])
    done = subprocess.run(
        ["bash", "-c", f"{command} | true; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_errors_that_cannot_be_written_change_no_exit_code() -> None:
    for redirected in ("2>/dev/full", "2>&-"):
        done = subprocess.run(
            ["sh", "-c", f"{' '.join(NFTOP)} nosuch {redirected}"],
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"")


LIMITED = """
import resource, sys, threading
kind, limit = sys.argv[1], int(sys.argv[2])
if kind == "memory":
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
else:  # as under RLIMIT_NPROC, which root is exempt from
    start, started = threading.Thread.start, []
    def refused(thread):
        if len(started) >= limit:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)
    threading.Thread.start = refused
sys.argv[1:] = sys.argv[3:]
from nftop.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("limit_mib", [24, 40, 60])
def test_too_little_memory_is_a_sentence(limit_mib: int) -> None:
    done = python(LIMITED, "memory", str(limit_mib << 20), "demo", "--batch", "-n", "1")
    assert done.returncode == 1 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("nftop: ") and "ulimit -v" in line


@pytest.mark.parametrize(
    ("limit", "arguments"),
    [
        (0, ["--batch", "-n", "1", "-d", "0.1"]),
        (0, ["demo", "serve", "--listen", "127.0.0.1:0"]),
        (0, ["demo", "record", "-o", "-"]),
    ],
)
def test_too_few_threads_are_a_sentence(limit: int, arguments: list[str]) -> None:
    done = python(LIMITED, "threads", str(limit), *arguments)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("nftop: ")


def test_two_threads_more_are_enough_for_a_batch() -> None:
    # One for what may block, one for signals.
    done = python(LIMITED, "threads", "2", "demo", "--batch", "-n", "2", "-d", "0.1")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 6])
def test_a_screen_without_its_threads_is_a_sentence(limit: int) -> None:
    master, slave = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", LIMITED, "threads", str(limit), "demo"],
            stdin=slave,
            stdout=slave,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            env={**os.environ, "TERM": "xterm"},
            check=False,
        )
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert line.startswith("nftop: ") and "ulimit -u" in line
    finally:
        os.close(master)
        os.close(slave)


def test_exhausted_limits_are_distinguished_from_other_errors() -> None:
    assert "memory" in exhausted(MemoryError())
    assert "thread" in exhausted(RuntimeError("can't start new thread"))
    assert "process" in exhausted(BlockingIOError(errno.EAGAIN, "x"))
    assert "memory" in exhausted(ImportError("x.so: failed to map segment from shared object"))
    for other in (RuntimeError("x"), OSError(errno.ENOSPC, "x"), ImportError("no such")):
        assert exhausted(other) == ""


def test_a_traceback_of_nftop_s_own_fault_obeys_no_text_in_it() -> None:
    code = (
        "import sys\nfrom nftop import __main__\nfrom nftop.cli import main\n"
        "def fail(_):\n    raise LookupError('\\x1b]0;owned\\x07\\u202e')\n"
        "main.run = fail\nsys.exit(__main__.main())"
    )
    done = python(code)
    assert done.returncode == 1 and "LookupError: ?]0;owned??" in done.stderr
    assert "\x1b" not in done.stderr and "\u202e" not in done.stderr
