"""Alerts of Prometheus: each fires for its finding alone, by promtool's own tests."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from nftop.derive.findings.registry import all_rules
from nftop.export.fleet.alerts import alert_name, alerts
from nftop.export.openmetrics.page import Tally, page
from nftop.export.openmetrics.writer import TextFormat
from nftop.model.frame import Frame, SourceState
from nftop.model.missing import Reason
from nftop.model.struct import replace
from nftop.sim import scenario
from tests.export.http.test_real_prometheus import PROMTOOL
from tests.export.prometheus import read
from tests.sim.hosts import Frozen, S, span_s
from tests.waiting import LONGEST_S

needs_promtool = pytest.mark.skipif(
    not PROMTOOL, reason="Prometheus is not installed: make prometheus gets it"
)
INTO_S = 12  # seconds after the begin of an event
# Alerts that the event of a scenario raises.
FIRES = {
    "apart": {"NftopSourcesApart"},
    "burst": {"NftopNoisyNeighbour"},
    "channels": {"NftopUnevenChannels"},
    "collapse": {
        "NftopThroughputCollapse", "NftopDrops", "NftopPacketsLost", "NftopSharedCpu",
        "NftopPollerWaits",
    },
    "ddio": {"NftopDdioMisses"},
    "descriptors": {"NftopPartialWrites"},
    "doorbells": {"NftopMmioReads", "NftopMmioWrites"},
    "frontend": {"NftopFrontendBound"},
    "idle": {"NftopTrafficStopped", "NftopEmptyPolls"},
    "lowcore": {"NftopLowPriorityCore"},
    "noisy": {"NftopNoisyNeighbour", "NftopDrops", "NftopPacketsLost", "NftopMmioReads"},
    "remote": {"NftopCrossSocket"},
    "shared": {"NftopSharedCpu", "NftopPollerWaits"},
    "sibling": {"NftopBusySibling"},
    "slow": {"NftopDrops", "NftopPacketsLost", "NftopLowIpc", "NftopNfMemory"},
    "speculation": {"NftopBadSpeculation"},
    "upcalls": {"NftopLostUpcalls", "NftopPacketsLost"},
}  # fmt: skip
OWN = {"NftopDown", "NftopSourceFails", "NftopPacketsLost"}


def samples(frame: Frame) -> set[str]:
    """Series of the frame that alerts read, as `name{labels}`, with its value behind a space."""
    families = read(page(frame, Tally(), TextFormat.TEXT), openmetrics=False)
    result = set()
    for name in (
        "nftop_finding",
        "nftop_incident_info",
        "nftop_incident_severity",
        "nftop_source_up",
        "nftop_source_info",
    ):
        for labels, value in families[name].samples.items() if name in families else ():
            written = ",".join(f"{key}={json.dumps(text)}" for key, text in sorted(labels))
            result.add(f'{name}{{job="nftop",instance="a",{written}}} {value:g}')
    return result


def firing(
    folder: Path,
    *cases: tuple[Iterable[str], set[tuple[str, str]]],
    by: str = "where",
    at: str = "0s",
) -> str:
    """promtool's errors; "" if each case fires exactly its pairs of alert and subject.

    Each case is by itself. `by`: label of the subject. `at`: time of the evaluation;
    values stay.
    """
    assert PROMTOOL
    (folder / "rules.yml").write_text(alerts(all_rules(), "nftop"))
    tests = [
        {
            "interval": "15s",
            "input_series": [
                {"series": name, "values": f"{value}+0x20"}
                for name, _, value in (item.rpartition(" ") for item in series)
            ],
            "promql_expr_test": [
                {
                    "expr": f'count by (alertname, {by}) (ALERTS{{alertstate="firing"}})',
                    "eval_time": at,
                    "exp_samples": [
                        {"labels": f"{{{labels_of(name, where, by)}}}", "value": 1}
                        for name, where in sorted(expected)
                    ],
                }
            ],
        }
        for series, expected in cases
    ]
    # A JSON text is a YAML text.
    (folder / "test.yml").write_text(
        json.dumps({"rule_files": ["rules.yml"], "evaluation_interval": "15s", "tests": tests})
    )
    run = subprocess.run(
        [PROMTOOL, "test", "rules", folder / "test.yml"],
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    return "" if run.returncode == 0 else run.stdout + run.stderr


def labels_of(alert: str, where: str, by: str = "where") -> str:
    return f'alertname="{alert}"' + (f",{by}={json.dumps(where)}" if where else "")


def expected_of(frame: Frame) -> set[tuple[str, str]]:
    mine = {(alert_name(item.rule), item.where) for item in frame.findings if not item.is_muted}
    lost = any(item.severity == 2 and not item.muted for item in frame.incidents)
    return mine | ({("NftopPacketsLost", "")} if lost else set())


def test_every_rule_has_one_alert() -> None:
    text = alerts(all_rules(), "nftop")
    assert set(FIRES) == set(scenario.names()) - {"default", "healthy", "sst-bf"}
    names = [line.split(": ")[1] for line in text.splitlines() if "- alert: " in line]
    assert len(names) == len(set(names))
    assert set(names) == OWN | {alert_name(rule.id) for rule in all_rules()}


def test_alerts_of_the_demo_begin_with_its_badge() -> None:
    summaries = dict(
        re.findall(
            r"alert: (\w+)\n(?: {8}.*\n)*? {10}summary: '(.*)'", alerts(all_rules(), "nftop")
        )
    )
    assert len(summaries) == len(all_rules()) + len(OWN)
    without = {
        name for name, text in summaries.items() if not text.startswith("{{ with $labels.badge }}")
    }
    assert without == {"NftopDown"}, "whose series has no labels of nftop's"


@needs_promtool
def test_promtool_takes_them_whatever_the_job_is_called(tmp_path: Path) -> None:
    assert PROMTOOL
    for job in ("nftop", 'it\'s "quoted" \\ {{ $x }}\n- alert: x', "\x1b[2J"):
        (tmp_path / "rules.yml").write_text(alerts(all_rules(), job))
        subprocess.run(
            [PROMTOOL, "check", "rules", tmp_path / "rules.yml"],
            check=True,
            capture_output=True,
            timeout=LONGEST_S,
        )


def finding_series(rule: str) -> str:
    return f'nftop_finding{{job="nftop",instance="a",rule="{rule}",where="cpu 1"}} 1'


def muted(series: str) -> str:
    return series.replace("}", ',muted="true"}')


@needs_promtool
def test_a_finding_fires_its_alert_and_no_other(tmp_path: Path) -> None:
    series = {rule.id: finding_series(rule.id) for rule in all_rules()}
    fires = [([item], {(alert_name(rule), "cpu 1")}) for rule, item in series.items()]
    silent = [([muted(item)], set[tuple[str, str]]()) for item in series.values()]
    assert firing(tmp_path, *fires, *silent) == ""


@needs_promtool
def test_an_alert_that_is_missing_is_seen_among_others(tmp_path: Path) -> None:
    one, other = ((rule.id, alert_name(rule.id)) for rule in all_rules()[:2])
    good = ([finding_series(one[0])], {(one[1], "cpu 1")})
    wrong = ([muted(finding_series(other[0]))], {(other[1], "cpu 1")})
    assert firing(tmp_path, good) == ""
    assert other[1] in firing(tmp_path, good, wrong, good)


@needs_promtool
@pytest.mark.parametrize("name", sorted(FIRES))
def test_alerts_of_a_scenario_are_its_findings(name: str, tmp_path: Path) -> None:
    host = Frozen(name, traffic=None)
    begins_s, _ = span_s(name)
    host.tick(0)
    host.tick((begins_s - 5) * S)
    frames = [host.tick(S) for _ in range(5 + INTO_S)]
    cases = [(samples(frame), expected_of(frame)) for frame in (frames[4], frames[-1])]
    assert firing(tmp_path, *cases) == ""
    begun = {alert for alert, _ in expected_of(frames[-1]) - expected_of(frames[4])}
    assert begun == FIRES[name]


@needs_promtool
@pytest.mark.parametrize("known", [True, False])
def test_lost_packets_name_host_culprit_and_victims(known: bool, tmp_path: Path) -> None:
    assert PROMTOOL
    (tmp_path / "rules.yml").write_text(alerts(all_rules(), "nftop"))
    own = 'job="nftop",instance="a:1"'
    info = 'id="x",kind="neighbour",culprit="tenant",victims="vpp, ovs"'
    series = [f'nftop_incident_severity{{{own},id="x"}}']
    if known:
        series += [
            f'nftop_host_info{{{own},host="edge-1"}}',
            f"nftop_incident_info{{{own},{info}}}",
        ]
    summary = "edge-1: vpp, ovs loses packets, culprit tenant" if known else "a:1: packets are lost"
    alert = {
        "exp_labels": {"job": "nftop", "instance": "a:1", "id": "x", "severity": "critical"},
        "exp_annotations": {"summary": summary, "description": "Live: `ssh HOST sudo nftop`."},
    }
    tests = {
        "interval": "15s",
        "input_series": [{"series": name, "values": "2x20"} for name in series],
        "alert_rule_test": [
            {"eval_time": "30s", "alertname": "NftopPacketsLost", "exp_alerts": [alert]}
        ],
    }
    (tmp_path / "test.yml").write_text(
        json.dumps({"rule_files": ["rules.yml"], "evaluation_interval": "15s", "tests": [tests]})
    )
    run = subprocess.run(
        [PROMTOOL, "test", "rules", tmp_path / "test.yml"],
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


@needs_promtool
def test_alerts_are_of_one_job(tmp_path: Path) -> None:
    host = Frozen("slow", traffic=None)
    begins_s, _ = span_s("slow")
    host.tick(0)
    host.tick((begins_s - 5) * S)
    frame = [host.tick(S) for _ in range(5 + INTO_S)][-1]
    down = 'up{job="nftop",instance="a"} 0'
    failed = 'nftop_source_up{job="nftop",instance="a",source="dpdk"} 0'
    mine = [*samples(frame), down, failed]
    wanted = expected_of(frame) | {("NftopDown", ""), ("NftopSourceFails", "")}
    assert firing(tmp_path, (mine, wanted), at="2m") == ""
    others = [item.replace('job="nftop"', 'job="test"') for item in mine]
    assert firing(tmp_path, (others, set()), at="2m") == ""


@needs_promtool
def test_a_guest_without_counters_has_no_source_that_fails(tmp_path: Path) -> None:
    """What a virtual machine lacks is no failure; a source that breaks there is one."""
    frame = Frozen(cpus=4, traffic=None).tick(S)
    lacking = {
        "perf": Reason.HARDWARE,
        "uncore": Reason.HARDWARE,
        "resctrl": Reason.HARDWARE,
        "power": Reason.HARDWARE,
        "pcm": Reason.SOURCE,
        "vpp": Reason.SOURCE,
    }
    working = SourceState(Reason.PRESENT, "", 0.0, 0.01)
    states = dict.fromkeys(frame.sources, working) | {
        name: SourceState(reason, "", None, None) for name, reason in lacking.items()
    }
    guest = replace(frame, sources=states, findings=(), incidents=())
    assert firing(tmp_path, (samples(guest), set()), by="source", at="2m") == ""
    for reason in (Reason.ERROR, Reason.PERMISSION, Reason.STALE):
        broken = replace(guest, sources={**states, "dpdk": replace(working, reason=reason)})
        fires = {("NftopSourceFails", "dpdk")}
        assert firing(tmp_path, (samples(broken), fires), by="source", at="2m") == ""
