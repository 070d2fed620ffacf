"""The format as it is written down: readers of it, and recordings of every version."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nftop import store
from nftop.export.json.frame import frame_json
from nftop.model.recording_loss import RecordingLoss
from nftop.model.sample import CounterTable
from nftop.session.replay import Replay
from nftop.store.format.records import Header, Marker
from nftop.store.format.schema import described
from nftop.store.reading.seekpoint import SIZE
from tests.recordings import everything, joined, taken, ticks_of
from tests.store.reading.test_scan import Bytes

FORMAT = (Path(store.__file__).parent / "FORMAT.md").read_text()
DATA = Path(__file__).parent.parent / "data" / "recordings"


def perl() -> str:
    (code,) = re.findall(r"```perl\n(.*?)```", FORMAT, re.DOTALL)
    return str(code)


needs_tools = pytest.mark.skipif(
    not (shutil.which("zstd") and shutil.which("perl")), reason="needs zstd and perl"
)


@needs_tools
def test_the_reader_of_the_format_s_text_counts_ticks(tmp_path: Path) -> None:
    assert len(perl().splitlines()) <= 11  # ten, and how it is called
    whole = taken(30, cpus=2, marks=(3,), frame=10)
    for data, ticks in (
        (whole.data, 30),
        (joined(whole.chunks), 30),  # killed
        (whole.data[: whole.ends[16] + 20], 16),  # cut off within a tick; a marker is among them
        (whole.data + whole.data, 60),
    ):
        file = tmp_path / "a.nftop"
        file.write_bytes(data)
        piped = subprocess.run(["zstd", "-dc", file], capture_output=True, check=False)
        done = subprocess.run(
            ["perl", "-e", perl()], input=piped.stdout, capture_output=True, check=True
        )
        assert done.stdout == f"{ticks}\n".encode(), done.stderr


def test_what_the_format_reports_of_sizes_is_so() -> None:
    assert f"{SIZE} bytes, which decompressors pass over" in FORMAT


@pytest.mark.parametrize("version", ["1"])
def test_every_version_stays_readable(version: str) -> None:
    file = DATA / f"version-{version}.nftop"
    result, ended, rest = everything(file)
    assert (
        ended and rest is None and not [item for item in result if isinstance(item, RecordingLoss)]
    )
    header = result[0]
    assert isinstance(header, Header)
    assert (header.host.name, header.host.simulated, header.uarch) == ("demo", True, "SKX")
    assert len(header.topology.cpus) == 4
    ticks = ticks_of(result)
    assert [tick.number for tick in ticks] == list(range(12))
    assert [item.text for item in result if isinstance(item, Marker)] == ["mark 5"]
    counters = ticks[-1].sample.readings["perf"].value
    assert isinstance(counters, CounterTable)
    # Every payload there was is one this nftop knows.
    assert all(hasattr(r.value, "gaps") for tick in ticks for r in tick.sample.readings.values())
    cycles = counters.values[:, counters.events.index("cycles")]
    assert cycles.tolist() == EXPECTED_CYCLES[version]
    frames = list(Replay(Bytes(file.read_bytes()), paced=False, stays=False, follow=False).frames())
    assert len(frames) == 12
    assert b'"simulated":true' in frame_json(frames[-1])


EXPECTED_CYCLES = {"1": [475200000, 1062579503, 23760000000, 386081552]}


def test_the_header_reports_all_shapes() -> None:
    header = taken(1, cpus=2).header
    assert header.records == described()
