"""Where sockets are looked for, whether a VPP lives, and what becomes of a reading."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from contextlib import ExitStack, chdir, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Missing, Reason
from nftop.model.nf.vpp import VppInterfaces, VppNodes
from nftop.model.sample_bounds import VPP_ROWS
from nftop.sources.nf_session.discovery import SURVEY_NS, SocketFinder, Views
from nftop.sources.vpp import session as liveness
from nftop.sources.vpp.protocol import ErrorReading, NodeReading, VppReading
from nftop.sources.vpp.reader import NOTHING_READ, after, interfaces_of, nodes_of
from nftop.sources.vpp.session import Pulse, Signs, felt, why_still
from nftop.sources.vpp.source import StatsSearch, VppSource
from tests.peers.vpp_segment import NAME, vpp_peer
from tests.sources.dpdk.test_discovery import Host
from tests.sources.vpp.test_reader import REPORTED

# The sockets of one test's VPP are seen by every other's.
pytestmark = pytest.mark.alone

S = 1_000_000_000


def test_every_path_of_a_stats_socket(tmp_path: Path) -> None:
    with ExitStack() as stack:
        host = Host(tmp_path, stack)
        expected = {
            str(host.socket(host.root / "run/vpp", NAME)),
            str(host.socket(host.root / "run/vpp-2", NAME)),
            str(host.socket(host.root / "run/user/1000/vpp", NAME)),
            str(host.socket(host.root / "srv/edge", NAME)),
            str(host.socket(host.root / "srv/vpp", "my-stats.sock")),
        }
        host.socket(host.root / "run/other", NAME)  # nobody says that it listens
        host.socket(host.root / "run/vpp", "cli.sock")
        host.process("20", "mnt:[1]", host.root, "/srv/vpp/api.sock")
        listed = host.proc / "self/net/unix"
        row = "0000000000000000: 00000002 00000000 00010000 0005 01 77 "
        listed.write_text(
            f"{row}/srv/edge/{NAME}\n{row}/srv/vpp/my-stats.sock\n{row}/srv/other/my-stats.sock\n"
            f"{row.replace('0005', '0001')}/srv/stream/{NAME}\n"
        )
        host.socket(host.root / "srv/other", "my-stats.sock")
        container = tmp_path / "container"
        host.socket(container / "run/vpp", NAME)
        host.process("30", "mnt:[2]", container)
        expected.add(f"{host.proc}/30/root/run/vpp/{NAME}")
        result, hidden = SocketFinder(
            StatsSearch({}), host.root, Views(host.root, host.proc)
        ).find()
        assert ({item.path for item in result}, hidden) == (expected, ())


def test_surveys_are_seldom(tmp_path: Path) -> None:
    with ExitStack() as stack:
        host = Host(tmp_path, stack)
        (host.root / "run/vpp").mkdir(parents=True)
        now_ns = 0
        views = Views(host.root, host.proc, lambda: now_ns)
        finder = SocketFinder(StatsSearch({}), host.root, views, lambda: now_ns)
        assert finder.find() == ((), ())
        host.socket(host.root / "run/vpp", NAME)
        host.socket(host.root / "run/vpp2", NAME)
        assert len(finder.find()[0]) == 1  # a known place is looked at every time
        now_ns = SURVEY_NS
        assert len(finder.find()[0]) == 2


@pytest.mark.real
@pytest.mark.skipif(os.geteuid() != 0, reason="another mount namespace needs root")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare (util-linux) is missing")
def test_in_a_container_it_is_known_by_its_pid_on_the_host(tmp_path: Path) -> None:
    with vpp_peer(tmp_path, contained=True) as peer:
        with closing(VppSource(deadline_s=120.0)) as source:
            (vpp,) = (instance for instance in source.read().instances if instance.pid == peer.pid)
        assert vpp.problem is None, vpp.problem
        assert vpp.socket == f"/proc/{peer.pid}/root/run/vpp/{NAME}"


def test_a_process_is_known_by_its_start_and_not_by_its_pid(tmp_path: Path) -> None:
    folder = tmp_path / "7"
    folder.mkdir()

    def stat(name: str, state: str, start: int) -> None:
        rest = " ".join(["0"] * 10 + ["5", "6"] + ["0"] * 6 + [str(start)] + ["0"] * 30)
        (folder / "stat").write_text(f"7 ({name}) {state} {rest}\n")

    stat("vpp_main", "S", 99)
    life = liveness.life_of(7, tmp_path)
    assert life == liveness.Life(99, "vpp_main", 11, stopped=False)
    assert liveness.program(liveness.Life(99, "vpp_main", 11, stopped=False)) == "vpp"
    stat("edge) (main", "T", 99)
    life = liveness.life_of(7, tmp_path)
    assert life is not None
    assert life.stopped and liveness.program(life) == "edge) (main"
    for state in "ZX":
        stat("vpp_main", state, 99)
        assert liveness.life_of(7, tmp_path) is None
    assert liveness.life_of(8, tmp_path) is None
    (folder / "stat").unlink()
    (folder / "stat").mkdir()
    with pytest.raises(IsADirectoryError):
        liveness.life_of(7, tmp_path)


def test_threads_are_known_by_their_names_and_bound_to_one_cpu_or_to_none(tmp_path: Path) -> None:
    names = {
        7: ("vpp_main", "0"),
        8: ("vpp_wk_0", "4"),
        9: ("vpp_wk_11", "6-7"),
        10: ("edge_wk_2", "9"),
        11: ("dpdk-intr", "3"),
        12: ("main", "2"),
    }
    for tid, (name, allowed) in names.items():
        folder = tmp_path / "7/task" / str(tid)
        folder.mkdir(parents=True)
        (folder / "stat").write_text(f"{tid} ({name}) S " + " ".join(["0"] * 49) + "\n")
        (folder / "status").write_text(
            f"State:\tS (sleeping)\nCpus_allowed_list:\t{allowed}\n"
            "voluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t1\n"
        )
    (tmp_path / "7/task/13").mkdir()  # it ends while it is looked at
    assert liveness.cpus(7, tmp_path) == {0: 0, 1: 4, 3: 9}
    assert liveness.cpus(8, tmp_path) == {}


def lived(*signs: Signs, every_s: float = 1.0) -> Pulse:
    pulse = None
    for index, sign in enumerate(signs):
        pulse = felt(pulse, sign, int(index * every_s * S))
    assert pulse is not None
    return pulse


def test_a_vpp_that_updates_seldom_is_not_taken_for_one_that_hangs(
    snapshot: SnapshotAssertion,
) -> None:
    """`update-interval 300` and no packets: what tells is that it uses its CPU."""
    pulse = lived(*(Signs(3, 10, tick) for tick in range(250)))
    assert why_still(pulse, 260 * S) is None
    frozen = why_still(pulse, 249 * S + 31 * S)
    assert isinstance(frozen, Missing) and frozen.reason is Reason.STALE
    assert frozen.message == snapshot


def test_a_hung_main_thread_is_known_by_its_own_pace(snapshot: SnapshotAssertion) -> None:
    beats = [Signs(n // 10, 10, n) for n in range(30)]
    hangs = [Signs(2, 10, n) for n in range(30, 61)]
    assert why_still(lived(*beats, *hangs[:-2]), 58 * S) is None
    still = why_still(lived(*beats, *hangs), 61 * S)
    assert isinstance(still, Missing)
    assert still.message == snapshot
    forwards = [Signs(2, 10 + n, n) for n in range(30, 100)]
    assert why_still(lived(*beats, *forwards), 99 * S) is None


_OF_INTERFACES = (
    "rx_packets", "tx_packets", "rx_misses", "drops", "rx_bytes", "rx_no_buffers", "rx_errors",
    "tx_errors",
)  # fmt: skip


def of_all(names: list[str], rows: list[list[int]]) -> VppReading:
    """Interfaces that have counted the same of everything."""
    counts: dict[str, Any] = dict.fromkeys(_OF_INTERFACES, rows)
    return replace(REPORTED, names=names, **counts)


def test_sub_interfaces_are_left_out() -> None:
    names = ["local0", "eth0", "eth0.100", "eth1.5", "host-a.b", "eth0.x", "eth1.5.7"]
    rows = [[1, 2, 3, 4, 5, 6, 7]]
    reported = of_all(names, rows)
    result = interfaces_of(reported)
    assert result.names == ("local0", "eth0", "eth1.5", "host-a.b", "eth0.x")
    for field in _OF_INTERFACES:
        assert getattr(result, field).tolist() == [[1, 2, 4, 5, 6]]


@pytest.mark.parametrize("kind", ["interfaces", "nodes"])
def test_no_more_rows_are_read_than_a_recording_holds(kind: str) -> None:
    most = VPP_ROWS
    for count in (most, most + 1):
        names, row = [f"x{index}" for index in range(count)], [[1] * count]
        if kind == "nodes":
            nodes = NodeReading(names, row, row, row)
            read: Callable[[], VppInterfaces | VppNodes] = partial(nodes_of, nodes, 1)
        else:
            reported = of_all(names, row)
            read = partial(interfaces_of, reported)
        if count == most:
            assert len(read().names) == most
        else:
            with pytest.raises(ValueError, match=str(most)):
                read()


def test_components_that_do_not_fit_are_no_reading() -> None:
    assert REPORTED.nodes is not None and isinstance(REPORTED.errors, ErrorReading)
    broken: tuple[dict[str, Any], ...] = (
        {"names": ["eth0", "eth1"]},
        {"rx_packets": [[1], [2], [3]]},
        {"drops": [[1], [2, 3]]},
        {"drops": [[1], [-1]]},
        {"drops": [[1], [2**64]]},
        {"rx_bytes": [[1]]},
        {"errors": replace(REPORTED.errors, names=["a", "b"])},
        {"nodes": replace(REPORTED.nodes, clocks=[[1]])},
        {"nodes": replace(REPORTED.nodes, names=["a", "b"])},
    )
    for changes in broken:
        with pytest.raises(ValueError, match=r"names|range|inhomogeneous|bounds"):
            after(NOTHING_READ, replace(REPORTED, **changes))


def test_nodes_are_kept_until_vpp_refreshes_them() -> None:
    first = after(NOTHING_READ, REPORTED)
    same = after(first, replace(REPORTED, nodes=None))
    assert same.nodes is first.nodes and same.heartbeat == 7
    assert after(same, replace(REPORTED, nodes=None, counts_nodes=False)).nodes is None


def test_a_program_that_is_no_vpp_gets_no_process(tmp_path: Path) -> None:
    """It listens on such a socket and says something else."""
    (tmp_path / "run/vpp").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        with chdir(tmp_path / "run/vpp"):
            stream.bind(NAME)
        stream.listen()
        with closing(VppSource(tmp_path)) as source:
            assert source.read().instances == ()
            assert "left over" in source.check()[1].text
