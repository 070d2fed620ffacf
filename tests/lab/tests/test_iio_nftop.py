"""Traffic of each NIC by nftop in the lab, against the model and beside `perf stat`."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time

import numpy as np
import pytest

from nftop.sim import scenario
from nftop.sim.model import Model, model_of
from nftop.sim.uncore import SimulatedPort, simulated_ports
from nftop.sim.workloads import INDEX
from tests.lab import machine as machines
from tests.lab.tests.events import CPUS, S
from tests.lab.tests.labs import LONGEST_S, enter, needs_lab, running

pytestmark = needs_lab
MACHINES = {"skx-4": "SKX", "clx-n": "CLX", "icx": "ICX"}
WRITES = (
    "itom_hit", "itom_miss", "rfo_hit", "rfo_miss", "itomcachenear_hit", "itomcachenear_miss",
)  # fmt: skip
# Bytes of one of these, by metric.
MEANT = {
    "dma_write_bytes_per_s": (64, WRITES),
    "dma_read_bytes_per_s": (64, ("pcirdcur_hit", "pcirdcur_miss")),
    "mmio_write_bytes_per_s": (4, ("mmio_writes",)),
    "mmio_read_bytes_per_s": (4, ("mmio_reads",)),
}
# What perf counts alone: a port that has its stack to itself, on both packages.
ALONE = "uncore_iio_2/event=0x83,umask=0x1,ch_mask=0x1,fc_mask=0x7/"


def lab_model(machine: str) -> Model:
    return model_of(scenario.load(machines.load(machine).scenario), CPUS)


def moved(model: Model, port: SimulatedPort, metric: str, from_ns: int, until_ns: int) -> float:
    """Bytes per second of a port's devices, by the model's own counts of their CPUs."""
    size, quantities = MEANT[metric]
    at = [INDEX[name] for name in quantities]
    cpus = list(port.cpus)
    before, after = (model.counts(t)[cpus][:, at].astype(np.int64) for t in (from_ns, until_ns))
    return size * float((after - before).sum()) * S / (until_ns - from_ns)


def by_perf(lab: tuple[str, ...]) -> int:
    """`ALONE` of both packages over three seconds, by Debian's perf.

    In a lab of its own: perf and nftop both want the counters of inbound events.
    """
    program = ("sh", "-c", "echo step 3 > /sys/fs/lab/live/ctl/clock")
    done = enter(*lab, "--", "env", "LC_ALL=C", "perf", "stat", "-a", "-e", ALONE, *program)
    assert done.returncode == 0, done.stderr
    ((value, _),) = re.findall(r"^ +([0-9,]+) +(uncore_iio_2/\S+/)", done.stderr, re.MULTILINE)
    return int(value.replace(",", ""))


@pytest.mark.parametrize("machine", MACHINES)
def test_every_nic_s_traffic_has_its_name(machine: str) -> None:
    lab = ("--model", machine, "--cpus", str(CPUS), "--no-resctrl", "--freeze", "60", "--nics")
    run = (sys.executable, "-m", "tests.lab.tests.inside_iio", MACHINES[machine])
    done = enter(*lab, "--", *run)
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    from_ns, until_ns = reported["from_ns"], reported["until_ns"]
    assert until_ns - from_ns == S
    model = lab_model(machine)
    ports = simulated_ports(model)
    assert len(reported["devices"]) == len(ports) >= 4
    for port in ports:
        name = ", ".join(
            item for device in port.devices for item in device.interfaces or (device.address,)
        )
        row = reported["devices"][name]
        assert (row["package"], row["stack"], row["port"]) == (
            port.package,
            port.stack,
            port.number,
        )
        assert row["readings"]["dma_miss_per_s"] == "hardware"
        for metric in MEANT:
            truth = moved(model, port, metric, from_ns, until_ns)
            # A count at each end of each slice is cut off, of four bytes, scaled as the slice is.
            near = pytest.approx(truth, rel=1e-3, abs=4 * 8)
            assert row["readings"][metric] == near, (name, metric)
    # A reading for each group, and an interrupt for each stack.
    stacks = {(port.package, port.stack) for port in ports}
    assert reported["cost"]["reads"] == len(ports)
    assert len(stacks) <= reported["cost"]["interrupts"] <= len(stacks) + 4
    if not shutil.which("perf"):
        return
    ours = sum(reported["whole"].get(f"{package}.2.inbound_write_0", 0) for package in (0, 1))
    assert ours > 1_000_000
    assert by_perf(lab) == pytest.approx(ours, abs=4)


def test_sapphire_rapids_lists_nics_with_the_reason() -> None:
    """Its boxes count, but no file says which root port a stack serves."""
    lab = ("--model", "spr", "--cpus", str(CPUS), "--no-resctrl", "--freeze", "60", "--nics")
    run = (sys.executable, "-m", "tests.lab.tests.inside_iio", "SPR")
    done = enter(*lab, "--", *run)
    assert done.returncode == 0, done.stderr
    devices = json.loads(done.stdout)["devices"]
    assert "eno1" in devices
    for row in devices.values():
        assert set(row["readings"].values()) == {"hardware"}
        assert row["stack"] is None
    if shutil.which("perf"):
        model = lab_model("spr")
        mine = [port for port in simulated_ports(model) if (port.stack, port.number) == (2, 0)]
        wrote = sum(moved(model, port, "dma_write_bytes_per_s", 60 * S, 63 * S) for port in mine)
        assert by_perf(lab) == pytest.approx(wrote * 3 / 4, abs=4)


def test_doctor_and_json_name_the_nics() -> None:
    lab = ("--model", "icx", "--cpus", str(CPUS), "--nics", "--")
    done = enter(*lab, sys.executable, "-m", "nftop", "doctor", "--json")
    checks = {load["name"]: load for load in json.loads(done.stdout)["checks"]}
    assert checks["iio"]["state"] == "ok"
    assert "(eno1)" in checks["iio"]["text"]
    assert f"by interrupts of CPU 0,{CPUS // 4}" in checks["iio"]["text"]
    run = "-m nftop --batch -n 1000 -d 1 --json".split()
    until_s = time.monotonic() + LONGEST_S
    model = lab_model("icx")
    with running(*lab, sys.executable, *run) as host:
        while True:  # however long a busy machine takes
            frame = json.loads(host.hear())
            row = next((row for row in frame["devices"] if row["name"] == "0000:1b:00.0"), None)
            if row is not None and row["dma_write_bytes_per_s"] is not None:
                break
            assert time.monotonic() < until_s, frame["sources"]["iio"]
    assert {item["name"] for item in frame["devices"]} >= {"eno1", "0000:1b:00.0"}
    assert row["missing"] == {"dma_miss_per_s": "hardware"}
    # The clock runs, and the load swings by less than that around its mean.
    (port,) = (port for port in simulated_ports(model) if (port.package, port.stack) == (1, 2))
    about = model.steady[-1][list(port.cpus)][:, [INDEX[name] for name in WRITES]].sum()
    assert row["dma_write_bytes_per_s"] == pytest.approx(64 * about, rel=0.05)
