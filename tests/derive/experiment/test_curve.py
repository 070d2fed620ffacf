"""The curve of visits with known numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from nftop.derive.experiment.curve import curve_of, irrelevant_loss
from nftop.model.change import Proposal
from nftop.model.experiment import Curve, Experiment, NfLevels, Setting, SettingEffect, Visit
from nftop.model.ids import L3Domain

NAN = math.nan
# Deviations of visits by round and setting, without any structure.
NOISE = (0.3, -0.7, 0.5, 0.1, -0.4, 0.8, -0.2, -0.6, 0.4, 0.2, -0.9, 0.6)


def plan(settings: int = 4, *, own: bool = False, kind: str = "sweep") -> Experiment:
    return Experiment(
        kind="try" if kind == "try" else "sweep",
        group="tenant",
        settings=tuple(Setting(f"{n + 1} ways", (), n + 1) for n in range(settings)),
        watch={"nf": "vpp"},
        own=frozenset({"nf"}) if own else frozenset(),
        caches=(L3Domain(0),),
        classes=("tenant",),
        proposal=Proposal({}, ()),
    )


def levels(packets: float = 1e7, lost: float = 0.0, cost: float = NAN) -> NfLevels:
    return NfLevels(packets, packets * lost / (1 - lost), lost, cost, cost, NAN, NAN)


def curve(
    level: Callable[[int], NfLevels],
    *,
    rounds: int = 3,
    own: bool = False,
    settings: int = 4,
    sd: float = 0.0005,
    drift: float = 0.0,
    kind: str = "sweep",
) -> Curve:
    """The curve of whole rounds; costs have noise of `sd` and drift from round to round."""
    visits = []
    for number in range(1, rounds + 1):
        for setting in range(settings):
            away = NOISE[(number * settings + setting * 5) % len(NOISE)] * sd + drift * number
            one = level(setting)
            noisy = NfLevels(
                one.packets_per_s * (1 - away),
                one.drop_packets_per_s,
                one.lost_ratio,
                one.cpp * (1 + away),
                one.busy_cpp * (1 + away),
                NAN,
                NAN,
            )
            visits.append(Visit(setting, number, 0, 1, 2, {"nf": noisy}, 1e6, 2e9, 0.7))
    return curve_of(plan(settings, own=own, kind=kind), visits)


def effects(of: Curve) -> list[SettingEffect]:
    return [item.effect for item in of.results]


def test_a_neighbour_gets_the_largest_width_that_costs_nothing() -> None:
    result = curve(lambda n: levels(cost=200.0 if n < 2 else 220.0))
    assert effects(result) == ["nothing", "nothing", "costs", "costs"]
    assert (result.recommended, result.decided) == (1, True)
    assert result.results[2].nfs["nf"].cost_ratio == pytest.approx(0.1, abs=0.005)


def test_a_width_at_which_nothing_is_forwarded_costs_and_no_wider_one_is_recommended() -> None:
    result = curve(lambda n: NfLevels(0.0 if n == 1 else 1e7, NAN, NAN, NAN, NAN, NAN, NAN))
    assert effects(result)[:3] == ["nothing", "costs", "nothing"]
    assert (result.recommended, result.tolerated) == (0, 0)


def test_an_own_class_gets_the_smallest_width_that_costs_nothing() -> None:
    result = curve(lambda n: levels(cost=200.0 if n >= 1 else 230.0), own=True)
    assert effects(result) == ["costs", "nothing", "nothing", "nothing"]
    assert result.recommended == 1


def test_the_second_recommendation_allows_the_tolerance() -> None:
    result = curve(lambda n: levels(cost=(200.0, 203.0, 203.0, 220.0)[n]))
    assert (result.recommended, result.tolerated) == (0, 2)


def test_a_setting_that_loses_packets_is_not_recommended_however_few() -> None:
    result = curve(lambda n: levels(lost=0.0 if n < 3 else 5e-5))
    assert effects(result) == ["nothing", "nothing", "nothing", "drops"]
    assert result.recommended == 2


def test_packets_that_the_reference_loses_too_are_no_effect() -> None:
    result = curve(lambda n: levels(lost=0.05 if n < 3 else 0.08))
    assert effects(result) == ["nothing", "nothing", "nothing", "costs"]
    assert result.recommended == 2


def test_where_drops_are_unknown_packets_per_second_decide() -> None:
    result = curve(lambda n: levels(1e7 if n < 2 else 9e6, lost=NAN))
    assert effects(result) == ["nothing", "nothing", "costs", "costs"]


def test_one_round_decides_nothing() -> None:
    result = curve(lambda n: levels(cost=200.0 + 30 * n), rounds=1)
    assert effects(result)[1:] == ["undecided"] * 3
    assert not result.decided


def test_drift_from_round_to_round_is_no_effect() -> None:
    result = curve(lambda n: levels(cost=200.0 if n < 2 else 206.0), drift=0.1)
    assert effects(result) == ["nothing", "nothing", "costs", "costs"]


def test_noise_as_large_as_the_effect_is_undecided() -> None:
    result = curve(lambda n: levels(cost=200.0 if n < 2 else 206.0), sd=0.03)
    assert "costs" not in effects(result)
    assert not result.decided
    assert result.undecided


def test_the_interval_holds_the_mean_of_the_visits() -> None:
    result = curve(lambda _: levels(cost=200.0))
    for item in result.results:
        cpp = item.nfs["nf"].cpp
        assert abs(cpp.value - 200.0) <= cpp.half
        assert 0 < cpp.half < 1.0


def test_a_network_function_without_numbers_is_unmeasured() -> None:
    result = curve(lambda _: NfLevels(NAN, NAN, NAN, NAN, NAN, NAN, NAN))
    assert effects(result) == ["unmeasured"] * 4
    assert result.recommended is None


def test_of_two_settings_the_second_is_better_or_worse() -> None:
    better = curve(lambda n: levels(cost=(200.0, 180.0)[n]), settings=2, kind="try", rounds=6)
    assert effects(better) == ["nothing", "gains"]
    worse = curve(lambda n: levels(cost=(200.0, 230.0)[n]), settings=2, kind="try", rounds=6)
    assert effects(worse) == ["nothing", "costs"]


def mixed(*costs: tuple[float, float], clock: str = "") -> Curve:
    """Three rounds of settings with (busy, all) cycles per packet; `clock`: of the last setting."""
    visits = [
        Visit(
            at,
            number,
            0,
            1,
            2,
            {
                "nf": NfLevels(
                    1e7,
                    0.0,
                    0.0,
                    200.0,
                    busy * (1 + 1e-4 * number),
                    full,
                    NAN,
                    clock if at == len(costs) - 1 else "core",
                )
            },
            NAN,
            NAN,
            NAN,
        )
        for number in (1, 2, 3)
        for at, (busy, full) in enumerate(costs)
    ]
    return curve_of(plan(len(costs)), visits)


def test_busy_cycles_are_never_compared_with_all_cycles() -> None:
    both = mixed((100.0, 200.0), (NAN, 200.0), clock="core")
    assert [item.nfs["nf"].cost_basis for item in both.results] == ["full", "full"]
    assert effects(both) == ["nothing", "nothing"]
    neither = mixed((100.0, NAN), (NAN, 200.0), clock="core")
    assert [item.nfs["nf"].cost_basis for item in neither.results] == [None, None]
    assert all(math.isnan(item.nfs["nf"].cost_ratio) for item in neither.results)
    assert effects(neither) == ["nothing", "nothing"]


def test_cycles_of_different_clocks_are_never_compared() -> None:
    same = mixed((100.0, NAN), (130.0, NAN), clock="core")
    assert effects(same) == ["nothing", "costs"]
    other = mixed((100.0, NAN), (130.0, NAN), clock="tsc")
    assert other.results[1].nfs["nf"].cost_basis is None
    assert effects(other) == ["nothing", "nothing"]


@pytest.mark.parametrize("slope", [0.0, 1e-4, -1e-4])
def test_a_steady_drift_within_rounds_has_no_effect(slope: float) -> None:
    """5 % in ten minutes, an effect of 3 %: as without drift."""
    visits, at_s = list[Visit](), 0
    for number, order in enumerate(((2, 0, 3, 1), (1, 3, 0, 2), (3, 0, 2, 1), (0, 2, 1, 3)), 1):
        for setting in order:
            cost = (200.0 if setting < 2 else 206.0) * (1 + slope * at_s)
            cost *= 1 + 1e-4 * NOISE[(at_s // 35) % len(NOISE)]
            nf = levels(cost=cost)
            begin = at_s * 10**9
            visits.append(Visit(setting, number, begin, begin, begin, {"nf": nf}, NAN, NAN, NAN))
            at_s += 35
    result = curve_of(plan(), visits)
    assert effects(result) == ["nothing", "nothing", "costs", "costs"]
    assert result.results[3].nfs["nf"].cost_ratio == pytest.approx(0.03, abs=0.002)


def lossy(shares: Sequence[float], rounds: int = 2, cost: float = 200.0) -> Curve:
    """Visits of three settings; `shares`: lost of the last one, by round."""
    visits = [
        Visit(
            at,
            number,
            0,
            1,
            2,
            {"nf": levels(lost=share if at == 2 else 0.0, cost=cost)},
            NAN,
            NAN,
            NAN,
        )
        for number, share in enumerate(shares[:rounds], 1)
        for at in range(3)
    ]
    return curve_of(plan(3), visits)


@pytest.mark.parametrize(
    ("shares", "effect"),
    [
        ((0.0, 0.0), "nothing"),
        ((1e-4, 1e-4), "drops"),
        ((0.0, 1e-4), "undecided"),  # one visit of two may be a burst of the load
        ((0.0, 1e-4, 0.0), "undecided"),
        ((0.0, 1e-4, 0.0, 0.0), "nothing"),
        ((0.0, 1e-4, 0.0, 1e-4), "drops"),
    ],
)
def test_visits_that_lose_packets_are_repeated_unless_all_do(
    shares: tuple[float, ...], effect: str
) -> None:
    result = lossy(shares, len(shares))
    assert effects(result) == ["nothing", "nothing", effect]
    assert result.decided == (effect != "undecided")


def test_settings_that_lose_much_do_not_widen_the_intervals_of_others() -> None:
    """The reference loses 4 %, one setting 20 %, which varies by ten times as much."""

    def level(n: int) -> NfLevels:
        return levels(lost=0.04 if n < 3 else 0.2)

    visits = []
    for number in (1, 2, 3):
        for at in range(4):
            nf = level(at)
            away = NOISE[(number * 4 + at * 5) % len(NOISE)] * (0.01 if at == 3 else 0.0005)
            nf = NfLevels(1e7, 1e5, nf.lost_ratio + away, NAN, NAN, NAN, NAN)
            visits.append(Visit(at, number, 0, 1, 2, {"nf": nf}, NAN, NAN, NAN))
    result = curve_of(plan(), visits)
    assert effects(result) == ["nothing", "nothing", "nothing", "costs"]
    assert result.recommended == 2


def test_a_cost_near_the_limit_is_visited_again() -> None:
    """1.1 % is significant, and may be below the limit of 1 % as well."""
    result = curve(lambda n: levels(cost=(200.0, 200.0, 202.15, 220.0)[n]))
    assert effects(result) == ["nothing", "nothing", "costs", "costs"]
    assert [item.nfs["nf"].close for item in result.results] == [False, False, True, False]
    assert (result.recommended, result.decided, result.undecided) == (1, False, (2,))


def test_no_visit_is_no_result() -> None:
    assert curve_of(plan(), []).results == ()


@pytest.mark.parametrize(("usual", "more"), [(0.0, 0.001), (0.004, 0.002), (0.5, 0.005)])
def test_what_may_be_lost_besides_depends_on_what_is_lost_anyway(usual: float, more: float) -> None:
    assert irrelevant_loss(usual) == pytest.approx(more)


def test_visits_of_the_baseline_are_no_setting() -> None:
    visits: Sequence[Visit] = [Visit(-1, 0, 0, 1, 2, {"nf": levels()}, NAN, NAN, NAN)]
    assert curve_of(plan(), visits).results == ()
