"""On which CPU counters are read: as each kernel chooses, and where nftop can choose itself."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from nftop.model.ids import Cpu
from nftop.model.topology import Topology
from nftop.sources.resctrl.monitor import CacheReader, choose_reader, queues
from tests.sources.resctrl.trees import HOST


def _with(nohz_full: Collection[int] = (), offline: Collection[int] = ()) -> Topology:
    return Topology(
        tuple(
            replace(info, nohz_full=info.cpu in nohz_full, online=info.cpu not in offline)
            for info in HOST.cpus
        )
    )


def test_a_reader_next_to_the_cache_disturbs_nobody_on_older_kernels() -> None:
    assert choose_reader(1, HOST, {0, 3, 6}, queued=False) == CacheReader(
        Cpu(3), frozenset({Cpu(3), Cpu(6)})
    )
    assert choose_reader(1, HOST, {0, 4}, queued=False) == CacheReader(Cpu(2)), (
        "else it is the first"
    )
    assert choose_reader(1, _with(offline={2}), {0}, queued=False) == CacheReader(Cpu(3))


def test_newer_kernels_take_the_first_that_is_not_nohz_full() -> None:
    assert choose_reader(1, HOST, {3}, queued=True) == CacheReader(Cpu(2))
    assert choose_reader(1, _with(nohz_full={2, 3}), {3}, queued=True) == CacheReader(Cpu(6))
    every = {2, 3, 6, 7}
    assert choose_reader(1, _with(nohz_full=every), {3}, queued=True) == CacheReader(
        Cpu(3), frozenset({Cpu(3)})
    )
    assert choose_reader(1, _with(nohz_full=every), {0}, queued=True) == CacheReader(Cpu(2))


def test_a_cache_that_is_not_known() -> None:
    assert choose_reader(9, HOST, {0}, queued=True) == CacheReader(None)


@pytest.mark.parametrize(
    ("release", "expected"),
    [("6.1.0-44-amd64", False), ("6.8.12", False), ("6.9", True), ("6.12.3", True),
     ("7.2.13+deb14-amd64", True), ("5.15.0", False), ("10.0", True), ("strange", True)],
)  # fmt: skip
def test_the_kernels_release(tmp_path: Path, release: str, expected: bool) -> None:
    file = tmp_path / "proc/sys/kernel/osrelease"
    file.parent.mkdir(parents=True)
    file.write_text(f"{release}\n")
    assert queues(tmp_path) is expected


def test_a_kernel_that_reports_no_release(tmp_path: Path) -> None:
    assert queues(tmp_path)
