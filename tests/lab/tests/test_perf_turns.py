"""Perf events that want more counters than there are: who counts when. No mount, no privileges."""

from __future__ import annotations

import errno

import pytest

from tests.lab.tests.events import (
    ENABLE,
    GENERAL,
    MS,
    PINNED,
    POLLER,
    RAW,
    Lab,
    S,
    expected,
    id_of,
    words,
)


def test_groups_that_do_not_fit_together_take_turns() -> None:
    lab = Lab()
    first, second = lab.group(0xC0, *GENERAL[:3]), lab.group(0xC0, *GENERAL[3:6])
    lab.now_ns = 10 * S
    for leader in (first, second):
        size, enabled, running, instructions, *_ = words(leader)
        assert (size, enabled, running) == (4, 10 * S, 5 * S)
        # Seen in half of the time: half of the model's, but for the swing in a round of 8 ms.
        assert instructions == pytest.approx(expected(0xC0, 0, 0, 10 * S) / 2, rel=1e-3)


def test_over_committed_counts_are_exact_within_a_turn() -> None:
    lab = Lab()
    handles = [lab.raw(config, cpu=POLLER) for config in (*GENERAL[:4], 0x2A6)]
    lab.now_ns = 10 * MS
    counts = [words(handle) for handle in handles]
    # Four of five in each turn of 4 ms, and one moves up: the first is off in the second turn.
    assert [row[2] // MS for row in counts] == [4 + 2, 8, 10, 10, 6]
    for row, config, spans in (
        (0, GENERAL[0], ((0, 4), (8, 10))),
        (1, GENERAL[1], ((0, 8),)),
        (4, 0x2A6, ((4, 10),)),
    ):
        seen = sum(expected(config, POLLER, start * MS, end * MS) for start, end in spans)
        assert counts[row][0] == pytest.approx(seen, abs=2)


def test_rotation_goes_on_where_it_was_after_a_change() -> None:
    lab = Lab()
    handles = [lab.raw(config) for config in GENERAL[:5]]
    for step in range(1, 11):
        lab.now_ns = step * 4 * MS
        lab.raw(0xC0).close()  # a change at every turn
    assert {words(handle)[2] for handle in handles} == {8 * 4 * MS}


def test_the_watchdog_keeps_a_full_group_off_until_it_is_stopped() -> None:
    lab = Lab(watchdog=True)
    leader = lab.group(0x3C, *GENERAL[:4])
    lab.now_ns = S
    assert words(leader)[:4] == [5, S, 0, 0]
    lab.watchdog = False
    words(leader)
    lab.now_ns = 2 * S
    assert words(leader)[1:3] == [2 * S, S]


def test_a_group_that_never_fits_is_not_opened() -> None:
    lab = Lab()
    leader = lab.group(0x3C, *GENERAL[:4])
    assert lab.code(RAW, GENERAL[5], leader=id_of(leader)) == errno.EINVAL
    assert lab.code(RAW, 0x300, leader=id_of(leader)) == 0


def test_a_pinned_group_without_room_reads_as_end_of_file_until_enabled_again() -> None:
    lab = Lab()
    blocker = lab.raw(0x300, bits=PINNED)
    handle = lab.raw(0x300, bits=PINNED)
    assert handle.read(64, 0) == b""
    blocker.close()
    handle.ioctl(ENABLE, 0, None)
    lab.now_ns = S
    assert words(handle)[1:] == [S, S]
