"""A real Open vSwitch in a directory of its own, under /run; needs root, CPU 1, no NIC.

Either with DPDK, without hugepages and with null devices; or with dummy devices, into which a test
puts packets one by one.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from nftop.model.ids import Cpu
from tests.real.machine import bound_to

START_S = 60.0
SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
# Where Debian has the program, with and without DPDK.
DPDK = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
PLAIN = "/usr/lib/openvswitch-switch/ovs-vswitchd"
_DUMMY = ("--enable-dummy=override", "--disable-system")
# In one memory of its own; hugepages would be this machine's to give.
_EAL = "--no-pci --no-huge --legacy-mem -m 512 --file-prefix {prefix}"
FLOW = (
    "eth(src=50:54:00:00:00:09,dst=50:54:00:00:00:0a),eth_type(0x0800),"
    "ipv4(src=10.0.0.2,dst=10.0.0.1,proto=1,tos=0,ttl=64,frag=no),icmp(type=8,code=0)"
)


class Ovs:
    """A running ovs-vswitchd with its database.

    Attributes:
        rundir: of both. pid: of ovs-vswitchd itself. prefix: its EAL file prefix.
    """

    def __init__(self, rundir: Path, program: str, enter: Sequence[str]) -> None:
        self.rundir = rundir
        self.prefix = rundir.name
        self._program = program
        self._enter = list(enter)
        self._environment = {
            **os.environ,
            "OVS_RUNDIR": str(rundir),
            "OVS_LOGDIR": str(rundir),
            "OVS_DBDIR": str(rundir),
            "OVS_PKGDATADIR": "/usr/share/openvswitch",
        }
        self._database: subprocess.Popen[bytes] | None = None
        self._switch: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._switch is not None
        return self._switch.pid

    @property
    def socket(self) -> Path:
        """Its control socket."""
        return self.rundir / f"{Path(self._program).name}.{self.pid}.ctl"

    def start_database(self) -> None:
        self.run("ovsdb-tool", "create", f"{self.rundir}/conf.db", SCHEMA)
        self._database = self._begin(
            "ovsdb-server",
            f"{self.rundir}/conf.db",
            f"--remote=punix:{self.rundir}/db.sock",
            f"--unixctl={self.rundir}/database.ctl",
        )
        self._wait(self.rundir / "db.sock")
        self.vsctl("--no-wait", "init")

    def start(self, *options: str) -> None:
        """Start ovs-vswitchd, and wait until it answers."""
        # Its monitor would be another process; so is none.
        self._switch = self._begin(self._program, f"unix:{self.rundir}/db.sock", *options)
        self._wait(self.socket)
        self.vsctl("show")

    def run(self, *command: str) -> str:
        """Run a tool of its own to the end; returns what that printed."""
        try:
            done = subprocess.run(
                [*self._enter, *command],
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=START_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"{error}\n{self.log()}") from error
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)[:300]}: {done.stderr}\n{self.log()}")
        return done.stdout

    def vsctl(self, *arguments: str) -> str:
        return self.run("ovs-vsctl", f"--db=unix:{self.rundir}/db.sock", *arguments)

    def appctl(self, *arguments: str) -> str:
        return self.run("ovs-appctl", "-t", str(self.socket), *arguments)

    def log(self) -> str:
        path = self.rundir / "output"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def counts(self) -> dict[str, int]:
        """What its one PMD thread counts, in OVS' own words, by its own tool."""
        shown = [
            self.appctl(f"dpif-netdev/{command}").partition("main thread:")[0].splitlines()
            for command in ("pmd-perf-show", "pmd-stats-show")
        ]
        split = (line.strip(" -").partition(":") for lines in shown for line in lines)
        return {
            name: int(rest.split()[0])
            for name, _, rest in split
            if rest.split() and rest.split()[0].isdigit()
        }

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """SIGSTOP, from when its last thread has stopped: kill(2) does not wait for that."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL to ovs-vswitchd: its socket stays behind."""
        assert self._switch is not None
        self._switch.kill()
        self._switch.wait()

    def close(self) -> None:
        """End both, and remove what they leave behind."""
        for process in (self._switch, self._database):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        shutil.rmtree(self.rundir, ignore_errors=True)
        shutil.rmtree(f"/run/dpdk/{self.prefix}", ignore_errors=True)

    def _begin(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.rundir / "output").open("ab") as output:
            return subprocess.Popen(
                [*self._enter, *command],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def _wait(self, path: Path) -> None:
        end = time.monotonic() + START_S
        while not path.exists():
            for process in (self._database, self._switch):
                if time.monotonic() > end or (process is not None and process.poll() is not None):
                    raise RuntimeError(f"{path.name} did not come:\n{self.log()}")
            time.sleep(0.02)


@contextmanager
def _running(program: str, enter: Sequence[str]) -> Iterator[Ovs]:
    if someone := bound_to(Cpu(1)):
        pytest.skip(f"a PMD thread needs CPU 1 to itself, and {someone} is bound to it")
    # Both sides of a chroot have /run.
    ovs = Ovs(Path(tempfile.mkdtemp(prefix="nftop-ovs-", dir="/run")), program, enter)
    try:
        ovs.start_database()
        yield ovs
    finally:
        ovs.close()


@contextmanager
def dummy_ovs(program: str = PLAIN, enter: Sequence[str] = ()) -> Iterator[Ovs]:
    """Two dummy ports, p1 and p2, that one PMD thread on CPU 1 polls; it takes what comes.

    `enter` is what a command is run by (`["chroot", ...]`).
    """
    with _running(program, enter) as ovs:
        start_dummy(ovs)
        ports: list[str] = []
        for name in ("p1", "p2"):
            ports += ["--", "add-port", "br0", name, "--", "set", "int", name, "type=dummy-pmd"]
        ovs.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy", *ports)
        yield ovs


def start_dummy(ovs: Ovs) -> None:
    """Start the switch of `dummy_ovs`, or start it again."""
    ovs.start(*_DUMMY)


def inject(ovs: Ovs, packets: int) -> None:
    """Have port p1 of a `dummy_ovs` receive so many."""
    ovs.appctl("netdev-dummy/receive", "p1", *([FLOW] * packets))


@contextmanager
def dpdk_ovs(program: str = DPDK, enter: Sequence[str] = ()) -> Iterator[Ovs]:
    """A PMD thread on CPU 1 that receives as fast as it can on n0 and sends all of it on n1."""
    with _running(program, enter) as ovs:
        settings: Mapping[str, str] = {
            "dpdk-init": "true",
            "pmd-cpu-mask": "0x2",
            "dpdk-lcore-mask": "0x1",
            "dpdk-extra": _EAL.format(prefix=ovs.prefix),
        }
        reports = [f'other_config:{name}="{value}"' for name, value in settings.items()]
        ovs.vsctl("--no-wait", "set", "Open_vSwitch", ".", *reports)
        ovs.start()
        ports: list[str] = []
        for name, device in (("n0", "net_null0,size=64"), ("n1", "net_null1,no-rx=1")):
            ports += ["--", "add-port", "br0", name, "--", "set", "int", name, "type=dpdk"]
            ports += [f'options:dpdk-devargs="{device}"']
        ovs.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", *ports)
        ovs.run("ovs-ofctl", "del-flows", "br0")
        ovs.run("ovs-ofctl", "add-flow", "br0", "in_port=n0,actions=output:n1")
        yield ovs
