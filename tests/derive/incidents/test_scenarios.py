"""Every scenario of the simulated host: culprit and victims within 10 s, and as history later."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pytest

from nftop.derive.fold import FoldState, lasting, step
from nftop.model.change import Cell
from nftop.model.frame import Frame
from nftop.model.incident import Incident, Price, Severity
from nftop.model.missing import Missing
from nftop.model.sample import Sample
from nftop.sim import scenario
from tests.sim.hosts import Frozen, S, span_s

WITHIN_S = 10
HISTORY_S = (30, 60)  # after the end of an event


class Expected(NamedTuple):
    """An incident: kind, severity, culprit (kind, name), pid, and victims in their order."""

    kind: str
    severity: Severity
    culprit: tuple[str, str]
    pid: int | None
    victims: tuple[str, ...]


BAD, WARN, INFO = Severity.BAD, Severity.WARN, Severity.INFO
VPP, OVS, SOUTH = "vpp", "ovs-vswitchd", "south/l3fwd"
NORTH, LOOP = "north/l3fwd", "loop/testpmd"
EXPECTED = {
    "apart": Expected("host", INFO, ("host", "perf and pcm"), None, ()),
    "burst": Expected("neighbour", INFO, ("process", "qemu-system-x86"), 8000, (VPP,)),
    "channels": Expected(
        "channels", INFO, ("device", "memory channels of socket 0"), None, (VPP, OVS)
    ),
    "collapse": Expected("cpu", BAD, ("process", "rt-logger"), 4900, (LOOP,)),
    "ddio": Expected("ddio", INFO, ("device", "devices of socket 0"), None, (VPP, OVS)),
    "descriptors": Expected(
        "descriptors", INFO, ("device", "devices of socket 0"), None, (VPP, OVS)
    ),
    "doorbells": Expected("registers", INFO, ("nf", SOUTH), 7000, (LOOP,)),
    "frontend": Expected("nf", INFO, ("nf", VPP), 5000, (VPP,)),
    "idle": Expected("stopped", INFO, ("host", "arriving traffic"), None, (VPP,)),
    "lowcore": Expected("clock", INFO, ("cpu", "cpu 2,46"), None, (VPP,)),
    "remote": Expected("remote", WARN, ("nf", VPP), 5000, (VPP,)),
    "shared": Expected("cpu", WARN, ("process", "burnin"), 7900, (SOUTH,)),
    "sibling": Expected("sibling", INFO, ("process", "qemu-system-x86"), 9000, (LOOP,)),
    "slow": Expected("nf", BAD, ("nf", VPP), 5000, (VPP,)),
    "speculation": Expected("nf", INFO, ("nf", OVS), 6000, (OVS,)),
    "upcalls": Expected("flows", BAD, ("host", "new flows"), None, (OVS,)),
}


def described(incident: Incident) -> Expected:
    culprit = incident.culprit
    named = ("", "") if culprit is None else (culprit.kind, culprit.name)
    pid = None if culprit is None else culprit.pid
    victims = tuple(item.party.name for item in incident.victims)
    return Expected(incident.kind, incident.severity, named, pid, victims)


def same(one: Expected, other: Expected) -> bool:
    """Whether two are the same, whatever the order of victims that lose nothing."""
    return one[:4] == other[:4] and sorted(one.victims) == sorted(other.victims)


def test_every_scenario_is_expected() -> None:
    others = {"default", "noisy", "healthy", "sst-bf"}
    assert set(EXPECTED) | others == set(scenario.names())


class Story(NamedTuple):
    """Frames of a scenario, and what was open in it.

    Attributes:
        before: the last five seconds before the event.
        known: the first one with its incident. seconds: from its onset to that.
        ids: of all incidents during the event.
        later: `HISTORY_S` after its end.
    """

    before: Sequence[Frame]
    known: Frame
    incident: Incident
    seconds: int
    ids: frozenset[str]
    later: Sequence[Frame]


@lru_cache(maxsize=len(EXPECTED))
def story(name: str) -> Story:
    """Played once for the tests of incidents and those of the screen."""
    host = Frozen(name, traffic=None)
    begins_s, ends_s = span_s(name)
    host.tick(0)
    host.tick((begins_s - 5) * S)
    before = [host.tick(S) for _ in range(5)]
    ids, known = set(), list[tuple[int, Frame, Incident]]()
    for second in range(1, ends_s - begins_s + 1):
        frame = host.tick(S)
        ids |= {item.id for item in frame.incidents}
        hits = [item for item in frame.incidents if same(described(item), EXPECTED[name])]
        if hits and not known:
            known.append((second, frame, hits[0]))
    assert known, name
    [(seconds, first, incident)] = known
    for _ in range(15):
        host.tick(S)
    later = host.tick((HISTORY_S[0] - 15) * S), host.tick((HISTORY_S[1] - HISTORY_S[0]) * S)
    return Story(before, first, incident, seconds, frozenset(ids), later)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_culprit_and_victims_are_known_in_time_and_kept(name: str) -> None:
    scenes, expected = story(name), EXPECTED[name]
    begins_s, ends_s = span_s(name)
    assert [incident for frame in scenes.before for incident in frame.incidents] == []
    assert scenes.seconds <= WITHIN_S
    assert scenes.ids == {scenes.incident.id}, "one cause is one incident from its begin to its end"
    begins_ns = scenes.before[-1].monotonic_ns
    for frame in scenes.later:
        past = next(item for item in frame.past_incidents if item.id in scenes.ids)
        assert same(described(past), expected)
        assert past.until_ns is not None
        assert 0 <= (past.since_ns - begins_ns) / S <= WITHIN_S
        assert past.until_ns <= begins_ns + (ends_s - begins_s + 11) * S
        assert not [item for item in frame.incidents if item.severity > INFO]


@pytest.mark.parametrize(
    ("name", "title"), [("burst", "48.0 GB/s"), ("shared", "took 30%"), ("descriptors", "6[67]%")]
)
def test_what_ended_keeps_its_worst_numbers_whenever_it_is_read(name: str, title: str) -> None:
    host = Frozen(name, traffic=True)
    begins_s, ends_s = span_s(name)
    host.tick(0)
    host.tick((begins_s - 6) * S + 3 * S // 10)  # its last tick has it for a part of its time only
    open_ = [item for _ in range(ends_s - begins_s + 5) for item in host.tick(S).incidents]
    frame = [host.tick(S) for _ in range(20)][-1]
    [past] = [item for item in frame.past_incidents if item.id == open_[-1].id]
    assert re.match(title, past.title) and past.title in {item.title for item in open_}
    first, last = past.since_ns, past.until_ns
    assert last is not None and first <= past.worst_ns < last - 2 * S
    number = title.split()[-1]
    numbers = [
        text
        for text in (*past.evidence, *(link.text for link in past.chain))
        if re.search(r"GB/s|waited|writes", text)
    ]
    assert numbers and all(re.search(number.removesuffix("%"), text) for text in numbers)
    assert all(link.value_ns < last - 2 * S for link in past.chain if link.step == "cause")


def test_what_is_lost_to_nobody_is_zero_and_not_unknown() -> None:
    for name in ("idle", "speculation"):
        host = Frozen(name, traffic=None)
        begins_s, _ = span_s(name)
        host.tick(0)
        host.tick((begins_s - 5) * S)
        frame = [host.tick(S) for _ in range(5 + WITHIN_S)][-1]
        [one] = [item for item in frame.incidents if item.victims]
        assert (one.severity, one.price, one.victims[0].drops_per_s) == (INFO, Price(0.0, 0.0), 0.0)


def test_a_healthy_host_has_none() -> None:
    host = Frozen("healthy", traffic=None)
    host.tick(0)
    for _ in range(60):
        frame = host.tick(2 * S)
        assert (frame.incidents, frame.past_incidents) == ((), ())


def test_a_noisy_neighbour_harms_all_that_share_its_ways() -> None:
    host = Frozen("noisy", traffic=None)
    host.tick(0)
    host.tick(20 * S)
    for _ in range(40):
        frame = host.tick(S)
    frame = host.tick(S)
    assert all(item.severity is INFO for item in frame.incidents)
    seconds = 1  # since the neighbour began
    while frame.incidents[0].kind != "neighbour" and seconds < WITHIN_S:
        frame = host.tick(S)
        seconds += 1
    worst = frame.incidents[0]
    assert (worst.severity, worst.culprit and worst.culprit.pid) == (BAD, 8000)
    assert worst.culprit is not None and worst.culprit.cpus == (11, 12, 13, 14)
    assert (worst.group, worst.l3, worst.culprit.group) == ("tenant", 0, "tenant")
    changes = {item.party.name: item.change for item in worst.victims}
    assert changes == {
        VPP: pytest.approx(-0.091, abs=0.003),
        NORTH: pytest.approx(-0.057, abs=0.003),
        OVS: pytest.approx(-0.057, abs=0.003),
    }
    vpp = next(item for item in worst.victims if item.party.name == VPP)
    assert vpp.cpp_before == pytest.approx(209.7, abs=1)
    assert vpp.cpp_now == pytest.approx(230.5, abs=1)
    assert worst.price.drops_per_s == pytest.approx(8.44e6, rel=0.01)
    assert worst.price.lost_packets_per_s == pytest.approx(8.44e6, rel=0.02)
    # Since its begin, not since it was found.
    assert worst.dropped == pytest.approx(8.44e6 * seconds, rel=0.05)
    assert [item.excluded for item in worst.ruled_out] == [True] * len(worst.ruled_out)
    host.tick(S)
    frame = host.tick(S)
    assert frame.incidents[0].id == worst.id
    culprit = frame.incidents[0].culprit
    assert culprit is not None and (culprit.user, culprit.container) == (
        "libvirt-qemu",
        "vm neighbour",
    )


@lru_cache(maxsize=1)
def neighbour() -> tuple[FoldState, tuple[Sample, ...]]:
    """`noisy` with the neighbour at work, and its next six samples."""
    host = Frozen("noisy", traffic=None)
    host.tick(0)
    host.tick(40 * S)
    for _ in range(30):
        host.tick(S)
    state, samples = host.state, list[Sample]()
    for _ in range(6):
        samples.append(host.sample(S))
        host.fold(samples[-1])
    return state, tuple(samples)


@lru_cache(maxsize=3)
def stepped(by_s: int) -> Frame:
    """Six seconds after its wall clock was set."""
    state, samples = neighbour()
    frames = list[Frame]()
    for sample in samples:
        state, frame = step(state, replace(sample, wall_ns=sample.wall_ns + by_s * S))
        frames.append(frame)
    return frames[-1]


@pytest.mark.parametrize("stepped_s", [7200, -7200])
def test_a_wall_clock_that_is_set_changes_neither_incidents_nor_what_is_usual(
    stepped_s: int,
) -> None:
    frame, plain = stepped(stepped_s), stepped(0)
    assert frame.wall_ns - plain.wall_ns == stepped_s * S
    ages = [
        [(item.id, item.lasted_s(now.monotonic_ns), item.dropped) for item in now.incidents]
        for now in (frame, plain)
    ]
    assert ages[0] == ages[1] and len(ages[0]) > 0
    for table, usual in ((frame.usual.cpus, plain.usual.cpus), (frame.usual.nfs, plain.usual.nfs)):
        np.testing.assert_array_equal(table.values, usual.values)


def test_what_recovers_after_the_neighbour_is_off_its_ways_stays_one_incident() -> None:
    host = Frozen("noisy", traffic=None)
    host.tick(0)
    host.tick(20 * S)
    frame = [host.tick(S) for _ in range(55)][-1]
    began = frame.incidents[0]
    assert began.kind == "neighbour"
    ways = Cell("schemata", "tenant", "L3", 0)
    host.simulated.world.change(
        lambda classes: replace(classes, state={**classes.state, ways: "3"})
    )
    lost = 0.0
    for _ in range(60):
        frame = host.tick(S)
        shown = (*frame.incidents, *frame.past_incidents)
        assert [item.id for item in shown if item.severity > INFO] == [began.id]
        drops = [nf.readings["drop_packets_per_s"] for nf in frame.nfs]
        lost += sum(value for value in drops if not isinstance(value, Missing))
    [past] = [item for item in frame.past_incidents if item.severity > INFO]
    assert isinstance(began.dropped, float) and lost > 1e7
    assert past.dropped == pytest.approx(began.dropped + lost, rel=0.001)


def test_on_the_default_host_the_program_on_the_poller_s_cpu() -> None:
    host = Frozen("default", traffic=None)
    host.tick(0)
    frames = [host.tick(S) for _ in range(9)]
    worst = frames[-1].incidents[0]
    assert described(worst) == Expected("cpu", BAD, ("process", "backup"), 7900, (NORTH,))
    assert worst.culprit is not None and worst.culprit.cpus == (25,)
    assert worst.price.drops_per_s == pytest.approx(2.94e6, rel=0.01)
    assert worst.dropped == pytest.approx(9 * 2.94e6, rel=0.15)
    before = worst.victims[0].before
    assert isinstance(before, Missing), "it began before nftop"
    assert {item.severity for item in frames[-1].incidents[1:]} == {INFO}


def test_low_priority_cores_that_drop() -> None:
    host = Frozen("sst-bf", traffic=None)
    host.tick(0)
    frame = [host.tick(S) for _ in range(7)][-1]
    kinds = {(item.kind, item.severity, item.victims[0].party.name) for item in frame.incidents}
    assert {("clock", BAD, NORTH), ("clock", BAD, OVS), ("clock", WARN, VPP)} <= kinds


def test_register_writes_stay_information_between_samples_and_after_a_warm_up() -> None:
    host = Frozen("default", 16, traffic=None)
    host.tick(0)
    for restarts in range(3):
        registers = [
            item
            for _ in range(24)
            for item in host.tick(S // 2).incidents
            if item.kind == "registers"
        ]
        assert registers, restarts
        assert {item.severity for item in registers} == {Severity.INFO}
        host.state = lasting(host.state)


@pytest.mark.parametrize("name", ["slow", "upcalls"])
def test_a_loss_is_not_the_slow_clock_s_where_packets_came_to_cost_more_cycles(name: str) -> None:
    """The Gold's pollers run on low-priority cores all the time, which alone lose nothing."""
    host = Frozen(name, 96, traffic=None, processor="gold-6252n")
    begins_s, ends_s = span_s(name)
    host.tick(0)
    frames = [host.tick(S) for _ in range(begins_s + 16)]
    worst, *others = frames[-1].incidents
    expected, now = EXPECTED[name], described(worst)
    assert (now.kind, now.severity, now.culprit) == (expected.kind, BAD, expected.culprit)
    nf = next(item for item in frames[-1].nfs if item.name == expected.victims[0])
    lost = nf.readings["drop_packets_per_s"]
    assert not isinstance(lost, Missing) and lost > 1000.0 and worst.price.drops_per_s == lost
    assert {(item.kind, item.severity) for item in others} == {("clock", WARN)}
    assert any(item.party.name == nf.name for other in others for item in other.victims)
    # Nor was it in the seconds before the loss had lasted long enough to be a finding.
    shown = [item for frame in frames for item in frame.incidents]
    assert {item.severity for item in shown if item.kind == "clock"} == {WARN}
    assert ends_s > begins_s + 16
