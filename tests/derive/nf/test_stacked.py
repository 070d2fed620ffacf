"""Ports made of other ports: what comes in on both came in once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nftop.model.frame import Frame
from nftop.model.missing import Missing, Reason
from nftop.model.nf.vpp import VppInterfaces, VppNodes
from nftop.model.sample import DpdkPort, Sample
from tests.derive.nf_scene import instance, vpp
from tests.derive.scene import MPPS_10, START, TSC_HZ, cpu, nf, tick
from tests.samples import S, app, fold, port

MPPS_5 = MPPS_10 // 2


def nic(number: int, second: int, member: bool | None) -> DpdkPort:
    one = port(number, rx=MPPS_5 * second, tx=MPPS_5 * second, rx_missed=10 * second)
    return replace(one, name=f"0000:18:00.{number}", bond_member=member)


def bonded(members: bool | None, *, name: str = "net_bonding0") -> Frame:
    """Two NICs of 5 Mpps each, and the bonding port that the application polls."""

    def at(second: int) -> Sample:
        whole = 2 * MPPS_5 * second
        bond = port(2, rx=whole, tx=whole, rx_missed=20 * second)
        bond = replace(bond, name=name, bond_member=None if members is None else False)
        nics = (nic(0, second, members), nic(1, second, members))
        return tick(second, app(second * S, *nics, bond))

    return fold(START, at(1), at(2))[-1]


def test_the_members_of_a_bond_are_not_counted_again() -> None:
    frame = bonded(members=True)
    assert nf(frame, "rx_packets_per_s") == MPPS_10
    assert nf(frame, "tx_packets_per_s") == MPPS_10
    assert nf(frame, "drop_packets_per_s") == 20
    assert cpu(frame, "cpp") == pytest.approx(TSC_HZ / MPPS_10)


def test_a_bond_without_listed_members_counts_separately() -> None:
    assert nf(bonded(members=False), "rx_packets_per_s") == 2 * MPPS_10


@pytest.mark.parametrize("name", ["net_bonding0", "eth_bond_up"])
def test_where_nothing_reports_the_members_no_sum(name: str) -> None:
    frame = bonded(members=None, name=name)
    for unknown in (nf(frame, "rx_packets_per_s"), cpu(frame, "cpp")):
        assert isinstance(unknown, Missing) and unknown.reason is Reason.SOURCE
        assert f"port 2 ({name})" in unknown.message and "twice" in unknown.message


def bonded_vpp(
    second: int,
    names: tuple[str, ...] = ("local0", "eth0", "eth1", "BondEthernet0"),
    reports: VppNodes | None = None,
    **changes: Any,
) -> Sample:
    """A worker takes 5 Mpps from each of two NICs, and all of it from their bond."""
    one = instance(second, {1: 0}, reports)
    received = np.zeros((2, 4), dtype=np.uint64)
    received[1] = np.array([0, MPPS_5, MPPS_5, MPPS_10], dtype=np.uint64) * np.uint64(second)
    nothing = np.zeros_like(received)
    reports_by_vpp = VppInterfaces(names, received, received, nothing, nothing, **changes)
    return vpp(second, replace(one, interfaces=reports_by_vpp))


@pytest.mark.parametrize(
    ("names", "kinds"),
    [
        (("local0", "eth0", "eth1", "BondEthernet0"), ()),
        (("local0", "eth0", "eth1", "uplink"), ("local", "dpdk", "dpdk", "bond")),
        (("local0", "loop1", "eth1", "loop0"), ("local", "dpdk", "dpdk", "Loopback")),
        (("local0", "bonded-left", "loop-back", "vxlan_tunnel7"), ()),
    ],
)
def test_vpps_interfaces_built_from_others_are_not_counted_again(
    names: tuple[str, ...], kinds: tuple[str, ...]
) -> None:
    frame = fold(START, *(bonded_vpp(t, names, kinds=kinds) for t in (1, 2)))[-1]
    assert nf(frame, "rx_packets_per_s") == MPPS_10
    assert nf(frame, "tx_packets_per_s") == MPPS_10
    assert cpu(frame, "cpp") == pytest.approx(TSC_HZ / MPPS_10)


def test_a_bond_under_a_name_of_the_operators_leaves_no_sum() -> None:
    """Only VPP's node of bonds tells that there is one."""

    def at(second: int, names: tuple[str, ...]) -> Sample:
        counts = np.array([[0], [MPPS_10 * second]], dtype=np.uint64)
        return bonded_vpp(second, names, VppNodes(("bond-input",), counts, counts, counts))

    odd = ("local0", "eth0", "eth1", "uplink")
    unknown = nf(fold(START, at(1, odd), at(2, odd))[-1], "rx_packets_per_s")
    assert isinstance(unknown, Missing) and unknown.reason is Reason.SOURCE
    assert "bond" in unknown.message
    usual = (*odd[:3], "BondEthernet0")
    assert nf(fold(START, at(1, usual), at(2, usual))[-1], "rx_packets_per_s") == MPPS_10
