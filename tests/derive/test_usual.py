"""Usual values: time in an incident is none of them, until it is the new normal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nftop.derive.usual import UsualState, step_usual
from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.model.incident import Incident, Party, Price, Severity, Victim
from nftop.model.usual import NEW_NORMAL_AFTER_S, Usual
from tests.frames import START_NS, WALL_NS, frame

# In `tests.frames.frame` fwd polls on CPUs 1 and 2, vpp on CPU 3.
BASE = frame(8)
FWD, VPP = BASE.nfs
BUSY_CPP = float(BASE.cpus.columns["busy_cpp"].values[1])


def harms_fwd(since_s: float, severity: Severity = Severity.BAD, name: str = "n1") -> Incident:
    victim = Victim(Party("nf", FWD.name, FWD.key, FWD.cpus), "tx_packets_per_s", 2.0, 1.0, -0.5)
    culprit = Party("process", "stress", cpus=(Cpu(5),), pid=7)
    since_ns = WALL_NS + round(since_s * 1e9)
    began_ns = START_NS + round(since_s * 1e9)
    return Incident(
        name, severity, "streams", culprit, (victim,), Price(), since_ns, began_ns=began_ns
    )


class Fold:
    """The stage over frames some seconds apart, in which costs are the frame's times a factor."""

    def __init__(self) -> None:
        self.state = UsualState()
        self.usual = Usual()
        self.stepped_ns = 0  # by which the wall clock was set

    def run(
        self, first_s: int, until_s: int, factor: float, *incidents: Incident, every_s: int = 2
    ) -> Usual:
        for second in range(first_s, until_s, every_s):
            frame = at(second, factor, incidents, every_s)
            frame = replace(frame, wall_ns=frame.wall_ns + self.stepped_ns)
            self.state, self.usual = step_usual(self.state, frame)
        return self.usual

    def cpu(self, cpu: int = 1) -> float:
        return float(self.usual.cpus.of("busy_cpp", [Cpu(cpu)])[0]) / BUSY_CPP

    def nf(self) -> float:
        cost = FWD.readings["busy_cpp"]
        assert isinstance(cost, float)
        return float(self.usual.nfs.of("busy_cpp", [FWD.key])[0]) / cost


def both(factor: float) -> object:
    return pytest.approx((factor, factor))


def at(second: int, factor: float, incidents: tuple[Incident, ...], every_s: int) -> Frame:
    column = BASE.cpus.columns["busy_cpp"]
    columns = {**BASE.cpus.columns, "busy_cpp": replace(column, values=column.values * factor)}
    cost = FWD.readings["busy_cpp"]
    assert isinstance(cost, float)
    fwd = replace(FWD, readings={**FWD.readings, "busy_cpp": cost * factor})
    return replace(
        BASE,
        wall_ns=WALL_NS + second * 10**9,
        monotonic_ns=START_NS + second * 10**9,
        interval_s=float(every_s),
        cpus=replace(BASE.cpus, columns=columns),
        nfs=(fwd, VPP),
        incidents=incidents,
    )


def test_a_lasting_incident_is_not_usual_and_cpu_and_nf_agree() -> None:
    fold = Fold()
    fold.run(0, 100, 1.0)
    fold.run(100, 106, 1.1)  # before its first finding is there
    for end in range(206, 1800, 100):
        fold.run(end - 100, end, 1.1, harms_fwd(100))
        assert (fold.cpu(), fold.nf()) == both(1.0), end


@pytest.mark.parametrize("stepped_s", [7200, -7200])
def test_a_wall_clock_that_is_set_makes_nothing_usual(stepped_s: int) -> None:
    fold = Fold()
    fold.run(0, 100, 1.0)
    fold.run(100, 200, 1.1, harms_fwd(100))
    fold.stepped_ns = stepped_s * 10**9
    fold.run(200, 400, 1.1, harms_fwd(100))
    assert (fold.cpu(), fold.nf()) == both(1.0)
    assert fold.state.expired == frozenset()


def test_a_row_that_no_incident_concerns_goes_on_learning() -> None:
    fold = Fold()
    fold.run(0, 100, 1.0)
    fold.run(100, 900, 1.2, harms_fwd(100))
    vpp = float(fold.usual.cpus.of("busy_cpp", [Cpu(3)])[0])
    assert vpp == pytest.approx(1.2 * float(BASE.cpus.columns["busy_cpp"].values[3]))


def test_after_a_stated_time_it_is_the_new_normal_and_at_once() -> None:
    fold = Fold()
    late = 100 + round(NEW_NORMAL_AFTER_S)
    fold.run(0, 100, 1.0)
    fold.run(100, late, 1.1, harms_fwd(100), every_s=5)
    assert fold.cpu() == pytest.approx(1.0)
    fold.run(late, late + 20, 1.1, harms_fwd(100))
    assert (fold.cpu(), fold.nf()) == both(1.1)


def test_after_its_end_the_time_before_it_still_counts() -> None:
    fold = Fold()
    fold.run(0, 300, 1.0)
    fold.run(300, 1500, 1.1, harms_fwd(300), every_s=5)
    fold.run(1500, 1560, 1.02)
    assert (fold.cpu(), fold.nf()) == both(1.0)
    fold.run(1560, 2400, 1.02)
    assert fold.cpu() == pytest.approx(1.02)


def test_without_time_before_the_incident_nothing_is_usual() -> None:
    fold = Fold()
    fold.run(0, 60, 1.1, harms_fwd(-30))
    assert np.isnan(fold.cpu()) and np.isnan(fold.nf())
    fold.run(60, 80, 1.0)
    assert fold.cpu() == pytest.approx(1.0)


def test_information_is_no_trouble() -> None:
    fold = Fold()
    fold.run(0, 60, 1.1, harms_fwd(-30, Severity.INFO))
    assert (fold.cpu(), fold.nf()) == both(1.1)


def test_five_seconds_are_enough_to_begin_with_and_the_median_has_no_outliers() -> None:
    fold = Fold()
    fold.run(0, 4, 1.0)
    assert np.isnan(fold.cpu())
    fold.run(4, 8, 1.0)
    assert fold.cpu() == pytest.approx(1.0)
    fold.run(8, 200, 1.0)
    fold.run(200, 220, 5.0)
    assert fold.cpu() == pytest.approx(1.0)


def test_other_cpus_and_a_clock_that_goes_back_begin_anew() -> None:
    fold = Fold()
    fold.run(0, 60, 1.0)
    before = fold.state
    other = replace(BASE.cpus, nf=tuple("other" if nf == "fwd" else nf for nf in BASE.cpus.nf))
    moved = replace(at(60, 1.0, (), 2), cpus=other)
    _, usual = step_usual(before, moved)
    assert np.isnan(usual.cpus.of("busy_cpp", [Cpu(1)])[0])
    assert np.isfinite(usual.cpus.of("busy_cpp", [Cpu(3)])[0])
    _, usual = step_usual(before, at(10, 1.0, (), 2))
    assert np.isnan(usual.cpus.of("busy_cpp", [Cpu(3)])[0])


def test_a_younger_incident_keeps_what_was_usual_when_an_older_one_is_the_new_normal() -> None:
    fold = Fold()
    late = 100 + round(NEW_NORMAL_AFTER_S)
    younger = harms_fwd(1000, name="n2")
    fold.run(0, 100, 1.0)
    fold.run(100, 1000, 1.1, harms_fwd(100), every_s=5)
    fold.run(1000, late + 20, 1.1, harms_fwd(100), younger, every_s=5)
    assert fold.cpu() == pytest.approx(1.0)
