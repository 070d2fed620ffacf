"""Devices and the network functions that use them; traffic of tables that the source never gives.

What boxes count is in tests/sources/uncore/test_iio.py, the simulated host in tests/sim.
"""

from __future__ import annotations

import numpy as np
import pytest

from nftop.derive.package.devices import DeviceState, step_devices, with_users
from nftop.model.frame import DeviceRow
from nftop.model.metrics.device import DEVICE_METRICS
from nftop.model.missing import Missing, Reason
from nftop.model.nf.components import NfPort
from nftop.model.pci_device import PcieDevice
from nftop.model.pcie import PcieTable, RootPort
from nftop.model.sample import SourceReading
from nftop.model.struct import replace
from nftop.model.uncore import NO_COUNTS, UncoreTable
from nftop.sim import scenario
from nftop.sim.model import model_of
from nftop.sim.uncore import OF_PACKAGE_INDEX, package_counts, pcie_table
from nftop.uarch import table
from tests.sim.hosts import Frozen, S

PORT = RootPort("0000:17:00.0", 0, 1, 0, (PcieDevice("0000:3b:00.0", "vfio-pci", ()),))
EVENTS = ("inbound_read_0", "inbound_write_0", "outbound_read_0", "outbound_write_0")


def counts(value: int, at_ns: int, ran_ns: int | None = None, why: int = 0) -> UncoreTable:
    four = np.arange(4, dtype=np.int32)
    return UncoreTable(
        EVENTS,
        np.zeros(4, np.int32),
        np.ones(4, np.int32),
        four,
        np.full(4, 0 if why else value, np.uint64),
        np.full(4, why, np.uint8),
        np.full(4, at_ns, np.uint64),
        np.full(4, at_ns if ran_ns is None else ran_ns, np.uint64),
        {event: {why: "because"} for event in EVENTS} if why else {},
    )


def folded(*tables: UncoreTable | Missing) -> tuple[DeviceRow, ...]:
    state, rows = DeviceState(), tuple[DeviceRow, ...]()
    for at, item in enumerate(tables, 1):
        value = item if isinstance(item, Missing) else PcieTable((PORT,), item)
        state, rows = step_devices(state, SourceReading(value, at * S, 0))
    return rows


def reason(row: DeviceRow, metric: str = "dma_read_bytes_per_s") -> Reason:
    reading = row.readings[metric]
    assert isinstance(reading, Missing)
    return reading.reason


def test_a_count_is_four_bytes_of_the_time_in_which_it_ran() -> None:
    (first,) = folded(counts(100, S))
    assert reason(first) is Reason.WARMING
    (row,) = folded(counts(100, S), counts(350, 2 * S))
    assert row.readings["dma_read_bytes_per_s"] == 1000.0
    assert row.estimates == frozenset()
    (half,) = folded(counts(100, S, S), counts(350, 2 * S, S + S // 2))
    assert half.readings["dma_write_bytes_per_s"] == 2000.0
    assert len(half.estimates) == 4


def test_a_step_back_a_refusal_and_a_silent_source_have_their_reasons() -> None:
    (row,) = folded(counts(100, S), counts(50, 2 * S))
    assert reason(row) is Reason.RESET
    (row,) = folded(counts(100, S), counts(0, 2 * S, why=Reason.TAKEN))
    assert row.readings["dma_read_bytes_per_s"] == Missing(Reason.TAKEN, "because")
    stale = Missing(Reason.STALE, "late")
    (row,) = folded(counts(100, S), stale)
    assert reason(row) is Reason.STALE
    # A late source counts on: the next reading is rated across the gap.
    (row,) = folded(counts(100, S), stale, counts(600, 3 * S))
    assert row.readings["dma_read_bytes_per_s"] == 1000.0
    assert folded(Missing(Reason.HARDWARE, "none")) == ()
    (row,) = folded(NO_COUNTS)
    assert reason(row) is Reason.SOURCE


@pytest.mark.parametrize("metric", [metric.id for metric in DEVICE_METRICS])
def test_misses_are_nowhere_a_number(metric: str) -> None:
    (row,) = folded(counts(100, S), counts(350, 2 * S))
    is_missing = isinstance(row.readings[metric], Missing)
    assert is_missing == (metric == "dma_miss_per_s")
    assert not is_missing or reason(row, metric) is Reason.HARDWARE


NAMES = {
    "1 0000:3b:00.0": True,  # DPDK and OVS
    "0000:3b:00.0": True,
    "HundredGigabitEthernet3b/0/0": True,  # VPP
    "ens1": True,  # the kernel
    "HundredGigabitEthernet3b/0/1": False,
    "0000:3b:00.1": False,
    "port0": False,
    "local0": False,
}


@pytest.mark.parametrize("name", NAMES)
def test_a_network_function_uses_the_devices_that_its_ports_name(name: str) -> None:
    nf = Frozen(cpus=8).tick(S).nfs[0]
    nothing = Missing(Reason.SOURCE)
    nf = replace(nf, name="fwd", ports=(NfPort(name, nothing, nothing, nothing, nothing),) * 2)
    device = PcieDevice("0000:3b:00.0", "ice", ("ens1",))
    rows = (DeviceRow(replace(PORT, devices=(device,)), (), {}),)
    (row,) = with_users(rows, (nf, replace(nf, ports=nothing)))
    assert row.nfs == (("fwd",) if NAMES[name] else ())


def test_every_function_of_the_simulated_host_has_its_device() -> None:
    demo = Frozen(cpus=44, processor="gold-6230n")
    frame = [demo.tick(S) for _ in range(3)][-1]
    assert {
        nf.kind
        for nf in frame.nfs
        if nf.name in {name for row in frame.devices for name in row.nfs}
    } >= {"dpdk", "vpp", "ovs"}


@pytest.mark.parametrize("uarch", ["SKX", "CLX", "ICX", "SPR"])
def test_traffic_of_simulated_devices_is_their_package_s(uarch: str) -> None:
    """What devices read and write, and what their registers are, of the model's own counts."""
    model, known = model_of(scenario.load("default"), 44), table.load(uarch)
    assert known.iio is not None
    state, rows = DeviceState(), tuple[DeviceRow, ...]()
    for at in (1, 2):
        read = pcie_table(model, at * S, known, known.iio)
        state, rows = step_devices(state, SourceReading(read, at * S, 0))
    grown = package_counts(model, 2 * S).astype(float) - package_counts(model, S)
    for package in (0, 1):
        mine = [row for row in rows if row.port.package == package]
        assert len(mine) == 3
        for metric, unit, quantities in (
            ("dma_read_bytes_per_s", 64, ("pcirdcur_hit", "pcirdcur_miss")),
            (
                "dma_write_bytes_per_s",
                64,
                (
                    "itom_hit",
                    "itom_miss",
                    "rfo_hit",
                    "rfo_miss",
                    "itomcachenear_hit",
                    "itomcachenear_miss",
                ),
            ),
            ("mmio_write_bytes_per_s", 4, ("mmio_writes",)),
        ):
            total = sum(float(str(row.readings[metric])) for row in mine)
            wanted = unit * sum(grown[package, OF_PACKAGE_INDEX[name]] for name in quantities)
            assert total == pytest.approx(wanted, rel=1e-3), (metric, package)
    idle = next(row for row in rows if row.name == "eno1")
    assert idle.readings["dma_write_bytes_per_s"] == 0.0


def test_a_frame_has_devices_with_their_network_functions() -> None:
    host = Frozen(cpus=44, processor="gold-6230n")
    frame = [host.tick(S) for _ in range(3)][-1]
    users = {row.port.address: row.nfs for row in frame.devices}
    assert users["0000:90:00.0"] == ("loop/testpmd",)
    assert users["0000:20:00.0"] == ("ovs-vswitchd",)
    without = Frozen(cpus=8).tick(S)  # Broadwell
    assert without.devices == ()
    assert "iio" not in without.sources
