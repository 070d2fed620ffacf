"""Reasons of numbers that are absent."""

from __future__ import annotations

from nftop.model.missing import Missing, Reading, Reason
from nftop.render.frame.provenance import reason_lines


def test_a_reason_is_by_label_and_location() -> None:
    why = Missing(Reason.HARDWARE, "no box")
    named: list[tuple[str, Reading, str]] = [
        ("A", why, "s0"),
        ("A", 1.0, "s1"),
        ("B", 1.0, "s0"),
        ("B", why, "s1"),
        ("C", why, "s0"),
        ("C", why, "s1"),
        ("D", why, "s0"),
        ("D", why, "s1"),
    ]
    texts = [item.text.split(maxsplit=1)[1] for item in reason_lines(named, 2, 80)]
    assert texts == ["A on s0: no box", "B on s1: no box", "C, D: no box"]
