"""The source and a real testpmd, whose own statistics are the oracle."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from nftop.model.missing import Missing, Reason
from nftop.model.sample import DpdkApp, DpdkLatency
from nftop.sources.dpdk.source import DpdkSource
from tests.real.testpmd import Testpmd, running_testpmd, wait_until

pytestmark = [
    pytest.mark.real,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="testpmd needs root"),
    pytest.mark.skipif(
        shutil.which("dpdk-testpmd") is None, reason="dpdk-testpmd (Debian: dpdk-dev) is missing"
    ),
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="testpmd needs a CPU of its own"),
]

PREFIX = f"nftop-test-{os.getpid()}"


@pytest.fixture
def source() -> Iterator[DpdkSource]:
    # The polling core shares this machine's CPUs with everything else, so answers may be late.
    with closing(DpdkSource(deadline_s=60)) as opened:
        yield opened


def seen(source: DpdkSource) -> DpdkApp | None:
    return next((app for app in source.read().apps if app.prefix == PREFIX), None)


def working(source: DpdkSource) -> DpdkApp:
    app = seen(source)
    assert app is not None
    assert app.problem is None, app.problem
    return app


def test_counters_are_testpmds_own(source: DpdkSource) -> None:
    with running_testpmd(PREFIX) as testpmd:
        idle = working(source)  # started, without traffic yet
        assert idle.pid == testpmd.pid
        assert idle.name == "dpdk-testpmd"
        assert idle.version.startswith("DPDK ")
        assert idle.app_params[-1] == "--nb-cores=1"
        assert [port.name for port in idle.ports] == ["net_null0", "net_null1"]
        assert idle.ports[0].rx_packets == 0

        testpmd.command("start")
        first = working(source)
        time.sleep(0.5)
        second = working(source)
        assert second.read_at_ns > first.read_at_ns
        assert (second.ports[0].rx_packets or 0) > (first.ports[0].rx_packets or 0)

        testpmd.command("stop")
        received, sent = shown(testpmd, "0", "RX"), shown(testpmd, "1", "TX")
        assert received > 0
        assert sent > 0
        end = working(source)
        assert (end.ports[0].rx_packets, end.ports[1].tx_packets) == (received, sent)
        assert end.ports[0].rx_queue_packets == (received,)
        assert (end.ports[0].tx_packets, end.ports[1].rx_packets) == (0, 0)

        testpmd.command("clear port stats all")
        assert working(source).ports[0].rx_packets == 0
        source.close()
        assert "TELEMETRY" not in testpmd.output()  # nothing was asked that it does not know


def test_all_counters_are_testpmds_own(source: DpdkSource) -> None:
    with running_testpmd(PREFIX) as testpmd:
        testpmd.command("start")
        wait_until(lambda: bool(working(source).ports[0].rx_packets), 60, "no packets")
        testpmd.command("stop")
        assert working(source).ports[0].xstats == {}, "only while they are on screen"
        source.everything(wanted=True)
        app = working(source)
        for port in app.ports:
            printed = testpmd.command(f"show port xstats {port.port}")
            own = {name: int(n) for name, n in _XSTAT.findall(printed)}
            assert own == port.xstats
            assert port.rx_errors == own["rx_errors"] == 0
            assert port.tx_errors == own["tx_errors"]
            assert port.rx_nombuf == own["rx_mbuf_allocation_errors"]
        assert "TELEMETRY" not in testpmd.output()


def test_latencies_are_latencystats_own_and_seldom_read() -> None:
    skipped_ns = 0
    with (
        running_testpmd(PREFIX, extra_app=["--latencystats=1"]) as testpmd,
        closing(
            DpdkSource(deadline_s=60, clock=lambda: time.monotonic_ns() + skipped_ns)
        ) as source,
    ):
        testpmd.command("start")
        wait_until(lambda: bool(working(source).ports[0].rx_packets), 60, "no packets")
        testpmd.command("stop")  # and nothing is timed any more
        # Only with no request under way: at a skip that one would be given up, which testpmd notes.
        wait_until(lambda: not _is_under_way(source), 60, "no answer")
        for pause_s in (60, 120):
            skipped_ns += pause_s * 1_000_000_000
            _wait_for_answer(source, time.monotonic_ns() + skipped_ns)
        first = working(source).latency
        assert isinstance(first, DpdkLatency)
        assert 0 < first.least_ns <= first.mean_ns <= first.most_ns
        skipped_ns += 30_000_000_000
        assert working(source).latency == first
        assert "TELEMETRY" not in testpmd.output()
        assert "rror" not in testpmd.output()
        # At last, since testpmd may note an error of a client that goes.
        own = _legacy(testpmd)
        assert [first.mean_ns, first.least_ns, first.most_ns, first.jitter_ns] == [
            own[name]
            for name in ("avg_latency_ns", "min_latency_ns", "max_latency_ns", "jitter_ns")
        ]


def _is_under_way(source: DpdkSource) -> bool:
    latency = working(source).latency
    return isinstance(latency, Missing) and latency.reason is Reason.WARMING


def _wait_for_answer(source: DpdkSource, since_ns: int) -> None:
    wait_until(lambda: _read_at_ns(source) >= since_ns, 60, "not asked again")


def _read_at_ns(source: DpdkSource) -> int:
    latency = working(source).latency
    return latency.read_at_ns if isinstance(latency, DpdkLatency) else 0


def _legacy(testpmd: Testpmd) -> dict[str, int]:
    """The application's global metrics, as a client reads them that has registered."""
    path = testpmd.socket.parent / "client"
    register = {"action": 1, "command": "clients", "data": {"client_path": str(path)}}
    ask = {"action": 0, "command": "global_stat_values", "data": None}
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sender,
    ):
        listener.settimeout(60)
        listener.bind(str(path))
        listener.listen(1)
        sender.connect(str(testpmd.socket.parent / "telemetry"))
        sender.send(json.dumps(register).encode())
        with listener.accept()[0] as client:
            client.settimeout(60)
            client.send(json.dumps(ask).encode())
            (of_all,) = json.loads(client.recv(200_000))["data"]
            return {item["name"]: item["value"] for item in of_all["stats"]}


_XSTAT = re.compile(r"^(\w+): (\d+)\r?$", re.MULTILINE)


def test_killed_it_is_gone_and_restarted_it_is_another(source: DpdkSource) -> None:
    with running_testpmd(PREFIX) as testpmd:
        testpmd.command("start")
        old = working(source)
        testpmd.kill()
        assert seen(source) is None
        assert testpmd.socket.exists()
        assert f"{testpmd.socket} is left over" in "\n".join(c.text for c in source.check())
        with running_testpmd(PREFIX) as again:
            new = working(source)
            assert new.pid == again.pid
            assert (new.pid, new.start_ticks) != (old.pid, old.start_ticks)
            assert new.ports[0].rx_packets == 0


def test_in_a_container_it_is_detected_and_known_by_its_pid_here(source: DpdkSource) -> None:
    script = 'mount -t tmpfs none /run && exec dpdk-testpmd "$@"'
    container = ["unshare", "--mount", "--net", "sh", "-c", script, "sh"]
    with running_testpmd(PREFIX, binary=container) as testpmd:
        assert not testpmd.socket.exists()  # not in our own mount namespace
        app = working(source)
        assert (app.pid, app.name) == (testpmd.pid, "dpdk-testpmd")
        assert app.socket == f"/proc/{testpmd.pid}/root{testpmd.socket}"


def test_the_eleventh_client(source: DpdkSource) -> None:
    with running_testpmd(PREFIX) as testpmd, ExitStack() as clients:
        for _ in range(10):
            connect(testpmd, clients)
        app = seen(source)
        assert app is not None
        assert app.pid == testpmd.pid
        assert app.problem is not None
        assert app.problem.reason is Reason.TAKEN
        clients.close()
        wait_until(lambda: problem(source) is None, 60, "a place became free and was not taken")


def test_a_stopped_application_is_not_disturbed(source: DpdkSource) -> None:
    with running_testpmd(PREFIX) as testpmd, closing(DpdkSource(deadline_s=0.2)) as hasty:
        testpmd.command("start")
        wait_until(lambda: problem(hasty) is None, 60, "no first reading")
        with testpmd.stopped():
            for _ in range(5):
                assert problem(hasty) is Reason.STALE
        wait_until(lambda: problem(hasty) is None, 60, "it did not come back")
        # Had the connection been closed in the meantime, testpmd would say so.
        assert "Error writing to socket" not in testpmd.output()
        assert testpmd.alive()


def shown(testpmd: Testpmd, port: str, direction: str) -> int:
    """A counter as testpmd shows it."""
    text = testpmd.command(f"show port stats {port}")
    result = re.search(rf"{direction}-packets: (\d+)", text)
    assert result, text
    return int(result[1])


def connect(testpmd: Testpmd, stack: ExitStack) -> None:
    client = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    client.connect(str(testpmd.socket))
    assert client.recv(4096)


def problem(source: DpdkSource) -> Reason | None:
    app = seen(source)
    assert app is not None
    return app.problem.reason if app.problem else None
