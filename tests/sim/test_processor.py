"""Processors of the simulated host: what they are specified for, and whose numbers they run."""

from __future__ import annotations

import pytest

from nftop.control.profile.pqos_config import parse
from nftop.control.profile.validate import fit
from nftop.control.simulated import SimulatedResctrl
from nftop.model.change import Cell, SetSchemata
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.rdt import ROOT
from nftop.sim import processor as processors
from nftop.sim import scenario, workloads
from nftop.sim.rdt import resctrl_table
from nftop.sources.simulated import simulated_host

MIB = 1 << 20
GOLD = ("gold-6230n", "gold-6252n")
# The talk's, for 11 ways, with its limits.
TALK = {0: 0x7FF, 1: 0x7F0, 2: 0x3, 3: 0xC}
LIMITS = {0: 100, 1: 100, 2: 10, 3: 10}


@pytest.mark.parametrize(
    ("name", "cpus", "ways", "cache_mib", "classes", "monitors"),
    [
        ("e5-2699v4", 88, 20, 55, 16, 176),
        ("gold-6230n", 80, 11, 27.5, 8, 160),
        ("gold-6252n", 96, 11, 35.75, 8, 192),
    ],
)
def test_cache_classes_and_monitors_are_as_specified(
    name: str, cpus: int, ways: int, cache_mib: float, classes: int, monitors: int
) -> None:
    host = simulated_host(processor=name)
    topology = host.model.layout.topology
    assert len(topology.cpus) == cpus
    assert [(cache.ways, cache.size_bytes / MIB) for cache in topology.l3] == [
        (ways, cache_mib)
    ] * 2
    table = resctrl_table(host.world.now().rdt, 0)
    assert (table.limits.closids, table.limits.rmids) == (classes, monitors)


def test_only_skylake_and_later_have_limits_on_memory_bandwidth() -> None:
    for name in processors.names():
        table = resctrl_table(simulated_host(processor=name).world.now().rdt, 0)
        limits = [cache.mba for group in table.groups for cache in group.caches]
        if name in GOLD:
            assert set(limits) == {50, 100}
            assert table.limits.mba_least == 10
        else:
            assert all(isinstance(i, Missing) and i.reason is Reason.HARDWARE for i in limits)
            assert table.limits.mba_least is None


@pytest.mark.parametrize("name", scenario.names())
@pytest.mark.parametrize("host", GOLD)
def test_no_scenario_runs_the_e5s_numbers_on_another_processor(name: str, host: str) -> None:
    played = scenario.load(name, host)
    assert {task.workload for task in played.tasks} <= set(played.processor.workloads.values())
    assert {mask.width for group in played.groups for mask in group.ways} == {11}


def test_what_the_talk_prints_of_a_6230n_is_what_the_simulated_one_does() -> None:
    hz = 2.3e9
    ovs, vpp = workloads.load("ovs_clx", ht=True), workloads.load("vpp_clx")
    neighbour = workloads.load("memtester_clx")
    # IPC of CPUs 26 and 66, 23 and 25, and their megabytes per second.
    assert (ovs.ipc, vpp.ipc, neighbour.ipc) == pytest.approx((1.44 + 1.15, 1.37, 0.65))
    printed = (286.2 + 373.1, 333.5, 13242.8)
    moved = [work.bytes_per_cycle * hz / 1e6 for work in (ovs, vpp, neighbour)]
    assert moved == pytest.approx(printed, rel=1e-3)


def test_masks_that_are_apart_stay_apart_in_a_cache_of_fewer_ways() -> None:
    apart, own = scenario.load("default", "gold-6252n"), scenario.load("default")
    for package in (0, 1):
        bits = [
            [
                played.groups[at].ways[min(package, len(played.groups[at].ways) - 1)].bits
                for at in range(len(own.groups))
            ]
            for played in (own, apart)
        ]
        for left in range(len(own.groups)):
            for right in range(left):
                shared = [bool(masks[left] & masks[right]) for masks in bits]
                assert shared[0] == shared[1]


@pytest.mark.parametrize("name", GOLD)
def test_the_talks_masks_and_limits_load_unchanged_on_a_gold(name: str) -> None:
    """As `pqos` has them, COS0 to COS3 of one cache; those of the RDT paper are for 20 ways."""
    rules = SimulatedResctrl(simulated_host("sst-bf", 4, processor=name).world).rules()
    groups = {number: f"COS{number}" if number else ROOT for number in TALK}
    state: dict[Cell, str] = {}
    for group in groups.values():
        state |= {Cell("group", group): "7"} if group != ROOT else {}
        state[Cell("mode", group)] = "shareable"
        state[Cell("schemata", group, "L3", 0)] = "1f"
        state[Cell("schemata", group, "MB", 0)] = "50"
    statements = [f"llc:{number}=0x{bits:x}" for number, bits in TALK.items()]
    statements += [f"mba:{number}={percent}" for number, percent in LIMITS.items()]
    fitted = fit(parse(f"alloc-class-set: {';'.join(statements)}\n"), state, rules)
    assert fitted.problems == ()
    changes = [item for item in fitted.actions if isinstance(item, SetSchemata)]
    assert {(item.resource, item.group): item.values[0][1] for item in changes} == {
        **{("L3", groups[number]): bits for number, bits in TALK.items()},
        **{("MB", groups[number]): percent for number, percent in LIMITS.items()},
    }
    assert fit(parse("alloc-class-set: llc:1=0x00f00\n"), state, rules).problems
