"""All checks together: on trees of real hosts, where they fail, and what they leave as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Reason
from nftop.model.topology import Topology
from nftop.sources.host.topology import read_topology
from nftop.sources.tuning import checks as checks_module
from nftop.sources.tuning.checks import ROWS, HostCheck, host_checks
from nftop.sources.tuning.inputs import CheckInputs, HostFinding
from tests.sources.trees import unpack
from tests.sources.tuning.hosts import checks, host, poller

# Beside the project or beside its parent: trees of real hosts, which are others' and not copied.
FOLDERS = [parent / "shared/reference/sysfs" for parent in Path(__file__).resolve().parents]
FOLDER = next((folder for folder in FOLDERS if folder.is_dir()), None)
needs_trees = pytest.mark.skipif(FOLDER is None, reason="shared/reference/sysfs is absent")


def test_names_and_reasons_are_every_row_s_own() -> None:
    assert len({row.name for row in ROWS}) == len({row.why for row in ROWS}) == len(ROWS) == 24
    assert all("paper" in row.why or ".rst" in row.why for row in ROWS)


def test_a_host_that_reports_nothing_is_a_reason_everywhere(tmp_path: Path) -> None:
    result = host_checks(tmp_path, read_topology(tmp_path))
    assert {check.name for check in result} == {f"host {row.name}" for row in ROWS}
    assert all(check.reason is not Reason.PRESENT for check in result)
    assert not [check for check in result if check.reason is Reason.ERROR]


def test_a_check_that_fails_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    def broken(_: CheckInputs) -> tuple[HostFinding, ...]:
        raise RuntimeError("no such luck")

    monkeypatch.setattr(checks_module, "ROWS", (HostCheck("broken", "it matters", broken), *ROWS))
    first, *others = host_checks(tmp_path, Topology(()))
    assert first.reason is Reason.ERROR
    assert first.text == snapshot
    assert len(others) == len(ROWS)


def test_what_can_t_be_read_is_reported_where_it_was_wanted(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    """A folder in a file's place can't be read by anybody, root included."""
    host(tmp_path)
    (tmp_path / "proc/cmdline").mkdir(parents=True)
    result = checks(tmp_path, poller(5))
    assert result["rcu"].text == snapshot
    assert "cmdline" not in result["isolation"].text


def test_nothing_is_written(tmp_path: Path) -> None:
    host(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    for path in before:
        path.chmod(0o555 if path.is_dir() else 0o444)
    host_checks(tmp_path, read_topology(tmp_path), (poller(5),))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@needs_trees
@pytest.mark.parametrize(
    ("archive", "tree", "expected"),
    [
        (
            "nri-sysfs-sample2-112cpu.tar.xz",
            "sample2",
            {
                "isolation": ("tune", "CPU 30; CPU 4-7,60-63 are isolated"),
                "tick": ("tune", "none is without a tick"),
                "c-states": ("tune", "CPU 5,30 may sleep as deep as C6, 133 us"),
                "turbo": ("tune", "up to 4.00 GHz, 2.70 GHz is guaranteed"),
                "governor": ("tune", "CPU 5,30: powersave, 1.00 to 4.00 GHz"),
                "huge pages": ("tune", "poll on node 1, 2"),
                "clusters": ("ok", "package 0 is divided into nodes 0, 2; package 1 is"),
            },
        ),
        (
            "nri-topologyaware-sysfs-desktop-server-4socket.tar.bz2",
            "sysfs/4-socket-server-nosnc",
            {
                "isolation": ("tune", "CPU 5,30; none is isolated"),
                "turbo": ("tune", "turbo is on: up to 3.70 GHz"),
                "governor": ("tune", "CPU 5,30: powersave, 1.00 to 3.70 GHz"),
                "clusters": ("ok", "sub-NUMA clustering is off"),
            },
        ),
    ],
)
def test_real_hosts(
    tmp_path: Path, archive: str, tree: str, expected: dict[str, tuple[str, str]]
) -> None:
    assert FOLDER is not None
    unpack(FOLDER / archive, tmp_path, tree, READ)
    result = checks(tmp_path / tree, poller(5), poller(30))
    for name, (state, text) in expected.items():
        assert result[name].state == state, name
        assert text in result[name].text


# What the checks and the topology read, of CPUs that poll all of it: the trees are of 60,000 files.
READ = (
    r"/cpu/(present|online|isolated|nohz_full|intel_pstate/.*|cpu\d+/topology/(\w+_id|\w+_list))$"
    r"|/cpu/cpu(5|30)/(cpufreq|cpuidle/.*|power/pm_qos.*)$|/cpu/cpufreq/policy(5|30)/.*"
    r"|/node/node\d+/(cpulist|hugepages/.*)$"
)
