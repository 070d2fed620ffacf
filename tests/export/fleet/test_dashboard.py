"""The dashboard: every panel's query, answered by a Prometheus that scrapes three hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from nftop.export.fleet.dashboard import dashboard
from nftop.export.http.request import Board
from nftop.export.http.server import Serving
from nftop.export.openmetrics import writer
from nftop.model.loopback import Loopback
from tests.export.http.test_real_prometheus import PROMETHEUS, prometheus, query_api, targets_up
from tests.sim.hosts import Frozen, S
from tests.waiting import until

HOSTS = ("e5-2699v4", "gold-6230n", "gold-6252n")
VARIABLES = {"$job": "nftop", "$instance": ".*", "$nf": ".*", "$cpu": ".*"}


def model() -> Any:
    return json.loads(dashboard("nftop"))


def queries(model: Any) -> Iterator[str]:
    """Every expression of a dashboard's panels, with its variables."""
    for panel in model["panels"]:
        yield from queries(panel) if panel.get("panels") else ()
        yield from (target["expr"] for target in panel.get("targets", ()))


def with_positions(panels: list[Any]) -> list[Any]:
    return [
        inner for panel in panels for inner in (panel, *with_positions(panel.get("panels", [])))
    ]


def test_every_metric_of_the_exporter_has_a_panel() -> None:
    exprs = "\n".join(queries(model()))
    for of in (writer.OF_CPUS, writer.OF_NFS, writer.OF_PACKAGES, writer.OF_GROUPS):
        for family in of.values():
            assert re.search(rf"\b{family.sample}{{", exprs), family.sample


def test_a_dashboard_does_not_replace_that_of_another_job() -> None:
    models = [json.loads(dashboard(job)) for job in ("nftop", "edge", "core", 'x"\x1b')]
    for name in ("uid", "title"):
        assert len({item[name] for item in models}) == len(models)
    assert models[0]["uid"] == "nftop"
    # What Grafana takes: at most 40 letters, digits, - and _.
    assert all(re.fullmatch(r"[\w-]{1,40}", item["uid"]) for item in models)


def test_panels_have_ids_and_positions_of_their_own() -> None:
    panels = with_positions(model()["panels"])
    ids = [panel["id"] for panel in panels]
    assert len(set(ids)) == len(ids)
    tops = [panel["gridPos"] for panel in model()["panels"]]
    cells = [
        (x, y)
        for at in tops
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) == 23


@pytest.mark.skipif(not PROMETHEUS, reason="Prometheus is not installed: make prometheus gets it")
def test_every_query_is_answered_or_its_metric_is_counted_as_absent(tmp_path: Path) -> None:
    with ExitStack() as stack:
        targets = []
        for processor in HOSTS:
            host = Frozen(processor=processor, cpus=16)
            board = Board(3600.0)
            board.publish([host.tick(S) for _ in range(3)][-1])
            server = Serving(Loopback("127.0.0.1", 0), board.reply, board.counted)
            server.start()
            stack.callback(server.close)
            targets.append(server.where.shown)
        address = stack.enter_context(prometheus(tmp_path, targets))
        until(lambda: targets_up(address) == len(HOSTS))
        # A rate needs two scrapes.
        until(lambda: bool(query_api(address, "min(count_over_time(up[1h]) > 1)")))
        absent = {item["metric"]["metric"] for item in query_api(address, "nftop_missing")}
        silent = []
        for expr in queries(model()):
            query = expr.replace("$__rate_interval", "1m")
            for name, value in VARIABLES.items():
                query = query.replace(name, value)
            if not query_api(address, query):
                silent.append(re.findall(r"nftop_\w+", expr)[0])
        assert set(silent) <= absent | {"nftop_finding", "nftop_incident_info"}
        assert len(silent) < len(absent)


def test_lost_packets_have_a_unit() -> None:
    units = {
        panel["title"]: panel["fieldConfig"]["defaults"].get("unit")
        for panel in with_positions(model()["panels"])
        if panel["type"] == "timeseries"
    }
    assert units["nf drop packets per second"] == units["nf missed packets per second"] == "pps"
