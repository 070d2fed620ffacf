"""1,000 hosts on the fleet screen; with `make fleet-bench` a real Prometheus that scrapes them.

No number here is a test. Hosts are OpenMetrics texts of the demo's frames at level `nf`, whose
numbers change by up to a percent from scrape to scrape.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import URLError
from urllib.parse import parse_qs, urlsplit

import psutil

from nftop.derive.fleet import FleetState, step
from nftop.export.fleet.queries import fleet_queries
from nftop.export.openmetrics.page import Tally, page
from nftop.export.openmetrics.writer import TextFormat
from nftop.model.fleet import FleetSample
from nftop.render.fleet import (
    FleetStatus,
    fleet_columns,
    fleet_header,
    fleet_lines,
)
from nftop.render.fleet_rows import FleetOrder, fleet_rows
from nftop.sources.prometheus import PrometheusSource, parse_prometheus_url
from tests.bench.report import Reached
from tests.export.http.test_real_prometheus import PROMETHEUS, PROMTOOL, query_api
from tests.fleet import WALL_S, host_frame
from tests.peers.prometheus import prometheus_peer
from tests.ports import free_port

HOSTS = 1000
SICK_EVERY = 50  # a host of so many has a noisy neighbour
SCRAPE_S, SECONDS = 15, 150
SIZE = (120, 36)
_RUNS = 9
_BLOCK_HOSTS, _BLOCK_SCRAPES = 4, 240
_LINE = re.compile(r"(\w+(?:\{.*\})?) ([0-9.e+-]+)")
_CONFIG = """\
global: {{scrape_interval: {every}s}}
scrape_configs:
  - job_name: nftop
    static_configs: [{{targets: {targets}}}]
    relabel_configs:
      - {{source_labels: [__address__], target_label: __param_host}}
      - {{source_labels: [__address__], target_label: instance}}
      - {{target_label: __address__, replacement: "{server}"}}
"""


def name_of(number: int) -> str:
    return f"edge-{number:04}"


def scenario_of(number: int) -> str:
    return "noisy" if number % SICK_EVERY == 0 else "healthy"


def text_of(number: int, form: TextFormat = TextFormat.TEXT) -> str:
    """The page of a host, before its numbers change."""
    frame = host_frame("edge-name", scenario_of(number))
    return page(frame, Tally(), form, "nf").replace("edge-name", name_of(number))


def changed(text: str, chance: random.Random) -> Iterator[str]:
    """Lines of a page with rates that have moved; whole numbers and states stay."""
    for line in text.splitlines():
        hit = _LINE.fullmatch(line)
        if hit is None or "." not in hit[2] or hit[2].endswith(".0"):
            yield line
        else:
            yield f"{hit[1]} {float(hit[2]) * (1 + 0.01 * (chance.random() - 0.5))!r}"


def median_ms(run: Callable[[], object]) -> float:
    times = []
    for _ in range(_RUNS):
        began = time.thread_time()  # other programs have the CPUs, too
        run()
        times.append((time.thread_time() - began) * 1e3)
    return sorted(times)[_RUNS // 2]


def screen_times(sample: FleetSample) -> tuple[float, float, float]:
    """Milliseconds of the fold in the thread, of arranging a frame, and of drawing the screen."""
    state, frame = step(FleetState(), sample)
    fold_ms = median_ms(lambda: step(state, sample))
    order, (width, height) = FleetOrder(), SIZE
    rows = fleet_rows(frame, order)
    columns = fleet_columns(width, rows)
    status = FleetStatus("prometheus:9090", 10.0, frame.monotonic_ns)

    def draw() -> None:
        fleet_header(frame, status, width, 5)
        fleet_lines(rows[: height - 9], columns, frame, status.now_ns)

    arrange_ms = median_ms(lambda: fleet_columns(width, fleet_rows(frame, order)))
    return fold_ms, arrange_ms, median_ms(draw)


def main() -> list[Reached]:
    """Print the times of the screen with 1,000 hosts, without a Prometheus."""
    pages = {f"{name_of(number)}:9739": text_of(number) for number in range(HOSTS)}
    with prometheus_peer(pages) as peer:
        url = parse_prometheus_url(f"http://127.0.0.1:{peer.port}")
        sample = PrometheusSource(url, fleet_queries("nftop"), limit_s=600).read()
    assert isinstance(sample, FleetSample), sample
    return report(sample)


def report(sample: FleetSample) -> list[Reached]:
    rows = len(sample.series["nf"])
    series = sum(map(len, sample.series.values()))
    fold_ms, arrange_ms, draw_ms = screen_times(sample)
    print(
        f"fleet screen, {len(sample.series['up'])} hosts, {rows} rows, {series} series in "
        f"{sample.size_bytes / 1e6:.1f} MB"
    )
    print(f"in the thread: queries {sample.took_s * 1e3:.0f} ms, fold {fold_ms:.0f} ms")
    print(f"on screen: arrange {arrange_ms:.1f} ms a frame, draw {draw_ms:.1f} ms a redraw")
    print()
    return [
        Reached("fleet, 1,000 hosts: arrange a frame, ms", "<= 10", arrange_ms, 10.0),
        Reached("fleet, 1,000 hosts: draw the screen, ms", "<= 5", draw_ms, 5.0),
    ]


# With a real Prometheus


@contextmanager
def exporters() -> Iterator[str]:
    """Address of a server that answers for every host, by the parameter `host`."""
    pages = {name_of(number): text_of(number) for number in range(HOSTS)}
    chance = random.Random(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            """Say nothing."""

        def do_GET(self) -> None:
            (host,) = parse_qs(urlsplit(self.path).query)["host"]
            body = ("\n".join(changed(pages[host], chance)) + "\n").replace(
                repr(WALL_S), f"{time.time():.3f}"
            )
            self.send_response(200)
            self.send_header("Content-Type", TextFormat.TEXT.value)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 1024

        def handle_error(self, request: object, client_address: object) -> None:
            """Prometheus ends before its connections."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def scraping(folder: Path, server: str) -> Iterator[tuple[str, psutil.Process]]:
    """A Prometheus that scrapes all hosts, with its process."""
    address = f"127.0.0.1:{free_port()}"
    targets = json.dumps([name_of(number) for number in range(HOSTS)])
    (folder / "prometheus.yml").write_text(
        _CONFIG.format(every=SCRAPE_S, targets=targets, server=server)
    )
    command = [
        PROMETHEUS or "",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    with subprocess.Popen(command) as process:
        try:
            yield address, psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(60)


def number(address: str, query: str) -> float:
    """The value of a query with one series; NaN if it has none."""
    try:
        return float(query_api(address, query)[0]["value"][1])
    except (URLError, IndexError):
        return float("nan")


def _of_target(line: str, instance: str) -> str:
    """A sample with the label that Prometheus would add."""
    mine = f'instance="{instance}"'
    name, brace, rest = line.partition("{")
    if brace:
        return f"{name}{{{mine},{rest}"
    name, _, value = line.partition(" ")
    return f"{name}{{{mine}}} {value}"


def bytes_a_sample(folder: Path) -> tuple[float, float, int]:
    """Bytes of chunks a sample, with the index, and samples, of an hour of four hosts on disk.

    By `promtool tsdb create-blocks-from openmetrics`.
    """
    chance = random.Random(2)
    families: dict[str, list[str]] = {}
    begin_s = int(time.time()) // 7200 * 7200 - 7200
    for host in range(_BLOCK_HOSTS):
        text = text_of(host, TextFormat.OPENMETRICS)
        for scrape in range(_BLOCK_SCRAPES):
            at = begin_s + scrape * SCRAPE_S
            head = ""
            for line in changed(text, chance):
                if line.startswith("# "):
                    head = line.split(" ")[2]
                    kept = families.setdefault(head, [])
                    kept += [line] if line not in kept[:3] else []
                else:
                    families[head].append(f"{_of_target(line, name_of(host))} {at}")
    source, data = folder / "hour.txt", folder / "blocks"
    source.write_text("\n".join(line for rows in families.values() for line in rows) + "\n# EOF\n")
    subprocess.run(
        [PROMTOOL or "", "tsdb", "create-blocks-from", "openmetrics", source, data],
        check=True,
        capture_output=True,
    )
    samples = chunks = whole = 0
    for meta in data.glob("*/meta.json"):
        samples += json.loads(meta.read_text())["stats"]["numSamples"]
        chunks += sum(path.stat().st_size for path in meta.parent.glob("chunks/*"))
        whole += sum(path.stat().st_size for path in meta.parent.rglob("*") if path.is_file())
    return chunks / samples, whole / samples, samples


def fleet_bench(seconds: float) -> int:
    """Print what 1,000 hosts cost a Prometheus, and the screen that reads it."""
    if not (PROMETHEUS and PROMTOOL):
        print("Prometheus is not installed: make prometheus gets it")
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chunk, whole, samples = bytes_a_sample(folder)
        print(
            f"on disk, of {samples:,} samples of an hour: {chunk:.2f} bytes a sample, "
            f"{whole:.2f} with the index"
        )
        with exporters() as server, scraping(folder, server) as (address, process):
            began = time.monotonic()
            while time.monotonic() - began < seconds:
                time.sleep(1.0)
            busy_s = process.cpu_times().user + process.cpu_times().system
            print(f"Prometheus after {seconds:.0f} s, a scrape every {SCRAPE_S} s:")
            up = number(address, "sum(up)")
            series = number(address, 'count({job="nftop"})')
            memory_mb = process.memory_info().rss / 1e6
            print(f"  {up:,.0f} targets up, {series:,.0f} series, {series / HOSTS:,.0f} of a host")
            print(f"  {memory_mb:,.0f} MB of memory, {busy_s / seconds:.2f} of one CPU")
            source = PrometheusSource(
                parse_prometheus_url(f"http://{address}"), fleet_queries("nftop"), limit_s=60
            )
            readings = [source.read() for _ in range(3)]
            sample = readings[-1]
            assert isinstance(sample, FleetSample), sample
            report(sample)
    return 0


if __name__ == "__main__":
    sys.exit(fleet_bench(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS))
