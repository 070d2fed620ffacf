from __future__ import annotations

import csv
import errno
import io
import json
import os
import unicodedata
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nftop.cli.commands.doctor import report_json
from nftop.derive.fold import FoldState
from nftop.export.batch import run_batch
from nftop.export.csv import HEADER, frame_csv, header_csv
from nftop.export.json.encode import json_bytes, rfc3339
from nftop.export.json.frame import frame_json
from nftop.export.output import OutputError
from nftop.model.check import Check
from nftop.model.frame import BoxTraffic, Finding, Focus, Frame
from nftop.model.ids import Cpu, L3Domain
from nftop.model.metrics.catalogue import CPU_METRICS
from nftop.model.metrics.cpu import SETTING_METRICS
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import L2Mask, Limits, Metered, MonitoringGroup, ResctrlTable
from nftop.model.rule_settings import RuleSettings
from tests.derive.scene import START, forwarding, tick
from tests.frames import about
from tests.rdt import DOMAINS, MIB, frame_of, group, in_cache, table, values
from tests.render.incidents.scenes import incident
from tests.samples import fold
from tests.sim.hosts import Frozen, S
from tests.story import Story

CONTRACT_CPU = {
    "cpu", "core", "package", "l3", "siblings", "thread", "nf", "group", "busy_ratio", "ipc",
    "frequency_hz", "base_frequency_hz", "sst_priority", "cpp", "busy_cpp", "cpp_clock", "ipp",
    "llc_misses_per_packet", "packets_per_s", "rx_packets_per_s", "tma", "coverage", "missing",
}  # fmt: skip
CONTRACT_NF = {
    "name", "kind", "pid", "cpus", "interval_s", "rx_packets_per_s", "tx_packets_per_s",
    "drop_packets_per_s", "cpp", "ipp", "missing",
}  # fmt: skip


@pytest.fixture
def frames() -> list[Frame]:
    return fold(START, tick(1, forwarding(1)), tick(2, forwarding(2)), tick(3, forwarding(3)))


def test_json_has_every_noticed_change_once_where_it_was_first_shown() -> None:
    reported = [json.loads(frame_json(frame)) for frame in Story(changed_at=3).frames(5)]
    assert [len(item["actions"]) for item in reported] == [0, 0, 1, 0, 0]
    cell = {"kind": "schemata", "group": "vpp", "resource": "L3", "domain": 0}
    assert reported[2]["actions"] == [
        {
            "kind": "classes",
            "time": reported[2]["time"],
            "within_s": 1.0,
            "changes": [{**cell, "old": "f0", "new": "3f0"}],
        }
    ]


def test_json_has_the_contracts_names(frames: list[Frame]) -> None:
    text = frame_json(frames[1])
    assert b"\n" not in text
    frame = json.loads(text)
    assert frame["schema"] == "nftop.frame/1"
    assert frame["simulated"] is False
    assert frame["interval_s"] == pytest.approx(1.0)
    assert {"time", "host", "sources", "groups", "packages", "findings", "actions"} <= frame.keys()
    assert frame["actions"] == []
    assert all(row.keys() >= CONTRACT_CPU for row in frame["cpus"])
    assert all(row.keys() >= CONTRACT_NF for row in frame["nfs"])
    assert frame["sources"]["perf"]["state"] == "ok"
    package = frame["packages"][0]
    assert package.keys() >= {"package", "memory", "pcie", "upi", "power_w", "missing"}
    assert package["memory"].keys() >= {"read_bytes_per_s", "write_bytes_per_s", "channels"}
    assert set(package["pcie"]) == {
        "itom",
        "rfo",
        "pcirdcur",
        "itomcachenear",
        "crd",
        "drd",
        "read_bytes_per_s",
        "write_bytes_per_s",
        "ddio_hit_ratio",
    }
    assert package["upi"].keys() >= {"received_bytes_per_s", "sent_bytes_per_s", "links"}
    assert package["memory"]["channels"] is package["upi"]["links"] is None
    assert package["pcie"]["itom"] == {"hit_per_s": None, "miss_per_s": None, "total_per_s": None}
    assert package["missing"]["pcie.itom.hit_per_s"] == "source"


def test_json_has_incidents_open_and_past(frames: list[Frame]) -> None:
    one, ended = incident(), incident(2, until_ns=frames[1].wall_ns, culprit=None, muted=True)
    frame = replace(frames[1], incidents=(one,), past_incidents=(ended,))
    reported = json.loads(frame_json(frame))
    [now], [past] = reported["incidents"], reported["past_incidents"]
    assert (now["id"], now["kind"], now["severity"], now["until"]) == (
        one.id,
        "neighbour",
        "bad",
        None,
    )
    assert now["culprit"] == {
        "kind": "process",
        "name": "qemu-system-x86",
        "key": None,
        "pid": 4242,
        "cpus": [5, 6],
        "class": "tenant",
        "user": "libvirt-qemu",
        "container": "vm gw1",
    }
    assert [item["party"]["name"] for item in now["victims"]] == ["fwd", "vpp"]
    assert now["victims"][0]["change"] == pytest.approx(-0.09)
    assert now["price"]["drop_packets_per_s"] == 7.23e6
    assert now["worst"]["at"] == rfc3339(one.worst_ns) and now["dropped_packets"] == 936e6
    assert [item["step"] for item in now["evidence"]] == ["change", "cause", "effect"]
    assert [item["excluded"] for item in now["ruled_out"]] == [True, None]
    assert (past["culprit"], past["muted"], past["until"]) == (
        None,
        True,
        rfc3339(frames[1].wall_ns),
    )


def test_json_has_findings_as_they_stand(frames: list[Frame]) -> None:
    result = Finding(
        "low-ipc", "core_ipc", about("cpu 1,5"), "IPC 1.45 of the core", 1_767_225_600_250_000_000
    )
    reported = json.loads(frame_json(replace(frames[1], findings=(result,))))["findings"]
    assert reported == [
        {
            "rule": "low-ipc",
            "metric": "core_ipc",
            "where": "cpu 1,5",
            "text": "IPC 1.45 of the core",
            "since": "2026-01-01T00:00:00.250Z",
            "since_is_bound": False,
            "muted": False,
        }
    ]


def test_a_host_with_emulated_cpus_is_marked_in_every_format(frames: list[Frame]) -> None:
    real = frames[1]
    for frame, lab in (
        (real, False),
        (replace(real, host=replace(real.host, model="LAB: virtual Xeon")), True),
    ):
        assert json.loads(frame_json(frame))["host"]["lab"] is lab
        rows = list(csv.DictReader(io.StringIO(header_csv() + frame_csv(frame))))
        assert {row["lab"] for row in rows} == {str(lab)}


def test_json_null_and_missing_are_the_same_set(frames: list[Frame]) -> None:
    named = {"thread", "nf", "nf_pid", "direction", "saturated", "cpp_clock", "attribution"}
    named |= {"problem", "interval_s", "group_of", "baseline", "classes_shared", "owner"}
    for frame in frames:
        whole = json.loads(frame_json(frame))
        for row in (*whole["cpus"], *whole["nfs"], *whole["packages"]):
            null = {key for key, value in _flat(row).items() if value is None} - named
            assert null == row["missing"].keys()


def _flat(row: dict[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in row.items():
        nested = isinstance(value, dict) and key != "missing"
        flat |= _flat(value, f"{before}{key}.") if nested else {before + key: value}
    return flat


def test_json_has_every_channel_and_link_and_why_it_has_no_number(frames: list[Frame]) -> None:
    frame = frames[1]
    why = Missing(Reason.ERROR, "the read failed")
    row = replace(
        frame.packages[0],
        channels=(BoxTraffic(0, 3e9, 1e9), BoxTraffic(4, why, 2e9)),
        links=(BoxTraffic(1, 5e6, 6e6),),
    )
    package = json.loads(frame_json(replace(frame, packages=(row,))))["packages"][0]
    assert package["memory"]["channels"] == {
        "0": {"read_bytes_per_s": 3e9, "write_bytes_per_s": 1e9},
        "4": {"read_bytes_per_s": None, "write_bytes_per_s": 2e9},
    }
    assert package["missing"]["memory.channels.4.read_bytes_per_s"] == "error"
    assert package["upi"]["links"] == {"1": {"received_bytes_per_s": 5e6, "sent_bytes_per_s": 6e6}}


def test_json_values_are_the_frames(frames: list[Frame]) -> None:
    row = json.loads(frame_json(frames[1]))["cpus"][1]
    assert row["thread"] == "rte-worker-1"
    assert row["rx_packets_per_s"] == pytest.approx(10_000_000)
    assert row["cpp"] == pytest.approx(260.0)
    assert row["cpp_clock"] == "tsc"
    assert row["missing"]["ipc"] == "hardware"


def test_json_groups_are_the_contracts() -> None:
    frame = frame_of(table(0), table(4_000_000))
    whole = json.loads(frame_json(frame))
    root, vpp, _ = whole["groups"]
    assert (root["name"], root["clos"], root["cpus"]) == ("/", 0, [0, 4, 5, 6, 7])
    assert vpp == {
        "name": "vpp",
        "clos": 1,
        "rmid": None,
        "cpus": [1, 2],
        "mode": "shareable",
        "owner": "unknown",
        "tasks": 0,
        "l2": {},
        "monitors": [],
        "mba": {"unit": "percent", "l3": {"0": 100, "1": 100}},
        "l3": {
            "0": {
                "cbm": "0f0",
                "capacity_bytes": 16 * MIB,
                "occupancy_bytes": int(15.8 * MIB),
                "mbm_total_bytes_per_s": 8e6,
                "mbm_local_bytes_per_s": 8e6,
            },
            "1": {
                "cbm": "0f0",
                "capacity_bytes": 16 * MIB,
                "occupancy_bytes": 0,
                "mbm_total_bytes_per_s": 0,
                "mbm_local_bytes_per_s": 0,
            },
        },
        "missing": {"rmid": "source"},
    }
    assert [row["group_of"] for row in whole["cpus"][:4]] == ["cpu"] * 4
    assert [row["group"] for row in whole["cpus"][:4]] == ["/", "vpp", "vpp", "ovs"]
    rows = list(csv.DictReader(io.StringIO(header_csv() + frame_csv(frame))))
    assert [row["group"] for row in rows[:4]] == ["/", "vpp", "vpp", "ovs"]


def test_json_of_a_group_names_what_it_lacks() -> None:
    why = Missing(Reason.HARDWARE, "the kernel has no cache allocation here")
    split = in_cache(1, 0x0F0, code=Cbm(0x030, 12))
    lacking = group("x", None, (), in_cache(0, 1, cbm=why, mba=why), split)
    row = json.loads(frame_json(frame_of(table(groups=(lacking,)))))["groups"][0]
    assert row["l3"]["1"]["cbm"] == {"code": "030", "data": "0f0"}
    null = {key for key, value in _flat(row).items() if value is None}
    assert null == row["missing"].keys()
    assert row["missing"]["l3.0.cbm"] == row["missing"]["mba.l3.0"] == "hardware"
    assert row["missing"]["l3.0.mbm_total_bytes_per_s"] == "warming"
    assert row["clos"] is None


def test_json_of_classes_and_monitors() -> None:
    monitor = MonitoringGroup(
        "pqos-12-0", 7, None, (Cpu(1),), (Metered(L3Domain(0), values(MIB, 2, 1)),)
    )
    l2 = (L2Mask(3, Cbm(0xF, 16)), L2Mask(4, Cbm(0xF, 16), Cbm(0xF0, 16)))
    vpp = replace(group("vpp", 1, (1,), in_cache(0, 0xF0)), monitors=(monitor,), l2=l2)
    known = replace(DOMAINS[0], usage="XXSSSSSSSSSS", parts=(0, 1), read_on=Cpu(4))
    blind = replace(DOMAINS[1], io=Missing(Reason.SOURCE, "not told"))
    limits = Limits(closids=16, rmids=176, min_bits=2, sparse=False, cdp=True)
    read = ResctrlTable((vpp,), (known, blind), limits=limits)
    whole = json.loads(frame_json(frame_of(read)))
    assert whole["cache"] == {
        "cdp": True,
        "closids": {"of": 16, "used": 1},
        "rmids": {"of": 176, "used": 2},
        "min_bits": 2,
        "sparse": False,
        "mba_least": None,
        "mba_step": None,
        "io_alloc": None,
        "l3": {
            "0": {
                "ways": 12,
                "size_bytes": 48 * MIB,
                "bit_usage": "XXSSSSSSSSSS",
                "nodes": [0, 1],
                "read_on_cpu": 4,
                "io": {"cbm": "c00", "origin": "cpuid"},
            },
            "1": {
                "ways": 12,
                "size_bytes": 48 * MIB,
                "bit_usage": None,
                "nodes": [],
                "read_on_cpu": None,
                "io": None,
            },
        },
        "missing": dict.fromkeys(
            ["mba_least", "mba_step", "l3.1.bit_usage", "l3.1.read_on_cpu", "l3.1.io"], "source"
        )
        | {"io_alloc": "hardware"},
    }
    [row] = whole["groups"]
    assert row["l2"] == {"3": "000f", "4": {"code": "00f0", "data": "000f"}}
    assert row["monitors"] == [
        {
            "name": "pqos-12-0",
            "cpus": [1],
            "owner": "pqos",
            "rmid": None,
            "l3": {
                "0": {
                    "occupancy_bytes": MIB,
                    "mbm_total_bytes_per_s": None,
                    "mbm_local_bytes_per_s": None,
                }
            },
            "missing": {
                "rmid": "source",
                "l3.0.mbm_total_bytes_per_s": "warming",
                "l3.0.mbm_local_bytes_per_s": "warming",
            },
        }
    ]


def test_json_of_a_host_without_resctrl_has_no_monitors_in_use() -> None:
    whole = json.loads(frame_json(frame_of(Missing(Reason.SOURCE, "not mounted"))))
    assert whole["cache"]["rmids"] == {"of": None, "used": None}
    assert whole["cache"]["closids"] == {"of": None, "used": 0}
    assert whole["cache"]["l3"] == {} and whole["groups"] == []


def test_untrusted_names_are_data_in_json_and_csv(frames: list[Frame]) -> None:
    evil = '[red]x[/] \x1b[2J",\n=cmd'
    table = replace(frames[1].cpus, thread=("=1+1", evil, None, None))
    frame = replace(frames[1], cpus=table, host=replace(frames[1].host, name="@\x1bc\x9bm"))
    text = frame_json(frame).decode()
    assert "\x1b" not in text and "\n" not in text
    assert json.loads(text)["cpus"][1]["thread"] == evil
    rows = list(csv.DictReader(io.StringIO(header_csv() + frame_csv(frame))))
    assert rows[0]["thread"] == "'=1+1"
    assert rows[0]["host"] == "'@?c?m"
    assert "\x1b" not in frame_csv(frame)


@given(st.text(st.characters(codec="utf-8")))
@example("\x7f\x80\x9b31m\u061c\u202e\u2066\u2069\u200f\u2028é\U0001f1e6")
def test_json_is_the_same_text_and_none_that_a_terminal_obeys(text: str) -> None:
    encoded = json_bytes({text: text}).decode()
    assert json.loads(encoded) == {text: text}
    assert not [char for char in encoded if unicodedata.category(char) in ("Cc", "Zl", "Zp")]
    reorders = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert not reorders & {unicodedata.bidirectional(char) for char in encoded}
    assert not set("\u061c\u200e\u200f") & set(encoded)


def test_no_report_of_doctor_obeys_a_name_either() -> None:
    checks = [Check("dpdk \x9b2J", Reason.ERROR, "\u202etext\x7f", "fix\x85")]
    report = report_json(checks, START.host)
    assert report.isascii()
    assert "\x7f" not in report
    assert json.loads(report)["checks"][0]["text"] == "\u202etext\x7f"


def test_csv_has_a_row_per_cpu_and_a_reason_for_every_empty_number(frames: list[Frame]) -> None:
    rows = list(csv.DictReader(io.StringIO(header_csv() + frame_csv(frames[1]))))
    assert [row["cpu"] for row in rows] == ["0", "1", "2", "3"]
    assert float(rows[1]["cpp"]) == pytest.approx(260.0)
    for row in rows:
        reasons = dict(pair.split("=") for pair in row["missing"].split())
        reported = (*CPU_METRICS, *SETTING_METRICS)
        numbers = ("group", *(metric.id for metric in reported))
        empty = {name for name in numbers if row[name] == ""}
        assert empty == reasons.keys()
    assert len(HEADER) == len(set(HEADER))


def test_time_is_utc_with_milliseconds() -> None:
    assert rfc3339(1_790_000_000_250_999_999) == "2026-09-21T14:13:20.250Z"


class Stepped:
    """A feed of given frames."""

    def __init__(self, frames: list[Frame]) -> None:
        self._frames = frames
        self.interval_s = 1.0
        self.stopped = False
        self.taken = 0
        self.focus = Focus()

    def set_interval(self, seconds: float) -> None:
        self.interval_s = seconds

    def set_rules(self, settings: RuleSettings) -> None:
        pass

    def baseline(self, *, keep: bool) -> None:
        raise AssertionError(keep)

    def set_focus(self, focus: Focus) -> None:
        assert not self.taken, "what is looked at is known from the first reading on"
        self.focus = focus

    def stop(self) -> None:
        self.stopped = True

    def frames(self) -> Generator[Frame, None, None]:
        for frame in self._frames:
            self.taken += 1
            yield frame


@pytest.mark.parametrize(("form", "lines"), [("json", 2), ("csv", 1 + 2 * 4)])
def test_batch_primes_then_writes_count_frames(frames: list[Frame], form: str, lines: int) -> None:
    feed, out = Stepped([*frames, *frames]), io.StringIO()
    run_batch(feed, out, form=form, count=2)
    assert len(out.getvalue().splitlines()) == lines
    assert feed.stopped
    assert feed.taken == 3  # one to prime, none beyond the last
    # CSV has no rows of packages.
    assert feed.focus == Focus(traffic=form == "json")


class Failing(Stepped):
    """A feed whose end fails as an output may."""

    def frames(self) -> Generator[Frame, None, None]:
        yield from super().frames()
        raise BrokenPipeError(errno.EPIPE, "a server has gone")


def test_only_what_the_output_reports_is_called_its_fault(frames: list[Frame]) -> None:
    with pytest.raises(BrokenPipeError, match="a server has gone"):
        run_batch(Failing(frames), io.StringIO(), form="json", count=None)
    with Path("/dev/full").open("w") as full, pytest.raises(OutputError) as failure:
        try:
            run_batch(Stepped(frames), full, form="json", count=None)
        finally:
            with Path(os.devnull).open("w") as nowhere:  # it is flushed once more when closed
                os.dup2(nowhere.fileno(), full.fileno())
    assert failure.value.cause.errno == errno.ENOSPC


def test_batch_text_has_the_notice_of_its_frame_and_json_has_not(frames: list[Frame]) -> None:
    notice = "changes: change 1 was cut off: `nftop recover` takes it back"
    reported = [replace(frame, notice=notice) for frame in frames]
    for form, present in (("text", True), ("json", False)):
        out = io.StringIO()
        run_batch(Stepped(reported), out, form=form, count=1)
        assert (f"! {notice}" in out.getvalue()) is present


def test_batch_ends_with_its_feed(frames: list[Frame]) -> None:
    out = io.StringIO()
    run_batch(Stepped(frames), out, form="json", count=None)
    assert len(out.getvalue().splitlines()) == len(frames) - 1
    run_batch(Stepped([]), out, form="json", count=3)


def test_a_state_is_never_changed_by_a_step() -> None:
    before = FoldState(START.host, START.topology)
    fold(before, tick(1, forwarding(1)), tick(2, forwarding(2)))
    assert before == FoldState(START.host, START.topology)


def test_json_has_a_vpp_s_drops_and_every_error() -> None:
    host = Frozen("noisy", cpus=16)
    frame = [host.tick(S) for _ in range(3)][-1]
    shown = json.loads(frame_json(frame))["nfs"]
    (nf,) = (nf for nf in shown if nf["kind"] == "vpp")
    (drop,) = (drop for drop in nf["drops"] if drop["where"] == "ip4-input")
    assert drop["reason"] == "bad_checksum"
    assert drop["packets_per_s"] == nf["error_drops_per_s"] > 0
    errors = {(row["port"], row["name"]): row for row in nf["xstats"]}
    assert errors["ip4-input", "bad_checksum"]["drops"] is True
    echo = errors["ip4-icmp-input", "echo_replies_sent"]
    assert (echo["drops"], echo["missing"]) == (False, {}) and echo["per_s"] > 0
    vectors = errors["ip4-input", "vectors"]
    assert (echo["estimate"], vectors["estimate"]) == (False, True)
    # Every packet passes it, some with an error.
    assert vectors["per_s"] == pytest.approx(nf["rx_packets_per_s"], rel=0.01)
    others = [other for other in shown if other["kind"] != "vpp"]
    assert others and all("error_drops_per_s" in other["missing"] for other in others)
