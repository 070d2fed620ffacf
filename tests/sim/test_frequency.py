"""What the simulated host makes of limits: frequency, packets and power as in the talk."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.derive.placement import misplaced
from nftop.model.frame import Frame
from nftop.model.missing import Missing
from nftop.model.sst import CpufreqTable
from nftop.sim import processor as processors
from nftop.sim.frequency import CoreFrequencies, CoreSetting, altered, first_frequencies, response
from nftop.sim.layout import build
from nftop.sim.scenario import load
from tests.sim.hosts import Frozen, S, value

MHZ = 1_000_000
CLX_N = processors.load("gold-6230n")
limits = st.integers(0, 5_000 * MHZ)


def pinned(mhz: int) -> CoreSetting:
    return CoreSetting(mhz * MHZ, mhz * MHZ)


def own_base(before: CoreFrequencies) -> CoreFrequencies:
    """What sst_bf.py -s does: every core pinned to its own base frequency."""
    every = {cpu: CoreSetting(base, base) for cpu, base in enumerate(before.base_hz)}
    return altered(before, every)


def test_six_cores_of_twenty_have_the_higher_base_frequency() -> None:
    topology = build(load("sst-bf"), 80).topology
    base = first_frequencies(CLX_N, topology).base_hz
    assert sum(hz == 2700 * MHZ for hz in base) == 24, "both threads of six cores of two packages"
    assert set(base) == {2700 * MHZ, 2100 * MHZ}


@pytest.mark.parametrize(
    ("setting", "base_mhz", "runs_mhz"),
    [
        (pinned(2300), 2100, 2300),
        (pinned(2700), 2700, 2700),
        (pinned(2100), 2100, 2100),
        (CoreSetting(800 * MHZ, 3900 * MHZ), 2100, 2800),  # what turbo gives all cores at once
        (CoreSetting(800 * MHZ, 2500 * MHZ, "performance"), 2100, 2500),
        (pinned(3900), 2700, 2800),  # what is asked for is not always granted
    ],
)
def test_what_a_core_runs_at(setting: CoreSetting, base_mhz: int, runs_mhz: int) -> None:
    runs = response(setting, base_hz=base_mhz * MHZ, all_core_hz=CLX_N.all_core_hz)
    assert runs == runs_mhz * MHZ


def test_without_turbo_no_core_gets_more_than_it_is_guaranteed() -> None:
    topology = build(load("sst-bf"), 80).topology
    free = {cpu: CoreSetting(CLX_N.min_hz, CLX_N.max_hz) for cpu in range(80)}
    off = altered(first_frequencies(CLX_N, topology), free, turbo=False)
    assert off.hz.tolist() == [float(hz) for hz in off.base_hz]
    assert set(altered(off, {}, turbo=True).hz.tolist()) == {2.8e9}


@given(least=limits, most=limits)
def test_limits_are_read_back_in_order_and_within_the_processor_s(least: int, most: int) -> None:
    topology = build(load("sst-bf"), 8).topology
    after = altered(first_frequencies(CLX_N, topology), {1: CoreSetting(least, most)})
    one = after.settings[1]
    assert CLX_N.min_hz <= one.min_hz <= one.max_hz <= CLX_N.max_hz
    assert after.settings[0] == CoreSetting(*CLX_N.start_hz)
    assert one.min_hz <= after.hz[1] or after.hz[1] == CLX_N.all_core_hz


def test_threads_of_a_core_run_at_the_faster_one_s() -> None:
    topology = build(load("sst-bf"), 80).topology
    after = altered(first_frequencies(CLX_N, topology), {3: pinned(2100), 43: pinned(2300)})
    assert after.hz[[3, 43]].tolist() == [2.3e9, 2.3e9]


@pytest.fixture(scope="module")
def talk() -> tuple[Frozen, Frame, Frame]:
    """The host at 2.3 GHz, and with every core at its own base frequency."""
    host = Frozen("sst-bf", 80)
    before = [host.tick(S) for _ in range(4)][-1]
    host.simulated.world.set_frequencies(own_base)
    after = [host.tick(S) for _ in range(4)][-1]
    return host, before, after


def ratios(metric: str, before: Frame, after: Frame, cpus: tuple[int, ...]) -> Mapping[str, float]:
    result: dict[str, float] = {}
    for cpu in cpus:
        kind = before.cpus.settings[cpu].priority
        assert isinstance(kind, str)
        result[kind] = value(after, metric, cpu) / value(before, metric, cpu)
    return result


def test_frequency_and_packets_go_where_the_talk_has_them(
    talk: tuple[Frozen, Frame, Frame],
) -> None:
    host, before, after = talk
    ovs = host.cpus_of("ovs")
    moved = ratios("frequency_hz", before, after, ovs)
    assert moved == pytest.approx({"high": 2.7 / 2.3, "low": 2.1 / 2.3}, rel=1e-6)
    packets = ratios("packets_per_s", before, after, ovs)
    assert packets == pytest.approx({"high": 2.7 / 2.3, "low": 2.1 / 2.3}, rel=0.01)
    for cpu in ovs:
        assert value(after, "cpp", cpu) == pytest.approx(value(before, "cpp", cpu), rel=0.01)


def test_a_class_with_enough_ways_gets_no_faster(talk: tuple[Frozen, Frame, Frame]) -> None:
    host, before, after = talk
    for cpu in host.cpus_of("vpp"):
        offered = pytest.approx(value(before, "packets_per_s", cpu), rel=1e-3)
        assert value(after, "packets_per_s", cpu) == offered


def test_power_and_the_clock_follow(talk: tuple[Frozen, Frame, Frame]) -> None:
    host, before, after = talk
    for cpu in range(80):
        assert value(after, "tsc_hz", cpu) == pytest.approx(2.3e9)
    power = [[row.readings["power_w"] for row in frame.packages] for frame in (before, after)]
    assert power[0] != power[1]
    host.simulated.world.set_frequencies(
        lambda one: altered(one, {c: pinned(800) for c in range(80)})
    )
    slow = [host.tick(S) for _ in range(3)][-1]
    for row, usual in zip(slow.packages, power[1], strict=True):
        watts = row.readings["power_w"]
        assert isinstance(watts, float) and isinstance(usual, float) and watts < usual


def test_no_counter_steps_back_over_changes() -> None:
    host = Frozen("sst-bf", 20)
    seen = [host.simulated.world.now().rdt.model.counts(0)]
    settings = itertools.cycle([pinned(800), pinned(2700), CoreSetting(0, 9_000 * MHZ)])
    for setting in itertools.islice(settings, 9):
        host.now_ns += S // 3
        every = dict.fromkeys(range(20), setting)
        host.simulated.world.set_frequencies(lambda one, every=every: altered(one, every))  # type: ignore[misc]
        moment = host.simulated.world.now()
        seen.append(moment.rdt.model.counts(moment.t_ns))
    assert all((after >= before).all() for before, after in itertools.pairwise(seen))


def test_a_setting_is_reported_at_once() -> None:
    host = Frozen("sst-bf", 8)
    host.tick(S)
    host.simulated.world.set_frequencies(
        lambda one: altered(one, {1: CoreSetting(800 * MHZ, 2100 * MHZ, "performance", "power")})
    )
    frame = host.tick(S)
    assert isinstance(frame.frequencies, CpufreqTable)
    assert value(frame, "max_frequency_hz", 1) == 2.1e9
    assert frame.cpus.settings[1].governor == "performance"
    assert frame.cpus.settings[1].epp == "power"


def test_the_default_host_is_as_it_was() -> None:
    host = Frozen("default", 88)
    frame = [host.tick(S) for _ in range(2)][-1]
    at = frame.cpus.columns["frequency_hz"].values
    assert np.allclose(at, 2.2e9)
    assert not any(isinstance(setting.priority, str) for setting in frame.cpus.settings)
    assert misplaced(frame) == ()
    assert "Xeon E5-2699 v4" in frame.host.model and frame.host.uarch == "BDX"
    assert isinstance(frame.cpus.settings[1].epp, Missing), "no HWP"
