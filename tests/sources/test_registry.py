"""A source from outside of the package is shown, exported, recorded and replayed like any other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nftop.model.sources import kinds
from nftop.sources import registry
from tests.command import python

# A source of its own type, and what an operator does with it: screen, JSON, OpenMetrics, recording.
TOY = """
import json, sys, time
from dataclasses import dataclass
from typing import ClassVar

from nftop.model.sources import SourceKind, register_kind
from nftop.sources.registry import register

@dataclass(frozen=True)
class ToyTable:
    beats: int
    gaps: ClassVar[str] = "half of it"

class Toy:
    name, inline = "toy", True
    def read(self): return ToyTable(time.monotonic_ns())
    def check(self): return ()
    def close(self): pass

register_kind(SourceKind("toy", ToyTable, "beats"))
register("toy", lambda setup: Toy())

from nftop.cli.compose.hosts import open_host
from nftop.cli.main import run
from nftop.export.openmetrics.page import Tally, page
from nftop.export.openmetrics.writer import TextFormat
from nftop.render.frame.header import ViewStatus, header_lines

here, samples = open_host(), []
feed = here.feed(interval_s=0.1, on_sample=samples.append)
frames = feed.frames()
frame = next(frames)
feed.stop()
frames.close()
out = {
    "order": list(frame.sources),
    "value": samples[0].readings["toy"].value.beats > 0,
    "screen": str(header_lines(frame, ViewStatus(), 200)),
    "openmetrics": [row for row in page(frame, Tally(), TextFormat.OPENMETRICS).splitlines()
                    if 'source="toy"' in row],
}
print(json.dumps(out), flush=True)
run(["-n", "1", "--json"])
run(["record", "-o", sys.argv[1], "-d", "0.1", "--duration", "1"])
run(["replay", sys.argv[1], "-n", "2", "--json"])
"""


def test_a_registered_source_is_in_every_output(tmp_path: Path) -> None:
    done = python(TOY, str(tmp_path / "toy.nftop"))
    assert done.returncode == 0, done.stderr
    rows = [json.loads(row) for row in done.stdout.splitlines() if row.startswith("{")]
    shown, live, *replayed = rows
    assert "toy" in shown["order"]
    assert shown["value"] and "toy" in shown["screen"] and len(shown["openmetrics"]) > 0
    assert replayed
    for frame in (live, *replayed):
        state = frame["sources"]["toy"]
        assert (state["state"], state["detail"]) == ("ok", "half of it")


def test_every_source_has_a_kind_and_every_kind_a_source() -> None:
    assert list(registry._OPENERS) == [kind.id for kind in kinds()]


def test_no_source_is_registered_twice() -> None:
    with pytest.raises(ValueError, match="perf"):
        registry.register("perf", lambda _: None)
