"""Rules of findings, the second part: what makes packets dear, and what numbers don't mean."""

from __future__ import annotations

from nftop.derive.findings.inputs import core_ipc, empty_poll_ipc, of_core, sources_apart
from nftop.derive.findings.rule import BUSY, LOADED, TALK, Only, Rule
from nftop.derive.findings.traffic import of_package, partial_writes, register_writes
from nftop.model.metrics.core import PAPER

_ON_DEMAND = "Counted only while the Memory/PCIe screen is up, or for JSON."

COST: tuple[Rule, ...] = (
    Rule(
        id="low-ipc",
        title="few instructions per cycle",
        metrics=("core_ipc", "ipc"),
        scope="core",
        measure=core_ipc,
        limit=1.75,
        clear=1.85,
        beyond="below",
        form="{:.2f}",
        text="IPC {value} of the core, below {limit} ({nf})",
        source=f"{PAPER}, 10.2, 2.1: ensure that IPC is 1.75 or more; if not, latency of the "
        "caches or of memory constrains the core",
        only=(LOADED, BUSY),
        note="Of the physical core with all its hyper-threads, as the paper counts. testpmd and "
        "l3fwd, which do little but I/O, have 1.4 and 1.5 there without hyper-threading: see CPP "
        "and IPP before anything is changed.",
    ),
    Rule(
        id="mmio-writes",
        title="many writes to devices' registers",
        metrics=("mmio.write_per_s",),
        scope="package",
        measure=register_writes,
        limit=1e6,
        clear=0.9e6,
        form="{:.2f} M",
        scale=1e-6,
        text="{about}{value} writes/s to device registers for each polling core, above {limit}",
        source=f"{PAPER}, Table 17 (WiL): below 1 M/s per core is a good target; {TALK}: batch "
        "MMIO writes",
        note=f"Per physical core on which a network function polls. {_ON_DEMAND}",
    ),
    Rule(
        id="mmio-reads",
        title="reads of devices' registers",
        metrics=("mmio.read_per_s",),
        scope="package",
        measure=of_package("mmio.read_per_s"),
        limit=1000.0,
        clear=700.0,
        form="{:,.0f}",
        text="{about}{value} reads of device registers a second, above {limit}",
        source=f"{PAPER}, Table 17 (PRd): very low, a few hundreds; {TALK}: avoid MMIO reads",
        own="a few hundreds is no number; a thousand is more. Who asks a NIC for its statistics "
        "reads registers too, nftop among them",
        note=_ON_DEMAND,
    ),
    Rule(
        id="partial-writes",
        title="devices that write parts of cache lines",
        metrics=("pcie.rfo.total_per_s", "pcie.itomcachenear.total_per_s", "pcie.itom.total_per_s"),
        scope="package",
        measure=partial_writes,
        limit=0.50,
        clear=0.47,
        text="{about}{value} of devices' writes were of parts of lines (RFO), above {limit}",
        source=f"{PAPER}, Table 17 (RFO): minimize writes of parts of lines when possible; "
        f"{TALK}: reduce RFO",
        own="the sources have no number. With 64-byte frames the paper's l3fwd has 21 % (Figure "
        "24: 8.6 million of 41.6), and OVS at most 45 % (Table 7: 1.83 writes a packet, one of "
        "them the frame, the others of whole lines or of parts)",
        only=(Only("writes", 1e6, "devices write a million lines a second or more"),),
    ),
    Rule(
        id="frontend-bound",
        title="a core that waits for instructions",
        metrics=("tma.frontend_bound",),
        scope="core",
        measure=of_core("tma.frontend_bound"),
        limit=0.30,
        clear=0.27,
        text="{value} of the core's issue slots got no instruction, above {limit} ({nf})",
        source=f"{PAPER}, 6.4: expected below 30 % for well optimized workloads",
        only=(LOADED, BUSY),
    ),
    Rule(
        id="bad-speculation",
        title="a core that throws work away",
        metrics=("tma.bad_speculation",),
        scope="core",
        measure=of_core("tma.bad_speculation"),
        limit=0.05,
        clear=0.045,
        form="{:.1%}",
        text="{value} of the core's issue slots went to work thrown away, above {limit} ({nf})",
        source=f"{PAPER}, 6.3.1: where more than 5 % go to mispredicted branches, look for hot "
        "spots; 6.3: as low as possible; Table 11: with hyper-threading 0.4 to 4.7 %, of its "
        "network functions only OVS without hyper-threading has more, 7.4 %",
        only=(LOADED, BUSY),
        note="The paper's limit is for mispredicted branches. nftop compares all bad speculation, "
        "machine clears included (0.0 to 0.8 % in Table 11): level 1 is counted all the time, the "
        "mispredicts of level 2 are not. Screen 6 has both.",
    ),
    Rule(
        id="sources-apart",
        title="perf and a sensor server tell different numbers",
        metrics=("ipc", "memory.read_bytes_per_s"),
        scope="host",
        measure=sources_apart,
        limit=0.5,
        clear=0.5,
        text="{said}",
        when="they have differed by more than 5 % in five readings in a row",
        source="nftop: both count the same thing, so that one of the two numbers is not true",
        own="beyond what the two clocks, which are up to a second apart, explain",
        at_least_s=0.0,
    ),
    Rule(
        id="empty-polls",
        title="IPC of empty polls",
        metrics=("core_ipc", "busy_ratio"),
        scope="core",
        measure=empty_poll_ipc,
        limit=2.0,
        clear=1.9,
        form="{:.2f}",
        text="IPC {value} is of empty polls: work in {busy:.0%} of the time ({nf})",
        source=f"{PAPER}, 4.3.2.3: IPC goes artificially high in a tight loop that polls",
        own="the source calls below 2 low; from 2 on IPC looks good, and here it means nothing",
        only=(Only("idle", 0.95, "95 % of its time or more went to empty polls"),),
        note="Nothing is wrong: it says that IPC is not to be read as efficiency.",
        is_note=True,
    ),
)
