"""Top-down of a whole host, by nftop inside, against what the model it counts was given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nftop.model.column import Column, column
from nftop.sim.events import factors_of
from nftop.sources.perf.problems import REGISTER_IGNORED
from nftop.uarch import table
from nftop.uarch.sections import Topdown
from nftop.uarch.topdown import evaluate, sum_siblings
from tests.lab.tests import steady
from tests.lab.tests.labs import answer, needs_lab
from tests.uarch.counters import core_encoding, on_core

pytestmark = needs_lab
CPUS = 8
INTERVAL_S = 0.2
UARCHS = {"bdx": "BDX", "skx-4": "SKX", "skx-7": "CLX", "icx": "ICX", "spr": "SPR"}
# Frames until every node of the cores that are awake has a number: cores that sleep have none, and
# a tick that comes late here has no turn.
_UNTIL = """
from pathlib import Path
from nftop.cli.compose.hosts import open_host
from nftop.export.json.frame import frame_object

def until(level, nodes, metrics=()):
    feed = open_host(tma_level=level).feed(interval_s=INTERVAL_S)
    reads = set()
    for number, frame in enumerate(feed.frames()):
        shown = json.loads(json.dumps(frame_object(frame), default=list))
        busy = {cpu["cpu"] for cpu in shown["cpus"] if (cpu["busy_ratio"] or 0) > 0.9}
        awake = [c for c in shown["cpus"] if not busy.isdisjoint((c["cpu"], *c["siblings"]))]
        own = {"counter_reads": None, "counter_interrupts": None}
        own |= shown["self"].get("by_source", {}).get("perf", {})
        reads.add((own["counter_reads"], own["counter_interrupts"]))
        whole = all(cpu[name] is not None for cpu in shown["cpus"] for name in metrics)
        if whole and awake and all(c["tma"][node] is not None for c in awake for node in nodes):
            counts = sorted(reads - {(None, None)})
            return shown["host"]["uarch"], awake, counts, shown["cpus"], shown["interval_s"]
        assert number < 300, shown

found = []
for watchdog in "10":
    Path("/proc/sys/kernel/nmi_watchdog").write_text(watchdog)
    found.append([until(2, NODES, METRICS), until(1, ["retiring"])])
print(json.dumps(found))
"""


def expected(uarch: str, *, smt: bool, levels: int) -> dict[str, Column]:
    """By the table's formulas, of the model's own rates."""
    known = table.load(uarch)
    model = steady.model(CPUS, smt=smt)
    columns = {}
    for event, spec in known.events.items():
        factors = factors_of(core_encoding(spec), uarch) if on_core(spec) else None
        if factors is not None:
            by_cpu = (factor * steady.rates(model, name) for name, factor in factors.items())
            columns[event] = column(np.zeros(CPUS) + sum(by_cpu))
    columns["tsc"] = column(steady.rates(model, "tsc"))
    of_cores = sum_siblings(columns, model.layout.topology)
    return evaluate(known, of_cores, smt=smt, levels=levels)


@pytest.mark.parametrize("smt", ["on", "off"])
@pytest.mark.parametrize("machine", UARCHS)
def test_both_levels_are_the_model_s(machine: str, smt: str, tmp_path: Path) -> None:
    scenario = steady.written(tmp_path)
    # Boxes outside the cores take turns of their own, on half of these hosts.
    pmu = "own" if smt == "on" else "cores"
    host = ("--model", machine, "--cpus", str(CPUS), "--smt", smt, "--pmu", pmu)
    lab = (*host, "--scenario", scenario)
    wanted = expected(UARCHS[machine], smt=smt == "on", levels=2)
    nodes = [name.removeprefix("tma.") for name in wanted]
    turned = machine != "spr"
    model = steady.model(CPUS, smt=smt == "on")
    misses = {
        ("llc_misses_per_s", "llc_misses_coverage"): steady.rates(model, "llc_misses"),
        ("local_dram_per_s", "memory_loads_coverage"): 0.98 * steady.rates(model, "drd_miss"),
        ("remote_dram_per_s", "memory_loads_coverage"): 0.02 * steady.rates(model, "drd_miss"),
    }
    names = [name for name, _ in misses]
    for full, short in answer(
        f"INTERVAL_S = {INTERVAL_S}\nNODES = {nodes}\nMETRICS = {names}\n{_UNTIL}", *lab
    ):
        uarch, awake, reads, cpus, interval_s = full
        assert uarch == UARCHS[machine]
        # With turns two reads of each CPU and four interrupts, and one of each without.
        assert set(map(tuple, reads)) <= {(CPUS, CPUS), (2 * CPUS, 4 * CPUS)}
        assert ([2 * CPUS, 4 * CPUS] in reads) == turned
        assert len(awake) >= 2
        # Of every CPU, polling or not, within a count at each end of its slices. Of 10 ms are most,
        # and one that a late timer left shorter has its own.
        for (metric, share), per_s in misses.items():
            counted_s = interval_s * np.array([cpu[share] for cpu in cpus])
            shown = np.array([cpu[metric] for cpu in cpus])
            errors = (abs(shown - per_s) - 1e-3 * per_s) * counted_s
            assert (errors <= 2 + 200 * counted_s).all(), (metric, errors, counted_s)
        for cpu in awake:
            for node in nodes:
                ratio = wanted[f"tma.{node}"][cpu["cpu"]]
                assert cpu["tma"][node] == pytest.approx(ratio, abs=1e-3), (cpu["cpu"], node)
        _, awake, reads, *_ = short
        assert reads == [[CPUS, CPUS]]
        for cpu in awake:
            ratio = wanted["tma.retiring"][cpu["cpu"]]
            assert cpu["tma"]["retiring"] == pytest.approx(ratio, abs=1e-3)
            assert cpu["missing"].get("tma.memory_bound") == ("source" if turned else None)


READINGS = [
    "load_latency_cycles", "local_dram_per_s", "remote_dram_per_s", "remote_hitm_per_s",
    "remote_forward_per_s", "snoop_miss_per_s", "snoop_hit_per_s", "snoop_hitm_per_s",
]  # fmt: skip
# Of nodes of level 2 with groups of their own, a node below it.
DRILLED = ("mite", "ports_utilized_3m", "mem_latency")
_READ = f"""
from pathlib import Path
from nftop.uarch.table import NOT_LARGEST

def waits(reading):
    return getattr(reading, "detail", "") == NOT_LARGEST
from nftop.cli.compose.hosts import open_host
from nftop.model.frame import Focus
feed = open_host().feed(interval_s={INTERVAL_S})
for number, frame in enumerate(feed.frames()):
    if number == 2:
        feed.set_focus(Focus(core={CPUS} // 2 - 1))
    if frame.focus is not None and any(
        node.name in {DRILLED} and not waits(node.reading) for node in frame.focus.tree
    ) and all(
        isinstance(reading, float) for reading in (
            *(node.reading for node in frame.focus.tree if not waits(node.reading)),
            *(frame.focus.readings.get(name) for name in {READINGS}),
        )
    ):
        tree = [node for node in frame.focus.tree if not waits(node.reading)]
        nodes = {{node.name: node.reading for node in tree}}
        known = {{k: v for k, v in frame.focus.readings.items() if isinstance(v, float)}}
        unknown = Path("/sys/fs/lab/live/ctl/unknown").read_text()
        print(json.dumps([frame.focus.cpus, nodes, known, unknown]))
        break
    assert number < 300, frame.focus
"""


def ancestors(topdown: Topdown, name: str) -> set[str]:
    above: set[str] = set()
    while name in topdown.parent:
        name = topdown.parent[name]
        above.add(name)
    return above


@pytest.mark.parametrize(
    ("machine", "watchdog"),
    [
        ("bdx", "on"),
        ("skx-4", "on"),
        ("skx-4", "off"),
        ("skx-7", "off"),
        ("icx", "on"),
        ("spr", "off"),
    ],
)
def test_the_core_that_is_observed_has_the_model_s_levels_3_and_4(
    machine: str, watchdog: str, tmp_path: Path
) -> None:
    pmu = "own" if watchdog == "on" else "cores"
    lab = ("--model", machine, "--cpus", str(CPUS), "--watchdog", watchdog, "--pmu", pmu)
    cpus, nodes, readings, unknown = answer(_READ, *lab, "--scenario", steady.written(tmp_path))
    assert cpus == [CPUS // 2 - 1, CPUS - 1]
    assert unknown == ""
    wanted = expected(UARCHS[machine], smt=True, levels=4)
    topdown = table.load(UARCHS[machine]).topdown
    assert topdown is not None
    # The workload of this core waits for memory most.
    memory = {name for name in topdown.level if "memory_bound" in ancestors(topdown, name)}
    fetching = {name for name in topdown.level if "fetch_latency" in ancestors(topdown, name)}
    assert {"mem_latency", "lock_latency", "l3_hit_latency", "false_sharing"} <= memory
    upper = {name for name, level in topdown.level.items() if level <= 2}
    assert memory | fetching | upper | {"divider", "microcode_sequencer"} <= nodes.keys()
    for name, ratio in nodes.items():
        assert ratio == pytest.approx(wanted[f"tma.{name}"][cpus[0]], abs=1e-3), name
    model = steady.model(CPUS)
    hits, misses = (steady.rates(model, name)[cpus].sum() for name in ("drd_hit", "drd_miss"))
    latency = (70 * hits + 200 * misses) / (hits + misses)
    assert readings["load_latency_cycles"] == pytest.approx(latency, rel=1e-3)
    # A slice that begins late has but a hundred of some; test_perf_events has them exactly.
    assert readings["local_dram_per_s"] == pytest.approx(0.98 * misses, rel=2e-2)
    for probe, share in {"snoop_miss": 0.002, "snoop_hit": 0.001, "snoop_hitm": 0.004}.items():
        assert readings[f"{probe}_per_s"] == pytest.approx(share * hits, rel=2e-2), probe
    assert readings["remote_dram_per_s"] > 0
    assert readings["remote_hitm_per_s"] == readings["remote_forward_per_s"] == 0


# What the events with a register tell, UOPS_RETIRED.MS and INT_MISC.UNKNOWN_BRANCH_CYCLES.
LACKING = (
    "microcode_sequencer", "few_uops_instructions", "ms_switches", "branch_resteers",
    "unknown_branches", "mispredicts_resteers", "clears_resteers", "assists", "cisc",
)  # fmt: skip
_WITHOUT_REGISTER = f"""
from nftop.cli.compose.hosts import open_host
from nftop.model.frame import Focus
from nftop.model.missing import Missing
from nftop.uarch.table import NOT_LARGEST
LACKING = {set(LACKING)}
feed = open_host().feed(interval_s={INTERVAL_S})
for number, frame in enumerate(feed.frames()):
    if number == 2:
        feed.set_focus(Focus(core={CPUS} // 2 - 1))
    nodes = {{node.name: node.reading for node in frame.focus.tree}} if frame.focus else {{}}
    gone = {{name: each for name, each in nodes.items() if isinstance(each, Missing)}}
    gone = {{name: each for name, each in gone.items() if each.detail != NOT_LARGEST}}
    if nodes and gone.keys() <= LACKING:
        print(json.dumps({{name: [each.reason.name, each.detail] for name, each in gone.items()}}))
        break
    assert number < 300, frame.focus
"""


def test_an_event_without_its_register_is_no_number(tmp_path: Path) -> None:
    """A kernel that ignores config1 of UOPS_RETIRED.MS would count all slots as microcode."""
    lab = ("--model", "spr", "--cpus", str(CPUS), "--pmu", "late-registers")
    shown = answer(_WITHOUT_REGISTER, *lab, "--scenario", steady.written(tmp_path))
    why = [REGISTER_IGNORED.reason.name, REGISTER_IGNORED.sentence]
    assert shown == dict.fromkeys(LACKING, why)
