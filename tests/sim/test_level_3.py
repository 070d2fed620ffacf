"""Level 3 and the probes come back from the raw codes of every table, as the workloads split."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from nftop.model.column import Column, column
from nftop.model.missing import Missing
from nftop.sim import scenario, workloads
from nftop.sim.events import factors_of
from nftop.sim.model import Model, model_of
from nftop.sim.workloads import INDEX
from nftop.uarch import table
from nftop.uarch.topdown import evaluate, evaluate_probes, sum_siblings
from tests.sim.test_shares import UARCHS, WORKLOADS, counted, levels

# The events of tables that the model has none of, and why.
NEVER = {
    "L1D_PEND_MISS.FB_FULL:c1": "fill buffers never run out",
    "L1D_PEND_MISS.FB_FULL_PERIODS": "nor here",
    "L1D_PEND_MISS.FB_FULL": "nor here",
    "OFFCORE_REQUESTS_BUFFER.SQ_FULL": "nor does the queue beyond the second-level cache fill",
    "L1D_PEND_MISS.L2_STALL": "nor here",
    "L1D_PEND_MISS.L2_STALLS": "nor here",
    "XQ.FULL_CYCLES": "nor here",
    "RS_EVENTS.EMPTY_CYCLES": "whatever the front end lacks, something is left to execute",
    "INT_MISC.UOP_DROPPING": "what is delivered is issued",
    "CPU_CLK_UNHALTED.C02": "nothing waits with TPAUSE or UMWAIT",
    "MEM_LOAD_RETIRED.LOCAL_PMM": "there is no persistent memory",
    "MEM_LOAD_L3_MISS_RETIRED.REMOTE_PMM": "nor with the neighbour",
    "MEM_LOAD_L3_MISS_RETIRED.REMOTE_HITM": "packages share no lines, only memory",
    "MEM_LOAD_L3_MISS_RETIRED.REMOTE_FWD": "the same",
    "OFFCORE_RESPONSE.DEMAND_DATA_RD.LLC_MISS.REMOTE_HITM": "the same",
    "OFFCORE_RESPONSE.DEMAND_DATA_RD.LLC_MISS.REMOTE_HIT_FORWARD": "the same",
    "OFFCORE_RESPONSE.DEMAND_RFO.LLC_MISS.REMOTE_HITM": "the same",
    "OFFCORE_RESPONSE.DEMAND_RFO.L3_MISS.REMOTE_HITM": "the same",
    "OCR.DEMAND_RFO.L3_MISS:ocr_msr_val=0x103b800002": "the same",
    "OFFCORE_RESPONSE.PF_L2_RFO.L3_MISS.REMOTE_HITM": "the same",
    "OCR.DEMAND_RFO.L3_MISS.REMOTE_HITM": "the same",
    "OCR.PF_L2_RFO.L3_MISS.REMOTE_HITM": "the same",
    "OCR.PF_L2_RFO.L3_HIT.HITM_OTHER_CORE": "only demand requests find modified lines",
    "OFFCORE_RESPONSE.PF_L2_RFO.L3_HIT.HITM_OTHER_CORE": "only demand requests find modified lines",
    "MEM_LOAD_UOPS_L3_MISS_RETIRED.REMOTE_HITM": "packages share no lines",
    "MEM_LOAD_UOPS_L3_MISS_RETIRED.REMOTE_FWD": "the same",
    "FP_ASSIST.ANY": "nothing needs the microcode's assistance",
    "OTHER_ASSISTS.ANY": "the same",
    "OTHER_ASSISTS.ANY_WB_ASSIST": "the same",
    "ASSISTS.ANY": "the same",
    "UOPS_EXECUTED.X87": "nothing uses x87",
    "INST_RETIRED.X87": "the same",
    "FP_ARITH_INST_RETIRED2.SCALAR": "nor half precision",
    "FP_ARITH_INST_RETIRED2.VECTOR": "the same",
    "INT_VEC_RETIRED.VNNI_128": "nor instructions for neural networks",
    "INT_VEC_RETIRED.VNNI_256": "the same",
    "INT_VEC_RETIRED.MUL_256": "vectors are added and shuffled only",
    "EXE.AMX_BUSY": "nor matrices",
    "MISC2_RETIRED.LFENCE": "nothing fences loads",
    "CPU_CLK_UNHALTED.C01": "nothing waits with TPAUSE or UMWAIT",
    "CPU_CLK_UNHALTED.PAUSE": "nothing spins with PAUSE",
    "MISC_RETIRED.PAUSE_INST": "the same",
    "ROB_MISC_EVENTS.PAUSE_INST": "the same",
}
# Shares of the threads' cycles by the same definition in every table that has them.
ALIKE = ("l1_bound", "l2_bound", "l3_bound", "dram_bound", "store_bound", "serializing_operation")


@pytest.mark.parametrize("uarch", UARCHS)
def test_every_event_of_a_table_is_known_and_none_that_happens_is_left_out(uarch: str) -> None:
    known = table.load(uarch)
    by_event = {name: factors_of(counted(spec), uarch) for name, spec in known.events.items()}
    assert {name for name, factors in by_event.items() if factors is None} == set()
    never = {known.vendor_names[name] for name, factors in by_event.items() if not factors}
    assert never <= NEVER.keys()
    here = NEVER.keys() & {known.vendor_names.get(name) for name in by_event}
    assert never == here


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("uarch", UARCHS)
def test_level_3_is_the_workload_s(uarch: str, workload: str) -> None:
    """Of a thread alone on its core, from what the model says of a cycle, by no table's formula."""
    work = workloads.load(workload)
    cycle = dict(zip(INDEX, workloads.per_cycle(work), strict=True))
    core = work.slots["backend_bound"] - work.slots["memory_bound"]
    no_port = cycle["stalls_total"] - cycle["stalls_memory"]
    busy = core - no_port  # with few ports
    wanted = {
        "l1_bound": cycle["stalls_memory"] - cycle["stalls_l1_miss"],
        "l2_bound": cycle["stalls_l1_miss"] - cycle["stalls_l2_miss"],
        "l3_bound": cycle["stalls_l2_miss"] - cycle["stalls_l3_miss"],
        "dram_bound": cycle["stalls_l3_miss"],
        "cxl_mem_bound": 0.0,
        "store_bound": 0.1 * work.slots["memory_bound"],
        "divider": 0.1 * no_port,
        "serializing_operation": 0.05 * no_port,
        # The vendor's formula for Sapphire Rapids multiplies two shares of the cycles.
        "ports_utilization": (0.95 * no_port**2 if uarch == "SPR" else no_port) + busy,
        "microcode_sequencer": work.slots["heavy"],
        "few_uops_instructions": 0.0,
    }
    result = levels(uarch, workload, depth=3)
    wanted |= front_end(uarch, cycle) | spoiled(uarch, result) | useful(uarch, work, cycle)
    topdown = table.load(uarch).topdown
    assert topdown is not None
    third = [name for name, level in topdown.level.items() if level == 3]
    assert wanted.keys() - set(third) <= {
        "BDX": {
            "cxl_mem_bound",
            "serializing_operation",
            "few_uops_instructions",
            "other_mispredicts",
            "other_nukes",
        },
        "SKX": {"cxl_mem_bound"},
    }.get(uarch, set())
    for node in third:
        assert result[f"tma.{node}"][0] == pytest.approx(wanted[node], abs=1e-12), node
    loads = sum(wanted[f"{name}_bound"] for name in ("l1", "l2", "l3", "dram", "cxl_mem"))
    assert loads + wanted["store_bound"] == pytest.approx(work.slots["memory_bound"], abs=1e-12)


# The vendor's cost in cycles of an unknown branch and of a switch to microcode.
BRANCH_COST = {"BDX": 12, "SKX": 9, "CLX": 9, "ICX": 10, "SPR": 10}
SWITCH_COST = {"BDX": 2, "SKX": 2, "CLX": 2, "ICX": 3, "SPR": 3}


def front_end(uarch: str, cycle: Mapping[str, float]) -> dict[str, float]:
    """Level 3 of the front end, shares of the cycles of a thread alone on its core."""
    late = cycle["cycles_none_delivered"]
    clears = 12 * (cycle["mispredicts"] + cycle["machine_clears"])
    # Where only retired switches are counted the formula adds those that were thrown away.
    issued = cycle["uops_issued"] / cycle["retire_slots"] if uarch == "SPR" else 1.0
    return {
        "icache_misses": 0.4 * late,
        "itlb_misses": (14 * 0.002 + 0.04 + 7 * 0.002 if uarch == "BDX" else 0.1) * late,
        "branch_resteers": clears + 0.01 * BRANCH_COST[uarch] * late,
        "ms_switches": 0.04 * SWITCH_COST[uarch] * issued * late,
        "lcp": 0.02 * late,
        "dsb_switches": 0.1 * late,
        "mite": 0.25 * (cycle["slots_not_delivered"] / 4 - late),
        "dsb": 0.75 * (cycle["slots_not_delivered"] / 4 - late),
    }


def spoiled(uarch: str, known: Mapping[str, Column]) -> dict[str, float]:
    """Level 3 of bad speculation: one branch in six that clears the pipeline never retires."""
    mispredicts, clears = (
        known[f"tma.{name}"].values[0] for name in ("branch_mispredicts", "machine_clears")
    )
    # On Ice Lake top-down reads clears of retired branches alone.
    lost = 0.0 if uarch == "ICX" else 1 - 1 / 1.2
    return {"other_mispredicts": lost * mispredicts, "other_nukes": 0.2 * clears}


def useful(uarch: str, work: workloads.Workload, cycle: Mapping[str, float]) -> dict[str, float]:
    """Level 3 of light operations, and of the slots of the microcode sequencer."""
    light = work.slots["retiring"] - work.slots["heavy"]
    of_uops = cycle["instructions"] / (WIDTH[uarch] / 4 * cycle["retire_slots"])
    fused = cycle["macro_fused"] / (WIDTH[uarch] / 4 * cycle["retire_slots"])
    if uarch == "BDX":
        return {"fp_arith": 0.003 * of_uops}
    by_event = {
        "fp_arith": 0.003 * of_uops,
        "memory_operations": light * 0.42 * (of_uops if uarch == "SPR" else 1.0),
    }
    if uarch == "ICX":
        by_event["branch_instructions"] = light * 0.16 * of_uops
    else:
        by_event |= {
            "fused_instructions": light * fused,
            "non_fused_branches": light * (0.16 * of_uops - fused),
        }
    wanted = dict(by_event)
    if uarch == "SPR":
        by_event["int_operations"] = wanted["int_operations"] = 0.01 * of_uops
        issued = cycle["uops_issued"] / cycle["retire_slots"]
        wanted["ms"] = max(0.25, 0.2 * issued) * cycle["microcode_uops"] / 2.4
        wanted["amx_busy"] = 0.0
    elif uarch == "ICX":
        wanted["ms"] = 0.25 * cycle["microcode_uops"] / 3.3
    return wanted | {"other_light_ops": max(0.0, light - sum(by_event.values()))}


WIDTH = {"BDX": 4, "SKX": 4, "CLX": 4, "ICX": 5, "SPR": 6}


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("uarch", UARCHS)
def test_level_4_of_the_front_end_is_the_workload_s(uarch: str, workload: str) -> None:
    cycle = dict(zip(INDEX, workloads.per_cycle(workloads.load(workload)), strict=True))
    late, result = cycle["cycles_none_delivered"], levels(uarch, workload, depth=4)
    wanted = {
        "mispredicts_resteers": 12 * cycle["mispredicts"],
        "clears_resteers": 12 * cycle["machine_clears"],
        "unknown_branches": 0.01 * BRANCH_COST[uarch] * late,
    }
    if uarch != "BDX":
        wanted |= {"code_stlb_hit": 0.06 * late, "code_stlb_miss": 0.04 * late}
    if uarch in ("ICX", "SPR"):
        wanted |= {"code_l2_hit": 0.3 * late, "code_l2_miss": 0.1 * late}
    for node, ratio in wanted.items():
        assert result[f"tma.{node}"][0] == pytest.approx(ratio, abs=1e-12), node


# The vendor's cost in cycles of a translation that the second-level TLB has; of walks that end.
TLB_COST = {"BDX": (8, 7), "SKX": (9, 0), "CLX": (9, 0), "ICX": (7, 0), "SPR": (7, 0)}


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("uarch", UARCHS)
def test_level_4_of_the_back_end_is_the_workload_s(uarch: str, workload: str) -> None:
    cycle = dict(zip(INDEX, workloads.per_cycle(workloads.load(workload)), strict=True))
    result = levels(uarch, workload, depth=4)
    hits = cycle["stalls_memory"] - cycle["stalls_l1_miss"]
    hit_cost, walk_cost = TLB_COST[uarch]
    translations = 0.002 * hit_cost + 0.02 + 0.001 * walk_cost
    wanted = {
        "dtlb_load": translations * hits,
        "dtlb_store": translations * cycle["stalls_store"],
        "store_fwd_blk": 13 * 0.005 * hits,
        "fb_full": 0.0,
        "sq_full": 0.0,
        "mem_bandwidth": 0.25 * cycle["stalls_l3_miss"],
        "mem_latency": 0.75 * cycle["stalls_l3_miss"],
    }
    if uarch != "BDX":
        wanted["ports_utilized_1"] = cycle["one_port"]
        wanted["ports_utilized_2"] = cycle["two_ports"]
        wanted["ports_utilized_3m"] = 0.3
    wanted |= stores_and_divider(uarch, cycle)
    for node, ratio in wanted.items():
        assert result[f"tma.{node}"][0] == pytest.approx(ratio, abs=1e-12), node


# The vendor's cost in cycles of a store that the second-level cache has.
STORE_COST = {"BDX": 9, "SKX": 11, "CLX": 11, "ICX": 10, "SPR": 10}


def stores_and_divider(uarch: str, cycle: Mapping[str, float]) -> dict[str, float]:
    """More of level 4: stores, locks, and what the divider works on."""
    hits = cycle["stalls_memory"] - cycle["stalls_l1_miss"]
    no_port = cycle["stalls_total"] - cycle["stalls_memory"]
    locked = 0.0005 / 0.12
    at_stores = cycle["stalls_store"]
    in_second_level = STORE_COST[uarch] * 0.003 * cycle["instructions"]
    wanted = {
        "store_latency": (1 - locked) * (in_second_level + at_stores),
        "split_stores": (2 if uarch == "BDX" else 1) * 0.0002 * cycle["instructions"],
        "assists": 0.0,
    }
    if uarch == "SPR":
        wanted["lock_latency"] = 0.002 * cycle["instructions"]
    else:
        both = locked * (at_stores + (0 if uarch == "BDX" else in_second_level))
        wanted |= {"lock_latency": both, "4k_aliasing": 0.004 * hits}
    if uarch != "BDX":
        loads = 0.3 * cycle["instructions"] - 1.25 * cycle["loads_l1_miss"]
        wanted["l1_latency_dependency"] = min(0.4 * loads, hits)
    if uarch in ("ICX", "SPR"):
        wanted |= {"fp_divider": 0.02 * no_port, "int_divider": 0.08 * no_port}
    return wanted


def of_cores(model: Model, uarch: str) -> dict[str, Column]:
    """Counts per second of the model's cores, their threads added up."""
    columns = {}
    for name, spec in table.load(uarch).events.items():
        factors = factors_of(counted(spec), uarch)
        assert factors is not None, name
        weights = np.zeros(len(INDEX))
        for key, factor in factors.items():
            weights[INDEX[key]] = factor
        columns[name] = column(model.steady[0] @ weights)
    return sum_siblings(columns, model.layout.topology)


@pytest.mark.parametrize("uarch", [name for name in UARCHS if name != "SKX"])
def test_the_same_host_on_another_cpu(uarch: str) -> None:
    """With hyper-threading, and whatever shares a core with a poller: as on Skylake."""
    model = model_of(scenario.load("default"), 88)
    known, skylake = table.load(uarch), table.load("SKX")
    mine, its = of_cores(model, uarch), of_cores(model, "SKX")
    nodes = evaluate(known, mine, smt=True, levels=3)
    existing = evaluate(skylake, its, smt=True, levels=3)
    for node in ALIKE:
        if (name := f"tma.{node}") in nodes:
            assert nodes[name].present.all()
            np.testing.assert_allclose(nodes[name].values, existing[name].values, atol=1e-12)
    probes, its_probes = evaluate_probes(known, mine), evaluate_probes(skylake, its)
    assert probes.keys() <= its_probes.keys()
    for name, probe in probes.items():
        reading = probe[0]
        assert not isinstance(reading, Missing), name
        np.testing.assert_allclose(probe.values, its_probes[name].values, rtol=1e-12)
    for name in ("snoop_miss", "snoop_hit", "snoop_hitm", "local_dram", "remote_dram"):
        assert (probes[f"{name}_per_s"].values > 0).all()
