"""Peers of four sources that fail in pairs: real processes that are killed, stopped, slow, lie.

A DPDK application, an Open vSwitch, a VPP and a sensor server run; two of them fail, the others
are read on, and all are back when the faults are over. `NFTOP_FAULT_PAIRS=all` plays every pair
(`make faults`), the suite some of them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, get_args

import pytest

from nftop.model.missing import Missing
from nftop.model.pcm import PcmTable
from nftop.session.live import Sampler
from nftop.sources.dpdk.source import DpdkSource
from nftop.sources.ovs.source import OvsSource
from nftop.sources.pcm.source import PcmSource
from nftop.sources.runtime.http_client import Address
from nftop.sources.vpp.source import VppSource
from tests.faults import FAULTS, Fault
from tests.peers.dpdk_telemetry import telemetry_peer
from tests.peers.ovs_unixctl import unixctl_peer
from tests.peers.pcm_server import PcmPeer, pcm_server
from tests.peers.vpp_segment import vpp_peer
from tests.waiting import LONGEST_S

# The sockets of one test's peers are seen by every other's.
pytestmark = pytest.mark.alone

Name = Literal["dpdk", "ovs", "vpp", "pcm"]
NAMES: tuple[Name, ...] = get_args(Name)
EVERY: tuple[tuple[tuple[Name, Fault], tuple[Name, Fault]], ...] = tuple(
    ((one, fault), (other, second))
    for one, other in itertools.combinations(NAMES, 2)
    for fault in FAULTS
    for second in FAULTS
)
ALL = os.environ.get("NFTOP_FAULT_PAIRS") == "all"
DEADLINE_S = 0.5
# How each peer is slow and how it lies, in its own words.
SLOW = {"dpdk": "slow", "ovs": "slow", "vpp": "lock", "pcm": "drip"}
INVALID = {"dpdk": "negative", "ovs": "garbage", "vpp": "wild", "pcm": "invalid"}


class FaultyHost:
    """A root with one peer of each source; time passes by `later`."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.root, self.proc = folder / "root", folder / "proc"
        self.proc.mkdir(parents=True)
        self._stack, self._skipped_ns = stack, 0
        self._peers: dict[str, Any] = {}
        self._own: dict[str, ExitStack] = {}
        self._faulty: set[str] = set()
        for name in NAMES:
            self.start(name)
        pcm = Address("127.0.0.1", self.pcm.port)
        near = {"deadline_s": DEADLINE_S, "clock": self._now_ns}
        self.sampler = Sampler(
            [
                DpdkSource(self.root, self.proc, {}, **near),  # type: ignore[arg-type]
                OvsSource(self.root, self.proc, {}, **near),  # type: ignore[arg-type]
                VppSource(self.root, environ={}, **near),  # type: ignore[arg-type]
                PcmSource(pcm, limit_s=DEADLINE_S, clock=self._now_ns),
            ]
        )
        stack.callback(self.sampler.close)

    @property
    def pcm(self) -> PcmPeer:
        peer: PcmPeer = self._peers["pcm"]
        return peer

    def _now_ns(self) -> int:
        return time.monotonic_ns() + self._skipped_ns

    def later(self) -> None:
        """Whatever is tried again after a while is; a VPP that works has updated its segment."""
        self._skipped_ns += 100 * 10**9
        if "vpp" not in self._faulty:
            self._peers["vpp"].do("beat")

    def start(self, name: Name) -> None:
        """Start a peer, in place of the one before."""
        if name == "pcm" and "pcm" in self._peers:
            self.pcm.behaviour = "well"
            return
        own = self._own[name] = self._stack.enter_context(ExitStack())
        peers: Mapping[str, Callable[[], Any]] = {
            "dpdk": lambda: telemetry_peer(self.root / "run/dpdk/nfa"),
            "ovs": lambda: unixctl_peer(self.root / "run/openvswitch"),
            "vpp": lambda: vpp_peer(self.root / "run/vpp"),
            "pcm": pcm_server,
        }
        peer = self._peers[name] = own.enter_context(peers[name]())
        if name in ("dpdk", "ovs"):
            (self.proc / str(peer.pid)).mkdir()
            for item in ("stat", "comm"):
                (self.proc / str(peer.pid) / item).symlink_to(f"/proc/{peer.pid}/{item}")

    @contextlib.contextmanager
    def fault(self, name: Name, fault: Fault) -> Iterator[None]:
        """A fault of a peer; afterwards it is well again."""
        self._faulty.add(name)
        with self._fault(name, fault):
            yield
        self._faulty.discard(name)

    @contextlib.contextmanager
    def _fault(self, name: Name, fault: Fault) -> Iterator[None]:
        if name == "pcm":
            ways = {"killed": "close", "hung": "slow", "slow": "drip", "lying": INVALID["pcm"]}
            self.pcm.behaviour = ways.get(fault, "half")
            self.pcm.released.clear()
            yield
            self.pcm.released.set()
            self.pcm.behaviour = "well"
            return
        peer = self._peers[name]
        if fault == "hung":
            with peer.stopped():
                yield
        elif fault in ("killed", "restarted"):
            self._own[name].close()
            if fault == "restarted":
                self.start(name)
            yield
            if fault == "killed":
                self.start(name)
        else:
            behave = peer.do if name == "vpp" else peer.behave
            behave((SLOW if fault == "slow" else INVALID)[name])
            yield
            if name == "vpp":
                self._own[name].close()
                self.start(name)
            else:
                behave("normal")

    def working(self) -> set[str]:
        """Sources whose reading of just now has numbers of its peer and no problem."""
        began_ns = time.monotonic_ns()
        readings = self.sampler.sample(1.0, 2 * DEADLINE_S + 0.2).readings
        return {
            name
            for name, reading in readings.items()
            if reading.read_at_ns > began_ns and self._works(name, reading.value)
        }

    def _works(self, name: str, value: Any) -> bool:
        if isinstance(value, Missing):
            return False
        if name == "pcm":
            return isinstance(value, PcmTable)
        fields = {"dpdk": "apps", "ovs": "switches", "vpp": "instances"}
        rows = [
            item for item in getattr(value, fields[name]) if item.socket.startswith(str(self.root))
        ]
        return any(item.problem is None and item.pid == self._peers[name].pid for item in rows)

    def until_working(self, wanted: set[str]) -> None:
        """Step the clock ever more rarely: a step kills a process that has not answered yet."""
        began_s = time.monotonic()
        pause_s, step_s = 0.5, began_s
        while not wanted <= (now := self.working()):
            now_s = time.monotonic()
            assert now_s < began_s + LONGEST_S, (wanted, now)
            if now_s >= step_s:
                self.later()
                step_s, pause_s = now_s + pause_s, 2 * pause_s


@pytest.mark.parametrize("number", range(len(EVERY) if ALL else 4))
def test_two_faults_cost_two_sources_and_no_other(number: int, tmp_path: Path) -> None:
    first, second = EVERY[number] if ALL else random.SystemRandom().choice(EVERY)
    print(first, second)  # shown if it fails
    with ExitStack() as stack:
        host = FaultyHost(tmp_path, stack)
        host.until_working(set(NAMES))
        others = set[str](NAMES) - {first[0], second[0]}
        with host.fault(*first), host.fault(*second):
            for _ in range(3):
                host.until_working(others)
        host.until_working(set(NAMES))


@pytest.mark.parametrize("name", NAMES)
def test_a_fault_is_noticed(name: Name, tmp_path: Path) -> None:
    with ExitStack() as stack:
        host = FaultyHost(tmp_path, stack)
        host.until_working(set(NAMES))
        with host.fault(name, "lying"):
            host.later()
            host.working()
            host.later()
            assert name not in host.working()
        host.until_working(set(NAMES))
