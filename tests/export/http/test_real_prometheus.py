"""What Prometheus itself makes of nftop's pages: Debian's package, which `make prometheus` gets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from nftop.export.http.request import Board
from nftop.export.http.server import Serving
from nftop.export.openmetrics.page import Tally, ending, page
from nftop.export.openmetrics.writer import TextFormat
from nftop.model.frame import CounterCost, Frame
from nftop.model.loopback import Loopback
from tests import frames
from tests.ports import free_port
from tests.sim.hosts import Frozen, S
from tests.waiting import LONGEST_S, until

_PATH = os.pathsep.join([os.environ.get("NFTOP_PROMETHEUS", ""), os.environ.get("PATH", "")])
PROMETHEUS, PROMTOOL = (shutil.which(name, path=_PATH) for name in ("prometheus", "promtool"))
pytestmark = pytest.mark.skipif(
    not (PROMETHEUS and PROMTOOL), reason="Prometheus is not installed: make prometheus gets it"
)
CONFIG = """\
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: nftop
    static_configs: [{{targets: {targets}}}]
"""


def simulated() -> Frame:
    host = Frozen(cpus=16)
    frame = [host.tick(S) for _ in range(3)][-1]
    cost = {"perf": CounterCost(88.0, 176.0)}
    return replace(frame, own=replace(frame.own, counters_by_source=cost))


@pytest.mark.parametrize("make", [simulated, frames.hostile, frames.all_missing])
def test_promtool_reports_nothing(make: Any) -> None:
    assert PROMTOOL
    frame = make()
    text = page(frame, Tally().after(frame, cpu_s=1.0), TextFormat.TEXT) + ending(
        {200: 1}, TextFormat.TEXT
    )
    checked = subprocess.run(
        [PROMTOOL, "check", "metrics"],
        input=text,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


@contextmanager
def prometheus(folder: Path, targets: Sequence[str]) -> Iterator[str]:
    """The address of a Prometheus that scrapes these targets each second."""
    assert PROMETHEUS
    address = f"127.0.0.1:{free_port()}"
    (folder / "prometheus.yml").write_text(CONFIG.format(targets=json.dumps(targets)))
    command = [
        PROMETHEUS,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            yield address
        finally:
            process.terminate()
            process.wait(LONGEST_S)
    assert "level=error" not in (folder / "log").read_text()


def reports(address: str, path: str, **parameters: str) -> Any:
    with urlopen(
        f"http://{address}/api/v1/{path}?{urlencode(parameters)}", timeout=LONGEST_S
    ) as got:
        return json.load(got)["data"]


def query_api(address: str, query: str) -> list[Any]:
    """Series of an instant query."""
    return list(reports(address, "query", query=query)["result"])


def targets_up(address: str) -> int:
    """How many targets answered their last scrape."""
    try:
        return sum(int(item["value"][1]) for item in query_api(address, "up"))
    except URLError:  # it has not begun to listen
        return 0


def test_prometheus_scrapes_and_answers(tmp_path: Path) -> None:
    frame = simulated()
    board = Board(3600.0)
    board.publish(frame)
    server = Serving(Loopback("127.0.0.1", 0), board.reply, board.counted)
    server.start()
    try:
        with prometheus(tmp_path, [server.where.shown]) as address:
            until(lambda: targets_up(address) == 1)
            _check_answers(frame, address)
    finally:
        server.close()


def _check_answers(frame: Frame, address: str) -> None:
    def query(text: str) -> dict[str, float]:
        return {
            item["metric"].get("nf", ""): float(item["value"][1])
            for item in query_api(address, text)
        }

    per_nf = query('nftop_nf_cycles_per_packet{badge="SIMULATED"}')
    assert per_nf == {nf.name: nf.readings["cpp"] for nf in frame.nfs}
    joined = query(
        "count by (nf) (nftop_cpu_packets_per_second"
        " * on (cpu) group_left (thread) nftop_cpu_info{cpp_clock='core'})"
    )
    assert joined == {nf.name: len(nf.cpus) for nf in frame.nfs}
    # Only OpenMetrics has units, so this is how it was read.
    family = "nftop_package_power_watts"
    (power,) = reports(address, "metadata", metric=family)[family]
    assert (power["type"], power["unit"]) == ("gauge", "watts")
    assert power["help"].startswith("SIMULATED: ")
    (target,) = reports(address, "targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
