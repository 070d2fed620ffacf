"""Incidents from tick to tick: begin, cause found later, end, return; and who is to blame."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nftop.derive.findings.inputs import FindingInputs
from nftop.derive.incidents.lifecycle import (
    MOST_OPEN,
    MOST_PAST,
    Incidents,
    IncidentState,
    culprit_focus,
    step_incidents,
)
from nftop.derive.incidents.parties import Parties
from nftop.derive.nf.departures import NfSighting
from nftop.derive.nf.recent import RecentState, step_recent
from nftop.derive.threads import ThreadRate
from nftop.model.column import column
from nftop.model.frame import Finding, Frame
from nftop.model.ids import Cpu
from nftop.model.incident import Incident, Severity
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.owner import UNPRIVILEGED, Owner
from nftop.model.sample import ProcessFacts
from nftop.model.threads import CpuUse
from tests.frames import SECOND_NS, START_NS, WALL_NS, about, frame, nic_drops
from tests.samples import thread

# In `tests.frames.frame` fwd polls on CPUs 1 and 2, vpp on CPU 3.
DROPS = Finding("drops", "drop_packets_per_s", about("nf fwd"), "5 packets/s dropped", 0)
WAITS = Finding("poller-waits", "wait_ratio", about("cpu 1"), "waited for its CPU 9%", 0)
LOW_IPC = Finding("low-ipc", "core_ipc", about("cpu 1"), "IPC 1.5 of the core, below 1.75", 0)


class Fold:
    """The stage over frames a second apart."""

    def __init__(self) -> None:
        self.state, self.recent, self.second = IncidentState(), RecentState(), 0
        self.stepped_ns, self.stepped_at = 0, 0  # the wall clock was set by this, in this second

    def wall_ns(self, second: int) -> int:
        stepped_ns = self.stepped_ns if second >= self.stepped_at else 0
        return WALL_NS + second * SECOND_NS + stepped_ns

    def tick(
        self,
        *findings: Finding,
        drops: Reading = 0.0,
        gone: tuple[NfSighting, ...] = (),
        **parties: Any,
    ) -> Incidents:
        """Findings' `since_ns` is a second of the test's clock."""
        base = frame(8, self.second)
        changed = nic_drops(drops)
        changed |= {name: parties.pop(name) for name in list(parties) if name.endswith("_per_s")}
        interval_s = parties.pop("nf_interval_s", base.nfs[0].interval_s)
        readings = {**base.nfs[0].readings, **changed}
        nfs = (
            replace(base.nfs[0], readings=readings, interval_s=interval_s),
            *base.nfs[1:],
        )
        result = tuple(
            replace(
                item,
                since_ns=self.wall_ns(item.since_ns),
                began_ns=START_NS + item.since_ns * SECOND_NS,
            )
            for item in findings
        )
        now = replace(base, wall_ns=self.wall_ns(self.second), nfs=nfs, findings=result)
        columns = parties.pop("columns", {})
        now = replace(now, cpus=replace(now.cpus, columns={**now.cpus.columns, **columns}))
        self.recent = step_recent(self.recent, now)
        inputs = FindingInputs(now, {}, gone, self.recent.rates)
        self.state, output = step_incidents(self.state, inputs, Parties(now, **parties))
        self.second += 1
        self.last: Frame = replace(now, incidents=output.active, past_incidents=output.past)
        return output

    def repeat(self, count: int, *findings: Finding, **changes: Any) -> Incident:
        """The only incident after so many ticks."""
        for _ in range(count):
            self.tick(*findings, **changes)
        [one] = self.last.incidents
        return one


def since(finding: Finding, second: int, **changes: Any) -> Finding:
    return replace(finding, since_ns=second, **changes)


def test_drops_without_a_cause_are_of_their_nf_and_no_culprit_is_invented() -> None:
    fold = Fold()
    [one] = fold.tick(since(DROPS, 0), drops=5.0).active
    assert (one.kind, one.severity, one.culprit) == ("nf", Severity.BAD, None)
    assert [item.party.name for item in one.victims] == ["fwd"]
    assert one.price.drops_per_s == 5.0 and one.since_ns == WALL_NS


def test_a_later_cause_takes_over_and_the_id_stays() -> None:
    fold = Fold()
    [first] = fold.tick(since(DROPS, 0), drops=5.0).active
    [then] = fold.tick(since(DROPS, 0), since(WAITS, 1), drops=5.0).active
    assert (first.kind, then.kind, then.id) == ("nf", "cpu", first.id)
    assert then.findings == (("poller-waits", "cpu 1"), ("drops", "nf fwd"))


def test_an_effect_that_began_long_before_is_not_the_causes() -> None:
    fold = Fold()
    for _ in range(30):
        fold.tick(since(DROPS, 0), drops=5.0)
    output = fold.tick(since(DROPS, 0), since(WAITS, 29), drops=5.0)
    assert {item.kind: item.findings for item in output.active} == {
        "nf": (("drops", "nf fwd"),),
        "cpu": (("poller-waits", "cpu 1"),),
    }


def test_what_ended_is_kept_as_it_was_at_its_worst_and_continues_if_it_returns() -> None:
    fold = Fold()
    for drops in (5.0, 9.0, 2.0):
        [one] = fold.tick(since(WAITS, 0), since(DROPS, 0), drops=drops).active
    [one] = fold.tick(since(WAITS, 0, is_ending=True)).active
    assert one.worst.drops_per_s == 9.0 and one.worst_ns == WALL_NS + SECOND_NS
    output = fold.tick()
    assert output.active == ()
    [past] = output.past
    assert past.id == one.id and past.until_ns == WALL_NS + 4 * SECOND_NS
    assert past.victims[0].drops_per_s == 9.0
    assert past.dropped == pytest.approx(16.0, abs=6)
    [again] = fold.tick(since(WAITS, 5)).active
    assert again.id == one.id and again.since_ns == WALL_NS and fold.last.past_incidents == ()
    fold.tick()
    for _ in range(20):
        fold.tick()
    [other] = fold.tick(since(WAITS, 26)).active
    assert other.id != one.id


def ending(finding: Finding) -> Finding:
    return replace(finding, is_ending=True)


def test_effects_that_clear_after_their_cause_stay_with_it_and_count_once() -> None:
    fold = Fold()
    for _ in range(20):
        fold.tick()
    late = since(LOW_IPC, 24)
    for _ in range(6):
        fold.tick(since(WAITS, 20), since(DROPS, 20), drops=5.0)
    [one] = fold.last.incidents
    # The cause is gone at once, its effects clear within seconds.
    for findings, drops in (
        ((since(DROPS, 20), late), 3.0),
        ((ending(since(DROPS, 20)), late), 0.0),
        ((ending(since(DROPS, 20)), ending(late)), 0.0),
    ):
        [then] = fold.tick(*findings, drops=drops).active
        assert (then.id, then.kind, then.title, then.findings) == (
            one.id,
            "cpu",
            one.title,
            one.findings,
        )
        assert then.evidence == one.evidence and then.since_ns == one.since_ns
    output = fold.tick()
    assert output.active == () and [item.id for item in output.past] == [one.id]
    assert output.past[0].dropped == pytest.approx(6 * 5.0 + 3.0, abs=0.1)


@pytest.mark.parametrize("stepped_s", [3600, -3600])
def test_a_wall_clock_that_is_set_ends_begins_and_prolongs_nothing(stepped_s: int) -> None:
    def outcome(stepped_s: int) -> tuple[object, ...]:
        fold = Fold()
        fold.stepped_at, fold.stepped_ns = 26, stepped_s * SECOND_NS
        for _ in range(20):
            fold.tick()
        fold.repeat(6, since(WAITS, 20), since(DROPS, 20), drops=5.0)
        # The cause is over; its effects clear, and new ones begin.
        shown = [
            [
                (item.id, item.lasted_s(fold.last.monotonic_ns), item.dropped, item.title)
                for item in fold.tick(since(DROPS, 20), since(LOW_IPC, 26), drops=4.0 - tick).active
            ]
            for tick in range(4)
        ]
        fold.tick()
        [past] = fold.last.past_incidents
        [trace] = [item for item in past.traces if item.sent]
        return shown, past.id, past.lasted_s(0), past.dropped, trace.onset, trace.since

    assert outcome(stepped_s) == outcome(0)


def test_drops_that_outlast_their_cause_begin_anew_when_its_incident_ends() -> None:
    fold = Fold()
    for _ in range(20):
        fold.tick()
    for _ in range(6):
        fold.tick(since(WAITS, 20), since(DROPS, 20), drops=5.0)
    [one] = fold.last.incidents
    ids = set()
    for _ in range(30):
        ids |= {item.id for item in fold.tick(since(DROPS, 20), drops=5.0).active}
    [then], [past] = fold.last.incidents, fold.last.past_incidents
    assert past.id == one.id and ids == {one.id, then.id}
    assert (then.kind, then.since_ns) == ("nf", past.until_ns)
    dropped = [item.dropped for item in (past, then) if isinstance(item.dropped, float)]
    assert sum(dropped) == pytest.approx(36 * 5.0, abs=0.1)


def test_drops_that_were_not_known_at_the_begin_leave_a_lower_bound() -> None:
    fold = Fold()
    gap = Missing(Reason.STALE, "too old")
    fold.tick()
    for _ in range(2):
        [one] = fold.tick(since(WAITS, 1), drops=gap).active
        assert one.dropped == gap
    [one] = fold.tick(since(WAITS, 1), drops=5.0).active
    assert one.dropped == 5.0 and one.price.drops_per_s == 5.0
    [missing] = one.uncounted
    assert (missing.name, missing.why) == ("fwd", gap.message)
    assert missing.seconds == pytest.approx(2.0)


def test_drops_that_are_not_counted_for_some_ticks_mark_the_total() -> None:
    fold = Fold()
    one = fold.repeat(3, since(WAITS, 0), drops=5.0)
    assert one.uncounted == ()
    total = one.dropped
    gap = Missing(Reason.STALE, "too old")
    for seconds in (1, 2):
        [one] = fold.tick(since(WAITS, 0), drops=gap).active
        assert one.dropped == total
        assert [item.seconds for item in one.uncounted] == [pytest.approx(seconds)]
    one = fold.repeat(5, since(WAITS, 0), drops=5.0)
    assert isinstance(total, float) and one.dropped == pytest.approx(total + 25.0)
    assert [item.seconds for item in one.uncounted] == [pytest.approx(2.0)]


def test_a_longer_interval_makes_up_for_ticks_without_a_number() -> None:
    fold = Fold()
    one = fold.repeat(3, since(WAITS, 0), drops=5.0)
    one = fold.repeat(2, since(WAITS, 0), drops=Missing(Reason.STALE, "late"))
    assert len(one.uncounted) == 1
    [one] = fold.tick(since(WAITS, 0), drops=5.0, nf_interval_s=3.0).active
    assert one.uncounted == () and one.dropped == pytest.approx(30.0)


def test_a_victim_that_never_counts_drops_is_in_what_the_total_lacks() -> None:
    fold = Fold()
    [one] = fold.tick(since(WAITS, 0), drops=Missing(Reason.SOURCE, "no counter")).active
    assert [(item.name, item.seconds) for item in one.uncounted] == [("fwd", None)]


def test_the_trace_has_the_onset_for_as_long_as_the_incident_lasts() -> None:
    fold = Fold()
    for _ in range(90):
        fold.tick(tx_packets_per_s=42e6)
    fold.repeat(710, since(WAITS, 90), tx_packets_per_s=38e6)
    one = fold.repeat(100, since(WAITS, 90), tx_packets_per_s=30e6)
    [trace] = [item for item in one.traces if item.sent]
    step_s = trace.onset_step_s
    begun = round((one.since_ns - trace.first_ns) / 1e9 / step_s)
    assert begun * step_s == pytest.approx(60.0)
    assert trace.onset[5] == trace.onset[begun - 1] == 42e6 and trace.onset[begun + 1] == 38e6
    assert len(trace.since) <= 128 and trace.step_s * len(trace.since) == pytest.approx(750, abs=10)
    assert trace.since[0] == 38e6 and trace.since[-1] == pytest.approx(30e6)


def test_values_of_functions_that_left_are_not_kept() -> None:
    fold = Fold()
    fold.tick(since(WAITS, 0), since(replace(WAITS, subject=about("cpu 3")), 0))
    keys = {key for item in fold.state.followed.values() for key in item.before}
    assert len(keys) == 2
    left = fold.last.nfs[0].key
    now = replace(fold.last, nfs=fold.last.nfs[1:], monotonic_ns=fold.last.monotonic_ns + SECOND_NS)
    registers = Finding("ddio-misses", "pcie.ddio_hit_ratio", about("package 0"), "x", WALL_NS)
    state = fold.state
    for frame_ in (replace(fold.last, findings=(registers,)), replace(now, findings=(registers,))):
        inputs = FindingInputs(frame_, {}, (), fold.recent.rates)
        state, _ = step_incidents(state, inputs, Parties(frame_))
    assert left not in {key for item in state.followed.values() for key in item.before}


def test_of_too_many_causes_those_that_harm_least_are_left_out() -> None:
    notes = [
        Finding("note", "m", about(f"host {number}"), "odd", 0) for number in range(MOST_OPEN + 5)
    ]
    output = Fold().tick(*(since(item, 0) for item in notes), since(DROPS, 0), drops=5.0)
    assert len(output.active) == MOST_OPEN
    assert output.active[0].findings == (("drops", "nf fwd"),)


def test_incidents_of_unprivileged_users_alone_displace_none() -> None:
    """These users can give any number, and change it as often as they like."""
    fold = Fold()
    waits = replace(WAITS, subject=about("cpu 3"))
    notes = [Finding("note", "m", about(f"host {number}"), "odd", 0) for number in range(MOST_OPEN)]
    fold.tick(*(since(item, 0) for item in (*notes, DROPS, waits)), drops=5e9)
    foreign = Owner(99, "mallory", privileged=False, reason=UNPRIVILEGED)
    nfs = (replace(fold.last.nfs[0], owner=foreign), *fold.last.nfs[1:])

    def step(state: IncidentState, *findings: Finding) -> tuple[IncidentState, Incidents]:
        now = replace(fold.last, nfs=nfs, findings=findings)
        return step_incidents(state, FindingInputs(now, {}, (), fold.recent.rates), Parties(now))

    state, output = step(IncidentState(), DROPS, waits)
    assert [item.victims[0].party.name for item in output.active] == ["vpp", "fwd"]
    left = {item.findings[0] for item in step(IncidentState(), *notes, DROPS)[1].active}
    assert len(left) == MOST_OPEN and ("drops", "nf fwd") not in left
    own, theirs = sorted(state.followed.values(), key=lambda item: item.foreign)
    many = [
        replace(theirs, incident=replace(theirs.incident, id=f"t{number}"))
        for number in range(MOST_PAST)
    ]
    past = [item.id for item in step(IncidentState(past=(*many, own)))[1].past]
    assert past == [*(f"t{number}" for number in range(MOST_PAST - 1)), own.incident.id]


def test_only_the_newest_of_those_that_ended_are_kept() -> None:
    fold, output = Fold(), Incidents()
    for number in range(MOST_PAST + 5):
        fold.tick(since(Finding("drops", "m", about("nf fwd"), "t", 0), 20 * number), drops=1.0)
        for _ in range(19):
            output = fold.tick()
    assert len(output.past) == MOST_PAST
    ends = [item.until_ns or 0 for item in output.past]
    assert ends == sorted(ends, reverse=True)


def test_information_stays_apart_from_harm() -> None:
    fold = Fold()
    named = replace(LOW_IPC, subject=about("cpu 1"))
    output = fold.tick(since(named, 0), since(DROPS, 20), drops=5.0)
    assert [item.severity for item in output.active] == [Severity.BAD, Severity.INFO]


def test_a_loss_that_another_cause_explains_is_no_effect_of_this_one() -> None:
    fold = Fold()
    for _ in range(20):
        fold.tick(since(LOW_IPC, 0))
    usual, less = fold.last.nfs[0].readings["tx_packets_per_s"], 1e6
    assert isinstance(usual, float) and usual > 2 * less
    output = fold.tick(since(LOW_IPC, 0), since(DROPS, 20), drops=5.0, tx_packets_per_s=less)
    of_rule = {item.findings[0][0]: item for item in output.active}
    assert isinstance(of_rule["drops"].victims[0].change, float)
    victim = of_rule["low-ipc"].victims[0]
    assert isinstance(victim.change, Missing) and isinstance(victim.drops_per_s, Missing)


def test_values_before_are_not_those_that_the_incident_before_left() -> None:
    fold = Fold()
    for _ in range(60):
        fold.tick(tx_packets_per_s=10e6)
    [first] = fold.tick(since(DROPS, 60), drops=5.0, tx_packets_per_s=5e6).active
    for _ in range(20):
        fold.tick(since(DROPS, 60), drops=5.0, tx_packets_per_s=5e6)
    for _ in range(20):
        fold.tick(tx_packets_per_s=8e6)
    [second] = fold.tick(since(DROPS, 100), drops=5.0, tx_packets_per_s=5e6).active
    assert first.id != second.id
    assert [item.victims[0].before for item in (first, second)] == [10e6, 10e6]


def test_what_may_continue_an_incident_from_before_a_jump_is_a_bound() -> None:
    for again in (True, False):
        [one] = Fold().tick(since(replace(DROPS, is_again=again), -3), drops=5.0).active
        assert one.is_bound == again


def rate(run: float, **changes: Any) -> ThreadRate:
    return ThreadRate(thread(**changes), run, 0.0, polls=False)


def test_the_thread_that_ran_most_on_the_poller_s_cpu_is_the_culprit() -> None:
    fold = Fold()
    threads = (
        rate(0.9, pid=4242, tid=1, allowed=(Cpu(1),), program="fwd"),
        rate(0.02, pid=70, tid=70, allowed=(Cpu(1),), program="cron"),
        rate(0.09, pid=80, tid=80, allowed=(Cpu(1),), program="backup"),
        rate(0.9, pid=90, tid=90, allowed=(Cpu(5),), program="other"),
    )
    facts = {80: ProcessFacts(80, Cpu(1), "", "ci", "/a", 0, None, container="backup.service")}
    [one] = fold.tick(since(WAITS, 0), threads=threads, facts=facts).active
    assert one.culprit is not None
    assert (one.culprit.name, one.culprit.pid, one.culprit.user, one.culprit.container) == (
        "backup",
        80,
        "ci",
        "backup.service",
    )
    assert one.culprit.cpus == (1,) and one.watch == (1,)
    assert culprit_focus(fold.last) == ((1,), ())


def test_a_thread_seen_by_the_scan_of_proc_is_known_too() -> None:
    uses = (CpuUse(Cpu(1), 9, "kworker/1:1", 400_000_000, 5_000_000_000),)
    [one] = Fold().tick(since(WAITS, 0), uses=uses).active
    assert one.culprit is not None and (one.culprit.name, one.culprit.pid) == ("kworker/1:1", 9)
    few = (replace(uses[0], run_ns=10_000_000),)
    [one] = Fold().tick(since(WAITS, 0), uses=few).active
    assert one.culprit is None


@pytest.mark.parametrize(
    ("metric", "name"), [("steal_ratio", "steal"), ("softirq_ratio", "softirq")]
)
def test_the_hypervisor_and_the_kernel_can_be_culprits(metric: str, name: str) -> None:
    columns = {metric: column(frame(8, 0).cpus.columns["steal_ratio"].values + 0.2)}
    [one] = Fold().tick(since(WAITS, 0), columns=columns).active
    assert one.culprit is not None and one.culprit.kind == "host" and name in one.culprit.name


def test_the_share_of_a_culprit_is_the_greatest_of_one_cpu_and_all_its_cpus_count() -> None:
    waits = (since(WAITS, 0), since(replace(WAITS, subject=about("cpu 2")), 0))
    uses = [CpuUse(Cpu(cpu), 77, "burn", 300_000_000, SECOND_NS) for cpu in (1, 2)]
    other = CpuUse(Cpu(1), 88, "cron", 400_000_000, SECOND_NS)
    [one] = Fold().tick(*waits, uses=(*uses, other)).active
    assert one.culprit is not None and one.culprit.pid == 77
    assert "30%" in one.title
    threads = [
        rate(0.75, pid=77, tid=cpu, allowed=(Cpu(cpu),), last_cpu=Cpu(cpu)) for cpu in (1, 2)
    ]
    [one] = Fold().tick(*waits, threads=threads, uses=uses).active
    assert one.culprit is not None and one.culprit.pid == 77
    assert "75%" in one.title


def test_a_culprit_that_is_known_less_exactly_for_a_tick_stays() -> None:
    fold = Fold()
    threads = (rate(0.09, pid=80, tid=80, allowed=(Cpu(1),), program="backup"),)
    fold.tick(since(WAITS, 0), threads=threads)
    [one] = fold.tick(since(WAITS, 0)).active
    assert one.culprit is not None and one.culprit.pid == 80


def test_a_function_that_is_gone_is_the_worst() -> None:
    departed = NfSighting("k", "ovs", 7, "ovs", WALL_NS, 0)
    finding = Finding("gone", "rx_packets_per_s", about("nf ovs", "k"), "pid 7 was here", 0)
    [one] = Fold().tick(since(finding, 0), gone=(departed,)).active
    assert (one.kind, one.severity) == ("gone", Severity.BAD)
    assert one.culprit is not None and (one.culprit.key, one.culprit.pid) == ("k", 7)
    left = (rate(0.0, pid=7, tid=7, allowed=(Cpu(1),), program="ovs-vswitchd"),)
    [listed] = Fold().tick(since(finding, 0), gone=(departed,), threads=left).active
    assert "process 7" not in listed.title
    [over] = Fold().tick(since(finding, 0), gone=(departed,)).active
    assert "process 7" in over.title


def test_two_functions_of_one_name_that_are_gone_are_two_incidents() -> None:
    left = [NfSighting(f"k{pid}", "pmd", pid, "dpdk", WALL_NS, 0) for pid in (11, 22)]
    gone = Finding("gone", "rx_packets_per_s", about("nf pmd"), "pid", 0)
    findings = [since(replace(gone, subject=about("nf pmd", item.key)), 0) for item in left]
    fold, output, seen = Fold(), Incidents(), set[tuple[str, int | None]]()
    for _ in range(4):
        output = fold.tick(*findings, gone=tuple(left))
        seen |= {(one.id, one.culprit.pid) for one in output.active if one.culprit is not None}
    assert sorted(pid or 0 for _, pid in seen) == [11, 22] and not output.past


def test_ids_do_not_depend_on_when_the_fold_began_and_a_clock_that_went_back_resets() -> None:
    first, second = Fold(), Fold()
    second.tick()
    second.tick()
    one, other = first.tick(since(WAITS, 0)).active, second.tick(since(WAITS, 0)).active
    assert one[0].id == other[0].id
    second.second = 0
    assert second.tick().past == ()


def test_a_rule_from_outside_becomes_an_incident_of_its_subject() -> None:
    odd = Finding("own-rule", "cpp", about("nf vpp"), "3 things, above 2", 0, brief="3 things")
    host = Finding("own-host-rule", "cpp", about("host"), "odd", 0, brief="odd")
    output = Fold().tick(since(odd, 0), since(host, 0))
    assert {(item.kind, item.severity) for item in output.active} == {
        ("nf", Severity.WARN),
        ("host", Severity.INFO),
    }
    assert {item.title for item in output.active} == {"3 things", "odd"}


def test_what_arrives_is_never_taken_from_before() -> None:
    fold = Fold()
    for _ in range(20):
        fold.tick()
    unknown = Missing(Reason.SOURCE)
    [one] = fold.tick(since(DROPS, 20), drops=5.0, rx_packets_per_s=unknown).active
    assert isinstance(one.victims[0].before, float)
    assert isinstance(one.price.lost_packets_per_s, Missing) and one.price.drops_per_s == 5.0


def test_before_values_are_reasons_if_nothing_is_known_from_before() -> None:
    [one] = Fold().tick(since(DROPS, 0), drops=5.0).active
    before = one.victims[0].before
    assert isinstance(before, Missing) and before.reason is Reason.WARMING
