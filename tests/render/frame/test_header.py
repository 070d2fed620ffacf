"""What the header says of a recording."""

from __future__ import annotations

from dataclasses import replace

from nftop.model.replay_position import Position
from nftop.render.frame.header import ViewStatus, banner_lines, header_lines, recording_text
from tests.recordings import taken


def test_the_past_is_distinguished_from_what_was_recorded_since() -> None:
    assert recording_text(649, 0, "", over=False, before_s=647) == "REC 00:02 (+10:47 before)"
    assert recording_text(5, 1, "", over=False) == "REC 00:05 (1 tick lost)"


def test_at_80_columns_a_recording_that_is_not_written_is_shown() -> None:
    text = recording_text(5, 12, "No space left on device", over=False)
    frame = taken(2, cpus=4).frames[1]
    frame = replace(frame, host=replace(frame.host, name="a-long-name-of-a-host.example"))
    for width, badge in ((80, ""), (60, "SIMULATED"), (30, "")):
        shown = replace(frame, host=replace(frame.host, simulated=bool(badge)))
        row = header_lines(shown, ViewStatus(recording=text, unlocked=True), width)[0]
        words = "".join(span.text for span in row.spans)
        assert row.width <= width and "REC PAUSED" in words and badge in words


def test_a_long_remark_of_a_replay_takes_two_lines() -> None:
    position = Position(0, 0, 0, 0, remark="waited for its CPU; " * 20)
    first, *remarks = banner_lines(position, 80)
    assert len(remarks) == 2
    assert all(row.width <= 80 for row in (first, *remarks))
    assert remarks[-1].text.endswith("…")
    short = banner_lines(position._replace(remark="lost 2 ticks"), 80)
    assert [row.text for row in short[1:]] == [" > lost 2 ticks"]
