from __future__ import annotations

from pathlib import Path

from nftop.model.missing import Missing, Reason
from nftop.model.topology import Topology
from nftop.sources.host.topology import TopologySource
from tests.sources.trees import write_tree


def tree(root: Path, present: str, online: str) -> None:
    write_tree(
        root, {"cpu/cpu0/": "", "cpu/cpu1/": "", "cpu/present": present, "cpu/online": online}
    )


def test_a_cpu_that_comes_online_is_observed(tmp_path: Path) -> None:
    tree(tmp_path, "0-1", "0")
    source = TopologySource(tmp_path)
    first = source.read()
    again = source.read()
    assert isinstance(first, Topology) and first is again
    assert [info.online for info in first.cpus] == [True, False]
    tree(tmp_path, "0-1", "0-1")
    after = source.read()
    assert isinstance(after, Topology)
    assert [info.online for info in after.cpus] == [True, True]
    source.close()
    source.close()


def test_a_host_without_sysfs_is_a_reason(tmp_path: Path) -> None:
    source = TopologySource(tmp_path)
    nothing = source.read()
    assert isinstance(nothing, Missing) and nothing.reason is Reason.SOURCE
    (check,) = source.check()
    assert check.reason is Reason.ERROR
