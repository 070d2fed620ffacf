from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Reason
from tests.sources.tuning.hosts import CPUS, checks, host, poller


@pytest.mark.parametrize(("text", "state"), [("0", "ok"), ("1", "tune")])
def test_the_watchdog(tmp_path: Path, text: str, state: str) -> None:
    result = checks(host(tmp_path, {"proc/sys/kernel/nmi_watchdog": text}))["nmi watchdog"]
    assert result.state == state
    assert result.fix == ("sudo sysctl kernel.nmi_watchdog=0" if state == "tune" else "")


def test_no_watchdog(tmp_path: Path) -> None:
    assert checks(host(tmp_path))["nmi watchdog"].reason is Reason.HARDWARE


def test_irqbalance(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    host(tmp_path, {"proc/1/comm": "systemd", "proc/77/comm": "bash"})
    assert checks(tmp_path)["irqbalance"].text == snapshot
    host(tmp_path, {"proc/78/comm": "irqbalance"})
    result = checks(tmp_path)["irqbalance"]
    assert result.state == "tune"
    assert "process 78" in result.text
    assert "systemctl disable --now irqbalance" in result.fix


def irq(number: int, cpus: str, *handlers: str, effective: bool = True) -> dict[str, str]:
    name = "effective_affinity_list" if effective else "smp_affinity_list"
    folders = {f"proc/irq/{number}/{handler}/": "" for handler in handlers}
    return {f"proc/irq/{number}/{name}": cpus, f"proc/irq/{number}/node": "0"} | folders


def test_interrupts_on_cores_that_poll(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    host(tmp_path, irq(24, "0", "nvme0q0") | irq(25, "5", "eth0-rx") | irq(26, "5") | irq(27, "6"))
    result = checks(tmp_path, poller(5))["interrupts"]
    assert result.state == "tune"
    assert result.text == snapshot
    assert result.fix == snapshot
    # Nobody handles 27.
    assert checks(tmp_path, poller(6))["interrupts"].state == "ok"
    assert checks(tmp_path)["interrupts"].reason is Reason.IDLE


def test_older_kernels_report_only_where_an_interrupt_may_go(tmp_path: Path) -> None:
    host(tmp_path, irq(25, "0-7", "eth0-rx", effective=False))
    assert checks(tmp_path, poller(5))["interrupts"].state == "tune"


def test_many_interrupts_are_counted(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    host(tmp_path, {k: v for n in range(30, 37) for k, v in irq(n, "5", "eth0").items()})
    result = checks(tmp_path, poller(5))["interrupts"]
    assert result.text == snapshot
    assert "30 31 32 33 34 35 36;" in result.fix


def test_interrupts_go_to_no_protected_cpu(tmp_path: Path) -> None:
    quiet = {2}
    apart = {f"{CPUS}/isolated": "6", f"{CPUS}/nohz_full": "7"}
    apart |= {"sys/fs/cgroup/cpuset.cpus.isolated": "4"}
    apart |= {f"{CPUS}/cpu{cpu}/topology/core_cpus_list": "1,5" for cpu in (1, 5)}
    host(tmp_path, irq(25, "5", "eth0") | apart)
    result = checks(tmp_path, poller(5), quiet=quiet)["interrupts"]
    assert result.fix == "for i in 25; do echo 0,3 | sudo tee /proc/irq/$i/smp_affinity_list; done"
    none = checks(tmp_path, poller(5), quiet={0, *quiet, 3})["interrupts"]
    assert (none.state, none.fix) == ("tune", "")
