"""Root ports with network devices, of trees as sysfs has them, and their counts by the fake kernel.

Configs are those of the vendor's event files: UNC_IIO_PAYLOAD_BYTES_IN and
UNC_IIO_DATA_REQ_OF_CPU (0x83), UNC_IIO_DATA_REQ_BY_CPU (0xc0).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nftop.derive.package.devices import DeviceState, step_devices
from nftop.model.frame import DeviceRow
from nftop.model.missing import Missing, Reason
from nftop.model.pcie import UNKNOWN, PcieTable
from nftop.model.sample import SourceReading
from nftop.model.struct import replace
from nftop.model.topology import CpuInfo, Topology
from nftop.sources.host.pci import ports_with_networks
from nftop.sources.host.topology import read_topology
from nftop.sources.perf.pmu import Pmu, encode
from nftop.sources.registry import Setup, open_sources
from nftop.sources.uncore.source import IioSource, stacks_of
from nftop.uarch import table
from tests.sources.trees import put
from tests.sources.uncore.kernel import FakeUncore

S = 1_000_000_000
SKX_FORMAT = {
    "event": "config:0-7", "umask": "config:8-15", "edge": "config:18", "inv": "config:23",
    "thresh": "config:24-35", "ch_mask": "config:36-43", "fc_mask": "config:44-46",
}  # fmt: skip
ICX_FORMAT = {**SKX_FORMAT, "ch_mask": "config:36-47", "fc_mask": "config:48-50"}
FORMATS = {"SKX": SKX_FORMAT, "CLX": SKX_FORMAT, "ICX": ICX_FORMAT, "SPR": ICX_FORMAT}
# By microarchitecture, of number 0 and 3.
CODES = {
    "SKX": {
        "inbound_read": (0x701000000483, 0x708000000483),
        "inbound_write": (0x701000000183, 0x708000000183),
        "outbound_read": (0x7010000004C0, 0x7080000004C0),
        "outbound_write": (0x7010000001C0, 0x7080000001C0),
    },
    "ICX": {
        "inbound_read": (0x7001000000483, 0x7008000000483),
        "inbound_write": (0x7001000000183, 0x7008000000183),
        "outbound_read": (0x70010000004C0, 0x70080000004C0),
        "outbound_write": (0x70010000001C0, 0x70080000001C0),
    },
}
CODES |= {"CLX": CODES["SKX"], "SPR": CODES["ICX"]}
# Root ports of a host's two packages, as `perf iostat list` has them in its manual.
BUSES = {0: ("00", "80"), 1: ("17", "85"), 2: ("3a", "ae"), 3: ("5d", "d7")}


@pytest.mark.parametrize("uarch", FORMATS)
def test_events_of_a_port_are_the_vendor_s(uarch: str) -> None:
    iio = table.load(uarch).iio
    assert iio is not None
    pmu = Pmu("uncore_iio", 30, FORMATS[uarch], {}, None)
    unit = iio.unit(0, 1, (0, 3))
    ours = {name: encode(pmu, event.terms) for name, event in unit.events.items()}
    assert all(code.config1 == 0 for code in ours.values())
    assert {name: code.config for name, code in ours.items()} == {
        f"{event}_{number}": code
        for event, codes in CODES[uarch].items()
        for number, code in zip((0, 3), codes, strict=True)
    }
    # Inbound events take counters 0 and 1, outbound ones 2 and 3.
    for turn in unit.turns:
        inbound = [name for name in turn if ours[name].config & 0xFF == 0x83]
        assert (len(inbound), len(turn)) == (2, 4)


@pytest.mark.parametrize("uarch", ["BDX", "HSX", "GNR", "SRF", "generic"])
def test_a_cpu_without_known_stacks_has_no_source_and_a_line_of_doctor(
    uarch: str, tmp_path: Path
) -> None:
    setup = Setup(tmp_path, Topology(()), table.load(uarch))
    sources = open_sources(setup)
    assert "iio" not in {source.name for source in sources}
    assert [line.reason for line in setup.checks if line.name == "iio"] == [Reason.HARDWARE]
    for source in sources:
        source.close()


@dataclass
class IioHost:
    """A host with stacks and PCI devices on the fake kernel; every event of a number has a pace."""

    root: Path
    uarch: str = "SKX"
    mapped: bool = True
    fake: FakeUncore = field(init=False)

    def __post_init__(self) -> None:
        known = table.load(self.uarch)
        self.fake = FakeUncore(self.root, replace(known, uncore=()))
        iio = known.iio
        assert iio is not None
        for stack, buses in BUSES.items():
            name, kind = f"uncore_iio_{stack}", 50 + stack
            texts = {f"format/{term}": bits for term, bits in FORMATS[self.uarch].items()}
            if self.mapped:
                texts |= {f"die{die}": f"0000:{bus}" for die, bus in enumerate(buses)}
            self.fake.put(name, {"type": str(kind), "cpumask": "0,2", **texts})
            self.fake.names[kind] = name
            for number in range(iio.ports):
                unit = iio.unit(0, stack, (number,))
                for at, event in enumerate(unit.events.values()):
                    code = encode(Pmu(name, kind, FORMATS[self.uarch], {}, None), event.terms)
                    self.fake.per_ns[kind, code.config, code.config1] = pace(stack, number, at)

    def nic(
        self,
        way: str,
        driver: str = "",
        *,
        interfaces: tuple[str, ...] = (),
        network: bool = True,
        physical: str = "",
    ) -> None:
        """A device with its bridges; `way` is its path below the root bus's folder."""
        steps = way.split("/")
        folder = self.root / "sys/devices" / way
        for at, address in enumerate(steps[1:], 1):
            kind = "0x020000" if network else "0x010802"
            kind = kind if at == len(steps) - 1 else "0x060400"
            put(self.root / "sys/devices" / "/".join(steps[: at + 1]), {"class": kind})
            link = self.root / "sys/bus/pci/devices" / address
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to("../../../devices/" + "/".join(steps[: at + 1]))
        for name in interfaces:
            (folder / "net" / name).mkdir(parents=True)
        if driver:
            (folder / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")
        if physical:
            (folder / "physfn").symlink_to(f"../{physical}")

    def source(self, quiet: tuple[int, ...] = ()) -> IioSource:
        known = table.load(self.uarch)
        assert known.iio is not None
        return IioSource(
            known,
            known.iio,
            topology=read_topology(self.root),
            root=self.root,
            quiet_cpus=quiet,
            kernel=self.fake.kernel,
            clock_ns=lambda: self.fake.now_ns,
        )


def pace(stack: int, number: int, at: int) -> int:
    """Counts in a ns on package 0, one more on package 1; `at` is the event's position."""
    return 100 * stack + 10 * number + at + 1


def rates(host: IioHost, source: IioSource, ticks: int = 3) -> dict[str, DeviceRow]:
    """Rows after some ticks of a second, by name; turns change every 10 ms."""
    state, rows = DeviceState(), tuple[DeviceRow, ...]()
    for _ in range(ticks):
        read = source.read()
        assert isinstance(read, (PcieTable, Missing))
        state, rows = step_devices(state, SourceReading(read, host.fake.now_ns, 0))
        until_ns = host.fake.now_ns + S
        while host.fake.now_ns < until_ns:
            host.fake.pass_ns(10_000_000)
            for box in source._open[:1]:
                if box is not None:
                    box._counters.turn()
    source.close()
    return {row.name: row for row in rows}


def bytes_per_s(stack: int, number: int, package: int) -> dict[str, float]:
    metrics = (
        "dma_read_bytes_per_s",
        "dma_write_bytes_per_s",
        "mmio_read_bytes_per_s",
        "mmio_write_bytes_per_s",
    )
    return {name: 4e9 * (pace(stack, number, at) + package) for at, name in enumerate(metrics)}


def numbers(row: DeviceRow) -> Mapping[str, float]:
    return {n: value for n, value in row.readings.items() if not isinstance(value, Missing)}


def test_traffic_has_the_name_of_the_nic_behind_the_port(tmp_path: Path) -> None:
    host = IioHost(tmp_path)
    host.nic("pci0000:17/0000:17:00.0/0000:18:00.0", "i40e", interfaces=("ens1f0",))
    host.nic("pci0000:17/0000:17:00.0/0000:18:00.1", "i40e", interfaces=("ens1f1",))
    host.nic("pci0000:d7/0000:d7:02.0/0000:d8:00.0", "vfio-pci")
    host.nic(
        "pci0000:3a/0000:3a:03.0/0000:3b:00.0/0000:3c:00.0/0000:3d:00.0",
        "ice",
        interfaces=("ens2",),
    )
    host.nic("pci0000:3a/0000:3a:03.0/0000:3b:00.0/0000:3c:01.0/0000:3e:00.0", network=False)
    rows = rates(host, host.source())
    assert rows.keys() == {"ens1f0, ens1f1", "ens2", "0000:d8:00.0"}
    at = {n: (r.port.package, r.port.stack, r.port.number, r.port.others) for n, r in rows.items()}
    assert at == {
        "ens1f0, ens1f1": (0, 1, 0, 0),
        "ens2": (0, 2, 3, 1),
        "0000:d8:00.0": (1, 3, 2, 0),
    }
    assert numbers(rows["ens1f0, ens1f1"]) == bytes_per_s(1, 0, 0)
    assert numbers(rows["ens2"]) == bytes_per_s(2, 3, 0)
    assert numbers(rows["0000:d8:00.0"]) == bytes_per_s(3, 2, 1)
    for row in rows.values():
        assert row.estimates == frozenset()  # alone in their stacks
        missed = row.readings["dma_miss_per_s"]
        assert isinstance(missed, Missing)
        assert missed.reason is Reason.HARDWARE
    # Three boxes, a group each: a reading, and one interrupt of a CPU for each of them.
    assert host.fake.opens == 12
    assert host.fake.fds == {}


def test_ports_of_one_stack_take_turns(tmp_path: Path) -> None:
    host = IioHost(tmp_path)
    for number in range(3):
        host.nic(f"pci0000:17/0000:17:0{number}.0/0000:{18 + number}:00.0")
    rows = rates(host, host.source(), ticks=4)
    assert len(rows) == 3
    for number, row in enumerate(rows.values()):
        assert numbers(row) == pytest.approx(bytes_per_s(1, number, 0), rel=1e-12)
        assert row.estimates == frozenset(bytes_per_s(1, number, 0))


def test_a_program_takes_a_device_and_a_port_appears(tmp_path: Path) -> None:
    host = IioHost(tmp_path)
    host.nic("pci0000:17/0000:17:00.0/0000:18:00.0", interfaces=("ens1",))
    source = host.source()
    first = source.read()
    host.nic("pci0000:ae/0000:ae:00.0/0000:af:00.0", "vfio-pci")
    host.nic("pci0000:17/0000:17:00.0/0000:18:02.0", "iavf", physical="0000:18:00.0")
    host.nic("pci0000:17/0000:17:00.0/0000:18:02.1", "vfio-pci", physical="0000:18:00.0")
    host.fake.pass_ns(S)
    same = source.read()
    source.soon()
    more = source.read()
    assert isinstance(first, PcieTable)
    assert isinstance(same, PcieTable)
    assert isinstance(more, PcieTable)
    assert [port.address for port in first.ports] == ["0000:17:00.0"]
    assert same.ports is first.ports
    # A virtual function that the kernel drives is not listed.
    assert [[item.address for item in port.devices] for port in more.ports] == [
        ["0000:18:00.0", "0000:18:02.1"],
        ["0000:af:00.0"],
    ]
    assert len(host.fake.fds) == 8
    assert source.counter_reads == 4
    source.close()


ELSEWHERE = {
    "chipset": ("pci0000:00/0000:00:1c.0/0000:01:00.0", Reason.HARDWARE),
    "function": ("pci0000:17/0000:17:00.1/0000:18:00.0", Reason.HARDWARE),
    "on the bus": ("pci0000:17/0000:17:00.0", Reason.HARDWARE),
    "no stack": ("pci0000:b2/0000:b2:00.0/0000:b3:00.0", Reason.HARDWARE),
}


@pytest.mark.parametrize("location", ELSEWHERE)
def test_a_device_that_no_stack_counts_has_a_reason(location: str, tmp_path: Path) -> None:
    host = IioHost(tmp_path)
    way, reason = ELSEWHERE[location]
    host.nic(way, interfaces=("eno1",))
    source = host.source()
    row = rates(host, source)["eno1"]
    assert (row.port.package, row.port.stack, row.port.number) == (UNKNOWN,) * 3
    assert numbers(row) == {}
    assert {value.reason for value in row.readings.values() if isinstance(value, Missing)} == {
        reason
    }
    assert host.fake.opens == 0


def test_without_the_kernel_s_map_nics_are_listed_with_its_reason(tmp_path: Path) -> None:
    """Sapphire Rapids, and kernels before 5.10."""
    host = IioHost(tmp_path, "SPR", mapped=False)
    host.nic("pci0000:17/0000:17:01.0/0000:18:00.0", interfaces=("ens1",))
    source = host.source()
    checks = source.check()
    assert [(line.name, line.reason) for line in checks] == [("iio devices", Reason.HARDWARE)]
    read = source.read()
    assert isinstance(read, PcieTable)
    assert read.gaps == ""  # nothing that anybody could mend
    row = rates(host, source)["ens1"]
    assert numbers(row) == {}
    assert "die*" in str(row.readings["dma_write_bytes_per_s"])


def test_ice_lake_s_ports_are_devices_2_to_5(tmp_path: Path) -> None:
    host = IioHost(tmp_path, "ICX")
    for device in (1, 2, 5, 6):
        host.nic(f"pci0000:17/0000:17:0{device}.0/0000:{18 + device}:00.0")
    source = host.source()
    read = source.read()
    source.close()
    assert isinstance(read, PcieTable)
    assert [port.number for port in read.ports] == [UNKNOWN, 0, 3, UNKNOWN]


def test_a_quiet_package_is_left_out(tmp_path: Path) -> None:
    host = IioHost(tmp_path)
    host.nic("pci0000:17/0000:17:00.0/0000:18:00.0", interfaces=("ens1",))
    host.nic("pci0000:85/0000:85:00.0/0000:86:00.0", interfaces=("ens2",))
    rows = rates(host, host.source(quiet=(0,)))
    why = rows["ens1"].readings["dma_read_bytes_per_s"]
    assert isinstance(why, Missing)
    assert why.reason is Reason.SOURCE
    assert numbers(rows["ens2"]) == bytes_per_s(1, 0, 1)


def test_a_refusal_is_the_reason_of_all(tmp_path: Path) -> None:
    host = IioHost(tmp_path)
    host.fake.refuse = lambda _, __: 13
    host.nic("pci0000:17/0000:17:00.0/0000:18:00.0", interfaces=("ens1",))
    source = host.source()
    read = source.read()
    assert isinstance(read, PcieTable)
    assert "0000:17:00.0" in read.gaps
    row = rates(host, source)["ens1"]
    why = row.readings["dma_read_bytes_per_s"]
    assert isinstance(why, Missing)
    assert why.reason is Reason.PERMISSION


def test_doctor_names_what_is_counted(tmp_path: Path) -> None:
    host = IioHost(tmp_path)
    host.nic("pci0000:17/0000:17:00.0/0000:18:00.0", interfaces=("ens1",))
    host.nic("pci0000:00/0000:00:1c.0/0000:01:00.0", interfaces=("eno1",))
    source = host.source()
    source.read()
    host.fake.pass_ns(S)
    good, other = source.check()
    assert (good.name, good.reason) == ("iio", Reason.PRESENT)
    assert "0000:17:00.0 (ens1)" in good.text
    assert (other.name, other.reason) == ("iio devices", Reason.HARDWARE)
    source.close()


def test_doctor_names_stacks_with_counters_of_another_program(tmp_path: Path) -> None:
    host = IioHost(tmp_path)
    host.fake.share = lambda pmu: 0.0 if pmu == "uncore_iio_1" else 1.0
    host.nic("pci0000:17/0000:17:00.0/0000:18:00.0", interfaces=("ens1",))
    host.nic("pci0000:3a/0000:3a:00.0/0000:3b:00.0", interfaces=("ens2",))
    source = host.source()
    source.read()
    host.fake.pass_ns(S)
    taken = [line for line in source.check() if line.reason is Reason.TAKEN]
    assert [line.name for line in taken] == ["iio counters"]
    assert "1 of package 0" in taken[0].text
    assert "2 of package 0" not in taken[0].text
    assert taken[0].fix
    source.close()


def test_stacks_of_several_dies_have_a_reason(tmp_path: Path) -> None:
    host = IioHost(tmp_path)
    cpus = read_topology(tmp_path).cpus
    plain = Topology(cpus)
    assert stacks_of("uncore_iio", plain, tmp_path)["0000:ae"] == (1, 2)
    dies: tuple[CpuInfo, ...] = tuple(replace(info, die=info.cpu % 2) for info in cpus)
    with pytest.raises(LookupError):
        stacks_of("uncore_iio", Topology(dies), tmp_path)
    assert host.mapped
    one = Topology(tuple(info for info in cpus if info.package == 1))
    assert len(one.packages) == 1
    with pytest.raises(LookupError):  # die 0 is offline, so the first that is known is die 1
        stacks_of("uncore_iio", one, tmp_path)


def test_counts_of_reads_never_step_back_when_boxes_are_replaced(tmp_path: Path) -> None:
    host = IioHost(tmp_path)
    host.nic("pci0000:17/0000:17:00.0/0000:18:00.0", interfaces=("ens1",))
    source, seen = host.source(), list[tuple[int, int]]()

    class Watched(type(source)):  # type: ignore[misc] # another thread may ask at any time
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            seen.append((self.counter_reads, self.counter_interrupts))

    source.read()
    source.__class__ = Watched
    host.nic("pci0000:3a/0000:3a:00.0/0000:3b:00.0", interfaces=("ens2",))
    source.soon()
    source.read()
    source.close()
    assert seen == sorted(seen) and seen[0][0] < seen[-1][0]
    assert seen[-1] == (source.counter_reads, source.counter_interrupts)


def test_a_source_that_is_closed_while_it_reads_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = IioHost(tmp_path)
    host.nic("pci0000:17/0000:17:00.0/0000:18:00.0", interfaces=("ens1",))
    source = host.source()
    closing = threading.Thread(target=source.close)

    def ports(root: Path) -> object:
        closing.start()
        closing.join(0.2)  # without a lock it ends here, and boxes are opened after it
        return ports_with_networks(root)

    monkeypatch.setattr("nftop.sources.uncore.source.ports_with_networks", ports)
    source.read()
    closing.join()
    assert not host.fake.fds
    assert isinstance(source.read(), Missing)
