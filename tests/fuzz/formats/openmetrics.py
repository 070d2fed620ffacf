"""Pages for a scraper, of frames whose numbers and texts are hostile; a strict reader reads them.

Inputs are those of `records`.
"""

from __future__ import annotations

from nftop.export.json.frame import frame_json
from nftop.export.openmetrics.page import Tally, ending, page
from nftop.export.openmetrics.writer import TextFormat
from tests.export.prometheus import read
from tests.fuzz.formats import records

WORDS = (
    *records.WORDS,
    b'\xa3"\n\\',
    b"\xa4# EO",
    b'\xa5a="b"',
    b"\xc4\x02\xff\xfe",
    b"\xa3\xe2\x80\xa8",
)


def seeds() -> list[bytes]:
    return records.seeds()


def play(data: bytes) -> None:
    """Every form of the last page is what Prometheus takes."""
    for frame in records.frames_of(data)[-1:]:
        frame_json(frame)
        for form in TextFormat:
            text = page(frame, Tally(), form) + ending({200: 1}, form)
            text.encode()
            read(text, openmetrics=form is TextFormat.OPENMETRICS)
