"""nftop beside a real Open vSwitch, whose own counters are the oracle."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nftop.model.nf.ovs import OvsPmd, OvsSwitch
from nftop.sources.ovs.source import OvsSource
from tests.real.ovs import DPDK, PLAIN, Ovs, dpdk_ovs, dummy_ovs, inject, start_dummy
from tests.real.test_batch import Frame, nftop
from tests.waiting import until

pytestmark = [
    pytest.mark.real,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="Open vSwitch's sockets need root"),
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="a PMD thread needs a CPU of its own"),
]
needs_plain = pytest.mark.skipif(
    not Path(PLAIN).exists(), reason="Open vSwitch (Debian: openvswitch-switch) is missing"
)
needs_dpdk = pytest.mark.skipif(
    not Path(DPDK).exists(), reason="OVS-DPDK (Debian: openvswitch-switch-dpdk) is missing"
)


# As many as no test waits for but one that fails.
TICKS = ("-d", "0.3", "-n", "400")


@pytest.fixture
def source() -> Iterator[OvsSource]:
    # The PMD thread shares this machine's CPUs with everything else, so answers may be late.
    with closing(OvsSource(deadline_s=60)) as opened:
        yield opened


def seen(source: OvsSource, ovs: Ovs) -> OvsSwitch | None:
    return next(
        (switch for switch in source.read().switches if switch.rundir == str(ovs.rundir)), None
    )


def working(source: OvsSource, ovs: Ovs) -> OvsSwitch:
    switch = seen(source, ovs)
    assert switch is not None
    assert switch.problem is None, switch.problem
    return switch


def nf_of(frame: Frame, ovs: Ovs) -> Frame | None:
    """Its one row."""
    rows: list[Frame] = [nf for nf in frame["nfs"] if nf["pid"] == ovs.pid]
    assert len(rows) <= 1, rows
    return rows[0] if rows else None


def reports(frames: Iterator[Frame], ovs: Ovs) -> Iterator[tuple[float, Frame]]:
    """How many packets each frame says came in, where it says so."""
    for frame in frames:
        nf = nf_of(frame, ovs)
        if nf and nf["rx_packets_per_s"] is not None:
            yield nf["rx_packets_per_s"] * nf["interval_s"], frame


def packets_until(readings: Iterator[tuple[float, Frame]], least: int) -> float:
    """Packets of all readings until there are at least so many, and of three more."""
    seen: list[float] = []
    while sum(seen) < least - 0.001:
        reading = next(readings, None)
        # Whether there were no readings at all, or others than expected, tells causes apart.
        assert reading is not None, (
            f"{sum(seen)} in {len(seen)} readings: {seen[:5]} ... {seen[-5:]}"
        )
        seen.append(reading[0])
    return sum(seen) + sum(next(readings)[0] for _ in range(3))


@needs_plain
def test_every_packet_put_in_is_in_one_frame_and_in_no_other() -> None:
    with dummy_ovs() as ovs:
        counts_exactly(ovs)


def counts_exactly(ovs: Ovs) -> None:
    """That the packets of all readings are those put in, with dummy devices."""
    with nftop(*TICKS) as frames:
        readings = reports(frames, ovs)
        packets, frame = next(readings)
        assert packets == 0
        is_one_nf(frame, ovs)
        total, hit = 0, 0.0
        for more in (1, 60, 7):
            inject(ovs, more)
            total += more
            while hit < total - 0.001:
                hit += next(readings)[0]
            assert hit == pytest.approx(total, abs=0.001)
        hit += packets_until(readings, 0)
        assert hit == pytest.approx(total, abs=0.001)
        assert ovs.counts()["Rx packets"] == total


MAX_BATCH = 32  # packets; NETDEV_MAX_BURST of Open vSwitch
LABELS = {"emc": "emc hits", "smc": "smc hits", "megaflow": "megaflow hits",
          "simple": "simple match hits", "phwol": "phwol hits"}  # fmt: skip


@needs_plain
def test_hits_and_upcalls_are_those_of_pmd_stats_show_to_the_packet() -> None:
    with dummy_ovs() as ovs, nftop(*TICKS) as frames:
        readings = reports(frames, ovs)
        next(readings)
        before, packets = ovs.counts(), 0.0
        counted = dict.fromkeys((*LABELS, "upcalls"), 0.0)
        inject(ovs, 90)
        # A batch counts as received before it is looked up, which a reading may lie between.
        while min(packets, sum(counted.values())) < 89.999:
            received, frame = next(readings)
            nf = nf_of(frame, ovs)
            assert nf is not None
            packets += received
            for name in LABELS:
                counted[name] += nf["ovs"][f"{name}_hits_per_s"] * nf["interval_s"]
            counted["upcalls"] += nf["ovs"]["upcalls_per_s"] * nf["interval_s"]
            (tables,) = nf["flow_tables"]
            assert tables["cpu"] == 1 and tables["upcalls_per_s"] == nf["ovs"]["upcalls_per_s"]
        assert packets == pytest.approx(90, abs=0.001)
        after = ovs.counts()
        own = {name: after[label] - before[label] for name, label in LABELS.items()}
        failed = "miss with failed upcall"
        own["upcalls"] = sum(
            after[label] - before[label] for label in ("miss with success upcall", failed)
        )
        assert sum(own.values()) == 90
        assert counted == pytest.approx(own, abs=0.001)


def read_paths_up(pmd: OvsPmd) -> int:
    """Packets that a flow table had, or none."""
    return sum(pmd.hits.values()) + (pmd.upcalls or 0)


@needs_dpdk
def test_hits_and_lost_upcalls_of_ovs_dpdk_are_those_of_its_own_tools(source: OvsSource) -> None:
    def dropped(ovs: Ovs) -> int:
        hit = re.search(r"datapath_drop_upcall_error .*total: (\d+)", ovs.appctl("coverage/show"))
        return int(hit[1]) if hit else 0

    with dpdk_ovs() as ovs:
        until(lambda: "Tx batches" in ovs.counts())  # before the first one it has no line
        before, switch, after = ovs.counts(), working(source, ovs), ovs.counts()
        (pmd,) = switch.pmds
        for name, label in LABELS.items():
            assert before[label] <= pmd.hits[name] <= after[label]
        assert before["Tx batches"] <= (pmd.tx_batches or 0) <= after["Tx batches"]
        # The thread counts a batch as received before it looks the packets up, and goes on while a
        # command reads one number after the other.
        least, most = before["packets received"] - MAX_BATCH, after["packets received"]
        assert least <= read_paths_up(pmd) <= most
        print(f"{pmd.hits}, upcalls {pmd.upcalls}, lost {pmd.lost_upcalls}, {dropped(ovs)}")
        # A thread adds what it counted to coverage/show about once a second.
        until(lambda: dropped(ovs) == working(source, ovs).pmds[0].lost_upcalls)


def is_one_nf(frame: Frame, ovs: Ovs) -> None:
    """That it has one row, with the core and the thread that OVS names."""
    nf = nf_of(frame, ovs)
    assert nf is not None
    assert (nf["kind"], nf["cpus"]) == ("ovs", [1])
    assert nf["name"] == f"{ovs.rundir.name}/ovs-vswitchd"
    row = frame["cpus"][1]
    assert row["thread"].startswith("pmd-c01/id:") and row["nf"] == nf["name"]
    assert frame["sources"]["ovs"]["state"] == "ok"


@needs_plain
def test_counters_are_between_those_that_ovs_shows_before_and_after(source: OvsSource) -> None:
    names = {
        "rx_packets": "packets received",
        "busy_cycles": "processing cycles",
        "tx_packets": "Tx packets",
        "sleep_us": "Sleep time (us)",
    }

    def bracketed(ovs: Ovs) -> OvsPmd:
        before, switch, after = ovs.counts(), working(source, ovs), ovs.counts()
        (pmd,) = switch.pmds
        for ours, theirs in names.items():
            assert before[theirs] <= getattr(pmd, ours) <= after[theirs]
        used = [item["idle cycles"] + item["processing cycles"] for item in (before, after)]
        assert used[0] <= (pmd.used_cycles or 0) <= used[1]
        return pmd

    with dummy_ovs() as ovs:
        assert bracketed(ovs).rx_packets == 0
        for packets in (5, 40):
            inject(ovs, packets)
            bracketed(ovs)
        until(lambda: working(source, ovs).pmds[0].rx_packets == 45)
        until(lambda: read_paths_up(working(source, ovs).pmds[0]) == 45)
        pmd = bracketed(ovs)
        assert (pmd.rx_packets, read_paths_up(pmd)) == (45, 45)
        assert {queue.port for queue in pmd.queues} == {"p1", "p2"}
        ovs.appctl("dpif-netdev/pmd-stats-clear")
        until(lambda: working(source, ovs).pmds[0].rx_packets == 0)  # its thread does it
        # Nothing was asked that it does not know, and nothing was left half read.
        assert "unixctl" not in ovs.log() and "jsonrpc" not in ovs.log()


@needs_plain
def test_stopped_it_is_stale_killed_it_is_gone_and_restarted_it_is_another() -> None:
    with dummy_ovs() as ovs, nftop(*TICKS) as frames:
        next(reports(frames, ovs))
        with ovs.stopped():
            late = next(f for f in frames if (nf := nf_of(f, ovs)) and nf["problem"])
            nf = nf_of(late, ovs)
            assert nf is not None and nf["missing"]["rx_packets_per_s"] == "stale"
            assert "ovs" in late["sources"]
        inject(ovs, 12)
        # It goes on counting: what came is in the readings after, once.
        assert packets_until(reports(frames, ovs), 12) == pytest.approx(12, abs=0.001)

        old = ovs.pid
        ovs.kill()
        next(frame for frame in frames if not nf_of(frame, ovs))
        start_dummy(ovs)
        assert ovs.pid != old
        packets, frame = next(reports(frames, ovs))
        assert packets == 0  # and not what the former had counted, nor less
        assert all(nf["pid"] != old for nf in frame["nfs"])


@needs_plain
def test_cleared_statistics_are_a_reset_and_no_rate() -> None:
    with dummy_ovs() as ovs, nftop(*TICKS) as frames:
        readings = reports(frames, ovs)
        next(readings)
        inject(ovs, 20)
        assert packets_until(readings, 20) == pytest.approx(20, abs=0.001)
        ovs.appctl("dpif-netdev/pmd-stats-clear")
        # The PMD thread clears them when it next has its CPU, and nftop reads them at its own pace.
        rows = []
        for nf in (nf for frame in frames if (nf := nf_of(frame, ovs))):
            rows.append(nf)
            if len(rows) > 3 and rows[-4]["missing"].get("rx_packets_per_s") == "reset":
                break
    assert "reset" in {nf["missing"].get("rx_packets_per_s") for nf in rows}
    assert {nf["rx_packets_per_s"] for nf in rows} <= {None, 0.0}


def in_container() -> list[OvsSwitch]:
    """Those at /tmp/o of another mount namespace; each look is a first one."""
    with closing(OvsSource(deadline_s=60)) as source:
        switches = source.read().switches
    return [
        switch
        for switch in switches
        if switch.rundir.endswith("/root/tmp/o") and not switch.problem
    ]


@needs_plain
@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is missing")
def test_in_a_container_it_is_detected_and_known_by_its_pid_here() -> None:
    """Its file is named after the pid that it has in there."""
    with dummy_ovs() as ovs:
        script = (
            "mount -t proc proc /proc && mkdir -p /tmp/o && mount -t tmpfs none /tmp/o && "
            'export OVS_RUNDIR=/tmp/o && exec "$@"'
        )
        command = [
            "unshare",
            "--mount",
            "--pid",
            "--net",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            script,
            "sh",
            PLAIN,
            f"unix:{ovs.rundir}/db.sock",
            "--enable-dummy=override",
            "--disable-system",
        ]
        ovs.kill()
        outside = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(lambda: in_container() != [])
            (switch,) = in_container()
            name = Path(f"/proc/{switch.pid}/comm").read_text()
        finally:
            outside.kill()
            outside.wait()
    assert re.fullmatch(r"/proc/\d+/root/tmp/o/ovs-vswitchd\.1\.ctl", switch.socket)
    assert (switch.pid > 1, switch.start_ticks > 0, name) == (True, True, "ovs-vswitchd\n")


@needs_plain
def test_a_client_without_permission_is_refused_with_a_reason() -> None:
    with dummy_ovs() as ovs:
        command = [sys.executable, "-m", "nftop", "doctor", "--json"]
        repository = Path(__file__).parents[2]
        done = subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command],
            capture_output=True,
            text=True,
            check=False,
            cwd=repository,
        )
        if not done.stdout:
            pytest.skip(f"nobody can't run nftop here: {done.stderr.strip()[-200:]}")
        checks = json.loads(done.stdout)["checks"]
        ours = [check for check in checks if str(ovs.rundir) in check["text"]]
    assert [(our["name"], our["state"]) for our in ours] == [("ovs", "permission")]
    assert ours[0]["fix"] == "sudo nftop"


@needs_dpdk
def test_packets_and_cycles_per_packet_of_ovs_dpdk_are_those_of_ovs(source: OvsSource) -> None:
    with dpdk_ovs() as ovs:
        measures_alike(ovs)
        assert len(working(source, ovs).pmds) == 1
        ovs.appctl("dpctl/add-dp", "netdev@another")
        assert len(working(source, ovs).pmds) == 1


def measures_alike(ovs: Ovs) -> list[Frame]:
    """That packets and cycles are those OVS counts, with DPDK; its rows, tick by tick."""
    # A frame and what OVS says beside it are some milliseconds apart, more on a busy machine,
    # where the PMD thread has its CPU now and then: the longer, the less that is.
    for ticks in (8, 16, 40, 160):
        with nftop("-n", str(ticks), "-d", "0.5") as frames:
            hit = [(frame, ovs.counts()) for frame in frames]
        try:
            return agrees(hit, ovs)
        except (AssertionError, TypeError):  # a number may be absent, too
            if ticks == 160:
                raise
    raise AssertionError("not reached")


def awake_share(row: Frame) -> float:
    """How much of the time that the thread was ready to run its CPP is of."""
    if not row["cpp_clock"].endswith("_by_run"):
        return 1.0
    return float(row["run_ratio"] / (row["run_ratio"] + row["wait_ratio"]))


def agrees(hit: list[tuple[Frame, dict[str, int]]], ovs: Ovs) -> list[Frame]:
    """That the frames say what OVS' own counters said beside each of them, to a hundredth."""
    spans = [nf for frame, _ in hit[1:] if (nf := nf_of(frame, ovs))]
    assert len(spans) == len(hit) - 1
    packets = sum(nf["rx_packets_per_s"] * nf["interval_s"] for nf in spans)
    sent = sum(nf["tx_packets_per_s"] * nf["interval_s"] for nf in spans)
    received = hit[-1][1]["Rx packets"] - hit[0][1]["Rx packets"]
    print(f"{packets:.0f} packets of {received}")
    assert packets == pytest.approx(received, rel=0.01)
    assert sent == pytest.approx(packets, rel=0.01)
    costs_alike(hit, spans)
    for nf in spans:
        assert (nf["kind"], nf["cpus"]) == ("ovs", [1])
        # Its DPDK telemetry socket, which is the same process, tells of drops.
        assert nf["drop_packets_per_s"] == 0.0
    return spans


def costs_alike(ticks: list[tuple[Frame, dict[str, int]]], spans: list[Frame]) -> None:
    """That a packet costs what OVS counts, over the ticks in which nftop gives it."""
    cycles = packets = 0.0
    used = received = 0
    reasons: Counter[str] = Counter()
    for (_, before), (frame, after), nf in zip(ticks, ticks[1:], spans, strict=False):
        row = frame["cpus"][1]
        if nf["cpp"] is None or row["cpp_clock"] is None:
            reasons[str(nf["missing"].get("cpp"))] += 1
            continue
        came = nf["rx_packets_per_s"] * nf["interval_s"]
        # OVS counts cycles while it waits for its CPU, too; nftop leaves them out.
        cycles += nf["cpp"] / awake_share(row) * came
        packets += came
        used += after["Used TSC cycles"] - before["Used TSC cycles"]
        received += after["Rx packets"] - before["Rx packets"]
    # On a busy machine another thread may have the CPU of a tick.
    assert reasons.total() <= len(spans) / 2, reasons
    print(f"CPP {cycles / packets:.2f}, {used / received:.2f}, without: {dict(reasons)}")
    assert cycles / packets == pytest.approx(used / received, rel=0.01)
