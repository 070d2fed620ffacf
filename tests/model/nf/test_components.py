"""Rows that are computed when they are first read."""

from __future__ import annotations

from nftop.model.nf.components import DeferredRows


def test_rows_are_computed_once_and_only_when_read() -> None:
    computed = []

    def rows() -> list[int]:
        computed.append(1)
        return [3, 5, 7]

    deferred = DeferredRows(rows)
    assert not computed
    assert (len(deferred), deferred[0], list(deferred), deferred[1:]) == (3, 3, [3, 5, 7], (5, 7))
    assert len(computed) == 1


def test_they_equal_the_same_rows_in_a_tuple() -> None:
    deferred = DeferredRows(lambda: [1])
    assert deferred == (1,) and deferred == DeferredRows(lambda: (1,))
    assert deferred != (2,) and not DeferredRows[int](tuple)
