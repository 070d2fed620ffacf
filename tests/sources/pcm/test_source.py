"""The source against a server that misbehaves, and the session beside it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

import nftop.sources.pcm.source
from nftop.derive.fold import FoldState
from nftop.model.missing import Missing, Reason
from nftop.model.pcm import PcmTable
from nftop.session.live import Live
from nftop.sources.pcm.client import MOST_BYTES, parse_url
from nftop.sources.pcm.source import PcmSource, PcmTopologySource, notes, topology_of
from nftop.sources.runtime.http_client import Address
from tests.peers.pcm_server import PcmPeer, pcm_server
from tests.samples import HOST
from tests.sources.trees import consistent

SHORT_S = 0.25  # a limit that a server which hangs soon meets
LONG_S = 60.0  # one that no test meets


@pytest.fixture
def peer() -> Iterator[PcmPeer]:
    with pcm_server() as running:
        yield running


def source(
    peer: PcmPeer, limit_s: float = LONG_S, root: Path | None = None, step_s: int = 3600
) -> PcmSource:
    """One whose clock goes on by `step_s` each time, so that its pauses are soon over."""
    steps = itertools.count(step=step_s * 1_000_000_000)
    address = Address("127.0.0.1", peer.port)
    return PcmSource(address, root=root, limit_s=limit_s, clock=lambda: next(steps))


def table(reading: PcmTable | Missing) -> PcmTable:
    assert isinstance(reading, PcmTable), reading
    return reading


def why(reading: PcmTable | Missing) -> Missing:
    assert isinstance(reading, Missing)
    return reading


def test_the_servers_own_last_second_is_requested_and_nothing_else(peer: PcmPeer) -> None:
    pcm = source(peer)
    for _ in range(3):
        assert not table(pcm.read()).since_start
    assert peer.requested == ["GET /persecond/1"] * 3


@pytest.mark.parametrize(
    ("behaviour", "requested", "since_start", "averages"),
    [
        ("text_only", ["/persecond/1"] * 3, False, False),
        ("totals_only", ["/persecond/1", "/persecond/1", "/", "/"], True, True),
        (
            "metrics_only",
            ["/persecond/1", "/persecond/1", "/", "/metrics", "/metrics"],
            True,
            False,
        ),
    ],
)
def test_what_is_refused_is_queried_in_another_form_and_only_once(
    peer: PcmPeer, behaviour: str, requested: list[str], since_start: bool, averages: bool
) -> None:
    peer.behaviour = behaviour
    pcm = source(peer, step_s=1)
    first, second = table(pcm.read()), table(pcm.read())
    assert first.since_start is second.since_start is since_start
    assert (first.of_cpu("core_frequency") > 0).all() == averages
    assert peer.requested == [f"GET {path}" for path in requested]


def test_what_was_refused_is_queried_again_after_a_minute(peer: PcmPeer) -> None:
    seconds = [0.0]
    address = Address("127.0.0.1", peer.port)
    pcm = PcmSource(address, limit_s=LONG_S, clock=lambda: int(seconds[0] * 1e9))
    result = {}
    for at in (0, 1, 59, 61, 62, 120, 121, 122):
        peer.behaviour = "totals_only" if at < 62 else "well"
        seconds[0] = at
        before = len(peer.requested)
        since_start = table(pcm.read()).since_start
        result[at] = (since_start, [item.removeprefix("GET ") for item in peer.requested[before:]])
    anew = ["/persecond/1", "/persecond/1", "/"]
    assert result == {
        0: (True, anew),
        1: (True, ["/"]),
        59: (True, ["/"]),
        61: (True, anew),
        62: (True, ["/"]),
        120: (True, ["/"]),
        121: (False, ["/persecond/1"]),
        122: (False, ["/persecond/1"]),
    }


@pytest.mark.parametrize(
    ("behaviour", "reason", "words"),
    [
        ("close", Reason.ERROR, "closed the connection without an answer"),
        ("half", Reason.ERROR, "too early"),
        ("noise", Reason.ERROR, "sent invalid HTTP"),
        ("headers", Reason.ERROR, "sent invalid HTTP"),
        ("html", Reason.ERROR, "no pcm-sensor-server"),
        ("redirect", Reason.ERROR, "HTTP 302"),
        ("http400", Reason.ERROR, "refuses /metrics with HTTP 400"),
        ("http500", Reason.ERROR, "HTTP 500"),
        ("invalid", Reason.ERROR, "not JSON"),
        ("list", Reason.ERROR, "no sockets"),
        ("huge", Reason.ERROR, f"more than {MOST_BYTES >> 20} MiB"),
        ("endless", Reason.ERROR, f"more than {MOST_BYTES >> 20} MiB"),
    ],
)
def test_a_server_that_misbehaves_is_a_reason_and_comes_back(
    peer: PcmPeer, behaviour: str, reason: Reason, words: str
) -> None:
    pcm = source(peer)
    table(pcm.read())
    peer.behaviour = behaviour
    missing = why(pcm.read())
    assert (missing.reason, words in missing.message) == (reason, True), missing
    peer.behaviour = "well"
    assert not table(pcm.read()).since_start


@pytest.mark.parametrize("behaviour", ["slow", "hang", "drip"])
def test_a_server_that_does_not_end_is_left_in_time(peer: PcmPeer, behaviour: str) -> None:
    peer.behaviour = behaviour
    pcm = source(peer, SHORT_S)
    missing = why(pcm.read())
    assert missing.reason is Reason.STALE and "in time" in missing.message
    peer.behaviour = "well"
    peer.released.set()
    table(source(peer).read())


def test_an_absent_server_is_reported(snapshot: SnapshotAssertion) -> None:
    with pcm_server() as peer:
        port = peer.port
    missing = why(PcmSource(Address("127.0.0.1", port)).read())
    assert missing.reason is Reason.SOURCE
    assert missing.message.replace(str(port), "PORT") == snapshot


def test_a_server_that_fails_is_left_alone_for_longer_and_longer(peer: PcmPeer) -> None:
    seconds = [0.0]
    address = Address("127.0.0.1", peer.port)
    pcm = PcmSource(address, limit_s=LONG_S, clock=lambda: int(seconds[0] * 1e9))
    peer.behaviour = "http500"
    when = []
    for tenth in range(400):
        seconds[0] = tenth / 10
        before = len(peer.requested)
        pcm.read()
        if len(peer.requested) > before:
            when.append(seconds[0])
    assert when == [0.0, 1.0, 3.0, 7.0, 15.0, 23.0, 31.0, 39.0]
    peer.behaviour = "well"
    seconds[0] = 47.0
    table(pcm.read())
    peer.behaviour = "http500"
    seconds[0] = 48.0
    why(pcm.read())
    seconds[0] = 49.0
    peer.behaviour = "well"
    table(pcm.read())


def test_a_server_is_not_requested_the_same_second_again(peer: PcmPeer) -> None:
    tenths = itertools.count()
    address = Address("127.0.0.1", peer.port)
    pcm = PcmSource(address, limit_s=LONG_S, clock=lambda: next(tenths) * 100_000_000)
    tables = [table(pcm.read()) for _ in range(20)]
    assert 2 <= len(peer.requested) == len({id(item) for item in tables}) <= 4


@pytest.mark.alone
def test_frames_go_on_while_the_server_hangs_and_one_request_is_under_way(
    peer: PcmPeer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ticks never wait for it longer than their grace; what lateness there was is printed."""
    pcm = source(peer)
    topology = topology_of(table(pcm.read()))
    peer.behaviour = "slow"
    late_s = []
    live = Live(
        (pcm, PcmTopologySource(pcm)),
        FoldState(HOST, topology),
        0.1,
        on_pollers=lambda _pollers, _topology: None,
    )
    frames = live.frames()
    start = time.monotonic()
    for tick, frame in zip(range(15), frames, strict=False):
        late_s.append(time.monotonic() - start - tick * 0.1)
        assert peer.reached.acquire(timeout=60) if tick == 0 else True
        power = frame.packages[0].readings["power_w"]
        warming = isinstance(power, Missing) and power.reason is Reason.WARMING
        assert warming or frame.sources["pcm"].reason in (Reason.WARMING, Reason.STALE)
    assert not peer.released.is_set() and peer.requested == ["GET /persecond/1"] * 2
    with capsys.disabled():
        p99_ms = sorted(late_s)[int(len(late_s) * 0.99)] * 1e3
        print(f"\nsensor server hangs: p99 lateness of a tick {p99_ms:.0f} ms of 100 ms", end=" ")
    peer.behaviour = "well"
    peer.released.set()
    assert any(
        not isinstance(frame.packages[0].readings["power_w"], Missing)
        for frame in itertools.islice(frames, 600)
    )
    live.stop()
    frames.close()


def test_the_topology_is_the_servers(peer: PcmPeer) -> None:
    pcm = source(peer)
    topology_source = PcmTopologySource(pcm)
    assert isinstance(topology_source.read(), Missing)
    topology = topology_of(table(pcm.read()))
    consistent(topology)
    assert (len(topology.packages), topology.core_count, len(topology.cpus)) == (2, 8, 16)
    assert topology.cpus[4].package == 1 and topology.cpus[4].siblings == (12,)
    first = topology_source.read()
    pcm.read()
    assert topology_source.read() is first
    peer.renumbered = True
    pcm.read()
    moved = topology_source.read()
    assert moved is not first and not isinstance(moved, Missing)
    assert moved.cpus[4].package == 0


def processes(root: Path, *names: str) -> Path:
    for pid, name in enumerate(names, start=100):
        folder = root / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "comm").write_text(name + "\n")
    return root


def test_a_server_that_no_process_here_is_may_be_a_tunnels_end(
    peer: PcmPeer, tmp_path: Path
) -> None:
    here = source(peer, root=processes(tmp_path / "a", "bash", "pcm-sensor-serv"))
    assert "tunnel" not in table(here.read()).gaps
    elsewhere = source(peer, root=processes(tmp_path / "b", "bash", "ssh"))
    assert "tunnel ends here" in table(elsewhere.read()).gaps
    assert table(source(peer).read()).gaps == ""


def test_doctor_does_not_call_a_server_of_another_host_ok(
    tmp_path: Path, peer: PcmPeer, snapshot: SnapshotAssertion
) -> None:
    root = processes(tmp_path, "pcm-sensor-serv")
    line = source(peer, root=root).check()[0]
    assert line.reason is Reason.SOURCE
    assert line.text.replace(str(peer.port), "PORT") == snapshot


def test_a_guest_is_not_advised_to_start_a_server(tmp_path: Path) -> None:
    absent = PcmSource(Address("127.0.0.1", 1), root=processes(tmp_path, "bash"))
    assert "pcm-sensor-server" in absent.check()[0].fix
    (tmp_path / "proc/cpuinfo").write_text("flags : fpu hypervisor\n")
    assert [line.fix for line in absent.check()] == [""]


def test_a_server_that_holds_rdt_or_counters_is_reported_with_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = processes(tmp_path, "pcm-sensor-serv", "pcm-memory", "pcmanfm")
    with pcm_server("icx_2026-06_msr") as peer:
        its = topology_of(table(source(peer).read()))
        monkeypatch.setattr(nftop.sources.pcm.source, "read_topology", lambda _: its)
        lines = source(peer, root=root).check()
    assert [line.reason for line in lines] == [Reason.PRESENT] + [Reason.TAKEN] * 3
    assert "16 CPUs" in lines[0].text
    assert "PCM_NO_RDT=1" in lines[1].fix
    assert [line.text.split()[0] for line in lines[2:]] == ["pcm-sensor-serv", "pcm-memory"]
    with pcm_server("skx_2026-06") as peer:
        read = table(source(peer, root=root).read())
    assert (read.of_cpu("l3_cache_occupancy") > 0).all() and "PCM_NO_RDT" in read.gaps


@pytest.mark.parametrize("reported", ["L3 Cache Occupancy", "Local Memory Bandwidth", ""])
def test_one_rdt_number_is_enough_to_detect_its_holder(
    peer: PcmPeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reported: str
) -> None:
    root = processes(tmp_path, "pcm-sensor-serv")
    thread = {"OS ID": 0, "Core Counters": {reported: 1024} if reported else {"SMI Count": 2}}
    socket = {"Socket ID": 0, "Cores": [{"Threads": [thread]}]}
    document = {"Interval us": 1_000_000, "Sockets": [socket]}
    monkeypatch.setattr(peer, "document", lambda _: document)
    read = table(source(peer, root=root).read())
    assert ("PCM_NO_RDT" in read.gaps) == bool(reported)


def test_another_hosts_server_over_the_network_is_reported_as_open() -> None:
    assert parse_url("http://edge-07").shown == "edge-07:9738"
    assert "ssh -L" in notes(parse_url("http://edge-07"), None)[0]
    assert notes(parse_url("http://localhost:1"), None) == ()
    assert notes(parse_url("http://[::1]:1"), None) == ()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:9738", "127.0.0.1:9738"),
        ("127.0.0.1:1", "127.0.0.1:1"),
        ("edge-07", "edge-07:9738"),
        ("http://[::1]:8/", "[::1]:8"),
    ],
)
def test_urls(url: str, shown: str) -> None:
    assert parse_url(url).shown == shown


@pytest.mark.parametrize(
    "url",
    [
        "https://x", "ftp://x", "http://", "", "http://x/path", "http://me:pass@x", "http://x:99999",
        "http://x:port", "http://x?q", "http://x y", "http://\x1b[2J", "http://[::1", "http://é",
        "http://" + "x" * 300,
    ],
)  # fmt: skip
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_url(url)
