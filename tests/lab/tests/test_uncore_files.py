"""The folders of uncore PMUs are the kernel's, and nftop's encodings in them the reference's."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path

import pytest

from nftop.sources.perf.pmu import PmuError, encode, parse_format, read_pmu
from nftop.uarch import table as uarch_table
from tests.lab import machine as machines
from tests.lab.files import write_files
from tests.lab.perf.sysfs import perf_files
from tests.lab.tests.events import model
from tests.lab.uncore.boxes import Readers
from tests.lab.uncore.files import unit_files
from tests.lab.uncore.units import Unit, units_of
from tests.uarch.test_reference import UNITS, own_name
from tests.uarch.vectors import facts

EVERY = pytest.mark.parametrize("machine", machines.names())
# The model's host of 16 CPUs has 8 cores in two packages.
CORES = 4
CPUMASK = "0,4"


@functools.cache
def units(machine: str) -> tuple[Unit, ...]:
    return units_of(machines.load(machine), model())


def names(machine: str) -> list[str]:
    return [pmu for unit in units(machine) for pmu in unit.pmus]


@pytest.fixture
def root(machine: str, tmp_path: Path) -> Path:
    """The machine's sysfs, as far as it shows PMUs."""
    folder = tmp_path / "sys/bus/event_source/devices"
    write_files(folder, unit_files(units(machine), CPUMASK))
    return tmp_path


@EVERY
def test_every_encoding_is_the_reference_s(machine: str, root: Path) -> None:
    """In the formats that the kernel shows, not in those of the reference."""
    uarch = uarch_table.load(machines.load(machine).uarch)
    differences: list[object] = []
    for unit in uarch.uncore:
        pmu = next(item.pmus[0] for item in units(machine) if item.name == unit.pmu)
        theirs = facts(uarch.name)["uncore"][UNITS[unit.name]]
        known = {own_name(name): event for name, event in theirs["events"].items()}
        shown = read_pmu(pmu, root)
        for event, spec in unit.events.items():
            ours = encode(shown, spec.terms)
            config, config1, _ = known[event]
            wanted = (shown.pmu_type, int(config, 0), int(config1 or "0", 0))
            if (ours.pmu_type, ours.config, ours.config1) != wanted:
                differences.append((event, ours, wanted))
        for term, bit_ranges in theirs["format"].items():
            (word, bits), (its_word, its_bits) = map(
                parse_format, (shown.formats[term], bit_ranges)
            )
            # Sapphire Rapids has extended umasks also where no event has use for one.
            if (word, bits[: len(its_bits)]) != (its_word, its_bits):
                differences.append((pmu, term, shown.formats[term], bit_ranges))
        assert shown.cpumask == (0, 4)
    assert differences == []


@EVERY
def test_what_the_kernel_names_can_be_encoded(machine: str, root: Path) -> None:
    types = []
    for name in names(machine):
        pmu = read_pmu(name, root)
        types.append(pmu.pmu_type)
        for event in pmu.events:
            encode(pmu, event)
        with pytest.raises(PmuError):
            encode(pmu, "event=0x10000")
    # Handed out one after the other, behind the PMU `msr`.
    own = machines.load(machine).tables["perf"]["msr_type"]
    assert types == list(range(own + 1, own + 1 + len(types)))


def test_names_are_the_kernels() -> None:
    # `ls` of a kernel 6.1's own folder on an Ice Lake model without PCI devices.
    seen = ["uncore_pcu", "uncore_ubox"]
    for name, count in (
        ("iio", 6),
        ("iio_free_running", 6),
        ("imc", 12),
        ("imc_free_running", 4),
        ("irp", 6),
        ("m2pcie", 6),
    ):
        seen += [f"uncore_{name}_{number}" for number in range(count)]
    on_pci = ("uncore_m2m_", "uncore_upi_", "uncore_m3upi_", "uncore_cha_")
    ours = [name for name in names("icx") if not name.startswith(on_pci)]
    assert sorted(ours) == sorted(seen)
    # The same of a Skylake model.
    seen = ["uncore_pcu", "uncore_ubox"]
    for name in ("iio", "iio_free_running", "irp"):
        seen += [f"uncore_{name}_{number}" for number in range(6)]
    on_the_bus = ("uncore_imc_", "uncore_m2", "uncore_upi_", "uncore_m3upi_", "uncore_cha_")
    ours = [name for name in names("skx-4") if not name.startswith(on_the_bus)]
    assert sorted(ours) == sorted(seen)


def test_all_boxes_are_listed() -> None:
    result = {
        unit.name: unit.numbers
        for unit in units("bdx")
        if unit.name in ("uncore_cbox", "uncore_imc")
    }
    assert result == {"uncore_cbox": tuple(range(CORES)), "uncore_imc": (0, 1, 4, 5)}
    assert "uncore_imc_4" in names("bdx")
    assert "uncore_imc_2" not in names("bdx")
    assert {"uncore_r2pcie", "uncore_irp", "uncore_qpi_1"} <= set(names("bdx"))


def test_texts_and_line_feeds_are_the_kernels() -> None:
    files = unit_files(units("skx-4"), CPUMASK)
    assert files["uncore_imc_3/events/cas_count_read"] == b"event=0x04,umask=0x03"
    assert files["uncore_imc_3/events/cas_count_read.scale"] == b"6.103515625e-5"
    assert files["uncore_imc_3/events/cas_count_read.unit"] == b"MiB"
    assert files["uncore_imc_3/format/umask"] == b"config:8-15\n"
    assert files["uncore_cha_0/perf_event_mux_interval_ms"] == b"4\n"
    assert files["uncore_upi_2/cpumask"] == b"0,4\n"
    ports = "uncore_iio_free_running_2/events"
    assert files[f"{ports}/bw_out_port3"] == b"event=0xff,umask=0x27"
    assert files[f"{ports}/util_out_port3"] == b"event=0xff,umask=0x37"
    assert f"{ports}/util_out_port3.scale" not in files
    assert not any(name.endswith("/alias") for name in files)
    # Documentation/ABI/testing/sysfs-devices-mapping; Sapphire Rapids has no mapping.
    assert files["uncore_iio_1/die0"] == b"0000:10\n"
    assert files["uncore_iio_1/die1"] == b"0000:90\n"
    assert unit_files(units("icx"), CPUMASK)["uncore_iio_5/die0"] == b"0000:00\n"
    assert not any("/die" in name for name in unit_files(units("spr"), CPUMASK))
    assert unit_files(units("spr"), CPUMASK)["uncore_imc_7/alias"] == b"uncore_type_6_7\n"
    assert unit_files(units("spr"), CPUMASK)["uncore_pcu/alias"] == b"uncore_type_4\n"


@EVERY
def test_no_number_is_another_pmu_s(machine: str) -> None:
    kind = machines.load(machine)
    files = {**perf_files(kind), **unit_files(units(machine), CPUMASK)}
    types = [data for name, data in files.items() if name.endswith("/type")]
    assert len(types) == len(set(types))


def test_a_guest_has_none_and_an_unknown_model_has_boxes_without_names() -> None:
    kind = machines.load("skx-4")
    result = {
        name: units_of(machines.with_tables(kind, changes), model())
        for name, changes in machines.PMUS.items()
    }
    assert [name for name, item in result.items() if item] == ["own", "late-registers", "unknown"]
    unknown = result["unknown"]
    files = unit_files(unknown, CPUMASK)
    assert files["uncore_type_6_7/format/umask"] == b"config:8-15\n"
    assert files["uncore_type_8_2/cpumask"] == b"0,4\n"


def test_the_reader_of_a_package_moves_and_does_not_come_back() -> None:
    online = set(range(16))
    readers = Readers(model().layout.topology, lambda: online)
    assert readers.cpumask() == "0,4"
    online -= {0, 4}
    assert readers.cpumask() == "1,5"
    online |= {0}
    assert readers.cpumask() == "1,5"
    assert readers.of(8) == (0, 1)
    online -= {1}
    assert readers.cpumask() == "0,5"
    online -= {5, 6, 7, 12, 13, 14, 15}
    assert readers.cpumask() == "0"
    for cpu in (5, 16):
        with pytest.raises(OSError, match="Invalid argument"):
            readers.of(cpu)


def test_terms_are_distinguished() -> None:
    """No two terms of an event share a bit, but for filters that are shown in two ways."""
    for machine in machines.names():
        for unit in units(machine):
            bit_ranges = [unit.bits(term) for term in unit.formats]
            used = [set(bits) for word, bits in bit_ranges if word == "config"]
            pairs = itertools.combinations(used, 2)
            twice = [one & other for one, other in pairs if one & other]
            assert twice == [] or unit.name == "uncore_pcu"
