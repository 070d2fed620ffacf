"""`nftop --pcm URL`, as a user runs it."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from nftop.cli.compose import hosts
from nftop.sources.pcm.source import PcmSource
from tests.command import nftop
from tests.peers.pcm_server import pcm_server


def test_frames_of_another_host_are_its_servers_alone() -> None:
    with pcm_server() as peer:
        url = f"http://127.0.0.1:{peer.port}"
        done = nftop("--pcm", url, "-n", "2", "-d", "0.3", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    for line in done.stdout.splitlines():
        frame = json.loads(line)
        assert frame["host"]["remote"] == url and frame["host"]["packages"] == 2
        assert set(frame["sources"]) == {"pcm", "topology", "self"}
        assert frame["packages"][1]["power_w"] == pytest.approx(126.3107, abs=1e-3)
        assert frame["packages"][1]["origins"]["power_w"] == "pcm"
        assert len(frame["cpus"]) == 16
        cpu = frame["cpus"][0]
        assert cpu["frequency_hz"] == 2803311399.781 and cpu["siblings"] == [8]
        assert cpu["missing"]["tma.memory_bound"] == "hardware"
        assert {"ipc", "c0_ratio"} <= cpu["origins"].keys()
    assert all(item == "GET /persecond/1" for item in peer.requested)


def test_every_form_reports_that_it_is_another_host() -> None:
    with pcm_server("skx_202302") as peer:
        url = f"http://127.0.0.1:{peer.port}"
        text = nftop("--pcm", url, "-n", "1", "-d", "0.2")
        rows = nftop("--pcm", url, "-n", "1", "-d", "0.2", "--csv", "--cpu-list", "3")
        doctor = nftop("--pcm", url, "doctor")
        report = nftop("--pcm", url, "--json", "doctor")
    assert " REMOTE " in text.stdout.splitlines()[1]
    (row,) = csv.DictReader(io.StringIO(rows.stdout))
    assert (row["remote"], row["cpu"]) == ("True", "3") and float(row["l3_hit_ratio"]) > 0
    assert doctor.stdout.startswith("REMOTE: ") and "16 CPUs" in doctor.stdout
    assert json.loads(report.stdout)["remote"] == url


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--pcm", "https://edge-07"], 2, "ssh tunnel"),
        (["--pcm", "http://\x1b[2J"], 2, "names no host|Invalid"),
        (["--pcm", "http://127.0.0.1:1"], 1, "no pcm-sensor-server listens"),
        (["demo", "--pcm", "http://x"], 2, "nftop demo: error"),
        (["--pcm", "http://127.0.0.1:1", "cat", "reset"], 2, "--pcm only shows"),
        (["--pcm", "http://127.0.0.1:1", "undo"], 2, "--pcm only shows"),
    ],
)
def test_what_can_not_be_is_a_sentence(arguments: list[str], code: int, words: str) -> None:
    done = nftop(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert re.search(words, done.stderr) and "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr


def test_a_cpu_that_the_other_host_does_not_have() -> None:
    with pcm_server() as peer:
        url = f"http://127.0.0.1:{peer.port}"
        done = nftop("--pcm", url, "-n", "1", "--cpu-list", "16")
    assert done.returncode == 2 and "no CPU 16" in done.stderr


def test_this_hosts_own_server_is_searched_on_loopback() -> None:
    here = hosts.open_host()
    (server,) = [source for source in here.sources if isinstance(source, PcmSource)]
    assert server.address.shown == "127.0.0.1:9738"
    assert here.host.remote == ""
