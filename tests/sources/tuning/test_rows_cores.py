from __future__ import annotations

import struct
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Reason
from nftop.sources.host.topology import read_topology
from nftop.sources.tuning.checks import host_checks
from tests.sources.tuning.hosts import CPUS, DEBIAN, checks, every_cpu, host, poller


def test_cores_that_poll_are_to_be_isolated(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    host(tmp_path, {f"{CPUS}/isolated": "2-3", **DEBIAN})
    fine = checks(tmp_path, poller(2), poller(3))["isolation"]
    assert (fine.state, fine.fix) == ("ok", "")
    assert fine.text == snapshot
    assert "10.1: 1.3" in fine.why
    result = checks(tmp_path, poller(3), poller(5))["isolation"]
    assert result.state == "tune"
    assert result.text == snapshot
    assert ' isolcpus=2-3,5"' in result.fix


def test_isolation_by_control_groups_counts(tmp_path: Path) -> None:
    host(tmp_path, {f"{CPUS}/isolated": "", "sys/fs/cgroup/cpuset.cpus.isolated": "5-6"})
    assert checks(tmp_path, poller(5))["isolation"].state == "ok"


def test_without_pollers_the_state_is_reported(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    result = checks(host(tmp_path, {f"{CPUS}/isolated": "2-3"}))["isolation"]
    assert (result.reason, result.fix) == (Reason.IDLE, "")
    assert result.text == snapshot
    (tmp_path / CPUS / "isolated").unlink()
    assert checks(tmp_path)["isolation"].reason is Reason.SOURCE


def test_a_poller_that_is_not_pinned_is_named(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    host(tmp_path, {f"{CPUS}/isolated": "2-3"})
    roaming = poller(5, pinned=False)
    first, second, *_ = host_checks(tmp_path, read_topology(tmp_path), (roaming,))
    assert first.text == snapshot
    assert (second.name, second.state) == ("host isolation", "tune")
    assert second.text == snapshot
    compiler = poller(5, pinned=False, kind="")
    result = host_checks(tmp_path, read_topology(tmp_path), (compiler,))
    assert [check.name for check in result].count("host isolation") == 1


def test_the_tick(tmp_path: Path) -> None:
    host(tmp_path)
    assert checks(tmp_path, poller(5))["tick"].reason is Reason.HARDWARE
    host(tmp_path, {f"{CPUS}/nohz_full": "  (null)"})
    unknown = checks(tmp_path, poller(5))["tick"]
    assert not unknown.fix and "nohz_full=5" in unknown.text
    host(tmp_path, {"usr/sbin/grubby": ""})
    assert checks(tmp_path, poller(5))["tick"].fix == (
        'sudo grubby --update-kernel=ALL --args="nohz_full=5"'
    )
    host(tmp_path, {**DEBIAN, "etc/default/grub.d/": ""})
    drop_in = "/etc/default/grub.d/99-nftop-nohz_full.cfg"
    fix = checks(tmp_path, poller(5))["tick"].fix
    assert fix.endswith(f" | sudo tee {drop_in} && sudo update-grub")
    host(tmp_path, {f"{CPUS}/nohz_full": "4-7"})
    assert checks(tmp_path, poller(5))["tick"].state == "ok"


@pytest.mark.parametrize(
    ("line", "nohz_full", "state"),
    [
        ("quiet rcu_nocbs=4-7", "", "ok"),
        ("rcu_nocbs=all", "", "ok"),
        ("rcu_nocbs=4-N", "", "ok"),
        ("rcu_nocbs=1-3 quiet", "", "tune"),
        ("quiet", "5", "ok"),  # the kernel adds those without a tick
        ("quiet", "", "tune"),
        ("rcu_nocbs quiet", "", "tune"),  # without a list: none until cpusets name some
        ("rcu_nocbs=sixty", "", "error"),
    ],
)
def test_callbacks(tmp_path: Path, line: str, nohz_full: str, state: str) -> None:
    host(tmp_path, {"proc/cmdline": f"BOOT_IMAGE=/vmlinuz {line}", f"{CPUS}/nohz_full": nohz_full})
    assert checks(tmp_path, poller(5))["rcu"].state == state


def test_callbacks_of_which_nothing_is_known(tmp_path: Path) -> None:
    assert checks(host(tmp_path), poller(5))["rcu"].reason is Reason.SOURCE


STATES = {
    "cpuidle/state0/name": "POLL", "cpuidle/state0/latency": "0", "cpuidle/state0/disable": "0",
    "cpuidle/state1/name": "C1E", "cpuidle/state1/latency": "10", "cpuidle/state1/disable": "0",
    "cpuidle/state2/name": "C6", "cpuidle/state2/latency": "133", "cpuidle/state2/disable": "0",
    "power/pm_qos_resume_latency_us": "0",
}  # fmt: skip


def test_deep_states_are_named_with_what_they_cost(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    result = checks(host(tmp_path, every_cpu(STATES)), poller(5))["c-states"]
    assert result.state == "tune"
    assert result.text == snapshot
    assert result.fix == "sudo cpupower -c 5 idle-set -D 133"
    everywhere = checks(tmp_path)["c-states"]
    assert everywhere.text.startswith("CPU 0-7 may sleep"), "of nobody in particular"


def test_a_deep_state_that_is_disabled_on_the_core_that_polls(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    disabled = {f"{CPUS}/cpu5/cpuidle/state2/disable": "1"}
    result = checks(host(tmp_path, every_cpu(STATES) | disabled), poller(5))["c-states"]
    assert (result.state, result.text) == snapshot


@pytest.mark.parametrize(("limit", "state"), [("50", "C1E"), ("n/a", "POLL"), ("200", "C6")])
def test_a_limit_for_one_cpu_is_heeded(tmp_path: Path, limit: str, state: str) -> None:
    files = every_cpu(STATES | {"power/pm_qos_resume_latency_us": limit})
    assert f"as deep as {state}," in checks(host(tmp_path, files), poller(5))["c-states"].text


@pytest.mark.parametrize(("request_us", "state"), [(2_000_000_000, "tune"), (10, "ok"), (0, "ok")])
def test_what_programs_ask_for_all_cpus_is_heeded(
    tmp_path: Path, request_us: int, state: str, snapshot: SnapshotAssertion
) -> None:
    host(tmp_path, every_cpu(STATES))
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/cpu_dma_latency").write_bytes(struct.pack("=i", request_us))
    result = checks(tmp_path, poller(5))["c-states"]
    assert result.state == state
    assert result.text == snapshot


def test_without_idle_states(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    result = checks(host(tmp_path, {f"{CPUS}/cpuidle/current_driver": "none"}))["c-states"]
    assert result.reason is Reason.HARDWARE
    assert result.text == snapshot
