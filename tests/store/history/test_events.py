"""What is remembered of incidents, changes, markers and totals after they ended."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from nftop.derive.cache.changes import is_own_change
from nftop.model.change import Cell, Change, Noticed
from nftop.model.frame import Frame
from nftop.model.incident import Incident, Price, Severity
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.rdt.rdt import ROOT
from nftop.model.timeline import EventState
from nftop.store.format.records import OWN_SUFFIX
from nftop.store.history.events import MOST_EVENTS, EventHistory, TotalRing
from tests.frames import SECOND_NS, WALL_NS, frame, nic_drops


def incident(
    since: int, drops: Reading = 0.0, until: int | None = None, key: str = "i1"
) -> Incident:
    ends = None if until is None else WALL_NS + until * SECOND_NS
    return Incident(
        key,
        Severity.BAD,
        "takes cache",
        None,
        (),
        Price(),
        WALL_NS + since * SECOND_NS,
        ends,
        worst=Price(drops),
        worst_ns=WALL_NS + since * SECOND_NS,
    )


def tick(number: int, drops: Reading | None = None, **fields: object) -> Frame:
    base = frame(8, number)
    nfs = base.nfs
    if drops is not None:
        nfs = tuple(replace(nf, readings={**nf.readings, **nic_drops(drops)}) for nf in nfs[:1])
    return replace(base, wall_ns=WALL_NS + number * SECOND_NS, nfs=nfs, **fields)  # type: ignore[arg-type]


def mask(old: str, new: str) -> tuple[Change, ...]:
    return (Change(Cell("schemata", ROOT, "L3", 0), old, new),)


def noticed(second: int, changes: tuple[Change, ...]) -> Noticed:
    at_ns = 1000 * SECOND_NS + second * SECOND_NS
    return Noticed(at_ns - SECOND_NS, at_ns, WALL_NS + second * SECOND_NS, changes)


def test_changes_by_the_recordings_nftop_are_its_own_in_any_order() -> None:
    mine, other = noticed(2, mask("00002", "000fe")), noticed(5, mask("000fe", "0000f"))
    for first in (True, False):
        history = EventHistory()
        if first:
            history.append(tick(5, noticed=(mine, other)))
        text = f"tenant: L3 0 00002 -> 000fe{OWN_SUFFIX}"
        history.mark(text, mine.wall_ns, kind="change")
        history.mark("tenant: L3 0 000fe -> 0000f", other.wall_ns, kind="change")
        history.append(tick(6, noticed=(mine, other)))
        own = history.own_changes()
        assert [is_own_change(item.changes[0], item, own) for item in (mine, other)] == [
            True,
            False,
        ]


def test_incident_is_kept_with_its_end_and_worst_when_frames_have_forgotten_it() -> None:
    history = EventHistory()
    history.append(tick(1, incidents=(incident(1, 5e6),)))
    history.append(tick(2, incidents=(incident(1, 3e6),)))
    (event,) = history.events(WALL_NS, WALL_NS + 9 * SECOND_NS)
    assert (event.state, event.end_ns, event.worst_drops_per_s) == (EventState.OPEN, None, 5e6)
    history.append(tick(3, past_incidents=(incident(1, 3e6, until=3),)))
    history.append(tick(4))
    (event,) = history.events(WALL_NS, WALL_NS + 9 * SECOND_NS)
    assert event.end_ns == WALL_NS + 3 * SECOND_NS
    assert (event.state, event.severity) == (EventState.ENDED, Severity.BAD)
    assert event.worst_drops_per_s == 5e6


def test_open_incident_that_vanishes_from_frames_has_ended() -> None:
    history = EventHistory()
    history.append(tick(1, incidents=(incident(1),)))
    history.append(tick(5))
    (event,) = history.events(WALL_NS, WALL_NS + 9 * SECOND_NS)
    assert (event.state, event.end_ns) == (EventState.ENDED, WALL_NS + 5 * SECOND_NS)


@pytest.mark.parametrize(
    ("later", "state", "end"),
    [
        (mask("0fe", "003"), EventState.UNDONE, 20),
        (mask("0fe", "00f"), EventState.REPLACED, 20),
        ((Change(Cell("schemata", "vpp", "L3", 0), "1", "2"),), EventState.IN_FORCE, None),
    ],
)
def test_change_is_in_force_until_another_one_of_the_same_cells(
    later: tuple[Change, ...], state: EventState, end: int | None
) -> None:
    history, first = EventHistory(), noticed(3, mask("003", "0fe"))
    history.append(tick(3, noticed=(first,)))
    history.append(tick(4, noticed=(first,)))
    history.append(tick(20, noticed=(first, noticed(20, later))))
    event, _ = history.events(WALL_NS, WALL_NS + 60 * SECOND_NS)
    assert event.changes == mask("003", "0fe") and event.state is state
    assert event.end_ns == (None if end is None else WALL_NS + end * SECOND_NS)


def test_changes_shortly_after_one_another_are_one_event() -> None:
    history = EventHistory()
    one, two = noticed(3, mask("1", "3")), noticed(5, mask("3", "7"))
    history.append(tick(5, noticed=(one, two)))
    (event,) = history.events(WALL_NS, WALL_NS + 60 * SECOND_NS)
    assert event.changes == mask("1", "3") + mask("3", "7")
    assert event.begin_ns == one.wall_ns and event.at_ns == two.at_ns


def test_recorded_text_of_a_change_gives_way_to_the_change_itself() -> None:
    history = EventHistory()
    history.mark("vpp: L3 0 003 -> 0fe", WALL_NS + 3 * SECOND_NS, kind="change")
    (event,) = history.events(WALL_NS, WALL_NS * 2)
    # Whether it still is in force is not known.
    assert event.text and (event.state, event.end_ns) == (EventState.MOMENT, event.begin_ns)
    history.append(tick(3, noticed=(noticed(3, mask("003", "0fe")),)))
    (event,) = history.events(WALL_NS, WALL_NS * 2)
    assert event.changes == mask("003", "0fe")
    history.mark("vpp: L3 0 003 -> 0fe", WALL_NS + 3 * SECOND_NS, kind="change")
    assert history.events(WALL_NS, WALL_NS * 2) == (event,)


def test_next_and_previous_event() -> None:
    history = EventHistory()
    for second in (10, 20, 30):
        history.mark(f"m{second}", WALL_NS + second * SECOND_NS)
    history.mark("left out", WALL_NS, kind="action")
    after = history.next_event(WALL_NS + 10 * SECOND_NS, 1)
    before = history.next_event(WALL_NS + 10 * SECOND_NS, -1)
    assert after is not None and after.text == "m20" and before is None


def test_number_of_events_has_a_bound_and_open_ones_stay() -> None:
    history = EventHistory()
    history.append(tick(1, incidents=(incident(1, key="open"),)))
    for number in range(MOST_EVENTS + 5):
        history.mark("m", WALL_NS + number)
    events = history.events(0, 2 * WALL_NS)
    assert len(events) == MOST_EVENTS
    assert "open" in {event.key for event in events}


def test_drops_are_summed_and_what_is_unknown_is_reported() -> None:
    history = EventHistory()
    history.append(tick(1, 2e6))
    strip = history.strip(WALL_NS + 2 * SECOND_NS)
    assert strip.drops.values.tolist() == [2e6] and strip.unknown is None
    why = Missing(Reason.SOURCE, "xstats has no imissed")
    history.append(tick(2, why))
    strip = history.strip(WALL_NS + 2 * SECOND_NS)
    assert np.isnan(strip.drops.values[-1]) and strip.unknown is not None
    assert strip.unknown.reason is Reason.SOURCE and why.detail in strip.unknown.detail
    history.append(replace(tick(3), nfs=()))
    assert history.strip(WALL_NS + 3 * SECOND_NS).unknown is not None


def test_what_is_unknown_is_of_its_second_only() -> None:
    history, why = EventHistory(), Missing(Reason.PERMISSION, "no")
    [one] = tick(1, 2e6).nfs
    blind = replace(one, key="other", readings={**one.readings, **nic_drops(why)})
    for second in range(1, 5):
        history.append(replace(tick(second, 2e6), nfs=(one, blind) if second < 3 else (one,)))
    drops = history.strip(WALL_NS + 4 * SECOND_NS).drops
    assert drops.values.tolist() == [2e6] * 4
    reasons = [drops.at(WALL_NS + second * SECOND_NS)[1] for second in range(1, 5)]
    assert reasons == [Reason.PERMISSION, Reason.PERMISSION, Reason.PRESENT, Reason.PRESENT]


def test_network_functions_with_one_name_are_summed_and_an_unknown_one_stays_unknown() -> None:
    base = tick(1, 2e6)
    [one] = base.nfs
    why = Missing(Reason.SOURCE, "xstats has no imissed")
    lost = replace(one, key="other", readings={**one.readings, **nic_drops(why)})
    for nfs in ((one, one, lost), (lost, one, one)):
        history = EventHistory()
        history.append(replace(base, nfs=nfs))
        strip = history.strip(WALL_NS + 2 * SECOND_NS)
        assert strip.drops.values.tolist() == [4e6]
        assert strip.unknown is not None and strip.unknown.reason is Reason.SOURCE


def test_ring_keeps_the_worst_of_a_second_and_replaces_what_is_too_old() -> None:
    ring = TotalRing(SECOND_NS, 4)
    for at_ns, drops in ((0, 1.0), (SECOND_NS // 2, 7.0), (SECOND_NS - 1, np.nan)):
        ring.put(at_ns, (drops, drops, 1.0))
    first = ring.series("drops_per_s", 0, 9 * SECOND_NS)
    assert first.values.tolist() == [7.0]
    assert ring.series("sent_packets_per_s", 0, 0).values.tolist() == [7.0]
    for second in (3, 2, 5, 4):  # in any order
        ring.put(second * SECOND_NS, (float(second), 0.0, 0.0))
    series = ring.series("drops_per_s", 0, 9 * SECOND_NS)
    assert series.values.tolist() == [2.0, 3.0, 4.0, 5.0]
    assert (series.times_ns // SECOND_NS).tolist() == [2, 3, 4, 5]


def test_memory_and_sent_packets_are_totals() -> None:
    history = EventHistory()
    one = tick(1)
    history.append(one)
    sent = history.series("sent_packets_per_s", WALL_NS, WALL_NS + 9 * SECOND_NS).values
    values = [nf.readings["tx_packets_per_s"] for nf in one.nfs]
    known = [value for value in values if not isinstance(value, Missing)]
    assert known and sent[-1] == pytest.approx(sum(known))


def test_state_of_a_change_does_not_depend_on_the_order_in_which_changes_come() -> None:
    history = EventHistory()
    created, undone = noticed(10, mask("003", "0fe")), noticed(100, mask("0fe", "003"))
    history.append(tick(100, noticed=(undone,)))
    history.append(tick(10, noticed=(created,)))
    first, second = history.events(WALL_NS, WALL_NS + 200 * SECOND_NS)
    assert (first.state, first.end_ns) == (EventState.UNDONE, WALL_NS + 100 * SECOND_NS)
    assert (second.state, second.end_ns) == (EventState.IN_FORCE, None)
    # One between the two ends the first, and is ended by the second.
    history.append(tick(50, noticed=(noticed(50, mask("0fe", "0ff")),)))
    states = [item.state for item in history.events(WALL_NS, WALL_NS + 200 * SECOND_NS)]
    assert states == [EventState.REPLACED, EventState.REPLACED, EventState.IN_FORCE]


def test_new_marker_is_kept_where_changes_in_force_fill_the_history() -> None:
    history = EventHistory()
    for number in range(MOST_EVENTS):
        history.mark(f"change {number}", WALL_NS + number, kind="change")
    history.mark("mine", WALL_NS + SECOND_NS)
    events = history.events(WALL_NS, WALL_NS + 2 * SECOND_NS)
    assert len(events) == MOST_EVENTS
    assert events[-1].text == "mine" and events[0].text == "change 1"


@pytest.mark.parametrize("order", list(permutations(range(4))))
@pytest.mark.parametrize("marked", ["before", "after", "between"])
def test_changes_join_in_any_order_and_leave_no_text(order: tuple[int, ...], marked: str) -> None:
    """A replay shows them in any order, its markers too."""
    history = EventHistory()
    masks, seconds = ("1", "3", "7", "f"), (3, 5, 8, 30)
    changes = [
        noticed(at, mask(old, new))
        for at, old, new in zip(seconds, ("0", *masks), masks, strict=False)
    ]

    def mark(item: Noticed) -> None:
        history.mark("L3 0", item.wall_ns, kind="change")

    for item in changes if marked == "before" else ():
        mark(item)
    for at in order:
        history.append(tick(seconds[at], noticed=(changes[at],)))
        if marked == "between":
            mark(changes[at - 1])
    for item in changes if marked == "after" else ():
        mark(item)
    joined, last = history.events(WALL_NS, WALL_NS + 60 * SECOND_NS)
    assert joined.changes == tuple(one for item in changes[:3] for one in item.changes)
    assert (joined.begin_ns, joined.since_ns, joined.at_ns) == (
        changes[0].wall_ns,
        changes[0].since_ns,
        changes[2].at_ns,
    )
    assert (joined.state, joined.end_ns) == (EventState.REPLACED, changes[3].wall_ns)
    assert (last.changes, last.state) == (changes[3].changes, EventState.IN_FORCE)
