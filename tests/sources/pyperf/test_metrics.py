"""Which of the kernel's metrics become formulas, and why the others do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Reason
from nftop.sources.perf.problems import QUIET
from nftop.sources.pyperf.metrics import KernelMetrics, find_metrics, without_metrics
from tests.sources.pyperf.fake import ZEN4, ZEN4_EVENTS, FakePerf
from tests.sources.trees import PMUS, put

# Of Ice Lake, as perf writes it (tools/perf/pmu-events/arch/x86/icelakex/icx-metrics.json).
_OF_SLOTS = r"(topdown\-fe\-bound + topdown\-bad\-spec + topdown\-retiring + topdown\-be\-bound)"
ICX = (
    {"MetricName": "tma_retiring", "MetricExpr": rf"topdown\-retiring / {_OF_SLOTS}"},
    {"MetricName": "tma_frontend_bound",
     "MetricExpr": rf"topdown\-fe\-bound / {_OF_SLOTS} - INT_MISC.UOP_DROPPING / tma_info_slots"},
    {"MetricName": "tma_backend_bound",
     "MetricExpr": rf"topdown\-be\-bound / {_OF_SLOTS} + "
     r"5 * cpu@INT_MISC.RECOVERY_CYCLES\,cmask\=1\,edge@ / tma_info_slots"},
    {"MetricName": "tma_bad_speculation",
     "MetricExpr": "max(1 - (tma_frontend_bound + tma_backend_bound + tma_retiring), 0)"},
    {"MetricName": "tma_info_slots", "MetricExpr": "TOPDOWN.SLOTS"},
)  # fmt: skip
ICX_SHOWN = (
    "TOPDOWN.SLOTS",
    "topdown-retiring",
    "topdown-fe-bound",
    "topdown-be-bound",
    "topdown-bad-spec",
    "cpu/INT_MISC.RECOVERY_CYCLES,cmask=1,edge/",
    "INT_MISC.UOP_DROPPING",
)


def known(tmp_path: Path, *rows: Mapping[str, str], shown: tuple[str, ...] | None) -> KernelMetrics:
    fake = FakePerf(tmp_path, rows=tuple({"ScaleUnit": "100%", **row} for row in rows), shown=shown)
    return find_metrics(fake, tmp_path)


def test_zen4(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    metrics = find_metrics(FakePerf(tmp_path), tmp_path)
    assert metrics.absent == {}
    assert metrics.formulas["tma.retiring"] == snapshot
    # Cycles are counted anyway, under nftop's own name.
    assert list(metrics.events.values()) == [f"cpu/{name},{{}}/" for name in ZEN4_EVENTS]


def test_ice_lake(tmp_path: Path) -> None:
    metrics = known(tmp_path, *ICX, shown=ICX_SHOWN)
    assert metrics.absent == {}
    assert next(iter(metrics.events)) == "kernel_topdown_slots"  # which must lead
    assert metrics.events["kernel_int_misc_recovery_cycles_cmask_1_edge"] == (
        "cpu/INT_MISC.RECOVERY_CYCLES,cmask=1,edge,{}/"
    )
    assert metrics.formulas["tma.bad_speculation"].startswith("max(1 - (kernel_topdown_fe_bound / ")


def test_a_cpu_that_perf_has_no_top_down_for(tmp_path: Path) -> None:
    metrics = known(tmp_path, {"MetricName": "ipc", "MetricExpr": "a / b"}, shown=())
    assert (metrics.formulas, metrics.events) == ({}, {})
    assert {problem.reason for problem in metrics.absent.values()} == {Reason.HARDWARE}


def test_what_perf_can_t_resolve_here(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    metrics = known(tmp_path, *ZEN4, shown=None)
    assert metrics.formulas == {}
    sentence = metrics.absent["tma.retiring"].sentence
    assert sentence == snapshot


def test_one_metric_that_can_t_be_had_leaves_the_others(tmp_path: Path) -> None:
    metrics = known(tmp_path, *ZEN4, shown=("ex_ret_ops", "de_src_op_disp.all"))
    assert list(metrics.formulas) == ["tma.bad_speculation", "tma.retiring"]
    assert list(metrics.events) == ["kernel_ex_ret_ops", "kernel_de_src_op_disp_all"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"ScaleUnit": "1per_sec"}, "is no share"),
        ({"ScaleUnit": ""}, "is no share"),
        ({"MetricExpr": "a if #core_wide < 1 else b"}, "#core_wide"),
        ({"MetricExpr": "source_count(a) / b"}, "source_count"),
        ({"MetricExpr": "a % b"}, "'%'"),
        ({"MetricExpr": "a / "}, "no formula"),
    ],
)
def test_what_is_not_understood_is_refused(
    tmp_path: Path, change: Mapping[str, str], why: str
) -> None:
    rows = [{**row, **change} if row["MetricName"] == "retiring" else row for row in ZEN4]
    fake = FakePerf(tmp_path, rows=tuple(rows))
    metrics = find_metrics(fake, tmp_path)
    assert why in metrics.absent["tma.retiring"].sentence
    assert len(metrics.formulas) == 3


def test_host_facts_of_a_formula_are_read(tmp_path: Path) -> None:
    row = {
        "MetricName": "retiring",
        "MetricExpr": "100 * (a if #SMT_on else b) / #slots",
        "ScaleUnit": "1percent of slots",
    }
    fake = FakePerf(tmp_path, rows=(row,), shown=("a", "b"))
    assert "#smt_on" in find_metrics(fake, tmp_path).absent["tma.retiring"].sentence.lower()
    active = "sys/devices/system/cpu/smt/active"
    put(tmp_path, {active: "1", f"{PMUS}/armv8_pmuv3_0/caps/slots": "0x8"})
    formula = find_metrics(fake, tmp_path).formulas["tma.retiring"]
    assert formula == "(100 * (kernel_a if 1.0 > 0 else kernel_b) / 8.0) * 0.01"


def test_a_hybrid_s_formulas_do_not_mix(tmp_path: Path) -> None:
    class Hybrid(FakePerf):
        def metrics(self) -> list[dict[str, str]]:
            atom = [{**row, "PMU": "cpu_atom", "MetricExpr": "nonsense"} for row in ZEN4]
            return [{**row, "PMU": "cpu_core"} for row in ZEN4] + atom

    assert find_metrics(Hybrid(tmp_path), tmp_path).formulas["tma.retiring"] == (
        "kernel_ex_ret_ops / (6 * cycles)"
    )


def test_none_at_all_for_one_reason() -> None:
    metrics = without_metrics(QUIET)
    assert len(metrics.absent) == 4
    assert replace(metrics, absent={}) == KernelMetrics({}, {}, {})
