"""Every row of the doctor: a host that passes, one that does not, and a fix that is a command."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from nftop.model.check import Check
from nftop.sources.host.topology import read_topology
from nftop.sources.tuning.checks import ROWS
from nftop.sources.tuning.inputs import CheckInputs, Poller, kernel_parameters, pinning
from tests.shell import assert_command, run_as_root
from tests.sources.trees import put
from tests.sources.tuning import test_devices_memory as memory
from tests.sources.tuning import test_devices_nics as nics
from tests.sources.tuning import test_kernel as kernel
from tests.sources.tuning.hosts import CPUS, DEBIAN, NODES, checks, every_cpu, host, poller
from tests.sources.tuning.test_rows_cores import STATES
from tests.sources.tuning.test_rows_noise import irq

Fixture = Mapping[str, str] | Callable[[Path], None]
CLOCK = "sys/devices/system/clocksource/clocksource0"
DIVIDED = {f"{NODES}/node0/cpulist": "0-1", f"{NODES}/node2/cpulist": "2-3"}


def _nic(root: Path, *, node: str = "0", payload: int = 256, reads: int = 4096) -> None:
    nics.nic(root, node=node, raw=nics.config(payload=payload, reads=reads))
    nics.holds(root, 100, "/dev/vfio/12")


def _modules(root: Path, speed: int) -> None:
    host(root, {"proc/cpuinfo": kernel.SKX})
    for path, raw in kernel.modules(12, speed).items():
        (root / path).parent.mkdir(parents=True)
        (root / path).write_bytes(raw)


def _vfio(root: Path, *, on: bool) -> None:
    nics.nic(root)
    put(root, {"proc/cpuinfo": kernel.SKX})
    (root / "sys/class/iommu" / ("dmar0" if on else "")).mkdir(parents=True)


def _short_payload(root: Path) -> None:
    nics.nic(root, raw=nics.config(payload=128, limit=128))


def _amd(root: Path) -> None:
    _vfio(root, on=False)
    put(root, {"proc/cpuinfo": kernel.SKX.replace("GenuineIntel", "AuthenticAMD")})


def _smi(root: Path, count: int) -> None:
    (root / "dev/cpu/0").mkdir(parents=True)
    (root / "dev/cpu/0/msr").write_bytes(bytes(0x34) + count.to_bytes(8, "little"))


# By row: a host that passes, one that does not. CPUs 1 and 3 poll on each.
FIXTURES: Mapping[str, tuple[Fixture, Fixture]] = {
    "isolation": ({f"{CPUS}/isolated": "1,3"}, {f"{CPUS}/isolated": "2"}),
    "tick": ({f"{CPUS}/nohz_full": "1,3"}, {f"{CPUS}/nohz_full": "2"}),
    "rcu": ({"proc/cmdline": "rcu_nocbs=all"}, {"proc/cmdline": "quiet rcu_nocbs=2"}),
    "c-states": (every_cpu({**STATES, "cpuidle/state2/disable": "1"}), every_cpu(STATES)),
    "turbo": ({f"{CPUS}/cpufreq/boost": "0"}, {f"{CPUS}/cpufreq/boost": "1"}),
    "governor": (
        every_cpu({"cpufreq/scaling_governor": "performance"}),
        every_cpu({"cpufreq/scaling_governor": "powersave"}),
    ),
    "clock source": (
        {f"{CLOCK}/current_clocksource": "tsc"}, {f"{CLOCK}/current_clocksource": "hpet"},
    ),
    "huge pages": (
        memory.pages(0, 2048, 8, 8), memory.pages(0, 2048, 0, 0) | memory.pages(1, 2048, 0, 0),
    ),
    "memory channels": (memory.edac(0, 16384, 16384), memory.edac(0, 16384, 0)),
    "clusters": ({}, DIVIDED),
    "nic": (_nic, lambda root: _nic(root, node="1")),
    "nic link": (_nic, lambda root: _nic(root, payload=128, reads=128)),
    "nmi watchdog": ({"proc/sys/kernel/nmi_watchdog": "0"}, {"proc/sys/kernel/nmi_watchdog": "1"}),
    "irqbalance": ({"proc/7/comm": "bash"}, {"proc/7/comm": "irqbalance"}),
    "interrupts": (irq(24, "0", "nvme0q0"), irq(24, "3", "nvme0q0")),
    "real-time limit": (kernel.PASSING["real-time limit"], kernel.FAILING["real-time limit"][0]),
    "vm statistics": (kernel.PASSING["vm statistics"], kernel.FAILING["vm statistics"][0]),
    "soft lockup": ({**kernel.WATCHED, f"{kernel.K}/watchdog_cpumask": "0,2,4"}, kernel.WATCHED),
    "iommu": (lambda root: _vfio(root, on=True), lambda root: _vfio(root, on=False)),
    "smi": (lambda root: _smi(root, 70), lambda root: _smi(root, 70)),
    "hyper-threading": (
        {**kernel.SIBLINGS, f"{CPUS}/isolated": "1,3,5,7"}, kernel.FAILING["hyper-threading"][0],
    ),
    "qemu": (kernel.vcpus("2", "4"), kernel.vcpus("0-7")),
    "microcode": (kernel.PASSING["microcode"], kernel.FAILING["microcode"][0]),
    "memory bandwidth": (lambda root: _modules(root, 2666), lambda root: _modules(root, 2400)),
}  # fmt: skip
POLLERS: tuple[Poller, ...] = (poller(1), poller(3, tid=102))


def result_of(
    name: str, root: Path, fixture: Fixture, pollers: tuple[Poller, ...] = POLLERS
) -> list[Check]:
    host(root, fixture if isinstance(fixture, Mapping) else None)
    if callable(fixture):
        fixture(root)
    result = checks(root, *pollers)
    longer = [other.name for other in ROWS if other.name.startswith(f"{name} ")]
    return [
        check
        for key, check in result.items()
        if (key == name or key.startswith(f"{name} ")) and not key.startswith(tuple(longer))
    ]


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def grow(_: float) -> None:
        msr = tmp_path / "fails/dev/cpu/0/msr"
        if msr.exists():
            _smi_count = (73).to_bytes(8, "little")
            msr.write_bytes(bytes(0x34) + _smi_count)

    monkeypatch.setattr("nftop.sources.tuning.kernel.time.sleep", grow)


def test_every_row_has_its_fixtures() -> None:
    assert FIXTURES.keys() == {row.name for row in ROWS}


@pytest.mark.parametrize("name", FIXTURES)
def test_a_row_passes_fails_and_has_a_command(name: str, tmp_path: Path) -> None:
    passes, fails = FIXTURES[name]
    put(tmp_path / "fails", DEBIAN)
    assert {check.state for check in result_of(name, tmp_path / "passes", passes)} == {"ok"}
    broken = [item for item in result_of(name, tmp_path / "fails", fails) if item.state == "tune"]
    assert broken and all(item.why for item in broken)
    for item in broken:
        assert_command(item.fix)


def _smp(root: Path) -> None:
    """Interrupts as an older kernel shows them: the newer one's effective CPUs follow by itself."""
    host(root, irq(24, "3", "nvme0q0", effective=False) | irq(31, "1", "eth0", effective=False))


ONE_THREAD = {f"{CPUS}/cpu{cpu}/online": "1" for cpu in range(1, 8)}
AVAILABLE = {f"{CLOCK}/current_clocksource": "hpet", f"{CLOCK}/available_clocksource": "tsc hpet"}
# Rows whose fix only writes to /proc and /sys; instead of the fixture, a host on which it does.
WRITTEN: Mapping[str, Fixture | None] = {
    "turbo": None, "clock source": AVAILABLE, "huge pages": None, "nmi watchdog": None,
    "interrupts": _smp, "real-time limit": None, "vm statistics": None, "soft lockup": None,
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_a_fix_mends_its_row_as_printed(name: str, tmp_path: Path) -> None:
    """On a tree in place of /proc and /sys; sysctl writes there as sysctl(8) says.

    Threads poll on both nodes.
    """
    root = tmp_path / "fails"
    fixture = WRITTEN[name] or FIXTURES[name][1]
    pollers = (*POLLERS, poller(5, tid=103))
    (broken,) = (item for item in result_of(name, root, fixture, pollers) if item.state == "tune")
    done = run_as_root(
        re.sub(r"(?<=[ ])/(?=proc/|sys/)", f"{root}/", broken.fix),
        tmp_path / "bin",
        sysctl=f'name="${{1%%=*}}"; echo "${{1#*=}}" > {root}/proc/sys/$(echo "$name" | tr . /)',
    )
    assert done.returncode == 0, (broken.fix, done.stderr)
    assert {check.state for check in result_of(name, root, {}, pollers)} == {"ok"}


# Hosts on which no command helps; the text says what does.
UNMENDED: Mapping[str, Fixture] = {
    "nic link": _short_payload,
    "iommu": _amd,
    "interrupts": {**irq(24, "3", "nvme0q0"), f"{CPUS}/isolated": "0-7"},
    "qemu": kernel.vcpus("0-7", "0-7", "0-7", "0-7", "0-7", "0-7", "0-7"),
    "tick": {f"{CPUS}/nohz_full": "2"},
}


@pytest.mark.parametrize("name", UNMENDED)
def test_what_no_command_mends_has_none(name: str, tmp_path: Path) -> None:
    broken = [item for item in result_of(name, tmp_path, UNMENDED[name]) if item.state == "tune"]
    assert broken and not [item.fix for item in broken if item.fix]


def test_siblings_are_taken_offline_as_printed(tmp_path: Path) -> None:
    root = tmp_path / "fails"
    fixture = FIXTURES["hyper-threading"][1]
    assert isinstance(fixture, Mapping)
    (broken,) = result_of("hyper-threading", root, {**fixture, **ONE_THREAD})
    done = run_as_root(broken.fix.replace(" /sys/", f" {root}/sys/"), tmp_path / "bin")
    assert done.returncode == 0, done.stderr
    off = {cpu for cpu in range(1, 8) if (root / CPUS / f"cpu{cpu}/online").read_text() == "0\n"}
    assert off == {5, 7}, "siblings of 1 and 3"


def booted(fix: str, folder: Path, grub: str) -> tuple[str, str]:
    """Words of the kernel and of Xen after a command as printed, as grub-mkconfig reads them."""
    at = folder / "default"
    (at / "grub.d").mkdir(parents=True, exist_ok=True)
    (at / "grub").write_text(grub)
    script = f"for x in {at}/grub {at}/grub.d/*.cfg; do . $x; done; echo > {folder}/words "
    script += '"$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT|$GRUB_CMDLINE_XEN"'
    command = fix.replace("/etc/default", str(at))
    assert "/etc" not in command
    done = run_as_root(command, folder / "bin", **{"update-grub": script})
    assert done.returncode == 0, done.stderr
    kernel, _, xen = (folder / "words").read_text().partition("|")
    return " ".join(kernel.split()), xen.strip()


PARAMETERS = {"isolation": "isolcpus=1-3", "tick": "nohz_full=1-3", "rcu": "rcu_nocbs=1-3",
              "iommu": "intel_iommu=on iommu=pt"}  # fmt: skip


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_given_to_the_kernel_as_printed(name: str, tmp_path: Path) -> None:
    root = tmp_path / "fails"
    host(root, DEBIAN)
    (broken,) = (item for item in result_of(name, root, FIXTURES[name][1]) if item.fix)
    words, _ = booted(broken.fix, tmp_path, 'GRUB_CMDLINE_LINUX="quiet"\n')
    assert words == f"quiet {PARAMETERS[name]}" and "after a reboot" in broken.text
    # Once more, and after a boot: nothing is left to do.
    assert booted(broken.fix, tmp_path, 'GRUB_CMDLINE_LINUX="quiet"\n')[0] == words
    put(root, {"proc/cmdline": words})
    assert not [item for item in result_of(name, root, {}) if item.fix]

    root = tmp_path / "unknown"
    host(root, {"usr/sbin/update-grub": "", "usr/sbin/grub-mkconfig": "", "proc/cmdline": "quiet"})
    unknown = [item for item in result_of(name, root, FIXTURES[name][1]) if item.state == "tune"]
    assert [item.fix for item in unknown] == [""] and PARAMETERS[name] in unknown[0].text
    root = tmp_path / "grubby"
    host(root, {"usr/sbin/grubby": ""})
    (broken,) = (item for item in result_of(name, root, FIXTURES[name][1]) if item.fix)
    done = run_as_root(broken.fix, tmp_path / "bin", grubby='echo "$2"')
    assert (done.returncode, done.stdout) == (0, f"--args={PARAMETERS[name]}\n")


XEN = """
GRUB_CMDLINE_LINUX_DEFAULT="quiet nohz_full=9"
GRUB_CMDLINE_LINUX="nohz_full=2 isolcpus=2"
GRUB_CMDLINE_XEN="nohz_full=7 iommu=force"
"""


@pytest.mark.parametrize(
    ("grub", "name", "cmdline", "expected"),
    [
        ("GRUB_CMDLINE_LINUX='quiet nohz_full=2'", "tick", "", ("quiet nohz_full=1-3", "")),
        ("GRUB_TIMEOUT=1", "tick", "", ("nohz_full=1-3", "")),
        (
            XEN, "tick", "nohz_full=2",
            ("isolcpus=2 nohz_full=1-3 quiet", "nohz_full=7 iommu=force"),
        ),
        (
            'GRUB_CMDLINE_LINUX="isolcpus=managed_irq,domain,2"', "isolation",
            "quiet isolcpus=managed_irq,domain,2", ("isolcpus=managed_irq,domain,1-3", ""),
        ),
        (
            'GRUB_CMDLINE_LINUX="isolcpus=nohz,2"', "isolation", "isolcpus=nohz,2",
            ("isolcpus=nohz,domain,1-3", ""),
        ),
        (
            'GRUB_CMDLINE_LINUX="pci=realloc,noaer,pcie_bus_safe"', "nic link",
            "pci=realloc,noaer,pcie_bus_safe", ("pci=realloc,noaer,pcie_bus_perf", ""),
        ),
    ],
)  # fmt: skip
def test_parameters_replace_no_others(
    grub: str, name: str, cmdline: str, expected: tuple[str, str], tmp_path: Path
) -> None:
    root = tmp_path / "fails"
    host(root, {**DEBIAN, "proc/cmdline": cmdline})
    (broken,) = (item for item in result_of(name, root, FIXTURES[name][1]) if item.state == "tune")
    fix = broken.fix[broken.fix.index("sudo mkdir") :]  # of the NIC setpci is the first
    assert booted(fix, tmp_path, grub) == expected


def test_a_parameter_with_a_word_for_a_shell_has_no_command(tmp_path: Path) -> None:
    host(tmp_path, {**DEBIAN, "proc/cmdline": "pci=$(reboot)"})
    note, fix = kernel_parameters(tmp_path, pci="pcie_bus_perf")
    assert not fix and "pci=$(reboot),pcie_bus_perf" in note


def test_threads_are_pinned_as_printed(tmp_path: Path) -> None:
    """A real thread on a CPU of this machine, by taskset(1)."""
    inputs = CheckInputs(Path("/"), read_topology(Path("/")))
    if not inputs.free_cpus or inputs.free_cpus[0] not in os.sched_getaffinity(0):
        pytest.skip("the first free CPU is not this process's")
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            fix = pinning(inputs, [process.pid])
            assert run_as_root(fix, tmp_path).returncode == 0
            (cpu,) = os.sched_getaffinity(process.pid)
            assert cpu == inputs.free_cpus[0]
        finally:
            process.kill()


# Rows whose fix needs what is not here (a program, hardware, a reboot) or stops a service; of those
# with other commands it is run above.
NOT_RUN = frozenset(
    ("c-states", "governor", "memory channels", "clusters", "nic link", "irqbalance", "smi",
     "microcode", "memory bandwidth")
)  # fmt: skip
RUN = frozenset(
    (*WRITTEN, "hyper-threading", "isolation", "tick", "rcu", "iommu", "nic", "qemu")
)  # the last two pin threads


def test_it_is_known_of_every_row_whether_its_fix_was_run() -> None:
    assert FIXTURES.keys() == RUN | NOT_RUN and not RUN & NOT_RUN
