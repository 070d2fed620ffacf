from __future__ import annotations

import pytest

from nftop.model.missing import Missing, Reason, quotient


def test_every_reason_has_a_mark_a_key_and_a_sentence() -> None:
    absent = [reason for reason in Reason if reason is not Reason.PRESENT]
    assert len({reason.mark for reason in absent}) == len(absent)
    assert all(reason.mark.isascii() and 1 <= len(reason.mark) <= 3 for reason in absent)
    assert all(reason.sentence and reason.key.islower() for reason in absent)


def test_the_numbers_recordings_keep_never_change() -> None:
    assert [reason.key for reason in Reason] == [
        "ok",
        "source",
        "hardware",
        "permission",
        "taken",
        "warming",
        "idle",
        "reset",
        "stale",
        "error",
        "undefined",
    ]
    assert [int(reason) for reason in Reason] == list(range(11))


def test_missing_needs_a_reason_and_reports_the_most_it_knows() -> None:
    with pytest.raises(ValueError, match="needs a reason"):
        Missing(Reason.PRESENT)
    assert Missing(Reason.TAKEN).message == Reason.TAKEN.sentence
    assert Missing(Reason.TAKEN, "the watchdog").message == "the watchdog"


def test_a_quotient_is_a_finite_number_or_a_reason() -> None:
    assert quotient(3.0, 2.0) == 1.5
    for numerator, denominator, reason in (
        (1.0, 0.0, Reason.IDLE),
        (1.0, float("nan"), Reason.IDLE),
        (1.0, 5e-324, Reason.ERROR),
        (float("inf"), 1.0, Reason.ERROR),
        (float("nan"), 1.0, Reason.ERROR),
    ):
        result = quotient(numerator, denominator)
        assert isinstance(result, Missing) and result.reason is reason
    assert quotient(Missing(Reason.STALE), 0.0) == Missing(Reason.STALE)
