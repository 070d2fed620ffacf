"""Where the simulated host is saturated nftop says so, by what shows it, and CPP is the model's."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from nftop.model.change import Cell
from nftop.model.frame import Frame, NfRow
from nftop.model.metrics.saturation import DROPPING_RATIO
from nftop.model.missing import Missing, Reason
from nftop.sim import workloads
from nftop.sim.workloads import INDEX
from tests.sim.hosts import Frozen, S


def at(scenario: str, second: int) -> tuple[Frozen, Frame]:
    """The host after so many seconds, and the frame of a second more."""
    host = Frozen(scenario)
    host.tick((second - 2) * S)
    host.tick(S)
    return host, host.tick(S)


def row_of(frame: Frame, name: str) -> NfRow:
    return next(nf for nf in frame.nfs if nf.name == name or nf.name.startswith(f"{name}/"))


def test_a_slow_vpp_is_saturated_and_its_cost_is_exact() -> None:
    """Below full load too, nobody knew; while each packet costs 70 % more it drops."""
    _, before = at("slow", 28)
    assert row_of(before, "vpp").saturated is None and row_of(before, "vpp").saturated_by == ()
    _, frame = at("slow", 40)
    vpp = row_of(frame, "vpp")
    assert (vpp.saturated, vpp.saturated_by) == (True, ("busy", "vectors"))
    assert vpp.readings["vector_fill_ratio"] == pytest.approx(1.0, abs=0.001)
    work = workloads.slowed(workloads.load("vpp_ip4", ht=True), 1.7)
    # Two threads of a core have half of its packets each.
    assert vpp.readings["cpp"] == pytest.approx(2 / work.packets_per_cycle, rel=0.004)
    for cpu in vpp.cpus:
        assert frame.cpus.saturated_by[cpu] == ("busy", "vectors")
        why = frame.cpus.columns["missed_packets_per_s"][frame.cpus.topology.row_of[cpu]]
        assert isinstance(why, Missing) and why.reason is Reason.SOURCE, "of two threads' port"


def test_a_noisy_neighbour_makes_all_its_victims_saturated() -> None:
    host, frame = at("noisy", 90)
    by = {name: row_of(frame, name).saturated_by for name in ("vpp", "ovs-vswitchd", "north")}
    assert by == {"vpp": ("busy", "vectors"), "ovs-vswitchd": ("busy",), "north": ("drops",)}
    for name in by:
        assert row_of(frame, name).saturated is True
    rates = host.simulated.model.rates(90 * S)[0]
    for cpu in row_of(frame, "north").cpus:
        missed = frame.cpus.columns["missed_packets_per_s"][frame.cpus.topology.row_of[cpu]]
        assert missed == pytest.approx(rates[cpu, INDEX["missed"]], rel=0.001)


def test_a_core_with_idle_time_is_not_saturated() -> None:
    _, frame = at("default", 5)
    assert row_of(frame, "ovs-vswitchd").saturated is False
    assert row_of(frame, "vpp").saturated_by == ("busy", "vectors")
    # One core of `north` drops because it waits for its CPU.
    assert row_of(frame, "north").saturated is None


def test_room_is_what_the_model_can_take_more() -> None:
    """OVS takes 70 % or so of what its cores can, at a cost that does not depend on the load."""
    _, frame = at("default", 5)
    whole = workloads.core_hz() * workloads.load("ovs").packets_per_cycle
    ovs = row_of(frame, "ovs-vswitchd")
    columns, row_in = frame.cpus.columns, frame.cpus.topology.row_of
    for cpu in ovs.cpus:
        packets = columns["packets_per_s"][row_in[cpu]]
        room = columns["room_packets_per_s"][row_in[cpu]]
        assert not isinstance(packets, Missing) and not isinstance(room, Missing)
        assert packets + room == pytest.approx(whole, rel=0.001)
    shares = [columns["room_ratio"][row_in[cpu]] for cpu in ovs.cpus]
    assert ovs.readings["room_ratio"] == min(share for share in shares if isinstance(share, float))
    assert row_of(frame, "vpp").readings["room_packets_per_s"] == 0.0
    why = row_of(frame, "south").readings["room_ratio"]
    assert isinstance(why, Missing) and why.reason is Reason.SOURCE
    _, lossy = at("noisy", 90)
    north = row_of(lossy, "north").readings
    assert (north["room_ratio"], north["room_packets_per_s"]) == (0.0, 0.0)


def test_while_it_drops_after_a_change_and_its_undo_its_cost_is_exact() -> None:
    """A core that drops works all the time; one that does not has time left."""
    host = Frozen("noisy", traffic=None)
    host.tick(0)
    host.tick(89 * S)
    ways = Cell("schemata", "tenant", "L3", 0)
    world = host.simulated.world

    before, vpp = world.now().rdt.classes.state, row_of(host.tick(S), "vpp")
    for state, ends in (({**before, ways: "3"}, 0.0), (before, 1 - 1 / 1.1)):
        world.change(partial(replace, state=state))
        rates, share = list[float](), 0.0
        for _ in range(40):
            vpp = row_of(host.tick(S), "vpp")
            dropped, taken = (vpp.readings[f"{name}_packets_per_s"] for name in ("drop", "rx"))
            assert isinstance(dropped, float) and isinstance(taken, float)
            share = dropped / (dropped + taken)
            assert vpp.saturated is True or share < DROPPING_RATIO
            assert vpp.saturated is not True or dropped > 0.0
            rates.append(dropped)
        assert share == pytest.approx(ends, abs=0.001)
        assert sorted(rates, reverse=not ends) == rates
    assert vpp.readings["cpp"] == pytest.approx(230, rel=0.01)
