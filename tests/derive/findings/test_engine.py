"""How long a finding takes to begin and to end, and what gaps and absent numbers do to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.findings.engine import (
    FINDINGS,
    UNKNOWN_FOR_S,
    EarlierFindings,
    FindingState,
    begun,
    step_findings,
)
from nftop.derive.findings.inputs import FindingInputs, FindingKey
from nftop.derive.findings.registry import all_rules, rule_called
from nftop.derive.findings.rule import Measured, Only, Rule, register, unregister
from nftop.model.column import column, from_readings
from nftop.model.frame import Finding, Frame
from nftop.model.metrics.catalogue import EXPLAINED
from nftop.model.missing import Missing, Reading, Reason
from nftop.render.pages.explain import explain_rule, known_rules
from tests.frames import about, frame, nic_drops
from tests.recordings import taken
from tests.samples import S

LATE, IDLE, RESET = (Missing(one) for one in (Reason.STALE, Reason.IDLE, Reason.RESET))


@lru_cache(maxsize=1)
def a_frame() -> Frame:
    return taken(2, cpus=4).frames[1]


@dataclass
class Bench:
    """A rule on what the test says, a second a tick."""

    now_s: float = 100.0
    pace_s: float = 1.0
    owner: object = 1
    load: Reading = 10.0
    reading: Reading = 0.0
    state: FindingState = field(default_factory=FindingState)
    changes: dict[str, object] = field(default_factory=dict)

    def rule(self) -> Rule:
        return Rule(
            id="made-up",
            title="made up",
            metrics=("ipc",),
            scope="cpu",
            measure=self.measure,
            limit=5.0,
            clear=3.0,
            form="{:.0f}",
            text="{value} at {load:.0f}",
            source="the test",
            only=(Only("load", 5.0, "load"),),
            **self.changes,  # type: ignore[arg-type]
        )

    def measure(self, inputs: FindingInputs) -> Measured:
        one = from_readings({0: self.reading}, 1, LATE)
        load = from_readings({0: self.load}, 1, LATE)
        return Measured([FindingKey(about("cpu 1"), self.owner)], one, {"load": load})

    def tick(self, reading: Reading, after_s: float | None = None) -> Sequence[Finding]:
        self.now_s += self.pace_s if after_s is None else after_s
        self.reading = reading
        at_ns = int(self.now_s * S)
        frame = replace(a_frame(), wall_ns=at_ns, monotonic_ns=at_ns + 7 * S)
        self.state, result = step_findings(
            self.state, frame, {}, pace_s=self.pace_s, rules=[self.rule()]
        )
        return result

    def ticks(self, *readings: Reading) -> str:
        """`.` for each tick without the finding, `!` for each with it."""
        return "".join("!" if self.tick(reading) else "." for reading in readings)


def result_at(rule: Rule, seconds: int) -> Sequence[Finding]:
    """What is found after so many ticks of a second."""
    state, result = FindingState(), tuple[Finding, ...]()
    for second in range(seconds):
        frame = replace(a_frame(), wall_ns=second * S, monotonic_ns=second * S)
        state, result = step_findings(state, frame, {}, pace_s=1.0, rules=[rule])
    return result


def test_it_has_to_last_and_reports_since_when() -> None:
    bench = Bench()
    assert bench.ticks(1, 9, 9, 9, 9, 9) == "......"
    (result,) = bench.tick(8)
    assert result == Finding(
        "made-up",
        "ipc",
        about("cpu 1"),
        "8 at 10, above 5",
        102 * S,
        began_ns=109 * S,
        clear=3.0,
        excess=1.6,
        brief="8 at 10",
    )
    (result,) = bench.tick(7)
    assert (result.text, result.since_ns) == ("7 at 10, above 5", 102 * S)


def test_what_comes_and_goes_is_none() -> None:
    assert Bench().ticks(*[9, 9, 9, 9, 9, 4] * 10) == "." * 60
    assert Bench().ticks(*[9, 9, 9, 9, 9, 5] * 10) == "." * 60, "the limit itself is not beyond"


def test_it_ends_with_hysteresis() -> None:
    bench = Bench()
    bench.ticks(*[9] * 10)
    assert bench.ticks(4, 5, 4, 4, 4, 4, 4, 4) == "!!!!!!!!", "between the two limits"
    (result,) = bench.tick(4)
    assert result.since_ns == 101 * S, "it is the same one"
    assert bench.ticks(3, 3, 4, 3, 3) == "!!!!!"
    assert bench.ticks(3) == "."
    assert bench.ticks(9, 9, 9, 9, 9, 9) == ".....!", "it has to last again"


def test_while_it_ends_it_reports_what_was_beyond_and_what_is_now(
    snapshot: SnapshotAssertion,
) -> None:
    bench = Bench()
    bench.ticks(*[9] * 9)
    message = {reading: bench.tick(reading)[0].text for reading in (4, 3, LATE, IDLE, 8)}
    assert list(message.values()) == snapshot
    bench.load = 1.0
    assert bench.tick(7)[0].text == snapshot
    worded = Bench(changes={"when": "there is such"})
    worded.ticks(*[9] * 9)
    assert worded.tick(1)[0].text == snapshot


def test_below_a_limit() -> None:
    bench = Bench(changes={"beyond": "below"})
    rule = replace(bench.rule(), limit=5.0, clear=6.0)
    state, seen = FindingState(), ""
    for second, reading in enumerate([7, 4, 4, 4, 4, 4, 4, 5.5, 5.5, 5.5, 5.5, 6, 6, 6]):
        bench.reading = reading
        frame = replace(a_frame(), wall_ns=second * S, monotonic_ns=second * S)
        state, result = step_findings(state, frame, {}, pace_s=1.0, rules=[rule])
        seen += "!" if result else "."
    assert seen == "......!!!!!!!."


def test_no_number_neither_confirms_nor_clears() -> None:
    bench = Bench()
    assert bench.ticks(9, 9, 9, LATE, LATE, LATE, LATE, 9, 9) == "........."
    assert bench.ticks(9) == "!", "five seconds that are known"
    bench = Bench()
    bench.ticks(*[9] * 10)
    assert bench.ticks(*[LATE] * 10) == "!" * 10
    (result,) = bench.tick(8)
    assert (result.text, result.since_ns) == ("8 at 10, above 5", 101 * S)
    assert bench.ticks(*[LATE] * 60) == "!" * 60, "a silent source ends nothing"
    bench.ticks(*[RESET] * int(UNKNOWN_FOR_S))
    assert bench.ticks(RESET) == ".", "nobody knows any more"
    assert bench.ticks(9, 9, 9, 9, 9, 9) == ".....!"


def test_what_was_reported_last_stays_while_nobody_knows() -> None:
    bench = Bench()
    bench.ticks(*[9] * 10)
    (result,) = bench.tick(LATE)
    assert result.text == "9 at 10, above 5"


def test_what_began_before_a_long_absence_begins_anew() -> None:
    assert Bench().ticks(9, 9, 9, 9, 9, *[LATE] * 11, 9, 9, 9, 9, 9) == "." * 21


def test_that_no_number_by_nature_is_an_answer() -> None:
    bench = Bench()
    bench.ticks(*[9] * 10)
    assert bench.ticks(IDLE, IDLE, IDLE) == "!!."


@pytest.mark.parametrize("gap_s", [3.0, 60.0, 1e6])
def test_a_gap_counts_for_nothing(gap_s: float) -> None:
    bench = Bench()
    bench.ticks(9, 9, 9)
    assert not bench.tick(9, after_s=gap_s)
    assert bench.ticks(9, 9, 9, 9) == "...."
    assert bench.ticks(9) == "!"
    (result,) = bench.tick(9, after_s=gap_s)
    assert result.since_ns == int((103 + gap_s) * S), "a finding stays if it still holds"
    assert bench.tick(1, after_s=gap_s), "and ends as always"
    assert bench.ticks(1, 1) == "!."


def test_a_late_tick_is_no_gap() -> None:
    bench = Bench()
    bench.ticks(9, 9, 9)
    assert not bench.tick(9, after_s=2.4)
    assert bench.tick(9)


@pytest.mark.parametrize(("pace_s", "expected"), [(0.1, 51), (1.0, 6), (2.0, 4), (15.0, 3)])
def test_a_slow_pace_needs_three_ticks_and_a_fast_one_the_time(
    pace_s: float, expected: int
) -> None:
    bench = Bench(pace_s=pace_s)
    seen = bench.ticks(*[9] * 60)
    assert seen.index("!") + 1 in (expected, expected + 1)  # tenths of a second don't add up


def test_another_entity_at_the_same_key_begins_anew() -> None:
    bench = Bench()
    bench.ticks(*[9] * 5)
    bench.owner = 2
    assert bench.ticks(*[9] * 5) == "....."
    assert bench.ticks(9) == "!"
    bench.owner = 3
    assert bench.ticks(9) == "."


def test_a_network_function_with_another_name_keeps_its_finding() -> None:
    state, result, rule = FindingState(), tuple[Finding, ...](), rule_called("drops")
    assert rule is not None
    nf = frame().nfs[0]
    nf = replace(nf, readings={**nf.readings, **nic_drops(9.0)})
    for second in range(12):
        named = replace(nf, name="pmd" if second < 10 else "pmd@3-4")
        now = replace(frame(8, second), nfs=(named,))
        state, result = step_findings(state, now, {}, pace_s=1.0, rules=[rule])
    [one] = result
    assert (one.where, one.subject.key) == ("nf pmd@3-4", nf.key)
    assert one.began_ns == frame().monotonic_ns


def test_a_clock_that_goes_back_begins_anew_and_a_cpu_that_goes_offline_does_not() -> None:
    bench = Bench()
    bench.ticks(*[9] * 10)
    assert not bench.tick(9, after_s=-50.0)
    bench.ticks(*[9] * 10)
    *cpus, last = a_frame().topology.cpus
    other = replace(a_frame().topology, cpus=(*cpus, replace(last, online=not last.online)))
    at_ns = int((bench.now_s + 1) * S)
    now = replace(a_frame(), topology=other, wall_ns=at_ns, monotonic_ns=at_ns + 7 * S)
    _, [result] = step_findings(bench.state, now, {}, pace_s=1.0, rules=[bench.rule()])
    assert result.began_ns == bench.tick(9)[0].began_ns


def test_a_function_that_is_gone_stays_so_when_the_topology_changes() -> None:
    host, state, shown, rule = frame(), FindingState(), "", rule_called("gone")
    assert rule is not None
    *cpus, last = host.topology.cpus
    topologies = (host.topology, replace(host.topology, cpus=(*cpus, replace(last, online=False))))
    for second in range(14):
        now = replace(frame(8, second), topology=topologies[second > 8], nfs=host.nfs[second > 3 :])
        if second == 11:  # rows of other CPUs
            assert FINDINGS.trim is not None
            state = FINDINGS.trim(state)
        state, result = step_findings(state, now, {}, pace_s=1.0, rules=[rule])
        shown += "!" if result else "."
    assert shown == "......!!!!!..!"


def test_a_condition_that_is_not_met_ends_it_and_one_nobody_knows_does_not() -> None:
    bench = Bench(load=1.0)
    assert bench.ticks(*[9] * 10) == "." * 10
    bench = Bench()
    bench.ticks(*[9] * 10)
    bench.load = 4.0
    assert bench.ticks(9, 9, 9) == "!!."
    bench = Bench(load=LATE)
    assert bench.ticks(*[9] * 10) == "." * 10
    bench = Bench(load=LATE)
    bench.changes["at_least_s"] = 2.0
    assert bench.ticks(*[9] * 10) == "." * 10
    taken_as_met = replace(bench.rule(), only=(Only("load", 5.0, "load", unknown=True),))
    assert result_at(taken_as_met, 8)


def test_what_begins_is_reported_once() -> None:
    one = Finding("a", "ipc", about("cpu 1"), "5", 1)
    again, other = replace(one, text="6"), replace(one, subject=about("cpu 2"))
    assert begun((), (one, other)) == (one, other)
    assert begun((one,), (again, other)) == (other,)
    assert begun((one,), (replace(one, since_ns=2),)), "it had ended in between"


LIMITS_IN_FOCUS = {
    "fetch-bandwidth": 0.10, "branch-mispredicts": 0.05, "ports-utilization": 0.25,
    "itlb-misses": 0.0001,
}  # fmt: skip


def test_rules_are_sound() -> None:
    known = {metric.id for metric in EXPLAINED}
    assert len({rule.id for rule in all_rules()}) == len(all_rules())
    for rule in all_rules():
        assert set(rule.metrics) <= known, rule.id
        assert rule.source and rule.text and rule.title
        inner = rule.clear <= rule.limit if rule.beyond == "above" else rule.clear >= rule.limit
        assert inner, f"{rule.id} would end where it begins"
        assert rule_called(rule.id.upper()) is rule
        assert rule.id not in known, "explain takes either"
    # Whose limit it is: these have their number from the source, all others say why they chose it.
    named = {"low-ipc", "mmio-writes", "frontend-bound", "bad-speculation", *LIMITS_IN_FOCUS}
    assert {rule.id for rule in all_rules() if not rule.own} == named
    assert {rule.id: rule.limit for rule in all_rules() if rule.id in named} == {
        "low-ipc": 1.75,
        "mmio-writes": 1e6,
        "frontend-bound": 0.30,
        "bad-speculation": 0.05,
        **LIMITS_IN_FOCUS,
    }
    assert rule_called("nonsense") is None


def test_every_entity_of_a_large_host_is_watched_separately() -> None:
    count = 512

    def measure(inputs: FindingInputs) -> Measured:
        values = np.where(np.arange(count) % 5 == 0, 9.0, 1.0)
        keys = [FindingKey(about(f"cpu {cpu}"), cpu) for cpu in range(count)]
        return Measured(keys, column(values), {"load": column(np.full(count, 10.0))})

    rule = replace(Bench().rule(), measure=measure)
    result = result_at(rule, 7)
    assert [item.where for item in result] == [f"cpu {cpu}" for cpu in range(0, count, 5)]


def test_registered_rule_is_evaluated_and_explained() -> None:
    def measure(inputs: FindingInputs) -> Measured:
        return Measured(
            [FindingKey(about("host"), None)], column(np.array([float(len(inputs.frame.nfs))]))
        )

    rule = Rule(
        "toy", "toy", ("ipc",), "host", measure, -1.0, -1.0, "toy {value}", "a test", at_least_s=0.0
    )
    register(rule)
    try:
        assert rule_called("TOY") is rule
        assert known_rules()[-1] == "toy", "without a rank it comes last"
        assert "toy" in explain_rule(rule)
        state, findings = FindingState(), tuple[Finding, ...]()
        for second in range(4):
            frame = replace(a_frame(), wall_ns=second * 10**9, monotonic_ns=second * 10**9)
            state, findings = step_findings(state, frame, {}, pace_s=1.0)
        assert [item.where for item in findings if item.rule == "toy"] == ["host"]
        with pytest.raises(ValueError, match="toy"):
            register(rule)
    finally:
        unregister("toy")
    assert rule_called("toy") is None


def test_after_a_jump_a_finding_without_a_recorded_begin_had_not_ended() -> None:
    """Its value was between the limits when the fold began, and is beyond the limit later."""
    for begins, is_whole, since_s, from_s in (
        ({("made-up", "cpu 1"): ((50 * S, 57 * S),)}, True, 50, 100),
        ({("made-up", "cpu 1"): ((50 * S, 57 * S),)}, False, 50, 100),
        ({}, False, 121, 121),  # it may have begun earlier
        ({}, True, 121, 0),
        ({("made-up", "cpu 1"): ((121 * S, 128 * S),)}, True, 121, 0),
        # A later one is another finding; after an earlier one its incident may have gone on.
        ({("made-up", "cpu 1"): ((150 * S, 157 * S), (50 * S, 57 * S))}, True, 50, 100),
        ({("made-up", "cpu 1"): ((50 * S, 57 * S), (20 * S, 27 * S))}, True, 50, 100),
    ):
        earlier = EarlierFindings(100 * S, 110 * S, 130 * S, begins, is_whole=is_whole)
        bench = Bench(state=FindingState(earlier=earlier))
        bench.ticks(*(4.0,) * 20, *(6.0,) * 8)
        (finding,) = bench.tick(6.0)
        assert (finding.since_ns, finding.read_from_ns) == (since_s * S, from_s * S)
        assert finding.began_ns == finding.since_ns + 7 * S
        assert finding.is_bound == (not begins and not is_whole)
        assert finding.is_again == any(
            first == (20 * S, 27 * S) for _, *rest in begins.values() for first in rest
        )
