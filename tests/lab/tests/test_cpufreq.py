"""The lab's cpufreq takes, clamps and refuses what the kernel's does."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.sim.model import model_of
from nftop.sim.scenario import load
from tests.lab import machine
from tests.lab.cpufreq.host import Cpufreq, cpufreq_of
from tests.lab.cpufreq.tree import folders, links, texts
from tests.lab.tests.labs import answer, needs_lab
from tests.lab.texts import Text

TOPOLOGY = model_of(load("default"), 80).layout.topology
P1 = "cpufreq/policy1"


@dataclass
class Files:
    """As a program sees them."""

    texts: Mapping[str, Text]
    online: set[int]

    def read(self, name: str) -> str:
        return self.texts[name].read().removesuffix("\n")

    def write(self, name: str, text: str) -> None:
        write = self.texts[name].write
        assert write is not None, "read-only"
        write(f"{text}\n")

    def limits(self, policy: str = P1) -> tuple[str, str]:
        return self.read(f"{policy}/scaling_min_freq"), self.read(f"{policy}/scaling_max_freq")

    def refused(self, name: str, text: str) -> int | None:
        with pytest.raises(OSError) as caught:
            self.write(name, text)
        return caught.value.errno


def host_of(model: str = "clx-n", kind: str = "own") -> Cpufreq | None:
    return cpufreq_of(machine.load(model).tables["cpufreq"], TOPOLOGY, kind)


def files_of(model: str = "clx-n", kind: str = "own") -> Files:
    online: set[int] = {info.cpu for info in TOPOLOGY.cpus}
    created = texts(host_of(model, kind), lambda: frozenset(online), lambda _: 2_200_000)
    return Files(created, online)


def test_a_cascade_lake_n_has_two_base_frequencies() -> None:
    files = files_of()
    base = {cpu: files.read(f"cpufreq/policy{cpu}/base_frequency") for cpu in range(80)}
    high = {cpu for cpu, khz in base.items() if khz == "2700000"}
    assert set(base.values()) == {"2700000", "2100000"}
    # Of both packages, and of both threads of each core: 20 cores a package, 40 CPUs apart.
    assert {cpu % 20 for cpu in high} == {1, 6, 7, 8, 9, 16}
    assert len(high) == 24


def test_others_have_one() -> None:
    files = files_of("skx-7")
    assert {files.read(f"cpufreq/policy{cpu}/base_frequency") for cpu in range(80)} == {"2100000"}


def test_a_minimum_above_the_maximum_waits_until_that_is_raised() -> None:
    files = files_of()
    assert files.limits() == ("800000", "3900000")
    files.write(f"{P1}/scaling_max_freq", "2300000")
    files.write(f"{P1}/scaling_min_freq", "2700000")
    assert files.limits() == ("2300000", "2300000")
    files.write(f"{P1}/scaling_max_freq", "3900000")
    assert files.limits() == ("2700000", "3900000")
    assert files.limits("cpufreq/policy2") == ("800000", "3900000")


def test_what_the_cpu_can_t_is_cut_off() -> None:
    files = files_of()
    files.write(f"{P1}/scaling_max_freq", "9000000")
    files.write(f"{P1}/scaling_min_freq", "1")
    assert files.limits() == ("800000", "3900000")
    files.write(f"{P1}/scaling_max_freq", "1")
    assert files.limits() == ("800000", "800000")


@given(st.lists(st.tuples(st.sampled_from(["min", "max"]), st.integers(0, 5_000_000)), max_size=12))
def test_limits_are_in_order_and_within_the_cpu_s(writes: list[tuple[str, int]]) -> None:
    files = files_of()
    for which, khz in writes:
        files.write(f"{P1}/scaling_{which}_freq", str(khz))
        least, most = map(int, files.limits())
        assert 800_000 <= least <= most <= 3_900_000


@given(st.integers(0, 5_000_000), st.integers(0, 5_000_000))
def test_the_order_of_two_writes_does_not_matter(least: int, most: int) -> None:
    one, other = files_of(), files_of()
    for files, order in ((one, ("min", "max")), (other, ("max", "min"))):
        for which in order:
            khz = least if which == "min" else most
            files.write(f"{P1}/scaling_{which}_freq", str(khz))
    assert one.limits() == other.limits()


def test_without_turbo_the_base_frequency_is_the_most() -> None:
    files = files_of()
    files.write("intel_pstate/no_turbo", "1")
    assert files.limits() == ("800000", "2700000")
    assert files.limits("cpufreq/policy2") == ("800000", "2100000")
    files.write("intel_pstate/no_turbo", "0")
    assert files.limits() == ("800000", "3900000")


@pytest.mark.parametrize("text", ["", "fast", "-1", "4294967295"])
def test_no_frequency_is_refused(text: str) -> None:
    files = files_of()
    assert files.refused(f"{P1}/scaling_min_freq", text) == errno.EINVAL
    assert files.limits() == ("800000", "3900000")


def test_governors_and_what_they_do_to_the_preference() -> None:
    files = files_of()
    assert files.refused(f"{P1}/scaling_governor", "ondemand") == errno.EINVAL
    files.write(f"{P1}/energy_performance_preference", "balance_power")
    files.write(f"{P1}/scaling_governor", "PERFORMANCE")
    assert files.read(f"{P1}/scaling_governor") == "performance"
    # What is shown is what was written last, which is not what counts now.
    assert files.read(f"{P1}/energy_performance_preference") == "balance_power"
    assert files.refused(f"{P1}/energy_performance_preference", "power") == errno.EBUSY
    files.write(f"{P1}/energy_performance_preference", "performance")
    files.write(f"{P1}/scaling_governor", "powersave")
    files.write(f"{P1}/energy_performance_preference", "64")
    assert files.read(f"{P1}/energy_performance_preference") == "64"
    files.write(f"{P1}/energy_performance_preference", "default")
    assert files.read(f"{P1}/energy_performance_preference") == "balance_performance"
    for text in ("256", "fast", ""):
        assert files.refused(f"{P1}/energy_performance_preference", text) == errno.EINVAL


def test_a_cpu_that_is_offline_keeps_its_limits_to_itself() -> None:
    files = files_of()
    files.write(f"{P1}/scaling_max_freq", "2300000")
    files.online.discard(1)
    with pytest.raises(OSError) as caught:
        files.read(f"{P1}/scaling_max_freq")
    assert caught.value.errno == errno.EBUSY
    assert files.refused(f"{P1}/scaling_max_freq", "2700000") == errno.EBUSY
    files.online.add(1)
    assert files.limits() == ("800000", "2300000")


def test_acpi_cpufreq_sets_both_threads_of_a_core_to_what_its_table_has() -> None:
    files = files_of(kind="acpi")
    assert files.read(f"{P1}/affected_cpus") == "1 41"
    assert "cpufreq/policy41/scaling_max_freq" not in files.texts
    assert f"{P1}/base_frequency" not in files.texts
    files.write(f"{P1}/scaling_min_freq", "1250000")
    files.write(f"{P1}/scaling_max_freq", "2250000")
    assert files.limits() == ("1300000", "2200000")
    assert links(host_of(kind="acpi"))["cpu41/cpufreq"] == "../cpufreq/policy1"
    files.online.discard(1)
    assert files.read(f"{P1}/affected_cpus") == "41"


def test_without_hwp_no_base_frequency() -> None:
    files = files_of(kind="no-base")
    assert files.read(f"{P1}/scaling_driver") == "intel_pstate"
    assert not {name for name in files.texts if "base" in name or "energy" in name}


def test_without_cpufreq_the_folder_is_empty() -> None:
    assert files_of(kind="none").texts == {}
    assert folders(None) == ("cpufreq",)
    assert links(None) == {}


def test_the_mesh_takes_whole_multiples_only() -> None:
    files = files_of()
    at = "intel_uncore_frequency/package_01_die_00"
    files.write(f"{at}/max_freq_khz", "2050000")
    assert files.read(f"{at}/max_freq_khz") == "2000000"
    files.write(f"{at}/max_freq_khz", "99999999")  # passed over
    assert files.read(f"{at}/max_freq_khz") == "2000000"
    assert files.read(f"{at}/initial_max_freq_khz") == "2400000"
    assert files.refused(f"{at}/max_freq_khz", "fast") == errno.EINVAL


def test_the_driver_s_own_files() -> None:
    files = files_of()
    assert files.refused("intel_pstate/status", "off") == errno.EBUSY
    files.write("intel_pstate/max_perf_pct", "50")
    files.write("intel_pstate/min_perf_pct", "90")
    assert files.read("intel_pstate/min_perf_pct") == "50"
    assert files.read("intel_pstate/turbo_pct") == "50"


@needs_lab
def test_inside_links_lead_to_policies_that_hotplug_leaves() -> None:
    program = """
        at = "/sys/devices/system/cpu"
        def read(name):
            try:
                return open(f"{at}/{name}").read().strip()
            except OSError as error:
                return errno.errorcode[error.errno]
        def write(name, text):
            with open(f"{at}/{name}", "w") as file:
                file.write(text)
        found = [os.readlink(f"{at}/cpu1/cpufreq"), read("cpu1/cpufreq/base_frequency")]
        write("cpufreq/policy1/scaling_max_freq", "2300000")
        found.append(read("cpu1/cpufreq/scaling_max_freq"))
        write("cpu1/online", "0")
        found.append(read("cpu1/cpufreq/scaling_max_freq"))
        write("cpu1/online", "1")
        found.append(read("cpu1/cpufreq/scaling_max_freq"))
        found.append(sorted(os.listdir(f"{at}/intel_uncore_frequency")))
        print(json.dumps(found))
    """
    assert answer(program, "--model", "clx-n", "--cpus", "8") == [
        "../cpufreq/policy1",
        "2700000",
        "2300000",
        "EBUSY",
        "2300000",
        ["package_00_die_00", "package_01_die_00"],
    ]
