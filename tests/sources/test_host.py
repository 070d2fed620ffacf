from __future__ import annotations

from pathlib import Path

from nftop.model.reading import Missing, Reason
from nftop.model.topology import Topology
from nftop.sources.host import TopologySource


def tree(root: Path, present: str, online: str) -> None:
    folder = root / "sys/devices/system/cpu"
    for cpu in (0, 1):
        (folder / f"cpu{cpu}").mkdir(parents=True, exist_ok=True)
    (folder / "present").write_text(present + "\n")
    (folder / "online").write_text(online + "\n")


def test_a_cpu_that_comes_online_is_looked_at(tmp_path: Path) -> None:
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
