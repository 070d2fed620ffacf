"""Checks of kernel, firmware and guests: for each a host that passes and one that does not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.check import Check
from nftop.model.ids import Cpu
from nftop.model.missing import Reason
from nftop.sources.host.topology import read_topology
from nftop.sources.tuning.checks import host_checks
from tests.sources.tuning.hosts import CPUS, DEBIAN, checks, every_cpu, host, link, poller

K, IOMMU, PCI = "proc/sys/kernel", "sys/class/iommu/dmar0", "sys/bus/pci/devices/0000:3b:00.0"
FIFO = f"101 (test) pmd) S {'0 ' * 37}1 0 0"
OTHER = f"101 (testpmd) S {'0 ' * 37}0 0 0"
LIMITED = {f"{K}/sched_rt_runtime_us": "950000", f"{K}/sched_rt_period_us": "1000000"}
WATCHED = {f"{K}/soft_watchdog": "1", f"{K}/watchdog_cpumask": "0-7"}
SIBLINGS = (
    {f"{CPUS}/cpu{cpu}/topology/core_cpus_list": f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)}
    | {f"{CPUS}/cpu{cpu}/topology/core_id": str(cpu % 4) for cpu in range(8)}
    | every_cpu({"topology/physical_package_id": "0"})
)
NIC = {f"{PCI}/class": "0x020000", "sys/kernel/iommu_groups/7/type": "DMA-FQ", f"{IOMMU}/": ""}
SKX = "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : 85\nstepping : 4\n"


def vcpus(*allowed: str, pid: int = 900) -> dict[str, str]:
    files = {f"proc/{pid}/comm": "qemu-system-x86"}
    for vcpu, where in enumerate(allowed):
        at = f"proc/{pid}/task/{pid + 1 + vcpu}"
        files |= {f"{at}/comm": f"CPU {vcpu}/KVM", f"{at}/status": f"Cpus_allowed_list:\t{where}"}
    return files


def modules(count: int, speed: int) -> dict[str, bytes]:
    """SMBIOS memory devices of 16 GB with a configured speed in MT/s."""
    raw = bytearray(0x22)
    raw[0], raw[1], raw[0x12] = 17, 0x22, 0x1A
    raw[0x0C:0x0E] = (16384).to_bytes(2, "little")
    raw[0x15:0x17] = raw[0x20:0x22] = speed.to_bytes(2, "little")
    return {f"sys/firmware/dmi/entries/17-{at}/raw": bytes(raw) for at in range(count)}


PASSING: Mapping[str, Mapping[str, str]] = {
    "real-time limit": {f"{K}/sched_rt_runtime_us": "-1", f"{K}/sched_rt_period_us": "1000000"},
    "vm statistics": {"proc/sys/vm/stat_interval": "120"},
    "soft lockup": {**WATCHED, f"{K}/watchdog_cpumask": "0,2-7"},
    "hyper-threading": {**SIBLINGS, f"{CPUS}/isolated": "1,5"},
    "qemu 900": vcpus("2", "3"),
    "microcode": {"proc/cpuinfo": "processor : 0\nmicrocode : 0x1\nprocessor : 1\nmicrocode : 0x1"},
    "iommu": {"sys/class/iommu/": ""},
}
FAILING: Mapping[str, tuple[Mapping[str, str], str]] = {
    "real-time limit": (
        {**LIMITED, "proc/100/task/101/stat": FIFO}, "sudo sysctl kernel.sched_rt_runtime_us=-1",
    ),
    "vm statistics": ({"proc/sys/vm/stat_interval": "1"}, "sudo sysctl vm.stat_interval=120"),
    "soft lockup": (WATCHED, "sudo sysctl kernel.watchdog_cpumask=0,2-7"),
    "hyper-threading": (
        SIBLINGS, "for c in 5; do echo 0 | sudo tee /sys/devices/system/cpu/cpu$c/online; done",
    ),
    "qemu 900": (vcpus("2-3", "1"), "sudo taskset -pc 2 901; sudo taskset -pc 3 902"),
    "microcode": (
        {"proc/cpuinfo": "processor : 0\nmicrocode : 0x1\nprocessor : 1\nmicrocode : 0x2"},
        "sudo apt-get install amd64-microcode",
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nftop.sources.tuning.kernel.time.sleep", lambda _: None)


@pytest.mark.parametrize("name", PASSING)
def test_a_host_that_passes(tmp_path: Path, name: str) -> None:
    result = checks(host(tmp_path, PASSING[name]), poller(1))[name]
    assert (result.state, result.fix) == ("ok", "")


@pytest.mark.parametrize("name", FAILING)
def test_a_host_that_does_not_and_the_command_that_mends_it(tmp_path: Path, name: str) -> None:
    files, fix = FAILING[name]
    result = checks(host(tmp_path, files), poller(1))[name]
    assert (result.state, result.fix) == ("tune", fix)
    assert result.why


def test_what_harms_only_polling_cores_is_no_advice_where_none_polls(tmp_path: Path) -> None:
    result = checks(host(tmp_path, FAILING["vm statistics"][0]))["vm statistics"]
    assert (result.state, result.fix) == ("idle", "")


@pytest.mark.parametrize("name", ["smi", "memory bandwidth"])
def test_a_guest_is_not_advised_of_what_it_can_not_count(tmp_path: Path, name: str) -> None:
    assert checks(host(tmp_path))[name].fix
    result = checks(host(tmp_path, {"proc/cpuinfo": "flags : hypervisor"}))[name]
    assert (result.state, result.fix) == ("hardware", "")


def test_a_limit_of_real_time_threads_harms_only_those(tmp_path: Path) -> None:
    host(tmp_path, {**LIMITED, "proc/100/task/101/stat": OTHER})
    assert checks(tmp_path, poller(1))["real-time limit"].state == "ok"


def test_the_mode_of_the_iommu_counts_for_the_kernels_nics(tmp_path: Path) -> None:
    link(host(tmp_path, NIC) / PCI / "iommu_group", "../../../kernel/iommu_groups/7")
    link(tmp_path / PCI / "driver", "../../drivers/ice")
    result = checks(tmp_path)["iommu"]
    assert result.state == "tune" and "the kernel with iommu=pt" in result.text
    assert not result.fix, "how it boots is unknown"
    host(tmp_path, {"proc/cmdline": "quiet iommu=soft,pt"})
    assert "booted with iommu=soft,pt" in checks(tmp_path)["iommu"].text
    host(tmp_path, {"sys/kernel/iommu_groups/7/type": "identity"})
    assert checks(tmp_path)["iommu"].state == "ok"


def test_vfio_without_an_iommu_is_not_isolated(tmp_path: Path) -> None:
    files = {f"{PCI}/class": "0x020000", "sys/class/iommu/": "", "proc/cpuinfo": SKX, **DEBIAN}
    link(host(tmp_path, files) / PCI / "driver", "../../drivers/vfio-pci")
    result = checks(tmp_path)["iommu"]
    assert result.state == "tune" and " intel_iommu=on iommu=pt" in result.fix
    host(tmp_path, {"proc/cpuinfo": SKX.replace("GenuineIntel", "AuthenticAMD")})
    result = checks(tmp_path)["iommu"]
    assert (result.state, result.fix) == ("tune", ""), "firmware has the switch"


def test_a_cpu_has_one_vcpu_of_all_machines(tmp_path: Path) -> None:
    host(tmp_path, vcpus("2", "4") | vcpus("4", "5", "5", pid=950))
    result = checks(tmp_path, poller(1))
    assert (result["qemu 900"].state, result["qemu 900"].fix) == ("tune", ""), "it may stay"
    assert result["qemu 900"].text.startswith("vCPU 1 shares its CPU")
    assert result["qemu 950"].state == "tune"
    assert result["qemu 950"].fix == "sudo taskset -pc 3 951; sudo taskset -pc 6 953"


def test_fixes_of_a_run_share_no_core(tmp_path: Path) -> None:
    host(tmp_path, {**SIBLINGS, **vcpus("0-7"), **vcpus("6", pid=950), f"{CPUS}/isolated": ""})
    first, second = poller(0, pinned=False), poller(4, tid=102, pinned=False)
    results = host_checks(tmp_path, read_topology(tmp_path), (first, second, poller(3, tid=103)))
    fixes = [check.fix for check in results if "taskset" in check.fix]
    assert fixes == ["sudo taskset -pc 1 101", "sudo taskset -pc 4 102"], "cores 2 and 3 are taken"
    (guest,) = [check for check in results if check.name == "host qemu 900"]
    assert guest.state == "tune" and guest.text.endswith("too few CPUs are free for them")


def smi_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, grows: bool) -> Check:
    """Of a CPU whose count is 70, and 73 a second later if it `grows`."""
    path = host(tmp_path) / "dev/cpu/0/msr"
    path.parent.mkdir(parents=True)

    def put(count: int) -> None:
        path.write_bytes(bytes(0x34) + count.to_bytes(8, "little"))

    put(70)
    monkeypatch.setattr(
        "nftop.sources.tuning.kernel.time.sleep", lambda _: put(73) if grows else None
    )
    return checks(tmp_path, poller(1))["smi"]


def test_interrupts_of_firmware(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calm = smi_of(tmp_path / "calm", monkeypatch, grows=False)
    assert calm.state == "ok" and calm.text.startswith("70 ")
    noisy = smi_of(tmp_path / "noisy", monkeypatch, grows=True)
    assert noisy.state == "tune" and ", 3 in" in noisy.text
    assert noisy.fix == "sudo perf stat -C 0 -e msr/smi/ -- sleep 60"
    absent = checks(host(tmp_path / "without"))["smi"]
    assert (absent.reason, absent.fix) == (Reason.SOURCE, "sudo modprobe msr")


@pytest.mark.parametrize(
    ("count", "speed", "state", "peak"),
    [(12, 2666, "ok", "128 GB/s"), (12, 2400, "tune", "115 GB/s"), (8, 2666, "tune", "85 GB/s")],
)
def test_what_memory_can_move(
    tmp_path: Path, count: int, speed: int, state: str, peak: str
) -> None:
    host(tmp_path, {"proc/cpuinfo": SKX})
    for path, raw in modules(count, speed).items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_bytes(raw)
    result = checks(tmp_path)["memory bandwidth"]
    assert result.state == state and result.text.startswith(peak)
    assert "mlc" in result.text and result.fix == (
        "" if state == "ok" else "sudo mlc --max_bandwidth"
    )


def test_what_is_unknown_has_a_reason(tmp_path: Path) -> None:
    names = ("real-time limit", "vm statistics", "soft lockup", "microcode")
    seen = checks(host(tmp_path))
    assert {seen[name].reason for name in names} == {Reason.HARDWARE}
    assert seen["qemu"].reason is Reason.IDLE
    assert seen["memory bandwidth"].reason is Reason.SOURCE
    host(tmp_path, {f"{K}/soft_watchdog": "1", f"{K}/watchdog_cpumask": "no"})
    assert checks(tmp_path)["soft lockup"].reason is Reason.ERROR
    host(tmp_path, {f"{K}/watchdog_cpumask": ""})
    assert checks(tmp_path, poller(1))["soft lockup"].reason is Reason.SOURCE
    (tmp_path / K / "watchdog_cpumask").unlink()
    assert checks(tmp_path, poller(1))["soft lockup"].reason is Reason.SOURCE


def test_no_quiet_polling_or_isolated_cpu_is_interrupted_for_its_smi_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host(tmp_path, {f"{CPUS}/isolated": "4", f"{CPUS}/nohz_full": "5"})
    opened: list[Cpu] = []

    def count(_: object, cpu: Cpu) -> int:
        opened.append(cpu)
        return 7

    monkeypatch.setattr("nftop.sources.tuning.kernel._smi_count", count)
    assert checks(tmp_path, poller(1), quiet=(0, 2, 3))["smi"].state == "ok"
    assert set(opened) == {7}
    opened.clear()
    busy = checks(tmp_path, *map(poller, (0, 1)), quiet=(2, 3, 6, 7))["smi"]
    assert busy.reason is Reason.SOURCE and not opened


def test_a_thread_of_a_real_time_policy_that_does_not_poll_is_not_blamed(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    host(tmp_path, {**LIMITED, "proc/100/task/101/stat": OTHER, "proc/100/task/102/stat": FIFO})
    assert checks(tmp_path, poller(1))["real-time limit"].state == "ok"
    two = checks(tmp_path, poller(1), poller(2, tid=102))["real-time limit"]
    assert two.state == "tune"
    assert two.text == snapshot
