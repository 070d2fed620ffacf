"""Events that need a register beside their counter, which the kernel sets or ignores."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from nftop.sources.perf.probe import Survey, survey
from nftop.sources.perf.problems import NO_REGISTER, REGISTER_IGNORED
from nftop.uarch import table
from tests.sources.perf_kernel import Event, FakeKernel
from tests.sources.trees import PMUS, put
from tests.uarch.counters import CORE, core_encoding, on_core

CASES = {
    "SPR": {"uops_retired_ms"},
    "EMR": {"uops_retired_ms"},
    "GNR": {"uops_retired_ms"},
    "SRF": {"ocr_demand_data_rd_l3_hit_snoop_hit_with_fwd"},
    "HSX": {
        name for name, spec in table.load("HSX").events.items()
        if on_core(spec) and core_encoding(spec).config1
    },
}  # fmt: skip


def surveyed(
    root: Path, uarch: str, *, ignored: bool = False, refusal: int = 0
) -> tuple[Survey, set[str]]:
    """The survey, and the events that some group of it counts.

    `refusal`: of the events that need a register.
    """
    known = table.load(uarch)
    texts = {"type": "4", **{f"format/{name}": text for name, text in CORE.formats.items()}}
    put(root / PMUS / "cpu", texts | {f"events/{k}": text for k, text in CORE.events.items()})
    codes = {name: core_encoding(spec) for name, spec in known.events.items() if on_core(spec)}
    events = {(code.pmu_type, code.config) for code in codes.values()}
    with_register = frozenset((4, codes[name].config) for name in CASES[uarch])

    def refuse(_cpu: int, _group: tuple[Event, ...], event: Event) -> int:
        return refusal if event in with_register else 0

    kernel = FakeKernel(
        root,
        known=frozenset(events | {(9, 0), (1, 3)}),
        refuse=refuse,
        without_register=with_register if ignored else frozenset(),
    )
    result = survey(kernel.kernel, 0, known, root)
    groups = [group for step in result.steps for group in (step.main, *step.turns)]
    return result, {name for group in (*groups, *result.focus) for name in group.names}


@pytest.mark.parametrize("uarch", CASES)
def test_an_event_counts_where_the_kernel_knows_its_register(uarch: str, tmp_path: Path) -> None:
    _, counted = surveyed(tmp_path, uarch)
    assert CASES[uarch] <= counted


@pytest.mark.parametrize("uarch", CASES)
def test_an_event_with_a_register_the_kernel_ignores_is_refused(uarch: str, tmp_path: Path) -> None:
    result, counted = surveyed(tmp_path, uarch, ignored=True)
    assert not CASES[uarch] & counted
    absent = {**result.unfocused, **result.steps[0].absent}
    assert {absent[name] for name in CASES[uarch]} == {REGISTER_IGNORED}
    # All else is counted as before.
    assert set(table.load(uarch).all_events) - CASES[uarch] <= counted | {"aperf"}


def test_a_register_that_can_not_be_accessed_is_no_pmu_that_has_gone(tmp_path: Path) -> None:
    result, _ = surveyed(tmp_path, "SPR", refusal=errno.ENXIO)
    assert result.unfocused["uops_retired_ms"] == NO_REGISTER
