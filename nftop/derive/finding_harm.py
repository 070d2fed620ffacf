"""Rules of findings, the first part: what takes packets, time, cache or memory from a function."""

from __future__ import annotations

from nftop.derive.finding_measures import (
    drops,
    foreign_sibling,
    left,
    low_priority,
    of_cpu,
    others_here,
)
from nftop.derive.finding_rule import BUSY, LOADED, Only, Rule
from nftop.derive.finding_sources import RDT, STABLE, TALK
from nftop.derive.finding_traffic import (
    ddio_misses,
    memory_per_packet,
    noisy_neighbour,
    remote_share,
    uneven_channels,
)
from nftop.derive.gone import GONE_FOR_S
from nftop.model.catalogue_core import PAPER
from nftop.model.roles import POLLING_RATIO

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
        source=f"{PAPER}, 10.1, 1.3: tune the OS for low jitter, use isolcpus",
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
        source=f"{PAPER}, 10.1, 1.3: use isolcpus",
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
        source=f"{STABLE}: l3fwd with a stress load on the other hyper-thread; {PAPER}, 4.3.3",
        own="the source's numbers are in a picture. Both threads share the core's units; half of "
        "the time is taken, as for the mark beside SMT",
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
        source=f"{STABLE}: data plane threads on high-priority cores, control plane on the others",
        own="a core is one or the other; which it is is fixed in silicon",
        only=(LOADED, BUSY),
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
        source=f"{RDT}, 4: a memtester beside OVS takes 6 % of 64-byte packets and 31 % of "
        "large ones",
        own="the source's neighbour streams as fast as it can (some 12 GB/s a core). At 2 GB/s a "
        "cache of 30 MB could be filled anew 60 times a second",
        note="A neighbour is a class whose ways overlap, or a busy CPU in the class on which no "
        "network function polls; the traffic is that of its whole class.",
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
        title="memory traffic of a network function that should have none",
        metrics=("mbm_total_bytes_per_s",),
        scope="group",
        measure=memory_per_packet,
        limit=64.0,
        clear=48.0,
        form="{:.0f} bytes",
        text="moved {value} of memory for each packet, above {limit} ({nf})",
        source=f"{PAPER}, 4.4 and Table 6: close to 0 MB/s, 0.1 to 1.3 bytes a packet; 31 bytes "
        "where a million routes do not fit the cache",
        own="a line of the cache for each packet, twice what the paper's worst has",
        only=(
            Only("packets", 100_000.0, "it takes in 100,000 packets a second or more"),
            Only("traffic", 5e8, "its class moves 500 MB/s or more"),
        ),
        note="Measured per cache class, and only where nobody else works in it.",
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
        own="the sources have no number, and links carry snoops and the kernel's own data too; a "
        "tenth is more than those",
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
