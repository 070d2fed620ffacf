"""An OVS and a VPP on a host without a PMU, tick by tick, for the tests of the fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nftop.model.ids import Cpu
from nftop.model.nf.ovs import OvsPmd, OvsQueue, OvsSwitch, OvsTable
from nftop.model.nf.vpp import VppInstance, VppInterfaces, VppNodes, VppTable, VppThread
from nftop.model.sample import Sample
from nftop.model.threads import ThreadRow
from tests.derive.scene import TSC_HZ
from tests.samples import S, cpu_times, sample, thread, threads, tsc_only

PID = 300


def host(second: float, *rows: ThreadRow, **payloads: Any) -> Sample:
    """A host of four CPUs and only a TSC at `second`, with these threads and sources."""
    at_ns = int(second * S)
    return sample(
        at_ns,
        perf=tsc_only({cpu: int(TSC_HZ * second) for cpu in range(4)}, enabled_ns=at_ns),
        kernel=cpu_times({cpu: {"idle": int(100 * second)} for cpu in range(4)}),
        processes=threads(*rows),
        **payloads,
    )


def pmd(core: int, **counts: Any) -> OvsPmd:
    """A PMD thread of OVS 3.5 with one queue; what is not named is absent."""
    row = OvsPmd(
        core=Cpu(core),
        numa=0,
        rx_packets=None,
        tx_packets=None,
        used_cycles=None,
        busy_cycles=None,
        sleep_us=None,
        upcalls=None,
        lost_upcalls=None,
        queues=(OvsQueue(f"dpdk{core}", 0, True, None),),
        overhead_ratio=None,
    )
    return replace(row, **counts)


def working(core: int, second: float, pps: int, busy: float, **changes: Any) -> OvsPmd:
    """It has taken `pps` packets a second since 0 and was busy for this share of the time."""
    reports = {
        "rx_packets": int(pps * second),
        "tx_packets": int(pps * second),
        "used_cycles": int(TSC_HZ * second),
        "busy_cycles": int(TSC_HZ * busy * second),
        "sleep_us": 0,
        "upcalls": 1,
        "lost_upcalls": 0,
    }
    return pmd(core, **{**reports, **changes})


def switch(second: float, *pmds: OvsPmd, **changes: Any) -> OvsSwitch:
    row = OvsSwitch(
        pid=PID,
        start_ticks=4000,
        name="ovs-vswitchd",
        rundir="/var/run/openvswitch",
        socket=f"/var/run/openvswitch/ovs-vswitchd.{PID}.ctl",
        version="3.5.0",
        problem=None,
        pmds=pmds,
        usage_window_s=5.0,
        read_at_ns=int(second * S),
        took_ns=1000,
    )
    return replace(row, **changes)


def pmd_thread(core: int, second: float, *, run: float = 1.0, wait: float = 0.0) -> ThreadRow:
    return thread(
        pid=PID,
        tid=PID + core,
        comm=f"pmd-c{core:02}/id:8",
        program="ovs-vswitchd",
        role="ovs_pmd",
        role_index=core,
        allowed=(Cpu(core),),
        last_cpu=Cpu(core),
        run_ns=int(run * second * S),
        wait_ns=int(wait * second * S),
    )


def ovs(second: float, *pmds: OvsPmd, **changes: Any) -> Sample:
    """One OVS whose PMD threads spin."""
    rows = (pmd_thread(item.core, second) for item in pmds)
    return host(second, *rows, ovs=OvsTable((switch(second, *pmds, **changes),)))


NODES = ("dpdk-input", "ethernet-input", "ip4-lookup")


def nodes(*workers: Mapping[str, tuple[int, int, int]]) -> VppNodes:
    """Clocks, vectors and calls by node of each worker; the main thread's are all 0."""
    table = np.zeros((len(workers) + 1, len(NODES), 3), dtype=np.uint64)
    for index, reports in enumerate(workers, 1):
        for name, counts in reports.items():
            table[index, NODES.index(name)] = counts
    return VppNodes(NODES, table[:, :, 0], table[:, :, 1], table[:, :, 2])


def full_frames(second: float, pps: int, busy: float) -> dict[str, tuple[int, int, int]]:
    """One queue's nodes: all of the busy time in frames of 256, half of it in the input node."""
    packets, clocks = int(pps * second), int(TSC_HZ * busy * second)
    calls = packets // 256
    return {
        "dpdk-input": (clocks // 2, packets, calls),
        "ethernet-input": (clocks // 4, packets, calls),
        "ip4-lookup": (clocks // 4, packets, calls),
    }


def instance(
    second: float, packets: Mapping[int, int], reports: VppNodes | None = None, **changes: Any
) -> VppInstance:
    """A VPP whose thread n has received `packets[n]` on eth0 and sent them on eth1."""
    names = ("local0", "eth0", "eth1")
    received = np.zeros((max(packets, default=0) + 1, 3), dtype=np.uint64)
    sent, missed = np.zeros_like(received), np.zeros_like(received)
    for index, count in packets.items():
        received[index, 1] = sent[index, 2] = count
    row = VppInstance(
        pid=PID,
        start_ticks=4000,
        name="vpp",
        socket="/run/vpp/stats.sock",
        version="26.06",
        problem=None,
        heartbeat=int(second),
        threads=tuple(VppThread(n, None, 1 if n else 0, None, None) for n in range(len(received))),
        interfaces=VppInterfaces(names, received, sent, missed, np.zeros_like(received)),
        nodes=reports,
        read_at_ns=int(second * S),
        took_ns=1000,
    )
    return replace(row, **changes)


def vpp_thread(index: int, second: float, *, run: float = 1.0, wait: float = 0.0) -> ThreadRow:
    """Thread `index` of VPP on the CPU of that number."""
    return thread(
        pid=PID,
        tid=PID + index,
        comm=f"vpp_wk_{index - 1}" if index else "vpp_main",
        program="vpp_main",
        role="vpp_worker" if index else "vpp_main",
        role_index=index - 1 if index else None,
        allowed=(Cpu(index),),
        last_cpu=Cpu(index),
        run_ns=int(run * second * S),
        wait_ns=int(wait * second * S),
        voluntary=0 if run + wait >= 1.0 else int(10 * second),  # the rest of the time it slept
    )


def vpp(second: float, one: VppInstance) -> Sample:
    """One VPP whose workers spin and whose main thread sleeps."""
    rows = (vpp_thread(item.index, second, run=1.0 if item.index else 0.01) for item in one.threads)
    return host(second, *rows, vpp=VppTable((one,)))
