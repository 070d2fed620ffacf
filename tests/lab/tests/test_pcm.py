"""Debian's pcm-sensor-server, unmodified on disk, inside: its counts are the model's.

It asks CPUID, MSRs and perf, for cores and, as it is told to, for memory controllers and links too.
What it can't have here: the lab's TSC, which it reads by an instruction, so that the clock it tells
is the real CPU's; temperatures, of which the model knows nothing and whose MSRs are not there; PCI
configuration space, which it needs without perf; and events that the lab does not know, its cache
hits and misses among them, which count 0.
"""

from __future__ import annotations

import shutil
import sys
import textwrap

import pytest

from nftop.sim import scenario
from nftop.sim.model import model_of
from nftop.sim.workloads import INDEX
from tests.lab.tests.labs import answer, needs_lab

pytestmark = [
    needs_lab,
    pytest.mark.skipif(
        shutil.which("pcm-sensor-server", path="/usr/sbin:/usr/local/sbin") is None,
        reason="no pcm-sensor-server here: apt-get install pcm",
    ),
]
S = 10**9
CPUS = 16
_PROGRAM = f"""
    import re, subprocess, time, urllib.request
    from tests.ports import free_port
    def clock(text):
        with open("/sys/fs/lab/live/ctl/clock", "w") as file:
            file.write(text)
    port = free_port()
    url = f"http://127.0.0.1:{{port}}"
    told = {{"PCM_NO_RDT": "1", "PCM_KEEP_NMI_WATCHDOG": "1", "PCM_USE_UNCORE_PERF": "1"}}
    run = ["pcm-sensor-server", "-p", str(port)]
    path = "/usr/sbin:/usr/local/sbin:" + os.environ["PATH"]
    server = subprocess.Popen(
        run, env={{**os.environ, **told, "PATH": path}}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
    )
    def get():
        asked = urllib.request.Request(url, headers={{"Accept": "application/json"}})
        while True:
            try:
                with urllib.request.urlopen(asked, timeout=180) as said:
                    # Of a clock that stands it makes ratios of nothing.
                    return json.loads(re.sub(r": -?(nan|inf)\\b", ": null", said.read().decode()))
            except OSError:
                assert server.poll() is None, "it has ended"
                time.sleep(0.2)
    def counts():
        threads, memory = {{}}, []
        for package in get()["Sockets"]:
            own = package["Uncore"]["Uncore Counters"]
            memory.append([own["DRAM Reads"], own["DRAM Writes"]])
            for core in package["Cores"]:
                for each in core["Threads"]:
                    own = each["Core Counters"]
                    threads[each["OS ID"]] = [
                        own["Instructions Retired Any"], own["Clock Unhalted Thread"]
                    ]
        return [threads, memory]
    def settled(unlike):
        # It samples by itself once a second: twice the same is after whatever was last.
        before = counts()
        while (now := counts()) != before or now == unlike:
            before = now
            time.sleep(0.3)
        return now
    first = settled(None)
    clock("step 10")
    second = settled(first)
    clock("run")
    frames = subprocess.run(
        [{sys.executable!r}, "-m", "nftop", "--pcm", url, "--batch", "--json", "-n", "3"],
        stdout=subprocess.PIPE, text=True,
    ).stdout
    server.terminate()
    server.wait()
    print(json.dumps([first, second, [json.loads(line) for line in frames.splitlines()]]))
    """


def test_what_the_server_counts_is_what_the_model_does_and_nftop_shows_it() -> None:
    first, second, frames = answer(
        textwrap.dedent(_PROGRAM), "--model", "skx-4", "--cpus", str(CPUS), "--freeze", "60"
    )
    model = model_of(scenario.load("default"), CPUS)
    moved = model.exact(70 * S) - model.exact(60 * S)
    for cpu in range(CPUS):
        counted = [
            after - before
            for before, after in zip(first[0][str(cpu)], second[0][str(cpu)], strict=True)
        ]
        expected = [moved[cpu, INDEX[name]] for name in ("instructions", "cycles")]
        assert counted == pytest.approx(expected, rel=1e-3), cpu
    for package, info in enumerate(model.layout.topology.l3):
        lines = moved[list(info.cpus)]
        for column, name in enumerate(("cas_reads", "cas_writes")):
            counted = second[1][package][column] - first[1][package][column]
            assert counted == pytest.approx(lines[:, INDEX[name]].sum() * 64, rel=0.02)
    last = frames[-1]
    assert last["sources"]["pcm"]["state"] == "ok"
    assert len(last["cpus"]) == CPUS
    ratios = moved[:, INDEX["instructions"]] / moved[:, INDEX["cycles"]]
    assert [row["ipc"] for row in last["cpus"]] == pytest.approx(ratios.tolist(), rel=0.1)
    assert all(row["origins"]["power_w"] == "pcm" for row in last["packages"])
