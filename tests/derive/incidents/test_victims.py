"""What victims of an incident lose, when ticks are shorter than the points kept of them."""

from __future__ import annotations

from dataclasses import replace

from nftop.derive.findings.inputs import FindingInputs
from nftop.derive.incidents.victims import (
    DropCount,
    before_of,
    count_drops,
    dropped_before,
    price_of,
)
from nftop.derive.nf.recent import RecentState, step_recent
from nftop.model.frame import Frame
from nftop.model.missing import Missing, Reason
from tests.frames import SECOND_NS, START_NS, frame, nic_drops


def half_second(number: int, packets_per_s: float, drops: float = 0.0) -> Frame:
    """Tick `number` of a session with `-d 0.5` whose NF forwards all that arrives but the drops."""
    base = frame(8, 1)
    changed = {
        "rx_packets_per_s": packets_per_s,
        "tx_packets_per_s": packets_per_s,
        **nic_drops(drops),
    }
    nf = replace(base.nfs[0], readings={**base.nfs[0].readings, **changed}, interval_s=0.5)
    at_ns = START_NS + number * SECOND_NS // 2
    return replace(base, monotonic_ns=at_ns, interval_s=0.5, nfs=(nf,))


def test_fewer_arriving_packets_are_no_loss_in_a_tick_without_a_point() -> None:
    state = RecentState()
    for number in range(201):
        state = step_recent(state, half_second(number, 10e6))
    for number in range(201, 205):
        now = half_second(number, 5e6)
        state = step_recent(state, now)
        before = {now.nfs[0].key: before_of(state.rates, now.nfs[0], START_NS + 100 * SECOND_NS)}
        assert before[now.nfs[0].key].sent == 10e6
        assert price_of(now.nfs, before).lost_packets_per_s == 0.0


def test_drops_before_an_incident_are_those_of_all_points_before_this_tick() -> None:
    state = RecentState()
    for number in range(300):
        state = step_recent(state, half_second(number, 10e6))
    for number in range(300, 311):
        now = half_second(number, 10e6, drops=1000.0)
        state = step_recent(state, now)
        earlier = dropped_before(
            now.nfs, FindingInputs(now, {}, (), state.rates), START_NS + 150 * SECOND_NS, {}
        )
        [lag_s] = earlier.lag_s.values()
        counted = 0.0 if isinstance(earlier.total, Missing) else earlier.total
        # Rates of a second each, and what they do not cover.
        assert abs(counted + 1000.0 * lag_s - 500.0 * max(number - 300, 0)) <= 1000.0, number
        assert lag_s <= 0.5


def test_a_reading_of_the_tick_before_counts_nothing() -> None:
    nf = replace(frame().nfs[0], interval_s=0.0)
    count = count_drops(DropCount(), [nf], frame(8, 3))
    assert isinstance(count.total, Missing) and count.total.reason is Reason.SOURCE
    assert count.lag_s == {nf.key: 1.0}
