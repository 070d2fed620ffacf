"""Rules of findings, the first part: what takes packets, time, cache or memory from a function."""

from __future__ import annotations

from nftop.derive.findings.inputs import (
    drops,
    foreign_sibling,
    left,
    low_priority,
    of_cpu,
    others_here,
)
from nftop.derive.findings.rule import BUSY, LOADED, RDT, STABLE, TALK, Only, Rule
from nftop.derive.findings.traffic import (
    ddio_misses,
    memory_per_packet,
    noisy_neighbour,
    remote_share,
    uneven_channels,
)
from nftop.derive.nf.departures import GONE_FOR_S
from nftop.model.metrics.core import PAPER
from nftop.model.nf.kinds import POLLING_RATIO

HARM: tuple[Rule, ...] = (
    Rule(
        id="gone",
        title="a network function that is gone",
        metrics=("rx_packets_per_s",),
        scope="nf",
        measure=left,
        limit=0.0,
        clear=0.0,
        text="pid {pid} was here until {until}",
        when="its source answers, and in three ticks has not told of it any more; it ends after "
        f"{GONE_FOR_S:g} s, or where it is told of again",
        source="nftop: of what has left there are no numbers, and no row is easily overlooked",
        own="a process that ends, and one that takes its statistics away and stays, look the same",
        at_least_s=0.0,
        note="Nothing is said while its source is late, fails or may not be read.",
    ),
    Rule(
        id="drops",
        title="packets dropped",
        metrics=("drop_packets_per_s",),
        scope="nf",
        measure=drops,
        limit=0.0,
        clear=0.0,
        form="{:,.0f}",
        text="{value} packets/s dropped, {why}",
        source="DPDK ethdev rx_missed_errors, and of the kernel softnet_stat too; nftop explain "
        "drop_packets_per_s",
        own="any packet that is dropped is one too many",
    ),
    Rule(
        id="poller-waits",
        title="a poller that waits for its CPU",
        metrics=("wait_ratio",),
        scope="cpu",
        measure=of_cpu("wait_ratio"),
        limit=0.05,
        clear=0.03,
        form="{:.1%}",
        text="waited for its CPU {value} of the time, above {limit} ({nf})",
        source=f"{PAPER}, 10.1, 1.3: tune the OS for low jitter, use isolcpus when possible",
        own="the source has no number. Of a core at full load every share that something else "
        "takes is lost; nftop takes 5 %, from which the map has marked it too",
    ),
    Rule(
        id="shared-cpu",
        title="a poller's CPU on which another thread never sleeps",
        metrics=("run_ratio",),
        scope="cpu",
        measure=others_here,
        limit=0.0,
        clear=0.0,
        text="{who} here beside {nf}",
        when="a second thread that is bound to its CPU, of a network function (it polls) or of any "
        f"other program (it spins), runs or waits to run {POLLING_RATIO:.0%} of the time or more, "
        "for 5 s",
        source=f"{PAPER}, 10.1, 1.3: use isolcpus when possible",
        own="a poller never sleeps, so it and the other take turns. As many programs may share the "
        "CPU as like, as long as they sleep most of the time: see poller-waits",
    ),
    Rule(
        id="busy-sibling",
        title="another program on the hyper-thread sibling",
        metrics=("cpu_time_ratio",),
        scope="cpu",
        measure=foreign_sibling,
        limit=0.5,
        clear=0.4,
        text="its sibling, cpu {sibling}, is {value} busy with another program than {nf}",
        source=f"{STABLE}: l3fwd with a stress load on the other hyper-thread; {PAPER}, 4.3.3.2: "
        "both threads share the core's units",
        own="the talk's numbers are in a picture, and the paper has none of another program on the "
        "sibling; half of the time is taken, as for the mark beside SMT",
        note="A sibling that polls for the same network function is none: that is how the paper "
        "measured hyper-threading.",
    ),
    Rule(
        id="low-priority-core",
        title="a poller on a low-priority core (SST-BF)",
        metrics=("base_frequency_hz",),
        scope="core",
        measure=low_priority,
        limit=0.5,
        clear=0.5,
        when="its core has one of the lower base frequencies of its package",
        text="a low-priority core: base {base_ghz:.1f} GHz, {best_ghz:.1f} GHz on others of its "
        "package ({nf})",
        source=f"{STABLE}: OVS-DPDK's six PMD threads on the six high-priority cores (2.7 GHz), "
        "ovs-vswitchd and the virtual machines on low-priority ones (2.1 GHz), also the cores on "
        "which VPP forwards in those machines",
        own="a core is one or the other; which it is is fixed in silicon",
        only=(LOADED, BUSY),
        note="Which poller needs the faster cores is the operator's choice: a package has fewer of "
        "them than an SST-BF host usually has pollers, and in the talk's own setup this finding "
        "would name the cores of VPP.",
    ),
    Rule(
        id="noisy-neighbour",
        title="a noisy neighbour in the same cache ways",
        metrics=("mbm_total_bytes_per_s",),
        scope="group",
        measure=noisy_neighbour,
        limit=2e9,
        clear=1.5e9,
        form="{:.1f} GB/s",
        scale=1e-9,
        text="{value} of memory traffic by {who}, above {limit} (beside {nf})",
        source=f"{RDT}, Tables 9, 14 and 19, with a memtester and without CAT against neither: "
        "64-byte packets per second unchanged in all three (within 0.002 %), 256 bytes 3.7 % and "
        "7.2 % less behind one virtual machine, 1024 and 1518 bytes 34 % and 31 % less behind two; "
        "no other loss",
        own="the source does not say how much its memtester moved; the streaming neighbours of "
        f"{STABLE} move 13 GB/s a core. At 2 GB/s a cache of 30 MB could be filled anew 60 times a "
        "second",
        note="A neighbour is a class whose ways overlap, or a busy CPU in the class on which no "
        "network function polls; the traffic is that of its whole class. Whether it costs anything "
        "depends on the cache that the network function needs. The source's text says that 64-byte "
        "packets lost just under 6 % to the memtester; Table 9 has that number (-5.8 %) in the "
        "column with CAT.",
    ),
    Rule(
        id="ddio-misses",
        title="writes of devices that miss the cache",
        metrics=("pcie.ddio_hit_ratio",),
        scope="package",
        measure=ddio_misses,
        limit=0.05,
        clear=0.03,
        form="{:.1%}",
        text="{about}{value} of devices' writes missed the last-level cache, above {limit}",
        source=f"{PAPER}, Table 17: aim for a high ItoM hit count (Figure 23: 100 %); {TALK}: "
        "avoid DDIO miss",
        own="the sources have no number; the paper's l3fwd missed none at 29.8 Mpps, so 5 % is far "
        "from what it took for good",
        only=(Only("writes", 1e6, "devices write a million lines a second or more"),),
    ),
    Rule(
        id="nf-memory",
        title="memory traffic of a network function",
        metrics=("mbm_total_bytes_per_s",),
        scope="group",
        measure=memory_per_packet,
        limit=64.0,
        clear=48.0,
        form="{:.0f} bytes",
        text="moved {value} of memory for each packet, above {limit} ({nf})",
        source=f"{PAPER}, 4.4 and Table 6 (64-byte frames): close to 0 MB/s in most cases, 0.1 to "
        "1.3 bytes a packet; 31 bytes with VPP's IPv4 routing of 500,000 flows, for which no cause "
        "is given",
        own="a line of the cache for each packet, twice what the table's highest has",
        only=(
            Only("packets", 100_000.0, "it takes in 100,000 packets a second or more"),
            Only("traffic", 5e8, "its class moves 500 MB/s or more"),
        ),
        note="Measured per cache class, and only where nobody else works in it. The paper has "
        "larger frames once: VPP's router with 1518 bytes moves 11.9 GB/s of memory (Figure 21), "
        "at a rate that it does not give.",
    ),
    Rule(
        id="cross-socket",
        title="traffic between sockets",
        metrics=("upi.received_bytes_per_s",),
        scope="package",
        measure=remote_share,
        limit=0.10,
        clear=0.07,
        text="{about}{value} of what its memory and devices move came from other packages, above "
        "{limit}",
        source=f"{PAPER}, 9.2: close to zero for NUMA optimized applications; {TALK}: any of it "
        "hurts latency",
        own="the sources have no number. A tenth, since the kernel's and other programs' data "
        "cross the links too; requests and snoops are not in it (nftop explain "
        "upi.received_bytes_per_s)",
        only=(Only("received", 1e8, "100 MB/s or more come over its links"),),
    ),
    Rule(
        id="uneven-channels",
        title="memory channels that are not used alike",
        metrics=("memory.read_bytes_per_s", "memory.write_bytes_per_s"),
        scope="package",
        measure=uneven_channels,
        limit=1.5,
        clear=1.3,
        form="{:.1f}",
        text="memory channel {channel} has {value} times the mean of the channels, above {limit}",
        source=f"{PAPER}, 10.2, 2.3: ensure that all channels are uniformly used",
        own="the source has no number. Lines are spread over the channels in turn, so that equal "
        "ones get equal shares; half as much again is far from that",
        only=(Only("traffic", 1e9, "they move 1 GB/s or more together"),),
        note="A channel that counts nothing has no memory behind it, and is left out.",
    ),
)
