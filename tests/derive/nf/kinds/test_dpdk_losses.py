"""What the ports of a DPDK application lose, and all counters of ports."""

from __future__ import annotations

from typing import Any

import pytest

from nftop.model.frame import NfRow
from nftop.model.missing import Missing
from nftop.model.nf.ovs import OvsTable
from nftop.model.sample import Sample
from tests.derive.nf_scene import PID, host, switch, working
from tests.derive.scene import START
from tests.samples import S, app, fold, port, table


def at(second: int, *, ovs: bool = False, **changes: Any) -> Sample:
    one = port(
        rx=1000 * second,
        rx_missed=second,
        rx_errors=2 * second,
        tx_errors=3 * second,
        rx_nombuf=4 * second,
        xstats={"rx_good_packets": 1000 * second, "mac_err": 5 * second},
    )
    dpdk = app(second * S, one, **changes)
    if not ovs:
        return host(second, dpdk=table(dpdk))
    pmd = working(1, second, 1000, 0.5, lost_upcalls=7 * second, hits={"emc": 1000 * second})
    return host(second, ovs=OvsTable((switch(second, pmd),)), dpdk=table(dpdk))


def row(**changes: Any) -> NfRow:
    (only,) = fold(START, at(1, **changes), at(2, **changes))[-1].nfs
    return only


def drops(nf: NfRow) -> dict[str, object]:
    assert not isinstance(nf.drops, Missing)
    return {drop.reason: drop.packets_per_s for drop in nf.drops}


def test_losses_have_their_own_names_and_metrics() -> None:
    nf = row()
    assert drops(nf) == pytest.approx(
        {"rx_missed_errors": 1, "rx_errors": 2, "tx_errors": 3, "rx_nombuf": 4}
    )
    assert nf.readings["drop_packets_per_s"] == pytest.approx(1)
    assert nf.readings["rx_errors_per_s"] == pytest.approx(2)
    assert nf.readings["tx_errors_per_s"] == pytest.approx(3)
    assert nf.readings["rx_nombuf_per_s"] == pytest.approx(4)


def test_all_counters_have_rates() -> None:
    rates = {item.name: (item.count, item.per_s) for item in row().xstats}
    assert rates == {"rx_good_packets": (2000, 1000.0), "mac_err": (10, 5.0)}


def test_ovs_has_the_losses_of_its_ports_and_its_own() -> None:
    nf = row(ovs=True, pid=PID)
    assert nf.kind == "ovs"
    assert drops(nf) == pytest.approx(
        {"lost upcalls": 7, "rx_missed_errors": 1, "rx_errors": 2, "tx_errors": 3, "rx_nombuf": 4}
    )
    assert nf.readings["rx_nombuf_per_s"] == pytest.approx(4)
    assert nf.readings["ovs.lost_upcalls_per_s"] == pytest.approx(7)
