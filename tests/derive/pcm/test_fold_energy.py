"""Energy while nftop watches: what is summed up, and what is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nftop.derive.fold import FoldState
from nftop.derive.pcm.fold import EnergyState, step_energy
from nftop.model.column import column, from_readings
from nftop.model.missing import Missing, Reading, Reason
from nftop.sources.pcm.source import topology_of
from tests.derive.pcm.test_fold import nudged, of_package, reason, table
from tests.samples import HOST, S, fold, sample

GONE = Missing(Reason.ERROR, "it closed the connection")


def energies(*answers: tuple[float, Reading], pace_s: float = 1.0) -> list[Reading]:
    """Energy after each answer: at which second, and which power one package took."""
    state, result = EnergyState(), []
    for at_s, watts in answers:
        power = from_readings({0: watts}, 1, Missing(Reason.SOURCE))
        powers = {"power_w": power, "dram_power_w": column(power.values * 0 + 1.0)}
        state, columns = step_energy(state, powers, round(at_s * S), pace_s)
        result.append(columns["energy_j"][0])
    return result


def test_it_is_power_times_the_time_between_answers() -> None:
    first, *others = energies((100, 50.0), (101, 60.0), (101.5, 80.0), (103.5, 10.0))
    assert reason(first) is Reason.WARMING
    assert others == pytest.approx([60.0, 100.0, 120.0])


def test_a_long_silence_is_not_in_it() -> None:
    *_, before, after, next_one = energies((1, 50.0), (2, 50.0), (60, 50.0), (61, 50.0))
    assert (before, after, next_one) == (50.0, 50.0, 100.0)


@pytest.mark.parametrize("every_s", [5, 10, 15])
def test_slow_samples_count_too(every_s: int) -> None:
    one = table()
    times = [every_s * at for at in range(1, 5)]
    samples = [
        replace(sample(at * S, pcm=nudged(one, at)), interval_ns=every_s * S) for at in times
    ]
    seen = fold(FoldState(HOST, topology_of(one)), *samples)
    power = of_package(seen[-1], "power_w")
    assert isinstance(power, float)
    assert reason(of_package(seen[0], "energy_j")) is Reason.WARMING
    assert of_package(seen[-1], "energy_j") == pytest.approx(3 * every_s * power)


def test_a_late_answer_counts_next_to_the_pace_of_the_samples() -> None:
    *_, late, lost = energies((10, 50.0), (20, 50.0), (45, 50.0), (71, 50.0), pace_s=10)
    assert (late, lost) == (1750.0, 1750.0)


def test_where_no_time_has_counted_no_sum_of_zero() -> None:
    *none, some = energies((1, 50.0), (11, 50.0), (21, 50.0), (22, 50.0))
    assert [reason(item) for item in none] == [Reason.WARMING] * 3
    assert "within 5 s" in str(none[1]) and "within 5 s" in str(none[2])
    assert some == 50.0
    _, absent, come = energies((1, 50.0), (2, GONE), (10, 50.0))
    assert (absent, reason(come)) == (GONE, Reason.WARMING)


def test_where_power_is_absent_its_reason_is_that_of_energy_and_the_sum_stays() -> None:
    _, before, absent, after = energies((1, 50.0), (2, 50.0), (3, GONE), (4, 50.0))
    assert (before, absent, after) == (50.0, GONE, 100.0)


def test_frames_sum_it_up_over_a_failure_but_not_through_it() -> None:
    one = table()
    answers = [nudged(one, 0), nudged(one, 1), GONE, GONE, nudged(one, 4), nudged(one, 5)]
    start = FoldState(HOST, topology_of(one))
    seen = fold(start, *(sample(at * S, pcm=answer) for at, answer in enumerate(answers, start=1)))
    power = of_package(seen[1], "power_w")
    assert isinstance(power, float)
    result = [of_package(frame, "energy_j") for frame in seen]
    assert [item for item in result if isinstance(item, float)] == pytest.approx(
        [power, power, 2 * power]
    )
    assert [reason(result[at]) for at in (0, 2, 3)] == [Reason.WARMING, Reason.ERROR, Reason.ERROR]


def test_sockets_that_are_renumbered_leave_the_sum_with_its_package() -> None:
    one = table()
    other = replace(one, packages=1 - one.packages, sockets=one.sockets)
    here = FoldState(HOST, topology_of(one))
    answers = [nudged(one, 0), nudged(one, 1), nudged(other, 2)]
    seen = fold(here, *(sample(at * S, pcm=answer) for at, answer in enumerate(answers, start=1)))
    assert of_package(seen[2], "energy_j", 0) == pytest.approx(
        of_package(seen[1], "energy_j", 0) + of_package(seen[1], "power_w", 1)  # type: ignore[operator]
    )
