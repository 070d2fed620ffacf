"""The SKX table: encodings, plans that fit the counters, and the reference it restates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from nftop.sources.perf.pmu import Pmu, encode
from nftop.uarch import grammar, table
from nftop.uarch.parts import Uncore
from nftop.uarch.table import Encoding, EventSpec, Plan, PmuTerms

SKX = table.load("SKX")
# Restated from Intel's public event files and top-down metrics, and for PCIe from PCM.
REFERENCE = Path(__file__).parents[1] / "data/uarch_skx.json"
# Not in the reference: the architectural event, checked below against the SDM's numbers.
ARCHITECTURAL = {"LONGEST_LAT_CACHE.MISS"}
# /sys/bus/event_source/devices/cpu/format of an Intel core before Ice Lake.
CORE = Pmu(
    "cpu",
    4,
    {
        "event": "config:0-7",
        "umask": "config:8-15",
        "edge": "config:18",
        "any": "config:21",
        "inv": "config:23",
        "cmask": "config:24-31",
    },
    {},
    None,
)
# .../devices/uncore_cha_0/format and uncore_imc_0/format, arch/x86/events/intel/uncore_snbep.c.
BOX = Pmu(
    "box",
    30,
    {
        "event": "config:0-7",
        "umask": "config:8-15",
        "filter_rem": "config1:32",
        "filter_loc": "config1:33",
        "filter_nm": "config1:36",
        "filter_not_nm": "config1:37",
        "filter_opc0": "config1:41-50",
    },
    {},
    None,
)


def core_config(spec: EventSpec) -> int:
    encoding = encode(CORE, spec.terms) if isinstance(spec, PmuTerms) else spec
    assert encoding == Encoding(4, encoding.config), "a raw event with one config word"
    return encoding.config


def box_configs(unit: Uncore) -> dict[str, tuple[int, int]]:
    encodings = {name: encode(BOX, spec.terms) for name, spec in unit.events.items()}
    return {name: (code.config, code.config1) for name, code in encodings.items()}


def units() -> dict[str, Uncore]:
    return {unit.name: unit for unit in SKX.uncore}


def reference() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(REFERENCE.read_text())
    return found


def test_encodings_of_every_kind_of_field() -> None:
    # Intel SDM volume 3, "Skylake and Kaby Lake events": event | umask << 8 | edge << 18 |
    # any << 21 | cmask << 24.
    assert {
        name: core_config(SKX.events[name])
        for name in (
            "cycles",
            "cycles_any",
            "ref_cycles",
            "machine_clears_count",
            "int_misc_recovery_cycles_any",
            "cycle_activity_stalls_mem_any",
            "llc_misses",
        )
    } == {
        "cycles": 0x3C,
        "cycles_any": 0x20003C,
        "ref_cycles": 0x300,
        "machine_clears_count": 0x10401C3,
        "int_misc_recovery_cycles_any": 0x20010D,
        "cycle_activity_stalls_mem_any": 0x140014A3,
        "llc_misses": 0x412E,
    }
    # PCM's filter codes (pcm-pcie) stand in the upper half of config1.
    assert box_configs(units()["cha"]) == {
        "pcirdcur_hit": (0x1435, 0x43C33 << 32),
        "pcirdcur_miss": (0x2435, 0x43C33 << 32),
        "rfo_hit": (0x1435, 0x40033 << 32),
        "rfo_miss": (0x2435, 0x40033 << 32),
        "itom_hit": (0x1435, 0x49033 << 32),
        "itom_miss": (0x2435, 0x49033 << 32),
    }
    assert box_configs(units()["imc"]) == {"cas_read": (0x304, 0), "cas_write": (0xC04, 0)}


def test_every_core_event_is_the_reference_s() -> None:
    listed = reference()["events"]
    vendor = {SKX.vendor_names[name]: spec for name, spec in SKX.events.items() if name in named()}
    ours = {name: hex(core_config(spec)) for name, spec in vendor.items()}
    theirs = {name: listed[name]["perf"]["config"] for name in ours if name in listed}
    differences = {
        name: (code, theirs.get(name)) for name, code in ours.items() if theirs.get(name) != code
    }
    assert differences == {"LONGEST_LAT_CACHE.MISS": ("0x412e", None)}
    # And nothing that the formulas need is left out.
    needed = {
        event
        for metric in reference()["metrics"].values()
        if metric.get("level") in (1, 2)
        for key in ("events_smt_on", "events_smt_off")
        for event in metric[key]
    }
    assert needed - set(ours) == set()
    assert set(ours) - needed == {"CPU_CLK_UNHALTED.REF_TSC", *ARCHITECTURAL}


def named() -> set[str]:
    return set(SKX.vendor_names) & set(SKX.events)


def test_every_uncore_event_is_the_reference_s() -> None:
    uncore = reference()["uncore"]
    formats = {
        "cha": uncore["cha"]["format"],
        "imc": uncore["imc"]["format"],
    }
    listed = {
        "cha": {
            name.lower().replace(".", "_"): event
            for name, event in uncore["events"].items()
            if "config" in event
        },
        "imc": {
            "cas_read": uncore["imc"]["events"]["rd"],
            "cas_write": uncore["imc"]["events"]["wr"],
        },
    }
    differences: list[object] = []
    for name, unit in units().items():
        pmu = Pmu(unit.pmu, 30, formats[name], {}, None)
        assert f"{unit.pmu}_%d" == uncore[name]["pmu"]
        for event, spec in unit.events.items():
            ours = encode(pmu, spec.terms)
            theirs = listed[name][event]
            want = (int(theirs["config"], 0), int(theirs.get("config1", "0"), 0))
            if (ours.config, ours.config1) != want:
                differences.append((event, ours, want))
            if SKX.vendor_names.get(event) != theirs["perfmon"]:
                differences.append((event, SKX.vendor_names.get(event), theirs["perfmon"]))
    assert differences == []


def test_identity_counters_and_slots_are_the_reference_s() -> None:
    facts = reference()
    (cpuid,) = facts["cpuid"]
    (own,) = SKX.cpuid
    first, last = (int(step) for step in cpuid["steppings"].split("-"))
    assert (own.family, own.model) == (cpuid["family"], int(cpuid["model"], 0))
    assert (own.first_stepping, own.last_stepping) == (first, last)
    assert SKX.counters and SKX.topdown
    assert SKX.counters.general_smt_on == facts["counters"]["gp_per_thread_ht_on"]
    assert SKX.counters.general_smt_off == facts["counters"]["gp_per_thread_ht_off"]
    assert SKX.counters.width_bits == facts["counters"]["width_bits"]
    assert SKX.topdown.slots_per_cycle == facts["pipeline_width_slots"]
    assert units()["cha"].counters == facts["uncore"]["cha"]["counters"]
    for name, metric in facts["metrics"].items():
        if metric.get("level") in (1, 2):
            parent = metric["parent"] and metric["parent"].lower()
            assert SKX.topdown.level[name.lower()] == metric["level"]
            assert SKX.topdown.parent.get(name.lower()) == parent


def test_cpus_are_told_apart_by_stepping() -> None:
    assert table.identify("GenuineIntel", 6, 0x55, 4) == "SKX"
    assert table.identify("GenuineIntel", 6, 0x55, 7) == "generic"
    assert table.identify("GenuineIntel", 6, 0x6A, 4) == "generic"
    assert table.identify("AuthenticAMD", 6, 0x55, 4) == "generic"


def on_general(events: Iterable[str], *, watchdog: bool) -> int:
    """How many general counters a group takes; the NMI watchdog has the fixed one of cycles."""
    assert SKX.counters
    taken = 0
    free = [fixed for fixed in SKX.counters.fixed if not (watchdog and "cycles" in fixed)]
    for event in events:
        spec = SKX.events[event]
        on_core = spec.pmu_type == 4 if isinstance(spec, Encoding) else spec.pmu == "cpu"
        fixed = next((slot for slot in free if event in slot), None)
        if fixed is not None:
            free.remove(fixed)
        elif on_core:
            taken += 1
    return taken


def topdown_plans(*, smt: bool) -> list[Plan]:
    return [plan for plan in SKX.with_smt(on=smt).plans if plan.turns]


@pytest.mark.parametrize("watchdog", [False, True])
@pytest.mark.parametrize(("smt", "general"), [(True, 4), (False, 8), (False, 4)])
def test_some_topdown_plan_fits_whatever_there_is(smt: bool, general: int, watchdog: bool) -> None:
    fitting = [
        plan
        for plan in topdown_plans(smt=smt)
        if all(on_general(g, watchdog=watchdog) <= general for g in plan.groups)
    ]
    assert fitting
    # Cycles of the core are counted without the watchdog's counter, and IPC with them.
    assert {"cycles", "aperf"} & set(fitting[0].events)
    assert len(fitting[0].turns) == (1 if general == 8 else 3)


@pytest.mark.parametrize("smt", [True, False])
def test_a_turn_never_needs_more_counters_than_the_plan_s_own_group(smt: bool) -> None:
    for plan in topdown_plans(smt=smt):
        for watchdog in (False, True):
            most = on_general(plan.events, watchdog=watchdog)
            assert all(on_general(turn, watchdog=watchdog) <= most for turn in plan.turns)


@pytest.mark.parametrize("smt", [True, False])
def test_a_plan_and_its_turns_hold_all_that_the_formulas_read(smt: bool) -> None:
    assert SKX.topdown
    terms = SKX.topdown.terms_smt_on if smt else SKX.topdown.terms_smt_off
    formulas = {**terms, **SKX.topdown.nodes}
    read = {name for text in formulas.values() for name in grammar.names(grammar.parse(text))}
    clocks = {"cycles", "aperf", "cycles_any"}
    needed = (read & set(SKX.events)) - clocks
    for plan in topdown_plans(smt=smt):
        groups = plan.groups
        counted = {event for group in groups for event in group}
        assert needed - counted == set()
        assert "llc_misses" in counted
        # Level 1 is one group, and every group has the cycles and instructions of its own time.
        level_1 = {event for event in plan.needs if event not in (*clocks, "instructions")}
        assert level_1 == {
            "idq_uops_not_delivered_core",
            "uops_issued_any",
            "uops_retired_retire_slots",
            "int_misc_recovery_cycles_any" if smt else "int_misc_recovery_cycles",
        }
        for group in groups:
            # So that IPC, frequency and context switches are counted all the time.
            assert {"instructions", "ref_cycles", "tsc", "context_switches"} <= set(group)
            assert clocks & set(group)


def test_a_host_s_hyper_threading_chooses_the_plans() -> None:
    both = {plan.events for plan in SKX.plans if plan.smt is None}
    for smt in (True, False):
        chosen = SKX.with_smt(on=smt)
        assert {plan.smt for plan in chosen.plans} == {smt, None}
        assert both <= {plan.events for plan in chosen.plans}
        ours = "int_misc_recovery_cycles_any" if smt else "int_misc_recovery_cycles"
        theirs = "int_misc_recovery_cycles" if smt else "int_misc_recovery_cycles_any"
        assert ours in chosen.counted and theirs not in chosen.counted
        # What every table gives, so that IPC, CPP and frequency need not know the CPU.
        generic = table.load()
        assert set(generic.counted) <= set(chosen.counted)
        assert chosen.plans[-1] == generic.plans[-1]


def test_what_counts_for_the_whole_core_is_known() -> None:
    assert SKX.of_core == {"cycles_any", "int_misc_recovery_cycles_any"}


def test_a_filter_serves_one_opcode_at_a_time() -> None:
    cha = units()["cha"]
    configs = box_configs(cha)
    for turn in cha.turns:
        assert len({configs[event][1] for event in turn}) == 1
        assert sorted(event.rpartition("_")[2] for event in turn) == ["hit", "miss"]
