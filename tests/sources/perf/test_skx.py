"""The SKX table counted by PerfSource on an emulated PMU, up to the top-down numbers.

The PMU has the counters that the vendor documents; the kernel takes a group that would fit an
empty PMU, and one that does not fit beside the NMI watchdog opens and never runs.
"""

from __future__ import annotations

import errno
import time
from pathlib import Path

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.topdown.tma import FocusState, step_focus
from nftop.model.column import Column, column
from nftop.model.frame import CoreDetail
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.sample import CounterTable, SourceReading
from nftop.sources.perf.problems import never_ran
from nftop.sources.perf.source import PerfSource
from nftop.uarch import table
from nftop.uarch.focus import evaluate_focus
from nftop.uarch.topdown import evaluate, sum_siblings
from tests.sim.test_focus import is_drilled
from tests.sources.emulated import (
    BOTH_THREADS,
    ONE_THREAD,
    OTHERWISE,
    SECOND,
    counted,
    set_paces,
    topdown,
)
from tests.sources.perf_kernel import Event, FakeKernel
from tests.sources.trees import PMUS, put

SKX = table.load("SKX")
FORMATS = {
    "event": "0-7",
    "umask": "8-15",
    "edge": "18",
    "any": "21",
    "inv": "23",
    "cmask": "24-31",
}

# Counts per microsecond of one thread at 2.4 GHz, of which two share a core with 4 x 2400 slots.
PER_US = {
    "cycles": 2400,
    "aperf": 2400,
    "cycles_any": 2400,
    "ref_cycles": 2100,
    "tsc": 2100,
    "instructions": 3000,
    "context_switches": 1,
    "idq_uops_not_delivered_core": 480,
    "uops_issued_any": 3360,
    "uops_retired_retire_slots": 3120,
    "int_misc_recovery_cycles": 48,
    "int_misc_recovery_cycles_any": 48,
}
# Of the core: 2 x 480, 2 x (3360 - 3120) + 4 x 48, the remainder, and 2 x 3120 of 9600 slots.
LEVEL_1_SMT = {
    "frontend_bound": 0.1,
    "bad_speculation": 0.07,
    "backend_bound": 0.18,
    "retiring": 0.65,
}
FIXED_CYCLES = {(4, 0x3C), (4, 0x20003C)}
FIXED = {(4, 0xC0), (4, 0x300), *FIXED_CYCLES}


def general(group: tuple[Event, ...], *, watchdog: bool) -> int:
    """How many general counters a group takes."""
    taken = sum(1 for event in group if event[0] == 4 and event not in FIXED)
    clocks = sum(1 for event in group if event in FIXED_CYCLES)
    return taken + max(0, clocks - (0 if watchdog else 1))


def emulate(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    counters: int,
    watchdog: bool,
    has_any: bool = True,
) -> FakeKernel:
    def refuse(cpu: int, group: tuple[Event, ...], event: Event) -> int:
        return errno.EINVAL if general((*group, event), watchdog=False) > counters else 0

    def share(cpu: int, group: tuple[Event, ...]) -> float:
        return float(general(group, watchdog=watchdog) <= counters)

    fake = FakeKernel(root, refuse=refuse, share=share)
    terms = {term: bits for term, bits in FORMATS.items() if term != "any" or has_any}
    texts = {f"cpu/format/{term}": f"config:{bits}" for term, bits in terms.items()}
    put(root / PMUS, {"cpu/type": "4", "msr/events/aperf": "event=0x01", **texts})
    set_paces(fake, SKX, PER_US, monkeypatch)
    return fake


def exact(*, smt: bool) -> dict[str, Column]:
    """What the emulated PMU counts in a second, of cores: it is a thousand times as fast."""
    machine = BOTH_THREADS if smt else ONE_THREAD
    rows = len(machine.cpus)
    counts = {name: column(np.full(rows, PER_US.get(name, OTHERWISE) * 1e9)) for name in SKX.events}
    for name in SKX.extras & {"aperf", "cycles_any"}:
        del counts[name]
    return sum_siblings(counts, machine)


def level_2(*, smt: bool) -> dict[str, Reading]:
    """By the table's formulas."""
    nodes = evaluate(SKX, exact(smt=smt), smt=smt, levels=2)
    return {name.removeprefix("tma."): component[0] for name, component in nodes.items()}


@pytest.mark.parametrize("watchdog", [False, True])
def test_hyper_threading_gives_both_levels_next_to_the_watchdog_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watchdog: bool
) -> None:
    fake = emulate(tmp_path, monkeypatch, counters=4, watchdog=watchdog)
    last, components = topdown(fake, SKX, smt=True, levels=2)
    assert ("cycles" in counted(last), "aperf" in counted(last)) == (not watchdog, watchdog)
    assert {name: components[name] for name in LEVEL_1_SMT} == pytest.approx(LEVEL_1_SMT)
    assert components == pytest.approx(level_2(smt=True))
    assert "llc_misses" in counted(last)
    assert "llc_misses" not in counted(last, group=0)
    assert last.turns == 3
    assert last.gaps == ("" if not watchdog else "no cycles: " + never_ran(tmp_path).sentence)


@pytest.mark.parametrize("smt", [True, False])
def test_a_healthy_host_has_no_gaps_and_doctor_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, smt: bool
) -> None:
    """Four counters, with one thread a core too: its siblings are offline."""
    fake = emulate(tmp_path, monkeypatch, counters=4, watchdog=False)
    last, _ = topdown(fake, SKX, smt=smt, levels=2)
    assert last.gaps == ""
    monkeypatch.setattr(time, "sleep", lambda _: fake.pass_ns(SECOND))
    source = PerfSource(root=fake.root, kernel=fake.kernel, uarch=SKX.with_smt(on=smt))
    checks = source.check()
    source.close()
    assert [check.reason for check in checks] == [Reason.PRESENT]
    assert "idq_uops_not_delivered_core" in checks[0].text


@pytest.mark.parametrize("watchdog", [False, True])
@pytest.mark.parametrize("counters", [8, 4])
def test_one_thread_a_core_gives_level_1_and_with_eight_counters_llc_misses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counters: int, watchdog: bool
) -> None:
    fake = emulate(tmp_path, monkeypatch, counters=counters, watchdog=watchdog)
    last, components = topdown(fake, SKX, smt=False, levels=2)
    assert components["retiring"] == pytest.approx(3120 / 9600)
    assert components["frontend_bound"] == pytest.approx(480 / 9600)
    assert components == pytest.approx(level_2(smt=False))
    assert ("llc_misses" in counted(last, group=0)) == (counters == 8)
    assert "llc_misses" in counted(last)
    assert last.turns == (2 if counters == 8 else 3)


def test_without_the_any_bit_no_top_down_and_ipc_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    """Elsewhere the kernel takes bit 21 and it means nothing: half of a wrong number."""
    fake = emulate(tmp_path, monkeypatch, counters=4, watchdog=False, has_any=False)
    last, components = topdown(fake, SKX, smt=True, levels=2)
    assert {"cycles", "instructions", "ref_cycles", "llc_misses"} <= set(counted(last))
    assert "int_misc_recovery_cycles_any" in last.events
    assert "".join(last.details["int_misc_recovery_cycles_any"].values()) == snapshot
    assert all(isinstance(component, Missing) for component in components.values())


@pytest.mark.parametrize(
    ("watchdog", "node"), [(False, ""), (True, "memory_bound"), (False, "fetch_bandwidth")]
)
def test_a_core_that_is_observed_has_level_3_and_probes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watchdog: bool, node: str
) -> None:
    fake = emulate(tmp_path, monkeypatch, counters=4, watchdog=watchdog)
    source = PerfSource(
        root=fake.root,
        kernel=fake.kernel,
        clock_ns=lambda: fake.now_ns,
        uarch=SKX.with_smt(on=True),
        threads_of=lambda cpu: BOTH_THREADS.with_siblings((cpu,)),
    )
    state, focus = FocusState(), None
    seen: list[CoreDetail] = []
    source.focus(Cpu(3), node)
    for tick in range(1, 27):
        fake.pass_ns(9 * SECOND // 10)
        source.turn()
        fake.pass_ns(SECOND // 10)
        reading = SourceReading(source.read(), tick * SECOND, 0)
        assert isinstance(reading.value, CounterTable)
        state, focus = step_focus(state, reading, SKX, BOTH_THREADS)
        seen += [] if focus is None else [focus]
    source.close()
    counts = {name: component[0] for name, component in exact(smt=True).items()}
    tree, probes = evaluate_focus(SKX, counts, smt=True)
    last = seen[-1]
    assert last.cpus == (1, 3)
    uncounted = {item.name for item in last.tree if is_drilled(item.reading)}
    below = {
        "memory_bound": {
            "dtlb_load",
            "store_fwd_blk",
            "fb_full",
            "sq_full",
            "mem_bandwidth",
            "mem_latency",
            "dtlb_store",
            "l1_latency_dependency",
            "lock_latency",
            "split_loads",
            "4k_aliasing",
            "contested_accesses",
            "data_sharing",
            "l3_hit_latency",
            "store_latency",
            "false_sharing",
            "split_stores",
        },
        "core_bound": {"ports_utilized_1", "ports_utilized_2", "ports_utilized_3m"},
        "fetch_bandwidth": {"mite", "dsb", "decoder0_alone"},
        "branch_mispredicts": {"other_mispredicts"},
        "machine_clears": {"other_nukes"},
        "heavy_operations": {"assists", "cisc"},
        "light_operations": {
            "fp_arith",
            "x87_use",
            "fp_scalar",
            "fp_vector",
            "memory_operations",
            "non_fused_branches",
            "other_light_ops",
            "nop_instructions",
        },
    }
    assert uncounted == {name for of, names in below.items() if of != node for name in names}
    for shown, wanted in zip(last.tree, tree, strict=True):
        if shown.name not in uncounted:
            assert shown.reading == pytest.approx(wanted.reading), shown.name
            assert shown.beyond == wanted.beyond, shown.name
    assert {name: last.readings[name] for name in probes} == pytest.approx(probes)
    # A tenth of one tick in each round of three turns and its own groups, or sooner at the start.
    turns = 3 + len(SKX.focus_groups) + len(SKX.drill.get(node, ()))
    shares = {node.name: node.coverage for node in last.tree}
    assert shares["retiring"] == pytest.approx(0.9, rel=1e-3)
    deep = [*last.coverage.values(), shares["memory_bound"], shares["l1_bound"]]
    assert min(deep) == pytest.approx(0.1 / turns, rel=1e-3)  # type: ignore[type-var]
    assert all(isinstance(item, float) and item <= 0.1 for item in deep)
    deep = [{n.name: n.reading for n in item.tree}["l1_bound"] for item in seen]
    first = next(at for at, reading in enumerate(deep) if not isinstance(reading, Missing))
    assert 0 < first <= turns + watchdog
    assert all(isinstance(r, Missing) and r.reason is Reason.WARMING for r in deep[:first])
    assert not any(isinstance(r, Missing) for r in deep[first:])
    assert not fake.fds
