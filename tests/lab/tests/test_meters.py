"""Energy, C-states and throttling inside: nftop's, Debian's perf's and pcm-sensor-server's."""

from __future__ import annotations

import shutil
import statistics
import sys

import pytest

from nftop.model.uncore import POWER_EVENTS
from nftop.sim import scenario
from nftop.sim.model import Model, model_of
from nftop.sim.power import power_counts
from tests.lab.tests.labs import answer, needs_lab

pytestmark = needs_lab
S = 10**9
CPUS = 8
_CLOCK = """
    import re, subprocess, time
    def clock(text):
        with open("/sys/fs/lab/live/ctl/clock", "w") as file:
            file.write(text)
    def now_ns():
        with open("/sys/fs/lab/live/ctl/now") as file:
            return int(file.read())
"""
_READ = (
    _CLOCK
    + """
    from nftop.sources.power.source import PowerSource
    source = PowerSource(clock_ns=now_ns)
    first = source.read()
    clock("step 5")
    second = source.read()
    print(json.dumps([
        second.event.tolist(), second.packages.tolist(), second.boxes.tolist(),
        (second.values - first.values).tolist(), second.reasons.tolist(),
        (second.enabled_ns - first.enabled_ns).tolist(),
    ]))
    source.close()
"""
)


@pytest.mark.parametrize(("machine", "with_c3"), [("skx-7", True), ("icx", False), ("spr", False)])
def test_what_nftop_reads_is_what_the_model_takes(machine: str, *, with_c3: bool) -> None:
    rows = zip(
        *answer(_READ, "--model", machine, "--cpus", str(CPUS), "--freeze", "60"), strict=True
    )
    model = model_of(scenario.load("default"), CPUS)
    first, last = power_counts(model, 60 * S), power_counts(model, 65 * S)
    seen = set()
    for event, package, box, grown, reason, clock_ns in rows:
        name = POWER_EVENTS[event]
        if name.endswith("c3") and not with_c3:
            assert reason == 2
            continue
        of, at = ("packages", package) if name in last.packages else ("cores", box)
        expected = int(getattr(last, of)[name][at]) - int(getattr(first, of)[name][at])
        assert (reason, abs(grown - expected) <= 2, round(clock_ns / S)) == (0, True, 5), name
        seen.add(name)
    assert seen >= {"energy_pkg", "energy_ram", "package_c6", "core_c6", "core_throttles"}


_HOT = (
    _CLOCK
    + """
    from nftop.sources.power.source import PowerSource
    source = PowerSource(clock_ns=now_ns)
    def counts():
        table, result = source.read(), {}
        for at, event in enumerate(table.event.tolist()):
            name = table.events[event]
            if name.endswith("throttles"):
                number = (table.boxes if name.startswith("core") else table.packages)[at]
                result[f"{name} {number}"] = int(table.values[at])
        return result
    before = counts()
    with open("/sys/fs/lab/live/ctl/throttles", "w") as file:
        file.write("3 40 0")
    with open("/sys/fs/lab/live/ctl/throttles", "w") as file:
        file.write("0 0 7")
    clock("step 4")
    held = counts()
    clock("step 1")
    after = counts()
    (line,) = [check.text for check in source.check() if check.name == "power throttling"]
    source.close()
    print(json.dumps([before, held, after, line]))
    """
)


def test_throttling_of_a_core_and_of_a_package_is_read_every_five_seconds() -> None:
    before, held, after, line = answer(
        _HOT, "--model", "icx", "--cpus", str(CPUS), "--freeze", "60"
    )
    assert set(before.values()) == {0} and len(before) == CPUS + 2
    assert held == before
    assert after == {**before, "core_throttles 3": 40, "package_throttles 0": 7}
    assert "up to 40 times" in line and "cores of CPU 3; package 0" in line


@pytest.mark.skipif(shutil.which("perf") is None, reason="no perf here: apt-get install perf")
def test_perf_stat_sees_the_same_energy_and_residency() -> None:
    program = (
        _CLOCK
        + """
    events = "power/energy-pkg/,power/energy-ram/,cstate_core/c6-residency/"
    clock("run")
    began = now_ns()
    out = subprocess.run(
        ["perf", "stat", "-a", "--per-socket", "-x", ";", "-e", events, "sleep", "2"],
        capture_output=True, text=True,
    ).stderr
    print(json.dumps([out, began, now_ns()]))
    """
    )
    out, began_ns, ended_ns = answer(
        program, "--model", "skx-7", "--cpus", str(CPUS), "--freeze", "60"
    )
    model = model_of(scenario.load("default"), CPUS)
    fields = [line.split(";") for line in out.splitlines() if "energy" in line]
    joules = {(row[0], row[4]): float(row[2]) for row in fields}
    assert {row[3] for row in fields} == {"Joules"} and len(joules) == 4, out
    residencies = (line.split(";") for line in out.splitlines() if "c6-residency" in line)
    clocks = {row[0]: int(row[2]) for row in residencies}
    first, last = (power_counts(model, at_ns) for at_ns in (began_ns, ended_ns))
    passed_s = (ended_ns - began_ns) / S
    for at in (0, 1):
        most = int(last.packages["energy_pkg"][at]) - int(first.packages["energy_pkg"][at])
        measured = joules[f"S{at}", "power/energy-pkg/"]
        assert 1.9 * most / 2**32 / passed_s < measured <= most / 2**32
        # A package has two cores; CPUs 4 to 7 are their siblings.
        asleep = last.cores["core_c6"] - first.cores["core_c6"]
        most = int(asleep[2 * at : 2 * at + 2].sum())
        assert 0 < 1.9 * most / passed_s < clocks[f"S{at}"] <= most, out


_SERVER = (
    _CLOCK
    + f"""
    import urllib.request
    from tests.ports import free_port
    port = free_port()
    url = f"http://127.0.0.1:{{port}}"
    path = "/usr/sbin:/usr/local/sbin:" + os.environ["PATH"]
    told = {{"PCM_NO_RDT": "1", "PCM_KEEP_NMI_WATCHDOG": "1", "PCM_USE_UNCORE_PERF": "1"}}
    server = subprocess.Popen(
        ["pcm-sensor-server", "-p", str(port)], env={{**os.environ, **told, "PATH": path}},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
    )
    clock("run")
    while server.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=180).read()
            break
        except OSError:
            time.sleep(0.2)
    time.sleep(2)
    def frame(*options):
        began = now_ns()
        out = subprocess.run(
            [{sys.executable!r}, "-m", "nftop", "--batch", "--json", "-n", "12", *options],
            stdout=subprocess.PIPE, text=True,
        ).stdout
        frames = [json.loads(line)["packages"] for line in out.splitlines()[3:]]
        return [frames, began, now_ns()]
    both = [frame("--pcm", url), frame()]
    server.terminate()
    server.wait()
    print(json.dumps(both))
    """
)


needs_server = pytest.mark.skipif(
    shutil.which("pcm-sensor-server", path="/usr/sbin:/usr/local/sbin") is None,
    reason="no pcm-sensor-server here: apt-get install pcm",
)


@needs_server
def test_the_kernels_counters_and_the_server_agree_on_power() -> None:
    of_server, of_kernel = answer(
        _SERVER, "--model", "skx-7", "--cpus", str(CPUS), "--freeze", "60"
    )
    model = model_of(scenario.load("default"), CPUS)
    for (frames, began_ns, ended_ns), origin in ((of_server, "pcm"), (of_kernel, None)):
        first, last = power_counts(model, began_ns), power_counts(model, ended_ns)
        for at, rows in enumerate(zip(*frames, strict=True)):
            for metric, event in (("power_w", "energy_pkg"), ("dram_power_w", "energy_ram")):
                grown = int(last.packages[event][at]) - int(first.packages[event][at])
                watts = grown / 2**32 / ((ended_ns - began_ns) / S)
                # What a late answer of the server takes from one frame is in the next.
                measured = [row[metric] for row in rows if row.get(metric) is not None]
                assert statistics.median(measured) == pytest.approx(watts, rel=0.05), measured
                assert {row["origins"].get(metric) for row in rows} == {origin}


# Ten seconds over the wrap of package 0's register, read as MSR, by nftop of the kernel, and by the
# server of the MSR.
_WRAP = (
    _CLOCK
    + """
    import urllib.request
    from nftop.sources.power.source import PowerSource
    from tests.ports import free_port
    url = f"http://127.0.0.1:{free_port()}"
    told = {"PCM_NO_RDT": "1", "PCM_KEEP_NMI_WATCHDOG": "1", "PCM_USE_UNCORE_PERF": "1"}
    path = "/usr/sbin:/usr/local/sbin:" + os.environ["PATH"]
    server = subprocess.Popen(
        ["pcm-sensor-server", "-p", url.rpartition(":")[2]],
        env={**os.environ, **told, "PATH": path}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
    )
    def joules():
        asked = urllib.request.Request(url, headers={"Accept": "application/json"})
        while server.poll() is None:
            try:
                with urllib.request.urlopen(asked, timeout=180) as reply:
                    text = re.sub(r": -?(nan|inf)\\b", ": null", reply.read().decode())
                    return [package["Uncore"]["Uncore Counters"]["Package Joules Consumed"]
                            for package in json.loads(text)["Sockets"]]
            except OSError:
                time.sleep(0.2)
        raise AssertionError("the server has ended")
    def settled(unlike):
        # It samples once a second: the same twice is after the newest sample.
        before = joules()
        while (now := joules()) != before or now == unlike:
            before = now
            time.sleep(0.6)
        return now
    def register():
        handle = os.open("/dev/cpu/0/msr", os.O_RDONLY)
        value = int.from_bytes(os.pread(handle, 8, 0x611), "little")
        os.close(handle)
        return value
    source = PowerSource(clock_ns=now_ns)
    def seen(unlike=None):
        of_server, table = settled(unlike), source.read()
        mine = table.event == table.events.index("energy_pkg")
        return of_server, table.values[mine].tolist(), register(), now_ns()
    first = seen()
    clock("step 10")
    second = seen(first[0])
    server.terminate()
    server.wait()
    source.close()
    print(json.dumps([first, second]))
    """
)


@needs_server
def test_kernel_and_server_agree_over_a_wrap_of_the_energy_register() -> None:
    model = model_of(scenario.load("default"), CPUS)
    wrap_s = _second_of(1 << 50, model)
    first, second = answer(
        _WRAP, "--model", "skx-7", "--cpus", str(CPUS), "--freeze", str(wrap_s - 5)
    )
    assert second[3] - first[3] == 10 * S
    assert 0 <= second[2] < first[2] < 1 << 32, "the register has wrapped"
    before, after = (
        power_counts(model, seen[3]).packages["energy_pkg"] for seen in (first, second)
    )
    for package in (0, 1):
        grown = int(after[package]) - int(before[package])
        assert second[1][package] - first[1][package] == pytest.approx(grown, abs=2)
        of_server = second[0][package] - first[0][package]
        assert of_server == pytest.approx(grown / 2**32, abs=2**-13 + 2e-3), package
    grown = (second[2] - first[2]) % (1 << 32)
    assert grown == pytest.approx((int(after[0]) - int(before[0])) / 2**18, abs=1)


def _second_of(energy: int, model: Model) -> int:
    """The first second at whose end package 0 has taken so many counts of energy."""
    least, most = 0, 1 << 20
    while least < most:
        middle = (least + most) // 2
        if int(power_counts(model, middle * S).packages["energy_pkg"][0]) < energy:
            least = middle + 1
        else:
            most = middle
    return least
