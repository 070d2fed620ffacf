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

from nftop.model.nf.ovs import OvsSwitch
from nftop.sources.ovs.source import OvsSource
from tests.real.ovs import DPDK, PLAIN, Ovs, dpdk_ovs, dummy_ovs
from tests.real.test_newer import mounted
from tests.real.test_ovs import counts_exactly, measures_alike, working
from tests.waiting import until

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
    result = re.search(r"\) (\d+)\.(\d+)", ovs.appctl("version"))
    assert result
    return int(result[1]), int(result[2])


def test_every_packet_put_in_is_in_one_frame_and_in_no_other(enter: list[str]) -> None:
    with dummy_ovs(PLAIN, enter) as ovs:
        counts_exactly(ovs)
        print(f"OVS {release(ovs)}: {ovs.counts()['Rx packets']} packets")


def test_packets_and_cycles_per_packet_are_those_of_ovs(enter: list[str]) -> None:
    with dpdk_ovs(DPDK, enter) as ovs:
        print(f"OVS {release(ovs)}")
        measures_alike(ovs)


def test_how_busy_it_was_is_its_cycles_or_the_shares_of_its_queues(enter: list[str]) -> None:
    def shares(switch: OvsSwitch) -> list[float | None]:
        (pmd,) = switch.pmds
        return [*(queue.used_ratio for queue in pmd.queues), pmd.overhead_ratio]

    with dpdk_ovs(DPDK, enter) as ovs, closing(OvsSource(deadline_s=60)) as source:
        until(lambda: None not in shares(working(source, ovs)))  # NOT AVAIL for its first 5 s

        def printed() -> list[float]:
            shown = ovs.appctl("dpif-netdev/pmd-rxq-show", "-secs", "5")
            return [int(item) / 100 for item in re.findall(r":\s+(\d+) %", shown)]

        # They change every 5 s, and may between two looks.
        until(lambda: printed() == shares(working(source, ovs)) == printed())
        switch = working(source, ovs)
        (pmd,) = switch.pmds
        print(f"OVS {release(ovs)}: shares {shares(switch)}, busy cycles {pmd.busy_cycles}")
        assert len(printed()) == 3
        assert (pmd.busy_cycles is not None) is (release(ovs) < (4, 0))
