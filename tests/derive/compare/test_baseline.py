"""Baselines: what is kept, and what is and is not compared with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.compare.baseline import (
    BaselineState,
    baseline_of,
    keep,
    nf_vs_base,
    step_baselines,
)
from nftop.derive.fold import comparing
from nftop.model.baseline import LEAST_TICKS, MOST_TICKS, BaselineLevel, Baselines, NfBaseline
from nftop.model.frame import Frame, NfRow
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.sample import SourceReading
from tests.frames import frame, nic_drops, with_cells
from tests.sim.hosts import Frozen, S


def folded(frames: list[Frame], state: BaselineState | None = None) -> BaselineState:
    """The state after some frames, in each of which every source was read."""
    state = state or BaselineState()
    for item in frames:
        reading: SourceReading[object] = SourceReading(Missing(Reason.SOURCE), item.monotonic_ns, 0)
        readings = dict.fromkeys(item.sources, reading)
        state, _, _ = step_baselines(state, item.cpus, item.nfs, readings, item.wall_ns)
    return state


def with_nf(base: Frame, name: str, **readings: Reading) -> Frame:
    return replace(
        base,
        nfs=tuple(
            replace(nf, readings={**nf.readings, **readings}) if nf.name == name else nf
            for nf in base.nfs
        ),
    )


def number(reading: Reading) -> float:
    assert isinstance(reading, float), reading
    return reading


def base_of(**changes: object) -> NfBaseline:
    levels = {"cpp": BaselineLevel(400.0, 1.0, 30), "packets_per_s": BaselineLevel(8.4e6, 1e3, 30)}
    base = NfBaseline("5151:1", "vpp", "dpdk", 5151, levels, "core", saturated=True, ticks=30)
    return replace(base, **changes)  # type: ignore[arg-type]


def vpp(**changes: object) -> NfRow:
    row = frame(8).nfs[1]
    readings = {**row.readings, **changes.pop("readings", {})}  # type: ignore[dict-item]
    return replace(row, readings=readings, **changes)  # type: ignore[arg-type]


def test_it_keeps_medians_spreads_and_counts_of_the_last_ticks() -> None:
    costs = [100.0 + (tick * 37) % 50 for tick in range(MOST_TICKS + 5)]
    frames = [
        with_nf(with_cells(frame(8, tick), "cpp", {1: cost * 2}), "fwd", cpp=cost)
        for tick, cost in enumerate(costs)
    ]
    kept = keep(folded(frames))
    fwd = next(nf for nf in kept.nfs if nf.name == "fwd")
    last = np.array(costs[-MOST_TICKS:])
    assert fwd.ticks == MOST_TICKS and kept.wall_ns == frames[-1].wall_ns
    assert fwd.levels["cpp"].median == np.median(last)
    assert fwd.levels["cpp"].spread == np.median(np.abs(last - np.median(last)))
    assert fwd.levels["cpp"].ticks == MOST_TICKS
    core = next(item for item in fwd.cores if item.cpu == 1)
    assert core.levels["cpp"].median == 2 * np.median(last)
    assert "llc_misses_per_packet" not in fwd.levels, "what was not counted is not in it"


def test_too_few_ticks_are_none_and_that_is_reported() -> None:
    frames = [frame(8, tick) for tick in range(LEAST_TICKS - 1)]
    kept = keep(folded(frames))
    assert not kept.nfs and kept.short["4242:1"] == LEAST_TICKS - 1
    after = replace(folded(frames), kept=kept)
    _, cpus, nfs = step_baselines(after, frames[-1].cpus, frames[-1].nfs, {}, 0)
    why = nfs[0].readings["cpp_vs_base"]
    assert isinstance(why, Missing) and "4 ticks of it" in why.message
    assert cpus.columns["cpp_vs_base"][1] == why


def test_too_few_ticks_take_no_baseline_away() -> None:
    few = folded([frame(8, tick) for tick in range(LEAST_TICKS - 1)])
    kept = Baselines(0, (base_of(),))
    assert keep(replace(few, kept=kept)) is kept


def test_a_source_that_gave_nothing_new_adds_no_tick() -> None:
    state, one = BaselineState(), frame(8)
    for _ in range(10):
        reading: SourceReading[object] = SourceReading(Missing(Reason.SOURCE), 7, 0)
        state, _, _ = step_baselines(state, one.cpus, one.nfs, {"dpdk": reading}, 0)
    assert keep(state).short == {"4242:1": 1, "5151:1": 1}


def test_ticks_from_before_it_moved_to_other_cores_are_left_out() -> None:
    moved = [
        replace(index, nfs=(replace(index.nfs[0], cpus=(Cpu(1), Cpu(2))), *index.nfs[1:]))
        for index in (frame(8, tick) for tick in range(12))
    ]
    for tick in range(5):
        moved[tick] = replace(
            moved[tick],
            nfs=(replace(moved[tick].nfs[0], cpus=(Cpu(1),)), *moved[tick].nfs[1:]),
        )
    assert next(nf for nf in keep(folded(moved)).nfs if nf.name == "fwd").ticks == 7


def test_without_a_baseline_nothing_is_compared() -> None:
    one = frame(8)
    _, cpus, nfs = step_baselines(BaselineState(), one.cpus, one.nfs, {}, 0)
    assert not cpus.columns["cpp_vs_base"].present.any()
    assert all(nf.readings["cpp_vs_base"] == cpus.columns["cpp_vs_base"][0] for nf in nfs)


def test_cores_that_are_full_are_compared_whatever_they_take() -> None:
    now = vpp(readings={"cpp": 500.0, "rx_packets_per_s": 6e6})
    assert number(nf_vs_base(now, base_of())) == pytest.approx(0.25)


@pytest.mark.parametrize(("then", "now"), [(True, None), (None, True), (False, False)])
def test_other_metrics_are_withheld_once_the_load_moved(
    then: bool | None, now: bool | None, snapshot: SnapshotAssertion
) -> None:
    base = base_of(saturated=then)
    moved = vpp(readings={"cpp": 500.0, "rx_packets_per_s": 6e6}, saturated=now)
    why = nf_vs_base(moved, base)
    assert isinstance(why, Missing) and why.reason is Reason.UNDEFINED
    assert why.message == snapshot
    same = vpp(readings={"cpp": 404.0, "rx_packets_per_s": 8.2e6}, saturated=now)
    assert number(nf_vs_base(same, base)) == pytest.approx(0.01)


def test_what_a_nic_drops_is_offered_too() -> None:
    levels = {**base_of().levels, "missed_packets_per_s": BaselineLevel(0.0, 0.0, 30)}
    base = base_of(saturated=None, levels=levels)
    full = vpp(
        readings={"cpp": 500.0, "rx_packets_per_s": 6.4e6, **nic_drops(2e6)},
        saturated=None,
    )
    assert number(nf_vs_base(full, base)) == pytest.approx(0.25)


def test_drops_that_only_one_of_the_two_has_are_not_in_the_load() -> None:
    levels = {**base_of().levels, "missed_packets_per_s": BaselineLevel(4e6, 0.0, 30)}
    then = base_of(saturated=None, levels=levels)
    unreported = {"cpp": 500.0, **nic_drops(Missing(Reason.SOURCE))}
    now = vpp(readings={**unreported, "rx_packets_per_s": 8.4e6}, saturated=None)
    assert number(nf_vs_base(now, then)) == pytest.approx(0.25)
    now = vpp(
        readings={"cpp": 500.0, "rx_packets_per_s": 8.4e6, **nic_drops(4e6)},
        saturated=None,
    )
    assert number(nf_vs_base(now, base_of(saturated=None))) == pytest.approx(0.25)


def test_a_generator_is_offered_what_it_sends() -> None:
    levels = {**base_of().levels, "missed_packets_per_s": BaselineLevel(0.0, 0.0, 30)}
    sending = vpp(
        readings={"cpp": 500.0, "tx_packets_per_s": 8.4e6, **nic_drops(4e6)},
        saturated=None,
        direction="tx",
    )
    assert number(nf_vs_base(sending, base_of(saturated=None, levels=levels))) == pytest.approx(
        0.25
    )


def test_cycles_of_another_clock_are_not_compared() -> None:
    why = nf_vs_base(vpp(cpp_clock="tsc"), base_of())
    assert isinstance(why, Missing) and "another clock (tsc)" in why.message
    why = nf_vs_base(vpp(readings={"cpp": Missing(Reason.IDLE)}), base_of())
    assert why == Missing(Reason.IDLE)
    why = nf_vs_base(vpp(), base_of(levels={}))
    assert isinstance(why, Missing) and why.reason is Reason.SOURCE


def test_a_restarted_function_is_compared_with_its_predecessor_of_unique_name() -> None:
    rows = frame(8).nfs
    again = replace(rows[1], key="6000:9", pid=6000)
    kept = Baselines(0, (base_of(),))
    assert baseline_of(kept, again, [rows[0], again]) == base_of()
    assert baseline_of(kept, again, [*rows, again]) is None, "the one that was is still there"
    duplicate = replace(again, key="6001:9", pid=6001)
    assert baseline_of(kept, again, [again, duplicate]) is None
    twice = Baselines(0, (base_of(), base_of(key="5152:1", pid=5152)))
    assert baseline_of(twice, again, [again]) is None
    assert baseline_of(kept, replace(again, name="other"), [again]) is None
    assert baseline_of(None, rows[1], rows) is None


def test_on_a_host_a_dearer_packet_shows_on_its_nf_and_its_cores_alone() -> None:
    host = Frozen("noisy", cpus=32, traffic=False)
    frames = [host.tick(S) for _ in range(12)]
    assert frames[-1].baselines is None
    host.state = comparing(host.state, keep(host.state.baseline))
    quiet = host.tick(S)
    assert quiet.baselines is not None and len(quiet.baselines.nfs) == len(quiet.nfs)
    for nf in quiet.nfs:
        assert abs(number(nf.readings["cpp_vs_base"])) < 0.03, nf.name
    host.tick(180 * S)
    noisy = [host.tick(S) for _ in range(4)][-1]
    dear = {nf.name: number(nf.readings["cpp_vs_base"]) for nf in noisy.nfs}
    costs = {nf.name: number(nf.readings["cpp"]) for nf in noisy.nfs}
    before = {nf.name: number(nf.readings["cpp"]) for nf in quiet.nfs}
    worst = max(dear, key=lambda name: dear[name])
    assert dear[worst] > 0.05
    for name, change in dear.items():
        assert change == pytest.approx(costs[name] / before[name] - 1, abs=0.03)
    row = next(nf for nf in noisy.nfs if nf.name == worst)
    column = noisy.cpus.columns["cpp_vs_base"]
    assert all(number(column[cpu]) > 0.02 for cpu in row.cpus)
    idle = next(row for row, nf in enumerate(noisy.cpus.nf) if nf is None)
    why = column[idle]
    assert isinstance(why, Missing) and why.reason is Reason.UNDEFINED
