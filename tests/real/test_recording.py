"""A session beside a real testpmd, recorded: what is replayed is what was seen, tick by tick."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from nftop.cli.compose.hosts import open_requested
from nftop.cli.compose.recorders import header_of
from nftop.cli.main import build_parser
from nftop.export.json.frame import frame_json
from nftop.model.frame import Frame
from nftop.session.replay import Replay
from nftop.store.reading.bytes import FileBytes
from nftop.store.recording.recorder import Recorder
from nftop.store.recording.sink import FileSink
from tests.real.testpmd import running_testpmd
from tests.recordings import same

pytestmark = [
    pytest.mark.real,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="testpmd and its telemetry need root"),
    pytest.mark.skipif(
        shutil.which("dpdk-testpmd") is None, reason="dpdk-testpmd (Debian: dpdk-dev) is missing"
    ),
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="testpmd needs a CPU of its own"),
]
_TICKS = 6


@pytest.fixture(autouse=True)
def _affinity() -> Iterator[None]:
    """The feed moves this process off the polling CPU; later tests need both."""
    cpus = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, cpus)


def test_live_frames_and_replayed_frames_are_the_same(tmp_path: Path) -> None:
    file = tmp_path / "testpmd.nftop"
    options = build_parser().parse_args(["-d", "0.5"])
    options.queue_map = {}
    with running_testpmd("nftoprec") as testpmd:
        testpmd.command("start")
        here = open_requested(options)
        recorder = Recorder(header_of(here, options))
        recorder.start(FileSink(file, owner=None))
        feed = here.feed(interval_s=options.interval_s, on_sample=recorder.take)
        seen: list[Frame] = list(islice(feed.frames(), _TICKS))
        feed.stop()
        done = recorder.close()
        testpmd.command("stop")
    assert done is not None and done.ticks >= _TICKS
    assert any("nftoprec" in nf.name and nf.pid == testpmd.pid for nf in seen[-1].nfs)

    handle = os.open(file, os.O_RDONLY)
    replay = Replay(FileBytes(handle), paced=False, stays=False, follow=False)
    again = list(replay.frames())
    for live, replayed in zip(seen, again, strict=False):
        assert same(live, replayed)
        assert frame_json(live) == frame_json(replayed)
