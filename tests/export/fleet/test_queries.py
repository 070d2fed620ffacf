"""Queries: the job's name is one PromQL text, whatever it is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from urllib.parse import parse_qs, urlencode

import pytest

from nftop.export.fleet.queries import fleet_queries, selector
from tests.export.http.test_real_prometheus import PROMTOOL
from tests.waiting import LONGEST_S


@pytest.mark.parametrize("job", ["nftop", 'a"b', "a\\", "\u00e4", "\U0001f600", "a\nb", "\x1b"])
def test_a_job_is_one_text(job: str) -> None:
    text = selector("up", job, 'nf="vpp"')
    quoted = text.removeprefix("up{job=").removesuffix(',nf="vpp"}')
    assert json.loads(quoted) == job
    # Go's texts have no escapes of halves of a character.
    assert "\\ud" not in text
    assert quoted.isprintable()
    for query in fleet_queries(job):
        assert parse_qs(urlencode({"query": query.text}))["query"] == [query.text]


@pytest.mark.skipif(not PROMTOOL, reason="Prometheus is not installed: make prometheus gets it")
def test_only_series_of_the_newest_scrape_count(tmp_path: Path) -> None:
    assert PROMTOOL
    # Without a marker that it is stale, a series is in answers for 5 minutes after its last sample.
    series = {
        'up{job="nftop",instance="a"}': "1x20",
        'up{job="nftop",instance="b"}': "1 1 0x18",
        'up{job="nftop",instance="c",env="old"}': "1 1 _x18",
        'up{job="nftop",instance="c",env="new"}': "_ _ 1x18",
        **{
            f'{name}{{job="nftop",instance="{instance}",id="{key}"}}': values
            for name in ("nftop_incident_info", "nftop_incident_severity")
            for instance, key, values in (
                ("a", "open", "2x20"),
                ("a", "ended", "2 2 _x18"),
                ("b", "down", "2 2 _x18"),
            )
        },
        'nftop_nf_cycles_per_packet{job="nftop",instance="c",env="old",nf="vpp"}': "100 100 _x18",
        'nftop_nf_cycles_per_packet{job="nftop",instance="c",env="new",nf="vpp"}': "_ _ 200x18",
    }
    up, _, incidents, *_ = fleet_queries("nftop")
    (cost,) = [item for item in fleet_queries("nftop") if "cpp" in dict(item.keys.values())]
    wanted = {
        up.text: {
            'up{job="nftop",instance="a"}': 1,
            'up{job="nftop",instance="b"}': 0,
            'up{job="nftop",instance="c",env="new"}': 1,
            'nftop_targets{instance="c"}': 2,
        },
        incidents.text: {
            'nftop_incident_info{job="nftop",instance="a",id="open"}': 2,
            'nftop_incident_severity{job="nftop",instance="a",id="open"}': 2,
        },
        cost.text: {
            'nftop_nf_cycles_per_packet{job="nftop",instance="c",env="new",nf="vpp"}': 200,
        },
    }
    tests = {
        "interval": "15s",
        "input_series": [{"series": name, "values": text} for name, text in series.items()],
        "promql_expr_test": [
            {
                "expr": text,
                "eval_time": "61s",
                "exp_samples": [{"labels": name, "value": value} for name, value in rows.items()],
            }
            for text, rows in wanted.items()
        ],
    }
    (tmp_path / "test.yml").write_text(json.dumps({"rule_files": [], "tests": [tests]}))
    run = subprocess.run(
        [PROMTOOL, "test", "rules", tmp_path / "test.yml"],
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
