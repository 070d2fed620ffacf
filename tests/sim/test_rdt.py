"""Simulated cache classes: closed in time, within their masks, and as the scenario says."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nftop.model.change import Cell
from nftop.model.column import Floats
from nftop.model.frame import Frame, GroupCacheRow
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.rdt import EVENTS, ROOT, Event
from nftop.model.struct import replace
from nftop.sim import scenario
from nftop.sim.model import SETTLE_S, Model, model_of
from nftop.sim.rdt import changed, io_misses_of, rdt_of, resctrl_table, settle, value
from nftop.sim.workloads import INDEX
from tests.sim.hosts import Frozen, S
from tests.sim.test_scenario import GOOD

MODELS = {
    (name, cpus): rdt_of(model_of(scenario.load(name), cpus))
    for name in ("default", "noisy", "burst")
    for cpus in (2, 3, 16, 88, 512)
}
QUIET_S, LOUD_S = 30, 120


@given(
    masks=st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=5),
    data=st.data(),
)
def test_ways_are_shared_out_within_the_mask(masks: list[list[bool]], data: st.DataObject) -> None:
    rows = len(masks)

    def floats(low: float, high: float) -> Floats:
        entry = st.just(0.0) | st.floats(low, high)
        return np.array(data.draw(st.lists(entry, min_size=rows, max_size=rows)))

    reach, wants, weights = np.array(masks), floats(1e-3, 100.0), floats(1e-3, 50.0)
    got = settle(reach, wants, weights, 2.0)
    assert (got >= 0).all() and (got <= wants).all()
    assert (got <= 2.0 * reach.sum(axis=1)).all()
    for own in reach:  # whoever has no way outside these shares them
        within = [at for at, other in enumerate(reach) if not (other & ~own).any()]
        assert got[within].sum() <= 2.0 * own.sum() * (1 + 1e-9)
    # Room is left only where nobody wants it any more.
    hungry = (got < wants * (1 - 1e-6)) & (weights > 0)
    taken = reach[hungry].any(axis=0).sum() * 2.0
    assert got.sum() >= taken * (1 - 1e-6)


def test_a_way_of_two_is_shared_by_their_pace() -> None:
    masks = np.array([[True, True, False], [False, True, True]])
    plenty = np.array([100.0, 100.0])
    assert settle(masks, plenty, np.array([1.0, 1.0]), 4.0) == pytest.approx([6.0, 6.0])
    # At twice the pace on both ways the shared one is full at 4/3, with 8/3 of the first's.
    assert settle(masks, plenty, np.array([4.0, 2.0]), 3.0) == pytest.approx([5.0, 4.0])
    assert settle(masks, np.array([1.0, 100.0]), np.ones(2), 4.0) == pytest.approx([1.0, 7.5])


@pytest.mark.parametrize(("name", "cpus"), MODELS)
@settings(max_examples=10)
@given(t_ns=st.integers(0, 400 * S))
def test_no_class_exceeds_its_ways_nor_all_the_cache(name: str, cpus: int, t_ns: int) -> None:
    rdt = MODELS[name, cpus]
    table = resctrl_table(rdt, t_ns)
    sizes = {cache.id: cache.size_bytes for cache in rdt.model.layout.topology.l3}
    for l3, size in sizes.items():
        caches = [c for group in table.groups for c in group.caches if c.l3 == l3]
        used = [_number(cache.values["llc_occupancy"]) for cache in caches]
        assert sum(used) <= size
        for cache, bytes_used in zip(caches, used, strict=True):
            assert not isinstance(cache.cbm, Missing)
            assert 0 <= bytes_used <= cache.cbm.bytes(size)
            assert bytes_used % 64 == 0
    on_host = [int(cpu) for group in table.groups for cpu in group.cpus]
    assert sorted(on_host) == list(range(cpus))


@pytest.mark.parametrize(("name", "cpus"), MODELS)
def test_the_same_time_gives_the_same_values_and_single_ones_are_the_tables(
    name: str, cpus: int
) -> None:
    rdt = MODELS[name, cpus]
    times = (7 * S + 1, 61 * S, 59 * S, 3600 * S, 61 * S)
    tables = [resctrl_table(rdt, t_ns) for t_ns in times]
    assert tables[1] == tables[4]
    for t_ns, table in zip(times, tables, strict=True):
        for group in table.groups:
            for cache in group.caches:
                for event in EVENTS:
                    assert value(rdt, group.name, cache.l3, event, t_ns) == cache.values[event]


def test_memory_traffic_is_that_of_the_groups_cpus_and_local() -> None:
    rdt = MODELS["noisy", 88]
    t_ns = 100 * S
    lines = rdt.model.counts(t_ns)[:, [INDEX["cas_reads"], INDEX["cas_writes"]]].sum(axis=1)
    for group in resctrl_table(rdt, t_ns).groups:
        total = [_number(cache.values["mbm_total_bytes"]) for cache in group.caches]
        assert sum(total) == 64 * int(lines[list(group.cpus)].sum())
        assert total == [cache.values["mbm_local_bytes"] for cache in group.caches]


def test_occupancy_moves_to_its_new_level_with_the_time_constant() -> None:
    rdt = MODELS["noisy", 88]
    start_ns = rdt.model.starts_ns[1]
    period_ns = round(rdt.model.scenario.period_s * S)
    assert start_ns % period_ns == 0, "so that the swing is the same a period later"

    def tenant(after_ns: int) -> int:
        return value(rdt, "tenant", 0, "llc_occupancy", start_ns + after_ns)

    before, end = tenant(0), tenant(100 * period_ns)
    assert value(rdt, "tenant", 0, "llc_occupancy", 0) == before
    gone = (end - tenant(period_ns)) / (end - before)
    assert gone == pytest.approx(np.exp(-rdt.model.scenario.period_s / SETTLE_S), rel=1e-3)


def test_missing_groups_and_files() -> None:
    rdt = MODELS["default", 2]
    with pytest.raises(KeyError):
        value(rdt, "nobody", 0, "llc_occupancy", 0)
    with pytest.raises(KeyError):
        value(rdt, ROOT, 1, "llc_occupancy", 0)
    with pytest.raises(KeyError):
        value(rdt, ROOT, 0, "mbm_total_bits", 0)  # type: ignore[arg-type]
    for event in get_args(Event):
        with pytest.raises(ValueError, match="starts at 0 ns, not at -1"):
            value(rdt, ROOT, 0, event, -1)


def test_without_groups_all_is_the_root_groups() -> None:
    rdt = rdt_of(model_of(scenario.parse("t", GOOD), 8))
    (group,) = resctrl_table(rdt, S).groups
    assert (group.name, group.clos, group.cpus) == (ROOT, 0, tuple(range(8)))
    assert rdt.classes.mask(ROOT, 1).hex == "fffff"


def _number(value: int | Missing) -> int:
    assert not isinstance(value, Missing)
    return value


def _cache(frame: Frame, name: str, l3: int = 0) -> GroupCacheRow:
    row = next(group for group in frame.groups if group.name == name)
    return row.caches[l3]


def _share(frame: Frame, name: str) -> float:
    readings = _cache(frame, name).readings
    used, capacity = readings["occupancy_bytes"], readings["capacity_bytes"]
    assert not isinstance(used, Missing) and not isinstance(capacity, Missing)
    return used / capacity


def test_the_noisy_neighbour_fills_its_ways_and_takes_from_those_it_overlaps() -> None:
    host = Frozen("noisy")
    first = host.tick(0)
    warming = _cache(first, "vpp").readings["mbm_total_bytes_per_s"]
    assert isinstance(warming, Missing) and warming.reason is Reason.WARMING
    host.tick((QUIET_S - 1) * S)
    quiet = host.tick(S)
    host.tick((LOUD_S - QUIET_S - 1) * S)
    loud = host.tick(S)
    assert {name: _share(quiet, name) for name in ("vpp", "switch", "tenant")} == pytest.approx(
        {"vpp": 0.94, "switch": 0.96, "tenant": 0.12}, abs=0.02
    )
    assert {name: _share(loud, name) for name in ("vpp", "switch", "tenant")} == pytest.approx(
        {"vpp": 0.42, "switch": 0.35, "tenant": 0.74}, abs=0.02
    )
    # 12 GB/s a core, the model's assumption.
    mbm = _cache(loud, "tenant").readings["mbm_total_bytes_per_s"]
    assert mbm == pytest.approx(4 * 12e9, rel=1e-3)
    # What runs on the other package is not disturbed.
    away = [_cache(item, ROOT, 1).readings["occupancy_bytes"] for item in (quiet, loud)]
    assert away[0] == pytest.approx(away[1], rel=0.005)
    named = {item.name for item in loud.cpus.group if not isinstance(item, Missing)}
    assert named == {ROOT, "vpp", "switch", "tenant"}
    for cpu in host.cpus_of("ovs"):
        group = loud.cpus.group[cpu]
        assert not isinstance(group, Missing) and (group.name, group.clos) == ("switch", 2)


def test_memory_seen_by_class_is_what_the_packages_controllers_count() -> None:
    host = Frozen("default")
    host.tick(0)
    # Whole periods, so that nothing swings, and so many that cut-off fractions weigh nothing.
    frame = host.tick(1000 * 20 * S)
    for package, row in enumerate(frame.packages):
        by_class = [
            _cache(frame, g.name, package).readings["mbm_total_bytes_per_s"] for g in frame.groups
        ]
        counted = [row.readings[f"memory.{way}_bytes_per_s"] for way in ("read", "write")]
        assert _sum(by_class) == pytest.approx(_sum(counted), rel=1e-6)


def _sum(readings: list[float | Missing]) -> float:
    return sum(reading for reading in readings if not isinstance(reading, Missing))


def test_devices_miss_once_their_ways_are_smaller_than_the_pollers_buffers() -> None:
    """Ten pollers at cache 0, each with 576 KiB; 22 of 24 cores, so a way has 2.98 MiB."""
    model = model_of(scenario.load("noisy", "gold-6252n"), 88)
    rdt = rdt_of(model)
    assert io_misses_of(model.layout, rdt.classes) == {}
    switch = Cell("io_alloc", "", "L3")

    def misses(ways: int) -> dict[int, float]:
        masks = {Cell("io_cbm", "", "L3", l3): f"{(1 << ways) - 1:x}" for l3 in (0, 1)}
        state = {**rdt.classes.state, switch: "enabled", **masks}
        return io_misses_of(model.layout, replace(rdt.classes, state=state))

    [placed] = [item for item in model.layout.placed if item.task.name == "vpp"]
    cpu = int(placed.cpus[0])
    kept = 3_407_872 * 22 // 24 / (10 * 576 * 1024)
    assert misses(1)[cpu] == pytest.approx(1 - kept * 0.995, rel=1e-3)
    assert misses(2)[cpu] == pytest.approx(0.005)
    state = {**rdt.classes.state, switch: "enabled", Cell("io_cbm", "", "L3", 0): "1"}
    state |= {Cell("io_cbm", "", "L3", 1): "3"}
    after = changed(rdt, 100 * S, replace(rdt.classes, state=state))
    first, last = rdt.model, after.model

    def share(host: Model, kind: str) -> float:
        counts = [host.counts(at * S)[cpu] for at in (160, 170)]
        hit, miss = (counts[1] - counts[0])[[INDEX[f"itom_{end}"] for end in ("hit", "miss")]]
        return float(miss / (hit + miss))

    assert share(first, "itom") == pytest.approx(0.005, rel=0.01)
    assert share(last, "itom") == pytest.approx(misses(1)[cpu], rel=0.01)
