"""What the header says of a recording."""

from __future__ import annotations

from nftop.render.frame.header import recording_text


def test_the_past_is_distinguished_from_what_was_recorded_since() -> None:
    assert recording_text(649, 0, "", over=False, before_s=647) == "REC 00:02 (+10:47 before)"
    assert recording_text(5, 1, "", over=False) == "REC 00:05 (1 tick lost)"
