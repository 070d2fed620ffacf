"""OVS 3.5 and 4.0 in debootstrapped Debians, with dummy devices and with DPDK.

`make newer-ovs`; it downloads two Debians, so it is not part of CI. 4.0 counts no busy cycles: what
its pmd-rxq-show says of its queues stands in for them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nftop.sources.ovs.source import OvsSource
from tests.real.ovs import DPDK, PLAIN, Ovs, dpdk_ovs, dummy_ovs
from tests.real.test_batch import nftop
from tests.real.test_newer import mounted
from tests.real.test_ovs import counts_exactly, measures_alike, told, working

pytestmark = [
    pytest.mark.newer,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root"),
    pytest.mark.skipif(
        "NFTOP_NEWER_OVS" not in os.environ, reason="make newer-ovs asks for it; it fetches Debians"
    ),
]

# Each Debian is a folder of this name and the suite's; it is made once and kept.
ROOTS = os.environ.get("NFTOP_NEWER_OVS", "/nonexistent")
# Null devices are among librte-meta-net; the other two are for memory pools, and what 4.0 asks for.
PACKAGES = (
    "openvswitch-switch,openvswitch-switch-dpdk,librte-meta-net,librte-meta-mempool,librte-meta-bus"
)


@pytest.fixture(scope="module", params=["trixie", "sid"])
def enter(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """What a command is run by, to be run in that Debian."""
    root = Path(f"{ROOTS}-{request.param}")
    if not (root / DPDK.lstrip("/")).exists():
        assert shutil.which("debootstrap"), "debootstrap is missing (apt-get install debootstrap)"
        command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", request.param]
        subprocess.run([*command, root], check=True)
    with mounted(root):
        yield ["chroot", str(root)]


def release(ovs: Ovs) -> tuple[int, int]:
    found = re.search(r"\) (\d+)\.(\d+)", ovs.appctl("version"))
    assert found
    return int(found[1]), int(found[2])


def test_every_packet_put_in_is_in_one_frame_and_in_no_other(enter: list[str]) -> None:
    with dummy_ovs(PLAIN, enter) as ovs:
        counts_exactly(ovs)
        print(f"OVS {release(ovs)}: {ovs.counts()['Rx packets']} packets")


def test_packets_and_cycles_per_packet_are_those_of_ovs(enter: list[str]) -> None:
    with dpdk_ovs(DPDK, enter) as ovs:
        print(f"OVS {release(ovs)}")
        measures_alike(ovs)


def test_how_busy_it_was_is_its_cycles_or_the_shares_of_its_queues(enter: list[str]) -> None:
    with dpdk_ovs(DPDK, enter) as ovs, closing(OvsSource(deadline_s=60)) as source:
        exact = release(ovs) < (4, 0)
        with nftop("-d", "1") as frames:
            rows = (frame["cpus"][1] for _, frame in told(frames, ovs))
            # Where others want its CPU too, what of its time was work can't be told.
            row = next(row for row in rows if row["busy_ratio"] is not None)
        (pmd,) = working(source, ovs).pmds
        assert (pmd.busy_cycles is not None) is exact
        shown = ovs.appctl("dpif-netdev/pmd-rxq-show", "-secs", "5")
        shares = [int(each) / 100 for each in re.findall(r":\s+(\d+) %", shown)]
        print(f"OVS {release(ovs)}: busy {row['busy_ratio']}, its shares {shares}")
        assert row["busy_ratio"] == pytest.approx(1 if exact else sum(shares), abs=0.05)
        assert len(shares) == 3
