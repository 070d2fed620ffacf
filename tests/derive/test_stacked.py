"""Ports made of other ports: what comes in on both came in once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nftop.model.frame import Frame
from nftop.model.reading import Missing, Reason
from nftop.model.sample import DpdkPort, Sample
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


def test_a_bond_whose_members_are_not_listed_counts_beside_the_others() -> None:
    assert nf(bonded(members=False), "rx_packets_per_s") == 2 * MPPS_10


@pytest.mark.parametrize("name", ["net_bonding0", "eth_bond_up"])
def test_where_nothing_tells_the_members_there_is_no_sum(name: str) -> None:
    frame = bonded(members=None, name=name)
    for unknown in (nf(frame, "rx_packets_per_s"), cpu(frame, "cpp")):
        assert isinstance(unknown, Missing) and unknown.reason is Reason.SOURCE
        assert f"port 2 ({name})" in unknown.sentence and "twice" in unknown.sentence
