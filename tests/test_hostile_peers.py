"""Hostile text of a live host: no output stream, and no page for a scraper, has it raw.

The host has a DPDK application whose strings, runtime folder and process name hold what a terminal
obeys or what reorders a line, and the operator's configuration file does, too.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.command import NFTOP, PATIENCE_S
from tests.export.prometheus import read
from tests.peers.dpdk_telemetry import DATA, telemetry_peer
from tests.test_hostile_recordings import UNSAFE
from tests.waiting import until

# ESC and BEL, the C1 forms of CSI and OSC, bidi controls, separators of lines.
HOSTILE = "\x1b[2J\x1b]0;x\x07\x9b31m\x9d\u202e\u2066\u200f\u061c\u2028\u0085\r\n\t\x7f"
MARK = "pwn"  # what stays readable of every hostile string
PREFIX = f"{MARK}{HOSTILE}"
# 15 bytes, the most that the kernel keeps of a name.
COMM = f"{MARK}\x1b[2J\x9b\u202e\n)".encode()
PROCESS = """
import os, pathlib, sys, threading
def work():
    task = pathlib.Path("/proc/thread-self/comm")
    task.write_bytes(b"lcore-worker-1")
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.nice(19)
    named.set()
    while True:
        pass
named = threading.Event()
threading.Thread(target=work, daemon=True).start()
named.wait()
pathlib.Path("/proc/self/comm").write_bytes(bytes.fromhex(sys.argv[1]))
print("named", flush=True)
sys.stdin.read()
"""
BATCH = ("--batch", "-n", "2", "-d", "0.5", "--pqos", "off")


def hostile(value: Any) -> Any:
    """The value with hostile text behind every text, those of keys included."""
    if isinstance(value, str):
        return f"{MARK}{value}{HOSTILE}"
    if isinstance(value, list):
        return [hostile(item) for item in value]
    return value


def hostile_capture(folder: Path) -> str:
    """Path without suffix of a capture whose every name, version and argument is hostile."""
    rows = [json.loads(line) for line in (DATA / "testpmd-24.11.jsonl").read_text().splitlines()]
    rows[0]["greeting"]["version"] = hostile(rows[0]["greeting"]["version"])
    for row in rows[1:]:
        command = row["command"].partition(",")[0]
        value = row["reply"].get(command)
        if command in ("/eal/params", "/eal/app_params"):
            row["reply"][command] = hostile(value)
        elif command == "/":
            value.append(hostile("/command"))
        elif command == "/ethdev/info":
            value["name"] = hostile(value["name"])
            value[hostile("key")] = hostile("value")
        elif command == "/eal/lcore/info":
            value["cpuset"] = [0]  # the other process polls on another CPU
            if value["lcore_id"] == 0:
                value["role"] = hostile(value["role"])
        elif command == "/ethdev/xstats":
            value[hostile("rx_q0_packets")] = 1
    (folder / "capture.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(folder / "capture")


@contextmanager
def hostile_process() -> Iterator[None]:
    """A process with a polling thread named as DPDK's; its own name and arguments are hostile."""
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", PROCESS, COMM.hex(), PREFIX],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdin and process.stdout
        assert process.stdout.readline() == b"named\n"
        yield
        process.stdin.close()


@pytest.fixture(scope="module")
def environ() -> Iterator[Mapping[str, str]]:
    """Environment in which nftop finds the hostile applications."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        runtime = Path(name)
        capture = hostile_capture(runtime)
        stack.enter_context(telemetry_peer(runtime / "dpdk" / PREFIX, capture=capture))
        stack.enter_context(  # its answers are a problem
            telemetry_peer(runtime / "dpdk" / f"{MARK}-broken{HOSTILE}", "other key", capture)
        )
        with telemetry_peer(runtime / "dpdk" / f"{MARK}-gone{HOSTILE}", capture=capture):
            pass  # its socket is left over
        bytes_name = os.fsdecode(f"{MARK}-bytes".encode() + b"\xff\xfe")  # no UTF-8
        stack.enter_context(telemetry_peer(runtime / "dpdk" / bytes_name, capture=capture))
        stack.enter_context(hostile_process())
        yield clean_environ(XDG_RUNTIME_DIR=name)


def clean_environ(**changes: str) -> Mapping[str, str]:
    """This process's environment without what chooses the configuration, and with `changes`."""
    dropped = ("SUDO_UID", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "RUNTIME_DIRECTORY")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {"COLUMNS": "240", "PYTHONUTF8": "1"} | changes


def run(environ: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*NFTOP, *arguments], capture_output=True, timeout=PATIENCE_S, check=False, env=environ
    )


def safe(raw: bytes) -> str:
    """The text of a stream, which holds nothing unsafe."""
    text = raw.decode("utf-8")
    assert UNSAFE.findall(text) == []
    return text


def test_what_is_hostile_here_is_what_the_tests_search_for() -> None:
    assert "".join(UNSAFE.findall(HOSTILE)) == re.sub(r"[\[\]0-9;xJm\n]", "", HOSTILE)
    assert len(COMM) <= 15


@pytest.mark.parametrize(
    ("arguments", "codes"),
    [
        (BATCH, {0}),
        ((*BATCH, "--json"), {0}),
        ((*BATCH, "--csv"), {0}),
        (("doctor",), {0, 1}),
        (("doctor", "--json"), {0, 1}),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_no_stream_has_hostile_text_of_the_host(
    environ: Mapping[str, str], arguments: tuple[str, ...], codes: set[int]
) -> None:
    done = run(environ, *arguments)
    text = safe(done.stdout)
    safe(done.stderr)
    assert done.returncode in codes, done.stderr
    assert MARK in text
    if "--json" in arguments:
        for line in text.splitlines():
            json.loads(line)


def test_json_of_a_frame_has_it_escaped_and_whole(environ: Mapping[str, str]) -> None:
    done = run(environ, *BATCH, "--json")
    frame = json.loads(safe(done.stdout).splitlines()[-1])
    texts = set(_texts(frame))
    starts = (PREFIX, COMM.decode(), hostile("net_null0"), f"{MARK}-bytes\\xff\\xfe")
    missing = [start for start in starts if not any(start in text for text in texts)]
    assert missing == [], [text for text in texts if MARK in text]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from (key, *_texts(inner))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


@pytest.mark.parametrize("accept", ["application/openmetrics-text; version=1.0.0", "text/plain"])
def test_a_scraper_gets_no_hostile_text(environ: Mapping[str, str], accept: str) -> None:
    server = subprocess.Popen(
        [*NFTOP, "-d", "0.5", "--pqos", "off", "serve", "--listen", "127.0.0.1:0"],
        stderr=subprocess.PIPE,
        env=environ,
    )
    with server:
        try:
            assert server.stderr is not None
            line = safe(server.stderr.readline())
            (port,) = re.findall(r"127\.0\.0\.1:([0-9]+)/metrics", line)
            pages: list[str] = []

            def has_applications() -> bool:
                pages.append(safe(scraped(int(port), accept)))
                return f'nf="{MARK}' in pages[-1]

            until(has_applications)
        finally:
            server.terminate()
        safe(server.stderr.read())
    assert read(pages[-1], openmetrics="openmetrics" in accept)


def scraped(port: int, accept: str) -> bytes:
    """The body of a reply of `nftop serve`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/metrics", headers={"Accept": accept})
        return connection.getresponse().read()
    finally:
        connection.close()


# The operator's configuration: as TOML's escapes, and as the characters themselves.
ESCAPED = "".join(f"\\u{ord(char):04x}" for char in HOSTILE)
SETTINGS = {
    "key": f'"{ESCAPED}" = 1',
    "raw key": f'"{HOSTILE}" = 1',
    "bare key": f"a{HOSTILE} = 1",
    "color": f'color = "{ESCAPED}"',
    "cpu_list": f'cpu_list = "{ESCAPED}"',
    "queue_map": f'queue_map = ["{ESCAPED}"]',
    "bidi value": 'pmu = "\u202e\u2066\x9b31m"',
    "no TOML": HOSTILE,
}


@pytest.mark.parametrize("command", [("--batch", "-n", "1"), ("config", "--show"), ("history",)])
@pytest.mark.parametrize("text", list(SETTINGS.values()), ids=list(SETTINGS))
def test_an_error_of_the_configuration_has_no_hostile_text(
    tmp_path: Path, text: str, command: tuple[str, ...]
) -> None:
    """Its file's path is hostile, too."""
    file = tmp_path / PREFIX / "nftop/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text, newline="")
    done = run(clean_environ(XDG_CONFIG_HOME=str(tmp_path / PREFIX)), *command)
    safe(done.stdout)
    assert MARK in safe(done.stderr)
    assert "Traceback" not in safe(done.stderr)
    assert done.returncode == (0 if command == ("history",) else 2)


def test_a_shown_configuration_has_it_escaped_and_whole(tmp_path: Path) -> None:
    """It is TOML in spite of a line feed in its file's path."""
    file = tmp_path / PREFIX / "nftop/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f'queue_map = ["{ESCAPED}\\U000e0001:(0,0,1)"]')
    done = run(clean_environ(XDG_CONFIG_HOME=str(tmp_path / PREFIX)), "config", "--show")
    assert done.returncode == 0, done.stderr
    shown = tomllib.loads(safe(done.stdout))
    assert shown["queue_map"] == [f"{HOSTILE}\U000e0001:(0,0,1)"]
