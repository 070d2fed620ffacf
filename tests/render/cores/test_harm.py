"""Order by harm: what loses packets first, then culprits, what waits, what costs more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.model.incident import Incident, Party, Price, Severity, Victim
from nftop.model.missing import Missing, Reason
from nftop.model.owner import UNPRIVILEGED, Owner
from nftop.model.usual import USUAL_METRICS, Usual, UsualTable
from nftop.render.base.line import Span, Tone
from nftop.render.cores.harm import (
    SICK,
    RowTrends,
    TrendTable,
    change_tone,
    cpu_harm,
    culprits,
    drops_of,
    merged_culprits,
    nfs_by_harm,
    pollers_of,
    rate_cell,
    row_facts,
    trend_columns,
    trends_of,
)
from tests.frames import frame, with_cells

NONE = Missing(Reason.SOURCE)


def usual(costs: Mapping[Cpu, float]) -> Usual:
    """Usual costs of CPUs, whatever their load."""
    values = np.array([list(costs.values())] * len(USUAL_METRICS))
    return Usual(UsualTable({cpu: at for at, cpu in enumerate(costs)}, values))


def neighbour(base: Frame, severity: Severity = Severity.BAD) -> Frame:
    """CPUs 5 to 7 harm the first network function."""
    nf = base.nfs[0]
    victim = Victim(Party("nf", nf.name, nf.key, nf.cpus), "tx_packets_per_s", 2.0, 1.0, -0.5)
    culprit = Party("process", "stress", cpus=(Cpu(5), Cpu(6), Cpu(7)), pid=7)
    one = Incident("n1", severity, "streams", culprit, (victim,), Price(), base.wall_ns)
    return replace(base, incidents=(one,))


def test_what_drops_comes_first() -> None:
    base = frame(8)
    assert [nf.name for nf, _ in nfs_by_harm(base, RowTrends())] == ["vpp", "fwd"]
    harm = cpu_harm(base, RowTrends())
    assert int(np.argmax(harm)) == 3
    assert harm[3] > SICK > harm[1] == 0
    losing = next(nf for nf in base.nfs if drops_of(nf))
    assert row_facts(base, RowTrends(), {}).losing == set(losing.cpus)


def test_several_incidents_of_a_cpu_are_not_a_loss_of_packets() -> None:
    base = neighbour(frame(8), Severity.WARN)
    dry = {**base.nfs[0].readings, "drop_packets_per_s": 0.0}
    base = replace(base, nfs=tuple(replace(nf, readings=dry) for nf in base.nfs))
    one = base.incidents[0]
    several = replace(base, incidents=(one, replace(one, id="n2"), replace(one, id="n3")))
    victims = [base.cpus.topology.row_of[cpu] for cpu in one.victims[0].party.cpus]
    assert (cpu_harm(several, RowTrends()) == cpu_harm(base, RowTrends()))[victims].all()
    assert row_facts(several, RowTrends(), {}).losing == frozenset()


def test_what_an_unprivileged_user_claims_to_lose_comes_after_all_others() -> None:
    base = frame(8)
    foreign = Owner(99, "mallory", privileged=False, reason=UNPRIVILEGED)
    nfs = tuple(replace(nf, owner=foreign) if nf.name == "vpp" else nf for nf in base.nfs)
    assert [nf.name for nf, _ in nfs_by_harm(replace(base, nfs=nfs), RowTrends())] == ["fwd", "vpp"]


def test_a_culprit_stands_behind_its_worst_victim() -> None:
    base = neighbour(frame(8))
    harm = cpu_harm(base, RowTrends())
    victims, culprit = harm[[1, 2]], harm[[5, 6, 7]]
    assert (culprit < victims.max()).all()
    assert (culprit >= SICK).all()
    assert culprits(base) == {5, 6, 7}
    assert merged_culprits(base) == {5: (5, 6, 7)}
    info = neighbour(frame(8), Severity.INFO)
    assert culprits(info) == frozenset() and cpu_harm(info, RowTrends())[5] == 0


def test_a_cpu_of_the_victim_is_not_marked_as_the_culprits() -> None:
    base = neighbour(frame(8))
    victims = base.incidents[0].victims[0].party.cpus
    other = Party("process", "burnin", cpus=(victims[0], Cpu(5)), pid=7)
    shared = replace(base, incidents=(replace(base.incidents[0], culprit=other),))
    assert culprits(shared) == {5}


def test_only_cores_that_may_be_full_are_compared_where_packets_are_dropped() -> None:
    base = frame(8)
    lossy = next(nf for nf in base.nfs if nf.name == "vpp")
    rows = [base.cpus.topology.row_of[cpu] for cpu in lossy.cpus]

    def past(_metric: str, keys: Sequence[Any], points: int, _span_s: float) -> np.ndarray:
        return np.full((len(keys), points), 100.0, np.float32)

    base = replace(base, usual=usual(dict.fromkeys(lossy.cpus, 100.0)))
    changes = {}
    for verdict in (True, None, False):
        verdicts = list(base.cpus.saturated)
        for row in rows:
            verdicts[row] = verdict
        cpus = replace(base.cpus, saturated=tuple(verdicts))
        nfs = tuple(replace(nf, saturated=verdict) if nf is lossy else nf for nf in base.nfs)
        now = with_cells(replace(base, cpus=cpus, nfs=nfs), "busy_cpp", dict.fromkeys(rows, NONE))
        trends = trends_of(now, past, past)
        changes[verdict] = trends.cpus.change(lossy.cpus[0])
    assert not isinstance(changes[True], Missing) and changes[None] == changes[True]
    assert isinstance(changes[False], Missing)


def test_against_a_usual_value_of_zero_a_graph_has_no_change() -> None:
    values = np.full((2, 16), 2e6, np.float32)
    columns = trend_columns(
        lambda: values,
        np.array([0.0, np.nan]),
        np.full(2, 2e6),
        comparable=np.array([True, True]),
        costs=False,
    )
    assert np.isnan(columns.change).all() and np.isnan(columns.usual).all()
    without, of_zero = columns.graphs(values, slice(0, 2))[0]
    assert of_zero == without and without.strip("\u2800 ")


def test_a_culprit_that_polls_keeps_its_rows() -> None:
    base = neighbour(frame(8))
    own = replace(base.incidents[0], culprit=Party("nf", "fwd", cpus=(Cpu(1), Cpu(2))))
    assert merged_culprits(replace(base, incidents=(own,))) == {}


def test_waiting_is_sick() -> None:
    base = with_cells(frame(8), "wait_ratio", {2: 0.12})
    assert cpu_harm(base, RowTrends())[2] >= SICK


def test_the_change_is_against_the_median_and_only_where_it_is_judged() -> None:
    values = np.array([[210.0] * 9 + [231.0]] * 2, np.float32)
    usual = np.array([210.0, 210.0])
    newest, comparable = values[:, -1].astype(np.float64), np.array([True, False])
    columns = trend_columns(lambda: values, usual, newest, comparable=comparable, costs=True)
    row_of = {"sick": 0, "silent": 1}
    trends = TrendTable(row_of, columns)
    losing = TrendTable(row_of, columns, {"sick"}).spans("sick")
    assert losing[-1].tone is Tone.BAD and losing[0].tone is Tone.MUTED
    sick, silent = trends.spans("sick"), trends.spans("silent")
    assert trends.change("sick") == pytest.approx(0.10)
    assert sick[-1].tone is Tone.WARN and sick[0].tone is Tone.MUTED
    assert isinstance(trends.change("silent"), Missing)
    assert {span.tone for span in silent} == {Tone.MUTED}
    assert sum(len(span.text) for span in sick) == 5
    assert isinstance(trends.change("other"), Missing) and trends.spans("other") == ()


def test_cost_compares_with_what_is_usual_for_the_row() -> None:
    base = frame(8)
    row = base.cpus.topology.row_of[Cpu(1)]
    now = float(base.cpus.columns["busy_cpp"].values[row])

    def past(_metric: str, keys: Sequence[Any], points: int, _span_s: float) -> np.ndarray:
        return np.full((len(keys), points), now, np.float32)  # for longer than graphs are long

    one = trends_of(replace(base, usual=usual({Cpu(1): now / 1.1})), past, past).cpus
    assert one.change(Cpu(1)) == pytest.approx(0.1)
    assert one.usual(Cpu(1)) == pytest.approx(now / 1.1)


def test_without_history_nothing_is_usual() -> None:
    base = frame(8)

    def past(_metric: str, keys: object, points: int, _span_s: float) -> np.ndarray:
        assert isinstance(keys, tuple)
        return np.full((len(keys), points), np.nan, np.float32)

    trends = trends_of(base, past, past)
    for cpu in pollers_of(base.cpus).cpus:
        assert isinstance(trends.cpus.change(cpu), Missing) and trends.cpus.spans(cpu)
    for nf in base.nfs:
        assert isinstance(trends.rates(18).usual(nf.key), Missing)


@pytest.mark.parametrize(
    ("change", "costs", "loses", "tone"),
    [
        (0.02, True, False, Tone.MUTED),
        (0.10, True, False, Tone.WARN),
        (0.10, True, True, Tone.BAD),
        (-0.10, True, True, Tone.MUTED),
        (-0.10, False, False, Tone.WARN),
        (NONE, True, True, Tone.MISSING),
    ],
)
def test_colour_is_meaning(change: float | Missing, costs: bool, loses: bool, tone: Tone) -> None:
    assert change_tone(change, costs=costs, loses=loses) is tone


def test_rates_are_of_ten_minutes_in_as_many_cells_as_wanted_and_of_five_in_few() -> None:
    base, wanted = frame(8), list[tuple[int, float]]()

    def past(_metric: str, keys: Sequence[Any], points: int, span_s: float) -> np.ndarray:
        wanted.append((points, span_s))
        return np.full((len(keys), points), 100.0, np.float32)

    trends = trends_of(base, past, past)
    wanted.clear()
    for cells, span_s in ((10, 300.0), (18, 600.0), (250, 600.0)):
        for nf in base.nfs:
            assert sum(len(span.text) for span in rate_cell(trends, nf, cells)) == cells + 1
        assert wanted == [(2 * cells, span_s)]
        wanted.clear()
    assert rate_cell(RowTrends(), base.nfs[0], 4) == (
        Span("    ", Tone.PLAIN),
        Span(" ", Tone.PLAIN),
    )
